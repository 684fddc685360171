#import "report.h"

#import <objc/runtime.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#import "../softmetal.h"
#import "object.h"

enum { MOST_KEPT = 1 << 20 };  // bytes of reports that nobody asks for

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char *kept;
static size_t kept_bytes;

static void keep(const char *line)
{
    fprintf(stderr, "softmetal: %s\n", line);
    size_t bytes = strlen(line);
    pthread_mutex_lock(&mutex);
    char *grown = kept_bytes < MOST_KEPT ? realloc(kept, kept_bytes + bytes + 2) : NULL;
    if (grown) {
        kept = grown;
        memcpy(kept + kept_bytes, line, bytes);
        kept_bytes += bytes;
        kept[kept_bytes++] = '\n';
        kept[kept_bytes] = 0;
    }
    pthread_mutex_unlock(&mutex);
}

void report(NSString *text, ...)
{
    va_list arguments;
    va_start(arguments, text);
    NSAutoreleasePool *pool = [NSAutoreleasePool new];
    NSString *message = [[NSString alloc] initWithFormat:text arguments:arguments];
    keep([message UTF8String]);
    [message release];
    [pool release];
    va_end(arguments);
}

// Without any message, as the receiver may be of any class.
void report_unknown_message(id receiver, SEL selector)
{
    char line[512];
    Class was = class_before_deallocation(receiver), class = was ? was : object_getClass(receiver);
    snprintf(line, sizeof line, "%c[%s %s]: %s", class_isMetaClass(class) ? '+' : '-', class_getName(class),
             sel_getName(selector), was ? "the object is deallocated" : "there is no such method");
    keep(line);
}

static __thread char *last_text;

const char *lasting_text(NSString *text)
{
    free(last_text);
    last_text = strdup([text UTF8String]);
    return last_text;
}

#pragma GCC visibility push(default)

const char *softmetal_reports(void)
{
    free(last_text);
    pthread_mutex_lock(&mutex);
    last_text = kept ? kept : strdup("");
    kept = NULL;
    kept_bytes = 0;
    pthread_mutex_unlock(&mutex);
    return last_text;
}

#pragma GCC visibility pop
