"""NumPy's module of linear algebra, as far as it goes without decompositions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from iris.errors import ArgumentError, ShapeError
from iris.frontend.arrays import rearranging
from iris.frontend.arrays.array_elementwise import as_float, binary, compare, unary
from iris.frontend.arrays.array_reductions import max, min, sum
from iris.frontend.arrays.array_values import cast, traced
from iris.frontend.arrays.protocol import implements
from iris.frontend.arrays.shapes import as_axes, flat, with_axes
from iris.frontend.arrays.traced import TracedArray
from iris.frontend.tracing import error_here
from iris.ir import math
from iris.ir.math import Predicate
from iris.ir.types import f32

_INF = float("inf")


@implements("linalg.diagonal")
def diagonal(x: Any, /, *, offset: Any = 0) -> TracedArray:
    return rearranging.diagonal(x, offset, -2, -1)


@implements("linalg.trace")
def trace(x: Any, /, *, offset: Any = 0, dtype: Any = None) -> TracedArray:
    return sum(diagonal(x, offset=offset), -1, dtype)


@implements("linalg.norm")
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> TracedArray:
    """Of 16-bit floats it is made in f32, and rounded once."""
    value = as_float(traced(x))
    size = unary(math.Abs, cast(value, f32))
    if axis is None and ord is None:
        found = _length(flat(size), 0)
        made = with_axes(found, range(value.ndim)) if keepdims else found
        return cast(made, value.element)
    axes = as_axes(axis, value.ndim)
    if len(axes) == 1:
        found = _of_vectors(size, ord, axes[0], keepdims)
    elif len(axes) == 2:
        found = _of_matrices(size, ord, axes, keepdims)
    else:
        raise error_here(ShapeError, f"{value} is no vector and no matrix; give an axis")
    return cast(found, value.element)


def _length(size: TracedArray, axes: Any, keepdims: bool = False) -> TracedArray:
    return unary(math.Sqrt, sum(binary(math.Mul, size, size), axes, keepdims=keepdims))


def _of_vectors(size: TracedArray, ord: Any, axis: int, keepdims: bool) -> TracedArray:
    if ord in (None, 2):
        return _length(size, axis, keepdims)
    if ord in (_INF, -_INF):
        return (max if ord > 0 else min)(size, axis, keepdims=keepdims)
    if ord == 0:
        return cast(sum(compare(Predicate.NE, size, 0.0), axis, keepdims=keepdims), f32)
    if ord == 1:
        return sum(size, axis, keepdims=keepdims)
    if isinstance(ord, (int, float)):
        total = sum(binary(math.Pow, size, float(ord)), axis, keepdims=keepdims)
        return binary(math.Pow, total, 1 / ord)
    raise error_here(ArgumentError, f"vectors have no norm {ord!r}")


def _of_matrices(size: TracedArray, ord: Any, axes: tuple[int, ...], keepdims: bool) -> TracedArray:
    if ord in (None, "fro"):
        return _length(size, axes, keepdims)
    rows, columns = axes
    ways: dict[Any, tuple[Callable[..., TracedArray], int, int]] = {
        1: (max, rows, columns),
        -1: (min, rows, columns),
        _INF: (max, columns, rows),
        -_INF: (min, columns, rows),
    }
    if ord not in ways:
        raise error_here(ArgumentError, f"the norm {ord!r} of a matrix is not supported")
    extreme, first, then = ways[ord]
    found = extreme(sum(size, first, keepdims=True), then, keepdims=True)
    if keepdims:
        return found
    from_shape = [n for i, n in enumerate(size.shape) if i not in axes]
    return found.reshape(from_shape)
