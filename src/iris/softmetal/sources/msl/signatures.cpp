#include "signatures.h"

#include <map>
#include <set>

namespace msl {
namespace {

class Reader {
public:
    Reader(const Tokens &tokens, Range whole, size_t end, const std::string &class_name)
        : tokens(tokens), whole(whole), end(end), class_name(class_name) {}

    Signature read() {
        size_t i = whole.from;
        while ((is(i, "public") || is(i, "private") || is(i, "protected")) && is(i + 1, ":")) i += 2;
        made.start = i;
        made.body_at = end;
        const size_t list = parameter_list(i);
        made.is_function = list < end;
        while (i < list) i = copy(i);
        if (list < end) {
            const bool constructor = is_constructor(list);
            if (!constructor && is_word(list - 1) && !is(list - 1, "operator")) made.name = list - 1;
            i = parameters(list);
            i = after_parameters(i, constructor);
        }
        // A constructor's initializers belong to what it does.
        if (!is(whole.to - 1, ";") || i < end) {
            for (; i < whole.to; ++i) body_token(i);
        }
        return std::move(made);
    }

private:
    const Tokens &tokens;
    const Range whole;
    const size_t end;
    const std::string &class_name;
    std::map<std::string, std::string, std::less<>> names;  // of parameters, to what they are called alike
    Signature made;

    bool is(size_t i, std::string_view text) const { return i < tokens.size() && tokens[i].is(text); }
    bool is_word(size_t i) const { return i < tokens.size() && tokens[i].kind == Token::word; }

    size_t after_group(size_t i) const {
        int depth = 0;
        for (; i < end; ++i) {
            if (is(i, "(") || is(i, "[") || is(i, "{")) ++depth;
            if ((is(i, ")") || is(i, "]") || is(i, "}")) && --depth == 0) return i + 1;
        }
        return end;
    }

    // The parenthesis that opens it, or the end.
    size_t parameter_list(size_t i) const {
        int angles = 0;
        for (; i < end; ++i) {
            if (is(i, "operator")) {
                ++i;
                if (is(i, "(")) ++i;
                while (i + 1 < end && !is(i + 1, "(")) ++i;
                return i + 1;
            }
            if (is(i, "=") && !angles) return end;
            if (opens_angles(tokens, i)) ++angles;
            if (is(i, ">") && !is(i - 1, "-")) --angles;
            if (is(i, "(") || is(i, "[")) {
                static const std::set<std::string_view> others = {"decltype", "alignas",  "__attribute__",
                                                                  "noexcept", "explicit", "__declspec"};
                const bool follows_name = i > whole.from && (is_word(i - 1) || is(i - 1, ">"));
                if (is(i, "(") && !angles && follows_name && !others.count(tokens[i - 1].text)) return i;
                i = after_group(i) - 1;
            }
        }
        return end;
    }

    bool is_constructor(size_t list) const {
        size_t name = list - 1;
        if (is(name, ">")) {
            while (name > whole.from && !is(name, "<")) --name;
            --name;
        }
        return is_word(name) && tokens[name].text == class_name;
    }

    void say(std::string_view text) {
        made.key += text;
        made.key += ' ';
    }
    void note_space(size_t i) { made.spaces += std::string(tokens[i].text) + ' '; }

    // A token of the key; an attribute is none.
    size_t copy(size_t i) {
        if (opens_attribute(tokens, i)) return after_group(i);
        if (is_address_space(tokens[i])) {
            note_space(i);
            if (is(i, "constant")) say("const");
        } else if (!is(i, "inline") && !is(i, "METAL_FUNC")) {
            say(tokens[i].text);
        }
        return i + 1;
    }

    size_t parameters(size_t list) {
        const size_t after = after_group(list);
        say("(");
        for (size_t i = list + 1; i + 1 < after;) {
            const size_t from = i;
            size_t to = 0;  // of what is the type and the name
            for (int angles = 0; i + 1 < after && (angles || !is(i, ",")); ++i) {
                if (opens_angles(tokens, i)) ++angles;
                if (is(i, ">") && !is(i - 1, "-")) --angles;
                if (is(i, "=") && !angles && !to) to = i;
                if (is(i, "(") || is(i, "[") || is(i, "{")) i = after_group(i) - 1;
            }
            made.parameters.emplace_back();
            if (to) made.parameters.back().default_value = {to, i};
            if (to) made.parameters.back().otherwise = joined(tokens, {to, i});
            parameter({from, to ? to : i});
            ++i;
        }
        say(")");
        return after;
    }

    // The type; "const" comes first in it, as often as the text may say so.
    void parameter(Range range) {
        const size_t name = name_of(range);
        Signature::Parameter &told = made.parameters.back();
        if (name < range.to) told.name = tokens[name].text;
        bool constant = false;
        std::string type;
        size_t i = range.from;
        for (; i < range.to && !is(i, "*") && !is(i, "&") && i != name; ++i) {
            if (opens_attribute(tokens, i)) {
                i = after_group(i) - 1;
            } else if (is_address_space(tokens[i])) {
                note_space(i);
                told.space = tokens[i].text;
                constant |= is(i, "constant");
            } else if (is(i, "const")) {
                constant = true;
            } else {
                type += std::string(tokens[i].text) + ' ';
            }
        }
        if (constant) say("const");
        made.key += type;
        told.reference = is(i, "&");
        while (i < range.to) {
            if (i == name) {
                names.emplace(tokens[i].text, "parameter " + std::to_string(names.size()));
                ++i;
            } else {
                i = copy(i);
            }
        }
        say(",");
    }

    // The last word that can be a name, or the end.
    size_t name_of(Range range) const {
        static const std::set<std::string_view> types = {"void", "bool",  "char", "short",  "int",    "long",
                                                         "half", "float", "uint", "ushort", "uchar",  "ulong",
                                                         "auto", "const", "signed", "unsigned", "bfloat"};
        size_t name = range.to;
        bool typed = false;
        for (size_t i = range.from; i < range.to; ++i) {
            if (opens_attribute(tokens, i)) {
                i = after_group(i) - 1;
            } else if (is(i, "[")) {
                break;
            } else if (is(i, "<")) {
                for (int angles = 0; i < range.to; ++i) {
                    if (opens_angles(tokens, i)) ++angles;
                    if (is(i, ">") && --angles == 0) break;
                }
                name = range.to;
                typed = true;
            } else if (is(i, "*") || is(i, "&") || is(i, ":")) {
                name = range.to;
            } else if (is_word(i) && !is_address_space(tokens[i]) && !is(i, "volatile") && !is(i, "typename")) {
                const bool type = types.count(tokens[i].text);
                name = typed && !type && !is(i - 1, ":") ? i : range.to;
                typed = true;
            }
        }
        return name;
    }

    // What `this` is, and is in.
    size_t after_parameters(size_t i, bool constructor) {
        bool constant = false;
        made.spaces_before_this = made.spaces;
        for (; i < end; ++i) {
            if (is_address_space(tokens[i])) {
                note_space(i);
                made.this_space = tokens[i].text;
                const bool says_const = is(i, "constant") && !constructor && !constant;
                made.of_this.push_back({{i, i + 1}, says_const ? "const" : ""});
                constant |= says_const;
            } else if (is(i, "const")) {
                constant = true;
            } else if (!is(i, "volatile") && !is(i, "noexcept") && !is(i, "&")) {
                break;
            }
        }
        if (constant) say("const");
        return i;
    }

    void body_token(size_t i) {
        if (is_address_space(tokens[i]) || is(i, "const")) return;
        const auto name = is_word(i) ? names.find(tokens[i].text) : names.end();
        made.body += name == names.end() ? tokens[i].text : name->second;
        made.body += ' ';
    }
};

// Where an address shows a thing to be: in the threadgroup's memory, on a thread's stack, or elsewhere.
char shown_by_address(const std::string &space) {
    return space == "threadgroup" ? 't' : space == "device" || space == "constant" ? 'd' : 's';
}

struct TemplateParameters {
    std::string arguments;  // "<T, N>": what has a name, given again
    std::vector<Range> defaults;
};

TemplateParameters template_parameters(const Tokens &tokens, size_t start) {
    TemplateParameters made;
    if (!tokens[start].is("template")) return made;
    int depth = 1;
    bool in_default = false;
    for (size_t i = start + 2; depth && i < tokens.size(); ++i) {
        const bool ends = depth == 1 && (tokens[i].is(",") || tokens[i].is(">"));
        if (depth == 1 && (ends || tokens[i].is("=")) && !in_default) {
            const Token &name = tokens[i - 1];
            const bool pack = tokens[i - 2].is(".");
            const bool named = tokens[i - 2].kind == Token::word && !name.is("typename") && !name.is("class");
            if (name.kind == Token::word && (named || pack)) {
                made.arguments += (made.arguments.empty() ? "" : ", ") + std::string(name.text) + (pack ? "..." : "");
            }
        }
        if (depth == 1 && tokens[i].is("=")) made.defaults.push_back({i, i + 1});
        in_default = (in_default || tokens[i].is("=")) && !ends;
        if (in_default) made.defaults.back().to = i + 1;
        if (opens_angles(tokens, i) || tokens[i].is("(")) ++depth;
        if (tokens[i].is(">") || tokens[i].is(")")) --depth;
    }
    if (!made.arguments.empty()) made.arguments = "<" + made.arguments + ">";
    return made;
}

// Without its body, as it is declared before the first one.
std::string prototype(const Tokens &tokens, const Signature &of, const std::string &name) {
    std::string made;
    for (size_t i = of.start; i < of.body_at; ++i) {
        for (const Signature::Parameter &one : of.parameters) {
            if (!one.default_value.empty() && i == one.default_value.from) i = one.default_value.to;
        }
        made += i == of.name ? name : std::string(tokens[i].text);
        if (!tokens[i].is(":") && !tokens[i].is("-")) made += ' ';
    }
    return made + "; ";
}

}  // namespace

std::vector<Replacement> forwarding(const Tokens &tokens, const Signature &first, const Signature &second,
                                    bool in_class, unsigned number) {
    const Token &told = tokens[second.start];
    std::string address, arguments;
    char where = shown_by_address(second.this_space);
    if (where != shown_by_address(first.this_space)) address = "this";
    for (size_t i = 0; i < first.parameters.size(); ++i) {
        const Signature::Parameter &mine = first.parameters[i], &its = second.parameters[i];
        if (mine.otherwise != its.otherwise) {
            throw Mistake(told, "overloads for address spaces need the same default arguments in softmetal");
        }
        arguments += (i ? ", " : "") + mine.name;
        if (address.empty() && !mine.name.empty() && shown_by_address(mine.space) != shown_by_address(its.space)) {
            address = (mine.reference ? "&" : "") + mine.name;
            where = shown_by_address(its.space);
        }
        if (mine.name.empty()) address = "";
    }
    if (address.empty() || first.name == Signature::no_name) {
        throw Mistake(told, "softmetal cannot tell these overloads apart, which do different things by address space");
    }
    const std::string own(tokens[first.name].text), name = "softmetal_overload_" + std::to_string(number) + "_" + own;
    std::vector<Replacement> made = {{{second.name, second.name + 1}, name}};
    made.push_back({{first.body_at + 1, first.body_at + 1},
                    " if (softmetal::lies_in<'" + std::string(1, where) + "'>(" + address + ")) return " + name +
                        template_parameters(tokens, first.start).arguments + "(" + arguments + "); "});
    if (in_class) return made;
    made.push_back({{first.start, first.start}, prototype(tokens, second, name)});
    // What the declaration says already, or the first overload.
    for (Range one : template_parameters(tokens, second.start).defaults) made.push_back({one, ""});
    for (const Signature::Parameter &one : second.parameters) {
        if (!one.default_value.empty()) made.push_back({one.default_value, ""});
    }
    return made;
}

Signature signature_of(const Tokens &tokens, Range whole, size_t end, const std::string &class_name) {
    return Reader(tokens, whole, end, class_name).read();
}

}  // namespace msl
