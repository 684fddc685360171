// MSL text to C++ text, whose library describes and runs its kernels.
#pragma once

#include <map>
#include <string>

namespace msl {

struct Translation {
    std::string text;
    std::string error;  // "program_source:3:7: error: …", or empty
};

// Values of function constants, by name, as C++ expressions.
typedef std::map<std::string, std::string> ConstantValues;

// `source` is preprocessed text, but for Metal's own macros.
Translation translate(const std::string &source, const ConstantValues &values);

// The text for a strict check against a version, as 310, whose address spaces are real: only what C++ cannot parse, or
// would not tell, is rewritten.
Translation translate_for_check(const std::string &source, unsigned version);

extern const char program_source[];  // what messages call the text

}  // namespace msl
