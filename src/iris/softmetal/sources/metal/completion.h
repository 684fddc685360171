// What who waits for something waits for, which may outlive it.
#pragma once

struct completion;

// With one reference.
struct completion *completion_new(void);
void completion_retain(struct completion *);
void completion_release(struct completion *);

void completion_wait(struct completion *);
void completion_happen(struct completion *);
