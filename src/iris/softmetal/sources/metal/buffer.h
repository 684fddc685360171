#pragma once

#include "memory.h"
#include "metal.h"
#import "object.h"

// Of a resource's options.
NSUInteger storage_mode(NSUInteger options);

@interface SMBuffer : SMDeviceObject <MTLBuffer> {
@private
    struct guarded memory;  // its own; nothing, of what others own
    void *start;
    NSUInteger length;
    NSUInteger options;
    void *deallocator;  // a block, for memory of others
}
// Nil if there is no memory.
- (id)initWithDevice:(SMDevice *)owner length:(NSUInteger)size options:(NSUInteger)flags;
- (id)initWithDevice:(SMDevice *)owner
               bytes:(void *)bytes
              length:(NSUInteger)size
             options:(NSUInteger)flags
         deallocator:(void *)block;
// What the GPU sees, which the CPU need not.
- (void *)start;
- (NSUInteger)length;
- (NSUInteger)storageMode;
// "buffer 'label' of 64 bytes"
- (NSString *)words;
@end
