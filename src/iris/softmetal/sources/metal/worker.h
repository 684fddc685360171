// A thread that does one thing after the other, in the order in which they are given to it.
#pragma once

struct worker;

// Starts with the first task.
struct worker *worker_new(void);
void worker_do(struct worker *, void (*task)(void *), void *argument);
// Ends when all is done; may be called by what it does.
void worker_end(struct worker *);
