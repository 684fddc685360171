// What command buffers are told, written to a file.
#pragma once

#import "object.h"

@interface MTLCaptureDescriptor : SMObject {
@public
    id captureObject;
    NSInteger destination;
    NSURL *outputURL;
}
@end

@interface MTLCaptureManager : SMObject
+ (MTLCaptureManager *)sharedCaptureManager;
@end

// The number of the capture that goes on; 0 if none does.
unsigned long capture_now(void);
// A command buffer that was made while a capture went on is committed, with these commands.
void capture_add(unsigned long number, NSString *label, NSArray *commands);
