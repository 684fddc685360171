// What Apple's compiler refuses and C++ does not.
#pragma once

#include "declarations.h"

namespace msl {

// Throws the first Mistake.
void hold_to_rules(const Tokens &, const Declarations &);

}  // namespace msl
