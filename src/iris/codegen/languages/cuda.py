"""CUDA C++, as a table.

Its own vectors have no arithmetic, and there are none of halves: the prologue has all that a kernel
needs.  A fragment of a matrix has its elements in the lanes that the IR says, and products exchange
these among lanes.  Compile without contraction (`--fmad=false`) unless near is good enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from iris.codegen.language import Helper, Intrinsic, Language, Position
from iris.codegen.languages.cpp import HELPERS, KEYWORDS, integer_literal
from iris.codegen.tree import Call, Number, Tree, element, number
from iris.ir import literal, math
from iris.ir.kinds import AtomicKind
from iris.ir.metal import Scope
from iris.ir.types import (
    DTYPES,
    DType,
    bf16,
    f16,
    f32,
    i16,
    i32,
    i64,
    u16,
    u32,
    u64,
)

# The prologue calls integers what the IR does.
_TYPES = {dtype: dtype.name for dtype in DTYPES.values()} | {
    f16: "half",
    bf16: "bfloat",
    f32: "float",
}
_SUFFIX = {i64: "ll", u32: "u", u64: "ull"}

_PROLOGUE = r"""#include <cuda_bf16.h>
#include <cuda_fp16.h>

using i8 = signed char;
using i16 = short;
using i32 = int;
using i64 = long long;
using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using bfloat = __nv_bfloat16;
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fc00000)
#define INLINE __device__ __forceinline__

template <class To, class From> INLINE To as_type(From x) {
    static_assert(sizeof(To) == sizeof(From), "of one size");
    To made;
    memcpy(&made, &x, sizeof(To));
    return made;
}

// All memory of a block; each kernel divides its own.
extern __shared__ __align__(16) u8 shared_bytes[];

// Along y and z a grid has at most 65535 blocks: where there are more programs, all are along x.
INLINE uint3 program_among(uint3 programs) {
    if (gridDim.y == programs.y && gridDim.z == programs.z) return blockIdx;
    u32 row = blockIdx.x / programs.x;
    return {blockIdx.x % programs.x, row % programs.y, row / programs.y};
}

// The assembler negates 16 bits in 32: as a signed number the negative of -32768 would be 32768.
// Where it is made signed, it comes from 32 bits, and the compiler does not know from where.
INLINE i16 to_i16(u32 x) {
    asm("" : "+r"(x));
    return i16(x);
}
// Hides where a number comes from: one that wraps in a loop would be widened before it wraps.
INLINE i64 widened(i32 x) {
    asm("" : "+r"(x));
    return x;
}
template <class To, class From> INLINE To converted(From x) { return To(x); }
template <> INLINE i16 converted(u16 x) { return to_i16(x); }

// Vectors: in registers, and in memory with the alignment of an element.

template <class T, int N> struct packed;

template <class T, int N> struct alignas((N == 3 ? 4 : N) * sizeof(T)) vec {
    T v[N];

    vec() = default;
    template <class... From> INLINE explicit vec(From... parts) {
        int at = 0;
        (put(at, parts), ...);
        for (int i = at; i < N; ++i) v[i] = v[0];  // one element stands for all
    }
    INLINE T& operator[](int i) { return v[i]; }
    INLINE T operator[](int i) const { return v[i]; }

    template <class From> INLINE void put(int& at, From x) { v[at++] = T(x); }
    template <class From, int M> INLINE void put(int& at, vec<From, M> x) {
        for (int i = 0; i < M; ++i) v[at++] = converted<T>(x.v[i]);
    }
    template <class From, int M> INLINE void put(int& at, packed<From, M> x) {
        for (int i = 0; i < M; ++i) v[at++] = T(x.v[i]);
    }
};

template <class T, int N> struct packed {
    T v[N];

    INLINE packed& operator=(vec<T, N> x) {
        for (int i = 0; i < N; ++i) v[i] = x.v[i];
        return *this;
    }
    INLINE operator vec<T, N>() const { return vec<T, N>(*this); }
};

template <int... Which, class T, int N> INLINE vec<T, sizeof...(Which)> lanes(vec<T, N> x) {
    return vec<T, sizeof...(Which)>(x.v[Which]...);
}

template <class To, int N, class F, class... From> INLINE vec<To, N> each(F f, vec<From, N>... x) {
    vec<To, N> made;
    for (int i = 0; i < N; ++i) made.v[i] = To(f(x.v[i]...));
    return made;
}

template <int N> INLINE vec<i64, N> widened(vec<i32, N> x) {
    return each<i64>([](i32 a) { return widened(a); }, x);
}

// A type that the other operand alone decides: this one is converted to it.
template <class T> struct just_of { using type = T; };
template <class T> using just = typename just_of<T>::type;

#define BINARY(OP, TO)                                                                  \
    template <class T, int N> INLINE vec<TO, N> operator OP(vec<T, N> x, vec<T, N> y) { \
        return each<TO>([](T a, T b) { return a OP b; }, x, y);                         \
    }                                                                                   \
    template <class T, int N> INLINE vec<TO, N> operator OP(vec<T, N> x, just<T> y) {   \
        return x OP vec<T, N>(y);                                                       \
    }                                                                                   \
    template <class T, int N> INLINE vec<TO, N> operator OP(just<T> x, vec<T, N> y) {   \
        return vec<T, N>(x) OP y;                                                       \
    }
#define ARITHMETIC(OP)                                                                  \
    BINARY(OP, T)                                                                       \
    template <class T, int N, class Y> INLINE vec<T, N>& operator OP##=(vec<T, N>& x, Y y) { \
        return x = x OP y;                                                              \
    }
ARITHMETIC(+) ARITHMETIC(-) ARITHMETIC(*) ARITHMETIC(/) ARITHMETIC(%)
ARITHMETIC(&) ARITHMETIC(|) ARITHMETIC(^) ARITHMETIC(<<) ARITHMETIC(>>)
BINARY(<, bool) BINARY(<=, bool) BINARY(>, bool) BINARY(>=, bool) BINARY(==, bool) BINARY(!=, bool)

template <class T, int N> INLINE vec<T, N> operator-(vec<T, N> x) {
    return each<T>([](T a) { return -a; }, x);
}
template <class T, int N> INLINE vec<T, N> operator~(vec<T, N> x) {
    return each<T>([](T a) { return ~a; }, x);
}
template <int N> INLINE vec<bool, N> operator!(vec<bool, N> x) {
    return each<bool>([](bool a) { return !a; }, x);
}

// What is loaded anew each time: classes have no volatile copies.
template <int Bytes> struct unit { using type = u32; };
template <> struct unit<1> { using type = u8; };
template <> struct unit<2> { using type = u16; };
template <> struct unit<8> { using type = u64; };
template <class T> struct alignas(T) seen {
    using U = typename unit<sizeof(T)>::type;
    U units[sizeof(T) / sizeof(U)];

    INLINE operator T() const volatile {
        seen found;
        for (int i = 0; i < sizeof(T) / sizeof(U); ++i) found.units[i] = units[i];
        T made;
        memcpy(&made, &found, sizeof(T));
        return made;
    }
};

// Functions.

#define FLOATS(NAME, F)                                                       \
    INLINE float NAME(float x) { return F(x); }                               \
    template <int N> INLINE vec<float, N> NAME(vec<float, N> x) {             \
        return each<float>([](float a) { return NAME(a); }, x);               \
    }
#define LANES1(NAME)                                                          \
    template <class T, int N> INLINE vec<T, N> NAME(vec<T, N> x) {            \
        return each<T>([](T a) { return NAME(a); }, x);                       \
    }
#define LANES2(NAME)                                                          \
    template <class T, int N> INLINE vec<T, N> NAME(vec<T, N> x, vec<T, N> y) { \
        return each<T>([](T a, T b) { return NAME(a, b); }, x, y);            \
    }
FLOATS(exactly_exp, expf) FLOATS(exactly_exp2, exp2f) FLOATS(exactly_sqrt, sqrtf)
FLOATS(exactly_rsqrt, __frsqrt_rn) FLOATS(exactly_sin, sinf) FLOATS(exactly_cos, cosf)
FLOATS(exactly_log, logf) FLOATS(exactly_log2, log2f) FLOATS(exactly_tanh, tanhf)
FLOATS(nearly_exp, __expf) FLOATS(nearly_exp2, exp2f) FLOATS(nearly_sqrt, __fsqrt_rn)
FLOATS(nearly_rsqrt, rsqrtf) FLOATS(nearly_sin, __sinf) FLOATS(nearly_cos, __cosf)
// For results that are rounded to 16 bits: within 2^-22 of the power of 2, which flushes subnormal
// numbers. [PTX ISA: ex2.approx]
INLINE float power_of_2(float x) {
    asm("ex2.approx.ftz.f32 %0, %0;" : "+f"(x));
    return x;
}
INLINE float power_of_e(float x) { return power_of_2(x * 1.44269504f); }
FLOATS(coarsely_exp, power_of_e) FLOATS(coarsely_exp2, power_of_2)
INLINE float exactly_pow(float x, float y) { return powf(x, y); }
LANES2(exactly_pow)

// Where several quotients have the divisor.  In 64 bits the product with a reciprocal is off by
// 2^-51 of itself at most.  No quotient of floats is nearer than 2^-49 to the middle of two floats,
// so it is rounded as the quotient is.  Only a quotient that is subnormal can be that middle: then
// it may become the other one.
// [CUDA C++ Programming Guide: which GPUs have fast arithmetic of 64 bits]
#if __CUDA_ARCH__ == 800 || __CUDA_ARCH__ == 900 || __CUDA_ARCH__ == 1000
INLINE float quotient(float x, float y) { return float(double(x) * (1.0 / double(y))); }
#else
INLINE float quotient(float x, float y) { return x / y; }
#endif
LANES2(quotient)

INLINE float to_floor(float x) { return floorf(x); }
INLINE half to_floor(half x) { return hfloor(x); }
INLINE float to_ceil(float x) { return ceilf(x); }
INLINE half to_ceil(half x) { return hceil(x); }
INLINE float to_even(float x) { return rintf(x); }
INLINE half to_even(half x) { return hrint(x); }
LANES1(to_floor) LANES1(to_ceil) LANES1(to_even)

INLINE float magnitude(float x) { return fabsf(x); }
INLINE half magnitude(half x) { return __habs(x); }
template <class T> INLINE T magnitude(T x) { return x < 0 ? T(-x) : x; }
LANES1(magnitude)

INLINE float greater_number(float x, float y) { return fmaxf(x, y); }
INLINE half greater_number(half x, half y) { return __hmax(x, y); }
INLINE float lesser_number(float x, float y) { return fminf(x, y); }
INLINE half lesser_number(half x, half y) { return __hmin(x, y); }
// nan if either is, and -0 is less than +0. [PTX ISA: max, min]
INLINE half greater_or_nan(half x, half y) { return __hmax_nan(x, y); }
INLINE half lesser_or_nan(half x, half y) { return __hmin_nan(x, y); }
INLINE bfloat greater_or_nan(bfloat x, bfloat y) { return __hmax_nan(x, y); }
INLINE bfloat lesser_or_nan(bfloat x, bfloat y) { return __hmin_nan(x, y); }
INLINE float greater_or_nan(float x, float y) {
    asm("max.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(y));
    return x;
}
INLINE float lesser_or_nan(float x, float y) {
    asm("min.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(y));
    return x;
}
template <class T> INLINE T greater(T x, T y) { return x < y ? y : x; }
template <class T> INLINE T lesser(T x, T y) { return y < x ? y : x; }
LANES2(greater_number) LANES2(lesser_number) LANES2(greater) LANES2(lesser)

INLINE float multiply_add(float x, float y, float z) { return fmaf(x, y, z); }
INLINE half multiply_add(half x, half y, half z) { return __hfma(x, y, z); }
template <class T, int N> INLINE vec<T, N> multiply_add(vec<T, N> x, vec<T, N> y, vec<T, N> z) {
    return each<T>([](T a, T b, T c) { return multiply_add(a, b, c); }, x, y, z);
}

template <class T> struct unsigned_of { using type = T; };
template <> struct unsigned_of<i8> { using type = u8; };
template <> struct unsigned_of<i16> { using type = u16; };
template <> struct unsigned_of<i32> { using type = u32; };
template <> struct unsigned_of<i64> { using type = u64; };
// The assembler before version 13.5 takes the magnitude of the least number for not negative.
// So the compiler must not see that this is one, for y of 0.
template <class U> INLINE U unknown(U x) { return x; }
INLINE u16 unknown(u16 x) {
    asm("" : "+h"(x));
    return x;
}
INLINE u32 unknown(u32 x) {
    asm("" : "+r"(x));
    return x;
}
INLINE u64 unknown(u64 x) {
    asm("" : "+l"(x));
    return x;
}
template <class T> INLINE typename unsigned_of<T>::type difference(T x, T y) {
    using U = typename unsigned_of<T>::type;
    U from_y = unknown(U(U(x) - U(y)));
    return x < y ? U(-from_y) : from_y;
}
template <class T, int N> INLINE vec<typename unsigned_of<T>::type, N> difference(vec<T, N> x,
                                                                                 vec<T, N> y) {
    return each<typename unsigned_of<T>::type>([](T a, T b) { return difference(a, b); }, x, y);
}

// The sum, or the end of the numbers where it does not fit.
template <class T> INLINE T add_saturated(T x, T y) {
    T sum = T(typename unsigned_of<T>::type(x) + typename unsigned_of<T>::type(y));
    bool up = !(y < T(0));
    if (up ? !(sum < x) : sum < x) return sum;
    bool is_signed = T(-1) < T(0);
    T most = is_signed ? T(~(T(1) << (8 * sizeof(T) - 1))) : T(-1);
    return up ? most : is_signed ? T(-most - 1) : T(0);
}

template <class T, int N> INLINE vec<T, N> choose(vec<T, N> no, vec<T, N> yes, vec<bool, N> where) {
    return each<T>([](T a, T b, bool c) { return c ? b : a; }, no, yes, where);
}

// Lanes.

template <class T> INLINE T exchange_with(T x, int mask) { return __shfl_xor_sync(~0u, x, mask); }
template <class T> INLINE T from_lane(T x, int lane) { return __shfl_sync(~0u, x, lane); }
template <class T, int N> INLINE vec<T, N> exchange_with(vec<T, N> x, int mask) {
    for (int i = 0; i < N; ++i) x.v[i] = exchange_with(x.v[i], mask);
    return x;
}
template <class T, int N> INLINE vec<T, N> from_lane(vec<T, N> x, int lane) {
    for (int i = 0; i < N; ++i) x.v[i] = from_lane(x.v[i], lane);
    return x;
}

// Copies that go on by themselves.

template <int Bytes> INLINE void copy(void* to, const void* from, bool inside = true) {
    u32 at = u32(__cvta_generic_to_shared(to)), size = inside ? Bytes : 0;  // the rest are zeros
    if (Bytes == 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
            :: "r"(at), "l"(from), "r"(size) : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
            :: "r"(at), "l"(from), "n"(Bytes), "r"(size) : "memory");
    }
}
template <int Latest> INLINE void wait_copies() {
    asm volatile("cp.async.commit_group; cp.async.wait_group %0;" :: "n"(Latest) : "memory");
}

// Atomics, relaxed.

#define ATOMIC(NAME, F)                                                       \
    template <class T> INLINE T NAME(volatile T* at, T x) { return F((T*)at, x); }
ATOMIC(atomic_add, atomicAdd) ATOMIC(atomic_max, atomicMax) ATOMIC(atomic_min, atomicMin)
ATOMIC(atomic_and, atomicAnd) ATOMIC(atomic_or, atomicOr) ATOMIC(atomic_xor, atomicXor)
ATOMIC(atomic_exchange, atomicExch)
template <class T> INLINE T atomic_load(volatile const T* at) { return *at; }
template <class T> INLINE bool atomic_compare_exchange(volatile T* at, T* expected, T x) {
    T old = atomicCAS((T*)at, *expected, x), wanted = *expected;
    *expected = old;
    return old == wanted;
}

// Fragments of 8x8 matrices: two elements a lane.  In kernels that have them, lanes are numbered
// so that each thread holds what the hardware's products want there.

template <class T> struct fragment { vec<T, 2> elements; };
template <class T> INLINE vec<T, 2>& pair(fragment<T>& x) { return x.elements; }
template <class T> INLINE fragment<T> filled(T x) { return {vec<T, 2>(x)}; }
INLINE constexpr int lane_of(int thread) {
    return (thread & 17) | (thread & 2) << 2 | (thread & 12) >> 1;
}
INLINE constexpr int thread_of(int lane) {
    return (lane & 17) | (lane & 8) >> 2 | (lane & 6) << 1;
}
template <class T> INLINE T exchange_with_lane(T x, int mask) {
    return exchange_with(x, thread_of(mask));
}
template <class T> INLINE T from_lane_of(T x, int lane) { return from_lane(x, thread_of(lane)); }

// Loads fragments: each lane gives the address of one row.
template <int Count, bool Transposed, class T> INLINE void load_rows(vec<T, 2>* to, const T* row) {
    static_assert(Count == 1 || Count == 2 || Count == 4, "as many as there are instructions for");
    u32 bits[4], at = u32(__cvta_generic_to_shared(row));
#define ROWS(N, TRANSPOSED, LIST)                                                             \
    asm volatile("ldmatrix.sync.aligned.m8n8.x" N TRANSPOSED ".shared.b16 " LIST ", [%4];"    \
        : "=r"(bits[0]), "=r"(bits[1]), "=r"(bits[2]), "=r"(bits[3]) : "r"(at) : "memory")
    if (Count == 1 && !Transposed) ROWS("1", "", "{%0}");
    if (Count == 1 && Transposed) ROWS("1", ".trans", "{%0}");
    if (Count == 2 && !Transposed) ROWS("2", "", "{%0, %1}");
    if (Count == 2 && Transposed) ROWS("2", ".trans", "{%0, %1}");
    if (Count == 4 && !Transposed) ROWS("4", "", "{%0, %1, %2, %3}");
    if (Count == 4 && Transposed) ROWS("4", ".trans", "{%0, %1, %2, %3}");
    #pragma unroll
    for (int i = 0; i < Count; ++i) to[i] = as_type<vec<T, 2>>(bits[i]);
}

// The product of pairs of rows of fragments, one after the other.
INLINE u32 bits_of(vec<half, 2> x) { return as_type<u32>(x); }
INLINE u32 bits_of(vec<bfloat, 2> x) { return as_type<u32>(x); }
INLINE u32 transposed(u32 x) {
    u32 made;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(made) : "r"(x));
    return made;
}
#define MULTIPLY(T, NAME)                                                                     \
    INLINE void multiply(vec<float, 4>& sum, u32 a0, u32 a1, u32 b, T) {                      \
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32." NAME "." NAME ".f32 "            \
            "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"                             \
            : "+f"(sum.v[0]), "+f"(sum.v[1]), "+f"(sum.v[2]), "+f"(sum.v[3])                  \
            : "r"(a0), "r"(a1), "r"(b));                                                      \
    }                                                                                         \
    INLINE void multiply(vec<float, 4>& sum, u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1, T) { \
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." NAME "." NAME ".f32 "           \
            "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                 \
            : "+f"(sum.v[0]), "+f"(sum.v[1]), "+f"(sum.v[2]), "+f"(sum.v[3])                  \
            : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));                          \
    }
MULTIPLY(half, "f16") MULTIPLY(bfloat, "bf16")
template <int Rows, int Depth> INLINE constexpr int place_in_a(int row, int step) {
    int together = Rows % 2 ? 1 : 2;
    return (row / together * Depth + step) * together + row % together;
}
template <int Rows, int Columns, int Depth, bool Transposed, class T>
INLINE void multiply_all(fragment<float>* to, fragment<T>* a, fragment<T>* b,
                         fragment<float>* sum) {
    #pragma unroll
    for (int column = 0; column < Columns; ++column) {
        u32 right[Depth];
        #pragma unroll
        for (int k = 0; k < Depth; ++k) {
            right[k] = bits_of(b[column * Depth + k].elements);
            if (!Transposed) right[k] = transposed(right[k]);
        }
        #pragma unroll
        for (int row = 0; row < Rows; row += 2) {
            int first = row * Columns + column, second = first + Columns;
            bool both = row + 1 < Rows;
            vec<float, 2> none(0.0f);
            vec<float, 4> made(sum[first].elements, both ? sum[second].elements : none);
            u32 above[Depth], below[Depth];
            #pragma unroll
            for (int k = 0; k < Depth; ++k) {
                above[k] = bits_of(a[place_in_a<Rows, Depth>(row, k)].elements);
                below[k] = both ? bits_of(a[place_in_a<Rows, Depth>(row + 1, k)].elements) : 0;
            }
            #pragma unroll
            for (int k = 0; k + 1 < Depth; k += 2) {
                multiply(made, above[k], below[k], above[k + 1], below[k + 1], right[k],
                         right[k + 1], T());
            }
            constexpr int last = Depth - 1;
            if (Depth % 2) multiply(made, above[last], below[last], right[last], T());
            to[first].elements = lanes<0, 1>(made);
            if (both) to[second].elements = lanes<2, 3>(made);
        }
    }
}

// Of floats no product is to be less than exact: what a thread needs, others give it.
template <bool Transposed> INLINE float element_of(fragment<float>& x, int row, int column) {
    int at = Transposed ? column : row, beside = Transposed ? row : column;
    float even = from_lane(x.elements.v[0], at << 2 | beside >> 1);
    float odd = from_lane(x.elements.v[1], at << 2 | beside >> 1);
    return beside & 1 ? odd : even;
}
template <int Rows, int Columns, int Depth, bool Transposed>
INLINE void multiply_all(fragment<float>* to, fragment<float>* a, fragment<float>* b,
                         fragment<float>* sum) {
    int row = threadIdx.x >> 2 & 7, column = (threadIdx.x & 3) << 1;
    #pragma unroll
    for (int i = 0; i < Rows * Columns; ++i) to[i] = sum[i];
    #pragma unroll
    for (int k = 0; k < 8 * Depth; ++k) {
        int step = k >> 3, inner = k & 7;
        float left[Rows];
        #pragma unroll
        for (int i = 0; i < Rows; ++i) {
            fragment<float>& x = a[place_in_a<Rows, Depth>(i, step)];
            left[i] = from_lane(x.elements.v[k & 1], row << 2 | inner >> 1);
        }
        #pragma unroll
        for (int j = 0; j < Columns; ++j) {
            fragment<float>& right = b[j * Depth + step];
            float x = element_of<Transposed>(right, inner, column);
            float y = element_of<Transposed>(right, inner, column + 1);
            #pragma unroll
            for (int i = 0; i < Rows; ++i) {
                vec<float, 2>& made = to[i * Columns + j].elements;
                made.v[0] = fmaf(left[i], x, made.v[0]);
                made.v[1] = fmaf(left[i], y, made.v[1]);
            }
        }
    }
}
"""


@lru_cache(maxsize=4096)
def _literal(bits: int, dtype: DType) -> tuple[Number, DType]:
    if dtype.is_float:
        return Number(_float(bits, dtype), bits), dtype
    return integer_literal(bits, dtype, _SUFFIX)


def _float(bits: int, dtype: DType) -> str:
    text = literal.text(bits, dtype)
    magnitude = text.removeprefix("-")
    if magnitude.startswith("nan("):
        return f"as_type<{_TYPES[dtype]}>({_TYPES[dtype.unsigned]}({bits}u))"
    if magnitude in ("inf", "nan"):
        word = text.replace("inf", "INFINITY").replace("nan", "NAN")
    else:
        word = f"{text}f"
    return word if dtype is f32 else f"{_TYPES[dtype]}({word})"


def _lanes(vector: Tree, lanes: Sequence[int]) -> Tree:
    if len(lanes) == 1:
        return element(vector, number(lanes[0]))
    return Call(f"lanes<{', '.join(map(str, lanes))}>", vector)


def _combined_bits(operator: str, dtype: DType) -> str:
    bits = _TYPES[dtype.unsigned]
    return f"{bits}(as_type<{bits}>(x) {operator} as_type<{bits}>(y))"


def _hardware(name: str, hardware: str) -> Helper:
    return Helper(
        name, 2, f"{{inline}} {{T}} {name}({{T}} x, {{T}} y) {{{{ return {hardware}(x, y); }}}}\n"
    )


_HELPERS = {
    **HELPERS,
    **{
        key: _hardware(key, f"{side}_or_nan")
        for side, word in (("greater", "maximum"), ("lesser", "minimum"))
        for key in (word, f"{word}_nsz")
    },
    # It is in the prologue: nothing more to define.
    "pair": Helper("pair", 1, ""),
    "add_record": Helper(
        "add_record",
        7,
        """\
// Adds a record to the report; see iris.codegen.source.Source.
INLINE void add_record(u32* report, u32 site, u32 program, u32 thread_index, u32 part = 0,
                       i32 place = 0, u64 bits = 0) {{
    u32 at = atomicAdd(report, 8u);
    if (at >= report[1]) return;
    u32* record = report + 2 + at;
    record[0] = site;
    record[1] = program;
    record[2] = thread_index;
    record[3] = part;
    record[4] = u32(place);
    record[5] = u32(bits);
    record[6] = u32(bits >> 32);
    record[7] = 0;
}}
""",
    ),
}


def _exactly(name: str) -> Intrinsic:
    return Intrinsic(f"exactly_{name}", f"exactly_{name}")


_KEYWORDS = """
NULL INFINITY NAN INLINE BINARY ARITHMETIC FLOATS LANES1 LANES2 ATOMIC ROWS MULTIPLY
i8 i16 i32 i64 u8 u16 u32 u64 half half2 bfloat uint3 dim3 threadIdx blockIdx blockDim gridDim
warpSize
"""
_FUNCTIONS = """
as_type to_i16 widened converted vec packed lanes each just just_of seen unit magnitude to_floor
to_ceil to_even greater lesser greater_number lesser_number greater_or_nan lesser_or_nan
multiply_add unsigned_of unknown difference add_saturated choose
exchange_with from_lane atomic_add atomic_max atomic_min
atomic_and atomic_or atomic_xor atomic_exchange atomic_load atomic_compare_exchange fragment pair
filled lane_of thread_of exchange_with_lane from_lane_of bits_of transposed copy wait_copies
load_rows place_in_a multiply multiply_all element_of exactly_exp exactly_exp2 exactly_sqrt
exactly_rsqrt exactly_sin exactly_cos exactly_log exactly_log2 exactly_tanh exactly_pow nearly_exp
nearly_exp2 nearly_sqrt nearly_rsqrt nearly_sin nearly_cos coarsely_exp coarsely_exp2 power_of_e
power_of_2 quotient memcpy fmaf
fmodf abs floor fma isinf copysign error_function
fma_bfloat floor_divide floor_modulo maxnum minnum maximum minimum maximum_nsz minimum_nsz
add_record Params p programs program_among shared_bytes
"""


def _of_matrices(language: Language) -> Language:
    """Lanes are numbered as the hardware's products want it."""
    lane = "const u16 {name} = lane_of(threadIdx.x & 31)"
    index = "const u16 {name} = (threadIdx.x & ~31) | lane_of(threadIdx.x & 31)"
    return replace(
        language,
        positions={
            **language.positions,
            "lane": Position(lane, u16),
            "thread_index": Position(index, u16),
        },
        shuffle="from_lane_of",
        shuffle_xor="exchange_with_lane",
        broadcast="from_lane_of",
        of_matrices=lambda language: language,
    )


CUDA = Language(
    name="CUDA C++",
    version=(12, 0),
    fence_version=(12, 0),
    prologue=_PROLOGUE,
    exact_pragma="",
    types=_TYPES,
    vector="vec<{type}, {lanes}>",
    packed="packed<{type}, {lanes}>",
    atomic="{type}",
    aligned="alignas(16)",
    word=u32,
    literal=_literal,
    lanes=_lanes,
    bitcast="as_type<{type}>",
    device="",
    volatile="seen<{type}>",
    coherent="",
    shared="__shared__",
    shared_pointer="",
    arena="shared_bytes",
    matrix="fragment<{type}>",
    filled="filled<{type}>",
    pair="pair",
    load_rows="load_rows<{count}, {transposed}>",
    multiply="multiply_all<{rows}, {columns}, {depth}, {transposed}>",
    multiplies_arrays=True,
    of_matrices=_of_matrices,
    of_tensors=None,
    kernel="__global__ void __launch_bounds__({threads}{residents}) {name}(",
    residents=", {count}",
    array="{type}* {alone}{name}",
    alone="__restrict__ ",
    constants="const Params p",
    constants_name="p",
    report="u32* {name}",
    grid="const uint3 programs",
    positions_are_parameters=False,
    positions={
        "tid": Position("const uint3 {name} = program_among(programs)", u32),
        "grid": Position("const uint3 {name} = programs", u32),
        "lane": Position("const u16 {name} = threadIdx.x & 31", u16),
        "simdgroup": Position("const u16 {name} = threadIdx.x >> 5", u16),
        "thread_index": Position("const u16 {name} = threadIdx.x", u16),
    },
    intrinsics={
        **{
            op: Intrinsic(f"exactly_{op.name}", f"nearly_{op.name}", f"coarsely_{op.name}")
            for op in (math.Exp, math.Exp2)
        },
        **{
            op: Intrinsic(f"exactly_{op.name}", f"nearly_{op.name}")
            for op in (math.Sqrt, math.Rsqrt, math.Sin, math.Cos)
        },
        **{op: _exactly(op.name) for op in (math.Log, math.Log2, math.Tanh, math.Pow)},
        math.Floor: Intrinsic("to_floor", "to_floor"),
        math.Ceil: Intrinsic("to_ceil", "to_ceil"),
        math.Round: Intrinsic("to_even", "to_even"),
        math.MaxNum: Intrinsic("greater_number", "greater_number"),
        math.MinNum: Intrinsic("lesser_number", "lesser_number"),
        math.Fma: Intrinsic("multiply_add", "multiply_add"),
    },
    narrowing={i16: "to_i16"},
    widening={i32: "widened"},
    fmod="fmodf",
    quotient="quotient",
    absolute="magnitude",
    distance="difference",
    greater="greater",
    lesser="lesser",
    select="choose",
    add_saturated="add_saturated",
    shuffle="from_lane",
    shuffle_xor="exchange_with",
    broadcast="from_lane",
    inline="INLINE",
    helpers=_HELPERS,
    combined_bits=_combined_bits,
    unroll="#pragma unroll",
    copy="copy<{bytes}>",
    wait_copies="wait_copies<{latest}>()",
    barriers={
        Scope.SIMDGROUP: "__syncwarp()",
        Scope.THREADGROUP: "__syncthreads()",
        Scope.DEVICE: "__syncthreads()",
    },
    fence="__threadfence()",
    atomics={kind: f"atomic_{kind.value}" for kind in AtomicKind},
    atomic_load="atomic_load",
    compare_exchange="atomic_compare_exchange",
    order=(),
    keywords=frozenset((KEYWORDS + _KEYWORDS).split()),
    functions=frozenset(_FUNCTIONS.split()),
)
