#include "data_type.h"

#include <string.h>

// A scalar, and three vectors after it.
static const struct {
    unsigned long first;
    const char *name;
    char kind;
    unsigned bytes;
} families[] = {
    {3, "float", 'f', 4},  {16, "half", 'h', 2},   {29, "int", 'i', 4},   {33, "uint", 'I', 4},
    {37, "short", 's', 2}, {41, "ushort", 'S', 2}, {45, "char", 'c', 1},  {49, "uchar", 'C', 1},
    {53, "bool", 'b', 1},  {81, "long", 'q', 8},   {85, "ulong", 'Q', 8}, {121, "bfloat", 'B', 2},
};
enum { FAMILIES = sizeof families / sizeof *families, MOST_LANES = 4 };

struct data_type data_type_of(unsigned long number)
{
    for (int i = 0; i < FAMILIES; ++i) {
        unsigned long lane = number - families[i].first;
        if (lane < MOST_LANES) return (struct data_type){families[i].kind, (unsigned)lane + 1, families[i].bytes};
    }
    return (struct data_type){0};
}

unsigned long data_type_named(const char *name)
{
    for (int i = 0; i < FAMILIES; ++i) {
        size_t length = strlen(families[i].name);
        if (strncmp(name, families[i].name, length)) continue;
        if (!name[length]) return families[i].first;
        if (!name[length + 1] && name[length] >= '2' && name[length] <= '4')
            return families[i].first + (unsigned long)(name[length] - '1');
    }
    return 0;
}
