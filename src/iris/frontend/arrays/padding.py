"""NumPy's `pad`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from iris.errors import ArgumentError, LanguageError, ShapeError
from iris.frontend.arrays import shapes
from iris.frontend.arrays.array_elementwise import unary
from iris.frontend.arrays.array_reductions import max, mean, min
from iris.frontend.arrays.array_values import cast, in_dtype, operand, over_shape, traced
from iris.frontend.arrays.protocol import implements
from iris.frontend.arrays.shapes import as_axis, as_int, concat, cut_axis, take_places
from iris.frontend.arrays.traced import TracedArray
from iris.frontend.tracing import error_here
from iris.ir import math
from iris.ir.types import bool_

# What each mode has an option for. Where an axis ends, some say which of its elements go on; others
# make something of the elements before or after it.
MODES: dict[str, str | None] = {
    "constant": "constant_values",
    "empty": None,
    "edge": None,
    "reflect": "reflect_type",
    "symmetric": "reflect_type",
    "wrap": None,
    "maximum": "stat_length",
    "mean": "stat_length",
    "minimum": "stat_length",
}
_MADE: dict[str, Callable[..., TracedArray]] = {"maximum": max, "mean": mean, "minimum": min}


@implements("pad")
def pad(array: Any, pad_width: Any, mode: Any = "constant", **named: Any) -> TracedArray:
    x = traced(array)
    widths = _pairs(pad_width, x.ndim, "a width")
    if mode not in MODES:
        raise error_here(
            ArgumentError,
            f"the mode {mode!r} of np.pad is not supported for traced arrays, which have "
            f"{', '.join(map(repr, MODES))}",
        )
    for name in named:
        if name != MODES[mode]:
            raise error_here(ArgumentError, f"the mode {mode!r} of np.pad has no {name}=")
    if mode in _MADE:
        return _padded_by_what_is_made(x, widths, _MADE[mode], **named)
    if mode in ("constant", "empty"):
        return _padded(x, widths, **named)
    return _padded_by_places(x, widths, mode, **named)


def _pairs(given: Any, rank: int, what: str) -> list[tuple[int, int]]:
    """For each axis a number for before it and one for after it."""
    if isinstance(given, dict):
        by_axis = {as_axis(axis, rank): pair for axis, pair in given.items()}
        given = [np.broadcast_to(by_axis.get(axis, 0), (2,)) for axis in range(rank)]
    try:
        pairs = np.broadcast_to(np.asarray(given), (rank, 2))
    except ValueError:
        raise error_here(
            ShapeError, f"np.pad takes {what}, a pair, or a pair for each of {rank} axes"
        ) from None
    found = [(as_int(low, what), as_int(high, what)) for low, high in pairs]
    if any(n < 0 for pair in found for n in pair):
        raise error_here(ShapeError, f"{what} of np.pad is not negative")
    return found


def _padded(x: TracedArray, widths: list[tuple[int, int]], constant_values: Any = 0) -> TracedArray:
    if isinstance(constant_values, (TracedArray, bool, int, float)):
        return shapes.pad(x, widths, in_dtype(operand(constant_values), x.element))
    # Corners have what the last axis says.
    values = np.broadcast_to(np.asarray(constant_values), (x.ndim, 2))
    for axis, (width, pair) in enumerate(zip(widths, values, strict=True)):
        for side, value in enumerate(pair):
            one = [(0, 0)] * x.ndim
            one[axis] = (0, width[1]) if side else (width[0], 0)
            x = shapes.pad(x, one, in_dtype(operand(value.item()), x.element))
    return x


def _padded_by_what_is_made(
    x: TracedArray,
    widths: list[tuple[int, int]],
    make: Callable[..., TracedArray],
    stat_length: Any = None,
) -> TracedArray:
    most = np.iinfo(np.int64).max if stat_length is None else stat_length
    counts = _pairs(most, x.ndim, "a length")
    for axis, (width, pair) in enumerate(zip(widths, counts, strict=True)):
        if not any(width):
            continue
        parts = [x]
        for side, (size, count) in enumerate(zip(width, pair, strict=True)):
            kept = count if count < x.shape[axis] else x.shape[axis]
            if not kept:
                raise error_here(ShapeError, f"np.pad needs elements along axis {axis} of {x}")
            near = cut_axis(x, axis, x.shape[axis] - kept if side else 0, kept)
            made = make(near, axis, keepdims=True)
            if made.element is not x.element:  # the mean of integers, or of bools
                made = made if x.element is bool_ else unary(math.Round, made)
                made = cast(made, x.element)
            beside = over_shape(made, (*x.shape[:axis], size, *x.shape[axis + 1 :]))
            parts.insert(2 * side, beside)
        x = concat(parts, axis)
    return x


def _padded_by_places(
    x: TracedArray, widths: list[tuple[int, int]], mode: str, reflect_type: str = "even"
) -> TracedArray:
    if reflect_type != "even":
        raise error_here(LanguageError, f"np.pad(reflect_type={reflect_type!r}) is not supported")
    for axis, width in enumerate(widths):
        if any(width) and not x.shape[axis]:
            raise error_here(ShapeError, f"axis {axis} of {x} has no elements to be padded with")
        if any(width):
            places = np.pad(np.arange(x.shape[axis]), width, mode)  # type: ignore[call-overload]
            x = take_places(x, places, axis)
    return x
