// The shadow of all memory, for kernels that are compiled with sanitizers.
#pragma once

#include "../../include/softmetal_shadow"

namespace msl {

// Makes it, once in a process; throws if the system does not let it be.
void use_shadow();
bool shadow_in_use();

bool may_be_touched(const void *address);
// Of a buffer of which only some bytes may be touched: a byte for each says whether.  While it has gaps.
void make_gaps(const void *start, unsigned long bytes, const unsigned char *touchable);
void close_gaps(const void *start);
bool is_in_no_gap(const void *address, unsigned long bytes);
// Why an address, or what lies right behind it, may not be touched, or 0.
unsigned char untouchable_at(const void *address);

}  // namespace msl
