// What a command buffer does when its turn comes.
#pragma once

#import <Foundation/Foundation.h>

#include "../msl/msl.h"

@class SMBuffer, SMPipeline;

@interface SMCommand : NSObject
// Nil, or what went wrong.  The seed is of what is left to chance.
- (NSError *)runWithSeed:(unsigned long)seed;
// Whether it uses memory of this range, as far as order is concerned.
- (BOOL)touches:(msl_memory)range;
@end

// Orders what comes before it before what comes after.
@interface SMBarrier : SMCommand {
@public
    NSData *ranges;  // of msl_memory; nil: of everything
}
@end

@interface SMDispatch : SMCommand {
@public
    msl_launch launch;
    SMPipeline *pipeline;   // not retained
    const uint32_t *sizes;  // in a buffer: how many threadgroups there are; or null
}
@end

@interface SMCopy : SMCommand {
@public
    msl_memory from, to;
}
@end

@interface SMFill : SMCommand {
@public
    msl_memory range;
    uint8_t value;
}
@end

// Runs them one after the other.
NSError *run_commands(NSArray *commands, unsigned long seed);
// Runs them in any order that the barriers allow.
NSError *run_concurrently(NSArray *commands, unsigned long seed);

// Why a command fails, and the same with more words.
NSError *failure(NSString *text);
NSError *late_failure(NSString *text);
NSError *with_more(NSError *wrong, NSString *text);

BOOL overlap(msl_memory x, msl_memory y);
