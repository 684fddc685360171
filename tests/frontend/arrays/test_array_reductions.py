"""Reductions of traced arrays, against NumPy in 64 bits."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import iris
from tracing_arrays import (
    DTYPES,
    FLOATS,
    INTEGERS,
    REDUCING,
    SHAPES,
    agrees,
    compute,
    numbers,
    reals,
    same,
)

KEEPS_ITS_DTYPE = [np.dtype(t) for t in ("i4", "i8", "u4", "u8")] + list(FLOATS)


def summed(dtype: Any) -> np.dtype[Any]:
    """The dtype of a sum."""
    if dtype in KEEPS_ITS_DTYPE:
        return np.dtype(dtype)
    return np.dtype(np.uint32 if dtype.kind == "u" else np.int32)


def axes_of(shape: tuple[int, ...]) -> Iterator[Any]:
    """Axes to reduce: all, each, counted from either end, and several."""
    yield None
    for axis in range(len(shape)):
        yield axis
        yield axis - len(shape)
    for count in (0, 2, len(shape)):
        yield from combinations(range(len(shape)), count)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("function", [np.sum, np.prod, np.any, np.all, np.mean, np.count_nonzero])
def test_over_any_axes(function: Any, shape: tuple[int, ...]) -> None:
    x = numbers(shape)
    for axis in axes_of(shape):
        for keepdims in (False, True):
            agrees(lambda x, a=axis, k=keepdims: function(x, axis=a, keepdims=k), x, ulps=1)


@pytest.mark.parametrize("shape", [s for s in SHAPES if 0 not in s], ids=str)
@pytest.mark.parametrize("function", [np.max, np.min, np.ptp, np.nanmax, np.var, np.std])
def test_over_any_axes_that_have_elements(function: Any, shape: tuple[int, ...]) -> None:
    x = numbers(shape)
    for axis in axes_of(shape):
        if axis == ():
            continue
        for keepdims in (False, True):
            agrees(lambda x, a=axis, k=keepdims: function(x, axis=a, keepdims=k), x, ulps=3)


def test_extremes_beside_axes_without_elements() -> None:
    for function in (np.max, np.min, np.argmax, np.argmin):
        agrees(lambda x, f=function: f(x, axis=1), numbers((0, 3)))
        agrees(lambda x, f=function: f(x, axis=0), numbers((3, 0, 2)))


@pytest.mark.parametrize("shape", [s for s in SHAPES if 0 not in s], ids=str)
@pytest.mark.parametrize("function", [np.argmax, np.argmin])
def test_places(function: Any, shape: tuple[int, ...]) -> None:
    x = numbers(shape)
    for axis in (None, *range(len(shape)), *range(-len(shape), 0)):
        for keepdims in (False, True):
            agrees(lambda x, a=axis, k=keepdims: function(x, axis=a, keepdims=k), x, dtype=np.int32)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dtypes(dtype: Any) -> None:
    x = numbers((3, 5), dtype)
    mean = dtype if dtype in FLOATS else np.float32
    for function in (np.sum, np.prod, np.cumsum, np.cumprod):
        agrees(lambda x, f=function: f(x, axis=0), x, dtype=summed(dtype))
    for function in (np.max, np.min):
        agrees(lambda x, f=function: f(x, axis=1), x, dtype=dtype)
    for function in (np.any, np.all):
        agrees(function, x, dtype=np.bool_)
    for function in (np.argmax, np.argmin):
        agrees(function, x, dtype=np.int32)
    for function in (np.mean, np.var, np.std):
        agrees(function, x, dtype=mean, ulps=4 if mean == np.float32 else 1)
    agrees(np.count_nonzero, x, dtype=np.int32)
    agrees(lambda x: np.sum(x, dtype=np.float32), x, dtype=np.float32)
    agrees(lambda x: np.sum(x, 0, bool), x, dtype=np.bool_)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_wrap(dtype: Any) -> None:
    x = np.full((3, 40), np.iinfo(dtype).max, dtype)
    for function in (np.sum, np.prod, np.cumsum, np.cumprod):
        with np.errstate(over="ignore"):
            expected = function(x.astype(summed(dtype)), axis=1, dtype=summed(dtype))
        same(compute(lambda x, f=function: f(x, axis=1), x), expected, dtype=summed(dtype))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_nan_and_infinities(dtype: Any) -> None:
    nan, inf = float("nan"), float("inf")
    x = np.array([[1, nan, 3], [inf, 2, -1], [-inf, inf, 0], [nan, inf, -inf]], dtype)
    for function in (np.max, np.min, np.sum, np.mean, np.argmax, np.argmin, np.cumsum, np.any):
        agrees(lambda x, f=function: f(x, axis=1), x)
    for function in (np.nanmax, np.nanmin, np.nansum, np.nanprod, np.nanmean):
        agrees(lambda x, f=function: f(x, axis=1), x, ulps=1)


def test_means_in_integers_are_added_up_in_these() -> None:
    x = np.array([[200, 100, 7], [250, 3, 255]], np.uint8)
    for dtype in (np.uint8, np.int16, np.int32):
        agrees(lambda x, d=dtype: np.mean(x, dtype=d), x)
        agrees(lambda x, d=dtype: np.mean(x, axis=1, dtype=d, where=x > 5), x)
    agrees(lambda x: np.mean(x, axis=0, dtype=np.int32), numbers((5, 4)) * 9)
    great = np.array([[2**25 + 1], [-(2**25) - 3], [7], [-7]], np.int32) + np.arange(
        3, dtype=np.int32
    )
    for dtype in (np.int32, np.int64):
        agrees(lambda x, d=dtype: np.mean(x, axis=1, dtype=d), great)
        agrees(lambda x, d=dtype: np.mean(x, axis=1, dtype=d, where=x % 2 == 1), great)


def test_means_of_halves_are_made_in_f32() -> None:
    x = np.full((4000,), 60.0, np.float16)
    agrees(np.mean, x, dtype=np.float16)
    agrees(np.var, (x + np.arange(4000) % 7).astype(np.float16), dtype=np.float16, ulps=1)
    assert compute(np.mean, x.astype(np.float16)).dtype == np.float16


def test_deviations_are_made_in_two_passes() -> None:
    x = reals((5, 400)) + np.float32(4096)
    for function in (np.var, np.std):
        agrees(lambda x, f=function: f(x, axis=1), x, dtype=np.float32, ulps=200)
        agrees(lambda x, f=function: f(x, axis=1, ddof=1), x, dtype=np.float32, ulps=200)
    x = reals((5, 7))
    agrees(lambda x: np.var(x, 0, None, None, 2), x, ulps=8)
    same(compute(lambda x: x.var(axis=0, correction=1), x), np.var(x, 0, ddof=1), ulps=8)
    agrees(lambda x: np.var(x, axis=0, ddof=9), x)


def test_where_and_initial() -> None:
    x, mask = numbers((4, 6)), numbers((4, 6), np.bool_)
    for function in (np.sum, np.prod):
        agrees(lambda x, m, f=function: f(x, axis=1, where=m), x, mask)
        agrees(lambda x, m, f=function: f(x, 0, initial=3, where=m), x, mask)
    for function in (np.any, np.all, np.mean):
        agrees(lambda x, m, f=function: f(x, axis=1, where=m), x, mask, ulps=1)
    for function in (np.max, np.min):
        agrees(lambda x, m, f=function: f(x, axis=1, initial=1, where=m), x, mask)
        agrees(lambda x, f=function: f(x, initial=-2), x)


@pytest.mark.parametrize("function", [np.sum, np.prod])
def test_whether_there_is_any_or_all(function: Any) -> None:
    """As a sum or a product of bools."""
    x, mask = numbers((4, 6), np.int32), numbers((4, 6), np.bool_)
    for first in (0, 1):
        agrees(lambda x, n=first: function(x, axis=1, dtype=bool, initial=n), x, dtype=np.bool_)
        agrees(
            lambda x, m, n=first: function(x, 0, dtype=bool, initial=n, where=m),
            *(x, mask),
            dtype=np.bool_,
        )
    agrees(lambda x, m: function(x, axis=0, dtype=bool, where=m), x, mask, dtype=np.bool_)


@pytest.mark.parametrize("function", [np.mean, np.var, np.std])
def test_means_of_some(function: Any) -> None:
    x, where = numbers((4, 5)), numbers((4, 5), np.bool_)
    where[0] = True
    for axis in (None, 0, (0, 1)):
        agrees(lambda x, w, a=axis: function(x, axis=a, where=w), x, where, ulps=3)
        agrees(lambda x, w, a=axis: function(x, axis=a, where=w, keepdims=True), x, where, ulps=3)
    agrees(lambda x, w: function(x, axis=1, where=w[:, :1]), x, where, ulps=3)


@pytest.mark.parametrize("function", [np.var, np.std])
def test_deviations_from_a_mean_and_degrees_of_freedom(function: Any) -> None:
    x, where = numbers((4, 5)), numbers((4, 5), np.bool_)
    agrees(lambda x, w: function(x, axis=1, where=w, ddof=1), x, where, ulps=3)

    def by_a_mean(x: Any) -> Any:
        return function(x, axis=1, mean=x.mean(axis=1, keepdims=True))

    same(compute(by_a_mean, x), function(x.astype(np.float64), axis=1), ulps=3)


@pytest.mark.parametrize("function", [np.nanvar, np.nanstd, np.nanmean])
def test_deviations_without_nans(function: Any) -> None:
    x = reals((4, 5))
    x[1, 2] = x[3, :3] = np.nan
    for axis in (None, 0, 1):
        agrees(lambda x, a=axis: function(x, axis=a), x, near=1e-6)


def test_an_initial_extreme_of_no_elements() -> None:
    x = numbers((0, 3))
    for axis in (0, None, (0, 1)):
        agrees(lambda x, a=axis: np.max(x, axis=a, initial=2), x)
        agrees(lambda x, a=axis: np.min(x, axis=a, initial=2, keepdims=True), x)


def test_averages() -> None:
    x, w = numbers((3, 4)), numbers((3, 4), seed=1) ** 2 + 1
    agrees(np.average, x, ulps=1)
    agrees(lambda x, w: np.average(x, weights=w), x, w, ulps=1)
    agrees(lambda x, w: np.average(x, 1, w, True), x, w, ulps=1)
    agrees(lambda x, w: np.average(x, axis=0, weights=w[:, 0]), x, w, ulps=1)
    agrees(lambda x, w: np.average(x, axis=1, weights=w[0], keepdims=True), x, w, ulps=1)
    both = compute(lambda x, w: np.average(x, (1, 0), w.T), x, w)
    same(both, np.average(x, weights=w), ulps=1)
    agrees(lambda x: np.average(x, axis=0, returned=True), x, ulps=1)


@pytest.mark.parametrize("function", REDUCING, ids=lambda f: f.__name__)
def test_methods_of_ufuncs(function: np.ufunc) -> None:
    for dtype in DTYPES:
        x = numbers((3, 4), dtype)
        agrees(function.reduce, x)
        agrees(lambda x: function.reduce(x, 1, keepdims=True), x)
        agrees(lambda x: function.reduce(x, axis=None), x)
    agrees(lambda x: np.add.reduce(x, 1, np.float32), numbers((3, 4), np.int32), dtype=np.float32)


def test_methods_of_arrays() -> None:
    x = numbers((3, 4, 2))
    methods = [
        lambda x: x.sum(),
        lambda x: x.sum(0),
        lambda x: x.sum(axis=(0, 2), keepdims=True),
        lambda x: x.prod(axis=1),
        lambda x: x.mean(-1),
        lambda x: (x > 0).any(),
        lambda x: (x > 0).all(axis=0),
        lambda x: (x.max(0), x.min(), x.argmax(1), x.argmin(axis=-1)),
        lambda x: (x.cumsum(1), x.cumprod()),
        lambda x: (x.var(0), x.std(axis=1, ddof=1)),
    ]
    for method in methods:
        agrees(method, x, ulps=3)


@pytest.mark.parametrize("function", [np.nanvar, np.nanstd])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
def test_too_few_numbers_have_no_variance(function: Any, dtype: Any) -> None:
    x = np.array([[1, 2, 3], [4, 6, 8]], dtype)
    if x.dtype.kind == "f":
        x[0, 0] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = function(x, axis=0, ddof=1), function(x, axis=0, ddof=2)
    for ddof, was in enumerate(expected, 1):
        now = iris.jit(lambda x, ddof=ddof: function(x, axis=0, ddof=ddof))(x)
        np.testing.assert_allclose(now, was, rtol=1e-3)
