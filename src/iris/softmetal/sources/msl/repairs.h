// What C++ refuses and Metal takes, in texts that are checked.
#pragma once

#include <string>

namespace msl {

// C++ makes objects in one address space, copies, assigns and calls them there, and makes no vector of a list that is an
// argument.  Where the compiler refuses that, its messages have the ranges of the expressions: in the text that comes back,
// functions of strict/metal_stdlib stand for these or around them.  It is the same text if no message is of these.
std::string repaired(const std::string &text, const std::string &messages);

}  // namespace msl
