#import "event.h"

#include <errno.h>
#include <time.h>

#import "../support.h"
#import "device.h"
#import "report.h"

// Where notifications are sent from, which is the thread that signals.
@interface MTLSharedEventListener : SMObject
@end

@implementation MTLSharedEventListener

- (id)initWithDispatchQueue:(id)queue
{
    return [self init];
}

@end

@interface SMNotification : NSObject {
@public
    uint64_t value;
    void *block;
}
@end

@implementation SMNotification
@end

@implementation SMEvent

- (id)initWithDevice:(SMDevice *)owner
{
    self = [super initWithDevice:owner];
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&mutex, NULL);
    listeners = [NSMutableArray new];
    return self;
}

- (void)dealloc
{
    [listeners release];
    pthread_mutex_destroy(&mutex);
    pthread_cond_destroy(&changed);
    [super dealloc];
}

- (uint64_t)value
{
    pthread_mutex_lock(&mutex);
    uint64_t found = value;
    pthread_mutex_unlock(&mutex);
    return found;
}

- (NSArray *)takeListenersUpTo:(uint64_t)number
{
    NSMutableArray *taken = [NSMutableArray array];
    for (NSUInteger i = [listeners count]; i-- > 0;) {
        SMNotification *one = [listeners objectAtIndex:i];
        if (one->value > number) continue;
        [taken insertObject:one atIndex:0];
        [listeners removeObjectAtIndex:i];
    }
    return taken;
}

- (void)call:(NSArray *)notifications
{
    for (NSUInteger i = 0; i < [notifications count]; ++i) {
        SMNotification *one = [notifications objectAtIndex:i];
        call_block(one->block, void (*)(void *, id, uint64_t), self, one->value);
    }
}

- (void)setValue:(uint64_t)number
{
    NSAutoreleasePool *pool = [NSAutoreleasePool new];
    pthread_mutex_lock(&mutex);
    uint64_t before = value;
    value = number;
    pthread_cond_broadcast(&changed);
    NSArray *notifications = [self takeListenersUpTo:number];
    pthread_mutex_unlock(&mutex);
    if (number < before) report(@"the event %@goes back from %lu to %lu", quoted(label), before, number);
    [self call:notifications];
    [pool release];
}

- (void)notifyListener:(MTLSharedEventListener *)listener atValue:(uint64_t)number block:(void *)block
{
    if (![MTLSharedEventListener check:listener] || !block) {
        report(@"notifyListener:atValue:block: is given no MTLSharedEventListener, or no block");
        return;
    }
    NSAutoreleasePool *pool = [NSAutoreleasePool new];
    SMNotification *made = [[SMNotification new] autorelease];
    made->value = number;
    made->block = block;
    pthread_mutex_lock(&mutex);
    [listeners addObject:made];
    NSArray *notifications = [self takeListenersUpTo:value];
    pthread_mutex_unlock(&mutex);
    [self call:notifications];
    [pool release];
}

- (BOOL)waitForValue:(uint64_t)number seconds:(double)seconds
{
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    if (seconds > 1e9) seconds = 1e9;
    double fraction = end.tv_nsec / 1e9 + seconds;
    end.tv_sec += (time_t)fraction;
    end.tv_nsec = (long)((fraction - (double)(time_t)fraction) * 1e9);
    pthread_mutex_lock(&mutex);
    int wrong = 0;
    while (value < number && !wrong) wrong = pthread_cond_timedwait(&changed, &mutex, &end);
    BOOL reached = value >= number;
    pthread_mutex_unlock(&mutex);
    return reached;
}

@end

@implementation SMSharedEvent

- (uint64_t)signaledValue
{
    return [self value];
}

- (void)setSignaledValue:(uint64_t)number
{
    [self setValue:number];
}

- (NSInteger)waitUntilSignaledValue:(uint64_t)number timeoutMS:(uint64_t)milliseconds
{
    return [self waitForValue:number seconds:milliseconds / 1e3];
}

@end

@implementation SMFence
@end

static int workers;

void work_begins(void)
{
    __atomic_add_fetch(&workers, 1, __ATOMIC_RELAXED);
}

void work_ends(void)
{
    __atomic_sub_fetch(&workers, 1, __ATOMIC_RELAXED);
}

// The time counts while nothing runs that may signal it.
static BOOL wait_for(SMEvent *event, uint64_t value)
{
    const double allowed = seconds_allowed(), slice = allowed < 1 ? allowed / 10 : 0.1;
    BOOL reached = NO;
    work_ends();
    for (double since = seconds_now(); !reached && seconds_now() - since < allowed;) {
        reached = [event waitForValue:value seconds:slice];
        if (__atomic_load_n(&workers, __ATOMIC_RELAXED)) since = seconds_now();
    }
    work_begins();
    return reached;
}

@implementation SMEventCommand

- (NSError *)runWithSeed:(unsigned long)seed
{
    if (!waits) {
        [event setValue:value];
        return nil;
    }
    if (wait_for(event, value)) return nil;
    return late_failure([NSString stringWithFormat:@"the event %@has not come to %lu in %g seconds, but to %lu",
                                                   quoted([event label]), value, seconds_allowed(), [event value]]);
}

@end
