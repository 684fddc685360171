// Runs other programs.
#pragma once

#include <string>
#include <vector>

#include "memory_file.h"

namespace msl {

struct Outcome {
    bool succeeded;
    std::string output;  // of both streams, or the errors alone where another file gets the output
};

// `files` are there for the program by their paths.
Outcome run_program(const std::vector<std::string> &arguments, const std::vector<const MemoryFile *> &files = {},
                    const MemoryFile *standard_output = nullptr);

}  // namespace msl
