# ruff: noqa: E501  (MSL in strings)
"""What Apple's compiler refuses, the strict check refuses; what Apple's takes, softmetal takes and runs."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest
from msl import Failure, Library, check

HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
KERNEL = (
    "kernel void k(device float* F [[buffer(0)]], device half* H [[buffer(1)]],"
    " device bfloat* B [[buffer(2)]], device int* I [[buffer(3)]], device uint* U [[buffer(4)]],"
    " device long* L [[buffer(5)]], device atomic_ulong* A [[buffer(6)]],"
    " uint3 gid [[thread_position_in_grid]], ushort lane [[thread_index_in_simdgroup]]) {\n"
)

# Statements in a kernel: each is refused, and its neighbour that Apple takes is not.

# Of what types a call or a declaration has.
TYPES = [
    (
        "I[0] = min(I[0], U[0]);",
        "call to 'min' is ambiguous",
        "I[0] = min(I[0], int(U[0]));",
    ),
    (
        "F[0] = max(H[0], F[0]);",
        "call to 'max' is ambiguous",
        "F[0] = max(float(H[0]), F[0]);",
    ),
    (
        "F[0] = fmin(H[0], F[0]);",
        "call to 'fmin' is ambiguous",
        "F[0] = fmin(H[0], H[1]);",
    ),
    (
        "F[0] = pow(H[0], F[0]);",
        "call to 'pow' is ambiguous",
        "F[0] = pow(F[1], F[0]);",
    ),
    (
        "F[0] = precise::pow(H[0], F[0]);",
        "call to 'pow' is ambiguous",
        "F[0] = precise::pow(F[1], F[0]);",
    ),
    (
        "F[0] = select(H[0], F[0], true);",
        "call to 'select' is ambiguous",
        "F[0] = select(H[0], H[1], true);",
    ),
    (
        "F[0] = clamp(F[0], H[0], 1.0h);",
        "call to 'clamp' is ambiguous",
        "F[0] = clamp(F[0], 0.0f, 1.0f);",
    ),
    (
        "I[0] = addsat(I[0], U[0]);",
        "call to 'addsat' is ambiguous",
        "I[0] = addsat(I[0], I[1]);",
    ),
    (
        "bool b = simd_shuffle(F[0] > 0, 1); I[0] = b;",
        "no matching function for call to 'simd_shuffle'",
        "ushort b = simd_shuffle(ushort(F[0] > 0), 1); I[0] = b;",
    ),
    (
        "L[0] = simd_shuffle(L[0], 1);",
        "no matching function for call to 'simd_shuffle'",
        "I[0] = simd_shuffle(I[0], 1);",
    ),
    (
        "B[0] = simd_shuffle_xor(B[0], 1);",
        "no matching function for call to 'simd_shuffle_xor'",
        "H[0] = simd_shuffle_xor(H[0], 1);",
    ),
    (
        "atomic_fetch_add_explicit(A, 1ul, memory_order_relaxed);",
        "no matching function for call to 'atomic_fetch_add_explicit'",
        "atomic_max_explicit(A, 1ul, memory_order_relaxed);",
    ),
    (
        "simdgroup_matrix<int, 8, 8> m;",
        "simdgroup_matrix",
        "simdgroup_matrix<half, 8, 8> m = make_filled_simdgroup_matrix<half, 8>(0);",
    ),
    (
        "float4 v = float4(1, 2); F[0] = v.x;",
        "no matching constructor for initialization of 'float4'",
        "float4 v = float4(1, 2, 3, 4); F[0] = v.x;",
    ),
    (
        "float4 v = float4(float2(1), float3(2)); F[0] = v.x;",
        "no matching constructor for initialization of 'float4'",
        "float4 v = float4(float3(1), 2); F[0] = v.x;",
    ),
    (
        "float a[lane]; F[0] = a[0];",
        "variable length array",
        "float a[4]; F[0] = a[lane];",
    ),
]

# What becomes of a value.
CONVERSIONS = [
    (
        "B[0] = F[0];",
        "'bfloat' .* 'float'",
        "B[0] = bfloat(F[0]);",
    ),
    (
        "B[0] = I[0] ? F[0] : B[0];",
        "'bfloat' .* 'float'",
        "B[0] = I[0] ? bfloat(F[0]) : B[0];",
    ),
    (
        "B[0] = B[0] * 2.0f;",
        "'bfloat' .* 'float'",
        "B[0] = B[0] * 2;",
    ),
    (
        "bfloat b = 1.0f; B[0] = b;",
        "'bfloat' .* 'float'",
        "bfloat b = 1.0bf; B[0] = b;",
    ),
    (
        "bfloat b = F[0] + static_cast<bfloat>(F[1]); B[0] = b;",
        "'bfloat' .* 'float'",
        "bfloat b = static_cast<bfloat>(F[0] + bfloat(F[1])); B[0] = b;",
    ),
    (
        "F[0] = B[0] + H[0];",
        "invalid operands|cannot convert",
        "F[0] = B[0] + float(H[0]);",
    ),
]

# What a text says.
WORDS = [
    (
        "float a[4]; float* p = a; F[0] = p[1];",
        "pointer type must have explicit address space qualifier",
        "float a[4]; thread float* p = a; F[0] = p[1];",
    ),
    (
        "float a; const float& p = a; F[0] = p;",
        "reference type must have explicit address space qualifier",
        "float a; const thread float& p = a; F[0] = p;",
    ),
    (
        "F[0] = *(float*)I;",
        "pointer type must have explicit address space qualifier",
        "F[0] = *(device float*)I;",
    ),
    (
        "if (lane) { threadgroup float a[4]; a[0] = 1; F[0] = a[0]; }",
        "outermost scope of a kernel",
        "threadgroup float a[4]; if (lane) { a[0] = 1; F[0] = a[0]; }",
    ),
    (
        "auto f = [](float x) { return x; }; F[0] = f(1);",
        "lambda expressions are not supported",
        "int f[2] = {1, 2}; F[0] = f[(0)];",
    ),
    (
        "auto f = [&] { return 1.0f; }; F[0] = f();",
        "lambda expressions are not supported",
        "F[0] = I[lane];",
    ),
    (
        "static int n = 0; I[0] = n++;",
        "static local variable",
        "static constexpr constant int n = 0; I[0] = n;",
    ),
    (
        "thread int* p = new int; I[0] = *p;",
        "'new'",
        "int news = 1; I[0] = news;",
    ),
    (
        "goto end; end: I[0] = 1;",
        "'goto'",
        "I[0] = 1;",
    ),
    (
        "long long x = 1; L[0] = x;",
        "'long long'",
        "long x = 1; L[0] = x;",
    ),
    (
        "double x = 1; F[0] = x;",
        "double",
        "float x = 1; F[0] = x;",
    ),
    (
        "struct S { virtual int f() { return 1; } }; S s; I[0] = s.f();",
        "'virtual'",
        "struct S { int f() { return 1; } }; S s; I[0] = s.f();",
    ),
]

# Kernels, or what stands before one.
TEXTS = [
    (
        "kernel void k(device float* F [[buffer(0)]], int i [[thread_index_in_simdgroup]]) {}",
        "invalid type 'int' .*thread_index_in_simdgroup",
    ),
    (
        "kernel void k(device float* F [[buffer(0)]], uint2 i [[simdgroup_index_in_threadgroup]]) {}",
        "invalid type 'uint2' .*simdgroup_index_in_threadgroup",
    ),
    (
        "kernel void k(device float* F [[buffer(0)]], uint4 i [[thread_position_in_grid]]) {}",
        "invalid type 'uint4' .*thread_position_in_grid",
    ),
    (
        "kernel void k(device float* F [[buffer(0)]], uint3 i [[threadgroup_position_in_grid]], uint j [[thread_position_in_threadgroup]]) {}",
        "same number of components",
    ),
    ("kernel void k(device float* F [[buffer(31)]]) {}", "'buffer' attribute .* 0 .* 30"),
    (
        "kernel void k(device float* F [[buffer(1)]], device float* G [[buffer(1)]]) {}",
        "cannot reserve 'buffer' resource location at index 1",
    ),
    ("kernel void k(float* F [[buffer(0)]]) {}", "explicit address space qualifier"),
    ("float f(const float& x) { return x; }", "explicit address space qualifier"),
    ("struct S { float* p; };", "explicit address space qualifier"),
    (
        "kernel void a(device float* F [[buffer(0)]]) {}\nkernel void b(device float* F [[buffer(0)]]) { a(F); }",
        "kernel",
    ),
    ("kernel int k(device float* F [[buffer(0)]]) { return 1; }", "void"),
    ("kernel void k(device float* F [[buffer(0)]], float x) {}", "needs an attribute"),
]


Rule = tuple[str, str, str]


def kernel(statements: Sequence[str]) -> str:
    return HEAD + KERNEL + "".join(f"{{ {one} }}\n" for one in statements) + "}\n"


def of_lines(said: str) -> dict[int, str]:
    """What was said of each line, the first of which is that of the first statement."""
    made: dict[int, str] = {}
    message = ""
    for line in said.splitlines():
        found = re.match(r"program_source:(\d+):", line)
        if "error: " in line:
            message = line
        if found and message:
            number = int(found[1]) - 4
            made[number] = made.get(number, "") + message + line
    return made


@pytest.mark.parametrize("rules", [TYPES, CONVERSIONS], ids=["types", "conversions"])
def test_types_are_held_to_apples_rules(rules: Sequence[Rule]) -> None:
    said = of_lines(check(kernel([wrong for wrong, _, _ in rules])) or "")
    for number, (wrong, message, _) in enumerate(rules):
        assert re.search(message, said.get(number, "")), (wrong, said.get(number))
    assert check(kernel([right for _, _, right in rules])) is None


@pytest.mark.parametrize(("wrong", "message", "right"), WORDS)
def test_words_are_held_to_apples_rules(wrong: str, message: str, right: str) -> None:
    said = check(HEAD + KERNEL + wrong + "\n}", 310)
    assert said is not None
    assert re.search(message, said), said
    assert said.startswith("program_source:4:")


def test_words_that_apple_takes() -> None:
    text = HEAD
    for number, (_, _, right) in enumerate(WORDS):
        text += KERNEL.replace("void k(", f"void k{number}(") + right + "\n}\n"
    assert check(text) is None


@pytest.mark.parametrize(("text", "message"), TEXTS)
def test_a_text_is_held_to_apples_rules(text: str, message: str) -> None:
    said = check(HEAD + text)
    assert said is not None
    assert re.search(message, said), said
    assert "program_source:" in said


# Of a constant that a pipeline gives, and instances by names of their types.
INSTANCES = """constant bool doubled [[function_constant(0)]];
template <typename T> kernel void fill(device T* F [[buffer(0)]], device int* I [[buffer(1)]]) {
    F[0] = doubled ? 2 : min(I[0], %s);
}
typedef decltype(fill<float>) of_floats;
template [[host_name("fill float")]] kernel of_floats fill<float>;
template [[host_name("fill int")]] [[kernel]] decltype(fill<int>) fill<int>;
"""


def test_instances_of_templates_are_checked() -> None:
    assert check(HEAD + INSTANCES % "1") is None
    assert "call to 'min' is ambiguous" in (check(HEAD + INSTANCES % "1u") or "")


BUFFERS = "device float* F [[buffer(0)]], uint i [[thread_position_in_grid]]"

# Texts that Apple's compiler takes, with what a kernel `k` of 32 threads then writes.
TAKEN = [
    (
        f"constant constexpr const bool x [[function_constant(0)]];\nkernel void k({BUFFERS}) {{ F[i] = x ? 1 : 2; }}",
        2,
    ),
    (f"kernel void k({BUFFERS}) {{ uint4 a = {{i, 1u, 2u}}; F[i] = a.y + a.z + a.w; }}", 3),
    (
        f"kernel void k({BUFFERS}) {{ threadgroup float a[32] = {{0}}; a[i] = 4; F[i] = a[i]; }}",
        4,
    ),
    (
        f"template <int N> [[kernel, max_total_threads_per_threadgroup(N * 32)]] void f({BUFFERS}) {{ F[i] = N; }}\n"
        'template [[host_name("k")]] [[kernel]] decltype(f<1>) f<1>;',
        1,
    ),
    (f"kernel void k({BUFFERS}) {{ const uniform<int> n = make_uniform(5); F[i] = n; }}", 5),
    (f"kernel void k({BUFFERS}) {{ remove_addrspace_t<float> n = 6; F[i] = n; }}", 6),
    ("kernel void k(coherent device float* F [[buffer(0)]]) { F[0] = 7; }", 7),
    ("kernel void k(coherent(device) device float* F [[buffer(0)]]) { F[0] = 7; }", 7),
    (f"kernel void k({BUFFERS}) {{ metal::uint3 a(8); F[i] = a.x; }}", 8),
    (f"constant int two = 2;\nkernel void k({BUFFERS}) {{ F[i] = fmax(0, two / 4 + 0.5); }}", 0.5),
    (
        f"template <typename T> T half_of(T x) {{ return x * 0.5; }}\nkernel void k({BUFFERS}) {{ F[i] = half_of(3.0f); }}",
        1.5,
    ),
    (
        "namespace metal { bfloat exp(bfloat x) { return 2.0bf; } namespace precise { bfloat exp(bfloat x) { return 3.0bf; } } }\n"
        f"kernel void k({BUFFERS}) {{ F[i] = exp(1.0bf) + precise::exp(1.0bf) + precise::exp(0.0f); }}",
        6,
    ),
    (
        f"#define N 2\nkernel void k({BUFFERS}) {{ float s = 0;\n#pragma unroll (N * 2)\nfor (int n = 0; n < 4; ++n) s += n;\nF[i] = s; }}",
        6,
    ),
    (
        f"template <typename T, typename = enable_if_t<sizeof(T) < 8>> T f(T x) {{ return x; }}\nkernel void k({BUFFERS}) {{ F[i] = f(9); }}",
        9,
    ),
    (
        f"struct S {{ typedef float type; }};\nkernel void k({BUFFERS}) {{ threadgroup typename S::type a[32]; a[i] = 4; F[i] = a[i]; }}",
        4,
    ),
    (
        f"kernel void k({BUFFERS}) {{ packed_char4 c = packed_char4(1, 2, 3, 4); F[i] = float4(c).w; }}",
        4,
    ),
    (f"kernel void k({BUFFERS}) {{ F[i] = simd_sum(float4(1)).z; }}", 32),
    # Of a bfloat and a float after `?` the float keeps all its bits.
    (
        f"kernel void k({BUFFERS}) {{ float x = 0.1f; F[i] = ((i > 99 ? 1.0bf : x) == x) + ((i < 99 ? x : 1.0bf) == x); }}",
        2,
    ),
    (f"kernel void k({BUFFERS}) {{ bfloat x = 3; x = i > 99 ? x : 4; F[i] = x; }}", 4),
    (
        f"kernel void k({BUFFERS}) {{ bool2 a = bool2(true, false), b = (a && a.yx) || !a.yx; F[i] = b.x + 2 * b.y; }}",
        1,
    ),
]


@pytest.mark.parametrize(("text", "value"), TAKEN)
def test_what_apple_takes_runs(text: str, value: float) -> None:
    x = np.zeros(32, np.float32)
    Library.compile(HEAD + text).run("k", [x], 32, 32)
    assert x[0] == value


def test_vectors_have_global_names() -> None:
    body = "float4 a = float4(1, 2, 3, 4); bool2 b = bool2(true); F[0] = (a * b.x + float4(a.xy, half2(3)))[i.x + 3];"
    text = f"kernel void k(device float* F [[buffer(0)]], uint3 i [[thread_position_in_grid]]) {{ {body} }}"
    x = np.zeros(1, np.float32)
    Library.compile("#include <metal_stdlib>\n" + text).run("k", [x], 1, 1)
    assert x[0] == 7
    assert check("#include <metal_stdlib>\n" + text, 310) is None


@pytest.mark.parametrize("value", ["1.0f", "half(1)", "F[1] + 1.0bf"])
def test_a_bfloat_of_a_float_is_asked_for(value: str) -> None:
    text = HEAD + f"kernel void k({BUFFERS}) {{ bfloat x%s; F[i] = x; }}"
    Library.compile(text % f"({value})")
    with pytest.raises(Failure, match=r"no viable conversion from .* to 'bfloat'"):
        Library.compile(text % f" = {value}")


@pytest.mark.parametrize("name", ["forward<int>(1)", "is_empty<int>::value", "void_t<int>"])
def test_names_that_metal_has_not(name: str) -> None:
    with pytest.raises(Failure, match=r"no member named|no template named"):
        Library.compile(HEAD + f"kernel void k({BUFFERS}) {{ F[i] = sizeof(metal::{name}); }}")


def test_the_check_of_every_text(monkeypatch: pytest.MonkeyPatch) -> None:
    text = HEAD + KERNEL + "I[0] = min(I[0], U[0]);\n}"
    Library.compile(text)
    monkeypatch.setenv("IRIS_SOFTMETAL_STRICT", "1")
    with pytest.raises(Failure, match="call to 'min' is ambiguous"):
        Library.compile(text)
