#import "indirect.h"

#import "../support.h"
#import "accessors.h"
#import "device.h"
#import "report.h"

@implementation MTLIndirectCommandBufferDescriptor

- (id)init
{
    self = [super init];
    inheritPipelineState = inheritBuffers = YES;
    maxKernelBufferBindCount = maxKernelThreadgroupMemoryBindCount = MOST_BUFFERS;
    return self;
}

- (id)copyWithZone:(NSZone *)zone
{
    MTLIndirectCommandBufferDescriptor *made = [MTLIndirectCommandBufferDescriptor new];
    made->commandTypes = commandTypes;
    made->maxKernelBufferBindCount = maxKernelBufferBindCount;
    made->maxKernelThreadgroupMemoryBindCount = maxKernelThreadgroupMemoryBindCount;
    made->maxVertexBufferBindCount = maxVertexBufferBindCount;
    made->maxFragmentBufferBindCount = maxFragmentBufferBindCount;
    made->inheritPipelineState = inheritPipelineState;
    made->inheritBuffers = inheritBuffers;
    return made;
}

NUMBER(commandTypes, setCommandTypes)
NUMBER(maxKernelBufferBindCount, setMaxKernelBufferBindCount)
NUMBER(maxKernelThreadgroupMemoryBindCount, setMaxKernelThreadgroupMemoryBindCount)
NUMBER(maxVertexBufferBindCount, setMaxVertexBufferBindCount)
NUMBER(maxFragmentBufferBindCount, setMaxFragmentBufferBindCount)
FLAG(inheritPipelineState, setInheritPipelineState)
FLAG(inheritBuffers, setInheritBuffers)

@end

@implementation SMIndirectContents

- (void)dealloc
{
    [pipeline release];
    [super dealloc];
}

- (void)clear
{
    [pipeline release];
    pipeline = nil;
    memset(&bindings, 0, sizeof bindings);
    dispatches = barrier = NO;
}

- (void)copyTo:(SMIndirectContents *)other
{
    if (other == self) return;
    [other clear];
    other->pipeline = [pipeline retain];
    other->bindings = bindings;
    other->grid = grid;
    other->per = per;
    other->dispatches = dispatches;
    other->grid_is_threads = grid_is_threads;
    other->barrier = barrier;
}

@end

// A range of the commands, as an encoder runs it.
@interface SMIndirectRun : SMCommand {
@public
    SMIndirectCommandBuffer *owner;  // the command buffer keeps it
    NSRange range;
    NSHashTable *used;
    struct bindings inherited;
}
@end

@implementation SMIndirectRun

- (void)dealloc
{
    __atomic_sub_fetch(&owner->running, 1, __ATOMIC_RELAXED);
    NSFreeHashTable(used);
    [super dealloc];
}

// Nil, without anything wrong: the command is empty.
- (SMDispatch *)newDispatchOf:(SMIndirectContents *)one wrong:(NSString **)wrong
{
    if (!one->dispatches) return nil;
    MTLIndirectCommandBufferDescriptor *descriptor = owner->descriptor;
    struct bindings all = one->bindings;
    all.pipeline = descriptor->inheritPipelineState ? inherited.pipeline : one->pipeline;
    if (descriptor->inheritBuffers) memcpy(all.memory, inherited.memory, sizeof all.memory);
    if (!all.pipeline) {
        *wrong = @"no pipeline is set";
        return nil;
    }
    if (![all.pipeline supportIndirectCommandBuffers]) {
        *wrong = [NSString stringWithFormat:@"kernel '%s': the pipeline was not made to support indirect command "
                                            @"buffers",
                                            msl_function_name([all.pipeline function])];
        return nil;
    }
    for (NSUInteger i = 0; i < MOST_BUFFERS; ++i) {
        if (!one->bindings.buffers[i] || NSHashGet(used, one->bindings.buffers[i])) continue;
        *wrong = [NSString stringWithFormat:@"kernel '%s': the encoder was not told to use the buffer at index %lu",
                                            msl_function_name([all.pipeline function]), i];
        return nil;
    }
    SMDispatch *made = new_dispatch(&all, one->grid, one->per, one->grid_is_threads, NULL, wrong);
    if (made) made->launch.has_unbound = YES;
    return made;
}

- (NSError *)runWithSeed:(unsigned long)seed
{
    NSMutableArray *all = [NSMutableArray array];
    for (NSUInteger i = 0; i < range.length; ++i) {
        SMIndirectContents *one = [owner->contents objectAtIndex:range.location + i];
        NSString *wrong = nil;
        SMDispatch *made = [self newDispatchOf:one wrong:&wrong];
        if (wrong)
            return failure([NSString stringWithFormat:@"command %lu of an indirect command buffer: %@", i, wrong]);
        if (one->barrier) [all addObject:[[SMBarrier new] autorelease]];
        if (made) [all addObject:[made autorelease]];
    }
    return run_concurrently(all, seed);
}

// What its commands use is not known before it runs.
- (BOOL)touches:(msl_memory)range
{
    return YES;
}

@end

// What a blit encoder does to commands.
@interface SMIndirectChange : SMCommand {
@public
    NSArray *from, *to;  // `from` is nil: to be emptied
}
@end

@implementation SMIndirectChange

- (void)dealloc
{
    [from release];
    [to release];
    [super dealloc];
}

- (NSError *)runWithSeed:(unsigned long)seed
{
    for (NSUInteger i = 0; i < [to count]; ++i) {
        if (from)
            [[from objectAtIndex:i] copyTo:[to objectAtIndex:i]];
        else
            [[to objectAtIndex:i] clear];
    }
    return nil;
}

@end

@implementation SMIndirectCommandBuffer

+ (id)newWithDevice:(SMDevice *)owner descriptor:(MTLIndirectCommandBufferDescriptor *)given count:(NSUInteger)count
{
    const NSUInteger known = MTLIndirectCommandTypeConcurrentDispatch | MTLIndirectCommandTypeConcurrentDispatchThreads;
    if (![MTLIndirectCommandBufferDescriptor check:given]) {
        report(@"an indirect command buffer needs an MTLIndirectCommandBufferDescriptor");
        return nil;
    }
    if (!count || !given->commandTypes || given->commandTypes & ~known ||
        given->maxKernelBufferBindCount > MOST_BUFFERS) {
        report(@"an indirect command buffer of %lu commands of the types %lu with %lu buffers each: there must be "
               @"some, which dispatch, with at most %d buffers",
               count, given->commandTypes, given->maxKernelBufferBindCount, MOST_BUFFERS);
        return nil;
    }
    SMIndirectCommandBuffer *made = [[self alloc] initWithDevice:owner];
    made->descriptor = [given copy];
    made->contents = [[NSMutableArray alloc] initWithCapacity:count];
    for (NSUInteger i = 0; i < count; ++i) {
        SMIndirectContents *one = [SMIndirectContents new];
        [made->contents addObject:one];
        [one release];
    }
    return made;
}

- (void)dealloc
{
    [descriptor release];
    [contents release];
    [super dealloc];
}

- (NSUInteger)size
{
    return [contents count];
}

- (uint64_t)gpuResourceID
{
    return (uintptr_t)self;
}

- (id)indirectComputeCommandAtIndex:(NSUInteger)index
{
    if (index >= [contents count]) {
        report(@"command %lu of an indirect command buffer of %lu", index, [contents count]);
        return nil;
    }
    SMIndirectContents *one = [contents objectAtIndex:index];
    return autoreleased([[SMIndirectCommand alloc] initWithOwner:self contents:one]);
}

- (void)resetWithRange:(NSRange)range
{
    if (range.location > [contents count] || range.length > [contents count] - range.location) {
        report(@"resetWithRange: of %lu commands from %lu on, of %lu", range.length, range.location, [contents count]);
        return;
    }
    NSAutoreleasePool *pool = [NSAutoreleasePool new];
    for (NSUInteger i = 0; i < range.length; ++i)
        [(SMIndirectCommand *)[self indirectComputeCommandAtIndex:range.location + i] reset];
    [pool release];
}

- (SMCommand *)newCommandWithRange:(NSRange)range
                              used:(NSHashTable *)used
                          bindings:(const struct bindings *)inherited
{
    __atomic_add_fetch(&running, 1, __ATOMIC_RELAXED);
    SMIndirectRun *made = [SMIndirectRun new];
    made->owner = self;
    made->range = range;
    made->used = NSCopyHashTableWithZone(used, NULL);
    made->inherited = *inherited;
    return made;
}

- (SMCommand *)newResetOfRange:(NSRange)range
{
    SMIndirectChange *made = [SMIndirectChange new];
    made->to = [[contents subarrayWithRange:range] retain];
    return made;
}

- (SMCommand *)newCopyOfRange:(NSRange)range to:(SMIndirectCommandBuffer *)destination at:(NSUInteger)index
{
    SMIndirectChange *made = [SMIndirectChange new];
    made->from = [[contents subarrayWithRange:range] retain];
    made->to = [[destination->contents subarrayWithRange:NSMakeRange(index, range.length)] retain];
    return made;
}

@end

@implementation SMIndirectCommand

- (id)initWithOwner:(SMIndirectCommandBuffer *)buffer contents:(SMIndirectContents *)given
{
    self = [super initWithDevice:[buffer device]];
    owner = [buffer retain];
    contents = [given retain];
    return self;
}

- (void)dealloc
{
    [owner release];
    [contents release];
    [super dealloc];
}

// The GPU may read it at any time until then.
- (void)willChange:(SEL)selector
{
    if (__atomic_load_n(&owner->running, __ATOMIC_RELAXED))
        report(@"%s is sent to a command of the indirect command buffer %@while a command buffer that runs it has not "
               @"completed",
               sel_getName(selector), quoted([owner label]));
}

- (void)reset
{
    [self willChange:_cmd];
    [contents clear];
}

- (void)setComputePipelineState:(SMPipeline *)given
{
    [self willChange:_cmd];
    if (![SMPipeline check:given]) {
        report(@"setComputePipelineState: of an indirect command: %p is no pipeline", given);
        return;
    }
    if (![given supportIndirectCommandBuffers])
        report(@"setComputePipelineState: of an indirect command: the pipeline of '%s' was not made to support "
               @"indirect command buffers",
               msl_function_name([given function]));
    if (owner->descriptor->inheritPipelineState)
        report(@"setComputePipelineState: of an indirect command, which was made to inherit it");
    [given retain];
    [contents->pipeline release];
    contents->pipeline = given;
}

- (void)setKernelBuffer:(SMBuffer *)buffer offset:(NSUInteger)offset atIndex:(NSUInteger)index
{
    [self willChange:_cmd];
    if (index >= owner->descriptor->maxKernelBufferBindCount || owner->descriptor->inheritBuffers) {
        report(@"setKernelBuffer: at index %lu of an indirect command, of which %lu can be set", index,
               owner->descriptor->inheritBuffers ? 0 : owner->descriptor->maxKernelBufferBindCount);
        return;
    }
    contents->bindings.buffers[index] = nil;
    contents->bindings.memory[index] = (msl_memory){0};
    if (![SMBuffer check:buffer] || offset >= [buffer length]) {
        report(@"setKernelBuffer: at index %lu of an indirect command: %p at offset %lu is no buffer, or beyond its "
               @"end",
               index, buffer, offset);
        return;
    }
    contents->bindings.buffers[index] = buffer;
    contents->bindings.memory[index] = (msl_memory){(char *)[buffer start] + offset, [buffer length] - offset};
}

- (void)setThreadgroupMemoryLength:(NSUInteger)length atIndex:(NSUInteger)index
{
    [self willChange:_cmd];
    if (index >= owner->descriptor->maxKernelThreadgroupMemoryBindCount || length % 16 || length > THREADGROUP_MEMORY) {
        report(@"setThreadgroupMemoryLength: %lu bytes at index %lu of an indirect command: a multiple of 16, and at "
               @"most %d, can be had",
               length, index, THREADGROUP_MEMORY);
        return;
    }
    contents->bindings.threadgroup_bytes[index] = (unsigned)length;
}

- (void)dispatch:(MTLSize)size per:(MTLSize)threads asThreads:(BOOL)as_threads type:(NSUInteger)type for:(SEL)selector
{
    [self willChange:selector];
    if (!(owner->descriptor->commandTypes & type))
        report(@"%s is sent to a command of an indirect command buffer that was made without that type of commands",
               sel_getName(selector));
    contents->grid = size;
    contents->per = threads;
    contents->grid_is_threads = as_threads;
    contents->dispatches = YES;
}

- (void)concurrentDispatchThreadgroups:(MTLSize)groups threadsPerThreadgroup:(MTLSize)threads
{
    [self dispatch:groups
               per:threads
         asThreads:NO
              type:MTLIndirectCommandTypeConcurrentDispatch
               for:_cmd];
}

- (void)concurrentDispatchThreads:(MTLSize)size threadsPerThreadgroup:(MTLSize)threads
{
    [self dispatch:size
               per:threads
         asThreads:YES
              type:MTLIndirectCommandTypeConcurrentDispatchThreads
               for:_cmd];
}

- (void)setBarrier
{
    [self willChange:_cmd];
    contents->barrier = YES;
}

- (void)clearBarrier
{
    [self willChange:_cmd];
    contents->barrier = NO;
}

@end
