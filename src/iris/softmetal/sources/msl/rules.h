// What Apple's compiler refuses and C++ does not.
#pragma once

#include "declarations.h"

namespace msl {

// Throws the first Mistake against a version of the language, as 310.
void hold_to_rules(const Tokens &, const Declarations &, unsigned version);

}  // namespace msl
