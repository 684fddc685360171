// Metal's numbers for types.
#pragma once

// No lanes: there is no such scalar or vector.
struct data_type {
    char kind;  // as msl.h calls it
    unsigned lanes, lane_bytes;
};
struct data_type data_type_of(unsigned long number);

// 0 if there is none of this name.
unsigned long data_type_named(const char *name);
