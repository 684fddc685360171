// Functions of other libraries of Apple's that clients of Metal call.

#import <Foundation/Foundation.h>

#import "../support.h"
#import "library.h"
#import "library_file.h"
#import "object.h"

// Clients ask for the display because that has the frameworks loaded.
#pragma GCC visibility push(default)

uint32_t CGMainDisplayID(void)
{
    return 1;
}

// The data is copied, so that a destructor can be called at once.
id dispatch_data_create(const void *bytes, size_t count, id queue, void *destructor)
{
    prepare_thread();
    NSData *made = [[NSData alloc] initWithBytes:bytes length:count];
    if (destructor) ((void (*)(void *))((struct block_literal *)destructor)->invoke)(destructor);
    return made;
}

void dispatch_release(id object)
{
    prepare_thread();
    [object release];
}

void dispatch_retain(id object)
{
    prepare_thread();
    [object retain];
}

// The compiler that Metal itself sends texts to.

void *MTLCodeGenServiceCreate(const char *name)
{
    static char service;
    return &service;
}

#pragma GCC visibility pop

// A request of type 13: the sizes of a text and of a compiler's options, and both, ended by zeros.
struct request {
    uint64_t source_bytes, option_bytes;
    char texts[];
};
enum { COMPILE = 13 };

// Before the library, a reply has its own size up to there, and that of warnings.
struct reply {
    uint32_t unknown[2], head_bytes, warning_bytes;
};

typedef void (*answer)(void *block, int32_t error, const void *data, size_t bytes, const char *message);

static msl_options options_of(const char *options)
{
    msl_options made = {
        .math_mode = strstr(options, "-fno-fast-math") ? MTLMathModeSafe : MTLMathModeFast
    };
    const char *standard = strstr(options, "-std="), *version = standard ? strstr(standard, "metal") : NULL;
    unsigned major, minor;
    if (version && sscanf(version, "metal%u.%u", &major, &minor) == 2) made.language_version = major * 100 + minor * 10;
    return made;
}

static BOOL is_whole(const struct request *request, size_t bytes)
{
    if (bytes < sizeof *request) return NO;
    size_t texts = bytes - sizeof *request;
    return request->source_bytes && request->source_bytes <= texts && request->option_bytes &&
           request->option_bytes <= texts - request->source_bytes && !request->texts[request->source_bytes - 1] &&
           !request->texts[request->source_bytes + request->option_bytes - 1];
}

static void compile(const struct request *request, void *block)
{
    msl_options options = options_of(request->texts + request->source_bytes);
    char *error = NULL;
    msl_library *library = msl_compile(request->texts, &options, &error);
    if (!library) {
        call_block(block, answer, 1, NULL, 0, error ? error : "the text does not compile");
        msl_free(error);
        return;
    }
    NSData *data = new_data_of_library(library);
    struct reply head = {.head_bytes = sizeof head};
    NSMutableData *reply = [[NSMutableData alloc] initWithBytes:&head length:sizeof head];
    [reply appendData:data];
    call_block(block, answer, 0, [reply bytes], [reply length], NULL);
    [reply release];
    [data release];
    msl_release(library);
}

#pragma GCC visibility push(default)

void MTLCodeGenServiceBuildRequest(void *service, void *unused, uint32_t type, const struct request *request,
                                   size_t bytes, void *block)
{
    prepare_thread();
    NSAutoreleasePool *pool = [NSAutoreleasePool new];
    if (type != COMPILE || !is_whole(request, bytes))
        call_block(block, answer, 1, NULL, 0, "the compiler was sent a request that it does not know");
    else
        compile(request, block);
    [pool release];
}

#pragma GCC visibility pop
