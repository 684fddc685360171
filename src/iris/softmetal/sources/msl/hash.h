// Fingerprints of texts and of the processor.
#pragma once

#include <string_view>

namespace msl {

// Differs if one byte does.
unsigned long hash(std::string_view text);

// Of all that code made for this processor may use.
unsigned long processor_key();

}  // namespace msl
