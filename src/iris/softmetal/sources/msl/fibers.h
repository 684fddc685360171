// Stacks on which the threads of a threadgroup take turns.
#pragma once

#include <cstddef>

extern "C" void softmetal_switch(void **save, void *load);

namespace msl {

class Stacks {
public:
    static constexpr size_t bytes = 256 << 10;

    explicit Stacks(unsigned count);
    ~Stacks();
    Stacks(const Stacks &) = delete;

    // A pointer for softmetal_switch, which then calls `start`; that must not return.
    void *prepare(unsigned number, void (*start)()) const;

    // After threads that did not come to their ends.
    void make_touchable() const;

    bool contain(const void *address) const;
    // Whether an address lies below a stack, where nothing may be.
    bool overflowed_at(const void *address) const;

private:
    char *memory;
    size_t length;
};

}  // namespace msl
