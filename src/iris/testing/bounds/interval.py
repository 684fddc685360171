"""Values with errors as intervals, and back.

An interval is two float64 arrays: what any correct execution has lies from one to the other.
Where both are NaN, NaN is what it has; an interval of which not even that is known, because it
may or may not be NaN, is from -inf to inf, with an error of inf.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.ir import scalar
from iris.ir.types import DType

Array = npt.NDArray[Any]
Interval = tuple[Array, Array]

# The error of what is exact.  Others have as many axes as the value.
EXACT: Array = np.zeros(1)
# The error of a zero of which the sign is not determined.
TINY = 5e-324
_ALMOST_NOTHING = 1e-300
# What float64 loses in the few operations of a rule, with room to spare.
_SLACK = 2.0**-50


def interval(value: Array, error: Array) -> Interval:
    """Where a value may be, in any correct execution."""
    wide = value.astype(np.float64)
    # The lower end is the opposite of a difference: where that is 0, it is -0.0.
    low, high = np.where(error > 0, -(error - wide), wide), wide + error
    known = error < np.inf
    if known.all():
        return low, high
    return np.where(known, low, -np.inf), np.where(known, high, np.inf)


def beside_sign(error: Array) -> Array:
    """The error, but for that of zeros of which only the sign is not determined."""
    return np.asarray(np.where(error < _ALMOST_NOTHING, 0.0, error))


def hull(*corners: Array) -> Interval:
    """The least interval around some values; it is without bounds if only some are NaN."""
    low, high = reduce(np.minimum, corners), reduce(np.maximum, corners)
    nan = np.isnan(low)
    if nan.any():
        partly = nan & ~reduce(np.logical_and, map(np.isnan, corners))
        low, high = np.where(partly, -np.inf, low), np.where(partly, np.inf, high)
    return low, high


def rounded(dtype: DType, result: Array, bounds: Interval) -> Array:
    """The error of a result that lies in an interval, before it is rounded to a dtype."""
    low = scalar.round_to(dtype, bounds[0] * (1 - np.copysign(_SLACK, bounds[0])))
    high = scalar.round_to(dtype, bounds[1] * (1 + np.copysign(_SLACK, bounds[1])))
    error = distance(result, (low, high))
    zero = (low == 0) & (high == 0) & (bounds[0] <= 0) & (bounds[1] >= 0)
    return np.where(zero, TINY, error) if zero.any() else error


def distance(result: Array, bounds: Interval) -> Array:
    """How far the ends of an interval are from a result; inf if it is NaN and they are not, or they
    are and it is not."""
    low, high = (end.astype(np.float64, copy=False) for end in bounds)
    value = result.astype(np.float64)
    error = np.maximum(high - value, value - low)
    same = low == high
    signs = same & (np.signbit(low) != np.signbit(high))
    if signs.any():
        error = np.where(signs, TINY, error)
    strange = ~np.isfinite(error)
    if strange.any():
        certain = (same & (low == value)) | (np.isnan(low) & np.isnan(high) & np.isnan(value))
        error = np.where(strange, np.where(certain, 0.0, np.inf), error)
    return error


def union(result: Array, *choices: tuple[Array, Array]) -> Array:
    """The error of a result that is one of some values, each with its error."""
    error: Array = np.zeros(1)
    for value, own in choices:
        if result.dtype.kind == "f":
            low, high = interval(value, own)
            apart = np.maximum(high - result, result - low)
            alike = (result == value) & (np.signbit(result) == np.signbit(value))
            alike |= np.isnan(result) & np.isnan(value)
            apart = np.where(alike, own, np.where(apart == 0, TINY, apart))
            apart = np.where(np.isnan(apart), np.inf, apart)
        else:
            apart = np.where(result == value, own, np.inf)
        error = np.maximum(error, apart)
    return error


def ends(function: Callable[..., Array], *operands: Interval) -> Interval:
    """The interval that a function that only grows with each operand makes."""
    low, high = zip(*operands, strict=True)
    return function(*low), function(*high)


def quantum(x: Array) -> Array:
    """The greatest power of two that a float is a multiple of; of 0, inf."""
    fraction, exponent = np.frexp(x)
    whole = (np.where(np.isfinite(fraction), fraction, 0.0) * 2.0**53).astype(np.int64)
    found = np.ldexp((whole & -whole).astype(np.float64), exponent - 53)
    return np.where(whole == 0, np.inf, found)
