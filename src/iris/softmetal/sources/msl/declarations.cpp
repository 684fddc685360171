#include "declarations.h"

#include <map>
#include <set>

#include "signatures.h"
#include "translate.h"

namespace msl {

Mistake::Mistake(const Token &at, const std::string &what)
    : std::runtime_error(std::string(program_source) + ":" + std::to_string(at.line) + ":" +
                         std::to_string(at.column) + ": error: " + what + "\n") {}

bool opens_attribute(const Tokens &tokens, size_t i) {
    return i + 1 < tokens.size() && tokens[i].is("[") && tokens[i + 1].is("[") && tokens[i].end() == tokens[i + 1].at;
}

bool is_address_space(const Token &token) {
    return token.is("device") || token.is("constant") || token.is("threadgroup") || token.is("thread") ||
           token.is("ray_data") || token.is("threadgroup_imageblock");
}

bool opens_angles(const Tokens &tokens, size_t i) {
    return tokens[i].is("<") && i && (tokens[i - 1].kind == Token::word);
}

std::string joined(const Tokens &tokens, Range range) {
    std::string made;
    for (size_t i = range.from; i < range.to; ++i) {
        if (!made.empty() && tokens[i - 1].end() != tokens[i].at) made += ' ';
        made += tokens[i].text;
    }
    return made;
}

namespace {

class Finder {
public:
    explicit Finder(const Tokens &tokens) : tokens(tokens) {}

    Declarations run() {
        for (const Token &token : tokens) {
            if (token.is("double")) throw Mistake(token, "Metal has no double");
        }
        scope({0, tokens.size()}, "");
        return std::move(found);
    }

private:
    const Tokens &tokens;
    Declarations found;
    std::map<std::string, Signature> known;      // by scope and key
    std::map<std::string, std::string> members;  // the space of `this` of the first, by scope, key and other spaces
    struct Pointer {
        bool points, in_buffer, in_threadgroup;
    };
    std::map<std::string_view, Pointer> aliases;  // what names of types stand for
    unsigned forwarded = 0;

    bool is(size_t i, std::string_view text) const { return i < tokens.size() && tokens[i].is(text); }
    bool is_word(size_t i) const { return i < tokens.size() && tokens[i].kind == Token::word; }

    // After the bracket that closes the one at i.
    size_t after_group(size_t i) const {
        int depth = 0;
        for (size_t j = i; j < tokens.size(); ++j) {
            if (is(j, "(") || is(j, "[") || is(j, "{")) ++depth;
            if (is(j, ")") || is(j, "]") || is(j, "}")) --depth;
            if (depth == 0) return j + 1;
        }
        throw Mistake(tokens[i], "this bracket is never closed");
    }
    bool opens(size_t i) const { return is(i, "(") || is(i, "[") || is(i, "{"); }

    // After the > that closes the < at i.
    size_t after_angles(size_t i) const {
        int depth = 0;
        for (size_t j = i; j < tokens.size();) {
            if (opens(j)) {
                j = after_group(j);
                continue;
            }
            if (opens_angles(tokens, j)) ++depth;
            if (is(j, ">") && !is(j - 1, "-")) --depth;
            ++j;
            if (depth == 0) return j;
        }
        throw Mistake(tokens[i], "this < is never closed");
    }

    bool opens_attribute(size_t i) const { return msl::opens_attribute(tokens, i); }

    // The attributes in [[...]] at i.
    void read_attributes(size_t i, std::vector<Attribute> &into) const {
        const size_t end = after_group(i);
        size_t j = i + 2;
        while (j < end - 2) {
            if (!is_word(j)) {
                ++j;
                continue;
            }
            Attribute one = {std::string(tokens[j].text), "", {i, end}};
            if (is(j + 1, ":") && is(j + 2, ":")) {  // a namespace's
                j += 3;
                continue;
            }
            ++j;
            if (is(j, "(")) {
                const size_t after = after_group(j);
                one.argument = joined(tokens, {j + 1, after - 1});
                j = after;
            }
            into.push_back(one);
        }
    }

    // A namespace or, if it has a name, a class.
    void scope(Range range, const std::string &name, const std::string &class_name = "") {
        for (size_t i = range.from; i < range.to;) i = statement(i, range.to, name, class_name);
    }

    // Reads the declaration that starts at i; gives where the next starts.
    size_t statement(size_t i, size_t limit, const std::string &in, const std::string &class_name) {
        if (tokens[i].kind == Token::directive || is(i, ";") || is(i, "}")) return i + 1;
        size_t j = i;
        if (is(j, "inline") && is(j + 1, "namespace")) ++j;
        if (is(j, "namespace")) {
            std::string name = in;
            for (++j; j < limit && !is(j, "{") && !is(j, ";") && !is(j, "="); ++j) {
                if (is_word(j)) name += (name.empty() ? "" : "::") + std::string(tokens[j].text);
            }
            if (is(j, "{")) {
                const size_t end = after_group(j);
                scope({j + 1, end - 1}, name);
                return end;
            }
        }
        if (is(i, "extern") && i + 2 < limit && tokens[i + 1].kind == Token::string && is(i + 2, "{")) {
            const size_t end = after_group(i + 2);
            scope({i + 3, end - 1}, in);
            return end;
        }
        return declaration(i, limit, in, class_name);
    }

    // Where the name of a class that is defined stands; if it has none, its body.
    size_t class_name_at(size_t i, size_t body) const {
        while (!is(i, "struct") && !is(i, "class") && !is(i, "union")) i = is(i, "<") ? after_angles(i) : i + 1;
        for (++i; i < body && (opens(i) || is(i, "alignas") || is(i, "__attribute__"));) {
            i = opens(i) ? after_group(i) : i + 1;
        }
        return i;
    }
    bool defines_class(size_t i, size_t body) const {
        for (; i < body; ++i) {
            if (is(i, "operator") || is(i, "(") || is(i, "=")) return false;
            if (is(i, "<")) i = after_angles(i) - 1;
            else if (is(i, "struct") || is(i, "class") || is(i, "union")) return true;
        }
        return false;
    }

    std::string name_in_quotes(const Attribute &a) const {
        if (a.argument.size() < 2) throw Mistake(tokens[a.tokens.from], "host_name needs a name");
        return a.argument.substr(1, a.argument.size() - 2);
    }

    // Where its parameters start.
    size_t after_operator(size_t i, size_t limit) const {
        i += is(i + 1, "(") ? 3 : 1;
        while (i < limit && !is(i, "(") && !is(i, ";")) ++i;
        return i;
    }

    // After the initializers of a constructor, which follow a colon.
    size_t after_initializers(size_t i, size_t limit) const {
        while (i < limit && !is(i, ";")) {
            while (i < limit && !opens(i) && !is(i, ";")) i = is(i, "<") ? after_angles(i) : i + 1;
            if (opens(i)) i = after_group(i);
            if (is(i, ".") && is(i + 1, ".")) i += 3;
            if (!is(i, ",")) break;
            ++i;
        }
        return i;
    }

    // Of what is no function: whether it is a variable that no address space is given.
    bool is_variable(Range whole) const {
        static const std::set<std::string_view> others = {"using", "typedef", "struct", "class",  "union",
                                                          "enum",  "friend",  "extern", "template", "static_assert"};
        if (!is_word(whole.from) || !is_word(whole.from + 1) || others.count(tokens[whole.from].text)) return false;
        for (size_t i = whole.from; i < whole.to; ++i) {
            if (is(i, "constant") || is(i, "sampler")) return false;
        }
        return true;
    }

    Mistake not_constant(size_t i) const {
        return Mistake(tokens[i], "program scope variable must reside in constant address space");
    }

    // As below, of what differs in the space of `this` alone.
    void compare_members(const Signature &now, Range whole, const std::string &in) {
        const std::string key = in + "\n" + now.key + "\n" + now.spaces_before_this;
        const auto [place, is_new] = members.emplace(key, now.this_space);
        if (!is_new && place->second != now.this_space) {
            found.without_spaces_of_this.push_back({whole, ""});
        } else {
            found.without_spaces_of_this.insert(found.without_spaces_of_this.end(), now.of_this.begin(), now.of_this.end());
        }
    }

    // Leaves out what C++ would take for something declared before.
    void compare_with_known(Range whole, size_t body, const std::string &in, const std::string &class_name) {
        Signature now = signature_of(tokens, whole, body, class_name);
        if (!class_name.empty()) compare_members(now, whole, in);
        const bool lasts = class_name.empty() || is(whole.from, "static");
        if (lasts && !now.is_function && is_variable(whole)) throw not_constant(whole.from);
        const auto [place, is_new] = known.emplace(in + "\n" + now.key, now);
        const Signature &before = place->second;
        if (!is_new && before.spaces != now.spaces && (now.body.empty() || now.body == before.body)) {
            found.without_spaces.push_back({whole, ""});
            return;
        }
        const bool differ = !is_new && before.spaces != now.spaces && !before.body.empty();
        if (differ && is(body, "{") && !defines_class(whole.from, body)) {
            for (Replacement &one : forwarding(tokens, before, now, !class_name.empty(), forwarded++)) {
                found.without_spaces.push_back(std::move(one));
            }
        }
        if (before.body.empty()) place->second = now;  // the declaration of a function that is defined now
        for (Replacement &one : now.of_this) found.without_spaces.push_back(std::move(one));
    }

    size_t declaration(size_t i, size_t limit, const std::string &in, const std::string &class_name) {
        bool is_kernel = false, assigned = false;
        std::vector<Attribute> attributes;
        size_t j = i;
        const bool has_header = is(i, "template") && is(i + 1, "<");
        if (has_header) j = after_angles(i + 1);
        for (; j < limit; ) {
            if (opens_attribute(j)) {
                read_attributes(j, attributes);
                j = after_group(j);
            } else if (is(j, "operator")) {
                j = after_operator(j, limit);
            } else if (is(j, ";")) {
                break;
            } else if (is(j, "{") && !assigned) {
                break;
            } else if (is(j, ":") && is(j - 1, ")") && !class_name.empty()) {
                j = after_initializers(j + 1, limit);
                break;
            } else if (opens(j)) {
                j = after_group(j);
            } else {
                if (is(j, "kernel")) is_kernel = true;
                if (is(j, "=")) assigned = true;
                ++j;
            }
        }
        std::string host_name, max_threads;
        const Attribute *constant = nullptr;
        for (const Attribute &a : attributes) {
            if (a.name == "kernel") is_kernel = true;
            if (a.name == "host_name") host_name = name_in_quotes(a);
            if (a.name == "max_total_threads_per_threadgroup") max_threads = a.argument;
            if (a.name == "function_constant") constant = &a;
        }
        const bool is_instance = is(i, "template") && !has_header;
        const bool has_body = is(j, "{");
        const size_t end = j >= limit ? limit : has_body ? after_group(j) : j + 1;
        if (has_body && !defines_class(i, j)) found.bodies.push_back({j, end});
        if (is_kernel && !class_name.empty()) throw Mistake(tokens[i], "a kernel cannot be a member function");
        if (is_kernel || (is_instance && !host_name.empty())) {
            if (has_body || is_instance) {
                Kernel made = header(i, j, is_instance);
                made.scope = in;
                made.is_template = has_header;
                made.host_name = !host_name.empty() ? host_name : in.empty() ? made.name : in + "::" + made.name;
                made.max_threads = max_threads;
                made.statement = {i, end};
                made.body = j;
                if (has_body) made.variables = variables({j, end});
                found.kernels.push_back(std::move(made));
            }
        } else if (constant) {
            function_constant(i, j, *constant, in);
        } else if (has_body && defines_class(i, j)) {
            compare_with_known({i, end}, j, in, class_name);
            const size_t name = class_name_at(i, j);
            const std::string called = name < j ? std::string(tokens[name].text) : "";
            scope({j + 1, end - 1}, in + "::" + joined(tokens, {name, j}), called.empty() ? "struct" : called);
        } else {
            note_alias({has_header ? after_angles(i + 1) : i, j});
            compare_with_known({i, end}, j, in, class_name);
            if (!has_body) return end;
            const auto misplaced = variables({j, end});
            if (!misplaced.empty()) {
                throw Mistake(tokens[misplaced[0].statement.from],
                              "variables in threadgroup memory can be declared in kernels only");
            }
        }
        return end;
    }

    void note_alias(Range range) {
        const bool is_typedef = is(range.from, "typedef") && is_word(range.to - 1);
        if (!is_typedef && !(is(range.from, "using") && is(range.from + 2, "="))) return;
        Pointer &made = aliases[tokens[is_typedef ? range.to - 1 : range.from + 1].text];
        made = {};
        for (size_t i = range.from; i < range.to; ++i) note_pointer(i, made);
    }
    void note_pointer(size_t i, Pointer &into) const {
        into.points |= is(i, "*") || is(i, "&");
        into.in_buffer |= is(i, "device") || is(i, "constant");
        into.in_threadgroup |= is(i, "threadgroup");
        const auto alias = aliases.find(tokens[i].text);
        if (alias == aliases.end()) return;
        into.points |= alias->second.points;
        into.in_buffer |= alias->second.in_buffer;
        into.in_threadgroup |= alias->second.in_threadgroup;
    }

    // A kernel returns void: its name follows, and then its parameters.
    Kernel header(size_t i, size_t end, bool is_instance) const {
        Kernel made = {};
        const Range name = is_instance ? instance_name(i, end) : definition_name(i, end);
        made.name = joined(tokens, name);
        made.line = tokens[name.from].line;
        made.is_instance = is_instance;
        if (!is_instance) made.parameters = parameters({name.to + 1, after_group(name.to) - 1});
        return made;
    }

    Range definition_name(size_t i, size_t end) const {
        size_t j = is(i, "template") && is(i + 1, "<") ? after_angles(i + 1) : i;
        while (j < end && !is(j, "void")) j = opens(j) ? after_group(j) : j + 1;
        for (++j; j < end && (opens_attribute(j) || is(j, "__attribute__"));) {
            j = after_group(is(j, "__attribute__") ? j + 1 : j);
        }
        if (!is_word(j) || !is(j + 1, "(")) throw Mistake(tokens[i], "a kernel returns void and has parameters");
        return {j, j + 1};
    }

    // An instance's type may be spelt out, be decltype(f<int>), or have a name: it has parameters or not.
    // Its own name is the last with arguments.
    Range instance_name(size_t i, size_t end) const {
        Range name = {i, i};
        for (size_t j = i + 1; j < end && !(is(j, "(") && !name.empty());) {
            if (is(j, "<")) {
                size_t from = j - 1;
                // "void ::f<int>" has a type before the global name.
                while (is(from - 1, ":") && is(from - 2, ":") && is_word(from - 3) &&
                       tokens[from - 3].end() == tokens[from - 2].at) {
                    from -= 3;
                }
                name = {from, after_angles(j)};
                j = name.to;
            } else {
                j = opens(j) ? after_group(j) : j + 1;
            }
        }
        if (name.empty()) throw Mistake(tokens[i], "an instance of a kernel template has arguments");
        return name;
    }

    std::vector<Parameter> parameters(Range range) const {
        std::vector<Parameter> made;
        for (size_t i = range.from; i < range.to;) {
            Parameter one = {};
            one.token = i;
            Pointer pointer = {};
            auto word = [&](size_t j) {
                if (is(j, "const") || is(j, "constexpr") || is_address_space(tokens[j])) return;
                one.type += (one.type.empty() || one.name.empty() ? "" : " ") + one.name;
                one.name = tokens[j].text;
            };
            while (i < range.to && !is(i, ",")) {
                if (opens_attribute(i)) {
                    read_attributes(i, one.attributes);
                    i = after_group(i);
                } else if (is(i, "<")) {
                    i = after_angles(i);
                } else if (is(i, "(")) {  // T (&name)[4]
                    for (size_t k = i; k < after_group(i); ++k) {
                        if (is_word(k)) word(k);
                        pointer.points |= is(k, "*") || is(k, "&");
                    }
                    i = after_group(i);
                } else if (is(i, "[")) {
                    pointer.points = true;
                    i = after_group(i);
                } else {
                    if (is_word(i)) word(i);
                    note_pointer(i, pointer);
                    ++i;
                }
            }
            ++i;  // the comma
            one.points_to_buffer = pointer.points && pointer.in_buffer;
            one.points_to_threadgroup = pointer.points && pointer.in_threadgroup;
            made.push_back(std::move(one));
        }
        return made;
    }

    void function_constant(size_t i, size_t end, const Attribute &attribute, const std::string &in) {
        FunctionConstant made = {};
        made.scope = in;
        made.index = attribute.argument;
        made.words = {i, attribute.tokens.from};
        made.attribute = attribute.tokens;
        made.semicolon = end;
        const size_t name = attribute.tokens.from - 1;
        made.name = tokens[name].text;
        bool is_constant = false;
        for (size_t k = i; k < name; ++k) {
            is_constant |= is(k, "constant");
            if (is(k, "constant") || is(k, "const") || is(k, "constexpr") || is(k, "static")) continue;
            made.type += (made.type.empty() ? "" : " ") + std::string(tokens[k].text);
        }
        if (!is_constant) throw not_constant(i);
        found.constants.push_back(std::move(made));
    }

    // The declarations of variables, not of pointers, in threadgroup memory.
    std::vector<ThreadgroupVariable> variables(Range body) const {
        std::vector<ThreadgroupVariable> made;
        size_t start = body.from + 1;
        for (size_t i = body.from; i < body.to; ++i) {
            if (is(i, ";") || is(i, "{") || is(i, "}") || tokens[i].kind == Token::directive) {
                start = i + 1;
            } else if (is(i, "(") && !(is(i - 1, "alignas") || is(i - 1, "__attribute__"))) {
                // What is in parentheses is a cast, a parameter, the head of a loop; a lambda's body
                // starts anew.
            } else if (is(i, "threadgroup") && declares(start, i)) {
                ThreadgroupVariable one;
                if (variable(start, i, one)) {
                    made.push_back(std::move(one));
                    i = made.back().statement.to - 1;
                    start = i + 1;
                }
            }
        }
        return made;
    }

    // Whether all before token i of a statement are specifiers.
    bool declares(size_t start, size_t i) const {
        for (size_t j = start; j < i; ++j) {
            if (is(j, "alignas") || is(j, "__attribute__")) {
                j = after_group(j + 1) - 1;
            } else if (opens_attribute(j)) {
                j = after_group(j) - 1;
            } else if (!is_word(j) && !is(j, ":") && !is(j, "<") && !is(j, ">") && !is(j, ",")) {
                return false;
            } else if (is(j, "return") || is(j, "using") || is(j, "typedef")) {
                return false;
            }
        }
        return true;
    }

    bool variable(size_t start, size_t at, ThreadgroupVariable &made) const {
        size_t end = at;
        bool assigned = false;
        while (end < tokens.size() && !is(end, ";")) {
            assigned |= is(end, "=");
            if (assigned) {
                end = opens(end) ? after_group(end) : end + 1;
                continue;
            }
            if (is(end, "*") || is(end, "&") || is(end, "(")) return false;
            if (is(end, "alignas") || is(end, "__attribute__")) {
                end = after_group(end + 1);
            } else if (is(end, "<") && is_word(end - 1)) {
                end = after_angles(end);
            } else if (is(end, "[")) {
                end = after_group(end);
            } else {
                ++end;
            }
        }
        made.statement = {start, end + 1};
        size_t i = start;
        std::string before;  // the last word, which is the name if a declarator ends here
        std::string dimensions;
        for (; i <= end;) {
            if (is(i, "alignas") || is(i, "__attribute__")) {
                i = after_group(i + 1);
            } else if (opens_attribute(i)) {
                i = after_group(i);
            } else if (is(i, "[")) {
                const size_t after = after_group(i);
                dimensions += joined(tokens, {i, after});
                i = after;
            } else if (is(i, ",") || is(i, ";")) {
                made.declarators.push_back({before, dimensions});
                before.clear();
                dimensions.clear();
                ++i;
            } else if (is(i, "=")) {  // Apple's compiler takes a value, and no thread gives it
                for (++i; !is(i, ",") && !is(i, ";");) i = opens(i) ? after_group(i) : i + 1;
            } else if (is(i, "threadgroup") || is(i, "static") || is(i, "volatile") || is(i, "const")) {
                ++i;
            } else {
                if (!before.empty()) {
                    const bool qualified = before == ":" || (!made.type.empty() && made.type.back() == ':');
                    made.type += (made.type.empty() || qualified ? "" : " ") + before;
                }
                if (is(i + 1, "<")) {
                    const size_t after = after_angles(i + 1);
                    before = joined(tokens, {i, after});
                    i = after;
                } else {
                    before = tokens[i].text;
                    ++i;
                }
            }
        }
        return !made.type.empty();
    }
};

}  // namespace

Declarations find_declarations(const Tokens &tokens) { return Finder(tokens).run(); }

}  // namespace msl
