"""NumPy's functions that select, look up, round or compare elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from iris.errors import ArgumentError, DTypeError, IndexingError, LanguageError, ShapeError
from iris.frontend.arrays.array_elementwise import as_float, binary, compare, select, unary
from iris.frontend.arrays.array_reductions import all, any, sum
from iris.frontend.arrays.array_values import (
    common_dtype,
    dtype_of,
    in_dtype,
    is_weak,
    operand,
    over_shape,
    spread,
    traced,
    unify_floats,
)
from iris.frontend.arrays.indexing import getitem, nonnegative, wide
from iris.frontend.arrays.protocol import implements, ufunc
from iris.frontend.arrays.rearranging import diagonal
from iris.frontend.arrays.shapes import (
    as_axis,
    as_int,
    flat,
    gather,
    iota,
    pad,
    with_axes,
)
from iris.frontend.arrays.traced import TracedArray
from iris.frontend.arrays.ufuncs import isfinite, isnan, trunc
from iris.frontend.tracing import error_here
from iris.frontend.values import broadcast_shapes
from iris.ir import math
from iris.ir.math import Predicate
from iris.ir.types import DType, bf16, bool_, f16, f32

# Selections.


@implements("where")
def where(condition: Any, x: Any = None, y: Any = None) -> TracedArray:
    if (x is None) is not (y is None):
        raise error_here(ArgumentError, "np.where takes both x and y, or neither")
    if x is None:
        raise error_here(
            LanguageError,
            "np.where of one argument gives arrays whose shape depends on the data, and shapes "
            "are known while tracing; np.where(condition, x, y) chooses",
        )
    return select(condition, x, y)


@implements("select")
def select_first(condlist: Any, choicelist: Any, default: Any = 0) -> TracedArray:
    if len(condlist) != len(choicelist) or not condlist:
        raise error_here(
            ArgumentError, f"{len(condlist)} conditions do not go with {len(choicelist)} choices"
        )
    choices = [operand(x) for x in (*choicelist, default)]
    dtype = common_dtype(choices)
    *made, found = [in_dtype(x, dtype) for x in choices]
    for condition, choice in reversed(list(zip(condlist, made, strict=True))):
        found = select(condition, choice, found)
    return found


@implements("clip")
def clip(
    a: Any,
    a_min: Any = None,
    a_max: Any = None,
    out: None = None,
    *,
    min: Any = None,
    max: Any = None,
) -> TracedArray:
    low, high = a_min if min is None else min, a_max if max is None else max
    given = [operand(x) for x in (a, low, high) if x is not None]
    found = in_dtype(traced(a), common_dtype(given))
    if low is not None:
        found = binary(math.Maximum, found, _bound(math.Maximum, low, found.element))
    if high is not None:
        found = binary(math.Minimum, found, _bound(math.Minimum, high, found.element))
    return found


def _bound(kind: type[math.Binary], bound: Any, dtype: DType) -> Any:
    """A bound that fits an integer dtype; one beyond its range becomes its end."""
    given = operand(bound)
    if not (is_weak(given) and dtype.is_integer):
        return given
    is_low = kind is math.Maximum
    end = dtype.low if is_low else dtype.high
    if isinstance(given, int):
        return end if (given < end) is is_low else given
    own = dtype_of(given)
    beyond = own.low < end if is_low else own.high > end
    return binary(kind, given, end) if own.is_integer and beyond else given


@ufunc("_core.umath.clip")
def clip_between(a: Any, a_min: Any, a_max: Any) -> TracedArray:
    """The ufunc that `clip` of an untraced array calls."""
    return clip(a, a_min, a_max)


def _triangle(m: Any, k: Any, predicate: Predicate) -> TracedArray:
    x = traced(m)
    if not x.ndim:
        raise error_here(ShapeError, f"{x} is no matrix")
    if x.ndim == 1:
        x = over_shape(x, (x.size, x.size))
    shape = x.shape[-2:]
    rows, columns = iota(shape, 0), iota(shape, 1)
    inside = compare(predicate, columns, binary(math.Add, rows, as_int(k, "k")))
    return select(inside, x, False)


@implements("tril")
def tril(m: Any, k: Any = 0) -> TracedArray:
    return _triangle(m, k, Predicate.LE)


@implements("triu")
def triu(m: Any, k: Any = 0) -> TracedArray:
    return _triangle(m, k, Predicate.GE)


@implements("diag")
def diag(v: Any, k: Any = 0) -> TracedArray:
    x, by = traced(v), as_int(k, "k")
    if x.ndim == 2:
        return diagonal(x, by)
    if x.ndim != 1:
        raise error_here(ShapeError, f"{x} is no vector and no matrix")
    size = x.size + abs(by)
    row = pad(x, [(max(by, 0), max(-by, 0))], 0)
    shape = (size, size)
    places = binary(math.Add, iota(shape, 0), by)
    return select(compare(Predicate.EQ, iota(shape, 1), places), row, False)


@implements("diagflat")
def diagflat(v: Any, k: Any = 0) -> TracedArray:
    return diag(flat(traced(v)), k)


@implements("trace")
def trace(
    a: Any, offset: Any = 0, axis1: Any = 0, axis2: Any = 1, dtype: Any = None, out: None = None
) -> TracedArray:
    return sum(diagonal(a, offset, axis1, axis2), -1, dtype)


# Lookups.


@implements("take")
def take(
    a: Any, indices: Any, axis: Any = None, out: None = None, mode: str = "raise"
) -> TracedArray:
    x = flat(traced(a)) if axis is None else traced(a)
    at = 0 if axis is None else as_axis(axis, x.ndim)
    places = operand(indices)
    if not isinstance(places, TracedArray):
        places = np.asarray(places, None if np.size(places) else np.int64)
    if not dtype_of(places).is_integer:
        raise error_here(DTypeError, f"indices are integers, not {dtype_of(places)}")
    size = max(x.shape[at], 1)  # an axis without elements has none for any index
    if mode == "clip":
        places = np.clip(wide(places), 0, size - 1)
    elif mode == "wrap":
        places = np.remainder(wide(places), size)
    elif mode != "raise":
        raise error_here(ArgumentError, f"the modes of take are raise, clip and wrap, not {mode!r}")
    return getitem(x, (*[slice(None)] * at, places))


@implements("take_along_axis")
def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> TracedArray:
    x, places = traced(arr), traced(indices)
    if axis is None:
        x, axis = flat(x), 0
    if places.ndim != x.ndim:
        raise error_here(ShapeError, f"indices of {places.ndim} axes do not go with {x}")
    if not places.element.is_integer:
        raise error_here(IndexingError, f"indices are integers, not {places.element}")
    at = as_axis(axis, x.ndim)
    found = traced(nonnegative(places, at, x.shape[at]))
    beside = [x.shape[:at] + x.shape[at + 1 :], found.shape[:at] + found.shape[at + 1 :]]
    shape = list(broadcast_shapes(*beside))
    shape.insert(at, found.shape[at])
    # Look up every axis; the others by their own indices.
    wanted = [
        found if i == at else iota(tuple(shape), i, found.element) if size > 1 else 0
        for i, size in enumerate(x.shape)
    ]
    looked_up = [spread(operand(p), found.element, tuple(shape)) for p in wanted]
    return gather(x, range(x.ndim), looked_up)


# Rounding.


@implements("round", "around", "round_")
def round(a: Any, decimals: Any = 0, out: None = None) -> TracedArray:
    x, places = traced(a), as_int(decimals, "decimals")
    if x.element is bool_:
        x = as_float(x)
    if not x.element.is_float:
        if places < 0:
            raise error_here(LanguageError, f"{x} does not round to {places} decimals")
        return x
    if not places:
        return unary(math.Round, x)
    scale = 10.0 ** abs(places)
    grow, shrink = (math.Mul, math.Div) if places > 0 else (math.Div, math.Mul)
    return binary(shrink, unary(math.Round, binary(grow, x, scale)), scale)


@implements("fix")
def fix(x: Any, out: None = None) -> TracedArray:
    return trunc(x)


@implements("nan_to_num")
def nan_to_num(
    x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> TracedArray:
    value = traced(x)
    if not copy:
        raise error_here(
            LanguageError,
            "np.nan_to_num with copy=False changes an array, and no array changes while a function "
            "is traced; write x = np.nan_to_num(x)",
        )
    if not value.element.is_float:
        return value
    most = _GREATEST[value.element]
    low, high = -most if neginf is None else neginf, most if posinf is None else posinf
    found = select(compare(Predicate.EQ, value, float("inf")), high, value)
    found = select(compare(Predicate.EQ, value, float("-inf")), low, found)
    return select(isnan(value), nan, found)


# The greatest finite numbers.
_GREATEST = {
    f16: 65504.0,
    bf16: (2 - 2**-7) * 2.0**127,
    f32: (2 - 2**-23) * 2.0**127,
}


# Comparisons.


@implements("isclose")
def isclose(
    a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False
) -> TracedArray:
    x, y = unify_floats(a, b)
    allowed = binary(math.Add, atol, binary(math.Mul, rtol, unary(math.Abs, y)))
    near = compare(Predicate.LE, unary(math.Abs, binary(math.Sub, x, y)), allowed)
    found = binary(math.And, near, isfinite(y))
    found = binary(math.Or, found, compare(Predicate.EQ, x, y))
    return binary(math.Or, found, binary(math.And, isnan(x), isnan(y))) if equal_nan else found


@implements("array_equal")
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> TracedArray:
    x, y = traced(a1), traced(a2)
    if x.shape != y.shape:
        return spread(False, bool_, ())
    same = compare(Predicate.EQ, x, y)
    if equal_nan:
        same = binary(math.Or, same, binary(math.And, isnan(x), isnan(y)))
    return all(same)


@implements("isin")
def isin(
    element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False
) -> TracedArray:
    x, known = traced(element), flat(traced(test_elements))
    found = any(compare(Predicate.EQ, with_axes(x, [x.ndim]), known), -1)
    return unary(math.Not, found) if invert else found


@implements("isposinf")
def isposinf(x: Any, out: None = None) -> TracedArray:
    return compare(Predicate.EQ, as_float(traced(x)), float("inf"))


@implements("isneginf")
def isneginf(x: Any, out: None = None) -> TracedArray:
    return compare(Predicate.EQ, as_float(traced(x)), float("-inf"))
