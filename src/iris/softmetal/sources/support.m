// What Apple's Objective-C runtime has and GCC's has not, on the classes of GNUstep.

#import "support.h"

#import <objc/message.h>
#import <objc/runtime.h>

#import "faults.h"
#import "metal/report.h"
#import "softmetal.h"

unsigned long softmetal_message_count;
// The object whose methods return structures in memory; what is no address as long as there is none.
void *softmetal_answers_in_memory = (void *)-1;

// The pool that lasts; the model makes reading it one instruction.
static __thread NSAutoreleasePool *lasting_pool __attribute__((tls_model("initial-exec")));

void prepare_thread(void)
{
    if (lasting_pool) return;
    GSRegisterCurrentThread();
    lasting_pool = [NSAutoreleasePool new];
}

id autoreleased(id object)
{
    return [NSAutoreleasePool currentPool] == lasting_pool ? object : [object autorelease];
}

IMP softmetal_lookup(id receiver, SEL selector)
{
    prepare_thread();
    IMP failing = ordered_fault(receiver, selector);
    return failing ? failing : objc_msg_lookup(receiver, selector);
}

static void *answer_nothing_in_memory(void *result)
{
    return memset(result, 0, 3 * sizeof(void *));
}

IMP softmetal_lookup_in_memory(id receiver, SEL selector)
{
    prepare_thread();
    if (class_respondsToSelector(object_getClass(receiver), selector)) return objc_msg_lookup(receiver, selector);
    report_unknown_message(receiver, selector);
    return (IMP)(void *)answer_nothing_in_memory;
}

#pragma GCC visibility push(default)

unsigned long softmetal_messages(void)
{
    return softmetal_message_count;
}

id objc_retain(id object)
{
    prepare_thread();
    return [object retain];
}

void objc_release(id object)
{
    prepare_thread();
    [object release];
}

id objc_autorelease(id object)
{
    prepare_thread();
    return [object autorelease];
}

#pragma GCC visibility pop

// The pools that this thread has pushed.
static __thread void **pushed;
static __thread unsigned pushed_count, pushed_space;

#pragma GCC visibility push(default)

void *objc_autoreleasePoolPush(void)
{
    prepare_thread();
    if (pushed_count == pushed_space) pushed = realloc(pushed, (pushed_space += 64) * sizeof *pushed);
    return pushed[pushed_count++] = [NSAutoreleasePool new];
}

// Those pushed since, and not popped, go with it.
void objc_autoreleasePoolPop(void *pool)
{
    unsigned at = pushed_count;
    while (at && pushed[at - 1] != pool) --at;
    if (!at) {
        report(@"the autorelease pool %p is popped twice, or by a thread that has not pushed it", pool);
        return;
    }
    pushed_count = at - 1;
    if (!pushed_count) {
        // Threads end without notice.
        free(pushed);
        pushed = NULL;
        pushed_space = 0;
    }
    [(NSAutoreleasePool *)pool release];
}

#pragma GCC visibility pop
