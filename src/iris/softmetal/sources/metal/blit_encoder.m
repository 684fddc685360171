#import "blit_encoder.h"

#import "indirect.h"

@implementation SMBlitEncoder

- (void)copyFromBuffer:(SMBuffer *)source
          sourceOffset:(NSUInteger)sourceOffset
              toBuffer:(SMBuffer *)destination
     destinationOffset:(NSUInteger)destinationOffset
                  size:(NSUInteger)size
{
    if (![self canEncode:_cmd]) return;
    msl_memory from = [self memory:source offset:sourceOffset bytes:size for:_cmd];
    msl_memory to = [self memory:destination offset:destinationOffset bytes:size for:_cmd];
    if (!from.start || !to.start) return;
    if (overlap(from, to)) {
        [self refuse:_cmd format:@"the two ranges of %lu bytes overlap, from offset %lu to offset %lu", size,
                                 sourceOffset, destinationOffset];
        return;
    }
    SMCopy *made = [SMCopy new];
    made->from = from;
    made->to = to;
    [self add:made];
    [made release];
}

- (void)fillBuffer:(SMBuffer *)buffer range:(NSRange)range value:(uint8_t)value
{
    if (![self canEncode:_cmd]) return;
    msl_memory memory = [self memory:buffer offset:range.location bytes:range.length for:_cmd];
    if (!memory.start) return;
    SMFill *made = [SMFill new];
    made->range = memory;
    made->value = value;
    [self add:made];
    [made release];
}

// Memory is the same for all.
- (void)synchronizeResource:(SMBuffer *)buffer
{
    if (![self canEncode:_cmd] || ![self buffer:buffer for:_cmd]) return;
    if ([buffer storageMode] != MTLStorageModeManaged)
        [self refuse:_cmd format:@"the %@ has not the storage mode managed", [buffer words]];
}

- (void)addIndirect:(SMCommand *)made
{
    if (made) [self add:made];
    [made release];
}

- (BOOL)canUse:(SMIndirectCommandBuffer *)indirect range:(NSRange)range for:(SEL)selector
{
    if (![self canEncode:selector]) return NO;
    BOOL fits = [SMIndirectCommandBuffer check:indirect] && range.location <= [indirect size] &&
                range.length <= [indirect size] - range.location;
    if (fits)
        [commandBuffer own:indirect];
    else
        [self refuse:selector format:@"%p is no indirect command buffer, or has not the %lu commands from %lu on",
                                     indirect, range.length, range.location];
    return fits;
}

- (void)resetCommandsInBuffer:(SMIndirectCommandBuffer *)indirect withRange:(NSRange)range
{
    if ([self canUse:indirect range:range for:_cmd]) [self addIndirect:[indirect newResetOfRange:range]];
}

- (void)copyIndirectCommandBuffer:(SMIndirectCommandBuffer *)source
                      sourceRange:(NSRange)range
                      destination:(SMIndirectCommandBuffer *)destination
                 destinationIndex:(NSUInteger)index
{
    if ([self canUse:source range:range for:_cmd] &&
        [self canUse:destination range:NSMakeRange(index, range.length) for:_cmd])
        [self addIndirect:[source newCopyOfRange:range to:destination at:index]];
}

- (void)optimizeIndirectCommandBuffer:(SMIndirectCommandBuffer *)indirect withRange:(NSRange)range
{
    [self canUse:indirect range:range for:_cmd];
}

@end
