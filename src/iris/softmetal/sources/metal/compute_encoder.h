#pragma once

#import "counters.h"
#import "encoder.h"
#import "pipeline.h"

@interface MTLComputePassDescriptor : SMObject {
@public
    NSUInteger dispatchType;
    MTLComputePassSampleBufferAttachmentDescriptorArray *sampleBufferAttachments;
}
@end

// What a kernel is launched with, of the pipeline and the arguments that were set.
struct bindings {
    SMPipeline *pipeline;              // these are not retained
    SMBuffer *buffers[MOST_BUFFERS];   // nil, where bytes are bound
    msl_memory memory[MOST_BUFFERS];
    unsigned threadgroup_bytes[MOST_BUFFERS];
};

@interface SMComputeEncoder : SMEncoder <MTLComputeCommandEncoder> {
@private
    struct bindings bindings;
    NSUInteger dispatchType;
    NSHashTable *used;  // resources that kernels may come to by themselves; not retained
    NSMutableArray *samples;  // to be taken at the end
}
- (id)initWithCommandBuffer:(SMCommandBuffer *)owner type:(NSUInteger)type;
// Take samples before and after what it encodes.
- (void)sample:(NSArray *)attachments;
@end

// A dispatch of a grid of threads; nil, and what is wrong, if there cannot be one.  Sizes that are known
// only when it runs come from `sizes`, then `grid` counts for nothing.
SMDispatch *new_dispatch(const struct bindings *bindings, MTLSize grid, MTLSize per, BOOL grid_is_threads,
                         const uint32_t *sizes, NSString **wrong);
