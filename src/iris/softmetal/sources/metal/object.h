// What all of Metal's objects have in common.
#pragma once

#import <Foundation/Foundation.h>

@class SMDevice;

// It is known while it lives, and for some time after that what it was.
@interface SMObject : NSObject {
@private
    Class was;  // its class, once it is deallocated
}
// The object, if it is one of this class that lives; else nil.
+ (id)check:(id)object;
@end

// What a device has made.
@interface SMDeviceObject : SMObject {
@protected
    SMDevice *device;
    NSString *label;
}
- (id)initWithDevice:(SMDevice *)owner;
- (SMDevice *)device;
- (NSString *)label;
- (void)setLabel:(NSString *)text;
@end

// What an object was that is deallocated; Nil for all others.
Class class_before_deallocation(id object);

BOOL is_live(id object, Class class);

// A text given away: clients that release it once do no harm.
id given(id object);

// Of C's texts, which may have come from anywhere.
NSString *string_of(const char *text);

NSError *error_of(NSString *domain, NSInteger code, NSString *text);

// Tells what is wrong with a library, if there is a place for it; gives nil.
id fail_with(NSError **place, NSInteger code, NSString *text);

// "'name' ", or nothing.
NSString *quoted(NSString *label);

// Seconds since some time in the past.
double seconds_now(void);
