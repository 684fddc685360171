"""Gathers from tiles, against NumPy's `take_along_axis`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import iris
from iris.errors import DTypeError, ProgramError, ShapeError

DEVICES = ("interp", "interp:metal")


@iris.kernel
def rows(
    X, Index, Y, M: iris.constexpr, N: iris.constexpr, Q: iris.constexpr, AXIS: iris.constexpr
):
    P: iris.constexpr = Q if AXIS == 0 else M
    R: iris.constexpr = Q if AXIS == 1 else N
    x = iris.load(X + iris.arange(0, M)[:, None] * N + iris.arange(0, N)[None, :])
    at = iris.arange(0, P)[:, None] * R + iris.arange(0, R)[None, :]
    iris.store(Y + at, iris.gather(x, iris.load(Index + at), AXIS))


def gathered(x: Any, index: Any, axis: int, device: str, simdgroups: int) -> Any:
    y, (m, n) = np.empty(index.shape, x.dtype), x.shape
    options = {"num_simdgroups": simdgroups, "device": device}
    rows[1](x, index, y, M=m, N=n, Q=index.shape[axis], AXIS=axis, **options)
    return y


@pytest.mark.parametrize(
    "shape, axis, count, dtype, of, simdgroups",
    [
        ((16, 64), 1, 64, "f4", "i4", 4),
        ((16, 64), 0, 8, "f2", "i8", 4),
        ((4, 4), 1, 128, "i8", "u1", 2),
        ((64, 2), 0, 64, "?", "i1", 1),
        ((1, 8), 0, 4, "f4", "u4", 1),
    ],
)
def test_elements_are_taken_along_an_axis(
    shape: tuple[int, int], axis: int, count: int, dtype: str, of: str, simdgroups: int
) -> None:
    rng = np.random.default_rng(count)
    x = rng.integers(-99, 99, shape).astype(dtype)
    index = rng.integers(0, shape[axis], [*shape[:axis], count, *shape[axis + 1 :]]).astype(of)
    expected = np.take_along_axis(x, index.astype(int), axis)
    for device in (*DEVICES, "softmetal") if dtype == "f4" and count == 64 else DEVICES:
        assert (gathered(x, index, axis, device, simdgroups) == expected).all()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("wrong", [-1, 16, 2**28, 2**31 - 1, -(2**31), 2**32])
def test_an_index_outside_the_axis_is_reported(wrong: int, axis: int, device: str) -> None:
    index = np.zeros((16, 16), np.int64 if wrong == 2**32 else np.int32)
    index[3, 5] = wrong
    with pytest.raises(ProgramError, match="is outside"):
        gathered(np.zeros((16, 16), np.float32), index, axis, device, 2)


@iris.kernel
def packed(X, Index, Y, N, M, B: iris.constexpr):
    at = iris.arange(0, B)
    row = iris.arange(0, 4)[:, None]
    x = iris.load(X + row * B + at[None, :], mask=(at[None, :] < N) & (row < 3))
    index = iris.load(Index + at, mask=at < M)
    iris.store(Y + row * B + at[None, :], iris.gather(x, iris.broadcast_to(index, (4, B)), 1))


@pytest.mark.parametrize("device", DEVICES)
def test_what_is_not_there_does_not_count(device: str) -> None:
    x = np.arange(4 * 32, dtype=np.float32).reshape(4, 32)
    index = np.random.default_rng(0).integers(0, 32, 32).astype(np.int32)
    index[20:] = 1000  # which no program reads
    y = np.full_like(x, -1)
    packed[1](x, index, y, 24, 20, B=32, device=device)
    named = x[:, np.where(index < 24, index, 0)]
    there = (index < 24) & (np.arange(4) < 3)[:, None]
    np.testing.assert_array_equal(y, np.where(there, named, -1))


@iris.kernel
def misused(X, SHAPE: iris.constexpr, AXIS: iris.constexpr, FLOATS: iris.constexpr):
    index = iris.zeros(SHAPE, "f32" if FLOATS else "i32")
    iris.store(X, iris.sum(iris.gather(iris.zeros((4, 8)), index, AXIS)))


def test_misuse_is_refused() -> None:
    x = np.zeros(1, np.float32)
    misused[1](x, (4, 2), 1, False, device="interp")
    for shape, axis in (((4, 2), 0), ((4,), 1), ((2, 8), 1)):
        with pytest.raises(ShapeError, match=f"than their sizes along axis {axis}"):
            misused[1](x, shape, axis, False, device="interp")
    with pytest.raises(ShapeError, match="axis"):
        misused[1](x, (4, 8), 2, False, device="interp")
    with pytest.raises(DTypeError, match="an index is an integer, not f32"):
        misused[1](x, (4, 8), 1, True, device="interp")
