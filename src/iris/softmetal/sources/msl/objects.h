// Objects in other address spaces than a thread's, in texts that are checked.
#pragma once

#include <string>

namespace msl {

// C++ copies an object, assigns to it and calls its member functions in one address space, Metal in each.  Where the
// compiler refuses that, its messages have the ranges of the expressions: in the text that comes back, functions of
// strict/metal_stdlib stand around these.
std::string with_objects_reached(const std::string &text, const std::string &messages);

}  // namespace msl
