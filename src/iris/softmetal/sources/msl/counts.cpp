#include "counts.h"

#include <algorithm>
#include <mutex>
#include <set>
#include <tuple>

#include "lines.h"

namespace msl {
namespace {

using softmetal::Use;

constexpr unsigned long line_bytes = 128, bank_bytes = 4, banks = 32;
std::mutex all_mutex;

unsigned long lines_touched(const std::vector<std::pair<unsigned long, unsigned long>> &ranges) {
    std::set<unsigned long> lines;
    for (const auto &[start, end] : ranges) {
        for (unsigned long line = start / line_bytes; line * line_bytes < end; ++line) lines.insert(line);
    }
    return lines.size();
}

// The cycles beyond those that as many words, spread evenly, would take.
unsigned long conflicts(const std::vector<std::pair<unsigned long, unsigned long>> &ranges) {
    std::set<unsigned long> words;
    for (const auto &[start, end] : ranges) {
        for (unsigned long word = start / bank_bytes; word * bank_bytes < end; ++word) words.insert(word);
    }
    unsigned long in_bank[banks] = {};
    for (unsigned long word : words) ++in_bank[word % banks];
    return *std::max_element(in_bank, in_bank + banks) - (words.size() + banks - 1) / banks;
}

}  // namespace

Counts::Counts(const Job &job, Counting what) : job(job), what(what) {}

void Counts::barrier() {
    if (what == Counting::text) ++done["barrier"].times;
}

void Counts::operation(const softmetal::Operation &one) {
    if (what == Counting::text) done["operation " + std::string(one.name)].times += one.elements;
}

Counts::Rows &Counts::all() {
    static Rows &made = *new Rows;
    return made;
}

// What a reference binds is a constant of the launch, which all threads share.
unsigned long Counts::place_in_buffers(const void *address) const {
    for (unsigned i = 0; i < job.kernel->argument_count; ++i) {
        const softmetal::Argument &argument = job.kernel->arguments[i];
        if (argument.kind != softmetal::Kind::buffer || argument.reference) continue;
        const softmetal::Memory &buffer = job.launch.buffers[argument.index];
        const unsigned long at = (unsigned long)address - (unsigned long)buffer.start;
        // Whole pages for each buffer: lines of two are never the same.
        if (at < buffer.bytes) return at + ((unsigned long)argument.index << 48);
    }
    return ~0ul;
}

void Counts::access(unsigned thread, const void *address, unsigned long bytes, Use use, Space space,
                    const void *program_counter) {
    const bool loads = use == Use::read;
    if ((space == Space::stack) != (what == Counting::stack)) return;
    if (space == Space::stack) {
        Private &mine = on_stack[program_counter];
        ++(loads ? mine.loads : mine.stores);
        return;
    }
    const bool shared = space == Space::threadgroup;
    const unsigned long at = shared ? (unsigned long)address : place_in_buffers(address);
    if (at == ~0ul) return;
    if (use == Use::atomic_update || use == Use::atomic_read) {
        ++done[shared ? "threadgroup atomic" : "device atomic"].times;
        return;
    }
    accesses.push_back({program_counter, thread % softmetal::simdgroup_width, 0, at, bytes, loads, shared});
}

void Counts::lanes_met() {
    const auto by_lane = [](const Access &x, const Access &y) { return std::tie(x.code, x.lane) < std::tie(y.code, y.lane); };
    std::stable_sort(accesses.begin(), accesses.end(), by_lane);
    for (size_t i = 1; i < accesses.size(); ++i) {
        const Access &before = accesses[i - 1];
        const bool again = before.code == accesses[i].code && before.lane == accesses[i].lane;
        accesses[i].occurrence = again ? before.occurrence + 1 : 0;
    }
    const auto key = [](const Access &x) { return std::tie(x.code, x.occurrence, x.loads, x.shared, x.bytes); };
    std::stable_sort(accesses.begin(), accesses.end(), [&](const Access &x, const Access &y) { return key(x) < key(y); });
    for (size_t start = 0, i = 1; i <= accesses.size(); ++i) {
        if (i < accesses.size() && key(accesses[i]) == key(accesses[start])) continue;
        instruction(&accesses[start], accesses.data() + i);
        start = i;
    }
    accesses.clear();
}

void Counts::instruction(const Access *first, const Access *end) {
    std::vector<std::pair<unsigned long, unsigned long>> ranges;
    for (const Access *one = first; one < end; ++one) ranges.push_back({one->address, one->address + one->bytes});
    Row &row = done[std::string(first->shared ? "threadgroup" : "device") + (first->loads ? " load " : " store ") +
                    std::to_string(first->bytes)];
    ++row.times;
    row.bytes += first->bytes * ranges.size();
    row.cost += first->shared ? conflicts(ranges) : lines_touched(ranges);
}

// What Metal's functions keep on the stack here is none of the text's.
void Counts::finish() {
    std::vector<const void *> places;
    for (const auto &[code, _] : on_stack) places.push_back(code);
    const std::vector<bool> own = are_of_the_text(job, places);
    for (size_t i = 0; i < places.size(); ++i) {
        if (!own[i]) continue;
        done["stack load"].times += on_stack[places[i]].loads;
        done["stack store"].times += on_stack[places[i]].stores;
    }
    std::lock_guard lock(all_mutex);
    for (const auto &[name, row] : done) {
        Row &sum = all()[name];
        sum.times += row.times;
        sum.bytes += row.bytes;
        sum.cost += row.cost;
    }
}

std::string take_counts() {
    std::lock_guard lock(all_mutex);
    std::string made;
    for (const auto &[name, row] : Counts::all()) {
        made += name + "\t" + std::to_string(row.times) + "\t" + std::to_string(row.bytes) + "\t" +
                std::to_string(row.cost) + "\n";
    }
    Counts::all().clear();
    return made;
}

}  // namespace msl
