"""What texts do to the machine, counted: by hand, and as the Metal IR that they are made of."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
import pytest
from msl import Library, machine

import iris
from iris.runtime.softmetal import Count
from text_counts import TextCounts, counting

pytestmark = pytest.mark.softmetal
F32, F16 = np.float32, np.float16
HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"


@pytest.fixture
def texts_count() -> Iterator[None]:
    machine().msl_count(1)
    yield
    machine().msl_count(0)


def counts_of(text: str, *buffers: Any, threads: int = 32) -> dict[str, tuple[int, ...]]:
    library = Library.compile(HEAD + text)
    counting().counts()
    library.run("f", buffers, (threads, 1), (threads, 1))
    return {name: tuple(count) for name, count in counting().counts().items()}


def test_accesses_are_as_wide_as_the_text_says(texts_count: None) -> None:
    text = """
        kernel void f(device const float* X, device float* Y, constant int& n,
                      ushort l [[thread_index_in_simdgroup]]) {
            alignas(16) threadgroup float shared[256];
            float4 wide = *(device const float4*)&X[l * 4];
            float4 unaligned = *(device const packed_float4*)&X[l * 4 + 1];
            float2 two[2];
            for (int i = 0; i < 2; ++i) two[i] = ((device const float2*)&X[l * 4])[i];
            *(threadgroup float4*)&shared[l * 4] = wide + unaligned;
            threadgroup_barrier(mem_flags::mem_threadgroup);
            float column = shared[(l & 7) * 32];
            if (l < 8) Y[l * n] = column + two[0].x + two[1].y + simd_shuffle_xor(wide, 1).x;
        }
        """
    x = np.zeros(256, F32)
    found = counts_of(text, x, np.zeros(512, F32), np.array([32], np.int32))
    assert found == {
        "barrier": (1, 0, 0),
        "device load 16": (2, 1024, 4 + 5),
        "device load 8": (2, 512, 2 * 4),
        "device store 4": (1, 32, 8),
        "operation a shuffle": (4, 0, 0),
        "threadgroup load 4": (1, 128, 7),
        "threadgroup store 16": (1, 512, 0),
    }


def test_rounds_of_a_loop_are_told_apart(texts_count: None) -> None:
    text = """
        kernel void f(device float* X, device atomic_int* Y,
                      ushort l [[thread_index_in_simdgroup]]) {
            #pragma unroll
            for (int i = 0; i < 3; ++i) if (l != i) X[i * 32 + l] = i;
            for (int i = 0; i < l; ++i) X[l] += 1.0f;
            atomic_fetch_add_explicit(Y, 1, memory_order_relaxed);
        }
        """
    found = counts_of(text, np.zeros(128, F32), np.zeros(1, np.int32))
    assert found == {
        "device atomic": (32, 0, 0),
        "device load 4": (31, 31 * 32 // 2 * 4, 31),
        "device store 4": (3 + 31, 3 * 31 * 4 + 31 * 32 // 2 * 4, 3 + 31),
    }


def test_what_registers_cannot_hold() -> None:
    text = """
        kernel void f(device const int* X, device int* Y, ushort l [[thread_index_in_simdgroup]]) {
            int kept[16], fixed[4];
            for (int i = 0; i < 16; ++i) kept[i] = X[i];
            for (int i = 0; i < 4; ++i) fixed[i] = X[i + l];
            Y[l] = kept[X[l] & 15] + fixed[3];
        }
        """
    machine().msl_count(2)
    try:
        found = counts_of(text, np.zeros(64, np.int32), np.zeros(64, np.int32))
    finally:
        machine().msl_count(0)
    assert found["stack load"] == (32, 0, 0)
    assert set(found) == {"stack load", "stack store"}


# What is lowered.


@iris.kernel
def matmul(A, B, C, M, N, K, T: iris.constexpr, TK: iris.constexpr):
    i, j = iris.program_id(0) * T, iris.program_id(1) * T
    acc = iris.zeros((T, T))
    for k in iris.tile_range(0, K, TK):
        a, b = iris.tile_load(A, i, k, K, (T, TK)), iris.tile_load(B, k, j, N, (TK, T))
        acc = iris.dot(a, b, acc)
    iris.tile_store(C, i, j, N, acc)


@iris.kernel
def softmax(X, Out, N, B: iris.constexpr):
    at = iris.arange(0, B)
    row = iris.program_id(0) * N
    x = iris.load(X + row + at, mask=at < N)
    e = iris.exp(x - iris.max(x))
    iris.store(Out + row + at, e / iris.sum(e), mask=at < N)


@iris.kernel
def log_softmax_of_products(A, B, C, N: iris.constexpr, K: iris.constexpr):
    at = iris.program_id(0) * N
    x = iris.dot(iris.tile_load(A, at, 0, K, (N, K)), iris.tile_load(B, 0, 0, N, (K, N)))
    x = x - iris.max(x, 1)[:, None]
    iris.tile_store(C, at, 0, N, x - iris.log(iris.sum(iris.exp(x), 1))[:, None])


@iris.kernel
def transpose(X, Out, N, B: iris.constexpr):
    i, j = iris.program_id(0) * B, iris.program_id(1) * B
    iris.tile_store(Out, j, i, N, iris.tile_load(X, i, j, N, (B, B)).T)


@iris.kernel
def histogram(X, Bins, B: iris.constexpr):
    at = iris.program_id(0) * B + iris.arange(0, B)
    iris.atomic_add(Bins + iris.load(X + at), 1)


def zeros(*shape: int, dtype: Any = F32) -> Any:
    return np.zeros(shape, dtype)


def squares(n: int, dtype: Any = F32) -> list[Any]:
    return [zeros(n, n, dtype=dtype), zeros(n, n, dtype=dtype), zeros(n, n)]


BLOCKS = {"T": 64, "TK": 32}
LAUNCHES: dict[str, tuple[Any, Any, list[Any], dict[str, Any]]] = {
    "matmul": (matmul, (2, 2), [*squares(128), 128, 128, 128], BLOCKS),
    "matmul of f16": (matmul, (2, 2), [*squares(128, F16), 128, 128, 128], BLOCKS),
    "matmul, ragged": (matmul, (2, 2), [*squares(100), 100, 100, 100], BLOCKS),
    "matmul, 4 simdgroups": (
        matmul, (2, 2), [*squares(128), 128, 128, 128], {**BLOCKS, "num_simdgroups": 4}
    ),
    "softmax": (softmax, 4, [zeros(4, 1024), zeros(4, 1024), 1024], {"B": 1024}),
    "softmax, ragged": (softmax, 4, [zeros(4, 1001), zeros(4, 1001), 1001], {"B": 1024}),
    "log_softmax of products": (
        log_softmax_of_products, 2, [zeros(64, 32), zeros(32, 32), zeros(64, 32)],
        {"N": 32, "K": 32},
    ),
    "transpose": (transpose, (2, 2), [zeros(64, 64), zeros(64, 64), 64], {"B": 32}),
    "histogram": (
        histogram, 2, [zeros(256, dtype=np.int32), zeros(4, dtype=np.int32)], {"B": 64}
    ),
}  # fmt: skip
# In those left out, not every round of a loop does what the one in the middle does.
EXACT = ("matmul", "softmax", "transpose", "matmul, 4 simdgroups")


@pytest.mark.parametrize("name", LAUNCHES)
def test_texts_do_what_their_ir_does(name: str) -> None:
    kernel, grid, arguments, named = LAUNCHES[name]
    kernel[grid](*arguments, device=TextCounts(), **named)


@pytest.mark.parametrize("name", EXACT)
def test_estimates_are_of_the_text(name: str) -> None:
    """Where no program is at an edge."""
    kernel, grid, arguments, named = LAUNCHES[name]
    counting().counts()
    kernel[grid](*arguments, device=counting(), **named)
    text = counting().counts()
    found = kernel.lower(*arguments, grid=grid, **named).estimate.counts
    programs = prod(grid) if isinstance(grid, tuple) else grid

    def total(start: str) -> Count:
        chosen = [figures for what, figures in text.items() if what.startswith(start)]
        return Count(*[sum(f) for f in zip((0, 0, 0), *chosen, strict=True)])

    device, shared = found.device, found.shared
    assert device.lines * programs == total("device").cost
    assert (device.loaded * programs, device.stored * programs) == (
        total("device load").bytes,
        total("device store").bytes,
    )
    assert (device.instructions * programs, shared.instructions * programs) == (
        total("device").times,
        total("threadgroup").times,
    )
    assert shared.bytes * programs == total("threadgroup").bytes
    assert found.barriers["threadgroup"] * programs == total("barrier").times
    assert found.mmas * programs == total("operation a matrix").times
    assert found.shuffles * programs == total("operation a shuffle").times
