"""Functions of neighbours and of coefficients, against NumPy in 64 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import iris
from tracing_arrays import FLOATS, SHAPES, agrees, compute, numbers, reals, same

LONG = [s for s in SHAPES if s and min(s) > 1]
trapezoid = getattr(np, "trapezoid", None) or np.trapz  # type: ignore[attr-defined]


@pytest.mark.parametrize("shape", [s for s in SHAPES if s], ids=str)
def test_differences(shape: tuple[int, ...]) -> None:
    for dtype in (np.float32, np.bool_, np.uint8):
        x = numbers(shape, dtype)
        for axis in range(-len(shape), len(shape)):
            for n in (0, 1, 2):
                agrees(lambda x, a=axis, n=n: np.diff(x, n, a), x, dtype=dtype)
    x = numbers(shape)
    agrees(lambda x: np.diff(x, prepend=0), x)
    agrees(lambda x: np.diff(x, n=0, prepend=0), x)
    agrees(lambda x: np.diff(x, n=0, axis=7), x)
    agrees(lambda x: np.diff(x, axis=0, append=x[:1], prepend=2.0), x)


@pytest.mark.parametrize("shape", LONG, ids=str)
def test_slopes(shape: tuple[int, ...]) -> None:
    x = numbers(shape)
    agrees(lambda x: np.gradient(x), x, dtype=np.float32)
    agrees(lambda x: np.gradient(x, 0.5), x)
    for axis in range(-len(shape), len(shape)):
        agrees(lambda x, a=axis: np.gradient(x, axis=a), x)
    agrees(lambda x: np.gradient(x, *[2.0**i for i in range(len(shape))]), x)
    agrees(np.gradient, numbers((2,), np.int32), dtype=np.float32)


@pytest.mark.parametrize("shape", [s for s in SHAPES if s], ids=str)
def test_areas(shape: tuple[int, ...]) -> None:
    y = numbers(shape)
    for axis in range(-len(shape), len(shape)):
        agrees(lambda y, a=axis: trapezoid(y, axis=a), y, dtype=np.float32)
        agrees(lambda y, a=axis: trapezoid(y, dx=0.5, axis=a), y)
        places = numbers(shape[axis : axis + 1] or shape[axis:], seed=1)
        agrees(lambda y, x, a=axis: trapezoid(y, x, axis=a), y, places)
    agrees(lambda y, x: trapezoid(y, x), y, numbers(shape, seed=1))


def test_places_that_do_not_go_with_an_axis() -> None:
    y, x = numbers((3, 0)), numbers((2,))
    with pytest.raises(iris.errors.ShapeError, match="does not go with axis 1"):
        compute(lambda y, x: trapezoid(y, x), y, x)


def test_polynomials() -> None:
    p, x = numbers((4,)), numbers((2, 3), seed=1)
    agrees(np.polyval, p, x, dtype=np.float32)
    agrees(lambda x: np.polyval([1, 2, 3], x), x, dtype=np.float32)
    agrees(lambda x: np.polyval(np.array([2.0, 0.5]), x), x)
    agrees(lambda p: np.polyval(p, 2), p)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_convolutions(mode: Any) -> None:
    for n in (1, 2, 5, 8):
        for k in (1, 2, 3, 8):
            x, w = numbers((n,)), numbers((k,), seed=1)
            agrees(lambda x, w: np.convolve(x, w, mode), x, w, dtype=np.float32)
    agrees(lambda x: np.convolve(x, [1, 2], mode), numbers((5,)), dtype=np.float32)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_convolutions_of_halves(dtype: Any) -> None:
    agrees(np.convolve, numbers((5,), dtype), numbers((3,), dtype, 1), dtype=dtype)


def test_cross_products() -> None:
    x, y = numbers((4, 3)), numbers((2, 4, 3), seed=1)
    agrees(np.cross, x, y, dtype=np.float32)
    agrees(lambda x, y: np.cross(x, y[0], axisc=0), x, y)
    agrees(lambda x, y: np.cross(x.T, y[0].T, axis=0), x, y)
    agrees(lambda x, y: np.cross(x.T, y[0], axisa=0), x, y)
    agrees(lambda x: np.cross(x, [1, 2, 4]), x)


def test_sums_so_far_of_reals() -> None:
    x = reals((3, 40))
    same(compute(lambda x: np.diff(np.cumsum(x, 1), axis=1), x), x[:, 1:], near=1e-5)
