// What happens when the library is loaded.

#import <Foundation/Foundation.h>
#include <dlfcn.h>
#import <objc/message.h>
#import <objc/runtime.h>

#import "metal/report.h"
#include "msl/msl.h"

static IMP (*usual_forwarding)(id, SEL);

// Both kinds of registers in which a result may be expected.
struct nothing {
    long integer;
    double number;
};

static struct nothing answer_nothing(id self, SEL selector)
{
    report_unknown_message(self, selector);
    return (struct nothing){0};
}

// An exception would end the process of a client that is not written in Objective-C.  Objects that
// forward messages to others go on doing so.
static IMP forward(id receiver, SEL selector)
{
    Class class = object_getClass(receiver);
    if (class_respondsToSelector(class, @selector(methodSignatureForSelector:)) &&
        [receiver methodSignatureForSelector:selector])
        return usual_forwarding(receiver, selector);
    return (IMP)(void *)answer_nothing;
}

// Kernels' headers lie beside the library, and what is made of them does.
static void find_headers(void)
{
    Dl_info info;
    if (!dladdr((void *)find_headers, &info)) return;
    char *path = realpath(info.dli_fname, NULL);
    char *slash = path ? strrchr(path, '/') : NULL;
    if (slash) {
        *slash = 0;
        char *include = NULL;
        if (asprintf(&include, "%s/include", path) > 0) msl_configure(include, path, NULL);
        free(include);
    }
    free(path);
}

@interface SMLoading : NSObject
@end

@implementation SMLoading

+ (void)load
{
    find_headers();
    // Foundation sets it when it is first needed.
    [NSInvocation class];
    usual_forwarding = __objc_msg_forward2;
    __objc_msg_forward2 = forward;
}

@end
