#include "fibers.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <new>

#include "../../include/softmetal_shadow"

namespace msl {
namespace {

constexpr size_t guard = 4096;

// Stacks that all began at the same place of a page would compete for the same lines of the cache.
size_t colour(unsigned number) { return number * 320 % 16384; }

#if defined(__x86_64__)
constexpr size_t saved_words = 6, return_word = 6;
#else
constexpr size_t saved_words = 20, return_word = 1;
#endif

}  // namespace

Stacks::Stacks(unsigned count) : length(count * bytes) {
    void *made = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made == MAP_FAILED) throw std::bad_alloc();
    memory = static_cast<char *>(made);
    for (unsigned i = 0; i < count; ++i) mprotect(memory + i * bytes, guard, PROT_NONE);
}

Stacks::~Stacks() { munmap(memory, length); }

void *Stacks::prepare(unsigned number, void (*start)()) const {
    char *top = memory + (number + 1) * bytes - 64 - colour(number);
    auto words = reinterpret_cast<uintptr_t *>(top) - 2 - (saved_words + 2);
    std::memset(words, 0, (saved_words + 2) * sizeof(*words));
    words[return_word] = reinterpret_cast<uintptr_t>(start);
    // As after a call: on x86-64 the stack is then 8 bytes off a multiple of 16.
    return words;
}

void Stacks::make_touchable() const {
    unsigned char *const from = softmetal::shadow_of(memory), *const end = softmetal::shadow_of(memory + length);
    const auto page = [](unsigned char *at) { return (unsigned char *)((uintptr_t)at & ~(uintptr_t)4095); };
    unsigned char *const first = page(from + 4095), *const last = page(end);
    std::memset(from, 0, size_t(first - from));
    madvise(first, size_t(last - first), MADV_DONTNEED);  // its pages come back as zeros
    std::memset(last, 0, size_t(end - last));
}

bool Stacks::contain(const void *address) const {
    return size_t(static_cast<const char *>(address) - memory) < length;
}

bool Stacks::overflowed_at(const void *address) const {
    const size_t at = static_cast<const char *>(address) - memory;
    return at < length && at % bytes < guard;
}

}  // namespace msl
