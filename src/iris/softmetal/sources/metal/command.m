#import "command.h"

#include <stdlib.h>

#include "../settings.h"

#import "device.h"
#include "memory.h"
#import "object.h"
#import "pipeline.h"
#import "report.h"

BOOL overlap(msl_memory x, msl_memory y)
{
    return (char *)x.start < (char *)y.start + y.bytes && (char *)y.start < (char *)x.start + x.bytes;
}

NSError *failure(NSString *text)
{
    return error_of(MTLCommandBufferErrorDomain, MTLCommandBufferErrorInternal, text);
}

NSError *late_failure(NSString *text)
{
    return error_of(MTLCommandBufferErrorDomain, MTLCommandBufferErrorTimeout, text);
}

NSError *with_more(NSError *wrong, NSString *text)
{
    NSString *all = [[wrong localizedDescription] stringByAppendingString:text];
    return error_of([wrong domain], [wrong code], all);
}

@implementation SMCommand

- (NSError *)runWithSeed:(unsigned long)seed
{
    return nil;
}

- (BOOL)touches:(msl_memory)range
{
    return NO;
}

@end

@implementation SMBarrier

- (void)dealloc
{
    [ranges release];
    [super dealloc];
}

@end

@implementation SMDispatch

- (NSString *)readSizes
{
    for (int i = 0; i < 3; ++i) {
        uint64_t threads = (uint64_t)sizes[i] * launch.threads_per_threadgroup[i];
        if (threads > UINT32_MAX)
            return [NSString stringWithFormat:@"kernel '%s': an indirect dispatch of %u threadgroups is too large",
                                              msl_function_name(launch.function), sizes[i]];
        launch.threads[i] = (unsigned)threads;
    }
    return nil;
}

// The first buffer that was written to behind its end, or -1.
- (int)mendBuffers
{
    int found = -1;
    for (int i = 0; i < MOST_BUFFERS; ++i) {
        msl_memory one = launch.buffers[i];
        if (one.start && guarded_mend((char *)one.start + one.bytes) && found < 0) found = i;
    }
    return found;
}

- (NSError *)runWithSeed:(unsigned long)seed
{
    if (sizes) {
        NSString *wrong = [self readSizes];
        if (wrong) return failure(wrong);
    }
    int damaged = [self mendBuffers];
    if (damaged >= 0)
        report(@"before kernel '%s' ran, something wrote past the end of its buffer %d",
               msl_function_name(launch.function), damaged);
    const char *unclear = settings_wrong();
    if (unclear) return failure([NSString stringWithUTF8String:unclear]);
    launch.seed = seed_now();
    launch.seconds = seconds_allowed();
    int is_late;
    char *error = msl_run(&launch, &is_late);
    NSError *wrong = error ? (is_late ? late_failure : failure)(string_of(error)) : nil;
    msl_free(error);
    damaged = [self mendBuffers];
    if (damaged >= 0 && !wrong)
        wrong = failure([NSString stringWithFormat:@"kernel '%s': it wrote past the end of buffer %d",
                                                   msl_function_name(launch.function), damaged]);
    return wrong;
}

- (BOOL)touches:(msl_memory)range
{
    for (int i = 0; i < MOST_BUFFERS; ++i) {
        if (overlap(launch.buffers[i], range)) return YES;
    }
    return NO;
}

@end

@implementation SMCopy

- (NSError *)runWithSeed:(unsigned long)seed
{
    memcpy(to.start, from.start, to.bytes);
    return nil;
}

@end

@implementation SMFill

- (NSError *)runWithSeed:(unsigned long)seed
{
    memset(range.start, value, range.bytes);
    return nil;
}

@end

NSError *run_commands(NSArray *commands, unsigned long seed)
{
    NSError *wrong = nil;
    NSUInteger count = [commands count];
    for (NSUInteger i = 0; i < count && !wrong; ++i) wrong = [[commands objectAtIndex:i] runWithSeed:seed + i];
    return wrong;
}

// A moment for each command: at random, but after those of the commands that a barrier puts before it.
struct moment {
    double at;
    NSUInteger command;
};

struct fence {
    msl_memory range;
    double at;
};

static int compare(const void *x, const void *y)
{
    double a = ((const struct moment *)x)->at, b = ((const struct moment *)y)->at;
    return (a > b) - (a < b);
}

static double latest(NSArray *commands, const struct moment *moments, NSUInteger count, msl_memory range)
{
    double at = 0;
    for (NSUInteger i = 0; i < count; ++i) {
        if (moments[i].at > at && [[commands objectAtIndex:moments[i].command] touches:range]) at = moments[i].at;
    }
    return at;
}

NSError *run_concurrently(NSArray *commands, unsigned long seed)
{
    if (!seed_now()) return run_commands(commands, seed);
    NSUInteger count = [commands count], made = 0, fence_count = 0;
    struct moment *moments = calloc(count + 1, sizeof *moments);
    struct fence *fences = NULL;
    double base = 0, last = 0;
    uint64_t random = seed * 0x9e3779b97f4a7c15 + 1;
    for (NSUInteger i = 0; i < count; ++i) {
        SMCommand *command = [commands objectAtIndex:i];
        if ([command isKindOfClass:[SMBarrier class]]) {
            NSData *ranges = ((SMBarrier *)command)->ranges;
            if (!ranges) base = last;
            NSUInteger more = [ranges length] / sizeof(msl_memory);
            fences = realloc(fences, (fence_count + more + 1) * sizeof *fences);
            for (NSUInteger j = 0; j < more; ++j) {
                msl_memory range = ((const msl_memory *)[ranges bytes])[j];
                fences[fence_count++] = (struct fence){range, latest(commands, moments, made, range)};
            }
            continue;
        }
        double after = base;
        for (NSUInteger j = 0; j < fence_count; ++j) {
            if (fences[j].at > after && [command touches:fences[j].range]) after = fences[j].at;
        }
        random = random * 6364136223846793005 + 1442695040888963407;
        double at = after + ((random >> 33) + 1.0) / 0x80000000;
        if (at > last) last = at;
        moments[made++] = (struct moment){at, i};
    }
    qsort(moments, made, sizeof *moments, compare);
    NSError *wrong = nil;
    for (NSUInteger i = 0; i < made && !wrong; ++i)
        wrong = [[commands objectAtIndex:moments[i].command] runWithSeed:seed + moments[i].command];
    free(fences);
    free(moments);
    return wrong;
}
