"""NumPy's reductions."""

from __future__ import annotations

from collections.abc import Callable
from math import prod as product
from typing import Any

import numpy as np

from iris.errors import ArgumentError, LanguageError, ShapeError
from iris.frontend.arrays.array_elementwise import (
    as_float,
    binary,
    compare,
    divide,
    select,
    truth,
    unary,
)
from iris.frontend.arrays.array_values import (
    cast,
    emit,
    in_dtype,
    operand,
    over_shape,
    spread,
    traced,
)
from iris.frontend.arrays.dtypes import as_dtype, meeting
from iris.frontend.arrays.protocol import implements, ufunc
from iris.frontend.arrays.shapes import as_axes, as_axis, flat, transpose, with_axes
from iris.frontend.arrays.traced import TracedArray
from iris.frontend.arrays.ufuncs import isnan
from iris.frontend.tracing import error_here, rules_as
from iris.ir import graph, math
from iris.ir.kinds import ReduceKind
from iris.ir.math import Predicate
from iris.ir.types import DType, bool_, f32, i32, u32

# What NumPy's functions have where an argument is not given.
_NOT_GIVEN = np._NoValue


def _is_given(x: Any) -> bool:
    return x is not None and x is not _NOT_GIVEN


def reduce(kind: ReduceKind, x: TracedArray, axis: Any, keepdims: Any = False) -> TracedArray:
    """A reduction along axes, None being all; they go away, or stay with size 1."""
    axes = sorted(as_axes(axis, x.ndim))
    if not axes:
        return TracedArray(x.value, x.owner)
    with rules_as(ShapeError):
        found = emit(graph.Reduce(kind, tuple(axes), x.value))
    return with_axes(found, axes) if _is_given(keepdims) and keepdims else found


def summable(x: TracedArray, dtype: Any = None) -> TracedArray:
    """In the dtype of a sum: bools and narrow integers are added up in 32 bits."""
    if dtype is not None:
        return cast(x, as_dtype(dtype))
    if x.element.is_float or x.element.bits >= 32:
        return x
    return cast(x, u32 if x.element.is_integer and not x.element.is_signed else i32)


def _chosen(x: TracedArray, where: Any, neutral: Any) -> TracedArray:
    """Only some elements, something that makes no difference in place of the others."""
    if not _is_given(where) or where is True:
        return x
    return select(where, x, in_dtype(neutral, x.element))


def _with_initial(kind: type[math.Binary], found: TracedArray, initial: Any) -> TracedArray:
    return binary(kind, found, _initial(found, initial)) if _is_given(initial) else found


def _initial(x: TracedArray, initial: Any) -> TracedArray:
    """What a reduction starts with, in the dtype that it has without."""
    return in_dtype(operand(initial), x.element)


# Sums and products.


@implements("sum")
def sum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: Any = False,
    initial: Any = None,
    where: Any = None,
) -> TracedArray:
    x = _chosen(summable(traced(a), dtype), where, 0)
    of_bools = ReduceKind.ANY if x.element is bool_ else ReduceKind.SUM
    found = reduce(of_bools, x, axis, keepdims)
    return _with_initial(math.Add, found, initial)


@implements("prod")
def prod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: Any = False,
    initial: Any = None,
    where: Any = None,
) -> TracedArray:
    x = _chosen(summable(traced(a), dtype), where, 1)
    of_bools = ReduceKind.ALL if x.element is bool_ else ReduceKind.PROD
    found = reduce(of_bools, x, axis, keepdims)
    return _with_initial(math.Mul, found, initial)


@implements("nansum")
def nansum(
    a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: Any = False
) -> TracedArray:
    return sum(without_nan(traced(a), 0), axis, dtype, keepdims=keepdims)


@implements("nanprod")
def nanprod(
    a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: Any = False
) -> TracedArray:
    return prod(without_nan(traced(a), 1), axis, dtype, keepdims=keepdims)


def without_nan(x: TracedArray, neutral: float) -> TracedArray:
    return select(isnan(x), neutral, x) if x.element.is_float else x


@implements("count_nonzero")
def count_nonzero(a: Any, axis: Any = None, *, keepdims: Any = False) -> TracedArray:
    return sum(truth(a), axis, keepdims=keepdims)


# Means and deviations, of 16-bit floats in f32, and rounded once.


def _averageable(x: TracedArray, dtype: Any) -> tuple[TracedArray, DType]:
    """The numbers in f32, and the dtype of the mean."""
    result = as_float(x).element if dtype is None else as_dtype(dtype)
    return cast(x, f32), result


def _count(x: TracedArray, axis: Any, where: Any = None, keepdims: Any = False) -> Any:
    """How many elements each mean is of."""
    if not _is_given(where) or where is True:
        return float(product([x.shape[i] for i in as_axes(axis, x.ndim)]))
    return cast(sum(spread(traced(where), bool_, x.shape), axis, keepdims=keepdims), f32)


@implements("mean")
def mean(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: Any = False,
    *,
    where: Any = None,
) -> TracedArray:
    x, result = _averageable(traced(a), dtype)
    kept = result if result.is_integer else None  # which NumPy adds up in, and wraps around
    total = sum(traced(a) if kept else x, axis, kept, keepdims=keepdims, where=where)
    count = _count(x, axis, where, keepdims)
    if kept and kept.bits >= 32 and x.size:  # f32 does not hold every total
        whole = int(count) if isinstance(count, float) else cast(count, kept)
        return _towards_zero(total, whole)
    return cast(divide(total, count), result)


def _towards_zero(total: TracedArray, count: Any) -> TracedArray:
    """The quotient of integers, without its fraction."""
    below = binary(math.FloorDiv, total, count)
    is_inexact = compare(Predicate.NE, binary(math.Mul, below, count), total)
    is_between = binary(math.And, compare(Predicate.LT, total, 0), is_inexact)
    return binary(math.Add, below, cast(is_between, total.element))


@implements("nanmean")
def nanmean(
    a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: Any = False
) -> TracedArray:
    x = traced(a)
    return mean(x, axis, dtype, keepdims=keepdims, where=unary(math.Not, isnan(x)))


def _deviation(finish: Callable[[TracedArray], TracedArray]) -> Callable[..., TracedArray]:
    def deviation(
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        out: None = None,
        ddof: Any = 0,
        keepdims: Any = False,
        *,
        where: Any = None,
        mean: Any = None,
        correction: Any = None,
    ) -> TracedArray:
        x, result = _averageable(traced(a), dtype)
        freedom = correction if _is_given(correction) else ddof
        return cast(finish(_variance(x, axis, freedom, keepdims, where, mean)), result)

    return deviation


var = implements("var")(_deviation(lambda variance: variance))
std = implements("std")(_deviation(lambda variance: unary(math.Sqrt, variance)))


def _variance(
    x: TracedArray, axis: Any, ddof: Any, keepdims: Any, where: Any, centre: Any
) -> TracedArray:
    """In two passes: the mean of the squares less the square of the mean would lose its bits."""
    if not _is_given(centre):
        centre = mean(x, axis, keepdims=True, where=where)
    rest = binary(math.Sub, x, centre)
    total = sum(binary(math.Mul, rest, rest), axis, keepdims=keepdims, where=where)
    count = _count(x, axis, where, keepdims)
    if isinstance(count, float):
        return divide(total, count - ddof if count > ddof else 0.0)
    return divide(total, binary(math.Maximum, binary(math.Sub, count, ddof), 0))


def _without_nans(of_all: Callable[..., TracedArray]) -> Callable[..., TracedArray]:
    def without_nans(
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        out: None = None,
        ddof: Any = 0,
        keepdims: Any = False,
        **named: Any,
    ) -> TracedArray:
        x = traced(a)
        known = unary(math.Not, isnan(x))
        found = of_all(x, axis, dtype, None, ddof, keepdims, where=known, **named)
        if not x.element.is_float:
            return found
        # Unlike var, which divides by 0, it says nothing of too few elements.
        is_enough = compare(Predicate.GT, _count(x, axis, known, keepdims), ddof)
        return select(is_enough, found, float("nan"))

    return without_nans


implements("nanvar")(_without_nans(var))
implements("nanstd")(_without_nans(std))


@implements("average")
def average(
    a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: Any = False
) -> Any:
    x, result = _averageable(traced(a), None)
    if weights is not None:
        common = meeting([traced(a).element, traced(weights).element])
        result = common if common is not None and common.is_float else f32
    shares = spread(1.0, f32, x.shape) if weights is None else _weights(x, axis, weights)
    total = sum(shares, axis, keepdims=keepdims)
    found = divide(sum(binary(math.Mul, x, shares), axis, keepdims=keepdims), total)
    made = cast(found, result)
    return (made, cast(total, result)) if returned else made


def _weights(x: TracedArray, axis: Any, weights: Any) -> TracedArray:
    """Weights over the shape of what they belong to."""
    shares = cast(traced(weights), f32)
    if shares.shape == x.shape:
        return shares
    axes = as_axes(axis, x.ndim)
    if axis is None:
        raise error_here(
            ArgumentError, f"weights of the shape {shares.shape} need axis=, the axes of {x}"
        )
    if shares.shape != tuple([x.shape[i] for i in axes]):
        raise error_here(
            ShapeError, f"weights of the shape {shares.shape} do not go with {x} along {axis}"
        )
    ordered = transpose(shares, sorted(range(len(axes)), key=lambda i: axes[i]))
    return over_shape(with_axes(ordered, [i for i in range(x.ndim) if i not in axes]), x.shape)


# Extremes.


def _extreme(
    kind: ReduceKind, of_bools: ReduceKind, combine: type[math.Binary]
) -> Callable[..., TracedArray]:
    def extreme(
        a: Any,
        axis: Any = None,
        out: None = None,
        keepdims: Any = False,
        initial: Any = None,
        where: Any = None,
    ) -> TracedArray:
        x = traced(a)
        if _is_given(where) and where is not True:
            if not _is_given(initial):
                raise error_here(
                    LanguageError, f"where= of a {kind.value} needs initial=, for where none holds"
                )
            x = select(where, x, _initial(x, initial))
        axes = as_axes(axis, x.ndim)
        if _is_given(initial) and not x.size and 0 in [x.shape[i] for i in axes]:
            sizes = [1 if i in axes else size for i, size in enumerate(x.shape)]
            x = spread(operand(initial), x.element, tuple(sizes))
        found = reduce(of_bools if x.element is bool_ else kind, x, axis, keepdims)
        return _with_initial(combine, found, initial)

    return extreme


max = implements("max", "amax")(_extreme(ReduceKind.MAXIMUM, ReduceKind.ANY, math.Maximum))
min = implements("min", "amin")(_extreme(ReduceKind.MINIMUM, ReduceKind.ALL, math.Minimum))
fmax = implements("nanmax")(_extreme(ReduceKind.MAXNUM, ReduceKind.ANY, math.MaxNum))
fmin = implements("nanmin")(_extreme(ReduceKind.MINNUM, ReduceKind.ALL, math.MinNum))


@implements("ptp")
def ptp(a: Any, axis: Any = None, out: None = None, keepdims: Any = False) -> TracedArray:
    return binary(math.Sub, max(a, axis, keepdims=keepdims), min(a, axis, keepdims=keepdims))


def _place(kind: ReduceKind) -> Callable[..., TracedArray]:
    def place(a: Any, axis: Any = None, out: None = None, *, keepdims: Any = False) -> TracedArray:
        x = traced(a)
        if x.element is bool_:
            x = cast(x, i32)
        if axis is not None and x.ndim:
            return reduce(kind, x, as_axis(axis, x.ndim), keepdims)
        found = reduce(kind, flat(x), 0)
        return with_axes(found, range(x.ndim)) if keepdims else found

    return place


argmax = implements("argmax")(_place(ReduceKind.ARGMAX))
argmin = implements("argmin")(_place(ReduceKind.ARGMIN))


# Truth.


@implements("any")
def any(
    a: Any, axis: Any = None, out: None = None, keepdims: Any = False, *, where: Any = None
) -> TracedArray:
    return reduce(ReduceKind.ANY, _chosen(truth(a), where, False), axis, keepdims)


@implements("all")
def all(
    a: Any, axis: Any = None, out: None = None, keepdims: Any = False, *, where: Any = None
) -> TracedArray:
    return reduce(ReduceKind.ALL, _chosen(truth(a), where, True), axis, keepdims)


# The method `reduce` of ufuncs, whose axis is 0 where none is given.


def _register_methods() -> None:
    for name, of_sums in (("add", sum), ("multiply", prod)):
        ufunc(name, method="reduce")(_summed(of_sums))
    for name, of_all in (
        ("maximum", max),
        ("minimum", min),
        ("fmax", fmax),
        ("fmin", fmin),
        ("logical_and", all),
        ("logical_or", any),
    ):
        ufunc(name, method="reduce")(_reduced(of_all))


def _summed(of_sums: Callable[..., TracedArray]) -> Callable[..., TracedArray]:
    def summed(
        array: Any, axis: Any = 0, dtype: Any = None, out: None = None, **named: Any
    ) -> TracedArray:
        return of_sums(array, axis, dtype, **named)

    return summed


def _reduced(of_all: Callable[..., TracedArray]) -> Callable[..., TracedArray]:
    def reduced(
        array: Any, axis: Any = 0, dtype: Any = None, out: None = None, **named: Any
    ) -> Any:
        x = traced(array)
        return of_all(x if dtype is None else cast(x, as_dtype(dtype)), axis, **named)

    return reduced


_register_methods()
