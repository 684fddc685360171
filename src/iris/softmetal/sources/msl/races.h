// Who touched each part of memory in a launch, and what no barrier orders: races are found whatever the order
// in which threads happen to run, and whatever they write.  For kernels that are compiled with sanitizers.
//
// Time goes by at barriers.  What a thread does is in order with
// - its own earlier accesses;
// - those of another thread of its simdgroup, if a simdgroup_barrier for this kind of memory came between;
// - those of another thread of its threadgroup, if a threadgroup_barrier did.
// No barrier orders threadgroups; fences and atomics do (order.h).  Nor does a simdgroup order its lanes: hardware may run them apart.
#pragma once

#include <string>
#include <vector>

#include "execute.h"
#include "order.h"
#include "threadgroup_limits.h"

namespace msl {

class Races {
public:
    explicit Races(const Job &);

    // The threadgroups come one after another, each with threadgroup memory of its own there.
    void start_threadgroup(unsigned number, const char *arena);
    // `memory`: of which the barrier was, in Metal's numbers.
    void threadgroup_passed(unsigned memory);
    void simdgroup_passed(unsigned simdgroup, unsigned memory);
    // With atomics, fences order threadgroups; of too many threads that is not followed: from here on, device
    // memory is not looked at.
    void fence(unsigned thread);

    // Of a threadgroup that lets others go on: what brings it back.
    struct Standing;
    Standing standing() const;
    void resume(const Standing &);

    // Called on a kernel's stack, which may be left at any time: so this takes no lock, as the heap would.
    enum class Outcome { in_order, race, no_room, outside };
    Outcome touch(unsigned thread, const void *address, unsigned long bytes, softmetal::Use,
                  const void *program_counter);
    // What is in no order with what, once there is a race.
    std::string conflict_text(const Job &, const std::string &memory) const;

private:
    struct Record {
        unsigned long time : 48, thread : 16;  // time 0: nobody
        unsigned group;
        int code;  // the program counter, from the job's code on
    };
    // Zeros, which take room only where they are touched.
    class Table {
    public:
        Table() = default;
        ~Table();
        Table(const Table &) = delete;
        bool make(unsigned long records);
        void swap(Table &);
        explicit operator bool() const { return memory; }
        Record *at(unsigned long number) const { return memory + number; }

    private:
        Record *memory = nullptr;
        unsigned long bytes = 0;
    };
    // Memory in units, which are as large as all accesses so far let them be.
    struct Region {
        const char *start = nullptr;
        unsigned long bytes = 0;
        bool is_device = true;
        unsigned shift = 4;  // a unit has 1 << shift bytes
        unsigned used = 0;   // which tables there are, as bits
        Table tables[softmetal::uses];

        bool divide(unsigned shift);
        unsigned long units() const { return (bytes >> shift) + 1; }
    };
    // All memory that is bound, whether it is written or not.
    struct Bound {
        const char *start, *end;
    };
    struct Since {
        unsigned long threadgroup, simdgroup[most_simdgroups];
    };
    struct Conflict {
        softmetal::Use use, earlier_use;
        Record mine, earlier;
    };

    const char *const code;
    const softmetal::Size groups;
    std::vector<Region> regions;  // the first is threadgroup memory
    Region *last_found;
    std::vector<Bound> bound;
    const Bound *last_bound = nullptr;
    const bool has_unbound;
    unsigned long now = 1;
    unsigned group = 0;
    Since since[2] = {};  // the last barriers, for threadgroup memory and for device memory
    Order order;
    bool fenced = false;
    Conflict conflict = {};

    Region *region_of(const void *address);
    bool is_outside(const char *start, const char *end);
    bool in_order(const Record &earlier, const Record &mine, bool is_device) const;
    void keep(Record *two, const Record &mine, bool is_device) const;
    std::string who(const Record &, bool with_group) const;
};

struct Races::Standing {
    unsigned group = 0;
    const char *arena = nullptr;
    Since since[2] = {};
};

}  // namespace msl
