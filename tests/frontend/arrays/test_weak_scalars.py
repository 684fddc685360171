"""Whole numbers among the arguments: what NumPy refuses of Python's integers is refused, too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import iris
from iris.errors import DTypeError
from tracing_arrays import INTEGERS, numbers


@iris.jit
def product(x: Any, n: Any) -> Any:
    return x * n


@pytest.mark.parametrize("dtype", INTEGERS)
def test_as_numpy_has_it(dtype: Any) -> None:
    x, info = numbers((3,), dtype), np.iinfo(dtype)
    for n in (0, True, 5, -1, 127, 128, -129, info.min, info.max, info.min - 1, info.max + 1):
        if not -(2**63) <= n < 2**64:
            continue
        try:
            with np.errstate(all="ignore"):
                expected = x * n
        except OverflowError:
            with pytest.raises(DTypeError, match=rf"n is {n}, which does not fit"):
                product(x, n)
        else:
            np.testing.assert_array_equal(product(x, n), expected)


X = np.arange(4, dtype=np.int8)


def test_the_message_names_both_lines() -> None:
    with pytest.raises(
        DTypeError, match=r"of i8 that it is combined with at .*test_weak_scalars.py:17"
    ) as caught:
        product(X, 300)  # here
    assert caught.value.spot is not None
    assert "# here" in caught.value.spot.source


@pytest.mark.parametrize(
    "function",
    [
        lambda x, n: x * (n + 1),
        lambda x, n: x.at[0].set(n),
        lambda x, n: x.at[0].add(n),
        lambda x, n: np.where(x > 0, x, n),
        lambda x, n: np.full_like(x, n),
        lambda x, n: np.pad(x, 1, constant_values=n),
    ],
)
def test_wherever_it_meets_them(function: Any) -> None:
    made = iris.jit(function)
    made(X, 100)
    with pytest.raises(DTypeError, match="does not fit"):
        made(X, 300)


def test_in_a_tree() -> None:
    function = iris.jit(lambda x, named: x + named["n"][1])
    with pytest.raises(DTypeError, match=r"^named_n_1 is 128"):
        function(X, {"n": (0, 128)})


@pytest.mark.parametrize(
    "function",
    [
        lambda x, n: x < n,
        lambda x, n: n == x,
        lambda x, n: x.astype(np.int32) + n,
        lambda x, n: x * 1.5 + n,
        lambda x, n: (x > 0) * n,
        lambda x, n: x + n // 100,
        lambda x, n: np.clip(x, -abs(n), abs(n)),
    ],
)
def test_where_it_does_fit(function: Any) -> None:
    for n in (300, -300):
        np.testing.assert_allclose(iris.jit(function)(X, n), function(X, n), rtol=1e-6)


def test_a_cast_wraps() -> None:
    function = iris.jit(lambda x, n: x + n.astype(np.int8))
    np.testing.assert_array_equal(function(X, 300), X + np.int8(44))


def test_signed_numbers_compared_with_u64() -> None:
    x = np.array([0, 2**64 - 1], np.uint64)
    np.testing.assert_array_equal(iris.jit(lambda x, n: x > n)(x, -1), [True, True])
