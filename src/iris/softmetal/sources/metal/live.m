#import "live.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

enum { MOST_REMEMBERED = 4096 };

// Open addressing; what is removed leaves a mark, as others may lie behind it.
struct entry {
    void *object;
    Class class;
};
static void *const removed = (void *)1;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct entry *entries;
static unsigned long size, used, alive;  // `used` counts the marks as well

static void *remembered[MOST_REMEMBERED];
static unsigned long forgotten_next;

static struct entry *find(void *object)
{
    unsigned long at = ((uintptr_t)object >> 4) * 0x9e3779b97f4a7c15ul;
    for (at %= size; entries[at].object && entries[at].object != object; at = (at + 1) % size) {
    }
    return &entries[at];
}

static void grow(void)
{
    struct entry *old = entries;
    unsigned long old_size = size;
    size = alive * 4 > 256 ? alive * 4 : 256;
    entries = calloc(size, sizeof *entries);
    used = alive;
    for (unsigned long i = 0; i < old_size; ++i) {
        if (old[i].object && old[i].object != removed) *find(old[i].object) = old[i];
    }
    free(old);
}

void live_add(void *object, Class class)
{
    pthread_mutex_lock(&mutex);
    if (used * 2 >= size) grow();
    *find(object) = (struct entry){object, class};
    ++used;
    ++alive;
    pthread_mutex_unlock(&mutex);
}

id live_remove(void *object)
{
    pthread_mutex_lock(&mutex);
    struct entry *entry = find(object);
    if (entry->object) {
        entry->object = removed;
        --alive;
    }
    void *oldest = remembered[forgotten_next];
    remembered[forgotten_next] = object;
    forgotten_next = (forgotten_next + 1) % MOST_REMEMBERED;
    pthread_mutex_unlock(&mutex);
    return oldest;
}

Class live_class(void *object)
{
    if ((uintptr_t)object <= (uintptr_t)removed) return Nil;
    pthread_mutex_lock(&mutex);
    Class found = Nil;
    if (size) {
        struct entry *entry = find(object);
        if (entry->object) found = entry->class;
    }
    pthread_mutex_unlock(&mutex);
    return found;
}

unsigned long live_count(void)
{
    pthread_mutex_lock(&mutex);
    unsigned long count = alive;
    pthread_mutex_unlock(&mutex);
    return count;
}

Class *live_classes(unsigned long *count)
{
    pthread_mutex_lock(&mutex);
    Class *made = malloc((alive + 1) * sizeof *made);
    *count = 0;
    for (unsigned long i = 0; i < size; ++i) {
        if (entries[i].object && entries[i].object != removed) made[(*count)++] = entries[i].class;
    }
    pthread_mutex_unlock(&mutex);
    return made;
}
