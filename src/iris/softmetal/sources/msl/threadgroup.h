// One threadgroup in flight: its threads are fibers that run until they wait for one another.
#pragma once

#include <memory>
#include <random>
#include <string>

#include "execute.h"
#include "fibers.h"
#include "races.h"
#include "threadgroup_limits.h"

namespace msl {

// What a threadgroup is stopped for that takes too long.
extern const char out_of_time[];

class Runner {
public:
    explicit Runner(unsigned threads = most_threads);
    ~Runner();

    // Runs one threadgroup until it ends, or lets others go on.
    Failure run(const Job &job, unsigned long number);
    bool is_paused() const { return paused; }
    Failure resume();
    Failure give_up();  // instead, as it takes too long
    void drop();

    // What the threads call.
    void meet(const softmetal::Operation *, softmetal::Place, void *operands);
    void barrier(softmetal::Place, unsigned memory);
    void fence(softmetal::Place);
    void touched(const void *address, unsigned long bytes, softmetal::Use, const void *program_counter);
    char *threadgroup_memory() const { return arena_start; }
    char space_of(const void *address) const;
    unsigned lane() const { return running % softmetal::simdgroup_width; }
    unsigned simdgroup_index() const { return running / softmetal::simdgroup_width; }
    unsigned all_simdgroups() const { return simdgroup_count; }
    void count(const void *address, unsigned long bytes, softmetal::Use, const void *program_counter);
    void thread_ends();
    const softmetal::Thread &running_thread() const { return fibers[running].thread; }
    const Job &running_job() const { return *job; }

    // Stops the threadgroup of the thread that runs.
    [[noreturn]] void fail(const std::string &what, softmetal::Place);
    // Of signal handlers: stops the threadgroup that runs on this thread, if a kernel runs there.
    [[noreturn]] void stop(const char *what, const void *program_counter, const void *address);
    bool in_kernel = false;
    static Runner *current();

private:
    struct Fiber {
        void *stack_pointer;
        const softmetal::Operation *operation;  // that it waits for
        softmetal::Place place;
        softmetal::Thread thread;
    };
    // What a signal's handler found, which may not do more than note it.
    struct Stop {
        const char *what = nullptr;
        const void *program_counter = nullptr, *address = nullptr;
        std::string text(const Job &, const Stacks &) const;
        std::string where(const Job &, const Stacks &) const;
    };
    struct Simdgroup {
        unsigned existing;  // lanes, as bits
        unsigned waiting;   // at a threadgroup's barrier
        unsigned ended;
        softmetal::Place barrier;
    };

    std::unique_ptr<Fiber[]> fibers;
    Stacks stacks;
    unsigned prepared = 0;  // fibers that have a start
    void *scheduler = nullptr;

    const Job *job = nullptr;
    softmetal::Threadgroup group = {};
    void *mapping;  // of the arena, with a page before it and behind it
    size_t mapped;
    char *arena, *arena_start = nullptr;
    char *arena_open;  // the first page that may be touched
    Failure failure;
    Stop stopped;

    // A threadgroup that comes to fences again and again may wait for others.
    unsigned fences_left = 0;
    bool paused = false, has_paused = false;
    softmetal::Place paused_at = {};
    Races::Standing left;

    // The simdgroups in the order of this round, which lasts from barrier to barrier.
    Simdgroup simdgroups[most_simdgroups];
    unsigned simdgroup_count = 0, round[most_simdgroups], round_at = 0;
    Simdgroup *simdgroup = nullptr;  // that runs
    unsigned first_thread = 0;       // its

    // A phase: the lanes that can run do so, one after another, until each waits for something.
    const unsigned char *queue = nullptr;
    unsigned char filtered[softmetal::simdgroup_width];
    unsigned queue_length = 0, queue_at = 0, phase_lanes = 0;
    const softmetal::Operation *phase_operation = nullptr;
    softmetal::Place phase_place = {};
    bool mixed = false;
    unsigned ordered_memory = ~0u;  // by the barrier that threads wait at
    unsigned running = 0;  // the thread
    void *operands[softmetal::simdgroup_width];

    // For lanes that part: where each was last.
    softmetal::Place last_place[softmetal::simdgroup_width];
    bool parted = false, went_back = false;

    static constexpr unsigned orders = 64;
    unsigned char order[orders][softmetal::simdgroup_width];
    unsigned long order_seed = ~0ul, chance = 0;

    unsigned long draw();
    void make_orders();
    void place_threads();
    void place_memory();
    std::string time_text() const;
    std::string memory_at(const void *address) const;
    void open_arena();
    void make_gaps_untouchable(const unsigned *argument_at);
    void start_round();
    unsigned begin_phase(unsigned lanes);
    unsigned next_thread();
    unsigned next_simdgroup();
    unsigned finish_round();
    unsigned next_of_parted();
    unsigned operate(unsigned lanes, const softmetal::Operation &, softmetal::Place);
    void go_to(unsigned thread);
    [[noreturn]] void abandon();
    Failure go_on();
};

}  // namespace msl
