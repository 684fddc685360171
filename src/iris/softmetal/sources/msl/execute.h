// Runs the threads of a grid.
#pragma once

#include <string>

#include "../../include/softmetal_machine"

namespace msl {

class Counts;
class Races;

struct Job {
    const softmetal::Kernel *kernel;
    unsigned static_bytes;
    const softmetal::Layout *layout;  // of them; null if there are none
    const std::string *image;  // of the library, to find lines in
    const void *code;          // an address in it
    softmetal::Launch launch;
    unsigned long seed;  // 0: threads go in order
    double seconds;      // that one threadgroup may take
    bool has_unbound;    // memory that it uses
    Races *races;        // null if nobody looks for them
    Counts *counts;      // null if nobody counts
};

struct Failure {
    std::string text;  // empty: nothing went wrong
    bool is_late = false;  // a threadgroup took too long
};

Failure execute(Job &job);

// The functions that kernels call.
softmetal::Machine machine_for_kernels();

}  // namespace msl
