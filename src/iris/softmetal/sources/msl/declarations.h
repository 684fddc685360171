// What the translator looks for in a text: kernels, their parameters, threadgroup variables, function
// constants.  Positions are numbers of tokens.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "tokens.h"

namespace msl {

typedef std::vector<Token> Tokens;

// Tokens [from, to).
struct Range {
    size_t from, to;
    bool empty() const { return from >= to; }
};

// A mistake in the text that C++ would not find.
struct Mistake : std::runtime_error {
    Mistake(const Token &at, const std::string &what);
};

struct Attribute {
    std::string name;
    std::string argument;  // between the parentheses, if there are any
    Range tokens;          // with its brackets, and those of its neighbours
};

struct Parameter {
    std::string type;  // its words, without those of `const` and address spaces
    std::string name;
    std::vector<Attribute> attributes;
    bool points_to_buffer;
    bool points_to_threadgroup;
    size_t token;
};

struct ThreadgroupVariable {
    Range statement;  // with its semicolon
    std::string type;
    struct Declarator {
        std::string name, dimensions;
    };
    std::vector<Declarator> declarators;
};

struct Kernel {
    std::string scope;      // the namespace, "a::b"
    std::string name;       // as the text calls it: "f", or "f<float, 4>" of an instance
    std::string host_name;  // as its users call it
    bool is_template;
    bool is_instance;  // an explicit instantiation of a template
    Range statement;
    size_t line;
    std::string max_threads;
    std::vector<Parameter> parameters;
    size_t body;  // the token of its brace
    std::vector<ThreadgroupVariable> variables;
};

struct FunctionConstant {
    std::string scope, name, type, index;
    Range words;  // before its attribute
    Range attribute;
    size_t semicolon;
};

// Where the address spaces are one, what a text says once for each comes to the same.
struct Replacement {
    Range tokens;
    std::string text;
};

struct Declarations {
    std::vector<Kernel> kernels;
    std::vector<FunctionConstant> constants;
    std::vector<Range> bodies;  // of functions, with their braces
    std::vector<Replacement> without_spaces;
    std::vector<Replacement> without_spaces_of_this;  // where only those of member functions' objects are one
};

Declarations find_declarations(const Tokens &tokens);

bool is_address_space(const Token &);
bool opens_attribute(const Tokens &tokens, size_t i);
// Whether a < follows a name: those of a template's arguments do, and one that compares may follow a number or call.
bool opens_angles(const Tokens &tokens, size_t i);

// Their text, with a space where there is one.
std::string joined(const Tokens &tokens, Range range);

}  // namespace msl
