// MSL on the CPU: compile a text, ask what kernels it has, run them.
//
// Texts that a function returns through `char **error`, or returns as an error, belong to the caller, who
// frees them with msl_free.  All functions may be called from any thread.
#pragma once

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

typedef struct msl_library msl_library;
typedef struct msl_function msl_function;

// Where the headers are, where to keep what is precompiled, and the compiler; null leaves what is set.
void msl_configure(const char *include_directory, const char *cache_directory, const char *compiler);

typedef struct {
    unsigned language_version;  // 310 for MSL 3.1; 0 for the newest
    int math_mode;              // as MTLMathMode: 0 safe, 1 relaxed, 2 fast
    unsigned macro_count;
    const char *const *macro_names, *const *macro_values;
} msl_options;

msl_library *msl_compile(const char *source, const msl_options *options, char **error);
// Null, or what is wrong with the text where address spaces are real types.
char *msl_check(const char *source, const msl_options *options);

// A library can be kept in a file, and be opened again by a process on the same machine.  Its bytes live as
// long as it does; so does the file, which has its path while this process runs, to be copied.  What is no
// whole library of this version is refused.
const void *msl_library_bytes(const msl_library *, unsigned long *bytes);
const char *msl_library_path(const msl_library *);
msl_library *msl_open(const char *path, char **error);
msl_library *msl_open_bytes(const void *image, unsigned long bytes, char **error);
void msl_retain(msl_library *);
void msl_release(msl_library *);

typedef struct {
    const char *name;
    const char *type;  // as the text writes it
    unsigned index;
} msl_constant;

unsigned msl_constant_count(const msl_library *);
msl_constant msl_constant_at(const msl_library *, unsigned);

// A value of a function constant, by name or (name null) by index.  `kind` is the Metal type's scalar:
// b bool, c char, C uchar, s short, S ushort, i int, I uint, q long, Q ulong, h half, B bfloat, f float.
typedef struct {
    const char *name;
    unsigned index;
    char kind;
    unsigned lanes;
    const void *bytes;
} msl_constant_value;

// The library again, compiled for these values.
msl_library *msl_specialize(msl_library *, const msl_constant_value *values, unsigned count, char **error);

enum { msl_buffer, msl_threadgroup, msl_value };

typedef struct {
    const char *name;
    int kind;
    unsigned index;
    unsigned element_bytes;
    unsigned alignment;
    int reference;  // needs exactly one element
    int read_only;
    int active;  // 0: a function constant leaves it out
    unsigned data_type;  // of an element, as MTLDataType numbers it; 0: it does not
} msl_argument;

unsigned msl_function_count(const msl_library *);
const msl_function *msl_function_at(const msl_library *, unsigned);
const msl_function *msl_function_named(const msl_library *, const char *name);
const char *msl_function_name(const msl_function *);
unsigned msl_function_line(const msl_function *);
unsigned msl_function_max_threads(const msl_function *);          // 0: the text does not say
unsigned msl_function_threadgroup_bytes(const msl_function *);    // static
unsigned msl_function_argument_count(const msl_function *);
msl_argument msl_function_argument(const msl_function *, unsigned);

enum { msl_max_buffers = 31 };

typedef struct {
    void *start;
    unsigned long bytes;
} msl_memory;

typedef struct {
    const msl_function *function;  // its library stays until the run has ended
    msl_memory buffers[msl_max_buffers];
    unsigned threadgroup_bytes[msl_max_buffers];
    unsigned threads[3];  // in the grid
    unsigned threads_per_threadgroup[3];
    unsigned long seed;  // of the order in which threads run; 0: as they are numbered
    double seconds;      // that a threadgroup may take; 0: ten
    int has_unbound;     // it may use memory that is not bound, by addresses in memory
} msl_launch;

// Runs to the end.  Null, or what went wrong, and whether that is a threadgroup that took too long.
char *msl_run(const msl_launch *, int *is_late);

// Libraries that the calling thread makes from here on count what their kernels do, instead of any checks: 0 nothing,
// 1 what the text says, 2 accesses to variables that a compiler cannot keep in registers.
void msl_count(int what);
// What was counted since the last call: in each line a name, how often, bytes, and lines of device memory or cycles
// of bank conflicts, with tabs between them.  The caller frees it.
char *msl_counts(void);

// Memory that kernels must leave alone, as behind the end of a buffer, and may use again; noticed where
// IRIS_SOFTMETAL_SANITIZE=1 was set when the process began, else these do nothing.  What is touchable
// starts at a multiple of eight; before memory is given back to the system it has to be made so.
void msl_make_untouchable(const void *start, unsigned long bytes);
void msl_make_touchable(const void *start, unsigned long bytes);

// Of memory that starts at a multiple of eight, a byte for each says whether kernels may touch it, until that
// ends.
void msl_make_gaps(const void *start, unsigned long bytes, const unsigned char *touchable);
void msl_close_gaps(const void *start);

void msl_free(char *text);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
