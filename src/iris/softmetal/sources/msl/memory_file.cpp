#include "memory_file.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace msl {

MemoryFile::MemoryFile(const std::string &contents) : number(memfd_create("softmetal", MFD_CLOEXEC)) {
    if (number < 0) throw std::system_error(errno, std::generic_category(), "a file in memory");
    for (size_t at = 0; at < contents.size();) {
        const ssize_t wrote = write(number, contents.data() + at, contents.size() - at);
        if (wrote < 0 && errno != EINTR) {
            close(number);
            throw std::system_error(errno, std::generic_category(), "a file in memory");
        }
        if (wrote > 0) at += size_t(wrote);
    }
}

MemoryFile::~MemoryFile() { close(number); }

std::string MemoryFile::contents() const {
    struct stat known = {};
    fstat(number, &known);
    std::string made(size_t(known.st_size), '\0');
    size_t at = 0;
    for (ssize_t got; at < made.size(); at += size_t(got)) {
        got = pread(number, made.data() + at, made.size() - at, off_t(at));
        if (got < 0 && errno == EINTR) got = 0;
        else if (got <= 0) break;
    }
    made.resize(at);
    return made;
}

}  // namespace msl
