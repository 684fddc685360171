#import "archive.h"

#import "../support.h"
#import "accessors.h"
#import "device.h"

static NSString *const header = @"softmetal binary archive 1";

@implementation MTLBinaryArchiveDescriptor

- (void)dealloc
{
    [url release];
    [super dealloc];
}

- (id)copyWithZone:(NSZone *)zone
{
    MTLBinaryArchiveDescriptor *made = [MTLBinaryArchiveDescriptor new];
    made->url = [url copy];
    return made;
}

OBJECT(NSURL, url, setUrl, copy)

@end

@implementation SMBinaryArchive

+ (id)newWithDevice:(SMDevice *)owner descriptor:(MTLBinaryArchiveDescriptor *)given error:(NSError **)error
{
    if (![MTLBinaryArchiveDescriptor check:given])
        return fail_with(error, MTLLibraryErrorUnsupported, @"there is no MTLBinaryArchiveDescriptor");
    NSAutoreleasePool *pool = [NSAutoreleasePool new];
    NSMutableSet *found = [[NSMutableSet alloc] init];
    NSString *wrong = nil;
    if (given->url) {
        NSString *text = [NSString stringWithContentsOfFile:[given->url path]];
        NSArray *lines = [text componentsSeparatedByString:@"\n"];
        if (![[lines objectAtIndex:0] isEqualToString:header])
            wrong = [[NSString alloc] initWithFormat:@"%@ is no binary archive", [given->url path]];
        else
            [found addObjectsFromArray:lines];
    }
    [pool release];
    if (wrong) {
        [found release];
        return fail_with(error, MTLLibraryErrorFileNotFound, [wrong autorelease]);
    }
    SMBinaryArchive *made = [[self alloc] initWithDevice:owner];
    made->names = found;
    return made;
}

- (void)dealloc
{
    [names release];
    [super dealloc];
}

- (BOOL)has:(SMFunction *)function
{
    return [names containsObject:[function fingerprint]];
}

- (NSInteger)addComputePipelineFunctionsWithDescriptor:(MTLComputePipelineDescriptor *)given error:(NSError **)error
{
    SMPipeline *made = [SMPipeline newWithDevice:device descriptor:given error:error];
    if (!made) return NO;
    [made release];
    [names addObject:[given->computeFunction fingerprint]];
    return YES;
}

- (NSInteger)serializeToURL:(NSURL *)url error:(NSError **)error
{
    NSArray *sorted = [[names allObjects] sortedArrayUsingSelector:@selector(compare:)];
    NSString *text = [NSString stringWithFormat:@"%@\n%@", header, [sorted componentsJoinedByString:@"\n"]];
    if ([names count] && [text writeToFile:[url path] atomically:YES]) return YES;
    fail_with(error, MTLLibraryErrorInternal, [NSString stringWithFormat:@"nothing can be written to %@", [url path]]);
    return NO;
}

@end
