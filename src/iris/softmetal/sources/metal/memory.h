// Memory between pages that nobody may touch.
#pragma once

#include <stddef.h>

struct guarded {
    void *start;    // of what may be used, at a multiple of 16 bytes
    void *mapping;  // of all pages
    size_t mapped;
};

// Memory of zeros, whose end lies at a page's end.  Returns 0 if there is none.
int guarded_map(struct guarded *memory, size_t size);
// For some time, who touches it is noticed.
void guarded_unmap(struct guarded *memory);

// Between an end that is at no multiple of 16 bytes and the page that nobody may touch: what was written
// there is wiped out; whether there was something.
int guarded_mend(void *end);

// Memory for few bytes, faster: the pages are used again at once.
enum { GUARDED_FEW = 4096 };
void *guarded_few(size_t size);
void guarded_few_free(void *start);
