#import "command_buffer.h"

#import "../support.h"
#import "blit_encoder.h"
#import "capture.h"
#include "completion.h"
#import "compute_encoder.h"
#import "device.h"
#import "event.h"
#import "report.h"

@implementation SMCommandBuffer

- (id)initWithQueue:(SMQueue *)owner retains:(NSInteger)flag
{
    self = [super initWithDevice:[owner device]];
    queue = [owner retain];
    commands = [NSMutableArray new];
    kept = [NSMutableSet new];
    if (!flag) borrowed = NSCreateHashTable(NSNonOwnedPointerHashCallBacks, 0);
    pthread_mutex_init(&mutex, NULL);
    pthread_cond_init(&changed, NULL);
    completion = completion_new();
    capture = capture_now();
    return self;
}

- (void)dealloc
{
    if (![self isCommitted]) {
        if ([commands count]) report(@"the command buffer %@is released, and was never committed", quoted(label));
        [queue forget:self];
        [queue didFinish];
    }
    [queue release];
    [commands release];
    [scheduledHandlers release];
    [completedHandlers release];
    [kept release];
    if (borrowed) NSFreeHashTable(borrowed);
    [error release];
    pthread_mutex_destroy(&mutex);
    pthread_cond_destroy(&changed);
    completion_release(completion);
    [super dealloc];
}

- (id)commandQueue
{
    return given(queue);
}

- (NSInteger)retainedReferences
{
    return !borrowed;
}

- (NSUInteger)errorOptions
{
    return 0;
}

- (id)logs
{
    return nil;
}

// Encoding.

- (void)refuse:(NSString *)text
{
    if ([self isCommitted]) {
        report(@"the command buffer %@was committed before: %@", quoted(label), text);
        return;
    }
    if (!error) error = [error_of(MTLCommandBufferErrorDomain, MTLCommandBufferErrorInvalidResource, text) retain];
}

- (void)add:(SMCommand *)command
{
    [commands addObject:command];
}

- (void)own:(id)object
{
    [kept addObject:object];
}

- (void)keep:(id)object
{
    if (borrowed)
        NSHashInsert(borrowed, object);
    else
        [self own:object];
}

// Whether something may be encoded now; if not, it is told.
- (BOOL)canEncode:(SEL)selector
{
    if ([self isCommitted])
        report(@"%s is sent to the command buffer %@after it was committed", sel_getName(selector), quoted(label));
    else if (encoder)
        [self refuse:[NSString stringWithFormat:@"%s comes before the encoder %@has ended", sel_getName(selector),
                                                quoted([encoder label])]];
    return ![self isCommitted] && !encoder;
}

- (id)beginEncoder:(SMEncoder *)made
{
    encoder = made;
    return autoreleased(made);
}

- (id)computeCommandEncoderWithDispatchType:(NSUInteger)type
{
    if (![self canEncode:_cmd]) return nil;
    return [self beginEncoder:[[SMComputeEncoder alloc] initWithCommandBuffer:self type:type]];
}

- (id)computeCommandEncoder
{
    return [self computeCommandEncoderWithDispatchType:MTLDispatchTypeSerial];
}

- (id)computeCommandEncoderWithDescriptor:(MTLComputePassDescriptor *)descriptor
{
    if (![self canEncode:_cmd]) return nil;
    if (![MTLComputePassDescriptor check:descriptor]) return [self computeCommandEncoder];
    SMComputeEncoder *made = [[SMComputeEncoder alloc] initWithCommandBuffer:self type:descriptor->dispatchType];
    [made sample:[descriptor->sampleBufferAttachments all]];
    return [self beginEncoder:made];
}

- (id)blitCommandEncoder
{
    if (![self canEncode:_cmd]) return nil;
    return [self beginEncoder:[[SMBlitEncoder alloc] initWithCommandBuffer:self]];
}

- (void)didEnd:(SMEncoder *)finishedEncoder
{
    if (encoder == finishedEncoder) encoder = nil;
}

- (void)encode:(SEL)selector event:(SMEvent *)event value:(uint64_t)value waits:(BOOL)waits
{
    if (![self canEncode:selector]) return;
    if (![SMEvent check:event]) {
        [self refuse:[NSString stringWithFormat:@"%s is given no event", sel_getName(selector)]];
        return;
    }
    [self own:event];
    SMEventCommand *made = [SMEventCommand new];
    made->event = event;
    made->value = value;
    made->waits = waits;
    [self add:made];
    [made release];
}

- (void)encodeSignalEvent:(SMEvent *)event value:(uint64_t)value
{
    [self encode:_cmd event:event value:value waits:NO];
}

- (void)encodeWaitForEvent:(SMEvent *)event value:(uint64_t)value
{
    [self encode:_cmd event:event value:value waits:YES];
}

- (void)pushDebugGroup:(NSString *)name
{
}

- (void)popDebugGroup
{
}

- (void)addHandler:(void *)handler to:(NSMutableArray **)handlers name:(SEL)selector
{
    if ([self isCommitted] || !handler) {
        report(@"%s comes after the command buffer %@was committed, or with no handler", sel_getName(selector),
               quoted(label));
        return;
    }
    if (!*handlers) *handlers = [NSMutableArray new];
    [*handlers addObject:[NSValue valueWithPointer:handler]];
}

- (void)addScheduledHandler:(void *)handler
{
    [self addHandler:handler to:&scheduledHandlers name:_cmd];
}

- (void)addCompletedHandler:(void *)handler
{
    [self addHandler:handler to:&completedHandlers name:_cmd];
}

// Its states.

- (NSUInteger)status
{
    pthread_mutex_lock(&mutex);
    NSUInteger found = status;
    pthread_mutex_unlock(&mutex);
    return found;
}

- (void)setStatus:(NSUInteger)now
{
    pthread_mutex_lock(&mutex);
    status = now;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

- (BOOL)isCommitted
{
    return [self status] >= MTLCommandBufferStatusCommitted;
}

- (NSError *)error
{
    pthread_mutex_lock(&mutex);
    // What is wrong with it is told when its turn comes, as a GPU would.
    NSError *found = status >= MTLCommandBufferStatusCompleted ? [error retain] : nil;
    pthread_mutex_unlock(&mutex);
    return autoreleased(found);
}

- (void)failWith:(NSError *)reason
{
    pthread_mutex_lock(&mutex);
    if (!error) error = [reason retain];
    if (status == MTLCommandBufferStatusCompleted) status = MTLCommandBufferStatusError;
    pthread_mutex_unlock(&mutex);
}

- (void)enqueue
{
    if ([self status] != MTLCommandBufferStatusNotEnqueued) {
        report(@"the command buffer %@is enqueued twice", quoted(label));
        return;
    }
    [self setStatus:MTLCommandBufferStatusEnqueued];
    [queue enqueue:self];
}

- (void)commit
{
    if ([self isCommitted]) {
        report(@"the command buffer %@is committed twice", quoted(label));
        return;
    }
    if (encoder)
        [self refuse:[NSString stringWithFormat:@"the command buffer is committed before its encoder %@has ended",
                                                quoted([encoder label])]];
    encoder = nil;
    committed = seconds_now();
    [self setStatus:MTLCommandBufferStatusCommitted];
    capture_add(capture, label, commands);
    [queue commit:self];
}

- (void)call:(NSMutableArray *)handlers
{
    for (NSUInteger i = 0; i < [handlers count]; ++i) {
        void *block = [[handlers objectAtIndex:i] pointerValue];
        call_block(block, void (*)(void *, id), self);
    }
}

// While it runs, what the client should keep is retained all the same, for there to be no accident; what
// is wrong then is told.
- (NSString *)takeBorrowed
{
    NSString *wrong = nil;
    NSHashEnumerator each = NSEnumerateHashTable(borrowed);
    for (id one; (one = NSNextHashEnumeratorItem(&each));) {
        if (is_live(one, [SMObject class]))
            [self own:one];
        else
            wrong = @"what it refers to is deallocated, and the command buffer was told not to retain it";
    }
    NSEndHashTableEnumeration(&each);
    return wrong;
}

- (NSString *)giveBackBorrowed
{
    NSString *wrong = nil;
    NSHashEnumerator each = NSEnumerateHashTable(borrowed);
    for (id one; (one = NSNextHashEnumeratorItem(&each));) {
        if ([one retainCount] == 1)
            wrong = @"what it refers to was released while it ran, and the command buffer was told not to retain it";
    }
    NSEndHashTableEnumeration(&each);
    return wrong;
}

- (NSError *)runCommands
{
    NSString *refused = borrowed ? [self takeBorrowed] : nil;
    NSError *wrong = refused ? failure(refused) : nil;
    if (!wrong) {
        unsigned long number = [queue nextNumber];
        wrong = run_commands(commands, seed_now() + (number << 20));
        NSString *released = borrowed && !wrong ? [self giveBackBorrowed] : nil;
        if (released) wrong = failure(released);
    }
    if (!wrong || ![label length]) return wrong;
    return with_more(wrong, [NSString stringWithFormat:@" (command buffer '%@')", label]);
}

- (void)run
{
    runner = pthread_self();
    [self setStatus:MTLCommandBufferStatusScheduled];
    [self call:scheduledHandlers];
    started = seconds_now();
    work_begins();
    NSError *wrong = error ? nil : [self runCommands];
    work_ends();
    ended = seconds_now();
    if (wrong) [self failWith:wrong];
    // What it refers to is no longer needed.
    [commands removeAllObjects];
    [kept removeAllObjects];
    [self setStatus:error ? MTLCommandBufferStatusError : MTLCommandBufferStatusCompleted];
    [queue didFinish];
    [self call:completedHandlers];
}

- (struct completion *)completion
{
    return completion;
}

- (BOOL)canWait:(SEL)selector
{
    if (![self isCommitted])
        report(@"%s is sent to the command buffer %@before it was committed", sel_getName(selector), quoted(label));
    return [self isCommitted];
}

- (void)waitUntilScheduled
{
    if (![self canWait:_cmd]) return;
    pthread_mutex_lock(&mutex);
    while (status < MTLCommandBufferStatusScheduled) pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
}

// Until its handlers have been called, unless one of them asks.
- (void)waitUntilCompleted
{
    if (![self canWait:_cmd]) return;
    pthread_mutex_lock(&mutex);
    BOOL inside = status >= MTLCommandBufferStatusScheduled && pthread_equal(runner, pthread_self());
    pthread_mutex_unlock(&mutex);
    if (!inside) completion_wait(completion);
}

- (double)kernelStartTime
{
    return committed;
}

- (double)kernelEndTime
{
    return started;
}

- (double)GPUStartTime
{
    return started;
}

- (double)GPUEndTime
{
    return ended;
}

@end
