#include "order.h"

#include <sys/mman.h>

#include <algorithm>

namespace msl {
namespace {

constexpr unsigned long most_threads_followed = 1ul << 18, most_bytes = 8ul << 30, places = 1ul << 16;

}  // namespace

Order::Order(unsigned long groups, unsigned threads_of_group)
    : threads(threads_of_group), count(groups * threads_of_group) {
    if (!count || count > most_threads_followed) return;
    const unsigned long words = groups + 4 * count + 2 * places;
    bytes = most_bytes;
    most = (bytes / sizeof(long) - words) / count;
    void *mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) return;
    memory = static_cast<char *>(mapped);
    of_group = reinterpret_cast<Clock *>(memory);
    of_thread = of_group + groups;
    found = of_thread + count;
    fenced_at = reinterpret_cast<unsigned long *>(found + count);
    together_at = fenced_at + count;
    left = reinterpret_cast<Left *>(together_at + count);
    clocks = reinterpret_cast<unsigned long *>(left + places);
    followed = true;
}

Order::~Order() {
    if (memory) munmap(memory, bytes);
}

void Order::fence(unsigned group, unsigned thread, unsigned long now, unsigned long together) {
    if (!followed) return;
    const unsigned long at = group * threads + thread;
    if (found[at]) {
        if (!of_thread[at] && of_group[group]) add(of_thread[at], of_group[group]);
        add(of_thread[at], found[at]);
        give_back(found[at]);
    }
    fenced_at[at] = now;
    together_at[at] = together;
}

void Order::meet(unsigned group) {
    if (!followed) return;
    for (unsigned long i = 0; i < threads; ++i) {
        Clock &own = of_thread[group * threads + i];
        if (!own) continue;
        add(of_group[group], own);
        give_back(own);
    }
}

void Order::find(unsigned group, unsigned thread, const void *address) {
    if (!followed) return;
    if (const Left *here = left_at(address); here && here->clock) add(found[group * threads + thread], here->clock);
}

void Order::leave(unsigned group, unsigned thread, const void *address) {
    const unsigned long at = group * threads + thread;
    if (!followed || !fenced_at[at]) return;
    Left *here = left_at(address);
    if (!here) return;
    here->address = address;
    if (!here->clock) here->clock = make();
    if (!here->clock) return;
    if (const Clock mine = known(group, thread)) add(here->clock, mine);
    for (unsigned long i = 0; i < threads; ++i) {
        unsigned long &time = here->clock[group * threads + i];
        time = std::max(time, i == thread ? fenced_at[at] : together_at[at]);
    }
}

unsigned long Order::since(unsigned group, unsigned thread, unsigned other_group, unsigned other) const {
    const Clock mine = followed ? known(group, thread) : nullptr;
    return mine ? mine[other_group * threads + other] : 0;
}

Order::Clock Order::known(unsigned group, unsigned thread) const {
    const Clock own = of_thread[group * threads + thread];
    return own ? own : of_group[group];
}

// Null if there is no room; then order is no longer followed.
Order::Clock Order::make() {
    if (Clock again = unused) {
        unused = reinterpret_cast<Clock>(again[0]);
        std::fill(again, again + count, 0);
        return again;
    }
    if (made == most) {
        followed = false;
        return nullptr;
    }
    return clocks + count * made++;
}

void Order::give_back(Clock &clock) {
    clock[0] = reinterpret_cast<unsigned long>(unused);
    unused = clock;
    clock = nullptr;
}

void Order::add(Clock &to, Clock more) {
    if (!to) to = make();
    if (!to) return;
    for (unsigned long i = 0; i < count; ++i) to[i] = std::max(to[i], more[i]);
}

// Null if there is no place left; then order is no longer followed.
Order::Left *Order::left_at(const void *address) {
    const unsigned long start = (unsigned long)address * 0x9e3779b97f4a7c15ul >> 48;
    for (unsigned long i = 0; i < places; ++i) {
        Left &here = left[(start + i) % places];
        if (here.address == address || !here.address) return &here;
    }
    followed = false;
    return nullptr;
}

}  // namespace msl
