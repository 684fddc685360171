// MSL text to the bytes of a shared library, by a C++ compiler.
#pragma once

#include <map>
#include <string>

#include "translate.h"

namespace msl {

// Which accesses kernels tell of: none; those to memory of the device and of threadgroups, as the text has them; those
// of variables that are left in memory once a compiler has put in registers what it can.
enum class Counting { nothing, text, stack };

struct Settings {
    std::string include_directory;
    std::string cache_directory;
    std::string compiler;
    bool sanitize;  // kernels check what they do
    Counting count = Counting::nothing;
};
// A copy: other threads may configure meanwhile.
Settings settings();
void configure(const char *include_directory, const char *cache_directory, const char *compiler);

// Of the libraries that this thread makes from here on.
void count_from_here(Counting);
Counting counting_here();

// What a compiler may do to floats, as MTLMathMode numbers it: nothing; all but to forget that there are infinities
// and nans; that, too.
enum class MathMode { safe, relaxed, fast };

struct Options {
    unsigned version = 320;  // of the language, as in __METAL_VERSION__
    MathMode math = MathMode::fast;
    Counting counting = counting_here();
    bool sanitized = settings().sanitize && counting == Counting::nothing;
    std::map<std::string, std::string> macros;
};

struct Compilation {
    std::string library;
    std::string error;  // the compiler's messages; empty if the library was made
};
Compilation compile(const std::string &source, const Options &, const ConstantValues &);

// The messages of a strict check, in which the address spaces are real.
std::string check(const std::string &source, const Options &);

}  // namespace msl
