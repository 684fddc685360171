#include "rules.h"

#include <cstdlib>
#include <map>
#include <set>

namespace msl {
namespace {

const std::set<std::string, std::less<>> scalars = {"void", "bool", "char",  "uchar",  "short", "ushort", "int",
                                                    "uint", "long", "ulong", "size_t", "half",  "float",  "bfloat"};

// Positions and sizes have up to three components; all else of a thread is one number.
const std::set<std::string, std::less<>> of_the_grid = {
    "thread_position_in_grid",      "threads_per_grid",      "thread_position_in_threadgroup",
    "threads_per_threadgroup",      "threadgroups_per_grid", "dispatch_threads_per_threadgroup",
    "threadgroup_position_in_grid", "grid_origin",
};
const std::set<std::string, std::less<>> of_a_thread = {
    "thread_index_in_threadgroup",    "thread_index_in_simdgroup",           "simdgroup_index_in_threadgroup",
    "simdgroups_per_threadgroup",     "dispatch_simdgroups_per_threadgroup", "threads_per_simdgroup",
    "thread_execution_width",         "thread_index_in_quadgroup",           "quadgroup_index_in_threadgroup",
    "dispatch_quadgroups_per_threadgroup", "quadgroups_per_threadgroup",
};
const std::map<std::string, std::string, std::less<>> other_names = {
    {"unsigned", "uint"}, {"unsigned int", "uint"}, {"uint32_t", "uint"}, {"uint16_t", "ushort"},
    {"unsigned short", "ushort"}, {"int32_t", "int"},
};

class Rules {
public:
    Rules(const Tokens &tokens, const Declarations &found, unsigned version)
        : tokens(tokens), found(found), version(version) {}

    void run() {
        note_types();
        for (size_t i = 0; i < tokens.size(); ++i) {
            word(i);
            number(i);
            if (version < 320) lambda(i);
            pointer(i);
        }
        std::set<std::string> names, host_names;
        for (const Kernel &kernel : found.kernels) {
            if (!kernel.is_template && !host_names.insert(kernel.host_name).second) {
                throw Mistake(tokens[kernel.statement.from],
                              "kernel functions cannot be overloaded: another has the name '" + kernel.host_name + "'");
            }
            if (kernel.is_instance) continue;
            if (!kernel.is_template && !names.insert(kernel.scope + "::" + kernel.name).second) {
                throw Mistake(tokens[kernel.statement.from], "kernel functions cannot be overloaded");
            }
            attributes(kernel);
            for (const ThreadgroupVariable &one : kernel.variables) outermost(kernel, one);
        }
        for (const FunctionConstant &one : found.constants) {
            index(tokens[one.attribute.from], "function_constant", one.index, 65535);
        }
        for (Range body : found.bodies) function(body);
    }

private:
    const Tokens &tokens;
    const Declarations &found;
    const unsigned version;
    std::set<std::string, std::less<>> types;   // that the text declares
    std::set<std::string, std::less<>> values;  // variables and members of Metal's types of one number

    bool is(size_t i, std::string_view text) const { return i < tokens.size() && tokens[i].is(text); }
    bool is_word(size_t i) const { return i < tokens.size() && tokens[i].kind == Token::word; }
    bool touch(size_t i) const { return tokens[i].end() == tokens[i + 1].at; }

    void word(size_t i) const {
        static const std::set<std::string_view> refused = {"goto",  "new",    "virtual",      "throw",
                                                           "try",   "typeid", "dynamic_cast", "thread_local",
                                                           "catch", "asm", "register"};
        if (!is_word(i)) return;
        if (refused.count(tokens[i].text) || (is(i, "delete") && !is(i - 1, "="))) {
            throw Mistake(tokens[i], "'" + std::string(tokens[i].text) + "' is not supported in Metal");
        }
        if (is(i, "long") && is(i + 1, "long")) throw Mistake(tokens[i], "'long long' is not supported in Metal");
    }

    void number(size_t i) const {
        const std::string_view text = tokens[i].text;
        if (tokens[i].kind == Token::number && is_fraction(text) && (text.back() == 'l' || text.back() == 'L')) {
            throw Mistake(tokens[i], "'long double' is not supported in Metal");
        }
    }

    // A bracket that indexes follows what it indexes.
    void lambda(size_t i) const {
        if (!is(i, "[") || !i || is(i + 1, "[") || is(i - 1, "[") || is_indexed(i - 1)) return;
        int depth = 0;
        size_t end = i;
        for (; end < tokens.size(); ++end) {
            if (is(end, "[")) ++depth;
            if (is(end, "]") && --depth == 0) break;
        }
        if (is(end + 1, "(") || is(end + 1, "{")) throw Mistake(tokens[i], "lambda expressions are not supported in Metal");
    }
    bool is_indexed(size_t i) const {
        return (is_word(i) && !is(i, "return")) || is(i, ")") || is(i, "]") || is(i, ">") || is(i, "}");
    }

    void note_types() {
        for (size_t i = 0; i + 1 < tokens.size(); ++i) {
            const bool number = scalars.count(tokens[i].text) || other_names.count(tokens[i].text);
            if (number && is_word(i + 1)) values.emplace(tokens[i + 1].text);
            const bool named = is(i, "struct") || is(i, "class") || is(i, "union") || is(i, "typename");
            if ((named || (is(i, "using") && is(i + 2, "="))) && is_word(i + 1)) {
                types.emplace(tokens[i + 1].text);
            } else if (is(i, "typedef")) {
                size_t end = i;
                while (end < tokens.size() && !is(end, ";") && !is(end, "{")) ++end;
                if (is(end, ";") && is_word(end - 1)) types.emplace(tokens[end - 1].text);
            }
        }
    }
    bool names_type(size_t i) const {
        static const std::set<std::string_view> classes = {"vec",        "packed_vec",  "array",       "atomic",
                                                           "atomic_int", "atomic_uint", "atomic_bool", "atomic_float",
                                                           "atomic_ulong", "simdgroup_matrix", "matrix"};
        if (!is_word(i)) return false;
        const std::string_view text = tokens[i].text;
        return types.count(text) || classes.count(text) || scalars.count(text) || other_names.count(text) ||
               (text.back() >= '2' && text.back() <= '4' && scalars.count(text.substr(0, text.size() - 1)));
    }

    // The word whose arguments end at i.
    size_t before_angles(size_t i) const {
        int depth = 0;
        for (; i; --i) {
            if (is(i, ">")) ++depth;
            if (is(i, "<") && --depth == 0) return i - 1;
            if (is(i, ";") || is(i, "{")) break;
        }
        return 0;
    }

    // Whether what follows the token is no declaration, but a value that * multiplies or & joins.
    bool is_factor(size_t before, bool is_value) const {
        static const std::set<std::string_view> operators = {".", "-", "+", "*", "/", "%", "[", "&", "|", "^", "?", "!", "~"};
        const bool is_member = is(before, ">") && before && is(before - 1, "-");
        const bool is_assigned = is(before, "=") && before > 1 && !is(before - 2, "using");
        return operators.count(tokens[before].text) || is_member || is_assigned ||
               (is_value && (is(before, "(") || is(before, ",")));
    }

    // A declarator follows a type, whose words before it say where its values lie.
    void pointer(size_t i) const {
        if (!(is(i, "*") || is(i, "&")) || !i || i + 1 >= tokens.size()) return;
        if ((is(i + 1, "&") || is(i + 1, "=")) && touch(i)) return;
        if (is(i - 1, "&") || is(i - 1, "*")) return;
        size_t at = i - 1;
        while (at && (is(at, "const") || is(at, "volatile"))) --at;
        if (is(at, ">")) at = before_angles(at);
        if (!names_type(at)) return;
        const bool is_value = values.count(tokens[at].text);
        for (; is_word(at) || is(at, ":") || (is(at, ">") && !is(at - 1, "-")); --at) {
            if (is(at, ">")) at = before_angles(at);
            if (is_address_space(tokens[at]) || is(at, "auto") || is(at, "typename") || is(at, "return")) return;
            if (!at) break;
        }
        if (is_factor(at, is_value)) return;
        const std::string kind = is(i, "*") ? "pointer" : "reference";
        throw Mistake(tokens[i], kind + " type must have explicit address space qualifier");
    }

    void attributes(const Kernel &kernel) const {
        std::set<std::string> reserved;
        size_t components = 0;
        for (const Parameter &parameter : kernel.parameters) {
            const Token &token = tokens[parameter.token];
            bool optional = false;
            size_t sources = 0;
            for (const Attribute &one : parameter.attributes) optional |= one.name == "function_constant";
            for (const Attribute &one : parameter.attributes) {
                const bool is_place = one.name == "buffer" || one.name == "threadgroup";
                const bool grid = of_the_grid.count(one.name), of_thread = grid || of_a_thread.count(one.name);
                sources += is_place || of_thread;
                if (sources > 1) throw Mistake(token, "'" + one.name + "' attribute follows another that says what the parameter is");
                if (is_place) index(token, one.name, one.argument, 30);
                if (is_place && !optional &&
                    !reserved.insert(one.name + "(" + one.argument).second) {
                    throw Mistake(token, "cannot reserve '" + one.name + "' resource location at index " + one.argument);
                }
                if (!of_thread) continue;
                const bool points = parameter.points_to_buffer || parameter.points_to_threadgroup;
                const size_t count = points ? none : components_of(parameter.type);
                if (!count) continue;  // a template's parameter
                if (count > (grid ? 3 : 1)) {
                    throw Mistake(token, "invalid type '" + parameter.type + "' of input declaration for attribute '" +
                                             one.name + "'");
                }
                if (grid && components && components != count) {
                    throw Mistake(token, "attributes of the grid must have the same number of components");
                }
                if (grid) components = count;
            }
        }
    }
    static void index(const Token &token, const std::string &name, const std::string &argument, int most) {
        if (argument.empty()) throw Mistake(token, "'" + name + "' attribute takes one argument");
        const int index = std::atoi(argument.c_str());
        if (index >= 0 && index <= most) return;
        throw Mistake(token, "'" + name + "' attribute parameter is out of bounds: must be between 0 and " + std::to_string(most));
    }
    static constexpr size_t none = 9;  // more components than any number of a thread has
    // Of a number of a thread; 0 of what cannot be told.
    static size_t components_of(std::string type) {
        const auto other = other_names.find(type);
        if (other != other_names.end()) type = other->second;
        const bool vector = type.size() > 1 && type.back() >= '2' && type.back() <= '4';
        const std::string scalar = vector ? type.substr(0, type.size() - 1) : type;
        if (!scalars.count(scalar)) return 0;
        if (scalar != "uint" && scalar != "ushort") return none;
        return vector ? size_t(type.back() - '0') : 1;
    }

    // Apple's compiler takes it in a template.
    void outermost(const Kernel &kernel, const ThreadgroupVariable &one) const {
        if (kernel.is_template) return;
        int depth = 0;
        for (size_t i = kernel.body; i < one.statement.from; ++i) depth += is(i, "{") ? 1 : is(i, "}") ? -1 : 0;
        if (depth > 1) {
            throw Mistake(tokens[one.statement.from],
                          "variables in the threadgroup address space can only be declared in the outermost scope of a "
                          "kernel function");
        }
    }

    void function(Range body) const {
        for (size_t i = body.from; i < body.to; ++i) {
            if (is(i, "static") && !is_constant(i)) {
                throw Mistake(tokens[i], "static local variable must reside in constant address space");
            }
            const bool is_name = is_word(i) && is(i + 1, "(") && !is_word(i - 1);
            if (!is_name || is(i - 1, ".") || is(i - 1, ">") || is(i - 1, ":")) continue;
            for (const Kernel &kernel : found.kernels) {
                if (tokens[i].text == kernel.name) throw Mistake(tokens[i], "a kernel function cannot be called");
            }
        }
    }
    bool is_constant(size_t i) const {
        for (; i < tokens.size() && !is(i, "=") && !is(i, ";"); ++i) {
            if (is(i, "constant") || is(i, "constexpr") || is(i, "threadgroup") || is(i, "(")) return true;
        }
        return false;
    }
};

}  // namespace

void hold_to_rules(const Tokens &tokens, const Declarations &found, unsigned version) {
    Rules(tokens, found, version).run();
}

}  // namespace msl
