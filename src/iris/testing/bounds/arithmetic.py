"""The errors of the shared math."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.ir import math, scalar
from iris.ir.core import Op
from iris.ir.facts import facts, numpy_of
from iris.ir.math import Predicate, element_type
from iris.ir.types import DType, Kind, f32
from iris.targets.target import EXACTLY, Accuracy
from iris.testing.bounds.frame import BoundedFrame, origin, propagation
from iris.testing.bounds.interval import (
    EXACT,
    Interval,
    beside_sign,
    distance,
    ends,
    hull,
    interval,
    rounded,
    union,
)

Array = npt.NDArray[Any]
Found = Sequence[Array]


def dtype_of(op: Op, operand: int = 0) -> DType:
    return element_type(op.operands[operand].type).element


def worst(errors: Sequence[Array]) -> Array:
    """inf where some operand is not determined: what becomes of it, nobody knows."""
    return np.asarray(np.where(sum(errors) > 0, np.inf, 0.0))


def settle(error: Array, errors: Sequence[Array]) -> Array:
    """The error of what is exact where its operands are, and unknown where one of them is."""
    total = sum(errors)
    return np.asarray(np.where(total == 0, 0.0, np.where(total == np.inf, np.inf, error)))


# What is correctly rounded: from the intervals of the operands that of the result.

_INTERVALS: dict[type[Op], Callable[..., Interval]] = {}


def _by(*classes: type[Op]) -> Callable[[Callable[..., Interval]], Callable[..., Interval]]:
    def register(rule: Callable[..., Interval]) -> Callable[..., Interval]:
        _INTERVALS.update(dict.fromkeys(classes, rule))
        return rule

    return register


@_by(math.Add)
def _add(a: Interval, b: Interval) -> Interval:
    return hull(a[0] + b[0], a[1] + b[1])


@_by(math.Sub)
def _subtract(a: Interval, b: Interval) -> Interval:
    return hull(a[0] - b[1], a[1] - b[0])


@_by(math.Mul)
def _multiply(a: Interval, b: Interval) -> Interval:
    return hull(*[x * y for x in a for y in b])


def _meets_zero(x: Interval) -> Array:
    """Where 0 is one of several numbers in an interval."""
    return np.asarray((x[0] < x[1]) & (x[0] <= 0) & (x[1] >= 0))


@_by(math.Div)
def _divide(a: Interval, b: Interval, by: np.ufunc = np.true_divide) -> Interval:
    low, high = hull(*[by(x, y) for x in a for y in b])
    through_zero = _meets_zero(b)
    return np.where(through_zero, -np.inf, low), np.where(through_zero, np.inf, high)


@_by(math.FloorDiv)
def _floor_divide(a: Interval, b: Interval) -> Interval:
    return _divide(a, b, np.floor_divide)


@_by(math.Mod)
def _modulo(a: Interval, b: Interval) -> Interval:
    first, last = _floor_divide(a, b)
    low, high = hull(*[x - first * y for x in a for y in b])
    # Where not even the quotient is determined, somewhere from 0 to the divisor.
    anywhere = ~(first == last) | np.isinf(b[0]) | np.isinf(b[1])
    low = np.where(anywhere, np.minimum(b[0], 0), low)
    high = np.where(anywhere, np.maximum(b[1], 0), high)
    through_zero = _meets_zero(b)  # a remainder by 0 is nan
    return np.where(through_zero, -np.inf, low), np.where(through_zero, np.inf, high)


@_by(math.Fma)
def _multiply_add(a: Interval, b: Interval, c: Interval) -> Interval:
    return _add(_multiply(a, b), c)


@_by(math.Sqrt)
def _square_root(x: Interval) -> Interval:
    # A zero of which the sign is not determined has a root.
    low = np.where(beside_sign(np.abs(x[0])) == 0, 0.0, x[0])
    return hull(*ends(np.sqrt, (low, x[1])))


@propagation(math.Add, math.Sub, math.Mul, math.Div, math.FloorDiv, math.Mod, math.Fma, math.Sqrt)
def arithmetic(
    frame: BoundedFrame, op: Op, results: Found, operands: Found, errors: Found
) -> Found:
    dtype = dtype_of(op)
    if not dtype.is_float:
        error = worst(errors)
        if isinstance(op, math.Mul):
            error = _absorb(error, 0, operands, errors)
        return [error]
    intervals = [interval(x, e) for x, e in zip(operands, errors, strict=True)]
    bounds = _INTERVALS[type(op)](*intervals)
    return [settle(rounded(dtype, results[0], bounds), errors)]


# What is as far from the truth as the target allows.


def _between(op: type[Op], *operands: Interval) -> Interval:
    """The results for operands in intervals: without a rule, those at the ends if the function
    grows, else anything."""
    of = numpy_of(op)
    if op in _INTERVALS:
        return _INTERVALS[op](of, *operands)
    if facts[op].grows:
        return hull(*ends(of, operands[0]))
    same = np.logical_and.reduce([low == high for low, high in operands])
    exact = of(*[low for low, _ in operands])
    return np.where(same, exact, -np.inf), np.where(same, exact, np.inf)


@_by(math.Rsqrt)
def _falling(of: Callable[..., Array], x: Interval) -> Interval:
    return hull(*ends(of, x))


@_by(math.Sin, math.Cos)
def _wave(of: Callable[..., Array], x: Interval) -> Interval:
    # No steeper than 1, and never beyond 1.
    value = of((x[0] + x[1]) / 2)
    reach = np.minimum((x[1] - x[0]) / 2, 2)
    return np.maximum(value - reach, -1), np.minimum(value + reach, 1)


@_by(math.Pow)
def _power(of: Callable[..., Array], x: Interval, y: Interval) -> Interval:
    low, high = hull(*[of(a, b) for a in x for b in y])
    # Of a positive base it has its extremes in the corners, whatever the exponent; of another
    # only for an exponent that is known, if it is a whole number, and away from 0.
    exact = (x[0] == x[1]) & (y[0] == y[1])
    whole = (y[0] == y[1]) & (y[0] == np.rint(y[0]))
    good = exact | (x[0] > 0) | (whole & (x[1] < 0))
    through = whole & (y[0] > 0) & ~good  # 0 is a corner, too
    return (
        np.where(good, low, np.where(through, np.minimum(low, 0), -np.inf)),
        np.where(good, high, np.where(through, np.maximum(high, 0), np.inf)),
    )


@origin(math.Transcendental)
def transcendental(
    frame: BoundedFrame, op: Op, results: Found, operands: Found, errors: Found
) -> Found:
    dtype = dtype_of(op)
    accuracy = frame.accuracy(op.name, dtype)
    if dtype is not f32:  # it is rounded to f32 before
        accuracy = replace(accuracy, ulps=max(accuracy.ulps, 0.5))
    inexact = accuracy != EXACTLY
    if not inexact and all(error is EXACT for error in errors):
        return [EXACT]
    intervals = [interval(x, e) for x, e in zip(operands, errors, strict=True)]
    low, high = _between(type(op), *intervals)
    if inexact:
        low, high = low - off(accuracy, intervals[0], low), high + off(accuracy, intervals[0], high)
        if isinstance(op, math.Exp | math.Exp2 | math.Sigmoid):
            low = np.maximum(low, 0)
        if isinstance(op, math.Sigmoid):  # 1 / (1 + exp(-x)) is 0 where exp overflows
            low = np.where(low < 2.0**-126, 0, low)
    error = rounded(dtype, results[0], (low, high))
    if not inexact:
        return [settle(error, errors)]
    if len(operands) == 1:  # what a function is at infinity, it is everywhere
        error = np.where(np.isinf(operands[0]), 0.0, error)
    lost = (sum(errors) == np.inf) | outside(accuracy, intervals[0])
    return [np.where(lost, np.inf, error)]


def off(accuracy: Accuracy, x: Interval, result: Array) -> Array:
    """How far a result of f32 may be off; infinities are what they are."""
    spacing = np.spacing(np.abs(result).astype(np.float32)).astype(np.float64)
    size = np.maximum(np.abs(x[0]), np.abs(x[1]))
    units = accuracy.ulps + accuracy.ulps_per_unit * np.where(np.isfinite(size), size, 0.0)
    return np.where(np.isfinite(spacing), units * spacing + accuracy.distance, 0.0)


def outside(accuracy: Accuracy, x: Interval) -> Array:
    """Where nothing is promised of what becomes of an argument."""
    return np.asarray((x[0] < accuracy.domain[0]) | (x[1] > accuracy.domain[1]))


# What is exact, if the operands are.


@propagation(math.Neg, math.Abs, math.Not, math.AssumeDivisible)
def same(frame: BoundedFrame, op: Op, results: Found, operands: Found, errors: Found) -> Found:
    return errors


@propagation(math.Floor, math.Ceil, math.Round)
def step(frame: BoundedFrame, op: Op, results: Found, operands: Found, errors: Found) -> Found:
    error = beside_sign(errors[0])
    low, high = interval(operands[0], error)
    bounds = scalar.evaluate(op, low), scalar.evaluate(op, high)
    steps = settle(distance(results[0], bounds), errors)
    return [np.where(error == 0, errors[0], steps)]


@propagation(math.Maximum, math.Minimum, math.MaxNum, math.MinNum)
def extremum(frame: BoundedFrame, op: Op, results: Found, operands: Found, errors: Found) -> Found:
    if not dtype_of(op).is_float:
        return [worst(errors)]
    a, b = (interval(x, e) for x, e in zip(operands, errors, strict=True))
    bounds = scalar.evaluate(op, a[0], b[0]), scalar.evaluate(op, a[1], b[1])
    error = distance(results[0], bounds)
    if isinstance(op, math.Maximum | math.Minimum):
        return [settle(error, errors)]  # what is not determined may be NaN
    return [error]


@propagation(math.And, math.Or)
def absorbing(frame: BoundedFrame, op: Op, results: Found, operands: Found, errors: Found) -> Found:
    bits = 0 if isinstance(op, math.And) else ~operands[0].dtype.type(0)
    return [_absorb(worst(errors), bits, operands, errors)]


def _absorb(error: Array, absorber: Any, operands: Found, errors: Found) -> Array:
    """0 where an operand is surely one that alone decides the result."""
    for x, own in zip(operands, errors, strict=True):
        error = np.where((x == absorber) & (own == 0), 0.0, error)
    return error


@propagation(math.Xor, math.Shl, math.Shr)
def mixing(frame: BoundedFrame, op: Op, results: Found, operands: Found, errors: Found) -> Found:
    return [worst(errors)]


@origin(math.Bitcast)
def bits(frame: BoundedFrame, op: Op, results: Found, operands: Found, errors: Found) -> Found:
    """Any nan is as good as another until it is seen as bits."""
    if element_type(op.results[0].type).element is dtype_of(op):
        return errors
    error = worst(errors)
    return [np.where(np.isnan(operands[0]), np.inf, error) if dtype_of(op).is_float else error]


@propagation(math.Compare)
def compare(
    frame: BoundedFrame, op: math.Compare, results: Found, operands: Found, errors: Found
) -> Found:
    """Not determined where the operands' intervals meet."""
    (x, y), (ex, ey) = operands, errors
    if not dtype_of(op).is_float:
        return [worst(errors)]
    ex, ey = beside_sign(ex), beside_sign(ey)
    a, b = interval(x, ex), interval(y, ey)
    strict = op.predicate in (Predicate.LT, Predicate.GE)
    reverse = op.predicate in (Predicate.GT, Predicate.LE)
    below = a[1] < b[0] if not reverse else a[1] <= b[0]
    above = a[0] > b[1] if not strict else a[0] >= b[1]
    nan = (np.isnan(x) & (ex == 0)) | (np.isnan(y) & (ey == 0))
    known = nan | ((below | above) & (ex + ey < np.inf))
    return [np.where(known, 0.0, worst((ex, ey)))]


@propagation(math.Select)
def select(
    frame: BoundedFrame, op: math.Select, results: Found, operands: Found, errors: Found
) -> Found:
    condition, on_true, on_false = operands
    doubt, if_true, if_false = errors
    if condition.ndim == 1:
        shape = (-1, *[1] * (on_true.ndim - 1))
        condition, doubt = condition.reshape(shape), doubt.reshape(shape)
    error = np.where(condition, if_true, if_false)
    if doubt.any():
        either = union(results[0], (on_true, if_true), (on_false, if_false))
        error = np.where(doubt > 0, either, error)
    return [error]


@propagation(math.Cast)
def cast(
    frame: BoundedFrame, op: math.Cast, results: Found, operands: Found, errors: Found
) -> Found:
    source, target = dtype_of(op), element_type(op.result.type).element
    if not source.is_float:
        # A bool of which nothing is known is still 0 or 1.
        one = source.kind is Kind.BOOL and target.is_float
        return [np.where(errors[0] > 0, 1.0 if one else np.inf, 0.0)]
    low, high = interval(operands[0], errors[0])
    if target.is_float:
        return [settle(rounded(target, results[0], (low, high)), errors)]
    if target.kind is Kind.BOOL:
        known = (low > 0) | (high < 0) | (beside_sign(errors[0]) == 0)
    else:
        known = np.trunc(low) == np.trunc(high)
    return [np.where(known, 0.0, worst(errors))]
