// What all encoders have in common.
#pragma once

#import "buffer.h"
#import "command_buffer.h"

@interface SMEncoder : SMDeviceObject <MTLCommandEncoder> {
@protected
    SMCommandBuffer *commandBuffer;
    NSMutableArray *commands;
    BOOL ended;
}
- (id)initWithCommandBuffer:(SMCommandBuffer *)owner;
// Whether it may still encode; if not, it is told.
- (BOOL)canEncode:(SEL)selector;
// The command buffer will fail, with this about what a method was given.
- (void)refuse:(SEL)selector format:(NSString *)format, ... __attribute__((format(NSString, 2, 3)));
- (SMBuffer *)buffer:(id)given for:(SEL)selector;
// The memory of a buffer from an offset on; nothing, and that is told, if so much is not there.
- (msl_memory)memory:(id)buffer offset:(NSUInteger)offset bytes:(NSUInteger)bytes for:(SEL)selector;
- (void)add:(SMCommand *)command;
// All that was encoded, in one, which belongs to the caller.
- (SMCommand *)newPass;
@end

// What an encoder has encoded.
@interface SMPass : SMCommand {
@public
    NSArray *commands;
    NSString *label;
    BOOL concurrent;
}
@end
