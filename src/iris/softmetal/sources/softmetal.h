// What the library can do that Metal cannot: for tests, and for who wants to know what went wrong.
#pragma once

#pragma GCC visibility push(default)

// What was done wrong since this was last asked, one line each, where there was no command buffer to
// blame.  Valid until this thread asks again.
const char *softmetal_reports(void);

// Metal's objects that are not deallocated, and a text of how many there are of each class.
unsigned long softmetal_live_objects(void);
const char *softmetal_live_text(void);

// Makes the nth call from now on of a method, or of MTLCreateSystemDefaultDevice, fail as it would in
// Metal: nil, with an error if it gives one; for commit and waitUntilCompleted, the command buffer fails.
// Null forgets the order.  Returns whether the order before this was carried out.
int softmetal_fail(const char *selector, unsigned nth);

// The messages that clients have sent.
unsigned long softmetal_messages(void);

// Of the order in which lanes, and dispatches that may run at the same time, do run; 0: as numbered.
void softmetal_set_seed(unsigned long);

#pragma GCC visibility pop
