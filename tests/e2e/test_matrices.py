"""Matrix products, as lowered for a GPU: right for every size, and what they do to the machine.

The data are small integers, so that a product is exact in any order.  What is counted is derived
from the tiles; where a variant of the GEMM does more than the GEMM of the contract, what it does
more is a number here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import iris
from iris.ir import math
from iris.ir.control import Func, If
from iris.ir.core import Region
from iris.ir.metal import Load
from iris.ir.types import Ptr
from matrix_programs import (
    BF16,
    F16,
    F32,
    LINE,
    WIDE,
    Array,
    Lowered,
    PerArray,
    count,
    gemm,
    product,
    whole,
)
from support import counts

TILES = [(16, 16, 8), (32, 32, 16), (64, 64, 32)]
SIMDGROUPS = (1, 2, 4, 8)
FRAGMENT = 8 * 8  # elements
BANKS = 128  # bytes that all banks serve in a cycle


@pytest.fixture(autouse=True)
def device() -> None:
    """Each launch here names its own."""


def blocks(bm: int, bn: int, bk: int) -> dict[str, int]:
    return {"BLOCK_M": bm, "BLOCK_N": bn, "BLOCK_K": bk}


# Every size, and nothing outside.


@iris.kernel
def gemm_within(
    A,
    B,
    C,
    M,
    N,
    K,
    a0,
    b0,
    c0,
    a_stride,
    b_stride,
    c_stride,
    BLOCK_M: iris.constexpr,
    BLOCK_N: iris.constexpr,
    BLOCK_K: iris.constexpr,
):
    """Each matrix is a part of a larger array."""
    i, j = iris.program_id(0) * BLOCK_M, iris.program_id(1) * BLOCK_N
    acc = iris.zeros((BLOCK_M, BLOCK_N))
    for k in iris.tile_range(0, K, BLOCK_K):
        a = iris.tile_load(A + a0, i, k, a_stride, (BLOCK_M, BLOCK_K), rows=M, cols=K)
        b = iris.tile_load(B + b0, k, j, b_stride, (BLOCK_K, BLOCK_N), rows=K, cols=N)
        acc = iris.dot(a, b, acc)
    iris.tile_store(C + c0, i, j, c_stride, acc, rows=M, cols=N)


class Guarded:
    """A matrix in the middle of a larger array, in which all else is NaN, and stays that."""

    def __init__(self, values: Array, margins: tuple[int, int, int, int]):
        top, bottom, left, right = margins
        rows, columns = values.shape
        shape = top + rows + bottom, left + columns + right
        self.all = np.full(shape, np.nan, values.dtype)
        self.at = slice(top, top + rows), slice(left, left + columns)
        self.all[self.at] = values
        self.first, self.stride = top * shape[1] + left, shape[1]

    @property
    def values(self) -> Array:
        return self.all[self.at]

    def is_whole(self) -> bool:
        """Whether nothing around the matrix was written."""
        around = np.ones(self.all.shape, np.bool_)
        around[self.at] = False
        return bool(np.isnan(self.all[around].astype(F32)).all())


def devices(case: int) -> Iterator[tuple[Any, dict[str, int]]]:
    """Where a case runs: the interpreter of Tile IR, and some numbers of simdgroups, in lockstep
    and by turns; all four in four cases."""
    yield "interp", {}
    for seed in (None, case):
        simdgroups = SIMDGROUPS[(case + (seed is not None)) % 4]
        yield Lowered(seed), {"num_simdgroups": simdgroups}


def residues() -> list[tuple[int, int, int]]:
    """Of M, N and K, modulo 8: first such that each has them all."""
    every = [(i, j, k) for i in range(8) for j in range(8) for k in range(8)]
    covering = [(r, (3 * r + 1) % 8, (5 * r + 2) % 8) for r in range(8)]
    return [*covering, *(t for t in every if t not in covering)][: counts(8, 512)]


def sizes(residue: tuple[int, int, int], tile: tuple[int, int, int], case: int) -> Iterator[int]:
    """Sizes of so much modulo 8, from less than a tile to more than two."""
    rng = np.random.default_rng(case)
    for rest, block in zip(residue, tile, strict=True):
        eights = int(rng.integers(0 if rest else 1, 2 * block // 8 + 1))
        yield 8 * eights + rest


def test_each_size_has_every_residue() -> None:
    tried = [tuple(sizes(r, TILES[0], case)) for case, r in enumerate(residues())]
    for axis in range(3):
        assert {size[axis] % 8 for size in tried} == set(range(8))


@pytest.mark.parametrize("dtype", [F32, F16, BF16], ids=str)
@pytest.mark.parametrize("tile", TILES, ids=str)
def test_every_size(tile: tuple[int, int, int], dtype: Any) -> None:
    for case, residue in enumerate(residues()):
        m, n, k = sizes(residue, tile, case)
        a, b = whole((m, k), dtype, case), whole((k, n), dtype, case + 1)
        grid = iris.cdiv(m, tile[0]), iris.cdiv(n, tile[1])
        for on, named in devices(case):
            # The argument has the matrix alone: the interpreters tell of accesses outside of it.
            c = Guarded(np.zeros((m, n), F32), (1, 2, 0, 0))
            gemm[grid](a, b, c.values, m, n, k, device=on, **blocks(*tile), **named)
            assert (c.values == product(a, b)).all(), (m, n, k, named)
            assert c.is_whole()


@pytest.mark.parametrize("dtype", [F32, F16, BF16], ids=str)
@pytest.mark.parametrize("tile", TILES, ids=str)
def test_nothing_outside_a_matrix_is_read_or_written(
    tile: tuple[int, int, int], dtype: Any
) -> None:
    """It would go unnoticed by the interpreters where the array goes on."""
    for case, residue in enumerate(residues()[:: counts(2, 1)]):
        m, n, k = sizes(residue, tile, case)
        # Wider than a tile, and for some such that rows start at a multiple of 16 bytes.
        margins = (2, 70, 8, 72 - n % 8) if case % 2 else (3, 66, 5, 67)
        a = Guarded(whole((m, k), dtype, case), (*margins[:3], 72 - k % 8))
        b = Guarded(whole((k, n), dtype, case + 1), margins)
        grid = iris.cdiv(m, tile[0]), iris.cdiv(n, tile[1])
        for on, named in devices(case):
            c = Guarded(np.zeros((m, n), F32), margins)
            places = (a.first, b.first, c.first, a.stride, b.stride, c.stride)
            arrays = (a.all, b.all, c.all)
            named |= blocks(*tile)
            gemm_within[grid](*arrays, m, n, k, *places, device=on, **named)
            assert (c.values == product(a.values, b.values)).all(), (m, n, k, named)
            assert c.is_whole() and a.is_whole() and b.is_whole()


@pytest.mark.parametrize("size", ["M", "N", "K"])
def test_a_size_that_is_off_by_one_is_noticed(size: str) -> None:
    n = {"M": 13, "N": 11, "K": 10}
    a = Guarded(whole((13, 10)), (1, 40, 1, 40))
    b = Guarded(whole((10, 11)), (1, 40, 1, 40))
    c = Guarded(np.zeros((13, 11), F32), (1, 40, 1, 40))
    wrong = n | {size: n[size] + 1}
    places = (a.first, b.first, c.first, a.stride, b.stride, c.stride)
    arrays = (a.all, b.all, c.all)
    # What is written outside is not NaN, if what is read for it is not.
    for array in (a, b):
        array.all[np.isnan(array.all)] = 1
    gemm_within[1, 1](*arrays, *wrong.values(), *places, device=Lowered(), **blocks(16, 16, 8))
    right = (c.values == product(a.values, b.values)).all()
    assert c.is_whole() is (size == "K")
    assert right == (size != "K")


# Tiles that are all inside are not checked.


class Unmasked(Lowered):
    """Runs kernels with NaN for whatever they load with a mask."""

    name = "unmasked"

    def compile(self, entry: Func, source: Any = None) -> Any:
        for op in device_loads(entry):
            if op.mask is not None:
                nan = math.Constant(float("nan"), op.result.type)
                op.insert_before(nan)
                op.result.replace_by(nan.result)
                op.erase()
        return super().compile(entry, source)


def device_loads(within: Func | Region) -> list[Load]:
    return [op for op in within.walk() if isinstance(op, Load) and isinstance(op.base.type, Ptr)]


def test_tiles_that_are_inside_take_a_path_without_masks() -> None:
    a, b, c = (np.zeros((250, 250), F32) for _ in range(3))
    lowered = gemm.lower(a, b, c, 250, 250, 250, **blocks(64, 64, 32), grid=(4, 4))
    found = []
    for op in lowered.stages[-1].module.walk():
        if isinstance(op, If):
            paths = [[x.mask is not None for x in device_loads(r)] for r in op.regions]
            found += [paths] if all(paths) else []
    # Of A and of B: without masks, and else with them.
    assert found and all(paths == [[False, False], [True, True]] for paths in found)


@pytest.mark.parametrize("dtype", [F32, F16], ids=str)
def test_a_ragged_product_touches_what_it_must(dtype: Any) -> None:
    n, padded, programs, steps = 250, 256, 16, 8
    a, b, c = whole((n, n), dtype), whole((n, n), dtype, 1), np.zeros((n, n), F32)
    found = count(gemm, (4, 4), a, b, c, n, n, n, **blocks(64, 64, 32), num_simdgroups=4)
    assert (c == product(a, b)).all()
    # Each element is loaded by the four programs that use it.
    assert found.loaded == {"A": 4 * a.nbytes, "B": 4 * b.nbytes, "C": 0}
    assert found.device_stores.bytes == c.nbytes
    assert found.mmas == padded**3 // 512
    # Stores of pairs, which is all that rows are aligned for, go through memory to fill lines.
    assert found.barriers.total() <= 2 * (steps + 1) * programs
    assert found.device_stores.lines <= 2 * found.device_stores.compulsory_lines
    assert found.threadgroup_loads.conflicts == 0
    # A row of a tile starts anywhere, and so touches a line more than it fills.
    most = 64 * (32 * dtype.itemsize // LINE + 1) + 32 * (64 * dtype.itemsize // LINE + 1)
    assert found.device_loads.lines <= programs * steps * (most + 64)


# The GEMM of the contract, and its variants.

M = N = K = 256
BM, BN, BK = 64, 64, 32
PROGRAMS, STEPS = (M // BM) * (N // BN), K // BK


def tile_lines(rows: int, columns: int, dtype: Any) -> int:
    """The lines of tiles whose rows start at a line, or a whole part of one, in all steps."""
    return PROGRAMS * STEPS * rows * -(-columns * np.dtype(dtype).itemsize // LINE)


@iris.kernel
def permuted(
    inner: iris.constexpr,
    depth,
    Result,
    width,
    tall: iris.constexpr,
    Right,
    height,
    Left,
    wide: iris.constexpr,
):
    y = iris.program_id(0)
    x = iris.program_id(1)
    total = iris.zeros((tall, wide), dtype="f32")
    for at in iris.tile_range(0, depth, inner):
        right = iris.tile_load(Right, at, x * wide, width, (inner, wide))
        left = iris.tile_load(Left, y * tall, at, depth, (tall, inner))
        total = iris.dot(left, right, total)
    iris.tile_store(Result, y * tall, x * wide, width, total, (tall, wide))


@iris.kernel
def with_relu(A, B, C, M, N, K, BM: iris.constexpr, BN: iris.constexpr, BK: iris.constexpr):
    i, j, acc = iris.program_id(0) * BM, iris.program_id(1) * BN, iris.zeros((BM, BN))
    for k in iris.tile_range(0, K, BK):
        a, b = iris.tile_load(A, i, k, K, (BM, BK)), iris.tile_load(B, k, j, N, (BK, BN))
        acc = iris.dot(a, b, acc)
    iris.tile_store(C, i, j, N, iris.maximum(acc, 0))


@iris.kernel
def with_scale(A, B, C, scale, M, N, K, BM: iris.constexpr, BN: iris.constexpr, BK: iris.constexpr):
    i, j, acc = iris.program_id(0) * BM, iris.program_id(1) * BN, iris.zeros((BM, BN))
    for k in iris.tile_range(0, K, BK):
        a, b = iris.tile_load(A, i, k, K, (BM, BK)), iris.tile_load(B, k, j, N, (BK, BN))
        acc = iris.dot(a, b, acc)
    iris.tile_store(C, i, j, N, acc * scale)


@iris.kernel
def with_bias(A, B, Bias, C, M, N, K, BM: iris.constexpr, BN: iris.constexpr, BK: iris.constexpr):
    i, j, acc = iris.program_id(0) * BM, iris.program_id(1) * BN, iris.zeros((BM, BN))
    for k in iris.tile_range(0, K, BK):
        a, b = iris.tile_load(A, i, k, K, (BM, BK)), iris.tile_load(B, k, j, N, (BK, BN))
        acc = iris.dot(a, b, acc)
    cols = j + iris.arange(0, BN)
    bias = iris.load(Bias + cols, mask=cols < N)
    iris.tile_store(C, i, j, N, acc + bias[None, :])


@iris.kernel
def with_residual(
    A, B, Residual, C, M, N, K, BM: iris.constexpr, BN: iris.constexpr, BK: iris.constexpr
):
    i, j, acc = iris.program_id(0) * BM, iris.program_id(1) * BN, iris.zeros((BM, BN))
    for k in iris.tile_range(0, K, BK):
        a, b = iris.tile_load(A, i, k, K, (BM, BK)), iris.tile_load(B, k, j, N, (BK, BN))
        acc = iris.dot(a, b, acc)
    iris.tile_store(C, i, j, N, acc + iris.tile_load(Residual, i, j, N, (BM, BN)))


@iris.kernel
def dequantised(
    A, B, C, scale, M, N, K, BM: iris.constexpr, BN: iris.constexpr, BK: iris.constexpr
):
    i, j, acc = iris.program_id(0) * BM, iris.program_id(1) * BN, iris.zeros((BM, BN))
    for k in iris.tile_range(0, K, BK):
        a, b = iris.tile_load(A, i, k, K, (BM, BK)), iris.tile_load(B, k, j, N, (BK, BN))
        acc = iris.dot((a * scale).to(b.dtype), b, acc)
    iris.tile_store(C, i, j, N, acc)


@iris.kernel
def cast(A, B, C, M, N, K, BM: iris.constexpr, BN: iris.constexpr, BK: iris.constexpr):
    i, j, acc = iris.program_id(0) * BM, iris.program_id(1) * BN, iris.zeros((BM, BN))
    for k in iris.tile_range(0, K, BK):
        a, b = iris.tile_load(A, i, k, K, (BM, BK)), iris.tile_load(B, k, j, N, (BK, BN))
        acc = iris.dot(a.to(iris.f32), b, acc)
    iris.tile_store(C, i, j, N, acc)


@iris.kernel
def gated(A, B, Gate, C, M, N, K, BM: iris.constexpr, BN: iris.constexpr, BK: iris.constexpr):
    i, j = iris.program_id(0) * BM, iris.program_id(1) * BN
    acc, gate = iris.zeros((BM, BN)), iris.zeros((BM, BN))
    for k in iris.tile_range(0, K, BK):
        a = iris.tile_load(A, i, k, K, (BM, BK))
        acc = iris.dot(a, iris.tile_load(B, k, j, N, (BK, BN)), acc)
        gate = iris.dot(a, iris.tile_load(Gate, k, j, N, (BK, BN)), gate)
    iris.tile_store(C, i, j, N, acc * iris.maximum(gate, 0))


@iris.kernel
def transposed(
    A,
    B,
    C,
    M,
    N,
    K,
    turn_a: iris.constexpr,
    turn_b: iris.constexpr,
    BM: iris.constexpr,
    BN: iris.constexpr,
    BK: iris.constexpr,
):
    i, j, acc = iris.program_id(0) * BM, iris.program_id(1) * BN, iris.zeros((BM, BN))
    for k in iris.tile_range(0, K, BK):
        if turn_a:
            a = iris.tile_load(A, k, i, M, (BK, BM)).T
        else:
            a = iris.tile_load(A, i, k, K, (BM, BK))
        if turn_b:
            b = iris.tile_load(B, j, k, K, (BN, BK)).T
        else:
            b = iris.tile_load(B, k, j, N, (BK, BN))
        acc = iris.dot(a, b, acc)
    iris.tile_store(C, i, j, N, acc)


@iris.kernel
def by_offsets(A, B, C, M, N, K, BM: iris.constexpr, BN: iris.constexpr, BK: iris.constexpr):
    rows = iris.program_id(0) * BM + iris.arange(0, BM)
    cols = iris.program_id(1) * BN + iris.arange(0, BN)
    acc = iris.zeros((BM, BN))
    for k in iris.tile_range(0, K, BK):
        at = k + iris.arange(0, BK)
        of_a = (rows[:, None] < M) & (at[None, :] < K)
        of_b = (at[:, None] < K) & (cols[None, :] < N)
        a = iris.load(A + rows[:, None] * K + at[None, :], mask=of_a, other=0)
        b = iris.load(B + at[:, None] * N + cols[None, :], mask=of_b, other=0)
        acc = iris.dot(a, b, acc)
    inside = (rows[:, None] < M) & (cols[None, :] < N)
    iris.store(C + rows[:, None] * N + cols[None, :], acc, mask=inside)


@iris.kernel
def sum_of_dots(
    A,
    B,
    C,
    M,
    N,
    K,
    way: iris.constexpr,
    BM: iris.constexpr,
    BN: iris.constexpr,
    BK: iris.constexpr,
):
    i, j, acc = iris.program_id(0) * BM, iris.program_id(1) * BN, iris.zeros((BM, BN))
    for k in iris.tile_range(0, K, BK):
        a, b = iris.tile_load(A, i, k, K, (BM, BK)), iris.tile_load(B, k, j, N, (BK, BN))
        if way == "acc + dot":
            acc = acc + iris.dot(a, b)
        elif way == "dot + acc":
            acc = iris.dot(a, b) + acc
        else:
            acc += iris.dot(a, b)
    iris.tile_store(C, i, j, N, acc)


@iris.kernel
def by_while(A, B, C, M, N, K, BM: iris.constexpr, BN: iris.constexpr, BK: iris.constexpr):
    i, j, acc = iris.program_id(0) * BM, iris.program_id(1) * BN, iris.zeros((BM, BN))
    k = 0
    while k < K:
        a, b = iris.tile_load(A, i, k, K, (BM, BK)), iris.tile_load(B, k, j, N, (BK, BN))
        acc = iris.dot(a, b, acc)
        k += BK
    iris.tile_store(C, i, j, N, acc)


@iris.kernel
def unrolled(A, B, C, M, N, K, BM: iris.constexpr, BN: iris.constexpr, BK: iris.constexpr):
    i, j, acc = iris.program_id(0) * BM, iris.program_id(1) * BN, iris.zeros((BM, BN))
    for k in iris.tile_range(0, K, 2 * BK):
        a, b = iris.tile_load(A, i, k, K, (BM, BK)), iris.tile_load(B, k, j, N, (BK, BN))
        acc = iris.dot(a, b, acc)
        h = k + BK
        a, b = iris.tile_load(A, i, h, K, (BM, BK)), iris.tile_load(B, h, j, N, (BK, BN))
        acc = iris.dot(a, b, acc)
    iris.tile_store(C, i, j, N, acc)


@dataclass(frozen=True)
class Variant:
    """A kernel that multiplies A and B, for some dtype of B."""

    kernel: Any
    arguments: dict[str, Any]
    expected: Array
    #: What it costs above the contract's.
    mmas: int = 0
    lines: int = 0
    shared_bytes: int = 0


def variants(dtype: Any) -> dict[str, Callable[[], Variant]]:
    item = dtype.itemsize
    a, b = whole((M, K), dtype), whole((K, N), dtype, 1)
    a8, a16, gate = whole((M, K), np.int8, 2), whole((M, K), F16, 3), whole((K, N), dtype, 4)
    bias, residual = whole(N, F32, 5), whole((M, N), F32, 6)
    ab = product(a, b)
    # The lines of A and of B, which depend on how wide a row of a tile is.
    of_a, of_b = tile_lines(BM, BK, dtype), tile_lines(BK, BN, dtype)
    # A simdgroup has 32x32 of the result: it loads its part of a row by 8 columns at a time.
    bias_lines = PROGRAMS * 4 * (32 // 8)
    # In the layout of the result 8 columns of 4 bytes are a quarter of a line.
    residual_lines = 4 * residual.nbytes // LINE
    # Four simdgroups each load 32 rows of A, and 32 columns of B.
    fragments = PROGRAMS * STEPS * 4 * (32 + 32) * BK * item
    size = {"M": M, "N": N, "K": K}
    tile = {"BM": BM, "BN": BN, "BK": BK}
    usual = {"A": a, "B": b} | size | tile

    def turned(of_first: bool, of_second: bool) -> Variant:
        lines = 0
        if of_first:
            lines += tile_lines(BK, BM, dtype) - of_a
        if of_second:
            lines += tile_lines(BN, BK, dtype) - of_b
        expected = product(a.T if of_first else a, b.T if of_second else b)
        flags = {"turn_a": of_first, "turn_b": of_second}
        return Variant(transposed, usual | flags, expected, lines=lines)

    names = {"inner": BK, "depth": K, "width": N, "tall": BM, "height": M, "wide": BN}
    return {
        "permuted and renamed": lambda: Variant(permuted, {"Right": b, "Left": a} | names, ab),
        "relu": lambda: Variant(with_relu, usual, np.maximum(ab, 0)),
        "scale": lambda: Variant(with_scale, usual | {"scale": 0.5}, ab * 0.5),
        "bias": lambda: Variant(with_bias, usual | {"Bias": bias}, ab + bias, lines=bias_lines),
        "residual": lambda: Variant(
            with_residual, usual | {"Residual": residual}, ab + residual, lines=residual_lines
        ),
        "dequantised": lambda: Variant(
            dequantised,
            usual | {"A": a8, "scale": 0.5},
            product(a8, b) * 0.5,
            lines=tile_lines(BM, BK, np.int8) - of_a,
        ),
        # f16 is cast to f32, in which the product then is: B is staged in it, too.
        "cast": lambda: Variant(
            cast,
            usual | {"A": a16},
            product(a16, b),
            lines=tile_lines(BM, BK, F16) - of_a,
            shared_bytes=(fragments + PROGRAMS * STEPS * (BM + BN) * BK * item) * (4 // item - 1),
        ),
        # As many products again, which need the fragments of A again, and those of one more tile.
        "second dot": lambda: Variant(
            gated,
            usual | {"Gate": gate},
            ab * np.maximum(product(a, gate), 0),
            mmas=M * N * K // 512,
            lines=of_b,
            shared_bytes=fragments + PROGRAMS * STEPS * BK * BN * item,
        ),
        "A transposed": lambda: turned(True, False),
        "B transposed": lambda: turned(False, True),
        "both transposed": lambda: turned(True, True),
        "offsets and masks": lambda: Variant(by_offsets, usual, ab),
        "acc + dot": lambda: Variant(sum_of_dots, usual | {"way": "acc + dot"}, ab),
        "dot + acc": lambda: Variant(sum_of_dots, usual | {"way": "dot + acc"}, ab),
        "acc += dot": lambda: Variant(sum_of_dots, usual | {"way": "acc += dot"}, ab),
        "while": lambda: Variant(by_while, usual, ab),
        "unrolled": lambda: Variant(unrolled, usual, ab),
    }


@pytest.fixture(scope="module")
def contract() -> dict[Any, PerArray]:
    """What the GEMM of the contract does."""
    found = {}
    for dtype in (F32, F16):
        a, b, c = whole((M, K), dtype), whole((K, N), dtype, 1), np.zeros((M, N), F32)
        named = blocks(BM, BN, BK) | {"num_simdgroups": 4}
        found[dtype] = count(gemm, (M // BM, N // BN), a, b, c, M, N, K, **named)
        assert (c == product(a, b)).all()
    return found


@pytest.mark.parametrize("dtype", [F32, F16], ids=str)
@pytest.mark.parametrize("name", variants(F32))
def test_no_kind_of_kernel_is_recognised(
    name: str, dtype: Any, contract: dict[Any, PerArray]
) -> None:
    variant, known = variants(dtype)[name](), contract[dtype]
    out = np.zeros((M, N), F32)
    result = {"Result" if name == "permuted and renamed" else "C": out}
    grid = M // BM, N // BN
    found = count(variant.kernel, grid, **variant.arguments, **result, num_simdgroups=4)
    assert (out == variant.expected).all()
    assert found.mmas == known.mmas + variant.mmas
    assert found.device_loads.lines <= 1.05 * (known.device_loads.lines + variant.lines)
    assert found.device_stores.lines <= 1.05 * known.device_stores.lines
    assert found.shared_bytes <= 1.05 * (known.shared_bytes + variant.shared_bytes)
    assert found.barriers.total() <= 1.05 * known.barriers.total()
    assert found.threadgroup_loads.conflicts == 0
    # All that threadgroup memory does, in cycles of all banks.
    more = variant.shared_bytes // BANKS
    assert found.shared_cycles <= 1.05 * (known.shared_cycles + more)


# Figures.


@pytest.mark.parametrize("dtype", [F32, F16], ids=str)
@pytest.mark.parametrize(("m", "n", "k"), [(256, 256, 256), (250, 250, 256), (250, 249, 250)])
@pytest.mark.parametrize("way", ["tile_load", "offsets and masks"])
def test_how_much_is_loaded_without_masks(m: int, n: int, k: int, dtype: Any, way: str) -> None:
    a, b, c = whole((m, k), dtype), whole((k, n), dtype, 1), np.zeros((m, n), F32)
    device = Unmasked()
    with np.errstate(invalid="ignore"):
        kernel = gemm if way == "tile_load" else by_offsets
        kernel[4, 4](a, b, c, m, n, k, 64, 64, 32, num_simdgroups=4, device=device)
    rows, columns, steps = m // 64, n // 64, k // 32  # those that are all inside
    traffic = device.counters.device_loads
    assert traffic.bytes == rows * columns * steps * 2 * 64 * 32 * dtype.itemsize
    expected = product(a, b)
    if k % 32 == 0:
        assert (c[: rows * 64, : columns * 64] == expected[: rows * 64, : columns * 64]).all()
        assert np.isnan(c[rows * 64 :]).all() and np.isnan(c[:, columns * 64 :]).all()
    else:
        assert np.isnan(c).all()


@pytest.mark.parametrize("dtype", [F32, F16], ids=str)
def test_a_product_loads_each_tile_once_and_multiplies_by_matrices(dtype: Any) -> None:
    n = 512
    programs, steps = (n // 64) ** 2, n // 32
    a, b, c = whole((n, n), dtype), whole((n, n), dtype, 1), np.zeros((n, n), F32)
    found = count(gemm, (8, 8), a, b, c, n, n, n, **blocks(64, 64, 32), num_simdgroups=4)
    assert (c == product(a, b)).all()
    assert found.mmas == n**3 // 512
    tile = 64 * 32 * dtype.itemsize
    assert found.loaded == {"A": programs * steps * tile, "B": programs * steps * tile, "C": 0}
    assert found.device_loads.compulsory_lines == (a.nbytes + b.nbytes) // LINE
    assert found.device_loads.lines == programs * steps * (
        64 * -(-32 * dtype.itemsize // LINE) + 32 * -(-64 * dtype.itemsize // LINE)
    )
    assert found.device_stores.bytes == c.nbytes
    assert found.device_stores.lines <= 4 * c.nbytes // LINE
    # A tile is staged once, and only tiles are.
    assert found.threadgroup_stores.bytes == found.device_loads.bytes
    fragments = found.threadgroup_loads.bytes / (FRAGMENT * dtype.itemsize)
    assert 16 * fragments / found.mmas <= 8
    assert set(found.barriers) == {"threadgroup"}
    assert found.barriers["threadgroup"] <= 2 * steps * programs
    assert found.threadgroup_loads.conflicts == 0
    assert not found.shuffles


@pytest.mark.parametrize("dtype", [F32, F16], ids=str)
def test_a_thread_loads_sixteen_bytes_at_a_time(dtype: Any, contract: dict[Any, PerArray]) -> None:
    loads = contract[dtype].device_loads
    assert loads.bytes == WIDE * loads.instructions


@pytest.mark.parametrize("tile", [(128, 128, 32), (128, 64, 64), (64, 128, 32)], ids=str)
@pytest.mark.parametrize("dtype", [F32, F16], ids=str)
def test_larger_tiles_fit(tile: tuple[int, int, int], dtype: Any) -> None:
    n = 256
    a, b, c = whole((n, n), dtype), whole((n, n), dtype, 1), np.zeros((n, n), F32)
    found = count(gemm, (n // tile[0], n // tile[1]), a, b, c, n, n, n, **blocks(*tile))
    assert (c == product(a, b)).all()
    assert found.mmas == n**3 // 512
    assert found.threadgroup_loads.conflicts == 0


# Epilogues, on the result where it is.


@iris.kernel
def softmax_of_product(
    A, B, C, M, N, K, BM: iris.constexpr, BN: iris.constexpr, BK: iris.constexpr
):
    i, acc = iris.program_id(0) * BM, iris.zeros((BM, BN))
    for k in iris.tile_range(0, K, BK):
        a, b = iris.tile_load(A, i, k, K, (BM, BK)), iris.tile_load(B, k, 0, N, (BK, BN))
        acc = iris.dot(a, b, acc)
    e = iris.exp(acc - iris.max(acc, axis=1)[:, None])
    iris.tile_store(C, i, 0, N, e / iris.sum(e, axis=1)[:, None])


@pytest.mark.parametrize("dtype", [F32, F16], ids=str)
@pytest.mark.parametrize("name", ["relu", "scale", "bias", "residual"])
def test_an_epilogue_needs_no_threadgroup_memory(
    name: str, dtype: Any, contract: dict[Any, PerArray]
) -> None:
    variant, known = variants(dtype)[name](), contract[dtype]
    out = np.zeros((M, N), F32)
    grid = M // BM, N // BN
    found = count(variant.kernel, grid, **variant.arguments, C=out, num_simdgroups=4)
    assert (out == variant.expected).all()
    assert found.shared_bytes == known.shared_bytes
    assert found.barriers == known.barriers
    assert not found.shuffles


@pytest.mark.parametrize("dtype", [F32, F16], ids=str)
@pytest.mark.parametrize("simdgroups", [1, 2, 4, 8])
def test_rows_of_a_product_are_reduced_within_a_simdgroup(simdgroups: int, dtype: Any) -> None:
    m, n, k = 128, 64, 64
    programs, steps = m // 64, k // 32
    a, b, c = whole((m, k), dtype), whole((k, n), dtype, 1) / 4, np.zeros((m, n), F32)
    b = b.astype(dtype)
    arguments = {"A": a, "B": b, "C": c, "M": m, "N": n, "K": k, "BM": 64, "BN": n, "BK": 32}
    found = count(softmax_of_product, programs, **arguments, num_simdgroups=simdgroups)
    scores = product(a, b).astype(float)
    e = np.exp(scores - scores.max(1, keepdims=True))
    # Scores are exact, and so are differences; exp is off by 4 units of the last place, each of
    # which is two roundings; then there are n sums and a quotient.
    bound = (2 * 8 + n + 1) * 2.0**-24
    np.testing.assert_allclose(c, e / e.sum(1, keepdims=True), rtol=bound, atol=2.0**-126)
    # Each simdgroup has whole rows: it loads its part of A, and all of B.
    of_a, of_b = 64 * 32 * dtype.itemsize, 32 * n * dtype.itemsize
    # What is prefetched is staged in the last round, too.
    assert found.threadgroup_stores.bytes <= (steps + 1) * programs * (of_a + of_b)
    assert found.threadgroup_loads.bytes == programs * steps * (of_a + simdgroups * of_b)
    assert found.barriers.total() <= 2 * steps * programs
    assert found.mmas == m * n * k // 512


# What is added to, and what all programs have in common.


@iris.kernel
def added_to(A, B, C, M, N, K, BM: iris.constexpr, BN: iris.constexpr, BK: iris.constexpr):
    i, j = iris.program_id(0) * BM, iris.program_id(1) * BN
    acc = iris.tile_load(C, i, j, N, (BM, BN))
    for k in iris.tile_range(0, K, BK):
        a, b = iris.tile_load(A, i, k, K, (BM, BK)), iris.tile_load(B, k, j, N, (BK, BN))
        acc = iris.dot(a, b, acc)
    iris.tile_store(C, i, j, N, acc)


@iris.kernel
def added_to_once(A, B, C, N, BM: iris.constexpr, BN: iris.constexpr, BK: iris.constexpr):
    i, j = iris.program_id(0) * BM, iris.program_id(1) * BN
    a, b = iris.tile_load(A, i, 0, BK, (BM, BK)), iris.tile_load(B, 0, j, N, (BK, BN))
    iris.tile_store(C, i, j, N, iris.dot(a, b, iris.tile_load(C, i, j, N, (BM, BN))))


@pytest.mark.parametrize("dtype", [F32, F16], ids=str)
@pytest.mark.parametrize("tile", [(64, 64, 32), (128, 64, 32), (64, 64, 64)], ids=str)
def test_a_sum_that_goes_on_moves_once(tile: tuple[int, int, int], dtype: Any) -> None:
    n = 128
    a, b, c = whole((n, n), dtype), whole((n, n), dtype, 1), whole((n, n), F32, 2)
    expected = c + product(a, b)
    named = dict(zip(("BM", "BN", "BK"), tile, strict=True))
    found = count(added_to, (n // tile[0], n // tile[1]), a, b, c, n, n, n, **named)
    assert (c == expected).all()
    programs, steps = n * n // (tile[0] * tile[1]), n // tile[2]
    # In each round what is staged, and once, before or after, the sum.
    assert found.barriers.total() <= programs * (2 * steps + 4)
    staged = programs * steps * (tile[0] + tile[1]) * tile[2] * dtype.itemsize
    assert found.threadgroup_stores.bytes <= staged + 2 * c.nbytes


@pytest.mark.parametrize("tile", [(64, 64, 64), (128, 64, 32)], ids=str)
def test_what_is_added_to_takes_no_room(tile: tuple[int, int, int]) -> None:
    m, n, k = tile
    a, b, c = whole((m, k)), whole((k, 2 * n), F32, 1), whole((m, 2 * n), F32, 2)
    expected = c + product(a, b)
    named = dict(zip(("BM", "BN", "BK"), tile, strict=True))
    found = count(added_to_once, (1, 2), a, b, c, 2 * n, **named)
    assert (c == expected).all()
    assert found.threadgroup_stores.bytes == found.loaded["A"] + found.loaded["B"]


@pytest.mark.parametrize("n", [125, 126, 127, 128])
def test_a_result_too_large_for_threadgroup_memory_is_stored_as_it_is(n: int) -> None:
    a, b, c = whole((128, 64)), whole((64, n), F32, 1), np.zeros((128, n), F32)
    count(gemm, (1, 1), a, b, c, 128, n, 64, **blocks(128, 128, 32), num_simdgroups=8)
    assert (c == product(a, b)).all()


@iris.kernel
def same_rows(A, B, C, N, K: iris.constexpr, BN: iris.constexpr):
    j = iris.program_id(0) * BN
    a = iris.tile_load(A, 0, 0, K, (16, K))
    for _ in range(2):
        b = iris.tile_load(B, 0, j, N, (K, BN))
        iris.tile_store(C, 0, j, N, iris.dot(a, b))


@pytest.mark.parametrize("simdgroups", SIMDGROUPS)
def test_rows_that_all_programs_share(simdgroups: int) -> None:
    a, b, c = whole((16, 16)), whole((16, 64), F32, 1), np.zeros((16, 64), F32)
    count(same_rows, 4, a, b, c, 64, K=16, BN=16, num_simdgroups=simdgroups)
    assert (c == product(a, b)).all()
