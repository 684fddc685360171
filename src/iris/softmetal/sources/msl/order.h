// What fences order between threadgroups: which accesses of which threads come before those of another.
//
// A thread's clock says of each thread of the launch up to which time its accesses come before those of this
// one.  An atomic operation that writes leaves, with what it writes, the clock that its thread had at its last
// fence; a thread that finds it there takes it on at its next fence, and the others of its threadgroup do at the
// next barrier for device memory.  A compare_exchange that does not write counts as one that does.
#pragma once

namespace msl {

// Called on a kernel's stack, which may be left at any time: so this takes no lock, as the heap would.
class Order {
public:
    Order(unsigned long groups, unsigned threads);
    ~Order();
    Order(const Order &) = delete;

    // Whether order is followed: there may be too many threads for that.
    bool follows() const { return followed; }
    // `together`: when the threads of the threadgroup were last at a barrier for device memory.
    void fence(unsigned group, unsigned thread, unsigned long now, unsigned long together);
    void meet(unsigned group);
    void find(unsigned group, unsigned thread, const void *address);
    void leave(unsigned group, unsigned thread, const void *address);
    // The time before which what another thread did comes before what this one does.
    unsigned long since(unsigned group, unsigned thread, unsigned other_group, unsigned other) const;

private:
    typedef unsigned long *Clock;
    struct Left {
        const void *address;
        Clock clock;
    };

    const unsigned long threads, count;  // of a threadgroup, in all
    bool followed = false;
    char *memory = nullptr;
    unsigned long bytes = 0;
    // In that memory: for each threadgroup, or thread, what it has, if anything.
    Clock *of_group = nullptr, *of_thread = nullptr, *found = nullptr;
    unsigned long *fenced_at = nullptr, *together_at = nullptr;
    Left *left = nullptr;
    unsigned long *clocks = nullptr, made = 0, most = 0;
    Clock unused = nullptr;  // the first of those that are no longer needed, each of which has the next

    Clock make();
    void give_back(Clock &);
    void add(Clock &to, Clock more);
    Left *left_at(const void *address);
    Clock known(unsigned group, unsigned thread) const;
};

}  // namespace msl
