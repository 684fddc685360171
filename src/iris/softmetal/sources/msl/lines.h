// Says where something went wrong, to people.
#pragma once

#include <string>
#include <vector>

#include "execute.h"

namespace msl {

// The line of MSL that a kernel's code was made from, or 0.
unsigned line_of(const Job &job, const void *program_counter);

// Of each place in a kernel's code, whether its text says what is done there itself, and no function of Metal.
std::vector<bool> are_of_the_text(const Job &job, const std::vector<const void *> &places);

// How far an address is from the nearest of a launch's buffers.
std::string near_buffer(const Job &job, const void *address);

// Which byte it is of which of them, for an address in one.
std::string place_in_buffer(const Job &job, const void *address);

}  // namespace msl
