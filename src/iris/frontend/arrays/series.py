"""NumPy's functions of neighbouring elements, and of coefficients."""

from __future__ import annotations

from typing import Any

import numpy as np

from iris.errors import ArgumentError, DTypeError, LanguageError, ShapeError
from iris.frontend.arrays.array_elementwise import as_float, binary, divide
from iris.frontend.arrays.array_reductions import sum
from iris.frontend.arrays.array_values import (
    operand,
    over_shape,
    reshaped,
    shape_of,
    spread,
    strong,
    traced,
    unify,
)
from iris.frontend.arrays.convolution import ConvolutionWindow, traced_convolution
from iris.frontend.arrays.joining import concatenate, stack
from iris.frontend.arrays.protocol import implements
from iris.frontend.arrays.rearranging import flip
from iris.frontend.arrays.shapes import (
    as_axes,
    as_axis,
    as_int,
    cut_axis,
    flat,
    move_axes,
    without_axes,
)
from iris.frontend.arrays.traced import TracedArray
from iris.frontend.tracing import error_here
from iris.ir import math
from iris.ir.types import bool_

# Differences.


@implements("diff")
def diff(
    a: Any, n: Any = 1, axis: Any = -1, prepend: Any = None, append: Any = None
) -> TracedArray:
    x, times = traced(a), as_int(n, "n")
    if times < 0:
        raise error_here(ShapeError, f"np.diff is not taken {times} times")
    if times == 0:  # nothing goes before or after it, either, and any axis will do
        return x
    if not x.ndim:
        raise error_here(ShapeError, f"{x} has no neighbouring elements")
    at = as_axis(axis, x.ndim)
    ends = [None if end is None else _one_along(x, at, traced(end)) for end in (prepend, append)]
    x = concatenate([part for part in (ends[0], x, ends[1]) if part is not None], at)
    for _ in range(times):
        x = _step(x, at)
    return x


def _one_along(x: TracedArray, axis: int, end: TracedArray) -> TracedArray:
    """What goes before or after an array along an axis; one number goes everywhere."""
    shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    return end if end.ndim else over_shape(end, shape)


def _step(x: TracedArray, axis: int, by: int = 1) -> TracedArray:
    """Each element less the one so many before it, where there is one."""
    size = max(0, x.shape[axis] - by)
    later, earlier = cut_axis(x, axis, by, size), cut_axis(x, axis, 0, size)
    return binary(math.Xor if x.element is bool_ else math.Sub, later, earlier)


@implements("gradient")
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: Any = 1) -> Any:
    """Half of the difference of both neighbours; at the ends, the difference of the one there is.
    The elements are evenly spaced."""
    x = traced(f)
    if x.element is bool_:
        raise error_here(DTypeError, "np.gradient is for numbers, not bool; use astype first")
    x = as_float(x)
    axes = as_axes(axis, x.ndim)
    if edge_order != 1 or len(varargs) not in (0, 1, len(axes)):
        raise error_here(LanguageError, "np.gradient takes one spacing, or one for each axis")
    found = []
    for nth, at in enumerate(axes):
        spacing = varargs[nth if len(varargs) > 1 else 0] if varargs else 1.0
        if shape_of(operand(spacing)):
            raise error_here(LanguageError, "np.gradient of a traced array has even spacing")
        size = x.shape[at]
        if size < 2:
            raise error_here(ShapeError, f"axis {at} of {x} has no two elements")
        inner = binary(math.Mul, _step(x, at, 2), 0.5)
        first, last = cut_axis(x, at, 0, 2), cut_axis(x, at, size - 2, 2)
        slopes = concatenate([_step(first, at), inner, _step(last, at)], at)
        found.append(divide(slopes, spacing))
    return found[0] if len(found) == 1 else tuple(found)


@implements("trapezoid", "trapz")
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: Any = -1) -> TracedArray:
    heights = traced(y)
    at = as_axis(axis, heights.ndim)
    size = max(0, heights.shape[at] - 1)
    both = binary(
        math.Add, cut_axis(heights, at, min(1, size), size), cut_axis(heights, at, 0, size)
    )
    if x is None:
        return sum(divide(binary(math.Mul, dx, both), 2.0), at)
    places = traced(x)
    if places.ndim == 1 and places.size != heights.shape[at]:
        raise error_here(ShapeError, f"{places} does not go with axis {at} of {heights}")
    if places.ndim == 1:
        steps = _step(places, 0)
        steps = reshaped(steps, (size, *(1,) * (heights.ndim - at - 1)))
    else:
        steps = _step(places, as_axis(axis, places.ndim))
    return sum(divide(binary(math.Mul, steps, both), 2.0), at)


# Coefficients.


@implements("polyval")
def polyval(p: Any, x: Any) -> TracedArray:
    """By Horner's rule, the coefficient of the highest power first."""
    coefficients = operand(p)
    if not isinstance(coefficients, (TracedArray, np.ndarray)) or coefficients.ndim != 1:
        raise error_here(ShapeError, "the coefficients of np.polyval are a vector")
    places = traced(strong(x))
    found = spread(0, places.element, places.shape)
    for coefficient in list(coefficients):
        found = binary(math.Add, binary(math.Mul, found, places), coefficient)
    return found


@implements("convolve")
def convolve(a: Any, v: Any, mode: str = "full") -> TracedArray:
    x, w = traced(a), traced(v)
    if x.ndim != 1 or w.ndim != 1 or not (x.size and w.size):
        raise error_here(ShapeError, f"np.convolve is of two vectors, not {x} and {w}")
    if x.size < w.size:
        x, w = w, x
    beside = {"full": w.size - 1, "valid": 0, "same": w.size - 1}
    if mode not in beside:
        raise error_here(ArgumentError, f"the modes are 'full', 'same', 'valid', not {mode!r}")
    around = beside[mode]
    before = around // 2 + around % 2 if mode == "same" else around
    after = around - before if mode == "same" else around
    images, filters = reshaped(x, (1, 1, 1, x.size)), reshaped(flip(w), (1, 1, 1, w.size))
    window = ConvolutionWindow((1, 1), (0, 0, before, after), (1, 1), 1)
    return flat(traced_convolution(images, filters, window))


@implements("cross")
def cross(
    a: Any, b: Any, axisa: Any = -1, axisb: Any = -1, axisc: Any = -1, axis: Any = None
) -> TracedArray:
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = _last(traced(a), axisa), _last(traced(b), axisb)
    for vectors in (x, y):
        if vectors.shape[-1:] != (3,):
            raise error_here(ShapeError, f"np.cross is of vectors of three, not {vectors}")
    x, y = unify(x, y)
    (x0, x1, x2), (y0, y1, y2) = ([_part(v, n) for n in range(3)] for v in (x, y))
    made = stack([x1 * y2 - x2 * y1, x2 * y0 - x0 * y2, x0 * y1 - x1 * y0], -1)
    return move_axes(made, [made.ndim - 1], [as_axis(axisc, made.ndim)])


def _last(x: TracedArray, axis: Any) -> TracedArray:
    return move_axes(x, [as_axis(axis, x.ndim)], [x.ndim - 1])


def _part(x: TracedArray, nth: int) -> Any:
    return without_axes(cut_axis(x, x.ndim - 1, nth, 1), [x.ndim - 1])
