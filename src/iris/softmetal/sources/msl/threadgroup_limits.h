// How large a threadgroup and its memory can be.
#pragma once

#include "../../include/softmetal_machine"

namespace msl {

constexpr unsigned most_threads = 1024;
constexpr unsigned most_simdgroups = most_threads / softmetal::simdgroup_width;
constexpr unsigned threadgroup_limit = 32 << 10;
// With gaps about variables, each of which has 16 bytes at least.
constexpr unsigned arena_bytes = threadgroup_limit * (1 + softmetal::sanitizer_gap / 16) + (4 << 10);

}  // namespace msl
