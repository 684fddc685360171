// What kernels do to the machine, counted while they run: for kernels that are compiled to tell of each access.
//
// The lanes of a simdgroup come one after another.  Accesses that their code makes at the same place, all for the
// first time since the lanes last met, or all for the second, are one instruction of the simdgroup.  (In a loop that is
// not unrolled, and of which some lanes leave out rounds before others, this is only nearly so.)
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compile.h"
#include "execute.h"

namespace msl {

class Counts {
public:
    Counts(const Job &, Counting);

    enum class Space { device, threadgroup, stack };
    void access(unsigned thread, const void *address, unsigned long bytes, softmetal::Use, Space,
                const void *program_counter);
    // The lanes that ran have met, or have ended.
    void lanes_met();
    void barrier();
    void operation(const softmetal::Operation &);

    // Adds all to what `take_counts` gives.
    void finish();

private:
    struct Access {
        const void *code;
        unsigned lane, occurrence;
        unsigned long address, bytes;
        bool loads, shared;
    };
    struct Row {
        unsigned long times = 0, bytes = 0;
        unsigned long cost = 0;  // lines of device memory; cycles of bank conflicts
    };
    struct Private {
        unsigned long loads = 0, stores = 0;
    };
    typedef std::map<std::string, Row> Rows;
    friend std::string take_counts();

    const Job &job;
    const Counting what;
    std::vector<Access> accesses;  // since the lanes last met
    std::map<const void *, Private> on_stack;  // by place of the code
    Rows done;

    // How far an address is in the buffer that holds it; ~0 if none does whose elements are counted.
    unsigned long place_in_buffers(const void *address) const;
    void instruction(const Access *first, const Access *end);
    static Rows &all();
};

// What was counted since the last call: in each line a name, times, bytes and cost.
std::string take_counts();

}  // namespace msl
