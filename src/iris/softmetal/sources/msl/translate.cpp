#include "translate.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "declarations.h"
#include "rules.h"

namespace msl {

const char program_source[] = "program_source";

namespace {

// Replacements in a text, which keep its lines.
class Edits {
public:
    explicit Edits(const std::string &text) : text(text) {}

    void replace(size_t from, size_t to, std::string with) { all.push_back({from, to, std::move(with)}); }

    std::string apply() {
        std::stable_sort(all.begin(), all.end(), [](const Edit &a, const Edit &b) { return a.from < b.from; });
        std::string made;
        size_t at = 0;
        for (const Edit &edit : all) {
            if (edit.from < at) continue;  // in what another leaves out
            made.append(text, at, edit.from - at);
            made += edit.with;
            made.append(size_t(std::count(text.begin() + edit.from, text.begin() + edit.to, '\n')), '\n');
            at = edit.to;
        }
        return made + text.substr(at);
    }

private:
    struct Edit {
        size_t from, to;
        std::string with;
    };
    const std::string &text;
    std::vector<Edit> all;
};

const std::set<std::string> values_of_a_thread = {
    "thread_position_in_grid",
    "threads_per_grid",
    "thread_position_in_threadgroup",
    "threads_per_threadgroup",
    "dispatch_threads_per_threadgroup",
    "threadgroup_position_in_grid",
    "threadgroups_per_grid",
    "grid_origin",
    "thread_index_in_threadgroup",
    "thread_index_in_simdgroup",
    "simdgroup_index_in_threadgroup",
    "simdgroups_per_threadgroup",
    "dispatch_simdgroups_per_threadgroup",
    "threads_per_simdgroup",
    "thread_execution_width",
    "thread_index_in_quadgroup",
    "quadgroup_index_in_threadgroup",
    "quadgroups_per_threadgroup",
    "dispatch_quadgroups_per_threadgroup",
};

// The text's own names may be those of the machine, which its headers use: they are longer here.
bool is_like_the_machines(std::string_view name) {
    return name.substr(0, 9) == "softmetal" || name.substr(0, 9) == "SOFTMETAL";
}

std::string own(const std::string &name) {
    if (!is_like_the_machines(name)) return name;
    size_t end = 0;
    while (end < name.size() && (std::isalnum((unsigned char)name[end]) || name[end] == '_')) ++end;
    return name.substr(0, end) + "_of_the_text" + name.substr(end);
}

void rename_own(const Tokens &tokens, Edits &edits) {
    for (const Token &token : tokens) {
        if (token.kind != Token::word || !is_like_the_machines(token.text)) continue;
        edits.replace(token.at, token.end(), own(std::string(token.text)));
    }
}

// Functions of strict/metal_stdlib.
const char text_in_quotes[] = "::softmetal::literal(";
const char made_by_function[] = "::metal::make_";
const char converted_by_function[] = "::softmetal::converted";
const char constructed_by_function[] = "::softmetal::constructed";
const char cast_by_operator[] = "::softmetal::cast_to";

std::string quoted(const std::string &text) { return '"' + text + '"'; }

std::string at_line(size_t line) { return "#line " + std::to_string(line) + " " + quoted(program_source) + "\n"; }

// C++ has two of the suffixes not, and takes what has none for a double.
void rewrite_literals(const Tokens &tokens, Edits &edits, const std::string &before = "") {
    for (const Token &token : tokens) {
        if (token.kind != Token::number) continue;
        const std::string text(token.text);
        const bool hexadecimal = text.compare(0, 2, "0x") == 0 || text.compare(0, 2, "0X") == 0;
        const bool whole = !is_fraction(text);
        const char last = text.back();
        if (!whole && (std::isdigit((unsigned char)last) || last == '.')) {
            edits.replace(token.end(), token.end(), "f");
            continue;
        }
        if (hexadecimal) continue;
        for (auto [suffix, type] : {std::pair("bf", "bfloat"), {"BF", "bfloat"}, {"H", "half"}}) {
            const std::string_view end(suffix);
            if (text.size() <= end.size()) continue;
            const std::string digits = text.substr(0, text.size() - end.size());
            if (digits + suffix != text) continue;
            edits.replace(token.at, token.end(), before + type + "(" + digits + (whole ? ".0f)" : "f)"));
        }
    }
}

bool names_scalar(std::string_view word) {
    static const std::set<std::string_view> scalars = {"bool", "char",  "uchar", "short", "ushort", "int",
                                                       "uint", "long",  "ulong", "half",  "float",  "bfloat"};
    return scalars.count(word);
}

bool names_vector(std::string_view word) {
    return word.size() > 1 && word.back() >= '2' && word.back() <= '4' && names_scalar(word.substr(0, word.size() - 1));
}

// After the bracket that closes the one at i, or at the end.
size_t after_group(const Tokens &tokens, size_t i) {
    int depth = 0;
    for (; i < tokens.size(); ++i) {
        depth += tokens[i].is("(") || tokens[i].is("[") || tokens[i].is("{");
        depth -= tokens[i].is(")") || tokens[i].is("]") || tokens[i].is("}");
        if (!depth) return i + 1;
    }
    return i;
}

// Whether a template's list of parameters names a type by the token after this one.
bool is_type_parameter(const Tokens &tokens, size_t i) {
    if (!(tokens[i].is("typename") || tokens[i].is("class")) || !(tokens[i - 1].is("<") || tokens[i - 1].is(","))) return false;
    return tokens[i + 2].is(",") || tokens[i + 2].is(">") || tokens[i + 2].is("=");
}

// Types that are vectors, or may be: Metal's, names of them, and parameters of templates.
class Vectors {
public:
    explicit Vectors(const Tokens &tokens) : tokens(tokens) {
        for (size_t i = 1; i + 3 < tokens.size(); ++i) {
            if (is_type_parameter(tokens, i)) names.insert(tokens[i + 1].text);
            const bool equals = tokens[i].is("using") && tokens[i + 2].is("=");
            const size_t end = equals ? after_type(i + 3) : tokens[i].is("typedef") ? after_type(i + 1) : 0;
            if (end && end + 1 < tokens.size() && tokens[equals ? end : end + 1].is(";")) {
                names.insert(tokens[equals ? i + 1 : end].text);
            }
        }
    }

    bool is_spelt_out(size_t i) const {
        return is_packed(tokens[i].text) || is_template(i);
    }

    // 0 if at i starts none.
    size_t after_type(size_t i) const {
        if (i + 3 < tokens.size() && tokens[i].is("metal") && tokens[i + 1].is(":")) i += 3;
        if (i >= tokens.size() || tokens[i].kind != Token::word) return 0;
        if (is_template(i)) {
            while (i < tokens.size() && !tokens[i].is(">") && !tokens[i].is(";")) ++i;
            return i + 1;
        }
        const std::string_view word = tokens[i].text;
        return names_vector(word) || is_packed(word) || word == "bfloat" || names.count(word) ? i + 1 : 0;
    }

private:
    const Tokens &tokens;
    std::set<std::string_view> names;

    bool is_template(size_t i) const {
        return (tokens[i].is("vec") || tokens[i].is("bool_vector")) && i + 1 < tokens.size() && tokens[i + 1].is("<");
    }
    static bool is_packed(std::string_view word) {
        const std::string_view before = "packed_";
        return word.substr(0, before.size()) == before && names_vector(word.substr(before.size()));
    }
};

// Of metal::vec<float, 2>, say.
size_t start_of_name(const Tokens &tokens, size_t i) {
    while (i >= 2 && tokens[i - 1].is(":") && tokens[i - 2].is(":")) {
        i -= 2;
        const bool is_qualified = i && tokens[i - 1].kind == Token::word && tokens[i - 1].end() == tokens[i].at;
        if (is_qualified) --i;
    }
    return i;
}

// The compiler's own vectors have no constructors, and its small floats are made of others unasked.
void rewrite_constructors(const Tokens &tokens, const Vectors &vectors, Edits &edits) {
    for (size_t i = 0; i + 1 < tokens.size(); ++i) {
        if (tokens[i].kind != Token::word || (i && tokens[i - 1].is("operator"))) continue;
        const bool makes = names_vector(tokens[i].text) || tokens[i].is("bfloat") || tokens[i].is("half");
        if (makes && tokens[i + 1].is("(")) {
            const bool qualified = i && tokens[i - 1].is(":");
            edits.replace(tokens[i].at, tokens[i].at, qualified ? "make_" : made_by_function);
        } else if (vectors.is_spelt_out(i)) {
            const size_t end = vectors.after_type(i), from = start_of_name(tokens, i);
            if (!tokens[end].is("(")) continue;
            const std::string type = joined(tokens, {from, end});
            edits.replace(tokens[from].at, tokens[end - 1].end(), constructed_by_function + ("<" + type + ">"));
        }
    }
}

// Of a declarator's parentheses, which hold parameters of a function otherwise.
bool holds_values(const Tokens &tokens, const Vectors &vectors, size_t i) {
    const Token &first = tokens[i], &second = tokens[i + 1];
    if (first.is(")") || is_address_space(first) || first.is("const") || first.is("volatile")) return false;
    const bool is_type = names_scalar(first.text) || vectors.after_type(i);
    return is_type ? second.is("(") || second.is("<") : first.kind != Token::word || second.kind != Token::word;
}

// Types by names of the text, but for pointers: parameters of templates, and names of others.
std::set<std::string_view> other_types(const Tokens &tokens) {
    std::set<std::string_view> made;
    for (size_t i = 1; i + 2 < tokens.size(); ++i) {
        if (is_type_parameter(tokens, i)) made.insert(tokens[i + 1].text);
        const bool equals = tokens[i].is("using") && tokens[i + 2].is("=");
        if (!equals && !tokens[i].is("typedef")) continue;
        bool points = false;
        size_t end = i;
        for (; end + 1 < tokens.size() && !tokens[end].is(";") && !tokens[end].is("{"); ++end) {
            points |= tokens[end].is("*") || tokens[end].is("&");
        }
        if (!points && tokens[end].is(";")) made.insert(tokens[equals ? i + 1 : end - 1].text);
    }
    return made;
}

// Finds T(x) that makes a value.  It does in an expression, but not where a declaration can start, a type is named or
// the parentheses hold types or a declarator.
class Constructions {
public:
    explicit Constructions(const Tokens &tokens) : types(other_types(tokens)) {
        for (const Token &token : tokens) {
            if (token.kind != Token::directive) all.push_back(token);
        }
    }

    // The names of their types.
    Tokens find() {
        Tokens made;
        for (size_t i = 0; i < all.size(); ++i) {
            follow(i);
            if (names_type(i) && is(i + 1, "(") && is_in_expression(i) && holds_values(i + 2)) made.push_back(all[i]);
        }
        return made;
    }

private:
    Tokens all;
    const std::set<std::string_view> types;
    struct Bracket {
        size_t at;
        bool chooses;  // a ? came, and no end of its statement
    };
    std::vector<Bracket> open = {{size_t(-1), false}};  // the first is the text

    bool is(size_t i, std::string_view text) const { return i < all.size() && all[i].is(text); }
    bool is_word(size_t i) const { return i < all.size() && all[i].kind == Token::word; }
    bool opens(size_t i) const { return is(i, "(") || is(i, "[") || is(i, "{"); }
    bool closes(size_t i) const { return is(i, ")") || is(i, "]") || is(i, "}"); }
    bool names_type(size_t i) const { return is_word(i) && types.count(all[i].text); }

    void follow(size_t i) {
        if (opens(i)) open.push_back({i, false});
        if (closes(i) && open.size() > 1) open.pop_back();
        if (is(i, "?")) open.back().chooses = true;
        if (is(i, ";")) open.back().chooses = false;
    }

    // Where the group of token i goes no further, or its statement ends.
    size_t end_of_statement(size_t i) const {
        for (int depth = 0; i < all.size(); ++i) {
            if (!depth && (is(i, ";") || closes(i))) return i;
            depth += opens(i) - closes(i);
        }
        return i;
    }

    // What starts as a declaration does is one.  Braces without a semicolon are a list.
    bool starts_statement(size_t i) const {
        const size_t outer = open.back().at;
        if (is(outer, "(")) return outer + 1 == i && outer && is(outer - 1, "for");
        return (is(i - 1, ";") || is(i - 1, "{") || is(i - 1, "}")) && is(end_of_statement(i), ";");
    }

    bool is_in_expression(size_t i) const {
        if (!i || starts_statement(i)) return false;
        // What follows a type is a name, or part of one.
        if (is_word(i - 1)) return is(i - 1, "return") || is(i - 1, "else");
        if (is(i - 1, ":")) return !is(i - 2, ":") && open.back().chooses;
        const bool is_member = is(i - 1, ".") || is(i - 1, "~") || (is(i - 1, ">") && is(i - 2, "-"));
        const bool is_alias = is(i - 1, "=") && i > 2 && is(i - 3, "using");
        return !is_member && !is_alias;
    }

    bool holds_values(size_t i) const {
        if (is(i, ")")) return false;  // nothing is converted
        if (is(i, "&") || is(i, "*")) {
            const size_t after = end_of_statement(i) + 1;
            return !is(after, "(") && !is(after, "[");
        }
        if (is(i, "const") || is(i, "volatile") || is(i, "typename") || is_address_space(all[i])) return false;
        const bool is_type = names_type(i) || names_scalar(all[i].text) || names_vector(all[i].text);
        return !is_type || is(i + 1, "(") || is(i + 1, "{") || is(i + 1, ":") || is(i + 1, "<");
    }
};

// A number that the text asks for shows in the code as one that it does not: functions make these.
void rewrite_conversions(const Tokens &tokens, Edits &edits) {
    for (size_t i = 0; i + 3 < tokens.size(); ++i) {
        if (!tokens[i].is("static_cast") || tokens[i + 2].kind != Token::word || !tokens[i + 3].is(">")) continue;
        edits.replace(tokens[i].at, tokens[i].end(), converted_by_function);
    }
    for (const Token &type : Constructions(tokens).find()) {
        edits.replace(type.at, type.end(), constructed_by_function + ("<" + std::string(type.text) + ">"));
    }
}

bool is_operand(const Token &token) {
    static const std::set<std::string_view> others = {"const", "volatile", "noexcept", "override"};
    const bool word = token.kind == Token::word && !others.count(token.text) && !is_address_space(token);
    return word || token.kind == Token::number || token.is("(") || token.is("-") || token.is("*") || token.is("~") || token.is("!");
}

// (T)x, whose operand ends where that of a cast does: the operator binds less than all that a cast binds less than.
void rewrite_casts(const Tokens &tokens, const Vectors &vectors, Edits &edits) {
    for (size_t i = 1; i + 2 < tokens.size(); ++i) {
        if (!tokens[i].is("(")) continue;
        const size_t end = vectors.after_type(i + 1);
        if (!end || !tokens[end].is(")") || end + 1 >= tokens.size() || !is_operand(tokens[end + 1])) continue;
        const Token &before = tokens[i - 1];
        const bool called = before.kind == Token::word && !before.is("return") && !before.is("else") && !before.is("case");
        if (called || before.is(")") || before.is("]") || before.kind == Token::directive) continue;
        edits.replace(tokens[i].at, tokens[end].end(),
                      cast_by_operator + ("<" + joined(tokens, {i + 1, end}) + ">()->*"));
    }
}

// T x(1, 2), of which C++ makes no vector.
void rewrite_declarators(const Tokens &tokens, const Vectors &vectors, Edits &edits) {
    for (size_t i = 1; i + 2 < tokens.size(); ++i) {
        if (tokens[i - 1].is(".") || tokens[i - 1].is("<") || tokens[i - 1].is("(")) {
            if (!(tokens[i - 1].is("(") && i > 1 && tokens[i - 2].is("for"))) continue;
        }
        size_t name = vectors.after_type(i);
        const std::string type = name ? joined(tokens, {i, name}) : "";
        while (name && name + 2 < tokens.size() && tokens[name].kind == Token::word && tokens[name + 1].is("(")) {
            const size_t after = after_group(tokens, name + 1);
            const bool ends = after < tokens.size() && (tokens[after].is(";") || tokens[after].is(","));
            if (!ends || tokens[name].is("operator") || !holds_values(tokens, vectors, name + 2)) break;
            edits.replace(tokens[name + 1].at, tokens[name + 1].end(),
                          " = " + std::string(constructed_by_function) + "<" + type + ">(");
            name = tokens[after].is(",") ? after + 1 : 0;
        }
    }
}

// Vectors of truths are a class of their own.
std::string with_vectors_of_truths(const std::string &source) {
    const Tokens tokens = tokens_of(source);
    Edits edits(source);
    for (size_t i = 0; i + 3 < tokens.size(); ++i) {
        if (!tokens[i].is("vec") || !tokens[i + 1].is("<") || !tokens[i + 2].is("bool") || !tokens[i + 3].is(",")) continue;
        edits.replace(tokens[i].at, tokens[i + 3].end(), "bool_vector<");
    }
    return edits.apply();
}

// A text in quotes is in constant memory, but for one that an array is made of, or that is said to the compiler.
void rewrite_texts(const Tokens &tokens, Edits &edits) {
    bool makes_array = false;
    for (size_t i = 0; i + 1 < tokens.size(); ++i) {
        if (tokens[i].is("static_assert") || tokens[i].is("__attribute__")) {
            i = after_group(tokens, i + 1) - 1;
            continue;
        }
        if (tokens[i].is(";")) makes_array = false;
        makes_array |= tokens[i].is("char") && tokens[i + 1].kind == Token::word && i + 2 < tokens.size() && tokens[i + 2].is("[");
        const bool quoted = tokens[i].kind == Token::string && tokens[i].text[0] == '"';
        if (!quoted || makes_array || !i || tokens[i - 1].is("extern") || tokens[i - 1].is("operator")) continue;
        const size_t from = i;
        while (i + 1 < tokens.size() && tokens[i + 1].kind == Token::string) ++i;
        edits.replace(tokens[from].at, tokens[from].at, text_in_quotes);
        edits.replace(tokens[i].end(), tokens[i].end(), ")");
    }
}

// Of an array in an address space, as a parameter: it is a pointer.
void rewrite_arrays(const Tokens &tokens, Edits &edits) {
    for (size_t i = 2; i + 1 < tokens.size(); ++i) {
        if (tokens[i].kind != Token::word || !tokens[i + 1].is("[") || opens_attribute(tokens, i + 1)) continue;
        const size_t after = after_group(tokens, i + 1);
        if (after >= tokens.size() || !(tokens[after].is(",") || tokens[after].is(")"))) continue;
        size_t from = i - 1;
        bool in_space = false;
        for (; from && (tokens[from].kind == Token::word || tokens[from].is(":")); --from) {
            in_space |= is_address_space(tokens[from]);
        }
        if (!in_space || !(tokens[from].is("(") || tokens[from].is(","))) continue;
        edits.replace(tokens[i].at, tokens[i].at, "*");
        edits.replace(tokens[i + 1].at, tokens[after - 1].end(), "");
    }
}

bool compares(const Tokens &tokens, size_t i) {
    const auto joins = [&](size_t j, const char *text) {
        return tokens[j].is(text) && tokens[j].end() == tokens[j + 1].at;
    };
    const auto in_list = [&](size_t j) {
        const bool joins_types = tokens[j].is(",") || tokens[j].is(":") || tokens[j].is("*");
        return tokens[j].kind == Token::word || tokens[j].kind == Token::number || joins_types;
    };
    if (tokens[i].is("=")) return (joins(i, "=") && tokens[i + 1].is("=")) || joins(i - 1, "!");
    if (!tokens[i].is("<") && !tokens[i].is(">")) return false;
    // f<int, 4>(x), A<int *> y; not a < b >> c
    size_t from = i, to = i;
    while (tokens[i].is(">") && from > 1 && in_list(from - 1)) --from;
    while (tokens[i].is("<") && to + 2 < tokens.size() && in_list(to + 1)) ++to;
    if (tokens[from - 1].is("<")) return false;
    if (tokens[to + 1].is(">") && !tokens[to + 2].is(">")) return false;
    const bool shifts = (joins(i, "<") || joins(i, ">")) && tokens[i + 1].is(tokens[i].text);
    return !shifts && !joins(i - 1, "-") && !joins(i - 1, "<") && !joins(i - 1, ">");
}

// A group in parentheses that is a comparison: the compiler's own vectors need to hear that it is one of truths.
// A list of arguments, of a template's, too, is none.
void rewrite_comparisons(const Tokens &tokens, Edits &edits) {
    struct Group {
        size_t start;
        bool compares, lists;
    };
    std::vector<Group> open;
    for (size_t i = 1; i + 1 < tokens.size(); ++i) {
        if (tokens[i].is("(") || tokens[i].is("[") || tokens[i].is("{")) {
            open.push_back({i, false, !tokens[i].is("(")});
        } else if ((tokens[i].is(")") || tokens[i].is("]") || tokens[i].is("}")) && !open.empty()) {
            const Group group = open.back();
            open.pop_back();
            if (group.lists || !group.compares) continue;
            edits.replace(tokens[group.start].end(), tokens[group.start].end(), "softmetal::truth(");
            edits.replace(tokens[i].at, tokens[i].at, ")");
        } else if (!open.empty()) {
            Group &group = open.back();
            const bool ends_a_cast = tokens[i].is("*") && tokens[i + 1].is(")");
            group.lists |= tokens[i].is(",") || tokens[i].is(";") || tokens[i].is("?") || ends_a_cast ||
                           tokens[i].kind == Token::directive;
            group.compares |= compares(tokens, i);
        }
    }
}

// "threadgroup" is a macro, which must not be expanded in an attribute.
void drop_attributes(const Tokens &tokens, Edits &edits) {
    for (size_t i = 0; i + 2 < tokens.size(); ++i) {
        if (!opens_attribute(tokens, i) || tokens[i + 2].kind != Token::word) continue;
        size_t last = i + 2;
        for (int depth = 0; last < tokens.size() && (depth || !tokens[last].is("]")); ++last) {
            if (tokens[last].is("(")) ++depth;
            if (tokens[last].is(")")) --depth;
        }
        if (last + 1 >= tokens.size() || !tokens[last + 1].is("]")) continue;  // a lambda as an index
        const size_t from = tokens[i].at, to = tokens[last + 1].end();
        edits.replace(from, to, std::string(to - from, ' '));
        i = last + 1;
    }
}

std::string type_of(const ThreadgroupVariable::Declarator &variable) { return "softmetal_type_of_" + own(variable.name); }

void rewrite_variables(const Tokens &tokens, const Declarations &found, Edits &edits) {
    for (const Kernel &kernel : found.kernels) {
        if (kernel.variables.empty()) continue;
        const size_t start = tokens[kernel.body].end();
        std::string names;
        unsigned number = 0;
        for (const ThreadgroupVariable &variable : kernel.variables) {
            std::string made;
            for (const auto &one : variable.declarators) {
                const std::string type = type_of(one);
                names += quoted(one.name) + ", ";
                made += "typedef " + variable.type + " " + type + one.dimensions + "; auto &" + own(one.name) +
                        " = softmetal::threadgroup_variable<softmetal_body, " + type + ", " +
                        std::to_string(number++) + ">();";
            }
            edits.replace(tokens[variable.statement.from].at, tokens[variable.statement.to - 1].end(), made);
        }
        edits.replace(start, start,
                      " struct softmetal_body { static const char *variable_name(unsigned i) { "
                      "const char *const names[] = {" + names + "}; return names[i]; } }; "
                      "if (softmetal::only_asked<softmetal_body>()) return;");
    }
}

// Such a variable may not be automatic, and no constructor runs for it: it is somewhere.
void refer_to_variables(const Tokens &tokens, const Declarations &found, Edits &edits) {
    for (const Kernel &kernel : found.kernels) {
        for (const ThreadgroupVariable &variable : kernel.variables) {
            std::string made;
            for (const auto &one : variable.declarators) {
                const std::string type = type_of(one);
                made += "typedef " + variable.type + " " + type + one.dimensions + "; threadgroup " + type + " &" +
                        own(one.name) + " = *softmetal::somewhere<" + type + ">(); ";
            }
            edits.replace(tokens[variable.statement.from].at, tokens[variable.statement.to - 1].end(), made);
        }
    }
}

void rewrite_constants(const Tokens &tokens, const Declarations &found, const ConstantValues &values,
                       Edits &edits) {
    for (const FunctionConstant &constant : found.constants) {
        const auto value = values.find(constant.name);
        const bool given = value != values.end();
        const std::string made = " = " + constant.type + "(" + (given ? value->second : "0") + ")";
        edits.replace(tokens[constant.attribute.from].at, tokens[constant.attribute.to - 1].end(), made);
        const size_t after = tokens[constant.semicolon].end();
        edits.replace(after, after,
                      " constexpr bool softmetal_given_" + own(constant.name) + " = " + (given ? "true;" : "false;"));
    }
}

// An instance is made by its entry in the table.
void drop_instances(const Tokens &tokens, const Declarations &found, Edits &edits) {
    for (const Kernel &kernel : found.kernels) {
        if (!kernel.is_instance) continue;
        edits.replace(tokens[kernel.statement.from].at, tokens[kernel.statement.to - 1].end(), "");
    }
}

// C++ makes none by the name of its type, as Metal does: it is made by its use, as what the text says it is.
void use_instances(const Tokens &tokens, const Declarations &found, Edits &edits) {
    unsigned number = 0;
    for (const Kernel &kernel : found.kernels) {
        if (!kernel.is_instance) continue;
        const Range whole = kernel.statement;
        const std::string name = "softmetal_instance_" + std::to_string(number++);
        std::string declared = "auto *" + name;
        if (tokens[whole.to - 2].is(")")) {
            declared = "void (*" + name + ")";
            size_t list = whole.from;
            while (list < whole.to && !(tokens[list].is("(") && after_group(tokens, list) == whole.to - 1)) ++list;
            for (size_t i = list; i < whole.to - 1; ++i) {
                if (opens_attribute(tokens, i)) i = after_group(tokens, i);
                declared += std::string(tokens[i].text) + (tokens[i].is(":") ? "" : " ");
            }
        }
        edits.replace(tokens[whole.from].at, tokens[whole.to - 1].end(), declared + " = &" + own(kernel.name) + ";");
    }
}

void replace_all(const Tokens &tokens, const std::vector<Replacement> &all, Edits &edits) {
    for (const Replacement &one : all) {
        const size_t from = tokens[one.tokens.from].at;
        edits.replace(from, one.tokens.empty() ? from : tokens[one.tokens.to - 1].end(), one.text);
    }
}

// What a pipeline gives is no constant of the text.
void give_constants(const Tokens &tokens, const Declarations &found, Edits &edits) {
    for (const FunctionConstant &constant : found.constants) {
        for (size_t i = constant.words.from; i < constant.words.to; ++i) {
            if (tokens[i].is("constexpr")) edits.replace(tokens[i].at, tokens[i].end(), "");
        }
        edits.replace(tokens[constant.attribute.from].at, tokens[constant.attribute.to - 1].end(),
                      " = ::softmetal::given()");
    }
}

// What is bound is a pointer, or a reference, to memory of its kind: the compiler knows what names of types stand for.
// It is asked at the end of the kernel, in lines that are the parameters'.
void check_bound(const Tokens &tokens, const Declarations &found, Edits &edits) {
    for (const Kernel &kernel : found.kernels) {
        std::string made;
        for (const Parameter &parameter : kernel.parameters) {
            if (parameter.type.empty()) continue;  // it has no name
            for (const Attribute &one : parameter.attributes) {
                const bool is_buffer = one.name == "buffer";
                if (!is_buffer && one.name != "threadgroup") continue;
                made += "\n" + at_line(tokens[parameter.token].line) +
                        "static_assert(::softmetal::refers_to<metal::remove_cv_t<decltype(" + own(parameter.name) +
                        ")>>::" + (is_buffer ? "a_buffer" : "threadgroup_memory") + ", \"'" + one.name +
                        "' attribute only applies to pointers and references in " +
                        (is_buffer ? "the device or constant" : "the threadgroup") + " address space\");";
            }
        }
        if (made.empty()) continue;
        const Token &last = tokens[kernel.statement.to - 1];
        edits.replace(last.at, last.at, made + "\n" + at_line(last.line));
    }
}

struct Source {
    std::string type;    // of softmetal_kernel
    std::string active;  // an expression
};

// Where the arguments of a kernel come from.
std::vector<Source> sources(const Tokens &tokens, const Kernel &kernel) {
    std::vector<Source> made;
    unsigned next_buffer = 0, next_threadgroup = 0;
    for (const Parameter &parameter : kernel.parameters) {
        Source one = {"", "true"};
        for (const Attribute &a : parameter.attributes) {
            if (a.name == "buffer") {
                one.type = "buffer<" + a.argument + ">";
                next_buffer = unsigned(std::atoi(a.argument.c_str())) + 1;
            } else if (a.name == "threadgroup") {
                one.type = "dynamic_threadgroup<" + a.argument + ">";
                next_threadgroup = unsigned(std::atoi(a.argument.c_str())) + 1;
            } else if (a.name == "function_constant") {
                one.active = "bool(" + a.argument + ")";
            } else if (values_of_a_thread.count(a.name)) {
                one.type = a.name;
            } else if (a.name == "texture" || a.name == "sampler" || a.name == "stage_in" ||
                       a.name == "payload" || a.name == "imageblock_data") {
                throw Mistake(tokens[parameter.token], "softmetal has no [[" + a.name + "]] arguments");
            }
        }
        if (one.type.empty() && parameter.points_to_buffer) {
            one.type = "buffer<" + std::to_string(next_buffer++) + ">";
        } else if (one.type.empty() && parameter.points_to_threadgroup) {
            one.type = "dynamic_threadgroup<" + std::to_string(next_threadgroup++) + ">";
        }
        if (one.type.empty()) {
            throw Mistake(tokens[parameter.token],
                          "the parameter '" + parameter.name + "' of a kernel needs an attribute");
        }
        made.push_back(std::move(one));
    }
    return made;
}

std::string plain_name(const std::string &name) {
    const std::string before = name.substr(0, name.find('<'));
    const size_t colon = before.rfind(':');
    std::string made = colon == std::string::npos ? before : before.substr(colon + 1);
    made.erase(std::remove(made.begin(), made.end(), ' '), made.end());
    return made;
}

const Kernel &definition(const Declarations &found, const Kernel &kernel, const Tokens &tokens) {
    if (!kernel.is_instance) return kernel;
    for (const Kernel &other : found.kernels) {
        if (other.is_template && other.name == plain_name(kernel.name)) return other;
    }
    throw Mistake(tokens[kernel.statement.from], "no kernel template is called " + plain_name(kernel.name));
}

// Of an instance: what its template says of it may use the template's parameters.
std::string template_header(const Tokens &tokens, const Kernel &kernel) {
    size_t end = kernel.statement.from + 1;
    for (int depth = 0; end < kernel.body; ++end) {
        if (opens_angles(tokens, end)) ++depth;
        if (tokens[end].is(">") && --depth == 0) break;
    }
    return joined(tokens, {kernel.statement.from, end + 1});
}

std::string table(const Tokens &tokens, const Declarations &found) {
    std::string made = "\n#line 1 \"softmetal\"\n", list;
    unsigned number = 0;
    for (const Kernel &kernel : found.kernels) {
        if (kernel.is_template) continue;
        const Kernel &defined = definition(found, kernel, tokens);
        const std::string id = std::to_string(number++);
        std::string types, objects, names;
        for (size_t i = 0; const Source &source : sources(tokens, defined)) {
            types += (i ? ", softmetal::" : "softmetal::") + source.type;
            objects += ", softmetal::" + source.type + "{}";
            names += "{" + quoted(defined.parameters[i].name) + ", " + source.active + "}, ";
            ++i;
        }
        const std::string in = kernel.scope.empty() ? "::" : "::" + kernel.scope + "::";
        // Qualified, for a kernel may be called as a function of Metal's is.
        const std::string function = kernel.is_instance && !kernel.scope.empty() ? own(kernel.name) : in + own(kernel.name);
        if (!kernel.scope.empty()) made += "namespace " + kernel.scope + " { ";
        made += "static void softmetal_run_" + id + "(const softmetal::Thread &softmetal_thread) { softmetal::call(&" +
                function + ", softmetal_thread" + objects + "); }\n";
        made += "static const softmetal::Name softmetal_names_" + id + "[] = {" + names + "{}};\n";
        made += "static const auto softmetal_arguments_" + id + " = softmetal::arguments<" + types + ">(&" +
                function + ", softmetal_names_" + id + ");\n";
        std::string most = kernel.max_threads;
        if (most.empty() && kernel.is_instance && !defined.max_threads.empty()) {
            made += template_header(tokens, defined) + " struct softmetal_most_" + id +
                    " { static constexpr unsigned value = unsigned(" + defined.max_threads + "); };\n";
            most = in + "softmetal_most_" + id + kernel.name.substr(kernel.name.find('<')) + "::value";
        } else if (most.empty()) {
            most = defined.max_threads;
        }
        if (!kernel.scope.empty()) made += "}\n";
        list += "    {" + quoted(kernel.host_name) + ", " + std::to_string(defined.line) + ", " +
                (most.empty() ? "0" : "unsigned(" + most + ")") + ", " + in + "softmetal_run_" + id +
                (defined.variables.empty() ? ", false, " : ", true, ") + in + "softmetal_arguments_" + id +
                ".argument, " + std::to_string(defined.parameters.size()) + "},\n";
    }
    std::string constants;
    for (const FunctionConstant &constant : found.constants) {
        const std::string in = constant.scope.empty() ? "::" : "::" + constant.scope + "::";
        constants += "    {" + quoted(constant.name) + ", " + quoted(constant.type) + ", unsigned(" + constant.index +
                     "), " + in + "softmetal_given_" + own(constant.name) + "},\n";
    }
    made += "static const softmetal::Kernel softmetal_kernels[] = {\n" + list + "    {}};\n";
    made += "static const softmetal::FunctionConstant softmetal_constants[] = {\n" + constants + "    {}};\n";
    made += "extern \"C\" __attribute__((visibility(\"default\"))) const softmetal::Library softmetal_library = {\n"
            "    softmetal::library_version, &softmetal::machine, softmetal_kernels, " +
            std::to_string(number) + ", softmetal_constants, " + std::to_string(found.constants.size()) + "};\n";
    return made;
}

}  // namespace

Translation translate(const std::string &source, const ConstantValues &values) {
    const Tokens tokens = tokens_of(source);
    try {
        const Declarations found = find_declarations(tokens);
        Edits edits(source);
        rewrite_literals(tokens, edits);
        rename_own(tokens, edits);
        rewrite_variables(tokens, found, edits);
        rewrite_constants(tokens, found, values, edits);
        drop_instances(tokens, found, edits);
        replace_all(tokens, found.without_spaces, edits);
        drop_attributes(tokens, edits);
        return {at_line(1) + edits.apply() + table(tokens, found), ""};
    } catch (const Mistake &mistake) {
        return {"", mistake.what()};
    }
}

Translation translate_for_check(const std::string &given, unsigned version) {
    const std::string source = with_vectors_of_truths(given);
    const Tokens tokens = tokens_of(source);
    try {
        const Declarations found = find_declarations(tokens);
        hold_to_rules(tokens, found, version);
        for (const Kernel &kernel : found.kernels) {
            if (!kernel.is_instance) sources(tokens, kernel);
        }
        Edits edits(source);
        rewrite_literals(tokens, edits, made_by_function);
        rename_own(tokens, edits);
        give_constants(tokens, found, edits);
        check_bound(tokens, found, edits);
        use_instances(tokens, found, edits);
        drop_attributes(tokens, edits);
        rewrite_comparisons(tokens, edits);
        rewrite_conversions(tokens, edits);
        replace_all(tokens, found.without_spaces_of_this, edits);
        const Vectors vectors(tokens);
        rewrite_constructors(tokens, vectors, edits);
        rewrite_casts(tokens, vectors, edits);
        rewrite_declarators(tokens, vectors, edits);
        rewrite_texts(tokens, edits);
        rewrite_arrays(tokens, edits);
        refer_to_variables(tokens, found, edits);
        return {at_line(1) + edits.apply(), ""};
    } catch (const Mistake &mistake) {
        return {"", mistake.what()};
    }
}

}  // namespace msl
