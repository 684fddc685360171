// MSL text as tokens that know where they stand.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace msl {

struct Token {
    enum Kind { word, number, string, punctuation, directive } kind;
    std::string_view text;
    size_t at;  // in the whole text
    unsigned line, column;

    size_t end() const { return at + text.size(); }
    bool is(std::string_view other) const { return kind != string && text == other; }
};

// Without white space and comments.  Punctuation comes a character at a time.  Line markers, which a
// preprocessor leaves, count.
std::vector<Token> tokens_of(std::string_view text);

// Whether a number has a point or an exponent.
bool is_fraction(std::string_view number);

}  // namespace msl
