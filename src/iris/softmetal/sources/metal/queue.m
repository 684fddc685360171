#import "queue.h"

#import "../support.h"
#import "accessors.h"
#import "command_buffer.h"
#include "completion.h"
#import "device.h"
#import "report.h"
#import "worker.h"

@interface MTLCommandBufferDescriptor : SMObject {
@public
    NSInteger retainedReferences;
    NSUInteger errorOptions;
}
@end

@implementation MTLCommandBufferDescriptor

- (id)init
{
    self = [super init];
    retainedReferences = YES;
    return self;
}

FLAG(retainedReferences, setRetainedReferences)
NUMBER(errorOptions, setErrorOptions)

@end

// Who waited, and then counts what lives, finds nothing of what ran.
static void run(void *buffer)
{
    prepare_thread();
    NSAutoreleasePool *pool = [NSAutoreleasePool new];
    struct completion *completion = [(SMCommandBuffer *)buffer completion];
    completion_retain(completion);
    [(SMCommandBuffer *)buffer run];
    [(SMCommandBuffer *)buffer release];
    [pool release];
    completion_happen(completion);
    completion_release(completion);
}

@implementation SMQueue

- (id)initWithDevice:(SMDevice *)owner most:(NSUInteger)count
{
    self = [super initWithDevice:owner];
    worker = worker_new();
    changed = [NSCondition new];
    most = count;
    return self;
}

- (void)dealloc
{
    worker_end(worker);
    [changed release];
    free(places);
    [super dealloc];
}

- (BOOL)waitForOne
{
    NSAutoreleasePool *pool = [NSAutoreleasePool new];
    NSDate *end = [NSDate dateWithTimeIntervalSinceNow:seconds_allowed()];
    BOOL more = YES;
    while (unfinished >= most && more) more = [changed waitUntilDate:end];
    [pool release];
    return unfinished < most;
}

// Metal waits, for ever if need be, until one of the others has finished.
- (BOOL)takeOne
{
    [changed lock];
    BOOL taken = unfinished < most || [self waitForOne];
    if (taken) ++unfinished;
    [changed unlock];
    if (!taken) report(@"the command queue %@has %lu command buffers already, and none finishes", quoted(label), most);
    return taken;
}

- (void)didFinish
{
    [changed lock];
    --unfinished;
    [changed signal];
    [changed unlock];
}

- (id)commandBufferThatRetains:(NSInteger)retains
{
    return [self takeOne] ? autoreleased([[SMCommandBuffer alloc] initWithQueue:self retains:retains]) : nil;
}

- (id)commandBuffer
{
    return [self commandBufferThatRetains:YES];
}

- (id)commandBufferWithUnretainedReferences
{
    return [self commandBufferThatRetains:NO];
}

- (id)commandBufferWithDescriptor:(MTLCommandBufferDescriptor *)descriptor
{
    if (![MTLCommandBufferDescriptor check:descriptor]) {
        report(@"commandBufferWithDescriptor: is given no MTLCommandBufferDescriptor");
        return nil;
    }
    return [self commandBufferThatRetains:descriptor->retainedReferences];
}

- (void)insertDebugCaptureBoundary
{
}

- (void)place:(SMCommandBuffer *)buffer
{
    for (NSUInteger i = 0; i < placeCount; ++i) {
        if (places[i] == buffer) return;
    }
    places = realloc(places, (placeCount + 1) * sizeof *places);
    places[placeCount++] = buffer;
}

- (void)remove:(NSUInteger)at
{
    memmove(places + at, places + at + 1, (--placeCount - at) * sizeof *places);
}

- (void)start
{
    while (placeCount && [places[0] isCommitted]) {
        worker_do(worker, run, places[0]);
        [self remove:0];
    }
}

- (void)enqueue:(SMCommandBuffer *)buffer
{
    [changed lock];
    [self place:buffer];
    [changed unlock];
}

- (void)commit:(SMCommandBuffer *)buffer
{
    [buffer retain];
    [changed lock];
    [self place:buffer];
    [self start];
    [changed unlock];
}

- (void)forget:(SMCommandBuffer *)buffer
{
    [changed lock];
    for (NSUInteger i = 0; i < placeCount; ++i) {
        if (places[i] != buffer) continue;
        [self remove:i];
        break;
    }
    [self start];
    [changed unlock];
}

- (unsigned long)nextNumber
{
    return __atomic_add_fetch(&started, 1, __ATOMIC_RELAXED);
}

@end
