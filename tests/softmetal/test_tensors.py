"""Tensors and their products, which Metal 4 has."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from msl import Failure, Library

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


def test_all_lanes_take_part() -> None:
    with pytest.raises(Failure, match="a matrix multiplication needs all lanes"):
        library().run("parting", [np.zeros(256, np.float32)], 32, 32)


def test_older_versions_have_no_tensors() -> None:
    text = "kernel void f(device float* x) { x[0] = metal::dextents<int, 2>(1, 2).extent(0); }"
    Library.compile(text, version=METAL_4)
    with pytest.raises(Failure, match="dextents"):
        Library.compile(text, version=320)
