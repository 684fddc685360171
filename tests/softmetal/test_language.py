# ruff: noqa: E501  (MSL in strings)
"""The language: what kernels in the wild use of it, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from msl import Failure, Kernels, Library, MathMode

HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
IDS = "uint i [[thread_position_in_grid]]"


def test_vectors() -> None:
    library = Library.compile(
        HEAD
        + """
kernel void k(device const float4* X [[buffer(0)]], device float4* Y [[buffer(1)]],
              device int* Z [[buffer(2)]], uint i [[thread_position_in_grid]]) {
    float4 x = X[i];
    x.zw = x.xy * 2;
    x.yx = x.xy;
    x.w += x.rgba[0];
    Y[i * 2] = x.wzyx + float4(1, float2(2, 3), 4);
    bool4 negative = X[i] < 0;
    Y[i * 2 + 1] = float4(negative) + select(x, float4(0), negative);
    Y[i * 2 + 1].x += all(negative) ? 100.0 : any(negative) ? 10.0 : 0.0;
    int4 n = int4(X[i]);
    n <<= 2;
    n = n | 1;
    Z[i] = dot(float4(n), float4(1.0f)) + (n == int4(1)).x;
}
"""
    )
    x = np.array([[1, -2, 3, 4], [-1, -2, -3, -4], [0, 2, 0, 0]], np.float32)
    y, z = np.zeros((6, 4), np.float32), np.zeros(3, np.int32)
    library.run("k", [x, y, z], 3, 3)
    for row, at in zip(x, range(3), strict=True):
        v = row.copy()
        v[2:] = v[:2] * 2
        v[[1, 0]] = v[[0, 1]]
        v[3] += v[0]
        assert (y[at * 2] == v[::-1] + np.array([1, 2, 3, 4])).all()
        negative = row < 0
        want = negative + np.where(negative, 0, v)
        want[0] += 100 if negative.all() else 10 if negative.any() else 0
        assert (y[at * 2 + 1] == want).all()
        n = row.astype(np.int32) << 2 | 1
        assert z[at] == n.sum() + (n[0] == 1)


@pytest.mark.parametrize("element", ["half", "bfloat"])
def test_short_floats_round_after_each_operation(element: str) -> None:
    library = Library.compile(
        HEAD
        + f"""
// Processors that calculate with half may round `x * y + z` once.
#pragma METAL fp contract(off)
typedef {element} T;
kernel void k(device const T* X, device const T* Y, device T* Z, {IDS}) {{
    vec<T, 2> v = vec<T, 2>(X[i], Y[i]);
    Z[i * 3] = X[i] * Y[i] + X[i];
    Z[i * 3 + 1] = (v * v.yx + v).x;
    Z[i * 3 + 2] = T(float(X[i]) / 3.0) + T(1.0{"h" if element == "half" else "bf"});
}}
"""
    )
    rng = np.random.default_rng(0)
    wide = rng.normal(size=(2, 1000)).astype(np.float32)

    def rounded(x: np.ndarray) -> np.ndarray:
        if element == "half":
            return x.astype(np.float16).astype(np.float32)
        bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)

    def stored(x: np.ndarray) -> np.ndarray:
        if element == "half":
            return x.astype(np.float16)
        return (x.view(np.uint32) >> 16).astype(np.uint16)

    x, y = rounded(wide)
    z = np.zeros((1000, 3), np.uint16)
    library.run("k", [stored(x), stored(y), z], 1000, 100)
    once = rounded(rounded(x * y) + x)
    third = rounded(rounded(x / np.float32(3)) + np.float32(1))
    assert (z[:, 0] == stored(once).view(np.uint16)).all()
    assert (z[:, 1] == z[:, 0]).all()
    assert (z[:, 2] == stored(third).view(np.uint16)).all()


def test_templates_instances_and_macros() -> None:
    library = Library.compile(
        """
#include <metal_stdlib>
#include <metal_simdgroup>
using namespace metal;
#define SCALE 3
#define instantiate(name, type, n) \\
    template [[host_name(#name "_" #type)]] [[kernel]] decltype(scaled<type, n>) scaled<type, n>;
#if __METAL_VERSION__ >= 310
constant constexpr int bonus = 1;
#else
constant constexpr int bonus = 1000;
#endif

namespace detail {
template <typename T> struct Times {
    static constexpr constant int factor = SCALE;
    METAL_FUNC T operator()(T x) { return x * T(factor); }
};
}

template <typename T, int N = 2>
[[kernel]] void scaled(device const T* x [[buffer(0)]], device T* y [[buffer(1)]],
                       constant const int& n [[buffer(2)]], uint3 at [[thread_position_in_grid]]) {
    threadgroup T shared[N * 32];
    detail::Times<T> times;
    shared[at.x % (N * 32)] = times(x[at.x]);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (int(at.x) < n) y[at.x] = shared[at.x % (N * 32)] + T(N) + T(bonus);
}
instantiate(scaled, float, 1)
instantiate(scaled, int, 4)
template [[host_name("spelt")]] [[kernel]] void scaled<short, 2>(
    device const short* x [[buffer(0)]], device short* y [[buffer(1)]],
    constant const int& n [[buffer(2)]], uint3 at [[thread_position_in_grid]]);
typedef decltype(scaled<char, 1>) named;
template [[host_name("named")]] kernel named scaled<char, 1>;
"""
    )
    assert library.names == ["scaled_float", "scaled_int", "spelt", "named"]
    assert [library.threadgroup_bytes(n) for n in library.names] == [128, 512, 128, 32]
    count = np.array([30], np.int32)
    for name, dtype, n in (
        ("scaled_float", np.float32, 1),
        ("scaled_int", np.int32, 4),
        ("spelt", np.int16, 2),
        ("named", np.int8, 1),
    ):
        x, y = np.arange(32).astype(dtype), np.zeros(32, dtype)
        library.run(name, [x, y, count], 32, 32)
        assert (y[:30] == x[:30] * 3 + n + 1).all() and (y[30:] == 0).all()


def test_function_constants() -> None:
    library = Library.compile(
        HEAD
        + """
constant int factor [[function_constant(0)]];
constant bool has_bias [[function_constant(1)]];
constant float2 pair [[function_constant(2)]];
constant float shift = is_function_constant_defined(pair) ? pair.y : 7.0f;
kernel void k(device float* x [[buffer(0)]],
              device const float* bias [[buffer(1), function_constant(has_bias)]],
              uint i [[thread_position_in_grid]]) {
    float v = x[i] * factor + shift;
    if (has_bias) v += bias[i];
    x[i] = v;
}
"""
    )
    x, bias = np.arange(8, dtype=np.float32), np.arange(8, dtype=np.float32) * 10
    one = library.specialize(factor=("i", np.int32(-3)), has_bias=("b", np.uint8(0)))
    assert [a.active for a in one.arguments("k")] == [1, 0, 1]
    y = x.copy()
    one.run("k", [y], 8, 8)
    assert (y == x * -3 + 7).all()
    two = library.specialize(
        factor=("i", np.int32(2)), has_bias=("b", np.uint8(1)), pair=("f", np.float32([1, 0.5]))
    )
    with pytest.raises(Failure, match=r"buffer 1 \(bias\) is not bound"):
        two.run("k", [x.copy()], 8, 8)
    y = x.copy()
    two.run("k", [y, bias], 8, 8)
    assert (y == x * 2 + 0.5 + bias).all()


def test_threadgroup_arguments_and_pointers() -> None:
    library = Library.compile(
        HEAD
        + """
struct Pair { float first; int second; };
inline float total(threadgroup const float* from, uint n) {
    float made = 0;
    for (uint i = 0; i < n; ++i) made += from[i];
    return made;
}
kernel void k(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
              threadgroup float* floats [[threadgroup(0)]], threadgroup Pair* pairs [[threadgroup(1)]],
              ushort lid [[thread_position_in_threadgroup]], uint group [[threadgroup_position_in_grid]],
              uint n [[threads_per_threadgroup]]) {
    threadgroup float matrix[2][4], single;
    threadgroup atomic_int count;
    threadgroup float* alias = floats;
    if (lid == 0) atomic_store_explicit(&count, 0, memory_order_relaxed);
    alias[lid] = x[group * n + lid];
    pairs[lid] = {floats[lid], lid};
    matrix[lid / 4 % 2][lid % 4] = 1.0f;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    atomic_fetch_add_explicit(&count, pairs[n - 1 - lid].second, memory_order_relaxed);
    if (lid == 0) single = total(floats, n);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    y[group * n + lid] = single + matrix[1][3] + atomic_load_explicit(&count, memory_order_relaxed);
}
"""
    )
    x, y = np.arange(80, dtype=np.float32), np.zeros(80, np.float32)
    assert library.threadgroup_bytes("k") == 32 + 4 + 12 + 4
    library.run("k", [x, y], 80, 16, threadgroup_bytes=[64, 128])
    assert (y.reshape(5, 16) == x.reshape(5, 16).sum(1, keepdims=True) + 1 + 120).all()
    with pytest.raises(Failure, match=r"threadgroup memory 1 \(pairs\) has no length"):
        library.run("k", [x, y], 80, 16, threadgroup_bytes=[64])


def test_constant_tables_structs_and_packed_vectors() -> None:
    library = Library.compile(
        HEAD
        + """
constant float table[4] = {1.0, 2.0, 4.0, 8.0};
constant static const float2 pairs[] = {float2(1, 2), {3, 4}};
struct Inner { packed_float3 direction; uint count; };
struct Params { Inner inner[2]; array<int, 3> more; ulong wide; };
static_assert(sizeof(Inner) == 16 && sizeof(Params) == 56, "laid out as in C");
kernel void k(constant Params& p [[buffer(0)]], device packed_float3* y [[buffer(1)]], uint2 at [[thread_position_in_grid]],
              uint2 size [[threads_per_grid]]) {
    float3 v = p.inner[at.y].direction;
    y[at.y * size.x + at.x] = v * table[at.x] + p.inner[at.y].count + pairs[1].y + p.more[2] + p.wide;
}
"""
    )
    params = np.zeros(56, np.uint8)
    params[:32].view(np.float32)[:] = [1, 2, 3, 0, 4, 5, 6, 0]
    params[:32].view(np.uint32)[[3, 7]] = [10, 20]
    params[32:44].view(np.int32)[:] = [0, 0, 100]
    params[48:].view(np.uint64)[0] = 1000
    y = np.zeros((2, 4, 3), np.float32)
    library.run("k", [params, y], (4, 2), (2, 1))
    scale = np.array([1, 2, 4, 8])[None, :, None]
    vectors = np.array([[1, 2, 3], [4, 5, 6]])[:, None, :]
    assert (y == vectors * scale + np.array([10, 20])[:, None, None] + 1104).all()


def test_pointers_under_names_of_templates_need_no_attribute() -> None:
    library = Library.compile(
        """
#include <metal_stdlib>
using namespace metal;
template <typename T> using Out = device T*;
template <typename T> using In = constant T&;
template <typename T> kernel void k(Out<T> y, In<T> x, uint i [[thread_position_in_grid]]) { y[i] = x + i; }
template [[host_name("ints")]] kernel void k<int>(Out<int>, In<int>, uint);
"""
    )
    y = np.zeros(4, np.int32)
    library.run("ints", [y, np.array([5], np.int32)], 4, 4)
    assert y.tolist() == [5, 6, 7, 8]


def test_idioms() -> None:
    library = Library.compile(
        """
#include <metal_stdlib>
#pragma clang diagnostic ignored "-Wunused"
#define FOR_UNROLL(x) _Pragma("clang loop unroll(full)") for (x)
using namespace metal;
typedef half float16_t;
enum class Mode : uchar { plain, twice };
template <typename T, uint N> struct Tile {
    T values[N];
    METAL_FUNC void load(const device T* from, thread T (&extra)[2]) thread {
        FOR_UNROLL (uint i = 0; i < N; ++i) values[i] = from[i];
        extra[0] = values[N - 1];
    }
    METAL_FUNC thread T& at(uint i) thread { return values[i]; }
};
template <typename U> METAL_FUNC U largest() { return metal::numeric_limits<U>::max(); }
static inline float4 scaled(const float4 v, thread const Mode& mode) { return mode == Mode::twice ? v * 2 : v; }

[[kernel, max_total_threads_per_threadgroup(64)]] void k(
    device const void* raw, device float* y, constant uint2 & size,
    const ushort2 at [[thread_position_in_threadgroup]], const uint tiitg [[thread_index_in_threadgroup]])
{
    device const float* x = (device const float*)((device const char*)raw + 4 * 4 * tiitg);
    Tile<float, 4> tile;
    float extra[2];
    tile.load(x, extra);
    tile.at(1) += extra[0];
    float4x4 m = float4x4(2.0f);
    m[0][3] = 1;
    const float4 v = m * float4(tile.values[0], tile.at(1), x[2], x[3]);
    auto f = [&](float4 u) { return scaled(u, Mode::twice); };
    const float4 w = metal::precise::sqrt(metal::abs(f(v)));
    *(device float4*)(y + 4 * tiitg) = w.xyzw + (largest<half>() == 65504 ? 0 : 1) + (float16_t)size.y;
    if (tiitg == 0xFFFF || isnan(w.x)) return;
}
"""
    )
    x, y = np.arange(32, dtype=np.float32).reshape(8, 4), np.zeros((8, 4), np.float32)
    library.run("k", [x, y, np.array([8, 3], np.uint32)], 8, 8)
    v = x.copy()
    v[:, 1] += v[:, 3]
    v = v * 2
    v[:, 3] += x[:, 0]
    np.testing.assert_allclose(y, np.sqrt(v * 2) + 3, rtol=1e-6)
    assert [a.index for a in library.arguments("k")[:3]] == [0, 1, 2]


def test_where_a_thread_is() -> None:
    names = {
        "thread_position_in_grid": 3, "thread_position_in_threadgroup": 3, "threads_per_threadgroup": 3,
        "threadgroup_position_in_grid": 3, "threads_per_grid": 3, "threadgroups_per_grid": 3,
        "thread_index_in_threadgroup": 1, "thread_index_in_simdgroup": 1,
        "simdgroup_index_in_threadgroup": 1, "simdgroups_per_threadgroup": 1, "threads_per_simdgroup": 1,
    }  # fmt: skip
    parameters = "".join(
        f", {'uint3' if n == 3 else 'ushort'} v{i} [[{name}]]"
        for i, (name, n) in enumerate(names.items())
    )
    stores = "".join(
        f"o[{i}] = {f'v{i}.x | v{i}.y << 8 | v{i}.z << 16' if n == 3 else f'v{i}'};"
        for i, (_, n) in enumerate(names.items())
    )
    library = Library.compile(
        HEAD + f"kernel void k(device uint* out [[buffer(0)]]{parameters}) {{"
        f"device uint* o = out + ((v0.z * 6 + v0.y) * 9 + v0.x) * 11; {stores} }}"
    )
    out = np.zeros((2, 6, 9, 11), np.uint32)
    library.run("k", [out], (9, 6, 2), (4, 3, 2))
    for z, y, x in np.ndindex(2, 6, 9):
        width = 4 if x < 8 else 1
        index = (z * 3 + y % 3) * width + x % 4

        def packed(a: int, b: int, c: int) -> int:
            return a | b << 8 | c << 16

        assert list(out[z, y, x]) == [
            packed(x, y, z), packed(x % 4, y % 3, z), packed(width, 3, 2), packed(x // 4, y // 3, 0),
            packed(9, 6, 2), packed(3, 2, 1), index, index % 32, index // 32,
            (width * 6 + 31) // 32, 32,
        ]  # fmt: skip


FUNCTIONS = {
    "addsat(int(x), 2000000000)": lambda x: np.minimum(x + 2000000000, 2**31 - 1),
    "clz(uint(x))": lambda x: np.array([32 - int(v % 2**32).bit_length() for v in x]),
    "popcount(uint(x))": lambda x: np.array([int(v % 2**32).bit_count() for v in x]),
    "abs(int(x))": np.abs,
    "clamp(int(x), -5, 5)": lambda x: np.clip(x, -5, 5),
    "mulhi(int(x), 1000000000)": lambda x: x * 1000000000 >> 32,
    "rotate(uint(x), 8u)": lambda x: (x << 8 | (x % 2**32) >> 24) % 2**32,
    "reverse_bits(uint(x))": lambda x: np.array([int(f"{v % 2**32:032b}"[::-1], 2) for v in x]),
    "absdiff(int(x), 7)": lambda x: np.abs(x - 7),
    "extract_bits(int(x), 4, 8)": lambda x: (x >> 4 & 255 ^ 128) - 128,
    "as_type<int>(as_type<float>(int(x)))": lambda x: x,
    "long(max(ushort(x), ushort(9)))": lambda x: np.maximum(x % 65536, 9),
    "select(1, 2, x > 3)": lambda x: np.where(x > 3, 2, 1),
    "long(float(x) * 0.1f)": lambda x: (x.astype(np.float32) * np.float32(0.1)).astype(np.int64),
    "long(rint(float(x) * 0.5))": lambda x: np.rint(x.astype(np.float32) / 2).astype(np.int64),
    "long(isnan(float(x) * NAN)) + isinf(INFINITY)": lambda x: x * 0 + 2,
    "long(sign(float(x)) * 2 + fmax(NAN, 3.0f))": lambda x: np.sign(x) * 2 + 3,
}
KERNELS = Kernels(
    HEAD,
    lambda name, expression: (
        f"kernel void {name}(device long* X, {IDS}) {{ long x = X[i]; X[i] = {expression}; }}"
    ),
    FUNCTIONS,
)


@pytest.mark.parametrize("expression", FUNCTIONS)
def test_functions(expression: str) -> None:
    x = np.array([0, 1, -1, 2, 7, -100, 12345, 2**31 - 1, -(2**31), 2**30 + 77], np.int64)
    y = x.copy()
    KERNELS.run(expression, [y], len(x), 4)
    np.testing.assert_array_equal(y % 2**32, FUNCTIONS[expression](x) % 2**32)


def test_overloads_that_do_different_things_by_address_space() -> None:
    library = Library.compile(
        HEAD
        + """
int f(device int* p);
int f(thread int* p, int n);
int f(device int* p) { return 1 + p[0]; }
int f(threadgroup int* q) { return 2 + q[0]; }
int f(thread int* p) { return 3 + p[0]; }
int f(thread int* p, int n) { return n; }
namespace inner {
template <typename T, int N, typename = enable_if_t<is_integral_v<T>>> T g(const device T& p, int n = 5) { return p + N + n; }
template <typename T, int N, typename = enable_if_t<is_integral_v<T>>> T g(const threadgroup T& r, int n = 5) { return r + 2 * N + n; }
}
template <typename T> struct Holder {
    T x;
    int where() device { return 1; }
    int where() threadgroup { return 2; }
    int where() thread { return 3; }
    template <typename U> U plus(const device U* u) thread { return x + u[0]; }
    template <typename U> U plus(const threadgroup U* u) thread { return x - u[0]; }
    T same(const device T* p) const thread { return *p; }
    T same(const threadgroup T* q) const thread { return *q; }
};
kernel void k(device int* x, device Holder<int>* h, device int* y) {
    threadgroup int a[1];
    threadgroup Holder<int> th;
    a[0] = 10;
    int b[1] = {20};
    Holder<int> mine = {7};
    y[0] = f(x) * 10000 + f(a) * 100 + f(b) + f(b, 0);
    y[1] = inner::g<int, 100>(x[0]) * 1000 + inner::g<int, 100>(a[0], 1);
    y[2] = h->where() * 100 + th.where() * 10 + mine.where();
    y[3] = mine.plus(x) * 1000 + mine.plus(a) + mine.same(x) + mine.same(a);
}
"""
    )
    x, h, y = np.array([4], np.int32), np.zeros(1, np.int32), np.zeros(4, np.int32)
    library.run("k", [x, h, y], 1, 1)
    assert list(y) == [51223, 109211, 123, 11000 - 3 + 14]


MORE = [
    "packed_float3 p = packed_float3(1, 2, 3); p.xy = float2(5, 6); float2 q = p.xz; p += float3(1);"
    "X[0] = p.x * 100 + p.y * 10 + q.y; X[1] = p.zyx.y + p[2] + (-p).x + dot(p, p) + length(packed_float3(0, 3, 4));"
    "want(673, 7 + 4 - 6 + 36 + 49 + 16 + 5);",
    "float2x2 m = float2x2(1, 2, 3, 4); m *= 2; m = -m; const float2x2 t = {{1, 2}, {3, 4}}; m += t; m = m / 2;"
    "float4x4 q(2, 1, 0, 0, 1, 2, 0, 0, 5, 6, 3, 0, 7, 8, 9, 4); X[0] = determinant(q); X[1] = m[1].x + determinant(m) * 4 + (m == m) + (q != q);"
    "want(36, -1.5 - 2 + 1);",
    "float3 d = float3(1, -1, 0), n = float3(0, 1, 0); float3 r = reflect(d, n); X[0] = r.x * 10 + r.y; float3 s = refract(d, n, 1.0f);"
    "X[1] = s.y + faceforward(n, d, n).y; want(11, 0);",
    "X[0] = int(3e9f) == INT_MAX; X[1] = int(-3e9f) == INT_MIN && uint(-1.0f) == 0u && uchar(300.0f) == 255 && int(NAN) == 0; want(1, 1);",
    "ulong2 l = ulong2(1ul << 40) >> ulong2(38, 40); X[0] = l.x; X[1] = l.y + simd::float2(1, 2).y + vector_int2(3).x; want(4, 6);",
    "X[0] = is_same_v<common_type_t<int, float>, float> && conjunction_v<true_type, is_void<void>> && !is_array_v<int>; X[1] = numeric_limits<half>::digits10; want(1, 3);",
]  # fmt: skip
MORE_KERNELS = Kernels(
    f"{HEAD}#define want(a, b) W[0] = a; W[1] = b\n",
    lambda name, body: f"kernel void {name}(device float* X, device float* W) {{ {body} }}",
    MORE,
)


@pytest.mark.parametrize("body", MORE)
def test_more_of_the_library(body: str) -> None:
    x, want = np.zeros(2, np.float32), np.ones(2, np.float32)
    MORE_KERNELS.run(body, [x, want], 1, 1)
    np.testing.assert_allclose(x, want, rtol=1e-6)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("kernel void k(device float* x) {\n  x[0] = y;\n}", 4, "undeclared identifier 'y'"),
        ("void f() {\n  threadgroup float a[3];\n}", 4, "in kernels only"),
        ("kernel void k(float x) {}", 3, "needs an attribute"),
        ("kernel void k(texture2d<float> t [[texture(0)]]) {}", 3, "no [[texture]] arguments"),
        (
            "kernel void k(device float4* x) {\n\n  x[0] = int4(1);\n}",
            5,
            "no viable overloaded '='",
        ),
        ("kernel void k(device float* x {\n}", 3, "never closed"),
        ("kernel void k(device float* x) {\n  double y = 1;\n}", 4, "Metal has no double"),
        (
            "\nfloat total;\nkernel void k(device float* x) {}",
            4,
            "must reside in constant address space",
        ),
        (
            "constexpr int n = 3;\nkernel void k(device float* x) {}",
            3,
            "must reside in constant address space",
        ),
        ("int f(int);\nkernel void k(device int* x) { x[0] = f(1); }", 0, "f(int) is used but not"),
        (
            "int f(device int* p) { return 1; }\nint f(constant int* p) { return 2; }\n"
            "int f(const device int* p) { return 3; }\nkernel void k(device int* x) {}",
            5,
            "cannot tell these overloads apart",
        ),
    ],
)
def test_a_mistake_is_told_with_its_line(text: str, line: int, message: str) -> None:
    with pytest.raises(Failure) as caught:
        Library.compile(HEAD + text)
    assert message in str(caught.value)
    assert not line or f"program_source:{line}:" in str(caught.value)


MATH = (
    HEAD
    + """
{pragma}
kernel void k(device float* X [[buffer(0)]]) {{
    float x = X[0], y = X[1], big = X[2];
    X[3] = x != x;
    X[4] = isinf(y);
    X[5] = (x + big) - x;
    X[6] = big * big - (1.0f + 0x1p-11f);
}}
"""
)


@pytest.mark.parametrize("mode", MathMode)
@pytest.mark.parametrize("pragma", ["", "#pragma METAL fp contract(off)"])
def test_math_modes(mode: MathMode, pragma: str) -> None:
    """Relaxed and Fast add in any order, Fast knows no nan and no infinity; `contract(off)` alone
    has a product and a sum rounded twice."""
    library = Library.compile(MATH.format(pragma=pragma), math=mode)
    one = np.float32(1 + 2.0**-12)
    x = np.array([np.nan, np.inf, one, 0, 0, 0, 0], np.float32)
    library.run("k", [x], 1, 1)
    keeps_order = mode is MathMode.SAFE
    assert np.isnan(x[5]) == keeps_order
    if mode is not MathMode.FAST:
        assert x[3:5].tolist() == [1, 1]
    else:
        assert x[3:5].tolist() == [0, 0]
    assert x[6] == (0 if pragma else np.float32(2.0**-24))


def test_lanes_of_small_numbers_as_offsets() -> None:
    """Compilers know much about such numbers."""
    library = Library.compile(
        HEAD
        + """
kernel void k(device const int* X, device int4* Y, device int2* Z, ushort lane [[thread_index_in_simdgroup]]) {
    int4 at = int(lane) + (int4(0, 1, 2, 3) >> 1);
    int4 found;
    for (int i = 0; i < 4; ++i) found[i] = X[at[i]];
    Y[lane] = found;
    int2 both = int2(lane & 3, lane >> 2);
    Z[lane] = int2(X[both[0]], X[both[1]]);
}
"""
    )
    x = np.arange(100, 164, dtype=np.int32)
    y, z = np.zeros((32, 4), np.int32), np.zeros((32, 2), np.int32)
    library.run("k", [x, y, z], 32, 32)
    lane = np.arange(32)[:, None]
    np.testing.assert_array_equal(y, x[lane + np.arange(4) // 2])
    np.testing.assert_array_equal(z, x[np.hstack([lane & 3, lane >> 2])])
