#import "counters.h"

#include <stdlib.h>

#import "../support.h"
#import "accessors.h"
#import "device.h"
#import "report.h"

enum { MOST_BYTES_OF_SAMPLES = 32 << 10, ATTACHMENTS = 4 };

NSString *const MTLCounterErrorDomain = @"MTLCounterErrorDomain";
NSString *const MTLCommonCounterSetTimestamp = @"timestamp";
NSString *const MTLCommonCounterTimestamp = @"GPUTimestamp";

@implementation SMCounter

- (NSString *)name
{
    return given(MTLCommonCounterTimestamp);
}

@end

@implementation SMCounterSet

- (NSString *)name
{
    return given(MTLCommonCounterSetTimestamp);
}

- (NSArray *)counters
{
    return [NSArray arrayWithObject:[[SMCounter new] autorelease]];
}

@end

NSArray *counter_sets(void)
{
    return [NSArray arrayWithObject:[[SMCounterSet new] autorelease]];
}

@implementation MTLCounterSampleBufferDescriptor

- (void)dealloc
{
    [counterSet release];
    [label release];
    [super dealloc];
}

OBJECT(SMCounterSet, counterSet, setCounterSet, retain)
OBJECT(NSString, label, setLabel, copy)
NUMBER(storageMode, setStorageMode)
NUMBER(sampleCount, setSampleCount)

@end

@implementation SMCounterSampleBuffer

+ (id)newWithDevice:(SMDevice *)owner
         descriptor:(MTLCounterSampleBufferDescriptor *)given
              error:(NSError **)error
{
    NSString *wrong = nil;
    if (![MTLCounterSampleBufferDescriptor check:given] || ![SMCounterSet check:given->counterSet])
        wrong = @"there is no MTLCounterSampleBufferDescriptor, or it has no counter set of the device";
    else if (!given->sampleCount || given->sampleCount > MOST_BYTES_OF_SAMPLES / sizeof(uint64_t))
        wrong = [NSString stringWithFormat:@"%lu samples are none, or more than %lu bytes hold", given->sampleCount,
                                           (NSUInteger)MOST_BYTES_OF_SAMPLES];
    if (wrong) {
        if (error) *error = error_of(MTLCounterErrorDomain, MTLCounterSampleBufferErrorInvalid, wrong);
        return nil;
    }
    SMCounterSampleBuffer *made = [[self alloc] initWithDevice:owner];
    made->label = [given->label copy];
    made->count = given->sampleCount;
    made->storageMode = given->storageMode;
    made->samples = malloc(made->count * sizeof(uint64_t));
    // Nothing has been sampled yet.
    for (NSUInteger i = 0; i < made->count; ++i) made->samples[i] = MTLCounterErrorValue;
    return made;
}

- (void)dealloc
{
    free(samples);
    [super dealloc];
}

- (NSUInteger)sampleCount
{
    return count;
}

- (void)take:(NSUInteger)index
{
    __atomic_store_n(&samples[index], (uint64_t)(seconds_now() * 1e9), __ATOMIC_RELAXED);
}

- (NSData *)resolveCounterRange:(NSRange)range
{
    if (storageMode != MTLStorageModeShared || range.location > count || range.length > count - range.location) {
        report(@"resolveCounterRange: asks for %lu samples from %lu on of %lu, or they are private to the GPU",
               range.length, range.location, count);
        return nil;
    }
    return [NSData dataWithBytes:samples + range.location length:range.length * sizeof(uint64_t)];
}

@end

@implementation MTLComputePassSampleBufferAttachmentDescriptor

- (void)dealloc
{
    [sampleBuffer release];
    [super dealloc];
}

OBJECT(SMCounterSampleBuffer, sampleBuffer, setSampleBuffer, retain)
NUMBER(startOfEncoderSampleIndex, setStartOfEncoderSampleIndex)
NUMBER(endOfEncoderSampleIndex, setEndOfEncoderSampleIndex)

@end

@implementation MTLComputePassSampleBufferAttachmentDescriptorArray

- (id)init
{
    self = [super init];
    attachments = [NSMutableDictionary new];
    return self;
}

- (void)dealloc
{
    [attachments release];
    [super dealloc];
}

- (NSArray *)all
{
    return [attachments allValues];
}

- (id)objectAtIndexedSubscript:(NSUInteger)index
{
    if (index >= ATTACHMENTS) {
        report(@"a pass has %u attachments for samples, and none at %lu", ATTACHMENTS, index);
        return nil;
    }
    NSNumber *key = [NSNumber numberWithUnsignedLong:index];
    id found = [attachments objectForKey:key];
    if (!found) {
        found = [[MTLComputePassSampleBufferAttachmentDescriptor new] autorelease];
        [attachments setObject:found forKey:key];
    }
    return given(found);
}

@end

@implementation SMSample

- (NSError *)runWithSeed:(unsigned long)seed
{
    [buffer take:index];
    return nil;
}

@end
