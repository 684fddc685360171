#include "execute.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "../settings.h"
#include "threadgroup.h"

namespace msl {
namespace {

typedef std::chrono::steady_clock Clock;

// Faults in kernels become errors; those of others go where they went before.

const int watchdog_signal = SIGURG;
struct sigaction old_actions[65];

const void *program_counter(const void *context) {
    const auto &machine = static_cast<const ucontext_t *>(context)->uc_mcontext;
#if defined(__x86_64__)
    return (const void *)machine.gregs[REG_RIP];
#else
    return (const void *)machine.pc;
#endif
}

void on_signal(int signal, siginfo_t *info, void *context) {
    Runner *runner = Runner::current();
    if (runner && runner->in_kernel) {
        const void *at = program_counter(context);
        if (signal == watchdog_signal) runner->stop(out_of_time, at, nullptr);
        // Sent by a handler that was called before this one: the fault itself comes again.
        if (info->si_code <= 0) return;
        if (signal == SIGFPE) runner->stop("an integer is divided by zero", at, nullptr);
        // The processor does not say which address it was that did not suit its instruction.
        const int misaligned = signal == SIGBUS ? int(BUS_ADRALN) : int(SI_KERNEL);
        if (info->si_code == misaligned) {
            runner->stop("access to memory that is not aligned as its type needs, or beyond all addresses", at, nullptr);
        }
        runner->stop("access to memory that is not there", at, info->si_addr);
    }
    const struct sigaction &old = old_actions[signal];
    if (old.sa_flags & SA_SIGINFO) {
        old.sa_sigaction(signal, info, context);
    } else if (old.sa_handler == SIG_DFL && signal != watchdog_signal) {
        sigaction(signal, &old, nullptr);  // returning repeats the fault
    } else if (old.sa_handler != SIG_DFL && old.sa_handler != SIG_IGN) {
        old.sa_handler(signal);
    }
}

void catch_signals() {
    static bool done = false;  // also of a process that was forked since
    if (std::exchange(done, true)) return;
    for (int signal : {SIGSEGV, SIGBUS, SIGFPE, watchdog_signal}) {
        struct sigaction action = {};
        action.sa_sigaction = on_signal;
        // The handler does not return but leaves for another stack: no signal may stay blocked.
        action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
        sigaction(signal, &action, &old_actions[signal]);
    }
}

struct Shared {
    Job *job;
    unsigned long threadgroups;
    std::atomic<unsigned long> next{0};
    std::atomic<bool> failed{false};
    unsigned workers = 0;
    Failure failure;
};

// While one lives, its thread takes subnormal floats for zero, if the setting says so.  Those of halves stay, as on
// Apple's GPUs: the processor has another switch for them, or none.
class Flushing {
public:
    Flushing() : before(control()) {
#if defined(__x86_64__)
        if (setting_flush()) control(before | 1u << 15 | 1u << 6);  // results, and operands
#else
        if (setting_flush()) control(before | 1u << 24);
#endif
    }
    ~Flushing() { control(before); }

private:
    const unsigned long before;

#if defined(__x86_64__)
    static unsigned long control() { return __builtin_ia32_stmxcsr(); }
    static void control(unsigned long bits) { __builtin_ia32_ldmxcsr(unsigned(bits)); }
#else
    static unsigned long control() {
        unsigned long bits;
        __asm__ volatile("mrs %0, fpcr" : "=r"(bits));
        return bits;
    }
    static void control(unsigned long bits) { __asm__ volatile("msr fpcr, %0" ::"r"(bits)); }
#endif
};

// Threads that each run one threadgroup at a time.
class Crew {
public:
    Crew() {
        catch_signals();
        const unsigned count = std::max(1u, std::thread::hardware_concurrency());
        members = std::vector<Member>(count);
        for (Member &member : members) std::thread([this, &member] { work(member); }).detach();
        std::thread([this] { watch(); }).detach();
    }

    Failure run(Job &job) {
        const softmetal::Size groups = job.launch.threadgroups;
        Shared shared;
        shared.job = &job;
        shared.threadgroups = (unsigned long)groups.x * groups.y * groups.z;
        if (!shared.threadgroups) return {};
        std::unique_lock lock(mutex);
        waiting.push_back(&shared);
        something_to_do.notify_all();
        something_done.wait(lock, [&] { return shared.next >= shared.threadgroups && !shared.workers; });
        return shared.failure;
    }

private:
    struct Member {
        pthread_t thread;
        std::atomic<Clock::rep> must_end_by{0};
    };
    std::vector<Member> members;
    std::mutex mutex;
    std::condition_variable something_to_do, something_done;
    std::deque<Shared *> waiting;

    void work(Member &member) {
        member.thread = pthread_self();
        static constexpr size_t bytes = 64 << 10;
        stack_t own = {};
        own.ss_sp = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        own.ss_size = bytes;
        sigaltstack(&own, nullptr);
        Runner runner;
        std::unique_lock lock(mutex);
        for (;;) {
            something_to_do.wait(lock, [&] { return !waiting.empty(); });
            Shared &shared = *waiting.front();
            ++shared.workers;
            // Of those that look for races, or count, one notes what all threadgroups do.
            if (shared.job->races || shared.job->counts) waiting.pop_front();
            lock.unlock();
            Failure failure = help(shared, member, runner);
            lock.lock();
            if (!failure.text.empty() && shared.failure.text.empty()) shared.failure = std::move(failure);
            if (!waiting.empty() && waiting.front() == &shared) waiting.pop_front();
            if (--shared.workers == 0) something_done.notify_all();
        }
    }

    // Threadgroups that wait for others take turns, each with a runner of its own; all have started before
    // one has its second turn.
    Failure help(Shared &shared, Member &member, Runner &first) {
        const Flushing flushing;
        struct InTurn {
            Runner *runner;
            Clock::rep must_end_by;
        };
        const auto allowed = std::chrono::duration_cast<Clock::duration>(
            std::chrono::duration<double>(shared.job->seconds));
        const softmetal::Size most = shared.job->launch.threads_per_threadgroup;
        std::vector<std::unique_ptr<Runner>> more;
        std::vector<Runner *> idle = {&first};
        std::deque<InTurn> waiting_for_others;
        Failure failure;
        while (failure.text.empty() && !shared.failed) {
            const unsigned long number = shared.next < shared.threadgroups ? shared.next++ : shared.threadgroups;
            InTurn now = {};
            if (number < shared.threadgroups) {
                if (idle.empty()) {
                    try {
                        more.push_back(std::make_unique<Runner>(most.x * most.y * most.z));
                    } catch (const std::bad_alloc &) {
                        failure = {"there is no memory for so many threadgroups that wait for others"};
                        break;
                    }
                    idle.push_back(more.back().get());
                }
                now = {idle.back(), (Clock::now() + allowed).time_since_epoch().count()};
                idle.pop_back();
                member.must_end_by = now.must_end_by;
                failure = now.runner->run(*shared.job, number);
            } else if (!waiting_for_others.empty()) {
                now = waiting_for_others.front();
                waiting_for_others.pop_front();
                const bool is_late = Clock::now().time_since_epoch().count() > now.must_end_by;
                member.must_end_by = is_late ? 0 : now.must_end_by;
                failure = is_late ? now.runner->give_up() : now.runner->resume();
            } else {
                break;
            }
            member.must_end_by = 0;
            if (now.runner->is_paused()) {
                waiting_for_others.push_back(now);
            } else {
                idle.push_back(now.runner);
            }
        }
        if (!failure.text.empty()) {
            shared.failed = true;
            shared.next = shared.threadgroups;
        }
        for (const InTurn &left : waiting_for_others) left.runner->drop();
        return failure;
    }

    void watch() {
        for (;;) {
            usleep(50000);
            const Clock::rep now = Clock::now().time_since_epoch().count();
            for (Member &member : members) {
                const Clock::rep end = member.must_end_by;
                if (end && now > end) pthread_kill(member.thread, watchdog_signal);
            }
        }
    }
};

// A forked process has none of the threads: it makes its own.
Crew &crew() {
    static std::mutex mutex;
    static Crew *made;
    static pid_t of;
    std::lock_guard lock(mutex);
    if (!made || of != getpid()) {
        made = new Crew;
        of = getpid();
    }
    return *made;
}

}  // namespace

Failure execute(Job &job) { return crew().run(job); }

}  // namespace msl
