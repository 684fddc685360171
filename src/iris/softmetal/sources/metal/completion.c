#include "completion.h"

#include <pthread.h>
#include <stdlib.h>

struct completion {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int references, has_happened;
};

struct completion *completion_new(void)
{
    struct completion *made = calloc(1, sizeof *made);
    pthread_mutex_init(&made->mutex, NULL);
    pthread_cond_init(&made->changed, NULL);
    made->references = 1;
    return made;
}

void completion_retain(struct completion *one)
{
    __atomic_add_fetch(&one->references, 1, __ATOMIC_RELAXED);
}

void completion_release(struct completion *one)
{
    if (__atomic_sub_fetch(&one->references, 1, __ATOMIC_ACQ_REL)) return;
    pthread_mutex_destroy(&one->mutex);
    pthread_cond_destroy(&one->changed);
    free(one);
}

void completion_wait(struct completion *one)
{
    pthread_mutex_lock(&one->mutex);
    while (!one->has_happened) pthread_cond_wait(&one->changed, &one->mutex);
    pthread_mutex_unlock(&one->mutex);
}

void completion_happen(struct completion *one)
{
    pthread_mutex_lock(&one->mutex);
    one->has_happened = 1;
    pthread_cond_broadcast(&one->changed);
    pthread_mutex_unlock(&one->mutex);
}
