"""What CUDA declares for every file, as far as kernels by thread have it; and no more than that."""

from __future__ import annotations

#: Headers that a file may include, which say nothing beyond the prelude.
HEADERS = (
    *("cuda.h", "cuda_runtime.h", "cuda_runtime_api.h", "device_launch_parameters.h"),
    *("cuda_fp16.h", "cuda_bf16.h", "cooperative_groups.h", "cooperative_groups/reduce.h"),
    *("math_constants.h", "helper_cuda.h", "helper_functions.h", "helper_timer.h"),
    *("assert.h", "ctype.h", "errno.h", "float.h", "limits.h", "math.h", "memory.h", "stdbool.h"),
    *("stdint.h", "stddef.h", "stdio.h", "stdlib.h", "string.h", "time.h", "unistd.h"),
    *("algorithm", "array", "cassert", "cfloat", "chrono", "climits", "cmath", "cstddef"),
    *("cstdint", "cstdio", "cstdlib", "cstring", "ctime", "fstream", "functional", "iomanip"),
    *("iostream", "limits", "map", "memory", "numeric", "random", "sstream", "stdexcept"),
    *("string", "tuple", "type_traits", "utility", "vector"),
)

_ELEMENTS = {
    "char": "signed char",
    "uchar": "unsigned char",
    "short": "short",
    "ushort": "unsigned short",
    "int": "int",
    "uint": "unsigned int",
    "float": "float",
    "long": "long",
    "ulong": "unsigned long",
}
#: The struct types that are vectors: the word for their scalars, and how many these are.
VECTORS = {
    **{f"{word}{n}": (word, n) for word in _ELEMENTS for n in (2, 3, 4)},
    "half2": ("half", 2),
    "__nv_bfloat162": ("bfloat", 2),
}
#: Those that a kernel knows of where it is.
POSITIONS = ("threadIdx", "blockIdx", "blockDim", "gridDim")
UNARY = (
    *("sqrt", "rsqrt", "exp", "exp2", "log", "log2", "sin", "cos", "tanh", "erf", "floor", "ceil"),
    *("fabs", "rint", "trunc", "sinh", "cosh", "asin", "acos", "atan", "tan", "asinh", "acosh"),
    *("atanh", "log10", "log1p", "expm1", "cbrt"),
)
#: Of two numbers, taken from formulas.
BINARY = ("atan2", "hypot", "copysign")
_FAST = ("exp", "log", "log2", "log10", "sin", "cos", "tan")


def _vectors() -> str:
    lines = []
    for name, (word, n) in VECTORS.items():
        element = {"half": "half", "bfloat": "__nv_bfloat16"}.get(word) or _ELEMENTS[word]
        fields = ", ".join("xyzw"[:n])
        given = ", ".join(f"{element} {field}" for field in "xyzw"[:n])
        lines.append(f"struct {name} {{ {element} {fields}; }};")
        lines.append(f"__device__ __host__ {name} make_{name}({given});")
    return "\n".join(lines)


def _math() -> str:
    lines = [f"__device__ float {name}f(float); __device__ float {name}(float);" for name in UNARY]
    lines += [f"__device__ float __{name}f(float);" for name in _FAST]
    for name in ("fmax", "fmin", "pow", *BINARY):
        lines.append(f"__device__ float {name}f(float, float);")
        lines.append(f"__device__ float {name}(float, float);")
    for name in ("max", "min"):
        for type_ in ("int", "unsigned", "long", "unsigned long", "float"):
            lines.append(f"__device__ {type_} {name}({type_}, {type_});")
    return "\n".join(lines)


#: Suffixes of atomics, which name their scope.  All are done at the scope of the whole GPU.
SCOPES = ("", "_block", "_system")


def _atomics() -> str:
    wide = ("unsigned long long", "double")  # which are refused
    lines = []
    for scope in SCOPES:
        for name in ("Add", "Sub", "Max", "Min", "And", "Or", "Xor", "Exch"):
            floats = ("float",) if name in ("Add", "Exch") else ()
            for type_ in ("int", "unsigned", *floats, *wide):
                lines.append(f"__device__ {type_} atomic{name}{scope}({type_}*, {type_});")
        for type_ in ("int", "unsigned", *wide[:1]):
            lines.append(f"__device__ {type_} atomicCAS{scope}({type_}*, {type_}, {type_});")
    return "\n".join(lines)


_SHUFFLES = "\n".join(
    f"template <typename T> __device__ T {name}(unsigned mask, T x, int lane, int width = 32);"
    for name in ("__shfl_sync", "__shfl_up_sync", "__shfl_down_sync", "__shfl_xor_sync")
)

#: Loads and stores that say which caches they use.
LOADS, STORES = ("__ldg", "__ldcs", "__ldcg", "__ldca"), ("__stcs", "__stcg", "__stwb")
TEXTURES = tuple(f"tex{n}" for n in ("1D", "1Dfetch", "2D", "3D", "Cubemap", "2DLayered", "2DLod"))
_TEXTURES = "\n".join(
    f"template <typename T, typename... A> __device__ T {name}(cudaTextureObject_t, A...);"
    for name in TEXTURES
)
_CACHED = "\n".join(
    [f"template <typename T> __device__ T {name}(const T*);" for name in LOADS]
    + [f"template <typename T> __device__ void {name}(T*, T);" for name in STORES]
)

TEXT = f"""\
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __managed__ __attribute__((managed))
#define __launch_bounds__(...)
#define __forceinline__ __inline__
#define __noinline__
#define __align__(n) __attribute__((aligned(n)))
#define assert(condition) ((void)0)
#define __builtin_assume(condition) ((void)0)
#define __builtin_assume_aligned(pointer, ...) (pointer)
#define NULL nullptr
#define NAN __uint_as_float(0x7fc00000u)
#define CUDART_NAN_F NAN
#define CUDART_INF_F __builtin_huge_valf()
#define INFINITY __builtin_huge_valf()
#define FLT_MAX 3.402823466e+38f
#define FLT_MIN 1.175494351e-38f
#define INT_MAX 2147483647
#define INT_MIN (-INT_MAX - 1)
#define UINT_MAX 4294967295u
#define FLT_EPSILON 1.192092896e-07f
#define M_PI 3.14159265358979323846
#define M_PI_F 3.14159274f
typedef unsigned long size_t; typedef long ptrdiff_t; typedef long ssize_t;
typedef unsigned long uintptr_t; typedef long intptr_t;
typedef signed char int8_t; typedef unsigned char uint8_t;
typedef short int16_t; typedef unsigned short uint16_t;
typedef int int32_t; typedef unsigned int uint32_t;
typedef long int64_t; typedef unsigned long uint64_t;
typedef unsigned char uchar; typedef unsigned short ushort;
typedef unsigned int uint; typedef unsigned long ulong;
typedef _Float16 half; typedef _Float16 __half;
typedef __bf16 __nv_bfloat16; typedef __bf16 nv_bfloat16;
{_vectors()}
typedef half2 __half2; typedef __nv_bfloat162 nv_bfloat162;
struct dim3 {{
    unsigned x, y, z;
    __host__ __device__ constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1)
        : x(x), y(y), z(z) {{}}
}};
extern const __device__ uint3 threadIdx, blockIdx;
extern const __device__ dim3 blockDim, gridDim;
const int warpSize = 32;
typedef struct cudaStream* cudaStream_t;
typedef unsigned long long cudaTextureObject_t, cudaSurfaceObject_t;
extern "C" __device__ int printf(const char*, ...);
__device__ void __trap(); __device__ long clock64(); __device__ long clock();
__device__ unsigned __activemask(); __device__ void __threadfence_block();
__device__ void __threadfence_system(); __device__ void __nanosleep(unsigned);
extern "C" int cudaConfigureCall(dim3, dim3, size_t = 0, cudaStream_t = 0);
__device__ void* memcpy(void*, const void*, size_t);
__device__ void __syncwarp(unsigned mask = 0xffffffffu);
__device__ void __threadfence();
__device__ unsigned __ballot_sync(unsigned mask, int condition);
__device__ int __any_sync(unsigned mask, int condition);
__device__ int __all_sync(unsigned mask, int condition);
__device__ int __popc(unsigned);
__device__ int abs(int);
__device__ float abs(float);
__device__ float fmaf(float, float, float); __device__ float fma(float, float, float);
__device__ float __fdividef(float, float); __device__ half __hfma(half, half, half);
__device__ float __int_as_float(int); __device__ int __float_as_int(float);
__device__ unsigned __float_as_uint(float); __device__ float __uint_as_float(unsigned);
__device__ half __float2half(float); __device__ float __half2float(half);
__device__ __nv_bfloat16 __float2bfloat16(float); __device__ float __bfloat162float(__nv_bfloat16);
{_CACHED}
{_TEXTURES}
{_SHUFFLES}
{_math()}
{_atomics()}
namespace std {{
using ::size_t; using ::uint32_t; using ::uint64_t; using ::int32_t; using ::int64_t;
template <typename T, T v> struct integral_constant {{ static constexpr T value = v; }};
template <bool v> using bool_constant = integral_constant<bool, v>;
using true_type = bool_constant<true>; using false_type = bool_constant<false>;
template <typename A, typename B> struct is_same {{ static constexpr bool value = false; }};
template <typename A> struct is_same<A, A> {{ static constexpr bool value = true; }};
template <typename A, typename B> constexpr bool is_same_v = is_same<A, B>::value;
template <bool, typename T = void> struct enable_if {{}};
template <typename T> struct enable_if<true, T> {{ typedef T type; }};
template <bool, typename A, typename B> struct conditional {{ typedef A type; }};
template <typename A, typename B> struct conditional<false, A, B> {{ typedef B type; }};
}}
namespace cooperative_groups {{
struct thread_block {{
    __device__ void sync() const; __device__ unsigned thread_rank() const;
    __device__ unsigned size() const; __device__ unsigned num_threads() const;
    __device__ dim3 group_index() const; __device__ dim3 thread_index() const;
}};
template <unsigned N, typename Parent = void> struct thread_block_tile {{
    __device__ void sync() const; __device__ unsigned thread_rank() const;
    __device__ unsigned size() const; __device__ unsigned num_threads() const;
    __device__ unsigned meta_group_rank() const; __device__ unsigned meta_group_size() const;
    template <typename T> __device__ T shfl(T x, int lane) const;
    template <typename T> __device__ T shfl_up(T x, unsigned delta) const;
    template <typename T> __device__ T shfl_down(T x, unsigned delta) const;
    template <typename T> __device__ T shfl_xor(T x, unsigned mask) const;
    __device__ unsigned ballot(int condition) const;
    __device__ int any(int condition) const; __device__ int all(int condition) const;
}};
struct grid_group {{
    __device__ void sync() const; __device__ unsigned long thread_rank() const;
    __device__ unsigned long size() const; __device__ unsigned long num_threads() const;
}};
struct coalesced_group {{
    __device__ void sync() const; __device__ unsigned thread_rank() const;
    __device__ unsigned size() const; __device__ unsigned num_threads() const;
    template <typename T> __device__ T shfl(T x, int lane) const;
}};
__device__ grid_group this_grid(); __device__ coalesced_group coalesced_threads();
template <typename T> struct plus {{ __device__ T operator()(T, T) const; }};
template <typename T> struct less {{ __device__ T operator()(T, T) const; }};
template <typename T> struct greater {{ __device__ T operator()(T, T) const; }};
template <typename T> struct bit_and {{ __device__ T operator()(T, T) const; }};
template <typename T> struct bit_or {{ __device__ T operator()(T, T) const; }};
template <typename T> struct bit_xor {{ __device__ T operator()(T, T) const; }};
__device__ thread_block this_thread_block();
template <unsigned N, typename G> __device__ thread_block_tile<N> tiled_partition(const G&);
template <typename G> __device__ void sync(const G&);
template <typename G, typename T, typename O> __device__ T reduce(const G&, T x, O by) {{
    return by(x, x);  // so that the operator of a template has a body
}}
}}
"""
