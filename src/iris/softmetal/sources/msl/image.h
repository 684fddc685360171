// A compiled library as bytes, which can be kept in a file: what the loader reads, all that it takes to
// compile its text again, and a checksum.
#pragma once

#include <optional>
#include <string>

#include "compile.h"

namespace msl {

struct Recipe {
    std::string source;
    Options options;
    ConstantValues values;
};

std::string seal(std::string library, const Recipe &);

// The recipe of a sealed library; nothing if these bytes are none, or not all of one, or of another
// version or processor.  `wrong` then says so.
std::optional<Recipe> unseal(const std::string &image, std::string &wrong);

}  // namespace msl
