#include "shadow.h"

#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <system_error>

namespace msl {
namespace {

std::atomic<bool> in_use{false};

}  // namespace

void use_shadow() {
    static std::mutex mutex;
    std::lock_guard lock(mutex);
    if (in_use) return;
    void *const wanted = (void *)softmetal::shadow_start;
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
    void *const made = mmap(wanted, softmetal::shadow_bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (made != wanted) {
        throw std::system_error(errno, std::generic_category(),
                                "IRIS_SOFTMETAL_SANITIZE needs address space that this process does not have "
                                "(other sanitizers and limits of memory take it)");
    }
    // What is only read should cost no more than a small page, and none of it is worth dumping.
    madvise(wanted, softmetal::shadow_bytes, MADV_NOHUGEPAGE);
    madvise(wanted, softmetal::shadow_bytes, MADV_DONTDUMP);
    in_use = true;
}

bool shadow_in_use() { return in_use.load(std::memory_order_relaxed); }

bool may_be_touched(const void *address) {
    const unsigned char shadow = *softmetal::shadow_of(address);
    return !shadow || (unsigned long)address % softmetal::shadow_granule < shadow;
}

unsigned char untouchable_at(const void *address) {
    if (!shadow_in_use() || (unsigned long)address >= softmetal::shadow_bytes * softmetal::shadow_granule) return 0;
    // What starts where it may does not end there: the first eight bytes that may not be touched say why.
    const unsigned char *shadow = softmetal::shadow_of(address);
    for (const unsigned char *at = shadow; at < shadow + 4; ++at) {
        if (*at >= softmetal::shadow_granule) return *at;
    }
    return 0;
}

}  // namespace msl
