#include "threadgroup.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>

#include "counts.h"
#include "lines.h"
#include "races.h"
#include "shadow.h"

namespace msl {
namespace {

using softmetal::Operation;
using softmetal::Place;
using softmetal::Size;
using softmetal::simdgroup_width;

const char race[] = "race";
const size_t page = size_t(sysconf(_SC_PAGESIZE));

// How often each thread comes to a fence before its threadgroup is taken to wait for others.
constexpr unsigned fences_before_pause = 16;

// A thread that waits at a barrier, or has ended, waits for one of these.
const Operation barrier_operation = {"threadgroup_barrier", nullptr, false};
const Operation end_operation = {"the end", nullptr, false};

// Every thread of the crew has one runner.  The model makes reading it one instruction.
__thread Runner *current_runner __attribute__((tls_model("initial-exec")));

bool same(Place x, Place y) { return x.line == y.line && x.column == y.column; }
bool before(Place x, Place y) { return x.line != y.line ? x.line < y.line : x.column < y.column; }

void start_of_fiber() {
    for (;;) {
        Runner &runner = *Runner::current();
        runner.running_job().kernel->run(runner.running_thread());
        runner.thread_ends();
    }
}

void meet(const Operation *operation, Place place, void *operands) {
    current_runner->meet(operation, place, operands);
}
void barrier(Place place, unsigned memory) { current_runner->barrier(place, memory); }
char *threadgroup_memory() { return current_runner->threadgroup_memory(); }
unsigned lane() { return current_runner->lane(); }
unsigned simdgroup() { return current_runner->simdgroup_index(); }
unsigned simdgroups() { return current_runner->all_simdgroups(); }
char space(const void *address) { return current_runner->space_of(address); }
void untouchable(const void *address, const void *program_counter) {
    // The call is before where it returns to.
    current_runner->stop("access to memory that is not there", (const char *)program_counter - 1, address);
}

std::string lanes_text(unsigned lanes) {
    std::string made;
    for (unsigned i = 0; i < simdgroup_width; ++i) {
        if (!(lanes >> i & 1)) continue;
        unsigned last = i;
        while (last + 1 < simdgroup_width && lanes >> (last + 1) & 1) ++last;
        made += (made.empty() ? "" : ", ") + std::to_string(i) + (last > i ? "-" + std::to_string(last) : "");
        i = last;
    }
    return made;
}
void undefined(const char *what, unsigned line) { current_runner->fail(what, {line, 0, ""}); }
void touched(const void *address, unsigned long bytes, softmetal::Use use, const void *program_counter) {
    // Kernels that are only asked run nowhere.
    if (current_runner) current_runner->touched(address, bytes, use, (const char *)program_counter - 1);
}
void fence(Place place) {
    // Kernels that are only asked run nowhere.
    if (current_runner) current_runner->fence(place);
}

}  // namespace

const char out_of_time[] = "a threadgroup did not end in time";

softmetal::Machine machine_for_kernels() {
    return {meet, barrier, threadgroup_memory, lane, simdgroup, simdgroups, space, untouchable, is_in_no_gap,
            undefined, touched, fence, false, nullptr};
}

Runner *Runner::current() {
    // Not inlined into the fibers' loop, in which the compiler could keep the address.
    asm volatile("");
    return current_runner;
}

Runner::Runner(unsigned threads) : fibers(new Fiber[threads]()), stacks(threads) {
    mapped = (arena_bytes + page - 1) / page * page + 2 * page;
    mapping = mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) throw std::bad_alloc();
    arena_open = static_cast<char *>(mapping) + mapped - page;
    arena = arena_open - arena_bytes;
}

Runner::~Runner() {
    if (shadow_in_use()) softmetal::make_touchable(arena, arena_bytes);
    munmap(mapping, mapped);
    if (current_runner == this) current_runner = nullptr;
}

Failure Runner::run(const Job &job, unsigned long number) {
    this->job = &job;
    const softmetal::Launch &launch = job.launch;
    const Size groups = launch.threadgroups, most = launch.threads_per_threadgroup;
    group.launch = &launch;
    group.position = {unsigned(number % groups.x), unsigned(number / groups.x % groups.y),
                      unsigned(number / groups.x / groups.y)};
    group.threads = {std::min(most.x, launch.threads.x - group.position.x * most.x),
                     std::min(most.y, launch.threads.y - group.position.y * most.y),
                     std::min(most.z, launch.threads.z - group.position.z * most.z)};
    if (job.seed != order_seed) make_orders();
    chance = (job.seed + 1) * 0x9e3779b97f4a7c15ul ^ (number + 1) * 0xbf58476d1ce4e5b9ul;
    place_threads();
    place_memory();
    if (job.races) job.races->start_threadgroup(unsigned(number), arena);
    failure = {};
    has_paused = false;
    fences_left = fences_before_pause * group.threads.x * group.threads.y * group.threads.z;
    start_round();
    current_runner = this;
    running = next_simdgroup();
    return go_on();
}

Failure Runner::go_on() {
    in_kernel = true;
    softmetal_switch(&scheduler, fibers[running].stack_pointer);
    in_kernel = false;
    if (paused) {
        if (job->races) left = job->races->standing();
        return {};
    }
    if (stopped.what) {
        failure = {stopped.text(*job, stacks), stopped.what == out_of_time};
        if (failure.is_late) failure.text += time_text();
        if (stopped.what == race) failure.text += ": " + job->races->conflict_text(*job, memory_at(stopped.address));
        stopped = {};
    }
    if (!failure.text.empty()) drop();
    return failure;
}

Failure Runner::resume() {
    paused = false;
    current_runner = this;
    if (job->races) job->races->resume(left);
    return go_on();
}

Failure Runner::give_up() {
    drop();
    return {"line " + std::to_string(paused_at.line) + ": " + out_of_time + time_text(), true};
}

// What to do about it.
std::string Runner::time_text() const {
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, "%g", job->seconds);
    return std::string(": it had ") + seconds + " s, which IRIS_SOFTMETAL_TIMEOUT sets" +
           (has_paused ? "; a loop may wait for what another threadgroup does not do: the device interp "
                         "tells which program waits for what" : "");
}

// Fibers are left where they were.
void Runner::drop() {
    paused = false;
    prepared = 0;
    if (shadow_in_use()) stacks.make_touchable();
}

char Runner::space_of(const void *address) const {
    const char *at = static_cast<const char *>(address);
    if (at >= arena && at < arena + arena_bytes) return 't';
    return stacks.contain(address) ? 's' : 'd';
}

unsigned long Runner::draw() {
    chance ^= chance << 13;
    chance ^= chance >> 7;
    chance ^= chance << 17;
    return chance;
}

void Runner::make_orders() {
    order_seed = job->seed;
    std::mt19937_64 random(job->seed);
    for (auto &one : order) {
        for (unsigned i = 0; i < simdgroup_width; ++i) one[i] = i;
        if (job->seed) std::shuffle(one, one + simdgroup_width, random);
    }
}

void Runner::place_threads() {
    const Size threads = group.threads;
    const unsigned count = threads.x * threads.y * threads.z;
    for (; prepared < count; ++prepared) {
        fibers[prepared].stack_pointer = stacks.prepare(prepared, start_of_fiber);
    }
    unsigned index = 0;
    for (unsigned z = 0; z < threads.z; ++z) {
        for (unsigned y = 0; y < threads.y; ++y) {
            for (unsigned x = 0; x < threads.x; ++x, ++index) fibers[index].thread = {&group, {x, y, z}, index};
        }
    }
    simdgroup_count = (count + simdgroup_width - 1) / simdgroup_width;
    for (unsigned i = 0; i < simdgroup_count; ++i) {
        const unsigned lanes = std::min(count - i * simdgroup_width, simdgroup_width);
        simdgroups[i] = {lanes == simdgroup_width ? ~0u : (1u << lanes) - 1, 0, 0, {}};
    }
}

// Static memory first, then each dynamic argument's, all against the page behind that nobody may touch;
// filled with what is a nan in every type and an index out of every bound.
void Runner::place_memory() {
    const unsigned gap = shadow_in_use() ? softmetal::sanitizer_gap : 0;
    unsigned bytes = (job->static_bytes + 15) / 16 * 16 + (job->layout ? job->layout->count * gap : 0);
    unsigned at[softmetal::max_buffers];
    for (unsigned i = 0; i < softmetal::max_buffers; ++i) {
        at[i] = bytes;
        if (job->launch.threadgroup_bytes[i]) bytes += (job->launch.threadgroup_bytes[i] + 15) / 16 * 16 + gap;
    }
    arena_start = arena + arena_bytes - bytes;
    open_arena();
    std::memset(arena_start, 0xff, bytes);
    for (unsigned i = 0; i < softmetal::max_buffers; ++i) {
        group.arguments[i] = job->launch.threadgroup_bytes[i] ? arena_start + at[i] : nullptr;
    }
    if (gap) make_gaps_untouchable(at);
}

// Of the pages those that are in use, and no others.
void Runner::open_arena() {
    char *const first = arena_start - (unsigned long)arena_start % page;
    if (first < arena_open) mprotect(first, size_t(arena_open - first), PROT_READ | PROT_WRITE);
    if (first > arena_open) mprotect(arena_open, size_t(first - arena_open), PROT_NONE);
    arena_open = first;
}

// What a byte is part of, to people.
std::string Runner::memory_at(const void *address) const {
    if (space_of(address) != 't') return place_in_buffer(*job, address);
    const auto at = unsigned(static_cast<const char *>(address) - arena_start);
    const auto text = [](unsigned byte, const char *name) {
        return "byte " + std::to_string(byte) + " of " + name + " in threadgroup memory";
    };
    for (const softmetal::Variable *one = job->layout ? job->layout->last : nullptr; one; one = one->before) {
        if (at - one->at < one->bytes) return text(at - one->at, one->name);
    }
    for (unsigned i = 0; i < job->kernel->argument_count; ++i) {
        const softmetal::Argument &argument = job->kernel->arguments[i];
        if (argument.kind != softmetal::Kind::shared_memory || !group.arguments[argument.index]) continue;
        const auto start = unsigned(static_cast<char *>(group.arguments[argument.index]) - arena_start);
        if (at - start < job->launch.threadgroup_bytes[argument.index]) return text(at - start, argument.name);
    }
    return "threadgroup memory";
}

void Runner::make_gaps_untouchable(const unsigned *argument_at) {
    softmetal::make_untouchable(arena, arena_bytes, softmetal::untouchable_threadgroup);
    for (const softmetal::Variable *one = job->layout ? job->layout->last : nullptr; one; one = one->before) {
        softmetal::make_touchable(arena_start + one->at, one->bytes);
    }
    for (unsigned i = 0; i < softmetal::max_buffers; ++i) {
        softmetal::make_touchable(arena_start + argument_at[i], job->launch.threadgroup_bytes[i]);
    }
}

void Runner::start_round() {
    ordered_memory = ~0u;
    for (unsigned i = 0; i < simdgroup_count; ++i) round[i] = i;
    if (job->seed) {
        for (unsigned i = simdgroup_count; i > 1; --i) std::swap(round[i - 1], round[draw() % i]);
    }
    round_at = 0;
}

// Each of these gives the thread to go on with.

unsigned Runner::next_simdgroup() {
    if (round_at == simdgroup_count) return finish_round();
    const unsigned number = round[round_at++];
    simdgroup = &simdgroups[number];
    simdgroup->waiting = 0;
    first_thread = number * simdgroup_width;
    parted = false;
    return begin_phase(simdgroup->existing & ~simdgroup->ended);
}

unsigned Runner::begin_phase(unsigned lanes) {
    queue = order[job->seed ? draw() % orders : 0];
    queue_length = simdgroup_width;
    if (lanes != ~0u) {
        queue_length = 0;
        for (unsigned i = 0; i < simdgroup_width; ++i) {
            if (lanes >> queue[i] & 1) filtered[queue_length++] = queue[i];
        }
        queue = filtered;
    }
    phase_lanes = lanes;
    queue_at = 0;
    mixed = false;
    return first_thread + queue[0];
}

void Runner::meet(const Operation *operation, Place place, void *with) {
    const unsigned thread = running;
    fibers[thread].operation = operation;
    fibers[thread].place = place;
    operands[thread % simdgroup_width] = with;
    if (queue_at == 0) {
        phase_operation = operation;
        phase_place = place;
    } else {
        mixed |= operation != phase_operation || !same(place, phase_place);
    }
    const unsigned next = ++queue_at < queue_length ? first_thread + queue[queue_at] : next_thread();
    go_to(next);
}

void Runner::barrier(Place place, unsigned memory) {
    ordered_memory &= memory;
    meet(&barrier_operation, place, nullptr);
}

void Runner::fence(Place place) {
    if (job->races) job->races->fence(running);
    if (fences_left--) return;
    fences_left = group.threads.x * group.threads.y * group.threads.z;
    in_kernel = false;  // which no signal is to stop from here on
    paused_at = place;
    paused = has_paused = true;
    softmetal_switch(&fibers[running].stack_pointer, scheduler);
}

void Runner::touched(const void *address, unsigned long bytes, softmetal::Use use, const void *program_counter) {
    if (job->counts) return count(address, bytes, use, program_counter);
    if (stacks.contain(address)) return;
    const Races::Outcome outcome = job->races->touch(running, address, bytes, use, program_counter);
    if (outcome == Races::Outcome::in_order) return;
    if (outcome == Races::Outcome::no_room) {
        stop("there is no memory to note in who accesses what", program_counter, nullptr);
    }
    if (outcome == Races::Outcome::outside) stop("access to memory that is not there", program_counter, address);
    stop(race, program_counter, address);
}

// What is counted is kept on the heap: nobody may stop the thread meanwhile.
void Runner::count(const void *address, unsigned long bytes, softmetal::Use use, const void *program_counter) {
    if (!in_kernel) return;  // Metal's own doing, for many lanes
    in_kernel = false;
    const unsigned long in_arena = (unsigned long)address - (unsigned long)arena_start;
    const Counts::Space space = stacks.contain(address) ? Counts::Space::stack
                                : in_arena < (unsigned long)(arena + arena_bytes - arena_start)
                                    ? Counts::Space::threadgroup
                                    : Counts::Space::device;
    job->counts->access(running, address, bytes, use, space, program_counter);
    in_kernel = true;
}

void Runner::thread_ends() { meet(&end_operation, {}, nullptr); }

void Runner::go_to(unsigned thread) {
    const unsigned from = running;
    if (thread == from) return;
    running = thread;
    softmetal_switch(&fibers[from].stack_pointer, fibers[thread].stack_pointer);
}

// All lanes of the phase wait.
unsigned Runner::next_thread() {
    if (job->counts) {
        in_kernel = false;
        job->counts->lanes_met();
        in_kernel = true;
    }
    if (mixed || phase_lanes != simdgroup->existing) return next_of_parted();
    parted = false;
    if (phase_operation == &barrier_operation) {
        simdgroup->waiting = phase_lanes;
        simdgroup->barrier = phase_place;
        return next_simdgroup();
    }
    if (phase_operation == &end_operation) {
        simdgroup->ended = phase_lanes;
        return next_simdgroup();
    }
    return operate(phase_lanes, *phase_operation, phase_place);
}

unsigned Runner::operate(unsigned lanes, const Operation &operation, Place place) {
    if (operation.needs_every_lane && lanes != simdgroup->existing) {
        fail(std::string(operation.name) + " needs all lanes of a simdgroup, here come only " + lanes_text(lanes),
             place);
    }
    if (job->counts) {
        in_kernel = false;
        job->counts->operation(operation);
    }
    const char *const wrong = operation.run(operands, lanes);
    in_kernel = true;
    if (wrong) {
        fail(std::string(operation.name) + " " + wrong + " (lanes " + lanes_text(lanes) + " do)", place);
    }
    if (operation.orders_memory && job->races) {
        const auto memory = static_cast<const unsigned *>(operands[__builtin_ctz(lanes)]);
        job->races->simdgroup_passed(first_thread / simdgroup_width, *memory);
    }
    return begin_phase(lanes);
}

// The lanes wait at several places.  Those at a simdgroup's operation go on by themselves if the others
// wait for the whole threadgroup or have ended.  Of several operations the first in the text is next,
// so that lanes that took a branch come back to the others; this is sure only where all have gone
// forward, in one function, since they were together: else nothing says how a GPU would order them.
unsigned Runner::next_of_parted() {
    if (!parted) {
        std::fill(last_place, last_place + simdgroup_width, Place{});
        went_back = false;
        parted = true;
    }
    unsigned waiting = 0, ended = 0, meeting = 0;
    const Fiber *next = nullptr;
    bool one_place = true, one_function = true;
    for (unsigned i = 0; i < simdgroup_width; ++i) {
        if (!(simdgroup->existing >> i & 1)) continue;
        const Fiber &fiber = fibers[first_thread + i];
        if (fiber.operation == &barrier_operation) {
            waiting |= 1u << i;
            simdgroup->barrier = fiber.place;
        } else if (fiber.operation == &end_operation) {
            ended |= 1u << i;
        } else {
            meeting |= 1u << i;
            if (phase_lanes >> i & 1) {
                went_back |= !before(last_place[i], fiber.place);
                last_place[i] = fiber.place;
            }
            if (!next) {
                next = &fiber;
                continue;
            }
            one_place &= same(next->place, fiber.place) && next->operation == fiber.operation;
            one_function &= std::strcmp(next->place.function, fiber.place.function) == 0;
            if (before(fiber.place, next->place)) next = &fiber;
        }
    }
    if (!meeting) {
        simdgroup->waiting = waiting;
        simdgroup->ended = ended;
        for (unsigned i = 0; i < simdgroup_width; ++i) {
            if (waiting >> i & 1 && !same(fibers[first_thread + i].place, simdgroup->barrier)) {
                fail("the lanes of a simdgroup wait at different barriers, some at line " +
                         std::to_string(fibers[first_thread + i].place.line),
                     simdgroup->barrier);
            }
        }
        return next_simdgroup();
    }
    if (!one_place && (went_back || !one_function)) {
        fail(std::string(next->operation->name) + " is reached by some lanes of a simdgroup while others wait at "
             "another one, and which comes first depends on the hardware", next->place);
    }
    unsigned lanes = 0;
    for (unsigned i = 0; i < simdgroup_width; ++i) {
        if (!(meeting >> i & 1)) continue;
        const Fiber &fiber = fibers[first_thread + i];
        if (fiber.operation == next->operation && same(fiber.place, next->place)) lanes |= 1u << i;
    }
    return operate(lanes, *next->operation, next->place);
}

// All simdgroups wait at the barrier, or have ended.
unsigned Runner::finish_round() {
    const Simdgroup *waiting = nullptr;
    unsigned ended = 0, existing = 0;
    for (unsigned i = 0; i < simdgroup_count; ++i) {
        const Simdgroup &one = simdgroups[i];
        ended += __builtin_popcount(one.ended);
        existing += __builtin_popcount(one.existing);
        if (!one.waiting) continue;
        if (waiting && !same(waiting->barrier, one.barrier)) {
            fail("some simdgroups wait at this threadgroup_barrier and some at that of line " +
                     std::to_string(one.barrier.line), waiting->barrier);
        }
        waiting = &one;
    }
    if (!waiting) {
        // The threadgroup is done.  Back here this fiber has a thread of the next one, which runs.
        softmetal_switch(&fibers[running].stack_pointer, scheduler);
        return running;
    }
    if (ended) {
        fail("threadgroup_barrier is not reached by all threads: " + std::to_string(ended) + " of " +
                 std::to_string(existing) + " have ended", waiting->barrier);
    }
    if (job->races) job->races->threadgroup_passed(ordered_memory);
    if (job->counts) {
        in_kernel = false;
        job->counts->barrier();
        in_kernel = true;
    }
    start_round();
    return next_simdgroup();
}

void Runner::fail(const std::string &what, Place place) {
    in_kernel = false;
    failure = {"line " + std::to_string(place.line) + ": " + what};
    abandon();
}

// Nothing comes back to a fiber of a threadgroup that failed.
void Runner::abandon() {
    softmetal_switch(&fibers[running].stack_pointer, scheduler);
    __builtin_unreachable();
}

void Runner::stop(const char *what, const void *program_counter, const void *address) {
    in_kernel = false;
    stopped = {what, program_counter, address};
    abandon();
}

std::string Runner::Stop::text(const Job &job, const Stacks &stacks) const {
    const unsigned line = line_of(job, program_counter);
    std::string made = (line ? "line " + std::to_string(line) + ": " : std::string()) + what;
    return address && what != race ? made + ": " + where(job, stacks) : made;
}

std::string Runner::Stop::where(const Job &job, const Stacks &stacks) const {
    if (stacks.overflowed_at(address)) return "too much on a thread's stack";
    switch (untouchable_at(address)) {
    case softmetal::untouchable_local:
    case softmetal::untouchable_local + 1:
    case softmetal::untouchable_local + 2: return "outside of a variable of the thread";
    case softmetal::untouchable_scope: return "a variable of the thread that is gone";
    case softmetal::untouchable_global: return "past the end of a constant";
    case softmetal::untouchable_threadgroup: return "outside of a variable in threadgroup memory";
    case softmetal::untouchable_gap: return place_in_buffer(job, address) + ", between two elements";
    case softmetal::untouchable_buffer:
        return (may_be_touched(address) ? "over the end of " : "") + near_buffer(job, address);
    default: return near_buffer(job, address);
    }
}

}  // namespace msl
