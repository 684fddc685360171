#import "encoder.h"

#import "event.h"
#import "report.h"

@implementation SMPass

- (void)dealloc
{
    [commands release];
    [label release];
    [super dealloc];
}

- (NSError *)runWithSeed:(unsigned long)seed
{
    NSAutoreleasePool *pool = [NSAutoreleasePool new];
    NSError *wrong = (concurrent ? run_concurrently : run_commands)(commands, seed);
    if (wrong && [label length]) wrong = with_more(wrong, [NSString stringWithFormat:@" (encoder '%@')", label]);
    [wrong retain];
    [pool release];
    return [wrong autorelease];
}

@end

@implementation SMEncoder

- (id)initWithCommandBuffer:(SMCommandBuffer *)owner
{
    self = [super initWithDevice:[owner device]];
    commandBuffer = [owner retain];
    commands = [NSMutableArray new];
    return self;
}

- (void)dealloc
{
    if (!ended) {
        [commandBuffer refuse:[NSString stringWithFormat:@"the encoder %@is released before it has ended",
                                                         quoted(label)]];
        [commandBuffer didEnd:self];
    }
    [commands release];
    [commandBuffer release];
    [super dealloc];
}

- (BOOL)canEncode:(SEL)selector
{
    if (ended)
        [commandBuffer refuse:[NSString stringWithFormat:@"%s is sent to the encoder %@after it has ended",
                                                         sel_getName(selector), quoted(label)]];
    else if ([commandBuffer isCommitted])
        report(@"%s is sent to the encoder %@after its command buffer was committed", sel_getName(selector),
               quoted(label));
    return !ended && ![commandBuffer isCommitted];
}

- (void)refuse:(SEL)selector format:(NSString *)format, ...
{
    va_list arguments;
    va_start(arguments, format);
    NSString *text = [[NSString alloc] initWithFormat:format arguments:arguments];
    va_end(arguments);
    NSString *where = [label length] ? [NSString stringWithFormat:@" (encoder '%@')", label] : @"";
    [commandBuffer refuse:[NSString stringWithFormat:@"%s: %@%@", sel_getName(selector), text, where]];
    [text release];
}

- (SMBuffer *)buffer:(id)given for:(SEL)selector
{
    SMBuffer *found = [SMBuffer check:given];
    if (!found) [self refuse:selector format:@"%p is no buffer, or none that is still there", given];
    return found;
}

- (msl_memory)memory:(id)given offset:(NSUInteger)offset bytes:(NSUInteger)bytes for:(SEL)selector
{
    SMBuffer *buffer = [self buffer:given for:selector];
    if (!buffer) return (msl_memory){0};
    if (offset > [buffer length] || bytes > [buffer length] - offset || !bytes) {
        [self refuse:selector format:@"%lu bytes from %lu on are not in the %@", bytes, offset, [buffer words]];
        return (msl_memory){0};
    }
    [commandBuffer keep:buffer];
    return (msl_memory){(char *)[buffer start] + offset, bytes};
}

- (void)add:(SMCommand *)command
{
    [commands addObject:command];
}

- (SMCommand *)newPass
{
    SMPass *made = [SMPass new];
    made->commands = commands;
    made->label = [label copy];
    commands = nil;
    return made;
}

- (void)endEncoding
{
    BOOL can = [self canEncode:_cmd];
    ended = YES;
    if (!can) return;
    if ([commands count]) {
        SMCommand *pass = [self newPass];
        [commandBuffer add:pass];
        [pass release];
    }
    [commandBuffer didEnd:self];
}

// Encoders of one queue run one after the other, so that these find nothing to do.

- (void)updateFence:(SMFence *)fence
{
    if ([self canEncode:_cmd] && ![SMFence check:fence]) [self refuse:_cmd format:@"%p is no fence", fence];
}

- (void)waitForFence:(SMFence *)fence
{
    if ([self canEncode:_cmd] && ![SMFence check:fence]) [self refuse:_cmd format:@"%p is no fence", fence];
}

- (void)pushDebugGroup:(NSString *)name
{
    [self canEncode:_cmd];
}

- (void)popDebugGroup
{
    [self canEncode:_cmd];
}

- (void)insertDebugSignpost:(NSString *)name
{
    [self canEncode:_cmd];
}

@end
