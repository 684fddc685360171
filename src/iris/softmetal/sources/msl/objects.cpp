#include "objects.h"

#include <algorithm>
#include <map>
#include <regex>
#include <sstream>
#include <vector>

#include "translate.h"

namespace msl {
namespace {

const std::string copied = "::softmetal::copied(", placed = "::softmetal::placed(", pointed = "::softmetal::placed_at(";

// What the compiler says of objects elsewhere, and what goes around the ranges that it shows: the last around all others.
struct Kind {
    const char *message;
    std::vector<std::string> functions;
};
const std::vector<Kind> kinds = {
    {"no matching constructor for initialization of", {copied}},
    {"no viable overloaded operator[]", {placed, ""}},
    {"no viable overloaded '", {placed, copied}},
    {"cannot initialize object parameter", {placed}},
    {"invalid operands to binary expression", {copied}},
};

std::vector<size_t> starts_of_lines(const std::string &text) {
    std::vector<size_t> made = {0, 0};  // lines are numbered from 1
    for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos;) made.push_back(++at);
    return made;
}

// And no list of several, whose commas stand in no bracket.
bool is_expression(const std::string &text, size_t from, size_t to) {
    int depth = 0;
    for (size_t i = from; i < to; ++i) {
        depth += text[i] == '(' || text[i] == '[' || text[i] == '{';
        depth -= text[i] == ')' || text[i] == ']' || text[i] == '}';
        if (!depth && text[i] == ',') return false;
    }
    return from < to && text[from] != '{';
}

// Whether one of the functions stands before it, or it is a call of one.
bool is_reached(const std::string &text, size_t from) {
    for (const std::string &function : {copied, placed, pointed}) {
        const size_t size = function.size();
        if (text.compare(from, size, function) == 0 || (from >= size && text.compare(from - size, size, function) == 0)) return true;
    }
    return false;
}

}  // namespace

std::string with_objects_reached(const std::string &text, const std::string &messages) {
    static const std::regex error(std::string(program_source) + ":\\d+:\\d+:((?:\\{[^}]*\\})+): error: (.*)");
    static const std::regex range("\\{(\\d+):(\\d+)-(\\d+):(\\d+)\\}");
    const std::vector<size_t> lines = starts_of_lines(text);
    struct Part {
        size_t to;
        std::string function;
    };
    std::map<size_t, Part> found;  // by their starts
    std::istringstream all(messages);
    for (std::string line; std::getline(all, line);) {
        std::smatch told;
        if (!std::regex_match(line, told, error)) continue;
        const std::string ranges = told[1], message = told[2];
        for (const Kind &kind : kinds) {
            if (message.find(kind.message) != 0) continue;
            size_t number = 0;
            for (std::sregex_iterator one(ranges.begin(), ranges.end(), range), end; one != end; ++one) {
                const std::string &function = kind.functions[std::min(number++, kind.functions.size() - 1)];
                const size_t from = lines.at(std::stoul((*one)[1])) + std::stoul((*one)[2]) - 1;
                const size_t to = lines.at(std::stoul((*one)[3])) + std::stoul((*one)[4]) - 1;
                const bool points = function == placed && text.compare(to, 2, "->") == 0;
                const bool can_be = !function.empty() && is_expression(text, from, to) && !is_reached(text, from);
                if (can_be) found.emplace(from, Part{to, points ? pointed : function});
            }
        }
    }
    std::string made;
    size_t at = 0;
    for (const auto &[from, part] : found) {
        if (from < at) continue;  // within another, and found again
        made += text.substr(at, from - at) + part.function + text.substr(from, part.to - from) + ")";
        at = part.to;
    }
    return made + text.substr(at);
}

}  // namespace msl
