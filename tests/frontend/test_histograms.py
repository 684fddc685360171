"""Histograms of tiles count what NumPy counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import iris
from iris.errors import DTypeError, ShapeError


@iris.kernel
def counts(X, Out, M, P: iris.constexpr, BINS: iris.constexpr):
    at = iris.arange(0, P)
    bins = iris.arange(0, BINS)
    iris.store(Out + bins, iris.histogram(iris.load(X + at), BINS))
    iris.store(Out + BINS + bins, iris.histogram(iris.load(X + at), BINS, at % 3 == 0))
    loaded = iris.load(X + at, mask=at < M)  # the other lanes do not count
    iris.store(Out + 2 * BINS + bins, iris.histogram(iris.reshape(loaded, (2, P // 2)), BINS))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64])
@pytest.mark.parametrize("bins", [1, 8, 256])
def test_elements_are_counted(dtype: Any, bins: int) -> None:
    limits, rng = np.iinfo(dtype), np.random.default_rng(bins)
    x = rng.integers(max(-3, limits.min), min(bins + 3, limits.max), 64).astype(dtype)
    if dtype is np.int64:
        x[:9] += 2**32  # whose low halves are in the range
    kept = [x, x[::3], x[:41]]
    expected = [np.bincount(k[(k >= 0) & (k < bins)].astype(int), minlength=bins) for k in kept]
    on_text = dtype is np.int8 and bins == 256
    for device in ("interp", "interp:metal", *(["softmetal"] if on_text else [])):
        out = np.empty(3 * bins, np.int32)
        counts[1](x, out, 41, P=64, BINS=bins, num_simdgroups=2, device=device)
        np.testing.assert_array_equal(out, np.concatenate(expected))


@iris.kernel
def counts_of_some(X, Out, M, BINS: iris.constexpr):
    at = iris.arange(0, 16)
    x = iris.load(X + at, mask=at < M)
    bins = iris.arange(0, BINS)
    iris.store(Out + bins, iris.histogram(x, BINS))
    iris.store(Out + BINS + bins, iris.histogram(x, BINS, x >= 0))


@pytest.mark.parametrize("device", ["interp", "interp:metal"])
@pytest.mark.parametrize("bins", [8, 16, 32])
def test_counts_of_a_tile_without_a_lane_that_counts_do_not_count(bins: int, device: str) -> None:
    for lanes in (0, 3):
        out = np.full(2 * bins, 77, np.int32)
        counts_of_some[1](np.full(16, 2, np.int32), out, lanes, BINS=bins, device=device)
        expected = np.bincount([2] * lanes, minlength=bins) if lanes else np.full(bins, 77)
        np.testing.assert_array_equal(out, np.concatenate([expected, expected]))


@pytest.mark.parametrize(
    "call, kind, says",
    [
        (lambda x: iris.histogram(x * 0.5, 8), DTypeError, "counts integers, not a traced tile"),
        (lambda x: iris.histogram(x, 12), ShapeError, "powers? of two"),
        (lambda x: iris.histogram(x, 8, x), DTypeError, "a mask is of bools, not a traced tile"),
    ],
)
def test_misuse_is_an_error(call: Any, kind: type[Exception], says: str) -> None:
    @iris.kernel
    def kernel(X):
        call(iris.load(X + iris.arange(0, 16)))

    with pytest.raises(kind, match=says):
        kernel[1](np.zeros(16, np.int32))
