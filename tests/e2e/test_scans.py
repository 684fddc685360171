"""Running sums along each axis of a tile, for each number of simdgroups, as in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import iris


@pytest.fixture(autouse=True)
def device() -> None:
    """Each launch here names its own."""


@iris.kernel
def running_sums(X, Out, ROWS: iris.constexpr, COLUMNS: iris.constexpr, AXIS: iris.constexpr):
    at = iris.arange(0, ROWS)[:, None] * COLUMNS + iris.arange(0, COLUMNS)[None, :]
    iris.store(Out + at, iris.cumsum(iris.load(X + at), axis=AXIS))


@pytest.mark.parametrize("simdgroups", [4, 8, 16, 32])
@pytest.mark.parametrize("shape", [(64, 128), (128, 64), (64, 64)])
@pytest.mark.parametrize("axis", [0, 1])
def test_running_sums_of_large_tiles(shape: tuple[int, int], axis: int, simdgroups: int) -> None:
    """Simdgroups exchange few totals, so that a thread has registers for all that it reads."""
    x = np.arange(shape[0] * shape[1], dtype=np.int32).reshape(shape) % 1009
    out = np.zeros_like(x)
    rows, columns = shape
    running_sums[1](x, out, rows, columns, axis, num_simdgroups=simdgroups, device="interp:metal")
    np.testing.assert_array_equal(out, np.cumsum(x, axis, dtype=np.int32))
