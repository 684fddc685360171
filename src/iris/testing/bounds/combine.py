"""The errors of moved and combined elements: reductions, scans, dots, in any order.

A sum in some order is exact where all that is added are multiples of one power of two, so few
that no partial sum has more bits than a float: so is every other order then.  Else each of the
additions may round, each time by half a unit in the last place of a partial sum, which is at most
the sum of the magnitudes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.interp import reductions
from iris.interp.frame import held_by, interpretation
from iris.ir import tile
from iris.ir.core import Op, Value
from iris.ir.kinds import ReduceKind
from iris.ir.math import element_type
from iris.ir.types import DType
from iris.testing.bounds.arithmetic import dtype_of, settle, worst
from iris.testing.bounds.frame import BoundedFrame, origin, propagation
from iris.testing.bounds.interval import EXACT, TINY, distance, interval, quantum, rounded

Array = npt.NDArray[Any]
Found = Sequence[Array]
# Applies a ufunc along an axis: its `reduce` or its `accumulate`.
Along = Callable[[np.ufunc, Array], Array]

_EXTREMA = {
    "maximum": np.maximum,
    "minimum": np.minimum,
    "maxnum": np.fmax,
    "minnum": np.fmin,
}
BITS = 24  # of an f32, in which sums and products are made
LARGEST, _NORMAL, _LEAST = 2.0**128 - 2.0**104, 2.0**-126, 2.0**-149


@propagation(
    tile.Broadcast,
    tile.ExpandDims,
    tile.Flip,
    tile.Pick,
    tile.Reshape,
    tile.Transpose,
    tile.ConvertLayout,
    tile.Stage,
    tile.Unstage,
)
def moved(frame: BoundedFrame, op: Op, results: Found, operands: Found, errors: Found) -> Found:
    found: Found = interpretation[type(op)](frame, op, errors[0])
    return found


@propagation(tile.Gather)
def gathered(frame: BoundedFrame, op: Op, results: Found, operands: Found, errors: Found) -> Found:
    """Where an index is in doubt, any element may be named."""
    (found,) = interpretation[tile.Gather](frame, op, errors[0], operands[1])
    return [found if errors[1] is EXACT else np.where(errors[1] > 0, np.inf, found)]


@propagation(tile.Update)
def updated(frame: BoundedFrame, op: Op, results: Found, operands: Found, errors: Found) -> Found:
    return [errors[1]]


@origin(tile.Reduce)
def reduced(
    frame: BoundedFrame, op: tile.Reduce, results: Found, operands: Found, errors: Found
) -> Found:
    axis = 1 + op.axis
    is_exact = all(error is EXACT for error in errors)
    if op.kind in (ReduceKind.ARGMAX, ReduceKind.ARGMIN) and not is_exact:
        greatest = op.kind is ReduceKind.ARGMAX
        x, error = _whole(op.x, operands[0], errors[0])
        if len(operands) == 1:
            return [place(greatest, results[0], x, error, axis)]
        places = _whole(op.x, operands[1], errors[1])
        return [least_place(greatest, results[0], (x, error), places, axis)]

    def along(ufunc: np.ufunc, x: Array) -> Array:
        return np.asarray(ufunc.reduce(x, axis=axis))

    return _combined(op, results[0], operands[0], errors[0], along)


@origin(tile.Scan)
def scanned(
    frame: BoundedFrame, op: tile.Scan, results: Found, operands: Found, errors: Found
) -> Found:
    axis = 1 + op.axis

    def along(ufunc: np.ufunc, x: Array) -> Array:
        return np.asarray(ufunc.accumulate(x, axis=axis))

    return _combined(op, results[0], operands[0], errors[0], along)


def _whole(value: Value, x: Array, error: Array) -> tuple[Array, Array]:
    """A value and its error, all axes of the tile at their real size."""
    shape = held_by(value).shape
    count = max(len(x), len(error))
    return np.broadcast_to(x, (count, *shape)), np.broadcast_to(error, (count, *shape))


def _combined(
    op: tile.Reduce | tile.Scan, result: Array, x: Array, error: Array, along: Along
) -> Found:
    dtype, kind = dtype_of(op), op.kind.value
    if error is EXACT and not (kind in ("sum", "prod") and dtype.is_float):
        return [EXACT]
    return [combined(dtype, kind, result, *_whole(op.x, x, error), along)]


def combined(dtype: DType, kind: str, result: Array, x: Array, error: Array, along: Along) -> Array:
    """The error of elements that are combined along an axis, in any order."""
    if kind in ("sum", "prod") and dtype.is_float:
        count = along(np.add, np.ones(x.shape))
        bound = _sum if kind == "sum" else _product
        found = bound(x.astype(np.float64), error, along, count)
        if found is None:
            return EXACT
        low, high, order_free = found
        made = rounded(dtype, result, (low, high))
        made = np.where(order_free, 0.0, made)
        # Whatever is infinite or NaN stays so, in any order, unless it is not determined.
        strange = along(np.logical_or, ~np.isfinite(x))
        is_nan = along(np.logical_or, np.isnan(x))
        sure = (along(np.add, error) < np.inf) & (is_nan | _meets_infinity(kind, x, error, along))
        return np.where(strange, np.where(sure, 0.0, np.inf), made)
    if not dtype.is_float:
        doubt = along(np.add, worst([error]))
        if kind in ("any", "all"):
            decisive = (x == (kind == "any")) & (error == 0)
            doubt = np.where(along(np.logical_or, decisive), 0.0, doubt)
        return doubt
    low, high = interval(x, error)
    ufunc = _EXTREMA[kind]
    extreme = distance(result, (along(ufunc, low), along(ufunc, high)))
    # -0 is less than +0, but NumPy takes either.
    zero = (extreme == 0) & (result == 0)
    if zero.any():
        joined = along(np.logical_or, (error > 0) & (low <= 0) & (high >= 0))
        extreme = np.where(zero & joined, TINY, extreme)
    return settle(extreme, [along(np.maximum, error)])


def _meets_infinity(kind: str, x: Array, error: Array, along: Along) -> Array:
    """Whether an infinity stays what it is when the finite elements join it, in any order.

    In a sum they might first overflow to the opposite infinity.  In a product they might first
    underflow to 0, and 0 times an infinity is nan.
    """
    size = np.abs(np.where(np.isfinite(x), x, kind == "prod").astype(np.float64))
    if kind == "sum":
        return np.asarray(along(np.add, size + error) <= LARGEST)
    kept = along(np.multiply, np.clip(size - error, 0, 1)) >= _NORMAL
    return np.asarray(kept | along(np.logical_or, (x == 0) & (error == 0)))


def place(greatest: bool, result: Array, x: Array, error: Array, axis: int) -> Array:
    """The index of an extremum is determined if no other element may be as extreme."""
    places = reductions.indices(x, axis), EXACT
    return least_place(greatest, result, (x, error), places, axis)


def least_place(
    greatest: bool,
    result: Array,
    elements: tuple[Array, Array],
    places: tuple[Array, Array],
    axis: int,
) -> Array:
    """The place of an extremum is determined if no other element may be as extreme, and the places
    of all that may be are determined.

    Elements and places come with their errors.
    """
    x, error, place, doubt = np.broadcast_arrays(*elements, *places)
    low, high = interval(x, error)
    if not greatest:
        low, high = -high, -low
    extremum = (np.maximum if greatest else np.minimum).reduce(x, axis=axis, keepdims=True)
    is_extremum = (x == extremum) | (x != x)
    is_result = is_extremum & (place == np.expand_dims(result, axis))
    at = np.expand_dims(is_result.argmax(axis), axis)
    least = np.take_along_axis(low, at, axis)
    own = np.take_along_axis(error, at, axis)
    others = reductions.indices(x, axis) != at
    rivals = others & (high >= least) & ((error + own > 0) | (doubt > 0))
    rivals = rivals | (~others & (doubt > 0))
    unknown = rivals.any(axis) | (error == np.inf).any(axis)
    return np.where(unknown, np.inf, 0.0)


Between = tuple[Array, Array, Array]  # the least, the greatest, whether the order does not matter


def _sum(x: Array, error: Array, along: Along, count: Array) -> Between | None:
    finite = np.where(np.isfinite(x), np.abs(x), 0.0)
    gross, doubt = along(np.add, finite), along(np.add, error)
    order_free = doubt == 0
    if order_free.any():
        order_free = order_free & (gross <= sums_exactly(x, along))
        if order_free.all() and np.isfinite(x).all():
            return None
    total = along(np.add, x)
    reach = doubt + slack(count - 1) * (gross + doubt) + 2.0**-50 * gross
    # What may overflow half way has no bound.  Nor has one element that is not determined: no
    # addition times infinity is nan.
    reach = np.where(gross + reach <= LARGEST, reach, np.inf)
    return total - reach, total + reach, order_free


def _product(x: Array, error: Array, along: Along, count: Array) -> Between | None:
    size = np.abs(x)
    doubt = along(np.add, error)
    over = along(np.multiply, np.maximum(size + error, 1))
    units = np.where(x == 0, 1.0, quantum(x))
    odd = along(np.multiply, np.where(x == 0, 1.0, size / units))
    under = along(np.multiply, np.minimum(units, 1))
    safe = over <= LARGEST
    order_free = (doubt == 0) & safe & (odd <= 2.0**BITS) & (under >= _LEAST)
    order_free |= (doubt == 0) & safe & along(np.logical_or, x == 0)
    if order_free.all():
        return None
    # What may overflow half way has no bound: it is nan where it then meets a 0.
    total = np.where(safe, along(np.multiply, x), 0.0)
    grown = along(np.multiply, size + error)
    reach = grown - np.abs(total) + (slack(count - 1) + 2.0**-50) * grown
    # A partial product may lose bits below the least normal number, and then grow again.
    small = np.where(size > error, size - error, size + error)
    small = along(np.multiply, np.where(small > 0, np.minimum(small, 1), 1))
    reach = reach + np.where(small < _NORMAL, count * _LEAST * over, 0.0)
    reach = np.where(safe, reach, np.inf)
    return total - reach, np.where(reach == 0, total + TINY, total + reach), order_free


def slack(roundings: Array | float, bits: int = BITS) -> Array:
    """By how much, relative to the sum of the magnitudes, so many roundings are off at most."""
    unit = 2.0**-bits
    return np.asarray(roundings * unit / (1 - roundings * unit))


def sums_exactly(x: Array, along: Along) -> Array:
    """Up to what sum of magnitudes any sum of some floats is exact."""
    if (x == np.rint(x)).all():
        least: Array = np.ones(())
    else:
        least = along(np.minimum, quantum(x))
    return np.where(least < np.inf, least, 0.0) * 2.0**BITS


@origin(tile.Dot)
def dotted(
    frame: BoundedFrame, op: tile.Dot, results: Found, operands: Found, errors: Found
) -> Found:
    dtype = element_type(op.result.type).element
    if not dtype.is_float and all(error is EXACT for error in errors):
        return [EXACT]
    whole = [_whole(v, x, e) for v, x, e in zip(op.operands, operands, errors, strict=True)]
    return [multiplied(dtype, results[0], *whole)]


def multiplied(
    dtype: DType,
    result: Array,
    lhs: tuple[Array, Array],
    rhs: tuple[Array, Array],
    acc: tuple[Array, Array] = (np.full((1, 1, 1), -0.0), EXACT),
) -> Array:
    """The error of products of matrices, one for each index of the axes before the last two, and a
    sum with others, given each with its error."""
    if not dtype.is_float:
        rows, columns = (
            worst([e]).max(axis, keepdims=True, initial=0)
            for (_, e), axis in ((lhs, -1), (rhs, -2))
        )
        return np.asarray(rows + columns + worst([acc[1]]))
    (a, ea), (b, eb), (c, ec) = ((x.astype(np.float64), e) for x, e in (lhs, rhs, acc))
    gross = np.abs(a) @ np.abs(b) + np.abs(c)
    total = a @ b + c
    exact = not any(e.any() for e in (ea, eb, ec))
    doubt = np.zeros(1) if exact else np.abs(a) @ eb + ea @ np.abs(b) + ea @ eb + ec
    doubt = np.where(np.isnan(doubt), np.inf, doubt)
    units = _least(quantum(a), -1) * _least(quantum(b), -2)
    units = np.minimum(units, quantum(c))
    # Not by `doubt`, in which the least errors are lost.
    clean = (_least(-ea, -1) == 0) & (_least(-eb, -2) == 0) & (ec == 0)
    order_free = clean & (gross <= units * 2.0**BITS) & (units >= _LEAST)
    # Of terms that are all -0 the sum is 0 if it starts from that.
    signs = order_free & (gross == 0) & (_positive(a, b) == 0)
    if order_free.all() and not signs.any():
        return EXACT
    roundings = a.shape[-1] + 1
    reach = doubt + slack(roundings) * (gross + doubt) + 2.0**-50 * gross
    # A product may be below the least normal number.
    reach = np.where(gross + reach > LARGEST, np.inf, reach + a.shape[-1] * _LEAST)
    made = rounded(dtype, result, (total - reach, total + reach))
    made = np.where(order_free, np.where(signs, TINY, 0.0), made)
    a, b, c = (np.where(np.isfinite(x), np.abs(x), 0.0) for x in (a, b, c))
    # What is finite might overflow before it meets an infinity.
    sure = (doubt < np.inf) & (np.isnan(total) | (a @ b + c <= LARGEST))
    return np.where(np.isfinite(total), made, np.where(sure, 0.0, np.inf))


def _least(x: Array, axis: int) -> Array:
    return np.asarray(x.min(axis, keepdims=True, initial=np.inf))


def _positive(a: Array, b: Array) -> Array:
    """How many products in each sum have the sign +."""
    below, above = (np.signbit(x).astype(np.float64) for x in (a, b))
    return np.asarray(below @ above + (1 - below) @ (1 - above))
