#include "shadow.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <system_error>
#include <vector>

namespace msl {
namespace {

std::atomic<bool> in_use{false};

// Of each buffer that has gaps, by its start.
std::shared_mutex gaps_mutex;
std::map<unsigned long, std::vector<unsigned char>> &gaps() {
    static auto &all = *new std::map<unsigned long, std::vector<unsigned char>>;
    return all;
}

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

void make_gaps(const void *start, unsigned long bytes, const unsigned char *touchable) {
    std::unique_lock lock(gaps_mutex);
    gaps()[(unsigned long)start].assign(touchable, touchable + bytes);
    unsigned char *shadow = softmetal::shadow_of(start);
    for (unsigned long at = 0; at < bytes; at += softmetal::shadow_granule, ++shadow) {
        const unsigned long end = std::min(at + softmetal::shadow_granule, bytes);
        const bool whole = std::all_of(touchable + at, touchable + end, [](unsigned char is) { return is; });
        if (!whole) *shadow = softmetal::untouchable_gap;
    }
}

void close_gaps(const void *start) {
    std::unique_lock lock(gaps_mutex);
    const auto found = gaps().find((unsigned long)start);
    if (found == gaps().end()) return;
    softmetal::make_touchable(start, found->second.size());
    gaps().erase(found);
}

bool is_in_no_gap(const void *address, unsigned long bytes) {
    std::shared_lock lock(gaps_mutex);
    const unsigned long first = (unsigned long)address;
    auto found = gaps().upper_bound(first);
    if (found == gaps().begin()) return false;
    const auto &[start, touchable] = *--found;
    if (first + bytes - start > touchable.size()) return false;
    const auto at = touchable.begin() + (first - start);
    return std::all_of(at, at + bytes, [](unsigned char is) { return is; });
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
