// The part of Metal's interface that computes: its constants, and its protocols by name.
#pragma once

#import <Foundation/Foundation.h>

typedef struct {
    NSUInteger width, height, depth;
} MTLSize;

enum {
    MTLCommandBufferStatusNotEnqueued = 0,
    MTLCommandBufferStatusEnqueued = 1,
    MTLCommandBufferStatusCommitted = 2,
    MTLCommandBufferStatusScheduled = 3,
    MTLCommandBufferStatusCompleted = 4,
    MTLCommandBufferStatusError = 5,
};

enum {
    MTLCommandBufferErrorInternal = 1,
    MTLCommandBufferErrorTimeout = 2,
    MTLCommandBufferErrorInvalidResource = 9,
};

enum {
    MTLLibraryErrorUnsupported = 1,
    MTLLibraryErrorInternal = 2,
    MTLLibraryErrorCompileFailure = 3,
    MTLLibraryErrorFunctionNotFound = 5,
    MTLLibraryErrorFileNotFound = 6,
};

enum {
    MTLGPUFamilyApple1 = 1001,
    MTLGPUFamilyApple7 = 1007,
    MTLGPUFamilyMac1 = 2001,
    MTLGPUFamilyMac2 = 2002,
    MTLGPUFamilyCommon1 = 3001,
    MTLGPUFamilyCommon3 = 3003,
    MTLGPUFamilyMetal3 = 5001,
};

enum { MTLDispatchTypeSerial = 0, MTLDispatchTypeConcurrent = 1 };
enum { MTLStorageModeShared = 0, MTLStorageModeManaged = 1, MTLStorageModePrivate = 2 };
enum { MTLMathModeSafe = 0, MTLMathModeRelaxed = 1, MTLMathModeFast = 2 };
enum { MTLMathFloatingPointFunctionsFast = 0, MTLMathFloatingPointFunctionsPrecise = 1 };
enum { MTLPurgeableStateKeepCurrent = 1, MTLPurgeableStateNonVolatile = 2 };
enum { MTLFunctionTypeKernel = 3 };
enum { MTLPipelineOptionBindingInfo = 1, MTLPipelineOptionFailOnBinaryArchiveMiss = 4 };
enum { MTLBindingTypeBuffer = 0, MTLBindingTypeThreadgroupMemory = 1 };
enum { MTLBindingAccessReadOnly = 0, MTLBindingAccessReadWrite = 1 };
enum { MTLCounterSamplingPointAtStageBoundary = 0 };
enum { MTLCounterSampleBufferErrorInvalid = 1 };
#define MTLCounterErrorValue UINT64_MAX
#define MTLCounterDontSample NSUIntegerMax
enum { MTLIndirectCommandTypeConcurrentDispatch = 32, MTLIndirectCommandTypeConcurrentDispatchThreads = 64 };

enum { MOST_BUFFERS = 31, MOST_BYTES = 4096, MOST_THREADS = 1024, SIMDGROUP = 32, THREADGROUP_MEMORY = 32 << 10 };

#pragma GCC visibility push(default)
extern NSString *const MTLLibraryErrorDomain, *const MTLCommandBufferErrorDomain, *const MTLCounterErrorDomain;
extern NSString *const MTLCommonCounterSetTimestamp, *const MTLCommonCounterTimestamp;
#pragma GCC visibility pop

@protocol MTLDevice <NSObject>
@end
@protocol MTLResource <NSObject>
@end
@protocol MTLBuffer <MTLResource>
@end
@protocol MTLCommandQueue <NSObject>
@end
@protocol MTLCommandBuffer <NSObject>
@end
@protocol MTLCommandEncoder <NSObject>
@end
@protocol MTLComputeCommandEncoder <MTLCommandEncoder>
@end
@protocol MTLBlitCommandEncoder <MTLCommandEncoder>
@end
@protocol MTLLibrary <NSObject>
@end
@protocol MTLFunction <NSObject>
@end
@protocol MTLComputePipelineState <NSObject>
@end
@protocol MTLCounterSampleBuffer <NSObject>
@end
@protocol MTLEvent <NSObject>
@end
@protocol MTLSharedEvent <MTLEvent>
@end
@protocol MTLFence <NSObject>
@end
@protocol MTLIndirectCommandBuffer <MTLResource>
@end
@protocol MTLIndirectComputeCommand <NSObject>
@end
