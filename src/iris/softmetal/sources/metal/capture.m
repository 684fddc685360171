#import "capture.h"

#include <pthread.h>

#import "accessors.h"
#import "command.h"
#import "encoder.h"
#import "metal.h"
#import "pipeline.h"
#import "report.h"

enum { MTLCaptureDestinationDeveloperTools = 1, MTLCaptureDestinationGPUTraceDocument = 2 };
enum { MTLCaptureErrorNotSupported = 1, MTLCaptureErrorAlreadyCapturing, MTLCaptureErrorInvalidDescriptor };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned long count, now;
static NSMutableString *written;
static NSString *path;

unsigned long capture_now(void)
{
    return __atomic_load_n(&now, __ATOMIC_RELAXED);
}

static NSString *words_of(SMCommand *command)
{
    if (![command isKindOfClass:[SMDispatch class]]) return NSStringFromClass([command class]);
    SMDispatch *dispatch = (SMDispatch *)command;
    return [NSString stringWithFormat:@"%s %@", msl_function_name(dispatch->launch.function),
                                      quoted([dispatch->pipeline label])];
}

void capture_add(unsigned long number, NSString *label, NSArray *commands)
{
    if (!number) return;
    NSAutoreleasePool *pool = [NSAutoreleasePool new];
    pthread_mutex_lock(&mutex);
    if (number == now) {
        [written appendFormat:@"command buffer %@\n", quoted(label)];
        for (SMPass *pass in commands) {
            if (![pass isKindOfClass:[SMPass class]]) continue;
            [written appendFormat:@"  encoder %@\n", quoted(pass->label)];
            for (SMCommand *command in pass->commands) [written appendFormat:@"    %@\n", words_of(command)];
        }
    }
    pthread_mutex_unlock(&mutex);
    [pool release];
}

@implementation MTLCaptureDescriptor

- (id)init
{
    self = [super init];
    destination = MTLCaptureDestinationDeveloperTools;
    return self;
}

- (void)dealloc
{
    [captureObject release];
    [outputURL release];
    [super dealloc];
}

OBJECT(NSObject, captureObject, setCaptureObject, retain)
OBJECT(NSURL, outputURL, setOutputURL, copy)
NUMBER(destination, setDestination)

@end

@implementation MTLCaptureManager

+ (MTLCaptureManager *)sharedCaptureManager
{
    static MTLCaptureManager *made;
    pthread_mutex_lock(&mutex);
    if (!made) made = [self new];
    pthread_mutex_unlock(&mutex);
    return made;
}

- (NSInteger)supportsDestination:(NSInteger)destination
{
    const char *allowed = getenv("METAL_CAPTURE_ENABLED");
    return destination == MTLCaptureDestinationGPUTraceDocument && allowed && strcmp(allowed, "1") == 0;
}

- (NSInteger)isCapturing
{
    return capture_now() != 0;
}

- (NSInteger)startCaptureWithDescriptor:(MTLCaptureDescriptor *)given error:(NSError **)error
{
    NSInteger code = 0;
    NSString *target = nil;
    pthread_mutex_lock(&mutex);
    if (![MTLCaptureDescriptor check:given] || !given->captureObject)
        code = MTLCaptureErrorInvalidDescriptor;
    else if (![self supportsDestination:given->destination])
        code = MTLCaptureErrorNotSupported;
    else if (now)
        code = MTLCaptureErrorAlreadyCapturing;
    else {
        target = [given->outputURL path];
        NSFileManager *files = [NSFileManager defaultManager];
        if (!target || [files fileExistsAtPath:target] || ![files createFileAtPath:target contents:nil attributes:nil])
            code = MTLCaptureErrorInvalidDescriptor;
    }
    if (!code) {
        written = [NSMutableString new];
        path = [target copy];
        __atomic_store_n(&now, ++count, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&mutex);
    if (!code) return YES;
    NSString *text = [NSString stringWithFormat:@"a capture cannot start: %@",
                                                code == MTLCaptureErrorNotSupported       ? @"it is not supported"
                                                : code == MTLCaptureErrorAlreadyCapturing ? @"another one goes on"
                                                                                          : @"the descriptor is wrong"];
    if (error) *error = error_of(@"MTLCaptureError", code, text);
    return NO;
}

- (void)stopCapture
{
    pthread_mutex_lock(&mutex);
    if (!now) report(@"stopCapture is sent while nothing is captured");
    if (now && ![written writeToFile:path atomically:YES]) report(@"%@ cannot be written", path);
    __atomic_store_n(&now, 0, __ATOMIC_RELAXED);
    [written release];
    [path release];
    written = nil;
    path = nil;
    pthread_mutex_unlock(&mutex);
}

@end
