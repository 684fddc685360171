// What a declaration comes to where the address spaces are one: texts overload functions by the space that a
// pointer, a reference or `this` is in, and specialise classes by it.
#pragma once

#include <string>

#include "declarations.h"

namespace msl {

struct Signature {
    std::string key;     // alike for declarations that C++ would take for the same
    std::string spaces;  // which the text names in it, in their order
    std::string spaces_before_this;
    std::string body;    // alike for those that do the same; empty if there is none
    // After the parameters: spaces of `this`, and what C++ calls them.
    std::vector<Replacement> of_this;

    // For a call by another that has the same key: its name, or `no_name`, and its parameters.
    static constexpr size_t no_name = ~0ul;
    struct Parameter {
        std::string name, space, otherwise;  // what it is if nothing is given
        bool reference;
        Range default_value;
    };
    size_t name = no_name;
    std::vector<Parameter> parameters;
    std::string this_space;
    bool is_function = false;
    size_t start = 0, body_at = 0;  // tokens
};

// What makes `first` leave to `second` what comes from the other's space; throws Mistake if nothing can.
std::vector<Replacement> forwarding(const Tokens &tokens, const Signature &first, const Signature &second,
                                    bool in_class, unsigned number);

// Of tokens [whole.from, whole.to), whose body or semicolon is at `end`.  `class_name` is that of the class
// around it, if there is one.
Signature signature_of(const Tokens &tokens, Range whole, size_t end, const std::string &class_name);

}  // namespace msl
