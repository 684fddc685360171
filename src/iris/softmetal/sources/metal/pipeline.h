#pragma once

#import "library.h"

@interface MTLComputePipelineDescriptor : SMObject <NSCopying> {
@public
    NSString *label;
    SMFunction *computeFunction;
    NSInteger threadGroupSizeIsMultipleOfThreadExecutionWidth, supportIndirectCommandBuffers,
        supportAddingBinaryFunctions;
    NSUInteger maxTotalThreadsPerThreadgroup, maxCallStackDepth;
    NSArray *binaryArchives;
    id buffers;  // of mutability, which says nothing that is checked
}
- (void)setLabel:(NSString *)text;
- (void)setComputeFunction:(SMFunction *)function;
- (void)setBinaryArchives:(NSArray *)archives;
@end

@interface SMPipeline : SMDeviceObject <MTLComputePipelineState> {
@private
    SMFunction *function;
    NSUInteger mostThreads;
    NSInteger whole, indirect;
}
+ (id)newWithDevice:(SMDevice *)owner
         descriptor:(MTLComputePipelineDescriptor *)descriptor
              error:(NSError **)error;
- (id)initWithDevice:(SMDevice *)owner descriptor:(MTLComputePipelineDescriptor *)descriptor;
- (const msl_function *)function;
- (NSInteger)supportIndirectCommandBuffers;
// What is wrong with this size of threadgroups, or nil.
- (NSString *)problemWithThreads:(MTLSize)threads;
@end
