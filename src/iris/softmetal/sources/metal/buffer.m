#import "buffer.h"

#import "../support.h"
#import "device.h"
#import "report.h"

enum { STORAGE_SHIFT = 4, STORAGE_MASK = 0xF, CACHE_MASK = 0xF, HAZARD_SHIFT = 8, HAZARD_MASK = 3, TRACKED = 2 };

NSUInteger storage_mode(NSUInteger options)
{
    return options >> STORAGE_SHIFT & STORAGE_MASK;
}

@implementation SMBuffer

- (id)initWithDevice:(SMDevice *)owner length:(NSUInteger)size options:(NSUInteger)flags
{
    self = [super initWithDevice:owner];
    if (!guarded_map(&memory, size)) {
        [self release];
        return nil;
    }
    start = memory.start;
    length = size;
    options = flags;
    [device add:(NSInteger)length];
    return self;
}

- (id)initWithDevice:(SMDevice *)owner
               bytes:(void *)bytes
              length:(NSUInteger)size
             options:(NSUInteger)flags
         deallocator:(void *)block
{
    self = [super initWithDevice:owner];
    start = bytes;
    length = size;
    options = flags;
    deallocator = block;
    [device add:(NSInteger)length];
    return self;
}

- (void)dealloc
{
    [device add:-(NSInteger)length];
    if (deallocator) call_block(deallocator, void (*)(void *, void *, NSUInteger), start, length);
    guarded_unmap(&memory);
    [super dealloc];
}

- (void *)start
{
    return start;
}

- (void *)contents
{
    return [self storageMode] == MTLStorageModePrivate ? NULL : start;
}

- (NSUInteger)length
{
    return length;
}

- (NSUInteger)allocatedSize
{
    return length;
}

- (NSUInteger)resourceOptions
{
    return options;
}

- (NSUInteger)storageMode
{
    return storage_mode(options);
}

- (NSUInteger)cpuCacheMode
{
    return options & CACHE_MASK;
}

- (NSUInteger)hazardTrackingMode
{
    NSUInteger mode = options >> HAZARD_SHIFT & HAZARD_MASK;
    return mode ? mode : TRACKED;
}

- (uint64_t)gpuAddress
{
    return (uintptr_t)start;
}

- (id)heap
{
    return nil;
}

- (void)didModifyRange:(NSRange)range
{
    if (range.location > length || range.length > length - range.location)
        report(@"didModifyRange: of %lu bytes from %lu on: beyond the %@", range.length, range.location, [self words]);
    if ([self storageMode] != MTLStorageModeManaged)
        report(@"didModifyRange: the %@ has not the storage mode managed", [self words]);
}

- (void)addDebugMarker:(NSString *)marker range:(NSRange)range
{
}

- (void)removeAllDebugMarkers
{
}

- (NSUInteger)setPurgeableState:(NSUInteger)state
{
    if (state != MTLPurgeableStateKeepCurrent && state != MTLPurgeableStateNonVolatile)
        report(@"setPurgeableState: what the %@ holds cannot be given up here", [self words]);
    return MTLPurgeableStateNonVolatile;
}

- (NSString *)words
{
    return [NSString stringWithFormat:@"buffer %@of %lu bytes", quoted(label), length];
}

@end
