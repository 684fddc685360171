#pragma once

#include <pthread.h>

#import "command.h"
#include "metal.h"
#import "object.h"
#import "queue.h"

@class SMEncoder;
struct completion;

// Commands, encoded by one encoder after the other, that run in their turn of the queue.
@interface SMCommandBuffer : SMDeviceObject <MTLCommandBuffer> {
@private
    SMQueue *queue;
    NSMutableArray *commands, *scheduledHandlers, *completedHandlers;
    NSMutableSet *kept;      // what the commands refer to
    NSHashTable *borrowed;   // and what of it the client keeps: not retained; null, if the client need not
    NSError *error;
    SMEncoder *encoder;  // the one that is open; it is not retained
    double committed, started, ended;
    unsigned long capture;  // the one that it was made in

    pthread_mutex_t mutex;
    pthread_cond_t changed;
    NSUInteger status;
    struct completion *completion;  // of all, when nothing of it is left
    pthread_t runner;
}
- (id)initWithQueue:(SMQueue *)owner retains:(NSInteger)flag;
- (NSUInteger)status;
- (BOOL)isCommitted;
- (void)add:(SMCommand *)command;
// Keeps what a command refers to, unless the client said that it does so itself.
- (void)keep:(id)object;
// Keeps what the client does not know.
- (void)own:(id)object;
// It will fail with this; the first mistake counts.  Where that is too late, it is reported.
- (void)refuse:(NSString *)text;
- (void)failWith:(NSError *)reason;
- (void)didEnd:(SMEncoder *)finished;
- (struct completion *)completion;
- (void)run;
@end
