#import "object.h"

#import <objc/runtime.h>
#include <stdlib.h>
#include <time.h>

#import "../softmetal.h"
#import "../support.h"
#import "device.h"
#import "live.h"
#include "metal.h"
#import "report.h"

NSString *const MTLLibraryErrorDomain = @"MTLLibraryErrorDomain";
NSString *const MTLCommandBufferErrorDomain = @"MTLCommandBufferErrorDomain";

// A class without methods: whatever is sent to what is deallocated is unknown, which is reported.
__attribute__((objc_root_class)) @interface SMDeallocated {
@public
    Class isa, was;  // as in SMObject
}
@end

@implementation SMDeallocated
@end

Class class_before_deallocation(id object)
{
    static Class deallocated;
    if (!deallocated) deallocated = objc_getClass("SMDeallocated");
    return object_getClass(object) == deallocated ? ((SMDeallocated *)object)->was : Nil;
}

@implementation SMObject

+ (id)allocWithZone:(NSZone *)zone
{
    id made = [super allocWithZone:zone];
    live_add(made, self);
    return made;
}

+ (id)check:(id)object
{
    return is_live(object, self) ? object : nil;
}

// The memory stays for some time, as what says that the object is no more.
- (void)stayForSomeTime
{
    was = object_getClass(self);
    id oldest = live_remove(self);
    if (oldest) {
        object_setClass(oldest, ((SMDeallocated *)oldest)->was);
        NSDeallocateObject(oldest);
    }
    object_setClass(self, objc_getClass("SMDeallocated"));
}

- (void)dealloc
{
    [self stayForSomeTime];
    return;
    [super dealloc];  // which the compiler wants to see
}

@end

@implementation SMDeviceObject

- (id)initWithDevice:(SMDevice *)owner
{
    self = [super init];
    device = [owner retain];
    return self;
}

- (void)dealloc
{
    [label release];
    [device release];
    [super dealloc];
}

- (SMDevice *)device
{
    return device;
}

- (NSString *)label
{
    return given(label);
}

- (void)setLabel:(NSString *)text
{
    NSString *copy = [text copy];
    [label release];
    label = copy;
}

@end

@interface SMError : NSError
@end

@implementation SMError

- (NSString *)localizedDescription
{
    return given([super localizedDescription]);
}

- (NSString *)domain
{
    return given([super domain]);
}

@end

BOOL is_live(id object, Class class)
{
    for (Class one = live_class(object); one; one = class_getSuperclass(one)) {
        if (one == class) return YES;
    }
    return NO;
}

id given(id object)
{
    return autoreleased([object retain]);
}

NSString *string_of(const char *text)
{
    NSString *made = [[NSString alloc] initWithBytes:text length:strlen(text) encoding:NSUTF8StringEncoding];
    if (!made) made = [[NSString alloc] initWithBytes:text length:strlen(text) encoding:NSISOLatin1StringEncoding];
    return autoreleased(made);
}

NSError *error_of(NSString *domain, NSInteger code, NSString *text)
{
    NSDictionary *info = [[NSDictionary alloc] initWithObjectsAndKeys:text, NSLocalizedDescriptionKey, nil];
    NSError *made = [[SMError alloc] initWithDomain:domain code:code userInfo:info];
    [info release];
    return autoreleased(made);
}

id fail_with(NSError **place, NSInteger code, NSString *text)
{
    if (place) *place = error_of(MTLLibraryErrorDomain, code, text);
    return nil;
}

NSString *quoted(NSString *label)
{
    return [label length] ? [NSString stringWithFormat:@"'%@' ", label] : @"";
}

double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

#pragma GCC visibility push(default)

unsigned long softmetal_live_objects(void)
{
    return live_count();
}

const char *softmetal_live_text(void)
{
    prepare_thread();
    NSAutoreleasePool *pool = [NSAutoreleasePool new];
    NSCountedSet *names = [NSCountedSet set];
    unsigned long count;
    Class *classes = live_classes(&count);
    for (unsigned long i = 0; i < count; ++i) [names addObject:NSStringFromClass(classes[i])];
    free(classes);
    NSMutableString *text = [NSMutableString string];
    for (NSString *name in [[names allObjects] sortedArrayUsingSelector:@selector(compare:)])
        [text appendFormat:@"%@ %lu\n", name, (unsigned long)[names countForObject:name]];
    const char *result = lasting_text(text);
    [pool release];
    return result;
}

#pragma GCC visibility pop
