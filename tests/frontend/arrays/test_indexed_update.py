"""`x.at[index]` against what NumPy writes into an array."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from array_keys import keys, places_of, with_places
from tracing_arrays import DTYPES, compute, numbers, same, trace

X = numbers((4, 5, 3))
ROWS = np.array([[0, 3], [1, 2]])
PLACES = np.array([2, 0, 1])

KEYS: list[Any] = [
    0,
    -1,
    (1, 2, 0),
    slice(None),
    slice(1, 3),
    slice(None, None, -1),
    slice(3, 0, -2),
    slice(2, 1),
    ...,
    (..., 0),
    (..., slice(1, None), None),
    (None, 1, None, slice(2), None),
    (slice(1, -1), slice(1, -1)),
    (slice(2, 0, -1), slice(1, None), slice(None, None, -1)),
    (slice(None, None, 2), slice(None, None, -3)),
    ROWS,
    PLACES,
    (slice(None), PLACES),
    (..., PLACES),
    (PLACES, PLACES),
    (PLACES, slice(None), PLACES),
    (0, slice(None), PLACES),
    (slice(None), 0, PLACES),
    (PLACES, slice(1, 3), 0),
    (PLACES, None, PLACES),
    (slice(1, 3), None, PLACES, slice(None, None, -1)),
    (ROWS, slice(1, 4)),
    (ROWS[:, :1], slice(None), PLACES[None, :]),
    np.zeros((0,), np.int64),
    X > 0,
]


def written(x: Any, key: Any, values: Any) -> Any:
    copy = x.copy()
    copy[key] = values
    return copy


def added(x: Any, key: Any, values: Any) -> Any:
    copy = x.copy()
    np.add.at(copy, key, values)
    return copy


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_keys_that_are_known(key: Any) -> None:
    values = numbers(X[key].shape, seed=1)
    same(compute(lambda x, v: x.at[key].set(v), X, values), written(X, key, values))
    same(compute(lambda x, v: x.at[key].add(v), X, values), added(X, key, values))
    same(compute(lambda x: x.at[key].set(7), X), written(X, key, 7), dtype=np.float32)
    same(compute(lambda x: x.at[key].add(7), X), added(X, key, 7), dtype=np.float32)
    if values.ndim and values.shape[0]:
        first = values[:1]
        same(compute(lambda x, v: x.at[key].set(v), X, first), written(X, key, first))
    # NumPy leaves out axes of size 1 at the front, but of masks and of single elements.
    found = compute(lambda x, v: x.at[key].set(v), X, values[None, None])
    same(found, written(X, key, values))


@pytest.mark.parametrize("key", [key for key in KEYS if places_of(key)], ids=str)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_keys_that_are_traced(key: Any, dtype: Any) -> None:
    values = numbers(X[key].shape, seed=1)
    places = [part.astype(dtype) for part in places_of(key)]

    def function(x: Any, values: Any, *places: Any) -> Any:
        at = x.at[with_places(key, places)]
        return at.set(values), at.add(values)

    found = compute(function, X, values, *places)
    same(found, (written(X, key, values), added(X, key, values)))


def test_a_place_is_added_to_as_often_as_it_is_named() -> None:
    labels = np.array([0, 2, 2, 1, 0, 2, -1], np.int32)
    values = numbers((7, 2))
    zeros = np.zeros((4, 2), np.float32)
    found = compute(lambda i, v: np.zeros_like(v, shape=(4, 2)).at[i].add(v), labels, values)
    same(found, added(zeros, labels, values))
    found = compute(lambda i, x: x.at[i, 0].add(1), labels, zeros)
    same(found, added(zeros, (labels, 0), 1))


def test_the_last_value_for_a_place_stays() -> None:
    keys: list[Any] = [
        [2, 0, 2, -4],
        ([1, 1], [0, 0]),
        (ROWS[:1].T, [[1, 1]]),
        (slice(1, None), [0, 2, 0]),
        ([0, 0, 1], slice(None), [1, 1, 1]),
        (..., None, [[0, 1], [1, 0]]),
    ]
    for key in keys:
        values = numbers(X[key].shape, seed=1)
        same(compute(lambda x, v, k=key: x.at[k].set(v), X, values), written(X, key, values))
        same(compute(lambda x, k=key: x.at[k].set(7), X), written(X, key, 7))


def test_adding_nothing_keeps_zeros_as_they_are() -> None:
    x = np.array([0.0, -0.0, 1.0], np.float32)
    found = compute(lambda x: x.at[2:].add(1), x)
    assert np.signbit(found).tolist() == [False, True, False]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dtypes(dtype: Any) -> None:
    x, v = numbers((4, 3), dtype), numbers((2, 3), dtype, 1)
    for key in (slice(1, 3), slice(0, 4, 2), np.array([3, 0])):
        same(compute(lambda x, v, k=key: x.at[k].set(v), x, v), written(x, key, v), dtype=dtype)
        if dtype != np.bool_:
            same(compute(lambda x, v, k=key: x.at[k].add(v), x, v), added(x, key, v), dtype=dtype)
    same(compute(lambda x: x.at[0].set(True), x), written(x, 0, True), dtype=dtype)


def test_what_stands_together_is_chosen_by_where_it_is() -> None:
    def ops(function: Any) -> list[str]:
        (func,) = trace(function, X).module
        return [op.name for op in func.body]  # type: ignore[attr-defined]

    inner = (slice(1, -1), slice(1, -1))
    assert "graph.scatter" not in ops(lambda x: x.at[inner].set(x[inner] * 2))
    assert "graph.scatter" not in ops(lambda x: x.at[::-1].add(x))
    assert "select" not in ops(lambda x: x.at[::-1].set(x))
    assert ops(lambda x: x.at[...].set(x)) == ["return"]
    assert "graph.scatter" in ops(lambda x: x.at[::2].set(0))


@given(keys(), st.booleans())
def test_any_key(given_: tuple[tuple[int, ...], tuple[Any, ...]], traced: bool) -> None:
    shape, key = given_
    x = numbers(shape)
    values = numbers(x[key].shape, seed=1)
    places = [part.astype(np.int32) for part in places_of(key)] if traced else []
    found = compute(
        lambda x, v, *p: x.at[with_places(key, p) if traced else key].add(v), x, values, *places
    )
    same(found, added(x, key, values))
    # What is written to is named once, or the last value stays.
    numbered = np.arange(x.size).reshape(shape)[key]
    if not traced or len(set(numbered.ravel().tolist())) == numbered.size:
        found = compute(
            lambda x, v, *p: x.at[with_places(key, p) if traced else key].set(v), x, values, *places
        )
        same(found, written(x, key, values))
