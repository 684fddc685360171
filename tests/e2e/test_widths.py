"""Blocks of elements of all sizes, moved by up to 16 bytes at a time, against NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import iris
from metal_check import complaints_of_all
from on_metal import METAL
from support import counts

F32, F16, BF16 = np.float32, np.float16, ml_dtypes.bfloat16
DTYPES = [F16, BF16, np.int8, np.uint8, np.bool_, np.int16, F32]


@iris.kernel
def blocks(
    X,
    Y,
    Out,
    M,
    N,
    what: iris.constexpr,
    BM: iris.constexpr,
    BN: iris.constexpr,
    dtype: iris.constexpr,
):
    i, j = iris.program_id(0) * BM, iris.program_id(1) * BN
    if what == "offsets":
        rows, cols = i + iris.arange(0, BM), j + iris.arange(0, BN)
        mask = (rows[:, None] < M) & (cols[None, :] < N)
        at = rows[:, None] * N + cols[None, :]
        x = iris.load(X + at, mask=mask, other=1)
        y = iris.load(Y + at, mask=mask)
        iris.store(Out + at, x.to(dtype) + y.to(dtype), mask=mask)
    else:
        x = iris.tile_load(X, i, j, N, (BM, BN))
        if what == "copy":
            iris.tile_store(Out, i, j, N, x)
        elif what == "transpose":
            iris.tile_store(Out, j, i, M, x.T)
        else:
            y = iris.tile_load(Y, i, j, N, (BM, BN)).to(dtype)
            if what == "rows":
                y = y + iris.sum(y, axis=1, keepdims=True)
            iris.tile_store(Out, i, j, N, x.to(dtype) + y)


def draw(rng: np.random.Generator, shape: Any, dtype: Any) -> Any:
    return rng.integers(0, 2, shape).astype(dtype)


def sums(x: Any, size: int) -> Any:
    """For each element, the sum of its row within its block."""
    starts = np.arange(0, x.shape[1], size)
    return np.add.reduceat(x, starts, axis=1).repeat(size, axis=1)[:, : x.shape[1]]


@pytest.mark.parametrize("what", ["copy", "transpose", "sum", "rows", "offsets"])
def test_blocks_of_any_dtypes(what: str) -> None:
    texts = []
    for seed in range(counts(8, 50)):
        rng = np.random.default_rng(seed)
        x_dtype, y_dtype = (DTYPES[i] for i in rng.integers(0, len(DTYPES), 2))
        bm, bn = (int(2**n) for n in rng.integers([2, 4], [6, 8]))
        m = int(rng.choice([1, 13, 48, 64]))
        n = int(16 * rng.integers(1, 10) + rng.choice([0, 0, 0, 8, 1]))
        x, y = draw(rng, (m, n), x_dtype), draw(rng, (m, n), y_dtype)
        if what in ("copy", "transpose"):
            dtype, wanted = x_dtype, x if what == "copy" else x.T
        else:
            dtype = F32 if rng.random() < 0.5 else F16
            wide = y.astype(F32)
            if what == "rows":
                wide = wide + sums(wide, bn)
            wanted = (x.astype(F32) + wide).astype(dtype)
        out = np.zeros(wanted.shape, dtype)
        named = {"what": what, "BM": bm, "BN": bn, "dtype": "f32" if dtype is F32 else "f16"}
        grid = (iris.cdiv(m, bm), iris.cdiv(n, bn))
        blocks[grid](x, y, out, m, n, **named)
        assert (out == wanted).all(), (seed, named, m, n)
        lowered = blocks.lower(x, y, out, m, n, grid=grid, **named)
        texts.append(str(lowered.msl))
    assert complaints_of_all(texts) == []
    # Some are of sizes that no vector divides, or have elements of four bytes.
    assert sum("uint4*" in text or "uint2*" in text for text in texts) >= len(texts) // 8


@iris.kernel
def moved_block(X, Out, column, stride, rows, cols):
    x = iris.tile_load(X, 0, column, stride, (8, 8), rows=rows, cols=8)
    iris.tile_store(Out, 0, 0, 8, x, rows=8, cols=cols)


FAR = [2**31, 2**32, 2**32 + 3, 2**40 + 1]


@pytest.mark.metal
@pytest.mark.parametrize("device", ["interp", "interp:metal", METAL])
def test_one_number_of_a_block_may_need_64_bits(device: str) -> None:
    x = np.arange(1, 129, dtype=F32)
    row, column = np.indices((8, 8))
    calls = [(c, 8, rows, cols) for c in (0, 3) for rows in (3, *FAR) for cols in (5, *FAR)]
    calls += [(c, 8, rows, 8) for far in FAR for c in (far, -far) for rows in (3, 8)]
    for c, stride, rows, cols in calls:
        inside = (row < rows) & (0 <= c + column) & (c + column < 8)
        seen = x[np.where(inside, row * stride + c + column, 0)]
        wanted = np.where(inside & (column < cols), seen, 0)
        out = np.zeros((8, 8), F32)
        moved_block[1](x, out, c, stride, rows, cols, device=device)
        assert (out == wanted).all(), (c, rows, cols)
