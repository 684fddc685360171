#include "tokens.h"

#include <cctype>
#include <cstdlib>

namespace msl {
namespace {

bool starts_word(char c) { return std::isalpha((unsigned char)c) || c == '_'; }
bool in_word(char c) { return std::isalnum((unsigned char)c) || c == '_'; }

class Tokenizer {
public:
    explicit Tokenizer(std::string_view text) : text(text) {}

    std::vector<Token> run() {
        while (skip_blank(), at < text.size()) {
            const size_t start = at;
            const unsigned line_of_start = line, column = unsigned(start - line_start + 1);
            const Token::Kind kind = read_one();
            made.push_back({kind, text.substr(start, at - start), start, line_of_start, column});
            if (kind == Token::directive) follow_marker(made.back().text);
        }
        return std::move(made);
    }

private:
    std::string_view text;
    size_t at = 0, line_start = 0;
    unsigned line = 1;
    std::vector<Token> made;

    char peek(size_t ahead = 0) const { return at + ahead < text.size() ? text[at + ahead] : '\0'; }

    void advance() {
        if (text[at++] == '\n') {
            ++line;
            line_start = at;
        }
    }

    void skip_blank() {
        while (at < text.size()) {
            if (std::isspace((unsigned char)peek())) {
                advance();
            } else if (peek() == '/' && peek(1) == '/') {
                while (at < text.size() && peek() != '\n') advance();
            } else if (peek() == '/' && peek(1) == '*') {
                advance();
                advance();
                while (at < text.size() && !(peek() == '*' && peek(1) == '/')) advance();
                for (int i = 0; i < 2 && at < text.size(); ++i) advance();
            } else if (peek() == '\\' && peek(1) == '\n') {
                advance();
                advance();
            } else {
                return;
            }
        }
    }

    Token::Kind read_one() {
        const char c = peek();
        if (c == '#' && first_on_line()) {
            while (at < text.size() && peek() != '\n') {
                if (peek() == '\\' && peek(1) == '\n') advance();
                advance();
            }
            return Token::directive;
        }
        if (starts_word(c)) {
            while (in_word(peek())) advance();
            return Token::word;
        }
        if (std::isdigit((unsigned char)c) || (c == '.' && std::isdigit((unsigned char)peek(1)))) {
            while (in_word(peek()) || peek() == '.' || (peek() == '\'' && in_word(peek(1))) || is_sign()) {
                advance();
            }
            return Token::number;
        }
        if (c == '"' || c == '\'') {
            advance();
            while (at < text.size() && peek() != c && peek() != '\n') {
                if (peek() == '\\') advance();
                if (at < text.size()) advance();
            }
            if (at < text.size()) advance();
            return Token::string;
        }
        advance();
        return Token::punctuation;
    }

    // Of an exponent.
    bool is_sign() const {
        if (peek() != '+' && peek() != '-') return false;
        const char before = text[at - 1];
        return before == 'e' || before == 'E' || before == 'p' || before == 'P';
    }

    bool first_on_line() const {
        for (size_t i = line_start; i < at; ++i) {
            if (!std::isspace((unsigned char)text[i])) return false;
        }
        return true;
    }

    // # 12 "name"  or  #line 12: what the next line is called.
    void follow_marker(std::string_view directive) {
        size_t i = 1;
        while (i < directive.size() && directive[i] == ' ') ++i;
        if (directive.substr(i, 4) == "line") i += 4;
        while (i < directive.size() && directive[i] == ' ') ++i;
        if (i == directive.size() || !std::isdigit((unsigned char)directive[i])) return;
        line = unsigned(std::atoi(std::string(directive.substr(i)).c_str())) - 1;
    }
};

}  // namespace

std::vector<Token> tokens_of(std::string_view text) { return Tokenizer(text).run(); }

bool is_fraction(std::string_view number) {
    const std::string_view start = number.substr(0, 2);
    const bool hexadecimal = start == "0x" || start == "0X";
    return number.find_first_of(hexadecimal ? ".pP" : ".eE") != std::string_view::npos;
}

}  // namespace msl
