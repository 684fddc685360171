#pragma once

#include "metal.h"
#import "object.h"

@interface SMDevice : SMObject <MTLDevice> {
@private
    NSInteger allocated;
}
+ (SMDevice *)device;
// Bytes of buffers, or fewer.
- (void)add:(NSInteger)bytes;
@end

// Of all randomness.
unsigned long seed_now(void);
// That a threadgroup may run, and a command buffer wait.
double seconds_allowed(void);
