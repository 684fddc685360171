"""What becomes of concrete arrays in a trace."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracing_arrays import BF16, DTYPES, INTEGERS, compute, numbers, same, trace

X = np.ones((2, 3), np.float32)


def made(array: Any) -> tuple[list[str], list[Any]]:
    """The ops that make an array, and what is captured."""
    found = trace(lambda x: (x, array), X)
    (func,) = found.module
    ops = [op.name.removeprefix("graph.") for op in func.body]  # type: ignore[attr-defined]
    return ops[:-1], found.captured


@pytest.mark.parametrize(
    ("array", "ops"),
    [
        (np.zeros((3, 4)), ["constant"]),
        (np.full((3, 4), -2.5, np.float16), ["constant"]),
        (np.full((2,), np.nan, np.float32), ["constant"]),
        (np.zeros((0, 3)), ["constant"]),
        (np.float32(3), ["constant"]),
        (np.array(7), ["constant"]),
        (3, ["constant"]),
        (1.5, ["constant"]),
        (np.ones(2, BF16), ["constant"]),
        (np.ones((2, 2), bool), ["constant"]),
        (np.arange(5), ["iota"]),
        (np.arange(5.0), ["iota"]),
        (np.arange(1, 5), ["iota", "constant", "add"]),
        (np.arange(0, 10, 2), ["iota", "constant", "mul"]),
        (np.arange(9, 0, -3), ["iota", "constant", "mul", "constant", "add"]),
        (np.arange(4, dtype=np.uint8)[::-1], ["iota", "constant", "mul", "constant", "add"]),
        (np.linspace(0, 1, 5), ["iota", "constant", "mul"]),
        (np.broadcast_to(np.arange(3), (2, 3)), ["iota"]),
        (np.broadcast_to(np.arange(2)[:, None], (2, 3)), ["iota"]),
        (np.arange(6).reshape(2, 3), ["iota", "reshape"]),
        (np.tri(3, dtype=bool), ["iota", "iota", "sub", "constant", "compare"]),
        (np.arange(4) < 2, ["iota", "constant", "compare"]),
        (np.eye(3, dtype=bool), ["iota", "iota", "sub", *["constant", "compare"] * 2, "and"]),
        (np.array([3, 7]), ["iota", "constant", "mul", "constant", "add"]),
    ],
    ids=str,
)
def test_what_is_even_becomes_ops(array: Any, ops: list[str]) -> None:
    assert made(array) == (ops, [])
    same(compute(lambda x: array, X), array)


@pytest.mark.parametrize(
    "array",
    [
        np.array([1, 2, 4]),
        np.array([[1, 2], [3, 5]]),
        np.array([0.0, -0.0]),
        np.linspace(0, 1, 7),
        np.array([1.5, np.nan]),
        np.array([0.0, np.inf]),
        np.array([True, False, True]),
        ~np.eye(3, dtype=bool),
        np.tri(3, dtype=bool)[:, [0, 2, 1]],
        np.arange(3).astype(BF16),
        np.eye(2),
    ],
    ids=str,
)
def test_anything_else_becomes_an_input(array: Any) -> None:
    ops, (captured,) = made(array)
    assert ops == []
    assert captured.dtype == (np.float32 if array.dtype == np.float64 else array.dtype)
    assert not np.shares_memory(captured, array)
    found = compute(lambda x: array, X)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(captured))
    same(found, array)


@given(
    st.integers(1, 7),
    st.integers(1, 7),
    st.integers(-8, 8),
    st.integers(-8, 8),
    st.sampled_from([(0,), (1,), (0, 1)]),
)
def test_a_band_of_a_mask_is_compared(
    rows: int, columns: int, low: int, high: int, axes: tuple[int, ...]
) -> None:
    """Of rows, of columns, or of diagonals."""
    signs = {(0,): (1, 0), (1,): (0, 1), (0, 1): (-1, 1)}[axes]
    i, j = np.indices((rows, columns))
    index = signs[0] * i + signs[1] * j
    array = (low <= index) & (index <= high)
    ops, captured = made(array)
    assert captured == [] and ("constant" in ops or "compare" in ops)
    same(compute(lambda x: array, X), array)


def test_along_an_axis_on_which_nothing_changes_one_element_is_kept() -> None:
    table = np.array([1.0, 5.0, 2.0])
    for array in (
        np.broadcast_to(table, (4, 3)),
        np.broadcast_to(table[:, None], (3, 4)),
        np.broadcast_to(table[:, None], (2, 3, 4)),
        np.meshgrid(table, table)[0],
    ):
        ops, (captured,) = made(array)
        assert ops == ["broadcast"] and captured.size == 3
        same(compute(lambda x, a=array: a, X), array)


def test_a_number_that_is_zero_keeps_its_sign() -> None:
    for zero in (0.0, -0.0):
        for array in (np.full((3,), zero), zero, np.float32(zero)):
            found = compute(lambda x, a=array: a, X)
            assert np.signbit(found).all() == np.signbit(zero)


@given(
    st.sampled_from([t for t in DTYPES if t != BF16]),
    st.lists(st.integers(0, 4), max_size=3),
    st.integers(-3, 300),
    st.integers(-3, 40),
    st.integers(0, 9),
)
def test_any_array_comes_back(
    dtype: Any, shape: list[int], start: int, step: int, odd: int
) -> None:
    with np.errstate(all="ignore"):
        array = (start + step * np.arange(np.prod(shape, dtype=int))).astype(dtype)
    array = array.reshape(shape)
    if array.size and odd < array.size:
        array.flat[odd] = 1
    same(compute(lambda x: array, X), array, dtype=dtype)
    spread = np.broadcast_to(array, (2, *shape))
    same(compute(lambda x: spread, X), spread, dtype=dtype)


def test_floats_of_64_bits_become_f32_and_integers_stay() -> None:
    assert compute(lambda x: np.array([1.0, 2.0, 4.0]), X).dtype == np.float32
    assert compute(lambda x: np.array([1, 2, 4]), X).dtype == np.int64
    assert compute(lambda x: np.arange(3), X).dtype == np.int64
    assert compute(lambda x: x * np.array([1, 2, 4]), X).dtype == np.float32
    for dtype in INTEGERS:
        assert compute(lambda x, t=dtype: np.array([1, 2, 4], t), X).dtype == dtype
    assert compute(lambda x: np.array(ml_dtypes.bfloat16(1)), X).dtype == BF16


def test_an_array_is_captured_once_and_by_its_name() -> None:
    table = np.array([1.0, 2.0, 4.0])

    def function(x: Any) -> Any:
        return x + table, x * table

    found = trace(function, X)
    assert len(found.captured) == 1
    assert "%table: tensor<3xf32>" in str(found.module)


def test_an_array_that_is_written_to_meanwhile_is_captured_as_it_is() -> None:
    def function(x: Any) -> Any:
        table = np.array([1.0, 2.0, 4.0])
        before = x + table
        table[0] = 5
        return before, x + table

    before, after = compute(function, X)
    same(before, X + np.array([1, 2, 4]))
    same(after, X + np.array([5, 2, 4]))


def test_arrays_that_come_and_go_are_not_taken_for_each_other() -> None:
    def function(x: Any) -> Any:
        return sum(x[0] * np.array([i, 1.0, i * i + 5]) for i in range(50))

    same(compute(function, X), sum(np.array([i, 1.0, i * i + 5]) for i in range(50)))


def test_comparing_with_a_range_takes_the_narrower_dtype() -> None:
    labels = numbers((4,), np.int32)
    text = str(trace(lambda i: i[:, None] == np.arange(10), labels).module)
    assert "i64" not in text
    big = np.array([1, 2**40])
    same(compute(lambda i: i[:, None] == big, labels), labels[:, None] == big)


def test_buffers_and_other_arrays_are_captured() -> None:
    class Given:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.array([1.0, 2.0, 4.0], np.float32)

    same(compute(lambda x: x + Given(), X), X + np.array([1, 2, 4]))
