"""argmax and argmin of masked rows on each level, and in functions of arrays, as in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import iris

Array = npt.NDArray[Any]
DEVICES = ["interp", "interp:metal"]
INTEGERS = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]
NAMES = ["argmax", "argmin"]


@iris.kernel
def places(X, Most, Least, Both, N, first, BLOCK: iris.constexpr):
    row = iris.program_id(0)
    lanes = iris.arange(0, BLOCK)
    inside = (lanes >= first) & (lanes < N + first)
    x = iris.load(X + row * N + lanes - first, mask=inside)
    iris.store(Most + row, iris.argmax(x) - first)
    iris.store(Least + row, iris.argmin(x) - first)
    iris.store(Both + row, iris.argmax(x) + iris.argmin(x) - 2 * first)


@iris.kernel
def of_blocks(X, Out, M, N, ROWS: iris.constexpr, COLUMNS: iris.constexpr):
    rows = iris.program_id(0) * ROWS + iris.arange(0, ROWS)
    columns = iris.arange(0, COLUMNS)
    inside = (rows < M)[:, None] & (columns < N)[None, :]
    x = iris.load(X + rows[:, None] * N + columns[None, :], mask=inside)
    iris.store(Out + rows, iris.argmax(x, axis=1))


@iris.kernel
def of_columns(X, Out, M, N, ROWS: iris.constexpr, COLUMNS: iris.constexpr):
    rows, columns = iris.arange(0, ROWS), iris.arange(0, COLUMNS)
    inside = (rows < M)[:, None] & (columns < N)[None, :]
    x = iris.load(X + rows[:, None] * N + columns[None, :], mask=inside)
    iris.store(Out + columns, iris.argmin(x, axis=0))


def rows(dtype: Any, n: int) -> Array:
    """Rows with ties, of extremes only, and of extremes here and there."""
    rng = np.random.default_rng(n)
    some = rng.integers(0, 4, (12, n)).astype(dtype)
    if np.issubdtype(dtype, np.integer):
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        odd = np.array([low, high, 1], dtype)
    else:
        odd = np.array([-np.inf, np.inf, np.nan, -0.0, 0.0], dtype)
    some[:3] = odd[:3, None]
    some[3:8] = odd[rng.integers(0, len(odd), (5, n))]
    some[8:] = np.where(rng.random((4, n)) < 2 / n, odd[-1], some[8:])
    return some


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, *INTEGERS], ids=lambda d: d.__name__)
@pytest.mark.parametrize(("n", "first", "block"), [(1, 0, 1), (3, 5, 16), (200, 7, 256)])
def test_masked_rows(device: str, dtype: Any, n: int, first: int, block: int) -> None:
    x = rows(dtype, n)
    outs = [np.full(len(x), -1, np.int32) for _ in range(3)]
    places[len(x)](x, *outs, n, first, BLOCK=block, num_simdgroups=4, device=device)
    most, least = x.argmax(1), x.argmin(1)
    for out, expected in zip(outs, (most, least, most + least), strict=True):
        np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("device", DEVICES)
def test_a_row_of_nothing_gives_no_place(device: str) -> None:
    x, outs = np.ones((2, 8), np.float32), [np.full(2, -1, np.int32) for _ in range(3)]
    places[2](x, *outs, 0, 0, BLOCK=64, num_simdgroups=2, device=device)
    assert all((out == -1).all() for out in outs)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kernel", [of_blocks, of_columns])
def test_masked_blocks(device: str, kernel: Any) -> None:
    x = rows(np.float32, 50)[:7]
    along = 1 if kernel is of_blocks else 0
    expected = x.argmax(1) if along else x.argmin(0)
    out = np.full(len(expected), -1, np.int32)
    kernel[2 if along else 1](
        x, out, *x.shape, ROWS=4 if along else 8, COLUMNS=64, num_simdgroups=4, device=device
    )
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("device", ["interp:metal"])
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.uint16], ids=lambda d: d.__name__)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n", [1, 40, 3000])
def test_functions_of_arrays(device: str, name: str, dtype: Any, n: int) -> None:
    function = getattr(np, name)
    x = rows(dtype, n)
    for axis in (0, 1):
        found = iris.jit(lambda x, axis=axis: function(x, axis=axis))(x, device=device)
        np.testing.assert_array_equal(found, function(x, axis=axis))
