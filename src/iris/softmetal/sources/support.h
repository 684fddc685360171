// Apple's Objective-C runtime on GCC's, as far as our own code needs it.
#pragma once

#import <Foundation/Foundation.h>

// Gives an object away as a method does whose name does not say that it is new.
//
// Where a thread has no pool, Apple's runtime makes one that lasts: what is in there stays.  Clients rely
// on it who release such an object later, once; so it must not be released again.
id autoreleased(id object);

// For threads that are not Python's or the runtime's own.
void prepare_thread(void);

// Calls a block: a structure of which only the place of its function is known.  It is the caller's, and
// must live until it is called.
struct block_literal {
    void *isa;
    int flags, reserved;
    void (*invoke)(void);
};
#define call_block(block, type, ...) ((type)((struct block_literal *)(block))->invoke)(block, __VA_ARGS__)
