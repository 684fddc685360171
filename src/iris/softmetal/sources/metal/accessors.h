// Methods that read and set what an object is told.
#pragma once

// A BOOL is returned as a whole word: the compiler would leave what is above its byte undefined.
#define FLAG(name, set)      \
    -(NSInteger)name         \
    {                        \
        return name;         \
    }                        \
    -(void)set : (BOOL)given \
    {                        \
        name = given != 0;   \
    }

#define NUMBER(name, set)          \
    -(NSUInteger)name              \
    {                              \
        return name;               \
    }                              \
    -(void)set : (NSUInteger)given \
    {                              \
        name = given;              \
    }

#define OBJECT(type, name, set, keep) \
    -(type *)name                     \
    {                                 \
        return given(name);           \
    }                                 \
    -(void)set : (type *)value        \
    {                                 \
        type *kept = [value keep];    \
        [name release];               \
        name = kept;                  \
    }
