#import "faults.h"

#import <Foundation/Foundation.h>
#include <pthread.h>
#include <string.h>

#import "metal/command_buffer.h"
#import "metal/object.h"
#import "softmetal.h"
#import "support.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char *ordered;             // the method's name
static unsigned calls_until;      // 1: the next one fails
static volatile int is_ordered;   // read at every message, without the lock
static int was_carried_out;

int ordered_fault_of(const char *name)
{
    if (!is_ordered) return 0;
    pthread_mutex_lock(&mutex);
    int now = ordered && strcmp(ordered, name) == 0 && --calls_until == 0;
    if (now) {
        free(ordered);
        ordered = NULL;
        is_ordered = 0;
        was_carried_out = 1;
    }
    pthread_mutex_unlock(&mutex);
    return now;
}

static NSError *fault_of(SEL selector, NSString *domain)
{
    NSString *text = [NSString stringWithFormat:@"%s failed, as was ordered", sel_getName(selector)];
    return error_of(domain, 1, text);
}

static id give_nothing(id self, SEL selector)
{
    return nil;
}

// All arguments of the methods below are words, and not more than four.
static void *last_of(SEL selector, void *first, void *second, void *third, void *fourth)
{
    void *arguments[] = {first, second, third, fourth};
    unsigned count = 0;
    for (const char *c = sel_getName(selector); *c; ++c) count += *c == ':';
    return arguments[count - 1];
}

static id give_error(id self, SEL selector, void *first, void *second, void *third, void *fourth)
{
    NSError **error = last_of(selector, first, second, third, fourth);
    if (error) *error = fault_of(selector, MTLLibraryErrorDomain);
    return nil;
}

static id call_handler(id self, SEL selector, void *first, void *second, void *third, void *fourth)
{
    void *handler = last_of(selector, first, second, third, fourth);
    const char *name = sel_getName(selector);
    // A pipeline with options comes with its reflection.
    if (strstr(name, "PipelineState") && strstr(name, ":options:"))
        call_block(handler, void (*)(void *, id, id, id), nil, nil, fault_of(selector, MTLLibraryErrorDomain));
    else
        call_block(handler, void (*)(void *, id, id), nil, fault_of(selector, MTLLibraryErrorDomain));
    return nil;
}

static id fail_command_buffer(id self, SEL selector)
{
    [(SMCommandBuffer *)self failWith:fault_of(selector, MTLCommandBufferErrorDomain)];
    return ((id(*)(id, SEL))objc_msg_lookup(self, selector))(self, selector);
}

static int ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), most = strlen(end);
    return length >= most && strcmp(text + length - most, end) == 0;
}

IMP ordered_fault(id receiver, SEL selector)
{
    if (!is_ordered) return NULL;
    const char *name = sel_getName(selector);
    if (!ordered_fault_of(name)) return NULL;
    if (is_live(receiver, [SMCommandBuffer class]) &&
        (strcmp(name, "commit") == 0 || strncmp(name, "waitUntil", 9) == 0))
        return (IMP)fail_command_buffer;
    if (ends_with(name, "error:")) return (IMP)give_error;
    if (ends_with(name, "completionHandler:")) return (IMP)call_handler;
    return (IMP)give_nothing;
}

#pragma GCC visibility push(default)

int softmetal_fail(const char *selector, unsigned nth)
{
    pthread_mutex_lock(&mutex);
    int result = was_carried_out;
    was_carried_out = 0;
    free(ordered);
    ordered = selector && nth ? strdup(selector) : NULL;
    calls_until = nth;
    is_ordered = ordered != NULL;
    pthread_mutex_unlock(&mutex);
    return result;
}

#pragma GCC visibility pop
