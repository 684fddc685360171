"""Indexing traced arrays, against NumPy's own rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from array_keys import keys, places_of, with_places
from tracing_arrays import DTYPES, agrees, compute, numbers, same, trace

X = numbers((4, 5, 3))
ROWS = np.array([[0, 3], [-1, 2]])
PLACES = np.array([2, 0, 2])

KEYS: list[Any] = [
    0,
    -1,
    (1, 2),
    (1, 2, 0),
    (np.int64(1), np.uint8(2)),
    slice(None),
    slice(1, 3),
    slice(None, None, -1),
    slice(3, 0, -2),
    slice(-2, None),
    slice(9, 20),
    slice(2, 1),
    ...,
    (..., 0),
    (0, ...),
    (..., slice(1, None), None),
    None,
    (None, 1, None, slice(2), None),
    (slice(None, None, 2), slice(None, None, -3)),
    [0, 2],
    [],
    [[0, 1], [2, 3]],
    ROWS,
    PLACES,
    (slice(None), PLACES),
    (..., PLACES),
    (PLACES, PLACES),
    (PLACES, slice(None), PLACES),
    (slice(None), PLACES, PLACES),
    (0, slice(None), PLACES),
    (slice(None), 0, PLACES),
    (PLACES, 0),
    (PLACES, slice(None), 0),
    (None, PLACES),
    (PLACES, None, PLACES),
    (slice(None), PLACES, ..., PLACES),
    (None, PLACES, ..., PLACES, 0),
    (PLACES, None),
    (slice(1, 3), None, PLACES, slice(None, None, -1)),
    (ROWS, slice(1, 4)),
    (ROWS, PLACES[:2]),
    (ROWS[:, :1], slice(None), PLACES[None, :]),
    (np.array(1), PLACES),
    (slice(None), np.array(1)),
    X > 0,
    (X[:, 0, 0] > -9, 0),
    (slice(None), np.array([True, False, True, True, False])),
    (np.zeros(4, bool),),
    (slice(None), np.array([[True, False, True]] * 5)),
]


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_keys_that_are_known(key: Any) -> None:
    agrees(lambda x: x[key], X, dtype=np.float32)


@pytest.mark.parametrize("key", [key for key in KEYS if places_of(key)], ids=str)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_keys_that_are_traced(key: Any, dtype: Any) -> None:
    places = [part.astype(dtype) for part in places_of(key)]
    found = compute(lambda x, *places: x[with_places(key, places)], X, *places)
    same(found, X[key], dtype=np.float32)
    # Some traced, and the others not.
    rest = places[1:]
    found = compute(lambda x, first: x[with_places(key, [first, *rest])], X, places[0])
    same(found, X[key], dtype=np.float32)


def test_numbers_that_are_arguments() -> None:
    same(compute(lambda x, i: x[i], X, 2), X[2])
    same(compute(lambda x, i: x[i, 1], X, -1), X[-1, 1])
    same(compute(lambda x, i, j: x[i, :, j], X, -1, 2), X[-1, :, 2])
    same(compute(lambda x, i: x[i : i + 1], X, i=2), X[2:3])
    same(compute(lambda x, i: x[i + np.arange(2)], X, 1), X[1:3])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_arrays_of_any_dtype(dtype: Any) -> None:
    x = numbers((4, 5), dtype)
    agrees(lambda x: (x[1], x[::2, ::-1], x[[3, 0, 1]], x[[3, 0], [1, 1]], x[..., None]), x)
    agrees(lambda x: x[np.argmax(x, 0), np.arange(5)], x, dtype=dtype)


def test_arrays_without_elements() -> None:
    x = numbers((0, 3))
    agrees(lambda x: (x[:], x[::-1], x[:, 1], x[[]], x[..., None], x[5:]), x)
    agrees(lambda x: x[:, [0, 2]], x)
    places = np.zeros((0,), np.int32)
    agrees(lambda x, i: x[:, i], x, places)
    same(compute(lambda x, i: x[i], x, places), x[places])


def test_0_d_arrays() -> None:
    x = numbers(())
    agrees(lambda x: (x[()], x[...], x[None], x[None, ..., None]), x)


def test_iteration() -> None:
    def function(x: Any) -> Any:
        a, b, *rest = x
        total = sum(row.sum() for row in x)
        return a, b, rest, total, list(zip(x[0], x[1], strict=True)), x[0][1][2]

    a, b, rest, total, pairs, one = compute(function, X)
    same((a, b, total, one), (X[0], X[1], X.sum(axis=(1, 2)).sum(), X[0, 1, 2]))
    same(rest, list(X[2:]))
    same(pairs, list(zip(X[0], X[1], strict=True)))
    same(compute(lambda x: list(reversed(x)), X), list(reversed(X)))


def ops(function: Any, *arguments: Any) -> list[str]:
    (func,) = trace(function, *arguments).module
    return [op.name.removeprefix("graph.") for op in func.body][:-1]  # type: ignore[attr-defined]


def test_what_is_known_needs_no_lookup() -> None:
    assert ops(lambda x: x[:, 1:4:2], X) == ["slice"]
    assert ops(lambda x: x[[3, 1]], X) == ["slice"]
    assert ops(lambda x: x[:, np.arange(3)], X) == ["slice"]
    assert ops(lambda x: x[[0, 1, 1, 0]], X) == ["slice", "slice", "concat"]
    assert ops(lambda x: x[:, :, :], X) == []
    assert ops(lambda x: x[np.array([0, 1]), np.array([1, 0])], X)[-1] == "gather"


@given(keys(), st.booleans())
def test_any_key(given_: tuple[tuple[int, ...], tuple[Any, ...]], traced: bool) -> None:
    shape, key = given_
    x = numbers(shape)
    if traced:
        places = [part.astype(np.int32) for part in places_of(key)]
        same(compute(lambda x, *places: x[with_places(key, places)], x, *places), x[key])
    else:
        same(compute(lambda x: x[key], x), x[key])
