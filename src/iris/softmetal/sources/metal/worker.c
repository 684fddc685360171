#include "worker.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

struct task {
    void (*run)(void *);
    void *argument;
    struct task *next;
};

struct worker {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct task *first, **last;
    pid_t process;  // in which its thread runs
    int ends;
};

static void *work(void *argument)
{
    struct worker *worker = argument;
    pthread_mutex_lock(&worker->mutex);
    for (;;) {
        while (!worker->first && !worker->ends) pthread_cond_wait(&worker->changed, &worker->mutex);
        struct task *task = worker->first;
        if (!task) break;
        if (!(worker->first = task->next)) worker->last = &worker->first;
        pthread_mutex_unlock(&worker->mutex);
        task->run(task->argument);
        free(task);
        pthread_mutex_lock(&worker->mutex);
    }
    pthread_mutex_unlock(&worker->mutex);
    free(worker);
    return NULL;
}

struct worker *worker_new(void)
{
    struct worker *made = calloc(1, sizeof *made);
    pthread_mutex_init(&made->mutex, NULL);
    pthread_cond_init(&made->changed, NULL);
    made->last = &made->first;
    return made;
}

// A forked process has no thread of it, nor what that had to do.
static void start(struct worker *worker)
{
    if (worker->process) {
        pthread_cond_init(&worker->changed, NULL);
        worker->first = NULL;
        worker->last = &worker->first;
    }
    worker->process = getpid();
    pthread_t thread;
    pthread_attr_t detached;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    pthread_create(&thread, &detached, work, worker);
    pthread_attr_destroy(&detached);
}

void worker_do(struct worker *worker, void (*run)(void *), void *argument)
{
    struct task *task = malloc(sizeof *task);
    *task = (struct task){run, argument, NULL};
    pthread_mutex_lock(&worker->mutex);
    if (worker->process != getpid()) start(worker);
    *worker->last = task;
    worker->last = &task->next;
    pthread_cond_signal(&worker->changed);
    pthread_mutex_unlock(&worker->mutex);
}

void worker_end(struct worker *worker)
{
    pthread_mutex_lock(&worker->mutex);
    int runs = worker->process == getpid();
    worker->ends = 1;
    pthread_cond_signal(&worker->changed);
    pthread_mutex_unlock(&worker->mutex);
    if (!runs) free(worker);
}
