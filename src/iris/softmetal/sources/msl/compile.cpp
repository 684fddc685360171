#include "compile.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <vector>

#include "../../include/softmetal_shadow"
#include "../settings.h"
#include "hash.h"
#include "process.h"
#include "repairs.h"
#include "tokens.h"

namespace msl {
namespace {

namespace fs = std::filesystem;

std::string variable(const char *name, const std::string &otherwise) {
    const char *value = std::getenv(name);
    return value && *value ? value : otherwise;
}

std::string contents(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream made;
    made << file.rdbuf();
    return made.str();
}

std::vector<std::string> operator+(std::vector<std::string> x, const std::vector<std::string> &y) {
    x.insert(x.end(), y.begin(), y.end());
    return x;
}

// Address checks as kernels of operating systems have them: they need nothing but the shadow and the functions
// of softmetal_sanitizer, which are told of what C++ leaves undefined, too; of that, Metal defines all shifts.
std::vector<std::string> sanitizer_flags(const Settings &with) {
    char start[32];
    std::snprintf(start, sizeof start, "0x%lx", softmetal::shadow_start);
    std::vector<std::string> made = {"-O0", "-DSOFTMETAL_SANITIZE", "-fsanitize=kernel-address",
                                     "-Xclang", "-fsanitize-address-use-after-scope"};
    for (std::string option : {std::string("-asan-mapping-offset=") + start, std::string("-asan-stack=1"),
                               std::string("-asan-use-after-scope=1"),
                               std::string("-asan-globals=1"), std::string("-asan-kernel-mem-intrinsic-prefix=1"),
                               std::string("-asan-instrumentation-with-call-threshold=0"),
                               // What all threads read must not move to where only some of them need it,
                               std::string("-instcombine-code-sinking=0"),
                               // and each access counts, not one for those of an address; atomic ones say it themselves.
                               std::string("-asan-opt=0"), std::string("-asan-instrument-atomics=0"),
                               std::string("-asan-instrument-dynamic-allocas=0")}) {
        made.insert(made.end(), {"-mllvm", option});
    }
    return made + std::vector<std::string>{"-fsanitize=undefined,float-cast-overflow",
                                           "-fno-sanitize=shift,vptr,function",
                                           "-fsanitize-ignorelist=" + with.include_directory + "/softmetal_unchecked"};
}

// The same calls for every access.  Those of the text are told of before anything is optimized, which would make
// several of one; those of the stack at the end, and what would keep a variable from a register there is left out.
std::vector<std::string> counting_flags(Counting what) {
    std::vector<std::string> made = {"-DSOFTMETAL_COUNT", "-fwrapv", "-fsanitize=kernel-address"};
    std::vector<std::string> options = {"-asan-stack=0", "-asan-globals=0", "-asan-use-after-scope=0", "-asan-opt=0",
                                        "-asan-kernel-mem-intrinsic-prefix=1", "-asan-instrument-atomics=0",
                                        "-asan-instrumentation-with-call-threshold=0",
                                        "-asan-instrument-dynamic-allocas=0"};
    if (what == Counting::text) {
        made = made + std::vector<std::string>{"-O0", "-Xclang", "-disable-O0-optnone"};
    } else {
        options.push_back("-asan-use-stack-safety=0");
    }
    for (const std::string &option : options) made.insert(made.end(), {"-mllvm", option});
    return made;
}

// What the modes allow is what clang's options do.  A later one changes what those before it say of the same.
std::vector<std::string> math_flags(MathMode math) {
    switch (math) {
    case MathMode::safe: return {"-ffp-contract=on"};
    case MathMode::relaxed: return {"-funsafe-math-optimizations", "-fno-finite-math-only", "-ffp-contract=fast-honor-pragmas"};
    case MathMode::fast: return {"-ffast-math", "-ffp-contract=fast-honor-pragmas"};
    }
    return {};
}

// Products of tensors have descriptors, which are classes, as template arguments.
const char *standard(unsigned version) { return version >= 400 ? "-std=c++20" : "-std=c++17"; }

std::vector<std::string> compiler_flags(const Settings &with, MathMode math, unsigned version) {
    std::vector<std::string> made = {standard(version), "-w", "-Wno-invalid-constexpr", "-O2",
#if defined(__x86_64__)
            "-march=native",
#else
            "-mcpu=native", "-fsigned-char",
#endif
            "-fPIC", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti", "-nostdinc++", "-fno-math-errno",
            "-fno-trapping-math", "-fno-strict-aliasing", "-fno-threadsafe-statics", "-fno-stack-protector",
            "-fno-finite-loops", "-fno-strict-float-cast-overflow", "-fstack-clash-protection",
            "-gline-tables-only", "-fdeclspec", "-Xclang",
            "-ffloat16-excess-precision=none", "-ferror-limit=20"};
    if (with.count != Counting::nothing) return made + math_flags(math) + counting_flags(with.count);
    return made + math_flags(math) + (with.sanitize ? sanitizer_flags(with) : std::vector<std::string>{"-fwrapv"});
}

// What the compiler says of itself, and the linker as it starts it: to start that at once takes a quarter of the time.
struct Compiler {
    std::string error, version;
    std::vector<std::string> linker;  // of `unlinked` into `linked`
};

const std::string unlinked = "/dev/null", linked = "/dev/full";

// The words of a command that clang shows: in quotes, with a backslash before a character that would end them.
std::vector<std::string> quoted_words(const std::string &line) {
    std::vector<std::string> words;
    bool within = false;
    for (size_t at = 0; at < line.size(); ++at) {
        if (line[at] == '"') {
            within = !within;
            if (within) words.emplace_back();
        } else if (within) {
            if (line[at] == '\\' && at + 1 < line.size()) ++at;
            words.back() += line[at];
        }
    }
    return words;
}

// Asked once in this process.
Compiler known_compiler(const std::string &name) {
    static std::mutex &mutex = *new std::mutex;
    static auto &known = *new std::map<std::string, Compiler>;
    std::lock_guard lock(mutex);
    const auto found = known.find(name);
    if (found != known.end()) return found->second;
    const Outcome outcome = run_program({name, "-###", "-shared", "-nostdlib", unlinked, "-o", linked, "-lm", "-lgcc"});
    const size_t command = outcome.output.find("\n \"");
    if (!outcome.succeeded || outcome.output.find("clang") == std::string::npos || command == std::string::npos) {
        return {"kernels are compiled by clang 16 or newer (on Debian: apt install clang-19), and '" + name +
                    "', which IRIS_SOFTMETAL_COMPILER may name, is none that runs\n",
                "", {}};
    }
    return known[name] = {"", outcome.output.substr(0, command), quoted_words(outcome.output.substr(command))};
}

Outcome link(const Settings &with, const MemoryFile &object, const MemoryFile &library) {
    std::vector<std::string> command = known_compiler(with.compiler).linker;
    std::replace(command.begin(), command.end(), unlinked, object.path());
    std::replace(command.begin(), command.end(), linked, library.path());
    return run_program(command, {&object, &library});
}

// What texts are compiled after, and how.
struct Preamble {
    std::string source;
    std::vector<std::string> flags;
};

// All that a precompiled header depends on.
std::string header_key(const Settings &with, const Preamble &preamble, const std::string &compiler) {
    std::string all = with.compiler + compiler + '\n' + preamble.source;
    for (const std::string &flag : preamble.flags) all += '\n' + flag;
    std::set<std::string> files;
    for (const auto &entry : fs::recursive_directory_iterator(with.include_directory)) {
        if (entry.is_regular_file()) files.insert(entry.path());
    }
    for (const std::string &file : files) all += file + contents(file);
    char text[33];
    std::snprintf(text, sizeof text, "%016lx%016lx", hash(all), processor_key());
    return text;
}

std::string make_header(const Settings &with, const Preamble &preamble, const std::string &output,
                        const std::vector<const MemoryFile *> &files = {}) {
    const Outcome outcome = run_program(
        std::vector<std::string>{with.compiler} + preamble.flags +
            std::vector<std::string>{"-fpch-instantiate-templates", "-x", "c++-header", "-fno-temp-file",
                                     preamble.source, "-o", output},
        files);
    return outcome.succeeded ? "" : outcome.output;
}

// Held while it lives; the file says what the header's fingerprint is.
class HeaderLock {
public:
    explicit HeaderLock(const std::string &path) : file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
        if (file >= 0) flock(file, LOCK_EX);
    }
    ~HeaderLock() {
        if (file >= 0) close(file);
    }
    bool held() const { return file >= 0; }
    bool vouches_for(const std::string &header) const {
        unsigned long known = 0;
        return pread(file, &known, sizeof known, 0) == sizeof known && known == hash(header);
    }
    bool vouch_for(const std::string &header) const {
        const unsigned long made = hash(header);
        return pwrite(file, &made, sizeof made, 0) == sizeof made;
    }

private:
    int file;
};

// In the cache; made there by one process, while others wait.  Empty if the cache cannot be used.
std::string cached_header(const Settings &with, const Preamble &preamble, const std::string &compiler,
                          std::string &error) {
    if (with.cache_directory.empty()) return "";
    std::error_code failed;
    fs::create_directories(with.cache_directory, failed);
    const std::string made = with.cache_directory + "/metal_stdlib-" + header_key(with, preamble, compiler) + ".pch";
    const HeaderLock lock(made + ".lock");
    if (!lock.held()) return "";
    if (fs::is_regular_file(made, failed) && lock.vouches_for(contents(made))) return made;
    const std::string partial = made + ".partial";  // of whoever holds the lock: a killed one leaves no other
    fs::remove(partial, failed);
    error = make_header(with, preamble, partial);
    const std::string header = contents(partial);
    if (error.empty() && lock.vouch_for(header)) {
        fs::rename(partial, made, failed);
        if (!failed) return made;
    }
    fs::remove(partial, failed);
    return "";
}

struct Header {
    std::string path;
    std::vector<const MemoryFile *> files;  // that it lies in
    std::string error;
};

// Of one configuration, once in this process.
class Headers {
public:
    Header get(const Settings &with, const Preamble &preamble) {
        std::lock_guard lock(mutex);
        std::vector<std::string> key = {with.compiler, with.cache_directory, preamble.source};
        Header &header = known[std::move(key) + preamble.flags];
        if (!header.path.empty() && fs::exists(header.path)) return header;
        header = {};
        const Compiler compiler = known_compiler(with.compiler);
        header.error = compiler.error;
        if (!header.error.empty()) return header;
        header.path = cached_header(with, preamble, compiler.version, header.error);
        if (!header.path.empty() || !header.error.empty()) return header;
        // Where nothing can be kept: for this process alone, as long as it runs.
        own.push_back(std::make_unique<MemoryFile>());
        header = {own.back()->path(), {own.back().get()}, ""};
        header.error = make_header(with, preamble, header.path, header.files);
        return header;
    }

private:
    std::mutex mutex;
    std::map<std::vector<std::string>, Header> known;
    std::vector<std::unique_ptr<MemoryFile>> own;
};

Headers &headers() {
    static Headers &made = *new Headers;  // never destroyed: threads may compile to the end
    return made;
}

bool is_metals_own(std::string_view directive) {
    size_t at = 1;
    while (at < directive.size() && std::isspace((unsigned char)directive[at])) ++at;
    if (directive.substr(at, 7) != "include") return false;
    const size_t name = directive.find('<');
    if (name == std::string_view::npos) return false;
    for (const std::string_view own : {"metal", "simd", "MetalPerformancePrimitives/"}) {
        if (directive.substr(name + 1, own.size()) == own) return true;
    }
    return false;
}

bool is_pragma(std::string_view directive) { return directive.find("pragma") != std::string_view::npos; }

// Where the word METAL is in `#pragma METAL fp contract(off)`, of which clang has the same under its own name.
size_t metal_in_contract(std::string_view directive) {
    const size_t place = directive.find("METAL");
    if (!is_pragma(directive) || place == std::string_view::npos) return std::string_view::npos;
    std::istringstream rest(std::string(directive.substr(place)));
    std::string metal, fp, what;
    rest >> metal >> fp >> what;
    return fp == "fp" && what.substr(0, 8) == "contract" ? place : std::string_view::npos;
}

// Metal's own headers are there already, and memory is always coherent: `coherent` says nothing.  Blanks
// stand for both.
std::string in_terms_of_clang(std::string source, unsigned version) {
    const std::vector<Token> tokens = tokens_of(source);
    for (size_t i = 0; i < tokens.size(); ++i) {
        const Token &token = tokens[i];
        if (version >= 320 && token.is("coherent") && i + 3 < tokens.size()) {
            const bool of = tokens[i + 1].is("(") && tokens[i + 3].is(")");
            if (of || tokens[i + 1].is("device")) {
                std::fill(source.begin() + token.at, source.begin() + (of ? tokens[i + 3].end() : token.end()), ' ');
            }
        }
        if (token.kind != Token::directive) continue;
        if (is_metals_own(token.text)) {
            std::fill(source.begin() + token.at, source.begin() + token.end(), ' ');
        } else if (const size_t place = metal_in_contract(token.text); place != std::string_view::npos) {
            source.replace(token.at + place, 5, "clang");
        }
    }
    return source;
}

std::string definitions(const Options &options) {
    std::string made = "#define __METAL__ 1\n#define __METAL_MACOS__ 1\n#define __METAL_VERSION__ " +
                       std::to_string(options.version) + "\n";
    if (options.version >= 310) made += "#define __HAVE_BFLOAT__ 1\n";
    if (options.version >= 400) made += "#define __HAVE_TENSOR__ 1\n";
    if (options.math == MathMode::fast) made += "#define __METAL_FAST_MATH__ 1\n";
    for (const auto &[name, value] : options.macros) made += "#define " + name + " " + value + "\n";
    return made;
}

bool has_macros(const std::string &source, const Options &options) {
    if (!options.macros.empty()) return true;
    for (const Token &token : tokens_of(source)) {
        if (token.kind == Token::directive && !is_pragma(token.text)) return true;
    }
    return false;
}

// In `#pragma unroll (N)` a preprocessor on its own leaves macros as they are, and not after this word.
const std::string unrolled = "#pragma unroll", word_of_unrolled = "softmetal_unrolled";

std::string replaced(std::string text, const std::string &from, const std::string &to) {
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
        text.replace(at, from.size(), to);
    }
    return text;
}

// The text after its own macros and conditions, and before Metal's: what the translator can read.
Outcome preprocess(std::string source, const Options &options, const Settings &with) {
    source = in_terms_of_clang(std::move(source), options.version);
    if (!has_macros(source, options)) return {true, source};
    const MemoryFile input(definitions(options) + "#line 1 \"" + program_source + "\"\n" + replaced(source, unrolled, word_of_unrolled)), output;
    const Outcome outcome = run_program({with.compiler, "-E", "-x", "c++", "-std=c++17", "-w", "-nostdinc",
                                         "-fno-diagnostics-show-note-include-stack", input.path()},
                                        {&input}, &output);
    if (!outcome.succeeded) return {false, outcome.output};
    return {true, replaced(output.contents(), word_of_unrolled, unrolled)};
}

}  // namespace

namespace {

// The one that softmetal is tested with, or else another that will do.
std::string installed_compiler() {
    for (const char *version : {"-19", "-20", "-21", "-22", "-18", "-17", "-16", ""}) {
        const std::string name = std::string("clang++") + version;
        std::istringstream directories(variable("PATH", "/usr/bin:/bin"));
        for (std::string directory; std::getline(directories, directory, ':');) {
            if (access((directory + "/" + name).c_str(), X_OK) == 0) return name;
        }
    }
    return "clang++-19";
}

std::mutex settings_mutex;
thread_local Counting counting = Counting::nothing;

Settings &own_settings() {
    static Settings made = {
#ifdef SOFTMETAL_INCLUDE
        SOFTMETAL_INCLUDE,
#else
        "",
#endif
        "",
        variable("IRIS_SOFTMETAL_COMPILER", installed_compiler()),
        setting_sanitize() == 1,
    };
    return made;
}

}  // namespace

void count_from_here(Counting what) { counting = what; }
Counting counting_here() { return counting; }

Settings settings() {
    std::lock_guard lock(settings_mutex);
    return own_settings();
}

void configure(const char *include_directory, const char *cache_directory, const char *compiler) {
    std::lock_guard lock(settings_mutex);
    if (include_directory) own_settings().include_directory = include_directory;
    if (cache_directory) own_settings().cache_directory = cache_directory;
    if (compiler) own_settings().compiler = compiler;
}

Compilation compile(const std::string &source, const Options &options, const ConstantValues &values) {
    if (const char *unclear = settings_wrong()) return {"", unclear};
    Settings with = settings();
    with.count = options.counting;
    with.sanitize = options.sanitized;
    if (setting_strict()) {
        const std::string wrong = check(source, options);
        if (!wrong.empty()) return {"", wrong};
    }
    const Preamble preamble = {
        with.include_directory + "/softmetal_prefix",
        compiler_flags(with, options.math, options.version) + std::vector<std::string>{"-I" + with.include_directory}};
    const Header header = headers().get(with, preamble);
    if (!header.error.empty()) return {"", header.error};
    const Outcome text = preprocess(source, options, with);
    if (!text.succeeded) return {"", text.output};
    const Translation translation = translate(text.output, values);
    if (!translation.error.empty()) return {"", translation.error};
    const MemoryFile input(definitions(options) + translation.text), object, library;
    std::vector<const MemoryFile *> files = header.files;
    files.push_back(&input);
    const MemoryFile unoptimized;
    const bool in_two_steps = with.count == Counting::text;
    std::vector<std::string> command = std::vector<std::string>{with.compiler} + preamble.flags +
        std::vector<std::string>{"-include-pch", header.path, "-c", "-x", "c++", input.path(), "-o", "-"};
    if (in_two_steps) command.push_back("-emit-llvm");
    Outcome outcome = run_program(command, files, in_two_steps ? &unoptimized : &object);
    if (outcome.succeeded && in_two_steps) {
        // Loops of few rounds are unrolled: so rounds that some lanes leave out are told apart.
        outcome = run_program({with.compiler, "-O1", "-fPIC", "-w", "-mllvm", "-tail-dup-placement=0", "-c", "-x", "ir",
                               unoptimized.path(), "-o", "-"},
                              {&unoptimized}, &object);
    }
    if (!outcome.succeeded) return {"", outcome.output};
    outcome = link(with, object, library);
    if (!outcome.succeeded) return {"", outcome.output};
    return {library.contents(), ""};
}

namespace {

// What C++ lets be, and Metal does not, shows in the code: a cast in its old form from one address space to another,
// and a conversion that the text does not ask for.  Nothing else makes these instructions, which know their lines,
// but the functions of strict/metal_stdlib that the text asks by.
std::string mistakes_in(const std::string &code) {
    static const std::pair<const char *, const char *> kinds[] = {
        {"addrspacecast", "a cast from one address space to another"},
        {"to bfloat", "assigning to 'bfloat' from incompatible type 'float'"},
        {"constrained.fptrunc.bf16", "assigning to 'bfloat' from incompatible type 'float'"},
        {"constrained.fptrunc.f16.bf16", "invalid operands: cannot convert 'bfloat' to 'half'"},
    };
    std::map<unsigned, const char *> lines;
    std::istringstream all(code);
    bool asked = false;
    for (std::string line; std::getline(all, line);) {
        if (line.compare(0, 6, "define") == 0) {
            asked = line.find(" @_ZN5metal") != std::string::npos || line.find(" @_ZN9softmetal") != std::string::npos;
        }
        const size_t place = line.find("!dbg !");
        if (asked || place == std::string::npos) continue;
        for (const auto &[sign, what] : kinds) {
            if (line.find(sign) == std::string::npos) continue;
            const std::string number = line.substr(place + 5, line.find_first_of(" ,)", place + 5) - place - 5);
            const size_t told = code.find("\n" + number + " = !DILocation(line: ");
            if (told == std::string::npos) continue;
            lines.emplace(unsigned(std::atoi(code.c_str() + code.find("line: ", told) + 6)), what);
        }
    }
    std::string made;
    for (const auto &[line, what] : lines) {
        made += std::string(program_source) + ":" + std::to_string(line) + ": error: " + what + "\n";
    }
    return made;
}

// As they speak of what the text says.
std::string in_terms_of_metal(std::string messages) {
    static const std::string asserted = "static assertion failed due to requirement '::softmetal::", end = "': ";
    for (size_t at; (at = messages.find(asserted)) != std::string::npos;) {
        messages.erase(at, messages.find(end, at) + end.size() - at);
    }
    static const std::string call = "no matching function for call to 'make_";
    for (size_t at; (at = messages.find(call)) != std::string::npos;) {
        messages.replace(at, call.size(), "no matching constructor for initialization of '");
    }
    return messages;
}

// How a text is checked: in C++14 but for what Metal 4 needs.
Preamble of_checks(const Options &options, const Settings &with) {
    return {with.include_directory + "/strict/metal_stdlib",
            {options.version >= 400 ? standard(options.version) : "-std=c++14", "-O0", "-Xclang",
             "-disable-llvm-passes", "-gline-tables-only", "-Wno-everything", "-Werror=vla",
             "-Werror=c++11-narrowing", "-Werror=address-of-temporary", "-Werror=static-float-init",
             "-flax-vector-conversions=none", "-fdeclspec", "-nostdinc++",
             "-D__METAL_VERSION__=" + std::to_string(options.version),
             // As it stands: no constant is folded, and a bfloat is added as one.
             "-ffp-exception-behavior=strict", "-frounding-math", "-Xclang", "-fbfloat16-excess-precision=none",
             "-Xclang", "-ffloat16-excess-precision=none", "-I" + with.include_directory + "/strict",
             "-I" + with.include_directory}};
}

Outcome checked(const std::string &text, const Preamble &preamble, const Settings &with,
                const std::vector<std::string> &flags, const MemoryFile *code = nullptr) {
    const Header header = headers().get(with, preamble);
    if (!header.error.empty()) return {false, header.error};
    const MemoryFile input(text);
    std::vector<const MemoryFile *> files = header.files;
    files.push_back(&input);
    return run_program(std::vector<std::string>{with.compiler} + flags + preamble.flags +
                           std::vector<std::string>{"-include-pch", header.path, "-x", "c++", input.path(), "-o", "-"},
                       files, code);
}

const std::vector<std::string> to_code = {"-S", "-emit-llvm", "-ferror-limit=20"};
// With the places of all mistakes.
const std::vector<std::string> located = {"-fsyntax-only", "-fdiagnostics-print-source-range-info",
                                          "-fno-caret-diagnostics", "-ferror-limit=0"};

}  // namespace

std::string check(const std::string &source, const Options &options) {
    const Settings with = settings();
    const Outcome text = preprocess(source, options, with);
    if (!text.succeeded) return text.output;
    const Translation translation = translate_for_check(text.output, options.version);
    if (!translation.error.empty()) return translation.error;
    const Preamble preamble = of_checks(options, with);
    std::string made = definitions(options) + translation.text;
    const MemoryFile code;
    Outcome outcome = checked(made, preamble, with, to_code, &code);
    for (std::string before; !outcome.succeeded && before != made;) {
        before = made;
        made = repaired(made, checked(made, preamble, with, located).output);
        if (before != made) outcome = checked(made, preamble, with, to_code, &code);
    }
    return outcome.succeeded ? mistakes_in(code.contents()) : in_terms_of_metal(outcome.output);
}

}  // namespace msl
