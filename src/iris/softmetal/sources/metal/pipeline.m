#import "pipeline.h"

#import "../support.h"
#import "accessors.h"
#import "device.h"

@interface MTLPipelineBufferDescriptor : SMObject {
    NSUInteger mutability;
}
@end

@implementation MTLPipelineBufferDescriptor

NUMBER(mutability, setMutability)

@end

@interface MTLPipelineBufferDescriptorArray : SMObject {
    MTLPipelineBufferDescriptor *each[MOST_BUFFERS];
}
@end

@implementation MTLPipelineBufferDescriptorArray

- (void)dealloc
{
    for (int i = 0; i < MOST_BUFFERS; ++i) [each[i] release];
    [super dealloc];
}

- (id)objectAtIndexedSubscript:(NSUInteger)index
{
    if (index >= MOST_BUFFERS) return nil;
    if (!each[index]) each[index] = [MTLPipelineBufferDescriptor new];
    return each[index];
}

@end

@implementation MTLComputePipelineDescriptor

- (id)init
{
    self = [super init];
    maxCallStackDepth = 1;
    buffers = [MTLPipelineBufferDescriptorArray new];
    return self;
}

- (void)dealloc
{
    [label release];
    [computeFunction release];
    [binaryArchives release];
    [buffers release];
    [super dealloc];
}

- (id)copyWithZone:(NSZone *)zone
{
    MTLComputePipelineDescriptor *made = [MTLComputePipelineDescriptor new];
    made->label = [label copy];
    made->computeFunction = [computeFunction retain];
    made->threadGroupSizeIsMultipleOfThreadExecutionWidth = threadGroupSizeIsMultipleOfThreadExecutionWidth;
    made->supportIndirectCommandBuffers = supportIndirectCommandBuffers;
    made->supportAddingBinaryFunctions = supportAddingBinaryFunctions;
    made->maxTotalThreadsPerThreadgroup = maxTotalThreadsPerThreadgroup;
    made->maxCallStackDepth = maxCallStackDepth;
    made->binaryArchives = [binaryArchives copy];
    return made;
}

- (void)reset
{
    [self setLabel:nil];
    [self setComputeFunction:nil];
    [self setBinaryArchives:nil];
    threadGroupSizeIsMultipleOfThreadExecutionWidth = supportIndirectCommandBuffers = supportAddingBinaryFunctions = NO;
    maxTotalThreadsPerThreadgroup = 0;
    maxCallStackDepth = 1;
}

- (id)buffers
{
    return buffers;
}

OBJECT(NSString, label, setLabel, copy)
OBJECT(SMFunction, computeFunction, setComputeFunction, retain)
OBJECT(NSArray, binaryArchives, setBinaryArchives, copy)
FLAG(threadGroupSizeIsMultipleOfThreadExecutionWidth, setThreadGroupSizeIsMultipleOfThreadExecutionWidth)
FLAG(supportIndirectCommandBuffers, setSupportIndirectCommandBuffers)
FLAG(supportAddingBinaryFunctions, setSupportAddingBinaryFunctions)
NUMBER(maxTotalThreadsPerThreadgroup, setMaxTotalThreadsPerThreadgroup)
NUMBER(maxCallStackDepth, setMaxCallStackDepth)

@end

@implementation SMPipeline

+ (id)newWithDevice:(SMDevice *)owner
         descriptor:(MTLComputePipelineDescriptor *)descriptor
              error:(NSError **)place
{
    if (![MTLComputePipelineDescriptor check:descriptor])
        return fail_with(place, MTLLibraryErrorUnsupported, @"there is no MTLComputePipelineDescriptor");
    if (![SMFunction check:descriptor->computeFunction])
        return fail_with(place, MTLLibraryErrorUnsupported, @"a pipeline needs a compute function");
    if (descriptor->maxTotalThreadsPerThreadgroup > MOST_THREADS) {
        NSString *text = [NSString stringWithFormat:@"a pipeline of %lu threads per threadgroup: there are at most %d",
                                                    descriptor->maxTotalThreadsPerThreadgroup, MOST_THREADS];
        return fail_with(place, MTLLibraryErrorUnsupported, text);
    }
    unsigned bytes = msl_function_threadgroup_bytes([descriptor->computeFunction function]);
    if (bytes > THREADGROUP_MEMORY) {
        NSString *text = [NSString stringWithFormat:@"'%@' has %u bytes of threadgroup memory: there are at most %d",
                                                    [descriptor->computeFunction name], bytes, THREADGROUP_MEMORY];
        return fail_with(place, MTLLibraryErrorUnsupported, text);
    }
    return [[self alloc] initWithDevice:owner descriptor:descriptor];
}

- (id)initWithDevice:(SMDevice *)owner descriptor:(MTLComputePipelineDescriptor *)descriptor
{
    self = [super initWithDevice:owner];
    label = [descriptor->label copy];
    function = [descriptor->computeFunction retain];
    NSUInteger asked = descriptor->maxTotalThreadsPerThreadgroup;
    NSUInteger written = msl_function_max_threads([function function]);
    mostThreads = MIN(asked ? asked : MOST_THREADS, written ? written : MOST_THREADS);
    whole = descriptor->threadGroupSizeIsMultipleOfThreadExecutionWidth;
    indirect = descriptor->supportIndirectCommandBuffers;
    return self;
}

- (void)dealloc
{
    [function release];
    [super dealloc];
}

- (const msl_function *)function
{
    return [function function];
}

- (NSUInteger)maxTotalThreadsPerThreadgroup
{
    return mostThreads;
}

- (NSUInteger)threadExecutionWidth
{
    return SIMDGROUP;
}

- (NSUInteger)staticThreadgroupMemoryLength
{
    return msl_function_threadgroup_bytes([function function]);
}

- (NSInteger)supportIndirectCommandBuffers
{
    return indirect;
}

- (uint64_t)gpuResourceID
{
    return (uintptr_t)self;
}

- (NSString *)problemWithThreads:(MTLSize)threads
{
    if (!threads.width || !threads.height || !threads.depth || threads.width > MOST_THREADS ||
        threads.height > MOST_THREADS || threads.depth > MOST_THREADS ||
        threads.width * threads.height * threads.depth > mostThreads)
        return [NSString stringWithFormat:@"%lu x %lu x %lu threads per threadgroup: there can be 1 to %lu",
                                          threads.width, threads.height, threads.depth, mostThreads];
    if (whole && threads.width * threads.height * threads.depth % SIMDGROUP)
        return [NSString stringWithFormat:@"%lu threads per threadgroup: the pipeline was told that there are whole "
                                          @"simdgroups of %d",
                                          threads.width * threads.height * threads.depth, SIMDGROUP];
    return nil;
}

@end
