"""Functions that choose, look up, round and compare, against NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tracing_arrays import DTYPES, FLOATS, SHAPES, agrees, compute, numbers, reals, same


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_where(shape: tuple[int, ...]) -> None:
    c, x, y = numbers(shape, np.bool_), numbers(shape), numbers(shape, seed=1)
    agrees(np.where, c, x, y, dtype=np.float32)
    agrees(lambda c, x, y: np.where(c, x, 0), c, x, y, dtype=np.float32)
    agrees(lambda c, x, y: np.where(x > y, x, -1.5), c, x, y, dtype=np.float32)
    agrees(lambda c, x, y: np.where(x, 1, 2), c, x, y, dtype=np.int32)
    agrees(lambda c, x, y: np.where(c, 1.0, 2), c, x, y, dtype=np.float32)


def test_where_over_shapes_and_dtypes() -> None:
    c = numbers((3, 1), np.bool_)
    agrees(np.where, c, numbers((4,), np.int32), numbers((2, 1, 1), np.float16), dtype=np.float16)
    agrees(lambda x: np.where([[True], [False]], x, np.arange(3)), numbers((3,)), dtype=np.float32)
    agrees(lambda c: np.where(c, np.array([1, 2]), 3), c, dtype=np.int64)


def test_select() -> None:
    x = numbers((5, 3))
    agrees(lambda x: np.select([x > 2, x > 0, x > 0], [x, x * 2, -x], 9), x, dtype=np.float32)
    agrees(lambda x: np.select([x > 2], [np.arange(3)]), x)


@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_clip(dtype: Any) -> None:
    x = numbers((4, 5), dtype)
    agrees(lambda x: np.clip(x, 1, 3), x, dtype=dtype)
    agrees(lambda x: (x.clip(1, 3), np.clip(x, 2, None), np.clip(x, None, 2)), x, dtype=dtype)
    agrees(lambda x: np.clip(x, 2, x[0]), x, dtype=dtype)
    wide = dtype if dtype in FLOATS else np.float32
    agrees(lambda x: np.clip(x, 0.5, 2.5), x, dtype=wide)
    agrees(lambda x: np.clip(x, a_min=0.5, a_max=None), x, dtype=wide)


def test_clip_by_its_ends() -> None:
    x = numbers((4, 5))
    found = compute(lambda x: (x.clip(2), x.clip(max=1), x.clip(min=0)), x)
    same(found, (np.maximum(x, 2), np.minimum(x, 1), np.maximum(x, 0)))
    nan = np.array([float("nan"), 1, -1], np.float32)
    agrees(lambda x: np.clip(x, 0, 1), nan)


def test_clip_to_bounds_beyond_the_dtype() -> None:
    x = np.array([0, 100, 255], np.uint8)
    for low, high in ((-5, 300), (3, 2**40), (None, 256), (-1, 255)):
        same(compute(lambda x, a=low, b=high: np.clip(x, a, b), x), np.clip(x, low, high))
        if low is not None and high < 2**31:
            found = compute(lambda x, a, b: np.clip(x, a, b), x, low, high)
            same(found, np.clip(x, low, high), dtype=np.uint8)


def test_clip_of_bools_between_a_number_and_an_array() -> None:
    mask, most = np.array([True, False, True]), np.array([0, 1, 9], np.uint8)
    same(compute(lambda x, y: np.clip(x, 0, y), mask, most), np.clip(mask, 0, most), dtype=np.uint8)


def test_clip_of_what_is_not_traced() -> None:
    x = numbers((3, 4))
    agrees(lambda x: np.ones((3, 4), np.float32).clip(x - 1, x), x)


def test_triangles_of_vectors() -> None:
    agrees(lambda x: (np.tril(x), np.triu(x, 1)), numbers((4,)))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_places_of_fewer_bits_than_the_size_has(dtype: str) -> None:
    x, at = numbers((40000,)), np.array([-3, 100, 5, 7]).astype(dtype)
    for mode in ("wrap", "clip"):
        agrees(lambda x, i, m=mode: np.take(x, i, mode=m), x, at)
        agrees(lambda x, m=mode: np.take(x, at, mode=m), x)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_take(shape: tuple[int, ...]) -> None:
    x, rank = numbers(shape), len(shape)
    random = np.random.default_rng(0)
    for axis in (None, *range(-rank, rank)):
        size = x.size if axis is None else shape[axis]
        for places in ((), (3,), (2, 2), (0,)):
            at = random.integers(-size, size, places) if size else np.zeros((0,), np.int64)
            narrow = at.astype(np.int32)
            agrees(lambda x, i, a=axis: np.take(x, i, axis=a), x, narrow)
            agrees(lambda x, i=at, a=axis: (np.take(x, i, a), x.take(i, axis=a)), x)
            if size:
                far = narrow * 3 + 1
                agrees(lambda x, i, a=axis: np.take(x, i, axis=a, mode="clip"), x, far)
                agrees(lambda x, i, a=axis: np.take(x, i, axis=a, mode="wrap"), x, far)
                agrees(lambda x, i=far, a=axis: np.take(x, i, axis=a, mode="wrap"), x)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint32, np.int64, np.uint64])
def test_places_of_any_dtype(dtype: Any) -> None:
    x = numbers((200, 2))
    places = np.array([0, 5, 127], dtype)
    same(compute(lambda x, i: x.take(i, axis=0), x, places), x[[0, 5, 127]])
    if np.dtype(dtype).kind == "i":
        same(compute(lambda x, i: x.take(-i, axis=0), x, places), x[[0, -5, -127]])


@pytest.mark.parametrize("shape", [s for s in SHAPES if s], ids=str)
def test_take_along_axis(shape: tuple[int, ...]) -> None:
    x, rank = numbers(shape), len(shape)
    random = np.random.default_rng(0)
    for axis in range(-rank, rank):
        size = shape[axis]
        for count in (1, 4):
            sizes = list(shape)
            sizes[axis] = count if size else 0
            places = random.integers(-size, max(size, 1), sizes).astype(np.int32)
            places = np.minimum(places, size - 1)
            agrees(lambda x, i, a=axis: np.take_along_axis(x, i, axis=a), x, places)
            agrees(lambda x, i=places, a=axis: np.take_along_axis(x, i, axis=a), x)
            ones = tuple([n if i == axis % rank else 1 for i, n in enumerate(sizes)])
            few = places[tuple([slice(None) if n > 1 else slice(0, 1) for n in ones])]
            if few.shape == ones:
                agrees(lambda x, i, a=axis: np.take_along_axis(x, i, axis=a), x, few)
    flat = np.array([0, -1], np.int64)
    if x.size:
        agrees(lambda x, i: np.take_along_axis(x, i, axis=None), x, flat)


def test_looking_up_the_places_of_extremes() -> None:
    x = reals((3, 5, 2))
    for axis in (0, 1, 2):
        agrees(lambda x, a=axis: np.take_along_axis(x, np.argmax(x, a, keepdims=True), axis=a), x)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rounding(dtype: Any) -> None:
    x = reals((40,)).astype(dtype) if dtype in FLOATS else numbers((9,), dtype)
    if dtype != np.bool_:
        agrees(lambda x: (np.round(x), x.round(), np.around(x)), x, dtype=dtype)
    if dtype == np.float32:
        for places in (1, 3, -1):
            agrees(lambda x, n=places: np.round(x * 10, n), x, near=1e-6)
    if dtype in FLOATS:
        agrees(np.fix, x, dtype=dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_made_finite(dtype: Any) -> None:
    inf = float("inf")
    x = np.array([1, inf, -inf, float("nan"), 0], dtype)
    found = compute(np.nan_to_num, x)
    assert found.dtype == dtype
    most = float(ml_dtypes.finfo(dtype).max)
    assert found.tolist() == [1, most, -most, 0, 0]
    agrees(lambda x: np.nan_to_num(x, nan=1, posinf=2, neginf=-3), x, dtype=dtype)


def test_compared_as_a_whole() -> None:
    x = np.array([1, 2, np.nan, np.inf, -np.inf, 0], np.float32)
    y = np.array([1 + 1e-6, 2.1, np.nan, np.inf, np.inf, 1e-9], np.float32)
    for nan in (False, True):
        agrees(lambda x, y, n=nan: np.isclose(x, y, equal_nan=n), x, y, dtype=np.bool_)
        agrees(lambda x, n=nan: np.array_equal(x, x, equal_nan=n), x, dtype=np.bool_)
    agrees(lambda x, y: np.isclose(x, y, 0.1, 0.5), x, y)
    agrees(lambda x, y: (np.array_equal(x, y), np.array_equal(x, y[1:])), x, y)
    agrees(lambda x, y: (np.isin(x, y), np.isin(x, [1, 2], invert=True)), x, y, dtype=np.bool_)
    agrees(lambda x, y: (np.isposinf(x), np.isneginf(x)), x, y)
