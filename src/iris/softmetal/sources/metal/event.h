// What command buffers, and the CPU, wait for.
#pragma once

#include <pthread.h>

#import "command.h"
#include "metal.h"
#import "object.h"

// A number that grows.
@interface SMEvent : SMDeviceObject <MTLEvent> {
@private
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint64_t value;
    NSMutableArray *listeners;
}
- (uint64_t)value;
- (void)setValue:(uint64_t)number;
// Whether it is at least this before so many seconds have gone by.
- (BOOL)waitForValue:(uint64_t)number seconds:(double)seconds;
@end

// One that the CPU may read and set, too.
@interface SMSharedEvent : SMEvent <MTLSharedEvent>
@end

@interface SMFence : SMDeviceObject <MTLFence>
@end

// A thread begins, or ends, work that others may wait for.
void work_begins(void);
void work_ends(void);

@interface SMEventCommand : SMCommand {
@public
    SMEvent *event;  // not retained
    uint64_t value;
    BOOL waits;
}
@end
