#include "image.h"

#include <cstring>

#include "../../include/softmetal_machine"
#include "hash.h"

namespace msl {
namespace {

// At the end of an image.
struct Footer {
    char magic[8];
    unsigned version;
    unsigned recipe_bytes;
    unsigned long processor;
    unsigned long checksum;  // of all before it
};
const char magic[8] = {'s', 'o', 'f', 't', 'm', 's', 'l', '\n'};
constexpr size_t unchecked = sizeof(unsigned long);

void put(std::string &to, const std::string &text) {
    const unsigned long bytes = text.size();
    to.append(reinterpret_cast<const char *>(&bytes), sizeof bytes);
    to += text;
}

void put(std::string &to, const std::map<std::string, std::string> &all) {
    put(to, std::to_string(all.size()));
    for (const auto &[name, value] : all) {
        put(to, name);
        put(to, value);
    }
}

// Reads what a checksum vouches for.
class Reader {
public:
    Reader(const char *at) : at(at) {}
    std::string text() {
        unsigned long bytes;
        std::memcpy(&bytes, at, sizeof bytes);
        std::string made(at + sizeof bytes, bytes);
        at += sizeof bytes + bytes;
        return made;
    }
    std::map<std::string, std::string> map() {
        std::map<std::string, std::string> made;
        for (unsigned long count = std::stoul(text()); count; --count) {
            std::string name = text();
            made[name] = text();
        }
        return made;
    }

private:
    const char *at;
};

}  // namespace

std::string seal(std::string library, const Recipe &recipe) {
    const size_t start = library.size();
    put(library, recipe.source);
    put(library, std::to_string(recipe.options.version));
    put(library, std::to_string(int(recipe.options.math)));
    put(library, std::to_string(recipe.options.sanitized));
    put(library, std::to_string(int(recipe.options.counting)));
    put(library, recipe.options.macros);
    put(library, recipe.values);
    Footer footer = {};
    std::memcpy(footer.magic, magic, sizeof magic);
    footer.version = softmetal::library_version;
    footer.recipe_bytes = unsigned(library.size() - start);
    footer.processor = processor_key();
    library.append(reinterpret_cast<const char *>(&footer), sizeof footer - unchecked);
    footer.checksum = hash(library);
    library.append(reinterpret_cast<const char *>(&footer.checksum), unchecked);
    return library;
}

std::optional<Recipe> unseal(const std::string &image, std::string &wrong) {
    Footer footer;
    if (image.size() > sizeof footer) std::memcpy(&footer, image.data() + image.size() - sizeof footer, sizeof footer);
    if (image.size() <= sizeof footer || std::memcmp(footer.magic, magic, sizeof magic)) {
        wrong = "this is no library of softmetal, or not all of one";
        return {};
    }
    if (hash({image.data(), image.size() - unchecked}) != footer.checksum) {
        wrong = "this library of softmetal is damaged";
        return {};
    }
    if (footer.version != softmetal::library_version || footer.processor != processor_key()) {
        wrong = "this library was made by another version of softmetal, or for another processor";
        return {};
    }
    Reader reader(image.data() + image.size() - sizeof footer - footer.recipe_bytes);
    Recipe made;
    made.source = reader.text();
    made.options.version = unsigned(std::stoul(reader.text()));
    made.options.math = MathMode(std::stoi(reader.text()));
    if ((reader.text() == "1") != made.options.sanitized) {
        wrong = std::string("this library was made with") + (made.options.sanitized ? "out sanitizers" : " sanitizers");
        return {};
    }
    made.options.counting = Counting(std::stoi(reader.text()));
    made.options.macros = reader.map();
    made.values = reader.map();
    return made;
}

}  // namespace msl
