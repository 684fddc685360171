#include "memory.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../msl/msl.h"

// Addresses cost nothing, and an index that is wrong is often far off.
enum { ALIGNMENT = 16, GUARD = 64 << 20 };

static size_t page_size(void)
{
    static size_t size;
    if (!size) size = (size_t)sysconf(_SC_PAGESIZE);
    return size;
}

static size_t rounded_up(size_t size, size_t to)
{
    return (size + to - 1) / to * to;
}

// A nan that no arithmetic leaves as it is, and an index out of all bounds.
static unsigned char poison_at(const unsigned char *at)
{
    static const unsigned char poison[4] = {0xFF, 0xA5, 0xA5, 0xFF};
    return poison[(uintptr_t)at % sizeof poison];
}

int guarded_mend(void *end)
{
    int found = 0;
    for (unsigned char *at = end; (uintptr_t)at % ALIGNMENT; ++at) {
        found |= *at != poison_at(at);
        *at = poison_at(at);
    }
    return found;
}

// Where memory starts that ends at `end`, but for what alignment costs; that is poisoned, for what is
// done there to be noticed.  Kernels that are checked may touch nothing else of the pages.
static char *start_in(char *pages, char *end, size_t size)
{
    size_t held = rounded_up(size, ALIGNMENT);
    guarded_mend(end - held + size);
    msl_make_untouchable(end - held + size, held - size);
    msl_make_untouchable(pages, (size_t)(end - held - pages));
    return end - held;
}

int guarded_map(struct guarded *memory, size_t size)
{
    size_t page = page_size();
    if (size > SIZE_MAX / 2) return 0;
    size_t usable = rounded_up(size, page);
    size_t mapped = usable + 2 * GUARD;
    char *mapping = mmap(NULL, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) return 0;
    if (usable && mprotect(mapping + GUARD, usable, PROT_READ | PROT_WRITE) != 0) {
        munmap(mapping, mapped);
        return 0;
    }
    *memory = (struct guarded){start_in(mapping + GUARD, mapping + GUARD + usable, size), mapping, mapped};
    return 1;
}

// Address space costs little, but the kernel counts mappings.
enum { MOST_UNMAPPED = 1024 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct guarded unmapped[MOST_UNMAPPED];
static unsigned oldest;

void guarded_unmap(struct guarded *memory)
{
    if (!memory->mapping) return;
    msl_close_gaps(memory->start);
    char *pages = (char *)memory->mapping + GUARD;
    msl_make_touchable(pages, memory->mapped - 2 * (size_t)GUARD);
    // Mapped anew, rather than protected: the memory itself is free at once.
    mmap(memory->mapping, memory->mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    pthread_mutex_lock(&mutex);
    struct guarded gone = unmapped[oldest];
    unmapped[oldest] = *memory;
    oldest = (oldest + 1) % MOST_UNMAPPED;
    pthread_mutex_unlock(&mutex);
    if (gone.mapping) munmap(gone.mapping, gone.mapped);
    *memory = (struct guarded){0};
}

// Of each, the first word holds the next while it is free.
static void *free_pages;

void *guarded_few(size_t size)
{
    size_t usable = rounded_up(GUARDED_FEW, page_size());
    pthread_mutex_lock(&mutex);
    char *pages = free_pages;
    if (pages) free_pages = *(void **)pages;
    pthread_mutex_unlock(&mutex);
    if (!pages) {
        struct guarded made;
        if (!guarded_map(&made, usable)) return NULL;
        pages = made.start;
    }
    return start_in(pages, pages + usable, size);
}

void guarded_few_free(void *start)
{
    char *pages = (char *)((uintptr_t)start & ~(uintptr_t)(page_size() - 1));
    msl_make_touchable(pages, rounded_up(GUARDED_FEW, page_size()));
    pthread_mutex_lock(&mutex);
    *(void **)pages = free_pages;
    free_pages = pages;
    pthread_mutex_unlock(&mutex);
}
