"""Numbers of Python that go to memory: an integer is never a rounded float."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import iris
from iris import metal
from iris.errors import DTypeError, IrisError

TILES: dict[str, Callable[..., Any]] = {
    "load": lambda X, v: iris.load(X + iris.arange(0, 4), mask=iris.arange(0, 4) < 2, other=v),
    "store": lambda X, v: iris.store(X + iris.arange(0, 4), v),
    "store, masked": lambda X, v: iris.store(X, v, mask=iris.load(X) > 0),
    "tile_store": lambda X, v: iris.tile_store(X, 0, 0, 2, v, shape=(2, 2)),
    "atomic_add": lambda X, v: iris.atomic_add(X + iris.arange(0, 4), v),
    "atomic_max": lambda X, v: iris.atomic_max(X, v),
    "exchange": lambda X, v: iris.atomic_exchange(X, v),
    "cas": lambda X, v: iris.atomic_cas(X, v, 1),
    "cas, value": lambda X, v: iris.atomic_cas(X, 1, v),
    "full": lambda X, v: iris.store(X, iris.full((), v, iris.i32)),
    "chosen": lambda X, v: iris.store(iris.where(iris.load(X) > 0, X, X + 1), v),
}
THREADS: dict[str, Callable[..., Any]] = {
    "element": lambda X, v: X.__setitem__(0, v),
    "private": lambda X, v: metal.array(4, metal.int).__setitem__(0, v),
    "private, all": lambda X, v: metal.array(4, metal.int, v),
    "shared": lambda X, v: metal.shared(4, metal.int).__setitem__(0, v),
    "atomic": lambda X, v: metal.atomic_add(X, v),
}
WRONG = [0.5, -1.5, np.float32(0.5), np.float64(2.5), 1e-30, float("nan")]
WRONG += [float("inf"), 2.0**31, 2**31, -(2**31) - 1]


@iris.kernel
def by_tile(X, what: iris.constexpr, value: iris.constexpr):
    TILES[what](X, value)


@iris.kernel
def of_variable(X, what: iris.constexpr, n: iris.constexpr):
    value = n
    value = value / 2
    TILES[what](X, value)


@metal.kernel
def by_thread(X, what: iris.constexpr, value: iris.constexpr):
    THREADS[what](X, value)


def lower(what: str, value: Any) -> Any:
    x = np.ones(4, np.int32)
    if what in TILES:
        return by_tile.lower(x, grid=1, what=what, value=value)
    return by_thread.lower(x, grid=1, threadgroup=1, what=what, value=value)


@pytest.mark.parametrize("what", [*TILES, *THREADS])
def test_a_number_that_is_no_integer_is_refused_for_integers(what: str) -> None:
    for value in WRONG:
        with pytest.raises(DTypeError, match=r"is no i32: write an integer|does not fit i32") as e:
            lower(what, value)
        assert e.value.spot is not None and e.value.spot.file == __file__


@pytest.mark.parametrize("what", [*TILES])
def test_so_is_one_that_is_computed(what: str) -> None:
    x = np.ones(4, np.int32)
    with pytest.raises(DTypeError, match=r"1\.5 is no i32"):
        of_variable.lower(x, grid=1, what=what, n=3)
    of_variable.lower(x, grid=1, what=what, n=4)


@pytest.mark.parametrize("what", [*TILES, *THREADS])
def test_a_float_that_is_an_integer_is_that(what: str) -> None:
    for value in (2.0, -0.0, -3.0, np.float32(4), 16777217.0, -(2.0**31), 2**31 - 1):
        text = lower(what, value).stages[0].text
        assert f"constant {int(value)}\n" in text, (value, text)


@iris.kernel
def fill(X, value: iris.constexpr):
    i = iris.arange(0, 4)
    iris.store(X + i, iris.load(X + i, mask=i < 2, other=value))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64, np.bool_, np.float16])
def test_what_is_stored_is_what_numpy_stores(dtype: Any) -> None:
    for value in (0, 1, 2.0, 7.0, 100, 0.5, 200, -1):
        x = np.zeros(4, dtype)
        expected = np.zeros(4, dtype)
        try:
            with np.errstate(over="raise"):
                expected[2:] = value
            is_kept = dtype in (np.bool_, np.float16) or bool((expected[2:] == value).all())
        except OverflowError:
            is_kept = False
        if is_kept:
            fill[1](x, value=value)
            np.testing.assert_array_equal(x, expected)
        else:
            with pytest.raises(IrisError):
                fill[1](x, value=value)
