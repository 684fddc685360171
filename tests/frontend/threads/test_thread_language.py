"""The language of kernels by thread: its types, its memory, its errors."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import iris
from iris import metal
from iris.errors import (
    ArgumentError,
    DTypeError,
    IrisError,
    LanguageError,
    PointerError,
    ProgramError,
    ShapeError,
)
from iris.ir.control import Func
from iris.ir.math import Constant

LANES = np.arange(32)
DEVICES = ["interp", pytest.param("softmetal", marks=pytest.mark.softmetal)]


@pytest.mark.parametrize(
    ("name", "dtype", "width", "stride"),
    [
        ("float2", np.float32, 2, 2),
        ("float3", np.float32, 3, 4),
        ("packed_float3", np.float32, 3, 3),
        ("float4", np.float32, 4, 4),
        ("half4", np.float16, 4, 4),
        ("bfloat2", ml_dtypes.bfloat16, 2, 2),
        ("uchar3", np.uint8, 3, 4),
        ("long4", np.int64, 4, 4),
        ("int", np.int32, 1, 1),
    ],
)
def test_vectors_lie_in_memory_as_in_metal(name: str, dtype: Any, width: int, stride: int) -> None:
    @metal.kernel(param_types={"X": f"device const {name}*", "Y": f"device {name}*"})
    def double(X, Y):
        i = metal.thread_id_x()
        Y[i + 1] = X[i] + X[i]

    x = np.arange(32 * stride).astype(dtype) % 7
    y = np.full(33 * stride, 9, dtype)
    double(x, y, threads=32)
    expected = np.full((33, stride), 9, dtype)
    expected[1:, :width] = 2 * x.reshape(32, stride)[:, :width]
    assert (y == expected.reshape(-1)).all()


def test_bits_are_seen_as_another_type() -> None:
    @metal.kernel
    def seen(X: "device const float4*", Y: "device uint*", Z: "device short*"):
        i = metal.thread_id_x()
        v = X[i]
        Y[i * 4] = metal.bitcast(v.x, metal.uint)
        Y[i * 4 + 1] = metal.bitcast(v, metal.uint4).y
        Y[i * 4 + 2] = metal.bitcast(v, "uint").z
        Y[i * 4 + 3] = metal.bitcast(v.w, iris.u32)
        Z[i] = metal.bitcast(metal.bfloat(v.x), metal.short)

    x = np.array([[1, -0.0, np.nan, 1e-45], [-3.5, np.inf, 0.1, 2]], np.float32)
    y, z = np.zeros((2, 4), np.uint32), np.zeros(2, np.int16)
    seen(x, y, z, threads=2)
    assert (y == x.view(np.uint32)).all()
    assert (z == x[:, 0].astype(ml_dtypes.bfloat16).view(np.int16)).all()

    @metal.kernel
    def wide(X: "device const float4*", Y: "device uint*"):
        Y[0] = metal.bitcast(X[0], metal.uint2).x

    with pytest.raises(ShapeError, match="is no vector of 2, as uint2 is"):
        wide(x, y, threads=1)


def test_vectors_are_made_and_taken_apart() -> None:
    @metal.kernel
    def apart(Y: "device int*"):
        i = metal.thread_id_x()
        v = metal.int4(metal.int2(i, 1), metal.int2(2))
        w = v.wzyx * metal.int4(1, 10, 100, 1000)
        Y[i * 4] = w.x + w.y + w[2] + w.a
        Y[i * 4 + 1] = v[i % 4]
        Y[i * 4 + 2] = (-v).rg.y
        Y[i * 4 + 3] = metal.select(0, v, v > 1).x

    y = np.zeros((32, 4), np.int32)
    apart(y, threads=32)
    assert (y[:, 0] == 2 + 20 + 100 + 1000 * LANES).all()
    assert (y[:, 1] == np.choose(LANES % 4, [LANES, 1, 2, 2])).all()
    assert (y[:, 2] == -1).all()
    assert (y[:, 3] == np.where(LANES > 1, LANES, 0)).all()


def test_words_of_vectors_are_those_of_metal() -> None:
    @metal.kernel
    def geometry(A: "device const float3*", B: "device float*"):
        i = metal.thread_id_x()
        a, b = A[i], A[i + 1]
        c = metal.cross(a, b)
        B[i * 8], B[i * 8 + 1], B[i * 8 + 2] = c.x, c.y, c.z
        B[i * 8 + 3] = metal.dot(a, b)
        B[i * 8 + 4] = metal.length(a)
        B[i * 8 + 5] = metal.normalize(a).y
        B[i * 8 + 6] = metal.mix(a, b, 0.25).z
        B[i * 8 + 7] = metal.clamp(metal.trunc(a.x * 3), -1, 1)

    vectors = np.random.default_rng(0).standard_normal((33, 4), np.float32)
    found = np.zeros((32, 8), np.float32)
    geometry(vectors, found, threads=32)
    a, b = vectors[:-1, :3], vectors[1:, :3]
    norm = np.linalg.norm(a, axis=1)
    parts = [np.cross(a, b), (a * b).sum(1), norm, a[:, 1] / norm, a[:, 2] * 0.75 + b[:, 2] / 4]
    expected = np.column_stack([*parts, np.clip(np.trunc(a[:, 0] * 3), -1, 1)])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)

    @metal.kernel
    def swapped(B):
        B[0] = metal.select(B[0] > 0, 1.0, 2.0)

    with pytest.raises(ShapeError, match=r"gives b where the condition holds, which is a bool"):
        swapped(found, threads=1)


def test_types_are_those_declared() -> None:
    """By annotations, that may be kept as text as here, or of arguments."""

    @metal.kernel
    def mixed(Y, a: metal.ushort, b: "constant float&", c, d: iris.f16, e: "bool"):
        Y[0] = a - 3  # which wraps
        Y[1] = b / 2
        Y[2] = c // 2
        Y[3] = metal.select(0, d, e)

    y = np.zeros(4, np.float32)
    mixed(y, 2, 3, 5, 0.1, True, threads=1)
    assert y.tolist() == [65535, 1.5, 2, np.float32(np.float16(0.1))]


def test_shared_memory_has_axes_and_vectors() -> None:
    @metal.kernel
    def turn(Y: "device float2*"):
        square = metal.shared((4, 8), metal.float2)
        t = metal.thread_in_threadgroup()
        square[t // 8, t % 8] = metal.float2(t, -t)
        metal.barrier("simdgroup")
        row = square + 8
        Y[t] = metal.float2(square[31 - t].y, row[t % 8].x)

    y = np.zeros((32, 2), np.float32)
    turn(y, grid=1, threadgroup=32)
    assert (y[:, 0] == LANES - 31).all()
    assert (y[:, 1] == 8 + LANES % 8).all()


def test_a_private_array_may_be_carried_by_loops_and_branches() -> None:
    def clear(array):
        for k in range(len(array)):
            array[k] = 0

    @metal.kernel
    def bins(X: "device const int*", Y: "device int*"):
        i = metal.thread_id_x()
        counts = metal.array(4, metal.int)
        clear(counts)
        for k in range(X[i]):
            if k % 3 == 0:
                counts[k % 4] += 1
            else:
                counts[0] -= 1
        for k in range(4):
            Y[i * 4 + k] = counts[k]

    x = LANES.astype(np.int32)
    y = np.zeros((32, 4), np.int32)
    bins(x, y, threads=32)
    expected = np.zeros((32, 4), np.int32)
    for i in range(32):
        for k in range(i):
            expected[i, k % 4 if k % 3 == 0 else 0] += 1 if k % 3 == 0 else -1
    assert (y == expected).all()


def test_an_index_beyond_a_private_array_is_reported() -> None:
    @metal.kernel
    def beyond(Y):
        i = metal.thread_id_x()
        own = metal.array(4, metal.float)
        own[i] = 1
        Y[i] = own[0]

    with pytest.raises(ProgramError, match=r"has no element of that number.*thread 4 "):
        beyond(np.zeros(32, np.float32), threads=32)


@pytest.mark.parametrize(
    "device", ["interp", pytest.param("softmetal", marks=pytest.mark.softmetal)]
)
def test_atomics_update_arrays_and_shared_memory(device: str) -> None:
    @metal.kernel
    def update(Y: "device int*", F: "device float*", U: "device uint*"):
        t = metal.thread_in_threadgroup()
        most = metal.shared(1, metal.int)
        if t == 0:
            most[0] = -5
        metal.barrier()
        metal.atomic_max(most, t * 7 % 32)
        metal.barrier()
        metal.atomic_add(Y, t)
        metal.atomic_min(Y + 1, most[0] - t)
        metal.atomic_xor(U, 1 << (t % 3))
        metal.atomic_or(U + 1, t)
        metal.atomic_and(U + 2, t | 1)
        metal.atomic_add(F + t % 2, 0.5)
        metal.atomic_max(F + 2, t)
        if t == 3:
            old = metal.atomic_exchange(F + 3, 2)
            Y[2] = old

    y, f = np.zeros(3, np.int32), np.float32([1, 1, 1, 8])
    u = np.uint32([0, 0, 0xFFFF])
    update(y, f, u, grid=1, threadgroup=32, device=device)
    assert y.tolist() == [496, 0, 8]
    assert f.tolist() == [9, 9, 31, 2]
    assert u.tolist() == [0b001 ^ 0b010, 31, 1]


def test_scans_and_votes_are_of_the_lanes_of_a_simdgroup() -> None:
    """What random kernels do not draw."""

    @metal.kernel
    def scan(Y: "device int*"):
        t, lane = metal.thread_in_threadgroup(), metal.lane_id()
        Y[t * 4] = metal.simd_prefix_exclusive_sum(t)
        Y[t * 4 + 1] = metal.int(metal.simd_all(t >= 32))
        Y[t * 4 + 2] = metal.simd_shuffle_down(t, 5)
        Y[t * 4 + 3] = metal.int(metal.simd_broadcast(lane == 3, 3))

    y = np.zeros((64, 4), np.int32)
    scan(y, grid=1, threadgroup=64)
    t = np.arange(64).reshape(2, 32)
    assert (y[:, 0].reshape(2, 32) == np.cumsum(t, axis=1) - t).all()
    assert (y[:, 1] == (t.reshape(-1) >= 32)).all()
    assert (y[:, 2].reshape(2, 32) == np.where(LANES + 5 < 32, t + 5, t)).all()
    assert (y[:, 3] == 1).all()


def test_positions_and_constants_are_computed_once_at_the_start() -> None:
    """Wherever the words stand: in both branches, in a loop that is traced twice."""

    @metal.kernel
    def place(Y: "device int*", n: "int"):
        if n > 3:
            Y[metal.thread_id_x()] = 7 + metal.lane_id()
        else:
            total = 0
            for i in metal.range(n):
                total += i * 7 + metal.thread_id_x()
                metal.barrier("simdgroup")
            Y[metal.thread_id_x()] = total

    t = np.arange(128)
    for n, expected in ((4, 7 + t % 32), (3, 21 + 3 * t)):
        y = np.zeros(128, np.int32)
        place(y, n, grid=2, threadgroup=64)
        assert (y == expected).all()
    traced = place.lower(y, 3, grid=2, threadgroup=64).stages[0].module
    (body,) = [op.body for op in traced if isinstance(op, Func)]
    at_start = {op.name for op in body if op.operands == ()}
    counts = Counter(op.name for op in traced.walk())
    assert {"metal.lane", "metal.simdgroup", "metal.threadgroup_id"} <= at_start
    assert counts["metal.lane"] == counts["metal.simdgroup"] == counts["metal.threadgroup_id"] == 1
    sevens = [op for op in traced.walk() if isinstance(op, Constant) and op.value == 7]
    assert [op.parent for op in sevens] == [body.first.parent]


def _threads_of(function: Callable[..., None]) -> None:
    x, y = np.zeros(64, np.float32), np.zeros(64, np.float32)
    metal.kernel(function)(x, y, grid=1, threadgroup=64)


def _const(A: "device const float*", B):
    A[0] = 1


def _no_index(A, B):
    B[0] = A[0.5]


def _indices(A, B):
    B[0, 1] = 2


def _tile_word(A, B):
    iris.store(B, 1)


def _letters(A: "device float4*", B):
    B[0] = A[0].xq


def _component(A: "device float4*", B):
    v = A[0]
    v.x = 1


def _element(A: "device float4*", B):
    B[0] = A[0][4]


def _number(A, B):
    B[0] = A + 1


def _count(A, B):
    B[0] = metal.float2(1, 2, 3).x


def _size(A, B):
    metal.shared(metal.thread_id_x(), metal.float)


def _type(A, B):
    metal.shared(4, "floot")


def _scope(A, B):
    metal.barrier("grid")


def _wide(A, B):
    metal.simd_sum(metal.long(1))


def _atomic(A, B):
    metal.atomic_and(B, 1)


def _mask(A, B):
    metal.simd_shuffle_xor(1, 32)


def _matrix(A, B):
    metal.simdgroup_store(metal.float(1), A, 8)


def _matrix_of_a_thread(A, B):
    metal.simdgroup_load(metal.array(64, metal.float), 8)


def _vector_for_a_scalar(A: "device float4*", B):
    B[0] = A[0]


def _vector_of_two(A: "device float4*", B):
    A[0] = A[0].xy


@pytest.mark.parametrize(
    ("function", "kind", "message"),
    [
        (_const, PointerError, "A is declared const"),
        (_no_index, PointerError, "an offset is an integer, not f32"),
        (_indices, ShapeError, "B is indexed by 1 integers, not 2"),
        (_tile_word, LanguageError, "a thread has scalars and short vectors, no tiles"),
        (_letters, LanguageError, "has no .xq"),
        (_component, LanguageError, "a vector is never changed"),
        (_element, ShapeError, "has elements 0 to 3, not 4"),
        (_number, PointerError, "A is no number; its elements are A[i]"),
        (_count, DTypeError, "float2 is made of 2 values, not a int, a int, a int"),
        (_size, ShapeError, "metal.shared takes sizes that are known while tracing"),
        (_type, DTypeError, "no type is called 'floot'"),
        (_scope, ArgumentError, "a barrier is for one of simdgroup, threadgroup, device"),
        (_wide, DTypeError, "up to 32 bits, not i64"),
        (_atomic, DTypeError, "and is of integers, not of f32"),
        (_mask, ArgumentError, "a number from 1 to 31, known while tracing, not 32"),
        (_matrix, ShapeError, "a simdgroup's matrix goes here, not a traced f32"),
        (_matrix_of_a_thread, ArgumentError, "not in an array of the thread's own"),
        (_vector_for_a_scalar, ShapeError, "a scalar goes here, not a traced regs<4xf32>"),
        (_vector_of_two, ShapeError, "a vector of 4 goes here, not a traced regs<2xf32>"),
    ],
    ids=lambda x: x.__name__.strip("_") if callable(x) and not isinstance(x, type) else "",
)
def test_a_mistake_is_shown_at_its_line(
    function: Callable[..., None], kind: type[IrisError], message: str
) -> None:
    with pytest.raises(kind, match=re.escape(message)) as caught:
        _threads_of(function)
    spot = caught.value.spot
    assert spot is not None and spot.line == function.__code__.co_firstlineno + (
        2 if function is _component else 1
    )


def test_words_of_threads_are_no_words_of_tiles() -> None:
    @iris.kernel
    def tiles(X):
        metal.barrier()

    with pytest.raises(LanguageError, match="what one thread does is for functions decorated"):
        tiles[1](np.zeros(4, np.float32))


@metal.kernel
def sums_of_groups(A: "device const float*", B: "device float*", N: "uint"):
    """Each threadgroup sums its elements as often as there are numbers, along both axes."""
    part = metal.shared((8, 12), metal.float)
    x, y = metal.thread_in_threadgroup_x(), metal.thread_in_threadgroup_y()
    width, height = metal.grid_size_x(), metal.grid_size_y()
    left, top = metal.threadgroup_id_x() * 12, metal.threadgroup_id_y() * 8
    total = 0.0
    for _ in metal.range(N):
        part[y, x] = A[(top + y) * width + left + x]
        metal.barrier()
        if x == 0 and y == 0:
            for j in metal.range(metal.min(8, height - top)):
                for i in metal.range(metal.min(12, width - left)):
                    total += part[j, i]
        metal.barrier()
    if x == 0 and y == 0:
        B[metal.threadgroup_id_y() * metal.num_threadgroups_x() + metal.threadgroup_id_x()] = total


@pytest.mark.parametrize("device", DEVICES)
def test_threads_beyond_the_edge_come_to_barriers_and_do_nothing_else(device: str) -> None:
    a = np.random.default_rng(0).standard_normal((13, 29), np.float32)
    sums = np.zeros((2, 3), np.float32)
    sums_of_groups(a, sums, 2, threads=(29, 13), threadgroup=(12, 8), device=device)
    blocks = np.pad(a, ((0, 3), (0, 7))).reshape(2, 8, 3, 12)
    np.testing.assert_allclose(sums, 2 * blocks.sum((1, 3)), rtol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_lanes_beyond_the_edge_do_not_count(device: str) -> None:
    @metal.kernel
    def count(A: "device const int*", B: "device int*"):
        i = metal.thread_id_x()
        a = A[i]
        B[i * 8] = metal.simd_sum(a) + metal.simd_prefix_inclusive_sum(a)
        B[i * 8 + 1] = metal.simd_max(a)
        B[i * 8 + 2] = metal.simd_min(a)
        B[i * 8 + 3] = metal.simd_product(a)
        B[i * 8 + 4] = metal.int(metal.simd_ballot(a < 0))
        B[i * 8 + 5] = metal.int(metal.simd_all(a != 9)) + 2 * metal.int(metal.simd_any(a == 0))
        B[i * 8 + 6] = metal.simd_shuffle_down(a, 1)
        if metal.simdgroup_id() == 1:
            B[i * 8 + 7] = metal.simd_sum(1)

    a = np.array([-3, -2, -7, -5, -1] * 8, np.int32)
    b = np.zeros((40, 8), np.int32)
    count(a, b, threads=40, threadgroup=64, device=device)
    last = a[32:]
    assert (b[32:, 0] == last.sum() + np.cumsum(last)).all()
    expected = [last.max(), last.min(), last.prod(), 255, 1]
    assert (b[32:, 1:6] == expected).all()
    assert (b[32:, 6] == [*last[1:], 0]).all()
    assert (b[:, 7] == [0] * 32 + [8] * 8).all()


@pytest.mark.parametrize("device", DEVICES)
def test_lanes_beyond_the_edge_do_not_count_in_what_has_just_been_loaded(device: str) -> None:
    @metal.kernel
    def greatest(A: "device const int*", B: "device int*"):
        B[metal.thread_id_x()] = metal.simd_max(A[metal.thread_id_x()])

    a, b = -np.arange(1, 41, dtype=np.int32), np.zeros(40, np.int32)
    greatest(a, b, threads=40, threadgroup=64, device=device)
    assert list(b) == [-1] * 32 + [-33] * 8


def test_what_needs_all_threads_is_refused_where_some_may_miss_it() -> None:
    @metal.kernel
    def meet(Y):
        if Y[metal.thread_id_x()] == 0:
            metal.barrier()

    @metal.kernel
    def multiply(Y):
        metal.simdgroup_store(metal.simdgroup_matrix(0), Y, 8)

    y = np.zeros(100, np.float32)
    with pytest.raises(LanguageError, match="no whole number of threadgroups of 64x1x1 along x"):
        meet(y, threads=100, threadgroup=64)
    with pytest.raises(LanguageError, match="of 50x1x1 threads does not fill 2 simdgroups"):
        meet(y, threads=100, threadgroup=50)
    with pytest.raises(LanguageError, match="simdgroup_matrix needs all threads"):
        multiply(y, threads=16)
    meet(y, threads=64, threadgroup=32)


def test_memory_that_only_threads_beyond_the_edge_would_write_is_reported() -> None:
    @metal.kernel
    def neighbours(A, B):
        part = metal.shared(32, metal.float)
        t, i = metal.thread_in_threadgroup(), metal.thread_id_x()
        part[t] = A[i]
        metal.barrier()
        B[i] = part[31 - t]

    a, b = np.ones((2, 40), np.float32)
    with pytest.raises(ProgramError, match="element 31 of part is read before anything is written"):
        neighbours(a, b, threads=40, threadgroup=32)


def test_a_barrier_after_an_early_return_is_reported() -> None:
    @metal.kernel
    def leave(Y):
        t = metal.thread_in_threadgroup()
        if t == 5:
            return
        metal.barrier()
        Y[t] = 1

    with pytest.raises(ProgramError, match="not reached by all threads of the threadgroup"):
        leave(np.zeros(32, np.float32), grid=1, threadgroup=32)
