// When encoders begin and end, by the GPU's clock.
#pragma once

#import "command.h"
#import "metal.h"
#import "object.h"

@interface SMCounter : SMObject
@end

// There is one set, of the time alone.
@interface SMCounterSet : SMObject
@end

NSArray *counter_sets(void);

@interface MTLCounterSampleBufferDescriptor : SMObject {
@public
    SMCounterSet *counterSet;
    NSString *label;
    NSUInteger storageMode, sampleCount;
}
@end

@interface SMCounterSampleBuffer : SMDeviceObject <MTLCounterSampleBuffer> {
@private
    NSUInteger count, storageMode;
    uint64_t *samples;
}
+ (id)newWithDevice:(SMDevice *)owner
         descriptor:(MTLCounterSampleBufferDescriptor *)given
              error:(NSError **)error;
- (NSUInteger)sampleCount;
- (void)take:(NSUInteger)index;
@end

// Which samples an encoder takes.
@interface MTLComputePassSampleBufferAttachmentDescriptor : SMObject {
@public
    SMCounterSampleBuffer *sampleBuffer;
    NSUInteger startOfEncoderSampleIndex, endOfEncoderSampleIndex;
}
@end

@interface MTLComputePassSampleBufferAttachmentDescriptorArray : SMObject {
@private
    NSMutableDictionary *attachments;  // by their index
}
- (NSArray *)all;
@end

@interface SMSample : SMCommand {
@public
    SMCounterSampleBuffer *buffer;  // not retained
    NSUInteger index;
}
@end
