#import "device.h"

#include "../settings.h"

#import <objc/runtime.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#import "../faults.h"
#import "../softmetal.h"
#import "../support.h"
#import "archive.h"
#import "buffer.h"
#import "counters.h"
#import "event.h"
#import "indirect.h"
#import "library.h"
#import "pipeline.h"
#import "queue.h"
#import "reflection.h"
#import "report.h"

extern void *softmetal_answers_in_memory;

enum { MOST_COMMAND_BUFFERS = 64 };

#if defined(__x86_64__)
// A method whose result lies in memory, with the address of that where the receiver usually is.  Who
// asks for a number instead sends the receiver there.
static void *most_threads_per_threadgroup(void *result, id self, SEL selector)
{
    if (result == softmetal_answers_in_memory) {
        report(@"maxThreadsPerThreadgroup is an MTLSize, and is asked for as if it were a number");
        return (void *)(uintptr_t)MOST_THREADS;
    }
    *(MTLSize *)result = (MTLSize){MOST_THREADS, MOST_THREADS, MOST_THREADS};
    return result;
}
#else
static MTLSize most_threads_per_threadgroup(id self, SEL selector)
{
    return (MTLSize){MOST_THREADS, MOST_THREADS, MOST_THREADS};
}
#endif

static NSUInteger physical_memory(void)
{
    return (NSUInteger)sysconf(_SC_PHYS_PAGES) * (NSUInteger)sysconf(_SC_PAGESIZE);
}

@implementation SMDevice

+ (void)initialize
{
    if (self == [SMDevice class])
        class_addMethod(self, @selector(maxThreadsPerThreadgroup), (IMP)most_threads_per_threadgroup,
                        "{?=QQQ}16@0:8");
}

+ (SMDevice *)device
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static SMDevice *made;
    pthread_mutex_lock(&mutex);
    if (!made) softmetal_answers_in_memory = made = [self new];
    pthread_mutex_unlock(&mutex);
    return made;
}

// There is one, for ever.
- (id)retain
{
    return self;
}

- (oneway void)release
{
}

- (void)add:(NSInteger)bytes
{
    __atomic_add_fetch(&allocated, bytes, __ATOMIC_RELAXED);
}

// What it is.

- (NSString *)name
{
    return @"softmetal";
}

- (uint64_t)registryID
{
    return 1;
}

- (NSUInteger)location
{
    return 0;
}

- (NSUInteger)maxThreadgroupMemoryLength
{
    return THREADGROUP_MEMORY;
}

- (NSUInteger)maxBufferLength
{
    return physical_memory() / 2;
}

- (uint64_t)recommendedMaxWorkingSetSize
{
    return physical_memory() / 4 * 3;
}

- (NSUInteger)currentAllocatedSize
{
    return (NSUInteger)__atomic_load_n(&allocated, __ATOMIC_RELAXED);
}

- (NSInteger)hasUnifiedMemory
{
    return YES;
}

- (NSInteger)isLowPower
{
    return NO;
}

- (NSInteger)isHeadless
{
    return YES;
}

- (NSInteger)isRemovable
{
    return NO;
}

- (NSInteger)supportsFamily:(NSInteger)family
{
    return (family >= MTLGPUFamilyApple1 && family <= MTLGPUFamilyApple7) ||
           (family >= MTLGPUFamilyMac1 && family <= MTLGPUFamilyMac2) ||
           (family >= MTLGPUFamilyCommon1 && family <= MTLGPUFamilyCommon3) || family == MTLGPUFamilyMetal3;
}

- (NSInteger)supportsDynamicLibraries
{
    return NO;
}

// As on Apple's GPUs, which sample where encoders begin and end, and nowhere else.
- (NSInteger)supportsCounterSampling:(NSUInteger)point
{
    return point == MTLCounterSamplingPointAtStageBoundary;
}

- (NSArray *)counterSets
{
    return counter_sets();
}

- (void)sampleTimestamps:(uint64_t *)cpu gpuTimestamp:(uint64_t *)gpu
{
    uint64_t now = (uint64_t)(seconds_now() * 1e9);
    if (cpu) *cpu = now;
    if (gpu) *gpu = now;
}

// What it makes.

- (NSInteger)canHold:(NSUInteger)length
{
    if (!length) report(@"a buffer of no bytes cannot be made");
    return length && length <= [self maxBufferLength];
}

- (id)newBufferWithLength:(NSUInteger)length options:(NSUInteger)options
{
    if (![self canHold:length]) return nil;
    return [[SMBuffer alloc] initWithDevice:self length:length options:options];
}

- (id)newBufferWithBytes:(const void *)bytes length:(NSUInteger)length options:(NSUInteger)options
{
    if (!bytes) {
        report(@"newBufferWithBytes: is given no bytes");
        return nil;
    }
    SMBuffer *made = [self newBufferWithLength:length options:options];
    if (made) memcpy([made start], bytes, length);
    return made;
}

- (id)newBufferWithBytesNoCopy:(void *)bytes
                        length:(NSUInteger)length
                       options:(NSUInteger)options
                   deallocator:(void *)block
{
    if (![self canHold:length]) return nil;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    if (!bytes || (uintptr_t)bytes % page || length % page) {
        report(@"newBufferWithBytesNoCopy: %p, of %lu bytes, is not made of whole pages of %lu bytes", bytes, length,
               page);
        return nil;
    }
    if (storage_mode(options) == MTLStorageModePrivate) {
        report(@"newBufferWithBytesNoCopy: memory that the CPU has cannot be private to the GPU");
        return nil;
    }
    return [[SMBuffer alloc] initWithDevice:self bytes:bytes length:length options:options deallocator:block];
}

- (id)newCommandQueueWithMaxCommandBufferCount:(NSUInteger)count
{
    if (!count) {
        report(@"newCommandQueueWithMaxCommandBufferCount: a queue of no command buffers cannot be made");
        return nil;
    }
    return [[SMQueue alloc] initWithDevice:self most:count];
}

- (id)newCommandQueue
{
    return [self newCommandQueueWithMaxCommandBufferCount:MOST_COMMAND_BUFFERS];
}

- (id)newEvent
{
    return [[SMEvent alloc] initWithDevice:self];
}

- (id)newSharedEvent
{
    return [[SMSharedEvent alloc] initWithDevice:self];
}

- (id)newCounterSampleBufferWithDescriptor:(MTLCounterSampleBufferDescriptor *)descriptor error:(NSError **)error
{
    return [SMCounterSampleBuffer newWithDevice:self descriptor:descriptor error:error];
}

- (id)newFence
{
    return [[SMFence alloc] initWithDevice:self];
}

- (id)newIndirectCommandBufferWithDescriptor:(MTLIndirectCommandBufferDescriptor *)descriptor
                             maxCommandCount:(NSUInteger)count
                                     options:(NSUInteger)options
{
    return [SMIndirectCommandBuffer newWithDevice:self descriptor:descriptor count:count];
}

// Libraries.

- (id)newLibraryWithSource:(NSString *)source options:(MTLCompileOptions *)options error:(NSError **)error
{
    return [SMLibrary newWithDevice:self source:source options:options error:error];
}

- (id)newLibraryWithData:(NSData *)data error:(NSError **)error
{
    return [SMLibrary newWithDevice:self data:data error:error];
}

- (id)newLibraryWithFile:(NSString *)path error:(NSError **)error
{
    return [SMLibrary newWithDevice:self path:path error:error];
}

- (id)newLibraryWithURL:(NSURL *)url error:(NSError **)error
{
    return [SMLibrary newWithDevice:self path:[url path] error:error];
}

- (id)newDefaultLibrary
{
    return nil;
}

// Pipelines.

static BOOL is_archived(MTLComputePipelineDescriptor *descriptor)
{
    for (SMBinaryArchive *archive in descriptor->binaryArchives)
        if ([SMBinaryArchive check:archive] && [archive has:descriptor->computeFunction]) return YES;
    return NO;
}

- (id)newBinaryArchiveWithDescriptor:(MTLBinaryArchiveDescriptor *)descriptor error:(NSError **)error
{
    return [SMBinaryArchive newWithDevice:self descriptor:descriptor error:error];
}

- (id)newComputePipelineStateWithDescriptor:(MTLComputePipelineDescriptor *)descriptor
                                    options:(NSUInteger)options
                                 reflection:(id *)reflection
                                      error:(NSError **)error
{
    if (reflection) *reflection = nil;
    if (options & MTLPipelineOptionBindingInfo && reflection && [MTLComputePipelineDescriptor check:descriptor] &&
        [SMFunction check:descriptor->computeFunction])
        *reflection = autoreleased([SMReflection newOfFunction:[descriptor->computeFunction function]]);
    if (options & MTLPipelineOptionFailOnBinaryArchiveMiss && [MTLComputePipelineDescriptor check:descriptor] &&
        !is_archived(descriptor))
        return fail_with(error, MTLLibraryErrorFunctionNotFound, @"no binary archive has the pipeline");
    return [SMPipeline newWithDevice:self descriptor:descriptor error:error];
}

- (id)newComputePipelineStateWithFunction:(SMFunction *)function
                                  options:(NSUInteger)options
                               reflection:(id *)reflection
                                    error:(NSError **)error
{
    MTLComputePipelineDescriptor *descriptor = [MTLComputePipelineDescriptor new];
    [descriptor setComputeFunction:function];
    id made = [self newComputePipelineStateWithDescriptor:descriptor options:options reflection:reflection error:error];
    [descriptor release];
    return made;
}

- (id)newComputePipelineStateWithFunction:(SMFunction *)function error:(NSError **)error
{
    return [self newComputePipelineStateWithFunction:function options:0 reflection:NULL error:error];
}

@end

// The environment.

static unsigned long seed;

__attribute__((constructor)) static void read_seed(void)
{
    seed = setting_seed();
}

unsigned long seed_now(void)
{
    return seed;
}

double seconds_allowed(void)
{
    return setting_seconds();
}

#pragma GCC visibility push(default)

void softmetal_set_seed(unsigned long number)
{
    seed = number;
}

id MTLCreateSystemDefaultDevice(void)
{
    prepare_thread();
    return ordered_fault_of("MTLCreateSystemDefaultDevice") ? nil : [[SMDevice device] retain];
}

id MTLCopyAllDevices(void)
{
    prepare_thread();
    return [[NSArray alloc] initWithObjects:[SMDevice device], nil];
}

#pragma GCC visibility pop
