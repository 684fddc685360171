"""Tensors and their products, which Metal 4 has."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from msl import Failure, Library, check

from support import ROOT

METAL_4 = 400
Array = np.ndarray[Any, Any]

# Products of tensors, transposed or not; of registers, step by step; and one that some lanes miss.
TEXT = """
#include <metal_stdlib>
#include <metal_tensor>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;

typedef dextents<int, 2> Sizes;
template <typename T> using Matrix = tensor<device T, Sizes, tensor_inline>;

template <typename T, bool left, bool right>
[[kernel]] void product(device T* A [[buffer(0)]], device T* B [[buffer(1)]],
                        device float* C [[buffer(2)]], constant int3& s [[buffer(3)]]) {
    Matrix<T> a(A, left ? Sizes(s.x, s.z) : Sizes(s.z, s.x));
    Matrix<T> b(B, right ? Sizes(s.z, s.y) : Sizes(s.y, s.z));
    Matrix<float> c(C, Sizes(s.y, s.x));
    constexpr auto of = matmul2d_descriptor(32, 16, 48, left, right);
    matmul2d<of, execution_simdgroup> op;
    auto sum = op.template get_destination_cooperative_tensor<decltype(a), decltype(b), float>();
    op.run(a, b, sum);
    sum.store(c);
}
#define INSTANCE(T, left, right) \\
    template [[host_name(#T #left #right)]] [[kernel]] \\
    decltype(product<T, left, right>) product<T, left, right>;
INSTANCE(half, 0, 0) INSTANCE(half, 1, 0) INSTANCE(half, 0, 1) INSTANCE(half, 1, 1)
INSTANCE(float, 0, 0) INSTANCE(bfloat, 0, 0)

kernel void steps(device half* A [[buffer(0)]], device half* B [[buffer(1)]],
                  device float* C [[buffer(2)]], constant int& k [[buffer(3)]]) {
    Matrix<half> a(A, Sizes(k, 16)), b(B, Sizes(32, k));
    constexpr auto of = matmul2d_descriptor(16, 32, 16, false, false, true,
                                            matmul2d_descriptor::mode::multiply_accumulate);
    matmul2d<of, execution_simdgroup> op;
    auto left = op.get_left_input_cooperative_tensor<half, half, float>();
    auto right = op.get_right_input_cooperative_tensor<half, half, float>();
    auto sum = op.get_destination_cooperative_tensor<decltype(left), decltype(right), float>();
    for (ushort i = 0; i < sum.get_capacity(); ++i) {
        auto at = sum.get_multidimensional_index(i);
        sum[i] = at[0] == at[1];
    }
    for (int at = 0; at < k; at += 16) {
        auto part = a.slice<16, 16>(at, 0);
        left.load(part);
        auto rest = b.slice(0, at);
        right.load(rest);
        op.run(left, right, sum);
    }
    Matrix<float> c(C, Sizes(32, 16), array<int, 2>{1, 40});
    sum.store(c);
}

// Of operands in memory: by a thread or by all simdgroups, to memory or to what these hold.
template <typename T, typename C, typename Scope, ushort held>
[[kernel]] void in_memory(device T* A [[buffer(0)]], device T* B [[buffer(1)]],
                          device C* to [[buffer(2)]], constant int3& s [[buffer(3)]],
                          uint2 group [[threadgroup_position_in_grid]]) {
    auto a = tensor(A, Sizes(s.z, s.x)), b = tensor(B, Sizes(s.y, s.z));
    auto c = tensor(to, Sizes(s.y, s.x), array<int, 2>{1, s.y});
    constexpr auto of = matmul2d_descriptor(32, 48);
    matmul2d<of, Scope> op;
    auto left = a.slice(0, int(group.y) * 32), right = b.slice(int(group.x) * 48, 0);
    auto part = c.slice(int(group.x) * 48, int(group.y) * 32);
    if constexpr (held) {
        auto sum = op.template get_destination_cooperative_tensor<decltype(a), decltype(b), C>();
        op.run(left, right, sum);
        for (ushort i = 0; i < sum.get_capacity(); ++i) {
            if (sum.get_mask(i)) sum[i] = max(sum[i], C(0));
        }
        sum.store(part);
    } else {
        op.run(left, right, part);
    }
}
#define IN_MEMORY(name, T, C, scope, held) \\
    template [[host_name(name)]] [[kernel]] \\
    decltype(in_memory<T, C, scope, held>) in_memory<T, C, scope, held>;
IN_MEMORY("thread", half, float, execution_thread, 0)
IN_MEMORY("simdgroup", half, half, execution_simdgroup, 0)
IN_MEMORY("simdgroups", char, int, execution_simdgroups<4>, 0)
IN_MEMORY("held", half, float, execution_simdgroups<4>, 1)

kernel void parting(device float* C [[buffer(0)]], uint i [[thread_position_in_grid]]) {
    constexpr auto of = matmul2d_descriptor(16, 16, 16);
    matmul2d<of, execution_simdgroup> op;
    auto a = op.get_left_input_cooperative_tensor<half, half, float>();
    auto b = op.get_right_input_cooperative_tensor<half, half, float>();
    auto c = op.get_destination_cooperative_tensor<decltype(a), decltype(b), float>();
    if (i < 5) op.run(a, b, c);
}
"""


@cache
def library() -> Library:
    return Library.compile(TEXT, version=METAL_4)


def _numbers(*shape: int) -> Array:
    return np.random.default_rng(4).integers(-8, 9, shape).astype(np.float32)


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("half00", (32, 16, 48)),
        ("half10", (32, 16, 48)),
        ("half01", (20, 9, 37)),
        ("half11", (32, 16, 48)),
        ("float00", (1, 16, 5)),
        ("bfloat00", (32, 16, 48)),
    ],
)
def test_products_of_tensors(name: str, sizes: tuple[int, int, int]) -> None:
    """What is outside of a tensor is 0, and not written."""
    rows, columns, depth = sizes
    a, b = _numbers(rows, depth), _numbers(depth, columns)
    pairs = zip((a, b), name[-2:], strict=True)
    given = [np.ascontiguousarray(x.T if flag == "1" else x) for x, flag in pairs]
    if name.startswith("half"):
        given = [x.astype(np.float16) for x in given]
    if name.startswith("bfloat"):
        given = [(x.view(np.uint32) >> 16).astype(np.uint16) for x in given]
    c = np.full((rows, columns), 77, np.float32)
    library().run(name, [*given, c, np.array([*sizes, 0], np.int32)], 32, 32)
    np.testing.assert_array_equal(c, a @ b)


def test_products_are_added_to_what_lanes_hold() -> None:
    a, b = _numbers(16, 48).astype(np.float16), _numbers(48, 32).astype(np.float16)
    c = np.full((16, 40), 77, np.float32)
    library().run("steps", [a, b, c, np.int32([48])], 32, 32)
    np.testing.assert_array_equal(c[:, :32], a.astype(np.float32) @ b + np.eye(16, 32))
    assert (c[:-1, 32:] == 77).all()


IN_MEMORY = [
    ("thread", np.float16, np.float32, 1),
    ("simdgroup", np.float16, np.float16, 32),
    ("simdgroups", np.int8, np.int32, 128),
    ("held", np.float16, np.float32, 128),
]


@pytest.mark.parametrize(("name", "given", "made", "threads"), IN_MEMORY)
def test_products_of_memory(name: str, given: Any, made: Any, threads: int) -> None:
    """The depth is that of the tensors; in registers there is time for another function."""
    a, b = _numbers(50, 19), _numbers(19, 70)
    c = np.full((50, 70), 77, made)
    sizes = np.array([50, 70, 19, 0], np.int32)
    operands = [a.astype(given), b.astype(given), c, sizes]
    library().run(name, operands, (2 * threads, 2, 1), threads)
    expected = np.maximum(a @ b, 0) if name == "held" else a @ b
    np.testing.assert_array_equal(c, expected)


def test_another_number_of_simdgroups_is_an_error() -> None:
    with pytest.raises(Failure, match="is for another number of simdgroups"):
        library().run("held", [np.zeros(9, np.float16)] * 4, 64, 64)


HEAD = """#include <metal_stdlib>
using namespace metal;
using namespace mpp::tensor_ops;
typedef dextents<int, 2> Sizes;
kernel void k(device half* H [[buffer(0)]], device bfloat* B [[buffer(1)]],
              device float* F [[buffer(2)]]) {
    auto h = tensor(H, Sizes(4, 4));
    auto b = tensor(B, Sizes(4, 4));
    auto f = tensor(F, Sizes(4, 4));
    constexpr auto of = matmul2d_descriptor(16, 32, 16);
    matmul2d<of, execution_simdgroup> op;
    matmul2d<of, execution_simdgroups<4>> all;
"""
#: What Metal's header refuses of products, and a neighbour that it takes.
RULES = [
    ("matmul2d<of, int> x;", "Scope template argument", "matmul2d<of, execution_thread> x;"),
    ("op.run(b, b, h);", "unsupported type", "op.run(b, b, f);"),
    ("op.run(f, b, h);", "unsupported type", "op.run(h, b, h);"),
    (
        "op.run(h.slice(0, 0), h, f);",
        "no matching member",
        "auto x = h.slice(0, 0); op.run(x, h, f);",
    ),
    (
        "auto x = all.get_left_input_cooperative_tensor<half, half, float>();",
        "one simdgroup",
        "auto x = op.get_left_input_cooperative_tensor<half, half, float>();",
    ),
    (
        "auto x = op.get_left_input_cooperative_tensor<device half, half, float>();",
        "no address space",
        "auto x = op.get_right_input_cooperative_tensor<half, half, float>();",
    ),
    (
        "tensor<half, Sizes, tensor_inline> x(H, Sizes(4, 4));",
        "no matching constructor",
        "tensor<device half, Sizes, tensor_inline> x(H, Sizes(4, 4));",
    ),
]


@pytest.mark.parametrize(("wrong", "message", "right"), RULES)
def test_texts_are_held_to_metals_header(wrong: str, message: str, right: str) -> None:
    said = check(HEAD + wrong + "\n}\n", METAL_4)
    assert said is not None
    assert message in said, said
    assert "program_source:13:" in said
    assert check(HEAD + right + "\n}\n", METAL_4) is None


def test_our_texts_pass() -> None:
    for text in (TEXT, (ROOT / "tests/compiler/tensor_product.metal").read_text()):
        assert check(text, METAL_4) is None


def test_all_lanes_take_part() -> None:
    with pytest.raises(Failure, match="a matrix multiplication needs all lanes"):
        library().run("parting", [np.zeros(256, np.float32)], 32, 32)


def test_older_versions_have_no_tensors() -> None:
    text = "kernel void f(device float* x) { x[0] = metal::dextents<int, 2>(1, 2).extent(0); }"
    Library.compile(text, version=METAL_4)
    with pytest.raises(Failure, match="dextents"):
        Library.compile(text, version=320)
