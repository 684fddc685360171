// The functions of msl.h.
#include <cxxabi.h>
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <memory>
#include <mutex>
#include <sstream>

#include "compile.h"
#include "counts.h"
#include "execute.h"
#include "image.h"
#include "memory_file.h"
#include "msl.h"
#include "races.h"
#include "shadow.h"
#include "threadgroup.h"

struct msl_function {
    const softmetal::Kernel *kernel;
    const softmetal::Layout *layout;  // of its threadgroup variables; null if it has none
    msl_library *library;
};

struct msl_library {
    std::atomic<unsigned> references{1};
    msl::Recipe recipe;
    std::string image;
    std::mutex file_mutex;
    std::unique_ptr<msl::MemoryFile> file;  // once somebody has asked for its path
    std::string path;
    void *handle = nullptr;
    const softmetal::Library *table = nullptr;
    std::vector<msl_function> functions;

    ~msl_library() {
        if (handle) dlclose(handle);
    }
};

namespace {

using softmetal::Kernel;

char *copy(const std::string &text) { return strdup(text.c_str()); }

template <typename T> T *refused(char **error, const std::string &text) {
    if (error) *error = copy(text);
    return nullptr;
}

msl::Options options_of(const msl_options *given) {
    msl::Options made;
    if (!given) return made;
    if (given->language_version) made.version = given->language_version;
    made.math = msl::MathMode(given->math_mode);
    for (unsigned i = 0; i < given->macro_count; ++i) made.macros[given->macro_names[i]] = given->macro_values[i];
    return made;
}

// A kernel that is asked only says how its threadgroup variables lie.
const softmetal::Layout *layout(const softmetal::Library &table, const Kernel &kernel) {
    if (!kernel.has_layout) return nullptr;
    softmetal::Launch launch = {};
    softmetal::Threadgroup group = {};
    group.launch = &launch;
    const softmetal::Thread thread = {&group, {}, 0};
    table.machine->asking = true;
    kernel.run(thread);
    table.machine->asking = false;
    return table.machine->layout;
}

unsigned static_bytes(const msl_function &function) { return function.layout ? function.layout->bytes : 0; }

// The loader takes two files of one name for the same library, and numbers of files come again: so each
// name says in dots and slashes how many came before.  A process may have several copies of this code:
// each counts from its own address on.
std::string unique_path(const msl::MemoryFile &file) {
    static std::atomic<unsigned long> before{reinterpret_cast<unsigned long>(&before) << 16};
    std::string made = "/proc/self/fd/";
    for (unsigned long number = before++; number; number /= 2) made += number % 2 ? "./" : "/";
    return made + std::to_string(file.descriptor());
}

// The loader misses what is declared and called, but not defined.
std::string what_is_missing(const std::string &said) {
    static const std::string mark = "undefined symbol: ";
    const size_t at = said.find(mark);
    if (at == std::string::npos) return said;
    const std::string symbol = said.substr(at + mark.size());
    char *const demangled = abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, nullptr);
    const std::string name = demangled ? demangled : symbol;
    free(demangled);
    return "error: " + name + " is used but not defined\n";
}

std::string load(msl_library &library) {
    static std::mutex one_at_a_time;
    std::lock_guard lock(one_at_a_time);
    if (library.recipe.options.sanitized) msl::use_shadow();
    const msl::MemoryFile file(library.image);
    library.handle = dlopen(unique_path(file).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library.handle) return what_is_missing(dlerror());
    library.table = static_cast<const softmetal::Library *>(dlsym(library.handle, "softmetal_library"));
    if (!library.table) return "this library of softmetal has no kernels";
    *library.table->machine = msl::machine_for_kernels();
    for (unsigned i = 0; i < library.table->kernel_count; ++i) {
        const Kernel &kernel = library.table->kernels[i];
        library.functions.push_back({&kernel, layout(*library.table, kernel), &library});
    }
    return "";
}

msl_library *make(msl::Recipe recipe, char **error) {
    msl::Compilation compiled = msl::compile(recipe.source, recipe.options, recipe.values);
    if (!compiled.error.empty()) return refused<msl_library>(error, compiled.error);
    auto made = std::make_unique<msl_library>();
    made->image = msl::seal(std::move(compiled.library), recipe);
    made->recipe = std::move(recipe);
    const std::string wrong = load(*made);
    if (!wrong.empty()) return refused<msl_library>(error, wrong);
    return made.release();
}

msl_library *open_image(std::string image, const std::string &name, char **error) {
    auto made = std::make_unique<msl_library>();
    std::string wrong;
    std::optional<msl::Recipe> recipe = msl::unseal(image, wrong);
    if (recipe) {
        made->image = std::move(image);
        made->recipe = std::move(*recipe);
        wrong = load(*made);
    }
    if (!wrong.empty()) return refused<msl_library>(error, name + ": " + wrong);
    return made.release();
}

// No exception leaves the library: of memory and open files there may be too few.
template <typename F> msl_library *guarded(char **error, F f) {
    try {
        return f();
    } catch (const std::exception &problem) {
        return refused<msl_library>(error, problem.what());
    }
}

// A value as C++ text.
template <typename T> std::string number(const void *bytes, unsigned lane) {
    T x;
    std::memcpy(&x, static_cast<const char *>(bytes) + lane * sizeof(T), sizeof(T));
    std::stringstream made;
    made << +x << (sizeof(T) == 8 ? (T(-1) < T(0) ? "l" : "ul") : "");
    return made.str();
}

std::string lane_text(const msl_constant_value &value, unsigned lane) {
    const void *at = value.bytes;
    switch (value.kind) {
    case 'b': return number<unsigned char>(at, lane);
    case 'c': return number<signed char>(at, lane);
    case 'C': return number<unsigned char>(at, lane);
    case 's': return number<short>(at, lane);
    case 'S': return number<unsigned short>(at, lane);
    case 'i': return number<int>(at, lane);
    case 'I': return number<unsigned>(at, lane) + "u";
    case 'q': return "long(" + number<unsigned long>(at, lane) + ")";
    case 'Q': return number<unsigned long>(at, lane);
    case 'h': return "as_type<half>(ushort(" + number<unsigned short>(at, lane) + "))";
    case 'B': return "as_type<bfloat>(ushort(" + number<unsigned short>(at, lane) + "))";
    default: return "as_type<float>(" + number<unsigned>(at, lane) + "u)";
    }
}

std::string problem(const msl_launch &launch) {
    const Kernel &kernel = *launch.function->kernel;
    const unsigned *per = launch.threads_per_threadgroup;
    const unsigned long threads = (unsigned long)per[0] * per[1] * per[2];
    const unsigned most = kernel.max_threads ? kernel.max_threads : msl::most_threads;
    if (!threads || threads > most) {
        return std::to_string(threads) + " threads per threadgroup, of which there can be 1 to " + std::to_string(most);
    }
    unsigned bytes = (static_bytes(*launch.function) + 15) / 16 * 16;
    for (unsigned one : launch.threadgroup_bytes) bytes += (one + 15) / 16 * 16;
    if (bytes > msl::threadgroup_limit) {
        return std::to_string(bytes) + " bytes of threadgroup memory, of which there are " +
               std::to_string(msl::threadgroup_limit);
    }
    for (unsigned i = 0; i < kernel.argument_count; ++i) {
        const softmetal::Argument &argument = kernel.arguments[i];
        if (!argument.active || argument.kind == softmetal::Kind::value) continue;
        const std::string name = std::to_string(argument.index) + " (" + argument.name + ")";
        if (argument.kind == softmetal::Kind::shared_memory) {
            if (!launch.threadgroup_bytes[argument.index]) return "threadgroup memory " + name + " has no length";
            continue;
        }
        const msl_memory &buffer = launch.buffers[argument.index];
        if (!buffer.start) return "buffer " + name + " is not bound";
        if (argument.reference && buffer.bytes < argument.element_bytes) {
            return "buffer " + name + " has " + std::to_string(buffer.bytes) + " bytes, and " +
                   std::to_string(argument.element_bytes) + " are needed";
        }
        if ((unsigned long)buffer.start % argument.alignment) {
            return "buffer " + name + " is not aligned to " + std::to_string(argument.alignment) + " bytes";
        }
    }
    return "";
}

}  // namespace

void msl_configure(const char *include_directory, const char *cache_directory, const char *compiler) {
    msl::configure(include_directory, cache_directory, compiler);
}

msl_library *msl_compile(const char *source, const msl_options *options, char **error) {
    return guarded(error, [&] { return make({source, options_of(options), {}}, error); });
}

char *msl_check(const char *source, const msl_options *options) {
    try {
        const std::string wrong = msl::check(source, options_of(options));
        return wrong.empty() ? nullptr : copy(wrong);
    } catch (const std::exception &problem) {
        return copy(problem.what());
    }
}

const void *msl_library_bytes(const msl_library *library, unsigned long *bytes) {
    *bytes = library->image.size();
    return library->image.data();
}

const char *msl_library_path(const msl_library *asked) {
    msl_library &library = *const_cast<msl_library *>(asked);
    std::lock_guard lock(library.file_mutex);
    if (!library.file) {
        try {
            library.file = std::make_unique<msl::MemoryFile>(library.image);
        } catch (const std::exception &) {
            return nullptr;
        }
        library.path = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(library.file->descriptor());
    }
    return library.path.c_str();
}

msl_library *msl_open(const char *path, char **error) {
    return guarded(error, [&]() -> msl_library * {
        std::ifstream file(path, std::ios::binary);
        std::stringstream image;
        image << file.rdbuf();
        if (!file) return refused<msl_library>(error, std::string(path) + ": this file cannot be read");
        return open_image(image.str(), path, error);
    });
}

msl_library *msl_open_bytes(const void *image, unsigned long bytes, char **error) {
    return guarded(error, [&] {
        return open_image(std::string(static_cast<const char *>(image), bytes), "bytes of a library", error);
    });
}

void msl_retain(msl_library *library) { ++library->references; }

void msl_release(msl_library *library) {
    if (--library->references == 0) delete library;
}

unsigned msl_constant_count(const msl_library *library) { return library->table->constant_count; }

msl_constant msl_constant_at(const msl_library *library, unsigned i) {
    const softmetal::FunctionConstant &one = library->table->constants[i];
    return {one.name, one.type, one.index};
}

msl_library *msl_specialize(msl_library *library, const msl_constant_value *values, unsigned count, char **error) {
    msl::Recipe recipe = library->recipe;
    for (unsigned i = 0; i < count; ++i) {
        std::string text;
        for (unsigned lane = 0; lane < values[i].lanes; ++lane) text += (lane ? ", " : "") + lane_text(values[i], lane);
        for (unsigned k = 0; k < library->table->constant_count; ++k) {
            const softmetal::FunctionConstant &one = library->table->constants[k];
            const bool meant = values[i].name ? !std::strcmp(one.name, values[i].name) : one.index == values[i].index;
            if (meant) recipe.values[one.name] = text;
        }
    }
    return guarded(error, [&] { return make(std::move(recipe), error); });
}

unsigned msl_function_count(const msl_library *library) { return unsigned(library->functions.size()); }

const msl_function *msl_function_at(const msl_library *library, unsigned i) { return &library->functions[i]; }

const msl_function *msl_function_named(const msl_library *library, const char *name) {
    for (const msl_function &function : library->functions) {
        if (!std::strcmp(function.kernel->name, name)) return &function;
    }
    return nullptr;
}

const char *msl_function_name(const msl_function *function) { return function->kernel->name; }
unsigned msl_function_line(const msl_function *function) { return function->kernel->line; }
unsigned msl_function_max_threads(const msl_function *function) { return function->kernel->max_threads; }
unsigned msl_function_threadgroup_bytes(const msl_function *function) { return static_bytes(*function); }
unsigned msl_function_argument_count(const msl_function *function) { return function->kernel->argument_count; }

msl_argument msl_function_argument(const msl_function *function, unsigned i) {
    const softmetal::Argument &one = function->kernel->arguments[i];
    return {one.name,      int(one.kind),  one.index,     one.element_bytes,
            one.alignment, one.reference, one.read_only, one.active, one.data_type};
}

char *msl_run(const msl_launch *launch, int *is_late) {
    *is_late = 0;
    const msl_function &function = *launch->function;
    const std::string head = "kernel '" + std::string(function.kernel->name) + "': ";
    std::string wrong = problem(*launch);
    if (!wrong.empty()) return copy(head + wrong);
    msl::Job job = {};
    job.kernel = function.kernel;
    job.static_bytes = static_bytes(function);
    job.layout = function.layout;
    job.image = &function.library->image;
    job.code = function.library->table;
    for (unsigned i = 0; i < softmetal::max_buffers; ++i) {
        job.launch.buffers[i] = {launch->buffers[i].start, launch->buffers[i].bytes};
        job.launch.threadgroup_bytes[i] = launch->threadgroup_bytes[i];
    }
    const unsigned *all = launch->threads, *per = launch->threads_per_threadgroup;
    job.launch.threads = {all[0], all[1], all[2]};
    job.launch.threads_per_threadgroup = {per[0], per[1], per[2]};
    job.launch.threadgroups = {(all[0] + per[0] - 1) / per[0], (all[1] + per[1] - 1) / per[1],
                               (all[2] + per[2] - 1) / per[2]};
    job.seed = launch->seed;
    job.seconds = launch->seconds > 0 ? launch->seconds : 10;
    job.has_unbound = launch->has_unbound;
    try {
        std::optional<msl::Races> races;
        if (function.library->recipe.options.sanitized) job.races = &races.emplace(job);
        std::optional<msl::Counts> counts;
        const msl::Counting counting = function.library->recipe.options.counting;
        if (counting != msl::Counting::nothing) job.counts = &counts.emplace(job, counting);
        msl::Failure failure = msl::execute(job);
        wrong = std::move(failure.text);
        *is_late = failure.is_late;
        if (counts) counts->finish();
    } catch (const std::exception &problem) {
        wrong = problem.what();
    }
    return wrong.empty() ? nullptr : copy(head + wrong);
}

void msl_count(int what) { msl::count_from_here(msl::Counting(what)); }
char *msl_counts(void) { return copy(msl::take_counts()); }

void msl_make_untouchable(const void *start, unsigned long bytes) {
    if (!msl::settings().sanitize) return;
    try {
        msl::use_shadow();
    } catch (const std::exception &) {
        return;  // no library can be loaded then, which says why
    }
    softmetal::make_untouchable(start, bytes, softmetal::untouchable_buffer);
}

void msl_make_touchable(const void *start, unsigned long bytes) {
    if (msl::shadow_in_use()) softmetal::make_touchable(start, bytes);
}

void msl_make_gaps(const void *start, unsigned long bytes, const unsigned char *touchable) {
    if (msl::shadow_in_use()) msl::make_gaps(start, bytes, touchable);
}

void msl_close_gaps(const void *start) {
    if (msl::shadow_in_use()) msl::close_gaps(start);
}

void msl_free(char *text) { free(text); }
