#include "races.h"

#include <dlfcn.h>
#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "lines.h"

namespace msl {
namespace {

using softmetal::Use;
using softmetal::simdgroup_width;

// What may not have been done by one thread, in no order with another that does this.
constexpr unsigned bit(Use use) { return 1u << unsigned(use); }
constexpr unsigned clashes[softmetal::uses] = {
    bit(Use::write) | bit(Use::atomic_update),
    bit(Use::write) | bit(Use::read) | bit(Use::atomic_update) | bit(Use::atomic_read),
    bit(Use::write) | bit(Use::read),
    bit(Use::write),
};
const char *const verbs[softmetal::uses] = {"reads", "writes", "atomically updates", "atomically reads"};

unsigned threads_of(softmetal::Size size) { return size.x * size.y * size.z; }

// Of the writes to a unit the last is kept: what is in no order with an earlier one is in none with the last
// one either, or else those two were in none.  Of others there may be many, of which two are kept.
unsigned kept(unsigned use) { return use == unsigned(Use::write) ? 1 : 2; }

}  // namespace

Races::Table::~Table() {
    if (memory) munmap(memory, bytes);
}

bool Races::Table::make(unsigned long records) {
    const unsigned long wanted = records * sizeof(Record);
    void *made = mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made == MAP_FAILED) return false;
    memory = static_cast<Record *>(made);
    bytes = wanted;
    return true;
}

void Races::Table::swap(Table &other) {
    std::swap(memory, other.memory);
    std::swap(bytes, other.bytes);
}

bool Races::Region::divide(unsigned smaller) {
    const unsigned long before = units();
    const unsigned parts = 1u << (shift - smaller);
    shift = smaller;
    for (unsigned use = 0; use < softmetal::uses; ++use) {
        if (!tables[use]) continue;
        const unsigned count = kept(use);
        Table divided;
        if (!divided.make(units() * count)) return false;
        for (unsigned long i = 0; i < before; ++i) {
            const Record *from = tables[use].at(i * count);
            if (!from->time) continue;
            for (unsigned part = 0; part < parts && i * parts + part < units(); ++part) {
                std::copy(from, from + count, divided.at((i * parts + part) * count));
            }
        }
        tables[use].swap(divided);
    }
    return true;
}

Races::Races(const Job &job)
    : code(static_cast<const char *>(job.code)), groups(job.launch.threadgroups), has_unbound(job.has_unbound),
      order((unsigned long)groups.x * groups.y * groups.z, threads_of(job.launch.threads_per_threadgroup)) {
    struct Part {
        const char *start, *end;
        bool written;
    };
    std::vector<Part> parts;
    for (unsigned i = 0; i < job.kernel->argument_count; ++i) {
        const softmetal::Argument &argument = job.kernel->arguments[i];
        const softmetal::Memory &buffer = job.launch.buffers[argument.index];
        if (argument.kind != softmetal::Kind::buffer || !argument.active || !buffer.bytes) continue;
        const char *start = static_cast<const char *>(buffer.start);
        parts.push_back({start, start + buffer.bytes, !argument.read_only});
    }
    std::sort(parts.begin(), parts.end(), [](const Part &a, const Part &b) { return a.start < b.start; });
    std::vector<Part> apart;  // those together that overlap
    for (const Part &part : parts) {
        if (apart.empty() || part.start >= apart.back().end) {
            apart.push_back(part);
        } else {
            apart.back().end = std::max(apart.back().end, part.end);
            apart.back().written |= part.written;
        }
    }
    regions = std::vector<Region>(apart.size() + 1);
    regions[0].bytes = arena_bytes;
    regions[0].is_device = false;
    unsigned count = 1;
    for (const Part &part : apart) {
        bound.push_back({part.start, part.end});
        // What nobody writes, nobody has to note.
        if (!part.written) continue;
        Region &region = regions[count++];
        region.start = part.start;
        region.bytes = (unsigned long)(part.end - part.start);
    }
    last_found = &regions[0];
}

void Races::start_threadgroup(unsigned number, const char *arena) {
    group = number;
    regions[0].start = arena;
    threadgroup_passed(~0u);
}

Races::Standing Races::standing() const { return {group, regions[0].start, {since[0], since[1]}}; }

void Races::resume(const Standing &left) {
    ++now;
    group = left.group;
    regions[0].start = left.arena;
    std::copy(left.since, left.since + 2, since);
}

void Races::threadgroup_passed(unsigned memory) {
    ++now;
    if (memory & softmetal::threadgroup_memory_flag) since[0].threadgroup = now;
    if (memory & softmetal::device_memory_flag) {
        since[1].threadgroup = now;
        order.meet(group);
    }
}

void Races::simdgroup_passed(unsigned simdgroup, unsigned memory) {
    ++now;
    if (memory & softmetal::threadgroup_memory_flag) since[0].simdgroup[simdgroup] = now;
    if (memory & softmetal::device_memory_flag) since[1].simdgroup[simdgroup] = now;
}

void Races::fence(unsigned thread) {
    order.fence(group, thread, ++now, since[1].threadgroup);
    fenced |= !order.follows();
}

Races::Region *Races::region_of(const void *address) {
    const auto inside = [address](const Region &region) {
        return (unsigned long)address - (unsigned long)region.start < region.bytes;
    };
    if (inside(*last_found)) return last_found;
    for (Region &region : regions) {
        if (inside(region)) return last_found = &region;
    }
    return nullptr;
}

// Near bound memory, but not in it: a wrong index, where no page and no shadow tells, as in a larger buffer
// before the offset that it is bound at, or around memory that the client gave.
bool Races::is_outside(const char *start, const char *end) {
    constexpr long near = 4096;
    if (has_unbound || bound.empty()) return false;
    if (last_bound && start >= last_bound->start && end <= last_bound->end) return false;
    bool is_near = false;
    for (const Bound &one : bound) {
        if (start >= one.start && end <= one.end) {
            last_bound = &one;
            return false;
        }
        is_near |= start < one.end + near && end > one.start - near;
    }
    Dl_info object;  // constants of the kernel may lie near, too
    return is_near && !dladdr(start, &object);
}

bool Races::in_order(const Record &earlier, const Record &mine, bool is_device) const {
    if (!earlier.time) return true;
    // What another threadgroup had as threadgroup memory was another memory.
    if (earlier.group != mine.group) {
        return !is_device || earlier.time < order.since(mine.group, mine.thread, earlier.group, earlier.thread);
    }
    if (earlier.thread == mine.thread || earlier.time < since[is_device].threadgroup) return true;
    const unsigned simdgroup = mine.thread / simdgroup_width;
    return earlier.thread / simdgroup_width == simdgroup && earlier.time < since[is_device].simdgroup[simdgroup];
}

// Whoever comes later and is in no order with one that was left out is in none with one of the two: those that
// this one comes after say no more than it does; and of others, two that are far apart say most, as what orders
// one of them with a later access leaves the other.
void Races::keep(Record *two, const Record &mine, bool is_device) const {
    const auto distance = [](const Record &x, const Record &y) {
        return x.group != y.group ? 3 : x.thread / simdgroup_width != y.thread / simdgroup_width ? 2 : 1;
    };
    const bool after_first = in_order(two[0], mine, is_device), after_second = in_order(two[1], mine, is_device);
    if (after_first) {
        two[0] = mine;
        if (after_second) two[1] = {};
    } else if (after_second || distance(two[0], mine) > distance(two[0], two[1])) {
        two[1] = mine;
    } else if (distance(two[1], mine) > distance(two[0], two[1])) {
        two[0] = mine;
    }
}

Races::Outcome Races::touch(unsigned thread, const void *address, unsigned long bytes, Use use,
                            const void *program_counter) {
    Region *const region = region_of(address);
    const auto *const first = static_cast<const char *>(address);
    if ((!region || region->is_device) && is_outside(first, first + bytes)) return Outcome::outside;
    if (!region || (region->is_device && fenced)) return Outcome::in_order;
    const unsigned long at = (unsigned long)((const char *)address - region->start);
    const unsigned long end = std::min(at + bytes, region->bytes);
    const unsigned shift = unsigned(__builtin_ctzl(at | bytes | 1ul << region->shift));
    if (shift < region->shift && !region->divide(shift)) return Outcome::no_room;
    if (region->is_device && use >= Use::atomic_update) order.find(group, thread, address);
    if (region->is_device && use == Use::atomic_update) order.leave(group, thread, address);
    const unsigned own = unsigned(use), count = kept(own);
    if (!region->tables[own] && !region->tables[own].make(region->units() * count)) return Outcome::no_room;
    region->used |= bit(use);

    const Record mine = {now, thread, group, int((const char *)program_counter - code)};
    for (unsigned long unit = at >> region->shift; unit << region->shift < end; ++unit) {
        for (unsigned left = clashes[own] & region->used; left; left &= left - 1) {
            const unsigned other = unsigned(__builtin_ctz(left));
            const Record *noted = region->tables[other].at(unit * kept(other));
            for (unsigned i = 0; i < kept(other); ++i) {
                if (in_order(noted[i], mine, region->is_device)) continue;
                conflict = {use, Use(other), mine, noted[i]};
                return Outcome::race;
            }
        }
        Record *noted = region->tables[own].at(unit * count);
        if (count == 1) {
            *noted = mine;
        } else {
            keep(noted, mine, region->is_device);
        }
    }
    return Outcome::in_order;
}

std::string Races::who(const Record &record, bool with_group) const {
    std::string made = "thread " + std::to_string(record.thread) + " (simdgroup " +
                       std::to_string(record.thread / simdgroup_width) + ", lane " +
                       std::to_string(record.thread % simdgroup_width) + ")";
    if (!with_group) return made;
    return made + " of threadgroup (" + std::to_string(record.group % groups.x) + ", " +
           std::to_string(record.group / groups.x % groups.y) + ", " +
           std::to_string(record.group / groups.x / groups.y) + ")";
}

std::string Races::conflict_text(const Job &job, const std::string &memory) const {
    const bool groups_differ = conflict.mine.group != conflict.earlier.group;
    const unsigned line = line_of(job, code + conflict.earlier.code);
    return who(conflict.mine, true) + " " + verbs[unsigned(conflict.use)] + " " + memory + ", which " +
           who(conflict.earlier, groups_differ) + " " + verbs[unsigned(conflict.earlier_use)] +
           (line ? " in line " + std::to_string(line) : std::string()) +
           (groups_differ ? ", and nothing orders threadgroups" : ", and no barrier between them orders that");
}

}  // namespace msl
