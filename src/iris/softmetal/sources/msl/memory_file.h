// A file without a name in any directory: nothing of it is left behind however the process ends.
#pragma once

#include <string>

namespace msl {

class MemoryFile {
public:
    explicit MemoryFile(const std::string &contents = "");
    ~MemoryFile();
    MemoryFile(const MemoryFile &) = delete;

    std::string contents() const;
    int descriptor() const { return number; }
    // For this process, and for programs that run_program gives it to.
    std::string path() const { return "/proc/self/fd/" + std::to_string(number); }

private:
    int number;
};

}  // namespace msl
