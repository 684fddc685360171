#pragma once

#include "metal.h"
#import "object.h"

struct worker;
@class SMCommandBuffer;

// Runs command buffers one after the other, on a thread of its own.
@interface SMQueue : SMDeviceObject <MTLCommandQueue> {
@private
    struct worker *worker;
    NSCondition *changed;
    NSUInteger most, unfinished;  // command buffers
    SMCommandBuffer **places;     // of those that have one in the order, and do not run yet; not retained
    NSUInteger placeCount;
    unsigned long started;
}
- (id)initWithDevice:(SMDevice *)owner most:(NSUInteger)count;
// A place in the order, before what is committed later.
- (void)enqueue:(SMCommandBuffer *)buffer;
- (void)commit:(SMCommandBuffer *)buffer;
// It was released, and will not be committed.
- (void)forget:(SMCommandBuffer *)buffer;
- (void)didFinish;
// Counts what it runs.
- (unsigned long)nextNumber;
@end
