// Commands that are encoded once, and run from command buffers again and again.
#pragma once

#import "compute_encoder.h"

@interface MTLIndirectCommandBufferDescriptor : SMObject <NSCopying> {
@public
    NSUInteger commandTypes, maxKernelBufferBindCount, maxKernelThreadgroupMemoryBindCount, maxVertexBufferBindCount,
        maxFragmentBufferBindCount;
    NSInteger inheritPipelineState, inheritBuffers;
}
@end

@interface SMIndirectCommandBuffer : SMDeviceObject <MTLIndirectCommandBuffer> {
@public
    MTLIndirectCommandBufferDescriptor *descriptor;
    int running;  // how many command buffers that are committed, or still encoded, run it
    NSMutableArray *contents;  // of SMIndirectContents, all the same as long as it lives
}
+ (id)newWithDevice:(SMDevice *)owner descriptor:(MTLIndirectCommandBufferDescriptor *)given count:(NSUInteger)count;
- (NSUInteger)size;
// To be run by an encoder, whose resources and bindings these are.
- (SMCommand *)newCommandWithRange:(NSRange)range
                              used:(NSHashTable *)used
                          bindings:(const struct bindings *)inherited;
- (SMCommand *)newResetOfRange:(NSRange)range;
- (SMCommand *)newCopyOfRange:(NSRange)range to:(SMIndirectCommandBuffer *)destination at:(NSUInteger)index;
@end

// What one command does.
@interface SMIndirectContents : NSObject {
@public
    SMPipeline *pipeline;
    struct bindings bindings;
    MTLSize grid, per;
    BOOL dispatches, grid_is_threads, barrier;
}
- (void)clear;
- (void)copyTo:(SMIndirectContents *)other;
@end

// What a client sees of one.
@interface SMIndirectCommand : SMDeviceObject <MTLIndirectComputeCommand> {
@private
    SMIndirectCommandBuffer *owner;
    SMIndirectContents *contents;
}
- (id)initWithOwner:(SMIndirectCommandBuffer *)buffer contents:(SMIndirectContents *)given;
- (void)reset;
@end
