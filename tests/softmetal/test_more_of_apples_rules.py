# ruff: noqa: E501  (MSL in strings)
"""More that Apple's compiler refuses or takes, by Metal's specification: types, memory, functions, what is bound."""

from __future__ import annotations

import re

import pytest
from msl import Library, check
from test_apples_rules import HEAD, of_lines

ARGUMENTS = (
    "device float* F [[buffer(0)]], device half* H [[buffer(1)]], device bfloat* B [[buffer(2)]],"
    " device int* I [[buffer(3)]], device uint* U [[buffer(4)]], device long* L [[buffer(5)]],"
    " device atomic_uint* A [[buffer(6)]], device atomic_float* AF [[buffer(7)]], constant float* C [[buffer(8)]],"
    " const device float* G [[buffer(9)]], uint3 gid [[thread_position_in_grid]],"
    " ushort lane [[thread_index_in_simdgroup]]"
)
VERSION = 310
MOST_ERRORS = 12  # that one check tells


def kernel(statements: list[str]) -> str:
    body = "".join(f"{{ {one} }}\n" for one in statements)
    return f"{HEAD}kernel void k({ARGUMENTS}) {{\n{body}}}\n"


# Statements, and what is said of them.
REFUSED = [
    ("float2 v = float2(1); ++v; F[0] = v.x;", "cannot increment value of type 'float2'"),
    ("half4 v = half4(1); v--; F[0] = v.x;", "cannot decrement value of type 'half4'"),
    ("bool2 v = bool2(true); v++; F[0] = v.x;", "cannot increment value of type 'bool2'"),
    ("const int2 v = int2(1); ++v; F[0] = v.x;", "cannot assign to variable 'v'"),
    ("int2 v = int2(1); v.xx++; F[0] = v.x;", "duplicate components"),
    ("bool4 b = bool4(true); b |= bool2(true); F[0] = b.x;", "no viable overloaded"),
    ("const bool4 b = bool4(true); b &= b; F[0] = b.x;", "no viable overloaded"),
    (
        "int n = I[0]; constexpr float4 v = float4(n); F[0] = v.x;",
        "must be initialized by a constant expression",
    ),
    ("bool b = bool2(true) && bool2(false); I[0] = b;", "no viable conversion"),
    (
        "half4 v = half4(1, 2, 3); H[0] = v.x;",
        "no matching constructor for initialization of 'half4'",
    ),
    ("float3 v = float2(1); F[0] = v.x;", "cannot initialize a variable of type"),
    ("float4 v = int4(1); F[0] = v.x;", "cannot initialize a variable of type"),
    (
        "int2 a = int2(1); float2 b = float2(2); F[0] = (a + b).x;",
        "cannot convert between vector values",
    ),
    ("float2 v = float2(1); v.xx = float2(2); F[0] = v.x;", "duplicate components"),
    ("float2 v = float2(1); F[0] = v.z;", "vector component access exceeds type 'float2'"),
    ("float4 v = float4(1); F[0] = v.xg.x;", "illegal vector component name 'g'"),
    (
        "float x = 1; device float* p = &x; F[0] = p[0];",
        r"cannot initialize a variable of type 'device float \*'",
    ),
    (
        "threadgroup float* p = F; F[0] = p[0];",
        r"cannot initialize a variable of type 'threadgroup float \*'",
    ),
    (
        "device float* p = C; F[0] = p[0];",
        r"cannot initialize a variable of type 'device float \*'",
    ),
    ("C[0] = 1;", "read-only variable"),
    ("G[0] = 1;", "read-only variable"),
    ("*A += 1;", "no viable overloaded"),
    (
        "atomic_fetch_add_explicit(A, 1u, memory_order_seq_cst);",
        "undeclared identifier 'memory_order_seq_cst'",
    ),
    (
        "atomic_fetch_add_explicit(I, 1, memory_order_relaxed);",
        "no matching function for call to 'atomic_fetch_add_explicit'",
    ),
    (
        "atomic_fetch_add_explicit(A, 1u);",
        "no matching function for call to 'atomic_fetch_add_explicit'",
    ),
    ("U[0] = atomic_load(A);", "undeclared identifier 'atomic_load'"),
    (
        "atomic_fetch_max_explicit(AF, 1.0f, memory_order_relaxed);",
        "no matching function for call to 'atomic_fetch_max_explicit'",
    ),
    (
        "atomic_fetch_and_explicit(AF, 1, memory_order_relaxed);",
        "no matching function for call to 'atomic_fetch_and_explicit'",
    ),
    ("F[0] = sqrt(I[0]);", "call to 'sqrt' is ambiguous"),
    ("F[0] = dot(float3(1), float4(1));", "no matching function for call to 'dot'"),
    ("F[0] = cross(float4(1), float4(1)).x;", "no matching function for call to 'cross'"),
    ("F[0] = length(int3(1));", "no matching function for call to 'length'"),
    ("F[0] = mix(F[0], F[1], H[0]);", "call to 'mix' is ambiguous"),
    ("I[0] = clamp(I[0], 0u, 10u);", "call to 'clamp' is ambiguous"),
    ("F[0] = max(F[0], 0);", "call to 'max' is ambiguous"),
    ("U[0] = max(U[0], 0);", "call to 'max' is ambiguous"),
    ("F[0] = pow(2, 3);", "call to 'pow' is ambiguous"),
    ("F[0] = fma(H[0], F[0], F[1]);", "call to 'fma' is ambiguous"),
    ("int2 v = as_type<int2>(F[0]); I[0] = v.x;", "no matching function for call to 'as_type'"),
    ("short s = as_type<short>(F[0]); I[0] = s;", "no matching function for call to 'as_type'"),
    ("uint b = simd_ballot(true); U[0] = b;", "no viable conversion from 'simd_vote'"),
    ("threadgroup_barrier();", "no matching function for call to 'threadgroup_barrier'"),
    ("threadgroup_barrier(1);", "no matching function for call to 'threadgroup_barrier'"),
    ("barrier(mem_flags::mem_device);", "undeclared identifier 'barrier'"),
    ("F[0] = F[0] % 2.0f;", "invalid operands"),
    ("F[0] = H[0] << 1;", "invalid operands"),
    ("simdgroup_float8x8 m; F[0] = m[0][0];", "does not provide a subscript"),
    (
        "simdgroup_float8x8 m; simdgroup_load(m, I, 8);",
        "no matching function for call to 'simdgroup_load'",
    ),
    ("simdgroup_float4x4 m;", "unknown type name 'simdgroup_float4x4'"),
    ("I[0] = std::max(1, 2);", "undeclared identifier 'std'"),
    ('printf("x");', "undeclared identifier 'printf'"),
    ("if (float4(1) > float4(2)) F[0] = 1;", "not contextually convertible to 'bool'"),
    ("float4 v = {1, 2, 3, 4, 5}; F[0] = v.x;", "excess elements"),
    ("uint x = {-1}; U[0] = x;", "cannot be narrowed"),
    ("int x{1.5f}; I[0] = x;", "cannot be narrowed"),
    ("enum class E { a }; int x = E::a; I[0] = x;", "cannot initialize a variable of type 'int'"),
    (
        "float3x3 m(1.0f); float4 v = m * float4(1); F[0] = v.x;",
        "cannot convert between vector and non-scalar",
    ),
    ("bfloat b = H[0]; B[0] = b;", "cannot initialize a variable of type 'bfloat'"),
    ("half h = B[0]; H[0] = h;", "cannot initialize a variable of type 'half'"),
    ("F[0] = exp(U[0]);", "call to 'exp' is ambiguous"),
    ("U[0] = popcount(F[0]);", "call to 'popcount' is ambiguous"),
    ("F[0] = rotate(F[0], 1.0f);", "call to 'rotate' is ambiguous"),
    ("F[0] = fmod(F[0], H[0]);", "call to 'fmod' is ambiguous"),
    ("F[0] = atan2(H[0], F[0]);", "call to 'atan2' is ambiguous"),
    ("simdgroup_half8x8 a; simdgroup_float8x8 b = a;", "no viable conversion"),
    ("device float4* p = F; F[0] = p[0].x;", "cannot initialize"),
    ("device int* p = F; I[0] = p[0];", "cannot initialize"),
    ("float a[2] = {1, 2}; float b[2] = a; F[0] = b[0];", "array initializer"),
    ("constexpr int n = I[0]; I[1] = n;", "must be initialized by a constant expression"),
    ("F[0] = simd_shuffle_up(F[0]);", "no matching function for call to 'simd_shuffle_up'"),
    ("F[0] = quad_shuffle(F[0] > 0, 1);", "no matching function for call to 'quad_shuffle'"),
    ("F[0] = min3(F[0], H[0], 1.0f);", "call to 'min3' is ambiguous"),
    ("I[0] = mulhi(I[0], U[0]);", "call to 'mulhi' is ambiguous"),
    ("I[0] = absdiff(I[0], 1u);", "call to 'absdiff' is ambiguous"),
    ("U[0] = extract_bits(F[0], 1, 2);", "call to 'extract_bits' is ambiguous"),
    ("I[0] = F[0] & 1;", "invalid operands"),
    ("F[0] = simd_and(F[0]);", "no matching function for call to 'simd_and'"),
    ("bool b = all(float4(1)); I[0] = b;", "no matching function for call to 'all'"),
    ("uint4 a = {I[0], I[1], I[2], I[3]}; U[0] = a.x;", "cannot be narrowed"),
    ("struct S { half h; }; S s = {F[0]}; H[0] = s.h;", "cannot be narrowed"),
    ("int a[2] = {F[0], 1}; I[0] = a[0];", "cannot be narrowed"),
    ("half4 h = float4(1); H[0] = h.x;", "cannot initialize a variable of type"),
    ("float4 v(1); v.xy = float3(1); F[0] = v.x;", "assigning to"),
    ("float4 v(1); thread float* p = &v.x; F[0] = *p;", "address of vector element"),
    ("thread float* p = &float2x2(1.0f)[0].x; F[0] = *p;", "address of vector element"),
    ("struct S { int a; }; thread S* p = &S(); I[0] = p->a;", "address of a temporary"),
    ("U[0] = A[0];", "incompatible type"),
    ("A[0] = 3u;", "no viable overloaded '='"),
    ("atomic_fetch_add_explicit(U, 1u, memory_order_relaxed);", "no matching function for call"),
    ("atomic_uint x; atomic_store_explicit(&x, 1u, memory_order_relaxed);", "no matching function"),
    ("simdgroup_float8x8 a(0), b(1); a = a + b;", "invalid operands"),
    ("simdgroup_float8x8 m; simdgroup_load(m, C, 8);", "no matching function"),
    ("simdgroup_matrix<float, 4, 4> m;", "has 8 columns and 8 rows"),
    ("simdgroup_matrix<float, 8, 16> m;", "has 8 columns and 8 rows"),
    ("atomic<half> a;", "an atomic is of int, uint, bool, ulong or float"),
    ("float4 v(1, 2, 3); F[0] = v.x;", "no matching"),
    ("float2 v = (float4)G[0]; F[0] = v.x;", "cannot initialize a variable of type"),
    ("half4 v(1, 2, 3, 4), w(1, 2); H[0] = v.x + w.x;", "no matching"),
    ("bool2 v = bool3(true); F[0] = v.x;", "no viable conversion"),
    ("bool2 v = {bool2(true), true}; F[0] = v.x;", "no matching constructor"),
    ("float2 v = float2(G, 1); F[0] = v.x;", "no matching constructor"),
    ("F[0] = vec<float, 3>(1, 2).x;", "no matching"),
    ("struct S { float x; }; device S* p = (device S*)F; int y = p[0]; I[0] = y;", "no viable"),
    (
        "struct S { float x; }; struct R { int x; }; S s = ((device R*)F)[0]; F[0] = s.x;",
        "no viable",
    ),
    ("struct S { float x; }; ((constant S*)C)[0] = S();", "no viable overloaded '='"),
    ("struct S { int f() { return 1; } }; I[0] = ((constant S*)C)[0].f();", "not marked const"),
    ("B[0] = (half)F[0];", "assigning to|incompatible|cannot"),
    ("F[0] = dot(float4(1), half4(1));", "no matching function for call to 'dot'"),
]

# Texts, and what is said of them.
TEXTS = [
    (
        "kernel void k(device float* F [[buffer(0)]], float x [[buffer(1)]]) {}",
        "'buffer' attribute only applies to pointers and references",
    ),
    (
        "kernel void k(device float* F [[buffer(0)]], float i [[thread_position_in_grid]]) {}",
        "invalid type 'float' .*thread_position_in_grid",
    ),
    (
        "kernel void k(device float* F [[buffer(0)]], ulong i [[thread_position_in_grid]]) {}",
        "invalid type 'ulong' .*thread_position_in_grid",
    ),
    ("kernel void k(device float* F [[buffer(-1)]]) {}", "'buffer' attribute .* 0 .* 30"),
    (
        "kernel void k(device float* F [[buffer(0)]], threadgroup float* s [[threadgroup(31)]]) {}",
        "'threadgroup' attribute .* 0 .* 30",
    ),
    (
        "kernel void k(threadgroup float* s [[threadgroup(0)]], threadgroup float* t [[threadgroup(0)]]) {}",
        "cannot reserve 'threadgroup' resource location at index 0",
    ),
    (
        "kernel void k(device float* F [[buffer(0)]], constant float& x [[buffer(0)]]) {}",
        "cannot reserve 'buffer' resource location at index 0",
    ),
    ("kernel void k(thread float* F [[buffer(0)]]) {}", "'buffer' attribute only applies"),
    ("kernel void k(threadgroup float* F [[buffer(0)]]) {}", "'buffer' attribute only applies"),
    (
        "kernel void k(device float* F [[threadgroup(0)]]) {}",
        "'threadgroup' attribute only applies",
    ),
    (
        "kernel void k(device float* F [[buffer(0)]], device uint* i [[thread_position_in_grid]]) {}",
        "invalid type .*thread_position_in_grid",
    ),
    ("kernel void k(device float* F [[buffer()]]) {}", "'buffer' attribute takes one argument"),
    ("kernel void k(device float* F [[buffer]]) {}", "'buffer' attribute takes one argument"),
    ("kernel void k(device float* F [[buffer(0), buffer(1)]]) {}", "'buffer' attribute follows"),
    (
        "kernel void k(device float* F [[buffer(0)]], uint i [[thread_position_in_grid, thread_index_in_simdgroup]]) {}",
        "'thread_index_in_simdgroup' attribute follows",
    ),
    (
        "constant int n [[function_constant(65536)]];\nkernel void k(device float* F [[buffer(0)]]) { F[0] = n; }",
        "'function_constant' attribute .* 0 .* 65535",
    ),
    (
        'template <typename T> kernel void f(device T* F [[buffer(0)]]) { F[0] = 1; }\ntemplate [[host_name("a")]] kernel void f<float>(device half*);',
        "cannot|does not match",
    ),
    (
        'template <typename T> kernel void f(device T* F [[buffer(0)]]) { F[0] = 1; }\ntemplate [[host_name("a")]] kernel void f<float>(device float*);\ntemplate [[host_name("a")]] kernel void f<half>(device half*);',
        "cannot be overloaded",
    ),
    (
        "kernel void k(device float* F [[buffer(0)]]) { if (F[0] > 1) { threadgroup float t[4]; F[0] = t[0]; } }",
        "outermost scope of a kernel",
    ),
    (
        "float* f(device float* x) { return 0; }",
        "pointer type must have explicit address space qualifier",
    ),
    ("using P = float*;", "pointer type must have explicit address space qualifier"),
    (
        "float g = 1;\nkernel void k(device float* F [[buffer(0)]]) { F[0] = g; }",
        "must reside in constant address space",
    ),
    (
        "threadgroup float g[4];\nkernel void k(device float* F [[buffer(0)]]) { F[0] = g[0]; }",
        "must reside in constant address space",
    ),
    (
        "static int n = 1;\nkernel void k(device int* F [[buffer(0)]]) { F[0] = n; }",
        "must reside in constant address space",
    ),
    (
        "constant float c;\nkernel void k(device float* F [[buffer(0)]]) { F[0] = c; }",
        "default initialization of an object of const type",
    ),
    (
        "#include <cmath>\nkernel void k(device float* F [[buffer(0)]]) { F[0] = 1; }",
        "file not found",
    ),
    (
        "constant int n = 2;\nkernel void k(device float* F [[buffer(0)]]) { thread int* p = &n; }",
        r"cannot initialize a variable of type 'int \*'",
    ),
    # A name stands for a type, or a template's argument does: it is no pointer, or one to other memory.
    (
        "typedef thread float* P;\nkernel void k(P F [[buffer(0)]]) { F[0] = 1; }",
        "program_source:4:.*'buffer' attribute only applies",
    ),
    (
        "using P = threadgroup float*;\nkernel void k(P F [[buffer(0)]]) { F[0] = 1; }",
        "'buffer' attribute only applies",
    ),
    (
        "typedef device float* P;\nkernel void k(P F [[threadgroup(0)]]) { F[0] = 1; }",
        "'threadgroup' attribute only applies",
    ),
    (
        "typedef device float* P;\nkernel void k(device float* F [[buffer(0)]]) { threadgroup float t[4]; F = P(t); F[0] = 1; }",
        "a cast from one address space to another",
    ),
    (
        "typedef float T;\nkernel void k(device float* F [[buffer(0)]], T x [[buffer(1)]]) { F[0] = x; }",
        "'buffer' attribute only applies",
    ),
    (
        "struct S { int n; };\nkernel void k(device float* F [[buffer(0)]], S s [[buffer(1)]]) { F[0] = s.n; }",
        "'buffer' attribute only applies",
    ),
    (
        "template <typename T> kernel void f(device float* F [[buffer(0)]], T x [[buffer(1)]]) { F[0] = x; }\ntemplate kernel void f<float>(device float*, float);",
        "'buffer' attribute only applies",
    ),
    (
        "constexpr int n = 2;\nkernel void k(device float* F [[buffer(0)]]) { F[0] = n; }",
        "program scope variable must reside in constant address space",
    ),
    (
        "struct S { static constexpr int n = 2; };\nkernel void k(device float* F [[buffer(0)]]) { F[0] = S::n; }",
        "program scope variable must reside in constant address space",
    ),
    (
        "bool x [[function_constant(0)]];\nkernel void k(device float* F [[buffer(0)]]) { F[0] = x; }",
        "program scope variable must reside in constant address space",
    ),
    (
        "struct S { int a; };\nconstant S x [[function_constant(0)]];\nkernel void k(device float* F [[buffer(0)]]) { F[0] = x.a; }",
        "no viable conversion",
    ),
    (
        "constant int n [[function_constant(0)]];\nkernel void k(device float* F [[buffer(0)]]) { float a[n]; a[0] = 1; F[0] = a[0]; }",
        "variable length array",
    ),
    (
        "constant int n [[function_constant(0)]];\nkernel void k(device float* F [[buffer(0)]]) { array<float, n> a; F[0] = a[0]; }",
        "not a constant expression",
    ),
    (
        "kernel void k(device float* F [[buffer(0)]]) {}\nkernel void k(device int* F [[buffer(0)]]) {}",
        "cannot be overloaded",
    ),
    (
        "struct S { kernel void k(device float* F [[buffer(0)]]) {} };",
        "cannot be a member function",
    ),
    (
        "kernel void k(device float* F [[buffer(0)]]) { register int x = 1; F[0] = x; }",
        "'register' is not supported",
    ),
    (
        "kernel void k(device float* F [[buffer(0)]]) { F[0] = 1.0L; }",
        "'long double' is not supported",
    ),
    (
        "float f(uint i) { threadgroup float x[4]; return x[i]; }\nkernel void k(device float* F [[buffer(0)]]) { F[0] = f(1); }",
        "threadgroup",
    ),
    (
        "void f(thread float& x) {}\nkernel void k(device float* F [[buffer(0)]]) { f(F[0]); }",
        "no matching function for call to 'f'",
    ),
    (
        "float f(device float* p) { return p[0]; }\nkernel void k(device float* F [[buffer(0)]], threadgroup float* t [[threadgroup(0)]]) { F[0] = f(t); }",
        "no matching function for call to 'f'",
    ),
    # What stands for an object in constant memory, for lists and for texts in quotes refuses what they would.
    (
        "float f(float3 x) { return x.x; }\nkernel void k(device float* F [[buffer(0)]]) { F[0] = f({1, 2}); }",
        "no matching function for call to 'f'",
    ),
    (
        "struct S { int n; S() : n(1, 2) {} };\nkernel void k(device float* F [[buffer(0)]]) { F[0] = S().n; }",
        "no viable conversion",
    ),
    (
        "struct S { float3 v; S() : v(1, 2) {} };\nkernel void k(device float* F [[buffer(0)]]) { F[0] = S().v.x; }",
        "no viable conversion",
    ),
    (
        "struct S { float a; constexpr S(float a) : a(a) {} };\nconstant S s(1, 2);\nkernel void k(device float* F [[buffer(0)]]) { F[0] = s.a; }",
        "no matching constructor for initialization of 'const",
    ),
    (
        "struct S { float a; constexpr S(float a) : a(a) {} };\nconstant S s(1);\nkernel void k(device float* F [[buffer(0)]]) { s.a = F[0]; }",
        "const",
    ),
    (
        "struct S { float a; constexpr S(float a) : a(a) {} };\nconstant S s(1), t(2);\nkernel void k(device float* F [[buffer(0)]]) { const thread S* p = &t; F[0] = p->a; }",
        "cannot initialize a variable of type",
    ),
    (
        "float f(float2 x) { return x.x; }\nkernel void k(device float* F [[buffer(0)]]) { F[0] = f({F, 2}); }",
        "no matching function",
    ),
    (
        'kernel void k(device float* F [[buffer(0)]]) { const thread char* p = "a"; F[0] = p[0]; }',
        "cannot initialize a variable of type",
    ),
    (
        "kernel void k(device uint* U [[buffer(0)]]) { U[0] = metal::fast::popcount(1u); }",
        "no member named 'popcount'",
    ),
]

# Statements that Apple's compiler takes.
TAKEN = [
    "F[0] = pow(F[0], 2);",
    "F[0] = pow(2, F[0]);",
    "F[0] = step(0, F[0]);",
    "F[0] = fma(F[0], F[1], 1);",
    "F[0] = abs(F[0]);",
    "float4 v(1); v.xy = v.yx; v.rgb = v.bgr; F[0] = v.a + v.w;",
    "half h = F[0]; H[0] = h; F[0] = H[0];",
    "F[0] = F[1] * 2.0 + 1.0;",
    "constexpr int n = 3; float a[n] = {1, 2, 3}; F[0] = a[lane];",
    'static_assert(sizeof(float3) == 16, "a"); static_assert(alignof(half3) == 8, "c"); F[0] = 1;',
    "float s = 0;\n#pragma clang loop unroll(full)\nfor (int i = 0; i < 4; ++i) s += i; F[0] = s;",
    "struct S { float x = 1; int y; S() thread : y(2) {} }; S s; F[0] = s.x + s.y;",
    "struct S { float x; float get() const thread { return x; } }; S s = {1}; device S* p = (device S*)F; F[0] = s.get() + p->x;",
    "struct V { float x; V operator+(V o) const { return {x + o.x}; } }; V a = {1}, b = {2}; F[0] = (a + b).x;",
    "union W { float f; uint u; }; W w; w.f = F[0]; U[0] = w.u;",
    "struct S { uint a : 4; uint b : 28; }; S s = {1, 2}; U[0] = s.a + s.b;",
    "float x = 1; thread float& r = x; r += 1; F[0] = r;",
    "device auto& r = F[0]; r = 1;",
    "auto& r = F[0]; r = 1;",
    "auto p = F + 1; *p = 2; F[0] = p[-1];",
    "device const float* p = F; const device float* q = G; device float* const r = F; F[0] = p[0] + q[0] + r[0];",
    "using T = float4; typedef half2 P; T t = T(1); P p = P(2); F[0] = t.x + p.y;",
    "bool b = any(float4(1) > 0.5f); F[0] = b && all(float4(1) < float4(2));",
    "int4 m = (int4(1) << 2) | 3; I[0] = m.x;",
    "U[0] = popcount(7u) + clz(1u) + ctz(8u) + reverse_bits(1u) + rotate(U[0], 3u) + mulhi(U[0], U[1]) + extract_bits(U[0], 2, 3) + insert_bits(U[0], U[1], 2, 3);",
    "uint expected = 0; bool b = atomic_compare_exchange_weak_explicit(A, &expected, 1u, memory_order_relaxed, memory_order_relaxed); U[0] = b + atomic_exchange_explicit(A, 2u, memory_order_relaxed);",
    "F[0] = simd_shuffle_and_fill_down(F[0], F[1], 1) + simd_broadcast(F[0], 3) + simd_prefix_inclusive_sum(F[0]) + quad_sum(F[0]); I[0] = simd_is_first() + simd_any(F[0] > 0);",
    "U[0] = (uint)(simd_vote::vote_t)simd_ballot(F[0] > 0); U[1] = (uint)(ulong)simd_active_threads_mask();",
    "F[0] = as_type<float>(0x3f800000); half2 h = as_type<half2>(F[0]); uchar4 c = as_type<uchar4>(U[0]); F[1] = h.x + c.w;",
    "F[0] = fast::exp(F[0]) + precise::sin(F[0]) + metal::fast::log(F[0]);",
    "half x = 1.0h, y = 2.5H; H[0] = x + y; F[0] = 0x1p3f + 1e-3; B[0] = 1.0bf; L[0] = 1ul + 2l;",
    "F[0] = numeric_limits<float>::infinity() + numeric_limits<half>::max() + numeric_limits<int>::min();",
    "F[0] = M_PI_F + FLT_EPSILON + HALF_MAX + INT_MAX + SHRT_MAX + UCHAR_MAX + CHAR_BIT + MAXHALF + HUGE_VALF + FLT_MIN + LONG_MAX; H[0] = M_PI_H + HALF_EPSILON;",
    "if constexpr (sizeof(float) == 4) F[0] = 1; else F[0] = 2;",
    "float4x4 m(1.0f); F[0] = (m * float4(1)).x + determinant(m) + transpose(m)[0][0] + (float4(1) * m).y + m[1].z;",
    "float2x3 a(1.0f); float3x2 b(1.0f); auto c = a * b; F[0] = c[2][2];",
    "packed_float3 p = float3(1); float3 q = p; F[0] = q.x + p[1];",
    "vec<float, 4> v = vec<float, 4>(1); F[0] = v.x;",
    "float whole, c; float f = modf(F[0], whole); float s = sincos(F[0], c); int e; float m = frexp(F[0], e); F[0] = f + s + c + ldexp(m, e) + fract(F[1]) + sign(F[1]) + saturate(F[1]) + smoothstep(0.0f, 1.0f, F[1]) + powr(F[1], 2.0f) + rint(F[1]) + copysign(F[0], F[1]) + fmin3(F[0], F[1], F[2]) + median3(F[0], F[1], F[2]);",
    "F[0] = isnan(F[0]) + signbit(F[0]) + isfinite(F[0]); bool4 b = isinf(float4(1)); I[0] = b.x;",
    "device float4* p = (device float4*)F; p[0] = float4(1); device uchar* q = reinterpret_cast<device uchar*>(F); I[0] = q[1];",
    "ptrdiff_t d = &F[3] - F; size_t n = sizeof(float4); L[0] = d + n;",
    "atomic_fetch_add_explicit((device atomic_uint*)U, 1u, memory_order_relaxed); atomic_fetch_add_explicit(AF, 1.0f, memory_order_relaxed);",
    "uint2 g = gid.xy; U[0] = g.x + uint2(gid.yz).y;",
    "float x = {}; float4 v = {}; struct S { int a, b; }; S s = {1, 2}; F[0] = x + v.x + s.b;",
    "F[0] = static_cast<half>(F[1]); I[0] = int(F[0]) + (int)F[1];",
    "uchar4 c = uchar4(float4(1)); F[0] = float4(c).x;",
    "F[0] = select(F[0], F[1], I[0] > 1); float4 v = select(float4(1), float4(2), bool4(true, false, true, false)); F[1] = v.x;",
    "switch (I[0]) { case 0: F[0] = 1; case 1: F[0] = 2; break; default: F[0] = 3; } do { I[0]--; } while (I[0] > 0);",
    "enum E : uint { a, b = 4 }; enum class D : ushort { x }; U[0] = b + uint(D::x);",
    "F[0] = max(F[0], 0.0f) + max(F[0], 1.0) + min(H[0], 2.0h);",
    "I[0] = max(I[0], 3) + min(short(1), short(2));",
    "array<float, 4> a = {1, 2, 3, 4}; F[0] = a[lane] + a.size();",
    "F[0] = float3(float2(1, 2), 3).z + float4(1, float2(2), 3).w;",
    "simdgroup_float8x8 a(0), b(1), c; simdgroup_load(a, F, 8); simdgroup_multiply(c, a, b); simdgroup_multiply_accumulate(c, a, b, c); simdgroup_store(c, F, 8, ulong2(0, 1), true); F[0] = c.thread_elements()[0];",
    "threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device); simdgroup_barrier(mem_flags::mem_none);",
    "uint n = 3; U[0] = n / 2 % 2; n <<= 1; n ^= 5; U[1] = ~n; I[0] = -n;",
    "const constant float* c = C; F[0] = c[1];",
    "float a[2][3] = {{1, 2, 3}, {4, 5, 6}}; F[0] = a[1][lane % 3];",
    "thread float x = 1; float y = x; thread float* p = &y; thread float* thread* q = &p; F[0] = **q;",
    "bfloat b = bfloat(F[0]); F[0] = float(b) + b; B[0] = b * b; bool c = b > B[1]; I[0] = c; int i = int(b); I[1] = i;",
    "half4 h = half4(float4(1)); float4 f = float4(h) * 2; F[0] = dot(f, f) + distance(f, f) + normalize(f).x + reflect(f.xyz, f.xyz).x;",
    "long x = L[0]; ulong y = ulong(x) >> 3; L[0] = x * 5 / 3 + y; L[1] = abs(x);",
    "B[0] = static_cast<bfloat>(H[0]); H[0] = static_cast<half>(B[0]); B[1] = (bfloat)H[1]; H[1] = half(B[1]);",
    "bool4 b; b = {true, false, true, false}; b[1] = true; F[0] = b.x;",
    "bool4 b = {bool2(true), bool2(false)}; b = bool4(b.xy, true, false); F[0] = b.x;",
    "bool2 t = bool2(true) && bool2(false); t = t || !t; bool4 s = float4(1) < float4(2) && float4(F[0]) > float4(0); F[0] = t.x + s.y;",
    "F[0] = I[0] ? B[0] : F[1]; F[1] = I[0] ? F[0] : B[1]; B[0] = I[0] ? B[1] : 0;",
    "bool4 a = bool4(true), b = a; b |= !a; b &= (float4(1) < float4(F[0])); b ^= a; b |= true; F[0] = b.x;",
    "int2 a = int2(1); ++a; a.xy--; uint3 b = gid; --b; device int2* p = (device int2*)I; p[0]++; int2 c = a++ + --(a); for (ushort2 i = ushort2(0); i.x < 4; ++i) F[i.x] = c.y + b.z;",
    "metal::uint a = 1; metal::int32_t b = 2; metal::half c = 3; metal::uchar d = metal::uchar(a); metal::packed_float3 e = metal::float3(b, c, d); F[0] = e.x;",
    "vec<float, 8> v; F[0] = v[7];",
    'const constant char* p = "a" "b"; constant char* q = "c"; F[0] = p[1] + q[0];',
    "F[0] = I[0] ? F[1] : 2; F[1] += 1; ++I[0]; I[1]--; bool b = !I[0] && F[0] || U[0]; F[2] = b;",
]

# Texts that it takes.
TAKEN_TEXTS = [
    # Objects of any address space are copied, are assigned to and have member functions.
    "struct A { float x; };\nstruct B { A a; A b[2]; };\nfloat of(A a) { return a.x; }\nkernel void k(device B* q [[buffer(0)]], constant B& c [[buffer(1)]]) { threadgroup A t[32]; q[0].b[0] = c.b[1]; B l = c; l.a = q[0].a; q[1] = l; device A& r = q[0].a; t[1] = r; r.x = of(l.a); A p = q->a; t[2] = q->b[1]; q[1].a.x = p.x; }",
    "struct A { float x; A(float y) thread : x(y) {} A(float y) threadgroup : x(y) {} float get() const device { return x; } float get() const thread { return x; } float get() constant { return x; } operator float() const device { return x; } operator float() const thread { return x; } };\nkernel void k(device A* q [[buffer(0)]], constant A& c [[buffer(1)]]) { A l(1); q[0].x = c.get() + q[1].get() + l.get() + q->get() + float(l); }",
    "struct A { float x; float get() const { return x; } };\nkernel void k(device A* q [[buffer(0)]]) { threadgroup A t[4]; q[0].x = q[1].get() + t[1].get(); }",
    "kernel void k(device float4x4* m [[buffer(0)]], constant float4x4& c [[buffer(1)]], device float4* v [[buffer(2)]]) { threadgroup half2x4 t[4]; v[0] = c * v[1]; v[2] = m[0] * v[3]; float4x4 l = m[1]; v[3] = l[0]; m[0] = l; v[4] = m[0][1]; t[1] = half2x4(1.0h); t[2] = t[1]; v[5].x = t[2][0].y; half4x4 h = (half4x4)(*m); v[6].x = h[0][0]; }",
    "constant array<float, 3> a = {1, 2, 3};\nkernel void k(device float* F [[buffer(0)]], uint i [[thread_position_in_grid]]) { F[i] = a[i] + a.size(); }",
    # An array as a parameter is a pointer, a thread's if nothing else is said.
    "float f(float x[4], const int n[2]) { return x[n[0]]; }\nfloat g(constant const float x[2], device float y[2]) { return x[1] + y[0]; }\nkernel void k(device float* F [[buffer(0)]], constant float* C [[buffer(1)]]) { float x[4] = {1, 2, 3, 4}; int n[2] = {1, 2}; F[0] = f(x, n) + g(C, F); }",
    "template <typename T, int N> kernel void of_blocks(device T* F [[buffer(0)]]) { if (N > 1) { threadgroup T t[32]; threadgroup float s[4]; t[0] = 1; s[0] = t[0]; F[0] = t[0]; } }\ntemplate kernel void of_blocks<float, 2>(device float*);",
    # T is the name of a type, and of values.
    "template <typename T> T of_type(const thread T* x) { return *x; }\nstruct A { int T, C; };\nkernel void k(device float* F [[buffer(0)]], constant A& a [[buffer(1)]]) { const int T = 3, C = 4; int b = 2 + T * C; if (b >= a.T * a.C && b < 9) F[T * C] = F[b * T * C]; float x = T * C; F[0] = (T * C) + of_type(&x); }",
    # Vectors in arguments of templates, in declarations and in casts.
    "template <typename T, int N> T first(vec<T, N> v) { return v[0]; }\ntemplate <typename T> T sum(vec<T, 4> v) { return v.x + v.y + v.z + v.w; }\ntemplate <typename V> float last(device float* p) { V v(1, 2, 3, 4); p[0] = v.x + V(1, 2, 3, 4).y; return v.w; }\nkernel void k(device float* F [[buffer(0)]]) { F[0] = first(float4(2)) + first(half2(1)) + sum(float4(2)) + last<float4>(F); }",
    "constant float2 c(1, 2);\ntypedef float4 V;\nconstant V d = V(1, 2, 3, 4);\nkernel void k(device float* F [[buffer(0)]], uint2 i [[thread_position_in_grid]]) { V a(1, 2, 3, 4), b(F[0], c, 1); float2 f(float x, float y); for (uint2 p(0, 1); p.x < 3; p.x++) F[p.x] = p.y; const float3 g(1, 2, 3); bool2 t(true, false); packed_half2 h(1, 2); uint2 q(i); F[0] = a.x + b.y + d.w + g.z + h[1] + t.x + q.y + vec<float, 2>(1, 2).y + packed_float3(1, 2, 3).z; }",
    "template <typename T> void put(device T* p, device float* q) { p[0] = (T)q[0]; p[1] = -(T)q[1] * 2; p[2] = q[0] > 1 ? (T) *q : (T)(q[1] + 1); }\nkernel void k(device bfloat* B [[buffer(0)]], device float* F [[buffer(1)]], device half4* H [[buffer(2)]]) { put(B, F); put(F, F); put((device int*)F, F); B[3] = (bfloat)F[0]; float4 v = (float4)H[0] * 2 - (float4)(int4(1)); H[1] = (half4) v.xyzw + (half4)1; F[0] = sizeof(float4); }",
    # A cast of a field that a pointer leads to.
    "struct Q { uchar h[4]; };\nkernel void k(device Q* q [[buffer(0)]], device uint* U [[buffer(1)]]) { U[0] = *((device const uint*)q->h); }",
    "namespace other { float k(float x) { return x; } }\nkernel void k(device float* F [[buffer(0)]]) { F[0] = other::k(1); }",
    "typedef device float* P;\nusing Q = constant uint&;\ntypedef threadgroup float* T;\nkernel void k(P F [[buffer(0)]], Q n [[buffer(1)]], T s [[threadgroup(0)]], uint i [[thread_position_in_grid]]) { s[0] = n; F[i] = s[0]; }",
    "typedef device float* P;\nusing Q = constant uint&;\nkernel void k(P F, Q n, uint i [[thread_position_in_grid]]) { F[i] = n; }",
    "kernel void k(device float (&F)[4] [[buffer(0)]], device const volatile float* G [[buffer(1)]], device float* __restrict R [[buffer(2)]], device float* const S [[buffer(3)]]) { F[0] = G[0] + R[0] + S[0]; }",
    'template <typename P> kernel void of_pointer(P F [[buffer(0)]], uint i [[thread_position_in_grid]]) { F[i] = 1; }\ntemplate [[host_name("named")]] kernel void of_pointer<device float*>(device float*, uint);',
    "struct S { static constant constexpr const int n = 2; static constexpr constant float x = 1; };\nkernel void k(device float* F [[buffer(0)]]) { F[0] = S::n + S::x; }",
    "constant bool a [[function_constant(10)]];\nconstant int n [[function_constant(11)]];\nconstant bool b = a && n > 2;\nconstant int m = is_function_constant_defined(n) ? n : 4;\nconstant half3 v [[function_constant(12)]];\nconstant constexpr const bool c [[function_constant(13)]];\nkernel void k(device float* F [[buffer(0)]]) { if (a || b || c) F[0] = m; for (int i = 0; i < n; ++i) F[i] += v.x; }",
    "template <typename T> struct Work { using type = conditional_t<is_same_v<T, bfloat>, float, T>; };\ntemplate <typename T> using work_t = typename Work<T>::type;\ntemplate <typename T> kernel void of_work(device T* F [[buffer(0)]]) { using W = work_t<T>; const W x = W(F[0]); F[0] = T(x * 2); F[1] = static_cast<T>(exp(float(x))); const T zero = T(0); F[2] = x > W(zero) ? T(x) : zero; }\ntemplate kernel void of_work<bfloat>(device bfloat*);\ntemplate kernel void of_work<half>(device half*);\ntemplate kernel void of_work<int>(device int*);",
    # Lists in braces as arguments, and values of a vector among the initialisers of a constructor.
    "template <typename T> T at(T x, int n) { return x + n; }\ntemplate <typename T> T at(uint3 x, int n) { return x.y + n; }\nstruct A { float2 v; float n; A(float2 v, float n) : v(v), n(n) {} A(float a) : v(1, a), n(3) {} float2 plus(float2 w) { return {v.x + w.x, w.y}; } };\ntemplate <typename T> struct B { vec<T, 2> v; B(T a) : v(1, a) {} };\nfloat all_of(float4 x, bool2 y) { return y.x ? x.w : 0; }\nkernel void k(device float* F [[buffer(0)]], uint3 i [[thread_position_in_grid]]) { A a({1, 2}, 3), b(4); F[0] = at<float>({2 * i.x, i.y, i.z}, 2) + a.plus({F[1], 2}).x + b.v.y + B<half>(2).v.y + all_of({float2(1), 2, F[2]}, {true, false}); }",
    """float f(int n, float2 x, char c) { return x.x; }\nkernel void k(device float* F [[buffer(0)]]) { F[0] = f(1'000, {1, 2}, '(') + f(')', {F[1], 2}, '\\''); }""",
    # Vectors in specialisations and in other names of them, of one lane and of more than four.
    'template <typename T> struct Lane { typedef T type; };\ntemplate <typename T> struct Lane<vec<T, 2>> { typedef T type; };\ntemplate <typename T> struct Tile { typedef metal::vec<T, 1> row; template <typename U> using part = typename metal::vec<U, 8>; template <typename U> static T sum(thread part<U>& x) { return T(x[0]) + T(x[7]); } };\nkernel void k(device float* F [[buffer(0)]]) { static_assert(is_same_v<Lane<float2>::type, float>, "a"); metal::vec<half, 8> h; F[0] = Tile<float>::sum(h) + metal::vec<float, 2>(-1, 0).x; }',
    # Objects in constant memory.
    "struct S { float a; constexpr S(float a, char) : a(a) {} };\ntemplate <typename T, typename U> struct D { T a; constexpr D(T a) : a(a) {} };\nconstant S s(1, ','), t = S(2, '('), list[2] = {S(1, ')'), S(2, ';')};\nconstant D<int, S> one = D<int, S>(1), two(2);\nkernel void k(device float* F [[buffer(0)]]) { constant S* p = &t; constant S* q = &list[1]; constant D<int, S>* r = &two; F[0] = p->a + q->a + r->a + s.a + one.a; }",
    "template <typename T> struct C { T a, b; constexpr C(T a, T b) thread : a(a), b(b) {} constexpr C(T a, T b) constant : a(a), b(b) {} T sum() const constant { return a + b; } };\ntemplate <typename T> struct Least { static constexpr constant T v = T(-1); };\ntemplate <> struct Least<C<float>> { static constexpr constant C<float> v = C<float>(-1, -2); };\nconstant C<float> one(1, 2), list[2] = {{1, 2}, {3, 4}};\nconstant C<int> other = {1, 2};\nkernel void k(device float* F [[buffer(0)]]) { C<float> x = Least<C<float>>::v; F[0] = x.a + Least<float>::v + one.b + other.sum() + list[1].sum(); }",
    'struct Log { constexpr Log(constant char*, constant char*) constant {} template <typename... A> void say(constant char*, A...) const constant {} };\nconstant Log log_of_k("a", "b");\nconstant char name[] = "abc";\nkernel void k(device float* F [[buffer(0)]]) { log_of_k.say("c %f" " d", F[0]); F[0] = name[1]; }',
    "template <typename T> struct Of { typedef T type; };\ntemplate <typename T, T v> constexpr auto next(Of<T>) { constexpr auto made = v + 1; using type = remove_addrspace_t<decltype(made)>; return Of<type>{}; }\nkernel void k(device float* F [[buffer(0)]]) { Of<int> x; F[0] = is_same_v<typename decltype(x)::type, int> + sizeof(next<int, 2>(x)); }",
    # A name of a type before parentheses: in types and declarations, and in expressions.
    "typedef int T;\nstruct S {};\nusing Fn = T(T);\nusing Of = T(S);\nusing None = T();\nusing P = T (*)(T);\nstruct M { T (x); };\nT f(T x) { return x; }\nkernel void k(device int* F [[buffer(0)]]) { M m; m.x = 1; T (a) = 3; T (b), c = 2; b = 1; for (T (n) = 0; T(n) < 3; ++n) F[n] = a + b + c + m.x; F[3] = is_same_v<Fn, T(T)> + is_same_v<Fn, T(int)> + f(T(2)); }",
    "template <typename T> kernel void of_expressions(device T* F [[buffer(0)]], device float* G [[buffer(1)]]) { T a[2] = {T(G[0]), T(G[1])}; F[0] = G[0] > 1 ? T(G[1]) : T(G[2]); F[1] = F[0] > T(G[1]) ? F[0] : -T(*G); for (int i = 0; a[0] < T(G[i]); ++i) F[2] = T(int(G[0]) >> 1);\n#pragma unroll\nfor (int i = 0; i < 2; ++i) F[i] = (T(G[i])); }\ntemplate kernel void of_expressions<bfloat>(device bfloat*, device float*);\ntemplate kernel void of_expressions<float>(device float*, device float*);",
    "constexpr constant float4 v = float4(1, 2, 3, 4), w = float4(2);\nconstexpr constant float2 x = vec<float, 2>(1, 2);\nkernel void k(device float* F [[buffer(0)]]) { constexpr float3 y = float3(1); constexpr half2 z(1, 2); F[0] = v.x + w.y + x.x + y.x + z.y; }",
    "template <typename V> V next(V v) { ++v; return v--; }\nkernel void k(device float* F [[buffer(0)]]) { F[0] = next(int2(1)).x + next(1.0f); }",
    "template <typename T> using D = device T*;\nkernel void k(D<float> F) { F[0] = 1; }",
    "template <typename T> using Same = T;\nkernel void k(Same<device float*> F [[buffer(0)]]) { bool4 b = (float4(1) < float4(F[0]) * 2); F[0] = b.x; }",
    "template <typename T> using D = device T*;\ntemplate <typename T> using S = threadgroup T*;\ntemplate <typename T> kernel void of_aliases(D<T> F, S<T> t [[threadgroup(0)]], D<const T> G [[buffer(3)]]) { t[0] = G[0]; F[0] = t[0]; }\ntemplate kernel void of_aliases<float>(D<float>, S<float>, D<const float>);",
    "template <typename T> struct A { T x; };\nfloat f(A<float> a) { return a.x; }\nfloat g(thread A<float>& a) { return a.x; }\nkernel void k(device float* F [[buffer(0)]]) { A<float> a; a.x = 1; bool4 b = (int4(1) < int4(8) >> 1); F[0] = f((A<float>)a) + g(a) + b.x; }",
    "template <typename T, int N> kernel void of_lanes(device T* F [[buffer(0)]]) { using V = vec<T, N>; V x = V(1); x = V(T(2)); F[0] = x[1] + V(0).x; }\ntemplate kernel void of_lanes<float, 4>(device float*);",
    "float f(int n) { return n < 2 ? 1 : n * f(n - 1); }\nkernel void k(device float* F [[buffer(0)]]) { F[0] = f(4); threadgroup_barrier(mem_flags::mem_texture); }",
    "kernel void k(device float* F, constant float& x, uint i [[thread_position_in_grid]]) { F[i] = x; }",
    "kernel void k(device float& F [[buffer(0)]], constant uint& n [[buffer(1)]]) { F = n; }",
    "constant float table[3] = {1, 2, 3};\nconstant float3 v = float3(1, 2, 3);\nkernel void k(device float* F [[buffer(0)]], uint i [[thread_position_in_grid]]) { F[i] = table[i % 3] + v.x; }",
    "constant uint N = 8;\nkernel void k(device float* F [[buffer(0)]], uint i [[thread_position_in_threadgroup]]) { threadgroup float x[N]; x[i] = 1; F[i] = x[i]; }",
    "[[max_total_threads_per_threadgroup(64)]] kernel void k(device float* F [[buffer(0)]]) { F[0] = 1; }",
    "namespace mine { kernel void k(device float* F [[buffer(0)]]) { F[0] = 1; } }",
    "float f(device float* p) { return p[0]; }\nfloat f(threadgroup float* p) { return p[1]; }\nfloat f(constant float* p) { return p[2]; }\nkernel void k(device float* F [[buffer(0)]], constant float* C [[buffer(1)]], threadgroup float* t [[threadgroup(0)]]) { F[0] = f(F) + f(t) + f(C); }",
    "template <typename P> float first(P p) { return p[0]; }\nkernel void k(device float* F [[buffer(0)]], threadgroup float* t [[threadgroup(0)]]) { F[0] = first(F) + first(t); }",
    "template <typename T, int N> struct A { T x[N]; constexpr static int size() { return N; } };\nkernel void k(device float* F [[buffer(0)]]) { A<float, 3> a; a.x[0] = 1; F[0] = a.x[0] + A<int, 2>::size(); }",
    "template <typename... T> int count(T... x) { return sizeof...(x); }\nconstexpr int twice(int x) { return 2 * x; }\nkernel void k(device int* F [[buffer(0)]]) { int a[twice(2)]; a[0] = count(1, 2.0f); F[0] = a[0]; }",
    "template <typename T> enable_if_t<is_same_v<T, half>, float> f(T x) { return x; }\ntemplate <typename T> conditional_t<is_integral_v<T>, T, int> g(T x) { return x; }\nkernel void k(device float* F [[buffer(0)]]) { F[0] = f(1.0h) + g(2) + decltype(g(1))(3); }",
    "constant bool has [[function_constant(0)]];\nconstant bool d = is_function_constant_defined(has) ? has : false;\nkernel void k(device float* F [[buffer(0)]], device float* G [[buffer(1), function_constant(has)]]) { F[0] = d ? G[0] : 1; }",
    "static inline float f(float x, float y = 2) { return x + y; }\nstatic constant float c = 1;\nconstexpr constant int n = 2;\ninline __attribute__((always_inline)) float g(float x) { return x; }\nkernel void k(device float* F [[buffer(0)]]) { F[0] = f(c) + n + g(1); }",
    "struct S { device float* p; uint n; };\nkernel void k(constant S& s [[buffer(0)]], uint i [[thread_position_in_grid]]) { s.p[i] = s.n; }",
    "struct P { packed_float3 at; half w; uchar4 c; };\nkernel void k(device P* p [[buffer(0)]], uint i [[thread_position_in_grid]]) { p[i].at = float3(1); p[i].w += 1; p[i].c = uchar4(1);}",
    "kernel void k(device float* F [[buffer(0)]], ushort2 p [[thread_position_in_grid]], ushort2 q [[thread_position_in_threadgroup]], ushort2 n [[threads_per_threadgroup]], uint s [[simdgroup_index_in_threadgroup]]) { F[p.x] = q.y + n.x + s; }",
    "kernel void k(device float* F [[buffer(0)]], uint w [[threads_per_simdgroup]], uint n [[simdgroups_per_threadgroup]], uint q [[quadgroup_index_in_threadgroup]], uint l [[thread_index_in_quadgroup]]) { F[0] = w + n + q + l; }",
    "#define SQUARE(x) ((x) * (x))\n#if __METAL_VERSION__ >= 310\n#define ONE 1\n#endif\n#ifdef __METAL_MACOS__\n#endif\nkernel void k(device float* F [[buffer(0)]]) { F[0] = SQUARE(F[0]) + ONE; }",
    "class C { public: C(float x) : x(x) {} float get() const { return x; } private: float x; };\nkernel void k(device float* F [[buffer(0)]]) { C c(2); F[0] = c.get(); }",
    "struct A { float x; float f() { return x; } };\nstruct B : A { float y; };\nkernel void k(device float* F [[buffer(0)]]) { B b; b.x = 1; F[0] = b.f(); }",
    "void f(thread float& x) { x = 1; }\nvoid g(threadgroup float& x) { x = 1; }\nvoid h(device float* x, uint n) { x[n] = 2; }\nkernel void k(device float* F [[buffer(0)]]) { threadgroup float t; float x; f(x); g(t); h(F, 1); F[0] = x + t; }",
    "kernel void k(device float* F [[buffer(0)]], threadgroup float* s [[threadgroup(0)]], uint i [[thread_index_in_threadgroup]]) { s[i] = F[i]; threadgroup_barrier(mem_flags::mem_threadgroup); threadgroup float4* v = (threadgroup float4*)s; F[i] = v[0].x; }",
    "kernel void k(const device float4* __restrict a [[buffer(0)]], device float4* b [[buffer(1)]], uint i [[thread_position_in_grid]]) { b[i] = a[i] * 2.0f + 1.0f - a[i] / 3; }",
    "metal::float4 f(metal::float4 x) { return metal::max(x, 0.0f); }\nkernel void k(device metal::float4* F [[buffer(0)]]) { F[0] = f(F[0]); }",
    'template <typename T> struct Sum { static constexpr constant T init = T(0); T operator()(T a, T b) { return a + b; } };\ntemplate <typename T, typename Op> kernel void r(device T* F [[buffer(0)]]) { Op op; F[0] = op(F[0], Op::init); }\ntemplate [[host_name("r_f")]] kernel void r<float, Sum<float>>(device float* [[buffer(0)]]);',
    'struct alignas(16) S { float x; };\nstatic_assert(sizeof(S) == 16, "");\nkernel void k(device S* F [[buffer(0)]]) { F[0].x = alignof(S); }',
    "float f2(float x);\nfloat f(float x) { return x < 1 ? x : f2(x); }\nfloat f2(float x) { return x / 2; }\nkernel void k(device float* F [[buffer(0)]]) { F[0] = f(F[0]); }",
    "kernel void k(device uint* U [[buffer(0)]]) { threadgroup atomic_uint t; atomic_store_explicit(&t, 0u, memory_order_relaxed); U[0] = atomic_load_explicit(&t, memory_order_relaxed); }",
]


@pytest.mark.parametrize("start", range(0, len(REFUSED), MOST_ERRORS))
def test_statements_are_refused(start: int) -> None:
    rules = REFUSED[start : start + MOST_ERRORS]
    said = of_lines(check(kernel([wrong for wrong, _ in rules]), VERSION) or "")
    for number, (wrong, message) in enumerate(rules):
        assert re.search(message, said.get(number, "")), (wrong, said.get(number))


@pytest.mark.parametrize(("text", "message"), TEXTS)
def test_texts_are_refused(text: str, message: str) -> None:
    said = check(HEAD + text, VERSION)
    assert said is not None
    assert re.search(message, said), said


def test_what_is_taken() -> None:
    apart = [f"namespace n{number} {{\n{text}\n}}\n" for number, text in enumerate(TAKEN_TEXTS)]
    for text in (kernel(TAKEN), HEAD + "".join(apart)):
        assert check(text, VERSION) is None
        Library.compile(text, version=VERSION)


def test_texts_add_to_metals_functions() -> None:
    added = "".join(
        f"namespace metal {{ {before} METAL_FUNC bfloat exp(bfloat x) {{ return bfloat(exp(float(x))); }} {after} }}\n"
        for before, after in [("", ""), ("namespace fast {", "}"), ("namespace precise {", "}")]
    )
    added += (
        "namespace metal { METAL_FUNC bfloat max(bfloat x, bfloat y) { return x < y ? y : x; } }\n"
    )
    calls = "B[0] = exp(B[0]) + fast::exp(B[1]) + precise::exp(B[2]); H[0] = fast::exp(H[0]); F[0] = precise::exp(F[0]) * fast::sin(F[1]); B[0] = max(B[0], B[1]); F[0] = max(B[0], F[0]) + max((B[0]), 1e-6);"
    assert check(HEAD + added + kernel([calls]), VERSION) is None
    said = check(HEAD + added + kernel(["F[0] = max(B[0], I[0]);"]), VERSION)
    assert "call to 'max' is ambiguous" in (said or "")


def test_logs_have_their_version() -> None:
    log = 'constant os_log of_k("a", "b");\n'
    text = log + kernel(['of_k.log_debug("%f", F[0]); of_k.log("done");'])
    assert check(HEAD + text, 320) is None


def test_lambdas_have_their_version() -> None:
    text = kernel(["auto f = [&](float x) { return x + F[1]; }; F[0] = f(1);"])
    assert check(text, 320) is None
    assert "lambda expressions are not supported in Metal" in (check(text, 310) or "")


def test_orders_of_memory_have_their_version() -> None:
    fence = "atomic_thread_fence(mem_flags::mem_device, memory_order_seq_cst, thread_scope_device);"
    assert check(kernel([fence]), 320) is None
    assert "memory_order_seq_cst" in (check(kernel([fence]), 310) or "")
