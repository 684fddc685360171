#include "lines.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "process.h"
#include "translate.h"

namespace msl {

unsigned line_of(const Job &job, const void *program_counter) try {
    Dl_info at, kernels;
    if (!dladdr(program_counter, &at) || !dladdr(job.code, &kernels) || at.dli_fbase != kernels.dli_fbase) return 0;
    const unsigned long offset = (unsigned long)program_counter - (unsigned long)at.dli_fbase;
    const MemoryFile file(*job.image);
    // -i: of inlined code all callers, of which the first in the program's own text is told.
    std::vector<std::string> command = {"addr2line", "-i", "-e", file.path()};
    // An instruction that stands for several lines has none: what comes just before it is near enough.
    for (unsigned long back = 0; back < 64 && back < offset; ++back) {
        char text[32];
        std::snprintf(text, sizeof text, "0x%lx", offset - back);
        command.push_back(text);
    }
    const std::string places = run_program(command, {&file}).output;
    const std::string mark = std::string(program_source) + ":";
    for (size_t found = places.find(mark); found != std::string::npos; found = places.find(mark, found + 1)) {
        const int line = std::atoi(places.c_str() + found + mark.size());
        if (line > 0) return unsigned(line);
    }
    return 0;
} catch (const std::exception &) {
    return 0;  // the error is told without its line
}

std::vector<bool> are_of_the_text(const Job &job, const std::vector<const void *> &places) {
    Dl_info kernels;
    if (places.empty() || !dladdr(job.code, &kernels)) return std::vector<bool>(places.size());
    const MemoryFile file(*job.image);
    std::vector<std::string> command = {"addr2line", "-e", file.path()};
    for (const void *place : places) {
        char text[32];
        std::snprintf(text, sizeof text, "0x%lx", (unsigned long)place - (unsigned long)kernels.dli_fbase);
        command.push_back(text);
    }
    std::istringstream lines(run_program(command, {&file}).output);
    std::vector<bool> made;
    const std::string mark = std::string(program_source) + ":";
    for (std::string line; made.size() < places.size() && std::getline(lines, line);) {
        made.push_back(line.find(mark) != std::string::npos);
    }
    made.resize(places.size());
    return made;
}

std::string place_in_buffer(const Job &job, const void *address) {
    for (unsigned i = 0; i < job.kernel->argument_count; ++i) {
        const softmetal::Argument &argument = job.kernel->arguments[i];
        const softmetal::Memory &buffer = job.launch.buffers[argument.index];
        const unsigned long at = (unsigned long)address - (unsigned long)buffer.start;
        if (argument.kind != softmetal::Kind::buffer || !buffer.start || at >= buffer.bytes) continue;
        return "byte " + std::to_string(at) + " of buffer " + std::to_string(argument.index) + " (" + argument.name + ")";
    }
    return "memory of no buffer";
}

std::string near_buffer(const Job &job, const void *address) {
    const auto at = (unsigned long)address;
    unsigned long best = ~0ul;
    std::string made;
    for (unsigned i = 0; i < job.kernel->argument_count; ++i) {
        const softmetal::Argument &argument = job.kernel->arguments[i];
        if (argument.kind != softmetal::Kind::buffer) continue;
        const softmetal::Memory &buffer = job.launch.buffers[argument.index];
        if (!buffer.start) continue;
        const auto start = (unsigned long)buffer.start, end = start + buffer.bytes;
        const unsigned long off = at < start ? start - at : at >= end ? at - end : 0;
        if (off >= best) continue;
        best = off;
        const std::string name = "buffer " + std::to_string(argument.index) + " (" + argument.name + ")";
        made = at < start  ? std::to_string(off) + " bytes before " + name
               : at >= end ? std::to_string(off) + " bytes past the end of " + name
                           : name + (argument.read_only ? ", which is read-only" : "");
    }
    if (best < 1ul << 32) return made;
    char place[40];
    std::snprintf(place, sizeof place, "far from every buffer, at %p", address);
    return place;
}

}  // namespace msl
