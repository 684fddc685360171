#include "repairs.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <regex>
#include <sstream>
#include <vector>

#include "declarations.h"
#include "translate.h"

namespace msl {
namespace {

const std::string copied = "::softmetal::copied(", placed = "::softmetal::placed(", pointed = "::softmetal::placed_at(",
                  listed = "::softmetal::listed(", promoted = "::softmetal::promoted(";

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

// What the compiler says of a mistake: where its ranges are in the text, and what it says of candidates.
struct Message {
    std::string what, notes;
    std::vector<Range> ranges;
};

std::vector<size_t> starts_of_lines(const std::string &text) {
    std::vector<size_t> made = {0, 0};  // lines are numbered from 1
    for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos;) made.push_back(++at);
    return made;
}

std::vector<Message> messages_about(const std::string &text, const std::string &said) {
    static const std::regex error(std::string(program_source) + ":\\d+:\\d+:((?:\\{[^}]*\\})+): error: (.*)");
    static const std::regex range("\\{(\\d+):(\\d+)-(\\d+):(\\d+)\\}");
    const std::vector<size_t> lines = starts_of_lines(text);
    std::vector<Message> made;
    std::istringstream all(said);
    bool follows = false;
    for (std::string line; std::getline(all, line);) {
        std::smatch told;
        const bool is_note = line.find(": note: ") != std::string::npos;
        if (is_note && follows) made.back().notes += line + "\n";
        if (is_note) continue;
        follows = std::regex_match(line, told, error);
        if (!follows) continue;
        const std::string ranges = told[1];
        made.push_back({told[2], "", {}});
        for (std::sregex_iterator one(ranges.begin(), ranges.end(), range), end; one != end; ++one) {
            const auto at = [&](int i) { return lines.at(std::stoul((*one)[i])) + std::stoul((*one)[i + 1]) - 1; };
            made.back().ranges.push_back({at(1), at(3)});
        }
    }
    return made;
}

// At the end of what is in quotes, or of one character.  Within a number the sign separates digits.
size_t end_of_character(const std::string &text, size_t i) {
    const char sign = text[i];
    const bool separates = sign == '\'' && i && std::isalnum(static_cast<unsigned char>(text[i - 1]));
    if (separates || (sign != '\'' && sign != '"')) return i;
    while (++i < text.size() && text[i] != sign) i += text[i] == '\\';
    return i;
}

// After the bracket that closes the one at i, or at the end.
size_t after_group(const std::string &text, size_t i) {
    int depth = 0;
    for (; i < text.size(); ++i) {
        i = end_of_character(text, i);
        if (i >= text.size()) break;
        depth += text[i] == '(' || text[i] == '[' || text[i] == '{';
        depth -= text[i] == ')' || text[i] == ']' || text[i] == '}';
        if (!depth) return i + 1;
    }
    return text.size();
}

// And no list of several, whose commas stand in no bracket.
bool is_expression(const std::string &text, Range range) {
    for (size_t i = range.from; i < range.to; i = after_group(text, i)) {
        if (text[i] == ',') return false;
    }
    return !range.empty() && text[range.from] != '{';
}

// Whether one of the functions stands before it, or it is a call of one.
bool is_reached(const std::string &text, size_t from) {
    for (const std::string &function : {copied, placed, pointed, promoted}) {
        const size_t size = function.size();
        if (text.compare(from, size, function) == 0 || (from >= size && text.compare(from - size, size, function) == 0)) return true;
    }
    return false;
}

bool starts_with(const std::string &text, const std::string &start) { return text.compare(0, start.size(), start) == 0; }

// The text with what stands for its parts, by their starts.
class Repairs {
public:
    explicit Repairs(const std::string &text) : text(text) {}

    void follow(const Message &message) {
        if (message.ranges.empty()) return;
        if (starts_with(message.what, "no matching constructor for initialization of 'const __attribute__((address_space(2)))")) {
            refer_to_constant(message.ranges[0].from);
            return;
        }
        for (const Kind &kind : kinds) {
            if (starts_with(message.what, kind.message)) reach(message, kind);
        }
        if (starts_with(message.what, "no matching member function") && said(message, "'this' object is in address space")) {
            reach_member(message.ranges[0]);
        }
        const bool is_vector = said(message, "(vector of ") || said(message, "(aka 'native_vector<");
        if (starts_with(message.what, "no matching ") && is_vector && said(message, "cannot convert initializer list argument")) {
            name_lists(arguments(message));
        }
        if (starts_with(message.what, "call to '") && message.what.find("' is ambiguous") != std::string::npos) {
            promote(arguments(message));
        }
        if (starts_with(message.what, "excess elements in scalar initializer")) name_values(message.ranges[0].from);
        static const std::regex steps("cannot (in|de)crement .*(native_vector<|\\(vector of \\d+ ')(unsigned |signed )?(char|short|int|long).*");
        if (std::regex_match(message.what, steps)) step(message.ranges[0]);
    }

    std::string apply() const {
        std::string made;
        size_t at = 0;
        for (const auto &[from, part] : found) {
            if (from < at) continue;  // within another, and found again
            made += text.substr(at, from - at) + part.made;
            at = part.to;
        }
        return made + text.substr(at);
    }

private:
    struct Part {
        size_t to;
        std::string made;
    };
    const std::string &text;
    std::map<size_t, Part> found;

    static bool said(const Message &message, const char *what) { return message.notes.find(what) != std::string::npos; }

    std::string in(Range range) const { return text.substr(range.from, range.to - range.from); }

    void surround(Range range, const std::string &function) {
        if (is_expression(text, range) && !is_reached(text, range.from)) {
            found.emplace(range.from, Part{range.to, function + in(range) + ")"});
        }
    }

    void reach(const Message &message, const Kind &kind) {
        size_t number = 0;
        for (const Range range : message.ranges) {
            const std::string &function = kind.functions[std::min(number++, kind.functions.size() - 1)];
            const bool points = function == placed && text.compare(range.to, 2, "->") == 0;
            if (!function.empty()) surround(range, points ? pointed : function);
        }
    }

    // Of x.f or p->f, the object.
    void reach_member(Range callee) {
        const size_t dot = in(callee).rfind('.'), arrow = in(callee).rfind("->");
        const bool points = dot == std::string::npos || (arrow != std::string::npos && arrow > dot);
        const size_t size = points ? arrow : dot;
        if (size != std::string::npos) surround({callee.from, callee.from + size}, points ? pointed : placed);
    }

    // Those of a constructor are the range; those of a function follow its name.
    Range arguments(const Message &message) const {
        const Range range = message.ranges[0];
        if (starts_with(message.what, "no matching constructor")) return range;
        const size_t list = text.find_first_not_of(" \t\n", range.to);
        return list != std::string::npos && text[list] == '(' ? Range{list + 1, after_group(text, list) - 1} : Range{0, 0};
    }

    // The compiler makes no vector of a list in braces where it is an argument.
    void name_lists(Range arguments) {
        for (size_t i = arguments.from; i < arguments.to; i = after_group(text, i)) {
            if (text[i] != '{') continue;
            const size_t before = text.find_last_not_of(" \t\n", i - 1), after = after_group(text, i);
            const bool is_argument = text[before] == ',' || before < arguments.from;
            if (is_argument) found.emplace(i, Part{after, listed + in({i + 1, after - 1}) + ")"});
        }
    }

    // The compiler makes a bfloat of any number, so that functions of bfloats that the text adds may fit, too.
    void promote(Range arguments) {
        for (size_t from = arguments.from; from < arguments.to;) {
            size_t to = from;
            while (to < arguments.to && text[to] != ',') to = after_group(text, to);
            surround({from, to}, promoted);
            from = to + 1;
        }
    }

    // Nor of several values in parentheses: those around the place.
    void name_values(size_t place) {
        int depth = 0;
        size_t list = place;
        while (list && depth >= 0) {
            --list;
            depth += text[list] == ')' || text[list] == ']' || text[list] == '}';
            depth -= text[list] == '(' || text[list] == '[' || text[list] == '{';
        }
        if (text[list] != '(') return;
        const size_t end = after_group(text, list) - 1;
        found.emplace(list + 1, Part{end, listed + in({list + 1, end}) + ")"});
    }

    // The compiler adds 1 to no vector by ++, as Metal does to those of integers.
    void step(Range vector) {
        const size_t before = text.find_last_not_of(" \t\n", vector.from - 1), after = text.find_first_not_of(" \t\n", vector.to);
        const auto is_sign = [&](size_t at) { return text.compare(at, 2, "++") == 0 || text.compare(at, 2, "--") == 0; };
        const bool leads = is_sign(before - 1);
        if (!leads && !is_sign(after)) return;
        const Range whole = leads ? Range{before - 1, vector.to} : Range{vector.from, after + 2};
        found.emplace(whole.from, Part{whole.to, "(" + in(vector) + " " + text[leads ? before : after] + "= 1)"});
    }

    // The compiler makes no object in constant memory: it makes one elsewhere, to which a reference is as to one there.
    void refer_to_constant(size_t value) {
        const Tokens tokens = tokens_of(text);
        size_t space = 0;
        while (space < tokens.size() && tokens[space].at < value) ++space;
        while (space && !tokens[space].is("constant") && !tokens[space].is(";")) --space;
        if (!tokens[space].is("constant")) return;
        size_t start = space;
        bool is_static = false;
        for (; start && tokens[start - 1].kind == Token::word; --start) is_static |= tokens[start - 1].is("static");
        if (start && tokens[start - 1].is(">")) return;  // of a template
        std::string made = in({tokens[start].at, tokens[space].at}) + "const", references;
        size_t at = tokens[space].end(), i = space + 1;
        bool is_next = true;  // the name of an object, once its type is over
        for (; i + 1 < tokens.size() && !tokens[i].is(";"); ++i) {
            if (is_next && is_declared(tokens, i)) {
                const std::string called(tokens[i].text), object = "softmetal_object_of_" + called;
                made += in({at, tokens[i].at}) + object;
                references += (is_static ? " static" : "") + (" constexpr constant decltype(" + object + ") &" + called) +
                              " = ::softmetal::in_constant_memory<decltype(" + object + ")>::object;";
                at = tokens[i].end();
                is_next = false;
            } else if (tokens[i].is("(") || tokens[i].is("[") || tokens[i].is("{")) {
                i = last_of_group(tokens, i);
            } else {
                is_next |= tokens[i].is(",");
            }
        }
        made += in({at, tokens[i].end()}) + references;
        found.emplace(tokens[start].at, Part{tokens[i].end(), made});
    }
    static size_t last_of_group(const Tokens &tokens, size_t i) {
        int depth = 0;
        for (; i + 1 < tokens.size(); ++i) {
            depth += tokens[i].is("(") || tokens[i].is("[") || tokens[i].is("{");
            depth -= tokens[i].is(")") || tokens[i].is("]") || tokens[i].is("}");
            if (!depth) break;
        }
        return i;
    }
    static bool is_declared(const Tokens &tokens, size_t name) {
        const Token &after = tokens[name + 1];
        const bool initialized = after.is("=") || after.is("(") || after.is("{") || after.is("[");
        return tokens[name].kind == Token::word && initialized;
    }
};

}  // namespace

std::string repaired(const std::string &text, const std::string &messages) {
    Repairs repairs(text);
    for (const Message &message : messages_about(text, messages)) repairs.follow(message);
    return repairs.apply();
}

}  // namespace msl
