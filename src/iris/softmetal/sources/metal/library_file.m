#import "library_file.h"

// Clients look at the first four bytes and at the last.
static const char begin[4] = "MTLB", end[4] = "ENDT";

NSData *new_data_of_library(const msl_library *library)
{
    unsigned long count;
    const void *bytes = msl_library_bytes(library, &count);
    NSMutableData *made = [[NSMutableData alloc] initWithCapacity:count + sizeof begin + sizeof end];
    [made appendBytes:begin length:sizeof begin];
    [made appendBytes:bytes length:count];
    [made appendBytes:end length:sizeof end];
    return made;
}

msl_library *library_of_data(NSData *data, char **error)
{
    const char *bytes = [data bytes];
    NSUInteger length = [data length];
    if (length < sizeof begin + sizeof end || memcmp(bytes, begin, sizeof begin) ||
        memcmp(bytes + length - sizeof end, end, sizeof end)) {
        *error = strdup("the data is no Metal library, or not all of one");
        return NULL;
    }
    return msl_open_bytes(bytes + sizeof begin, length - sizeof begin - sizeof end, error);
}
