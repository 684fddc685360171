"""`np.histogram` of known edges, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from iris.errors import ArgumentError, ShapeError
from tracing_arrays import INTEGERS, compute, numbers, reals, same, trace

EDGES = np.array([-1.5, -1, 0, 0.25, 3], np.float32)


@pytest.mark.parametrize("bins", [1, 4, 10, 64])
@pytest.mark.parametrize("shape", [(0,), (1,), (1000,), (7, 5, 3)])
def test_bins_in_a_range(bins: int, shape: tuple[int, ...]) -> None:
    """Elements at edges, beyond them and nan are among them."""
    x = reals(shape)
    x = np.where(x > 3, np.float32(np.nan), np.round(x * 8) / 8)
    for ends in ((-2, 2), (0, 1), (1, 1)):
        found = compute(lambda x, ends=ends: np.histogram(x, bins, ends), x)
        count, edges = np.histogram(x[~np.isnan(x)], bins, ends)
        same(found[0], count, dtype=np.int32)
        same(found[1], edges, dtype=np.float32)


@pytest.mark.parametrize("dtype", [*INTEGERS, np.float16, np.float32], ids=str)
def test_edges(dtype: Any) -> None:
    x = numbers((200,), dtype)
    for edges in (EDGES, [0, 1, 2, 4], np.array([-3, -3, 2])):
        found = compute(lambda x, edges=edges: np.histogram(x, edges)[0], x)
        same(found, np.histogram(x, edges)[0], dtype=np.int32)


def test_weights_and_density() -> None:
    x, weights = numbers((50,)), numbers((50,), seed=1)
    found = compute(lambda x, w: np.histogram(x, 4, (-3, 3), weights=w)[0], x, weights)
    same(found, np.histogram(x, 4, (-3, 3), weights=weights)[0], dtype=np.float32)
    found = compute(lambda x: np.histogram(x, EDGES, density=True)[0], x)
    same(found, np.histogram(x, EDGES, density=True)[0], dtype=np.float32, ulps=2)


def test_mistakes() -> None:
    x = numbers((50,))
    for bins, ends, kind, text in (
        (8, None, ArgumentError, r"depend on the data; give range=\(low, high\)"),
        ("auto", None, ArgumentError, "known while tracing"),
        (0, (0, 1), ShapeError, "at least one bin"),
        ([2, 1], None, ShapeError, "that go up"),
        (4, (1, 0), ArgumentError, "that go up"),
    ):
        with pytest.raises(kind, match=text):
            trace(lambda x, bins=bins, ends=ends: np.histogram(x, bins, ends), x)
    with pytest.raises(ShapeError, match="weights"):
        trace(lambda x: np.histogram(x, 4, (0, 1), weights=x[1:]), x)
