#import "compute_encoder.h"

#import "../support.h"
#import "accessors.h"
#import "device.h"
#import "event.h"
#import "indirect.h"
#import "report.h"

@implementation MTLComputePassDescriptor

+ (id)computePassDescriptor
{
    return autoreleased([self new]);
}

- (id)init
{
    self = [super init];
    sampleBufferAttachments = [MTLComputePassSampleBufferAttachmentDescriptorArray new];
    return self;
}

- (void)dealloc
{
    [sampleBufferAttachments release];
    [super dealloc];
}

- (id)sampleBufferAttachments
{
    return given(sampleBufferAttachments);
}

NUMBER(dispatchType, setDispatchType)

@end

// The memory of a setBytes:.
@interface SMBytes : NSObject {
@public
    void *start;
}
@end

@implementation SMBytes

- (void)dealloc
{
    guarded_few_free(start);
    [super dealloc];
}

@end

static BOOL is_zero(MTLSize size)
{
    return !size.width && !size.height && !size.depth;
}

SMDispatch *new_dispatch(const struct bindings *bindings, MTLSize grid, MTLSize per, BOOL grid_is_threads,
                         const uint32_t *sizes, NSString **wrong)
{
    const msl_function *function = [bindings->pipeline function];
    NSString *problem = [bindings->pipeline problemWithThreads:per];
    NSUInteger grids[] = {grid.width, grid.height, grid.depth}, pers[] = {per.width, per.height, per.depth};
    SMDispatch *made = [SMDispatch new];
    NSUInteger all = 1;
    for (int i = 0; i < 3 && !problem; ++i) {
        NSUInteger threads;
        if (__builtin_mul_overflow(grids[i], grid_is_threads ? 1 : pers[i], &threads) || threads > UINT32_MAX ||
            (!threads && !sizes) || __builtin_mul_overflow(all, threads, &all))
            problem = [NSString stringWithFormat:@"a grid of %lu x %lu x %lu", grid.width, grid.height, grid.depth];
        made->launch.threads[i] = (unsigned)threads;
        made->launch.threads_per_threadgroup[i] = (unsigned)pers[i];
    }
    if (problem) {
        *wrong = [NSString stringWithFormat:@"kernel '%s': %@", msl_function_name(function), problem];
        [made release];
        return nil;
    }
    made->pipeline = bindings->pipeline;
    made->sizes = sizes;
    made->launch.function = function;
    memcpy(made->launch.buffers, bindings->memory, sizeof bindings->memory);
    memcpy(made->launch.threadgroup_bytes, bindings->threadgroup_bytes, sizeof bindings->threadgroup_bytes);
    return made;
}

@implementation SMComputeEncoder

- (id)initWithCommandBuffer:(SMCommandBuffer *)owner type:(NSUInteger)type
{
    self = [super initWithCommandBuffer:owner];
    dispatchType = type;
    used = NSCreateHashTable(NSNonOwnedPointerHashCallBacks, 0);
    samples = [NSMutableArray new];
    return self;
}

- (void)dealloc
{
    NSFreeHashTable(used);
    [samples release];
    [super dealloc];
}

- (NSUInteger)dispatchType
{
    return dispatchType;
}

- (SMSample *)sample:(NSUInteger)index of:(SMCounterSampleBuffer *)buffer
{
    if (index == MTLCounterDontSample) return nil;
    if (![SMCounterSampleBuffer check:buffer] || index >= [buffer sampleCount]) {
        [commandBuffer refuse:[NSString stringWithFormat:@"an encoder samples at %lu, which is in no buffer", index]];
        return nil;
    }
    [commandBuffer own:buffer];
    SMSample *made = [[SMSample new] autorelease];
    made->buffer = buffer;
    made->index = index;
    return made;
}

- (void)sample:(NSArray *)attachments
{
    for (MTLComputePassSampleBufferAttachmentDescriptor *one in attachments) {
        if (!one->sampleBuffer) continue;
        SMSample *first = [self sample:one->startOfEncoderSampleIndex of:one->sampleBuffer];
        SMSample *last = [self sample:one->endOfEncoderSampleIndex of:one->sampleBuffer];
        if (first) [commandBuffer add:first];
        if (last) [samples addObject:last];
    }
}

- (void)endEncoding
{
    BOOL was = ended;
    [super endEncoding];
    for (SMSample *one in was ? nil : samples) [commandBuffer add:one];
}

- (SMCommand *)newPass
{
    SMPass *pass = (SMPass *)[super newPass];
    pass->concurrent = dispatchType == MTLDispatchTypeConcurrent;
    return pass;
}

- (void)setComputePipelineState:(SMPipeline *)pipeline
{
    if (![self canEncode:_cmd]) return;
    bindings.pipeline = [SMPipeline check:pipeline];
    if (bindings.pipeline)
        [commandBuffer own:pipeline];
    else
        [self refuse:_cmd format:@"%p is no pipeline, or none that is still there", pipeline];
}

// Arguments.

- (BOOL)canSet:(NSUInteger)index for:(SEL)selector
{
    if (![self canEncode:selector]) return NO;
    if (index >= MOST_BUFFERS) [self refuse:selector format:@"index %lu: there are %d", index, MOST_BUFFERS];
    return index < MOST_BUFFERS;
}

- (void)set:(SMBuffer *)buffer offset:(NSUInteger)offset at:(NSUInteger)index for:(SEL)selector
{
    if (![self canSet:index for:selector]) return;
    bindings.buffers[index] = nil;
    bindings.memory[index] = (msl_memory){0};
    if (!buffer || ![self buffer:buffer for:selector]) return;
    if (offset >= [buffer length]) {
        [self refuse:selector format:@"offset %lu is beyond the %@ (index %lu)", offset, [buffer words], index];
        return;
    }
    [commandBuffer keep:buffer];
    bindings.buffers[index] = buffer;
    bindings.memory[index] = (msl_memory){(char *)[buffer start] + offset, [buffer length] - offset};
}

- (void)setBuffer:(SMBuffer *)buffer offset:(NSUInteger)offset atIndex:(NSUInteger)index
{
    [self set:buffer offset:offset at:index for:_cmd];
}

- (void)setBufferOffset:(NSUInteger)offset atIndex:(NSUInteger)index
{
    if (![self canSet:index for:_cmd]) return;
    if (bindings.buffers[index])
        [self set:bindings.buffers[index] offset:offset at:index for:_cmd];
    else
        [self refuse:_cmd format:@"no buffer is bound at index %lu", index];
}

- (void)setBuffers:(const id *)buffers offsets:(const NSUInteger *)offsets withRange:(NSRange)range
{
    if (!buffers || !offsets) {
        [self refuse:_cmd format:@"there are no buffers or no offsets"];
        return;
    }
    for (NSUInteger i = 0; i < range.length && range.location + i <= MOST_BUFFERS; ++i)
        [self set:buffers[i] offset:offsets[i] at:range.location + i for:_cmd];
}

- (void)setBytes:(const void *)bytes length:(NSUInteger)length atIndex:(NSUInteger)index
{
    if (![self canSet:index for:_cmd]) return;
    bindings.buffers[index] = nil;
    bindings.memory[index] = (msl_memory){0};
    if (!bytes || !length || length > MOST_BYTES) {
        [self refuse:_cmd format:@"%lu bytes at index %lu: there can be 1 to %d", bytes ? length : 0, index,
                                 MOST_BYTES];
        return;
    }
    void *copy = guarded_few(length);
    if (!copy) {
        [self refuse:_cmd format:@"there is no memory for %lu bytes at index %lu", length, index];
        return;
    }
    memcpy(copy, bytes, length);
    SMBytes *made = [SMBytes new];
    made->start = copy;
    [commandBuffer own:made];
    [made release];
    bindings.memory[index] = (msl_memory){copy, length};
}

- (void)setThreadgroupMemoryLength:(NSUInteger)length atIndex:(NSUInteger)index
{
    if (![self canSet:index for:_cmd]) return;
    if (length % 16 || length > THREADGROUP_MEMORY) {
        [self refuse:_cmd format:@"%lu bytes at index %lu: a multiple of 16, and at most %d, can be had", length, index,
                                 THREADGROUP_MEMORY];
        return;
    }
    bindings.threadgroup_bytes[index] = (unsigned)length;
}

// Dispatches.

- (void)dispatch:(MTLSize)grid
             per:(MTLSize)per
       asThreads:(BOOL)grid_is_threads
           sizes:(const uint32_t *)sizes
             for:(SEL)selector
{
    if (!bindings.pipeline) {
        [self refuse:selector format:@"no pipeline is set"];
        return;
    }
    // Nothing at all, which some clients dispatch to have a pipeline known before they use it indirectly.
    if (!sizes && is_zero(grid) && is_zero(per)) return;
    NSString *wrong = nil;
    SMDispatch *made = new_dispatch(&bindings, grid, per, grid_is_threads, sizes, &wrong);
    if (wrong) [self refuse:selector format:@"%@", wrong];
    if (made) {
        made->launch.has_unbound = NSCountHashTable(used) > 0;
        [self add:made];
    }
    [made release];
}

- (void)dispatchThreadgroups:(MTLSize)groups threadsPerThreadgroup:(MTLSize)per
{
    if ([self canEncode:_cmd]) [self dispatch:groups per:per asThreads:NO sizes:NULL for:_cmd];
}

- (void)dispatchThreads:(MTLSize)threads threadsPerThreadgroup:(MTLSize)per
{
    if ([self canEncode:_cmd]) [self dispatch:threads per:per asThreads:YES sizes:NULL for:_cmd];
}

- (void)dispatchThreadgroupsWithIndirectBuffer:(SMBuffer *)buffer
                          indirectBufferOffset:(NSUInteger)offset
                         threadsPerThreadgroup:(MTLSize)per
{
    if (![self canEncode:_cmd]) return;
    if (offset % sizeof(uint32_t)) {
        [self refuse:_cmd format:@"offset %lu is no multiple of 4", offset];
        return;
    }
    msl_memory sizes = [self memory:buffer offset:offset bytes:3 * sizeof(uint32_t) for:_cmd];
    if (sizes.start) [self dispatch:(MTLSize){0} per:per asThreads:NO sizes:sizes.start for:_cmd];
}

// Order.

- (void)memoryBarrierWithScope:(NSUInteger)scope
{
    if (![self canEncode:_cmd]) return;
    SMBarrier *made = [SMBarrier new];
    [self add:made];
    [made release];
}

- (void)memoryBarrierWithResources:(const id *)resources count:(NSUInteger)count
{
    if (![self canEncode:_cmd]) return;
    NSMutableData *ranges = [NSMutableData new];
    for (NSUInteger i = 0; i < count; ++i) {
        SMBuffer *buffer = [self buffer:resources ? resources[i] : nil for:_cmd];
        if (!buffer) continue;
        msl_memory range = {[buffer start], [buffer length]};
        [ranges appendBytes:&range length:sizeof range];
    }
    SMBarrier *made = [SMBarrier new];
    made->ranges = ranges;
    [self add:made];
    [made release];
}

- (void)use:(id)resource usage:(NSUInteger)usage for:(SEL)selector
{
    if (![SMBuffer check:resource] && ![SMIndirectCommandBuffer check:resource]) {
        [self refuse:selector format:@"%p is no resource, or none that is still there", resource];
        return;
    }
    NSHashInsert(used, resource);
    [commandBuffer keep:resource];
}

- (void)useResource:(id)resource usage:(NSUInteger)usage
{
    if ([self canEncode:_cmd]) [self use:resource usage:usage for:_cmd];
}

- (void)useResources:(const id *)resources count:(NSUInteger)count usage:(NSUInteger)usage
{
    if (![self canEncode:_cmd]) return;
    for (NSUInteger i = 0; i < count; ++i) [self use:resources ? resources[i] : nil usage:usage for:_cmd];
}

- (void)executeCommandsInBuffer:(SMIndirectCommandBuffer *)indirect withRange:(NSRange)range
{
    if (![self canEncode:_cmd]) return;
    if (![SMIndirectCommandBuffer check:indirect]) {
        [self refuse:_cmd format:@"%p is no indirect command buffer, or none that is still there", indirect];
        return;
    }
    if (range.location > [indirect size] || range.length > [indirect size] - range.location) {
        [self refuse:_cmd format:@"%lu commands from %lu on, of %lu", range.length, range.location, [indirect size]];
        return;
    }
    [commandBuffer own:indirect];
    SMCommand *made = [indirect newCommandWithRange:range used:used bindings:&bindings];
    [self add:made];
    [made release];
}

@end
