#include "hash.h"

#include <cstring>
#include <fstream>
#include <string>

namespace msl {

unsigned long hash(std::string_view text) {
    unsigned long made = 0xcbf29ce484222325ul ^ text.size();
    size_t at = 0;
    // Each step is one to one, so that no difference is lost.
    for (unsigned long word; at + sizeof word <= text.size(); at += sizeof word) {
        std::memcpy(&word, text.data() + at, sizeof word);
        made = (made ^ word) * 0x9e3779b97f4a7c15ul;
        made ^= made >> 32;
    }
    for (; at < text.size(); ++at) made = (made ^ (unsigned char)text[at]) * 0x100000001b3ul;
    return made;
}

unsigned long processor_key() {
    static const unsigned long made = [] {
        std::ifstream processor("/proc/cpuinfo");
        for (std::string line; std::getline(processor, line);) {
            if (line.rfind("flags", 0) == 0 || line.rfind("Features", 0) == 0) return hash(line);
        }
        return 0ul;
    }();
    return made;
}

}  // namespace msl
