"""The words that join, divide and sort tiles."""

from __future__ import annotations

from math import nan, prod
from typing import Any

from iris.errors import DTypeError, ShapeError
from iris.frontend.halves import flat, halves, in_shape, is_second, joined, pick
from iris.frontend.language import as_axis
from iris.frontend.tracing import error_here, rules_as, word
from iris.frontend.values import Traced, as_shape, as_traced, constant, emit, unify
from iris.ir import math, tile
from iris.ir.math import Predicate
from iris.ir.types import DType, bool_


@word
def join(a: Any, b: Any) -> Traced:
    """Two tiles side by side along a new last axis."""
    low, high = unify(a, b)
    return _shaped(joined(flat(low), flat(high), 1), *low.shape, 2)


@word
def split(x: Traced) -> tuple[Traced, Traced]:
    """The two tiles along the last axis, which has two elements."""
    traced = as_traced(x)
    if traced.shape[-1:] != (2,):
        raise error_here(ShapeError, f"split takes a tile whose last axis has size 2, not {traced}")
    last = len(traced.shape) - 1
    return pick(traced, last, 0), pick(traced, last, 1)


@word
def interleave(a: Any, b: Any) -> Traced:
    """The elements of two tiles by turns along the last axis."""
    low, high = unify(a, b)
    *rows, size = low.shape or (1,)
    return _shaped(joined(flat(low), flat(high), 1), *rows, 2 * size)


@word
def cat(a: Any, b: Any, axis: int = 0) -> Traced:
    """One tile after the other along an axis."""
    low, high = unify(a, b)
    shape = low.shape or (1,)
    at = as_axis(axis, len(shape))
    both = joined(flat(low), flat(high), prod(shape[at:]))
    return _shaped(both, *shape[:at], 2 * shape[at], *shape[at + 1 :])


@word
def ravel(x: Traced) -> Traced:
    """All elements in row-major order along one axis."""
    return flat(as_traced(x))


@word
def expand_dims(x: Traced, axis: int) -> Traced:
    """The same tile with a new axis of size 1."""
    traced = as_traced(x)
    at = as_axis(axis, len(traced.shape) + 1)
    return _shaped(traced, *traced.shape[:at], 1, *traced.shape[at:])


@word
def sort(x: Traced, axis: int = -1, descending: bool = False) -> Traced:
    """The elements in order along an axis; nan is the greatest."""
    traced = as_traced(x)
    shape = traced.shape
    at = as_axis(axis, len(shape))
    if traced.dtype is bool_:
        raise error_here(DTypeError, "sort puts numbers in order, not bools; cast them")
    elements = flat(_filled(traced, _last(traced.dtype, descending)))
    count, inner = shape[at], prod(shape[at + 1 :])
    size = prod(shape)
    # A bitonic network: runs of length `run` are in order, by turns up and down.
    run = 2
    while run <= count:
        turned = is_second(size // 2, run // 2 * inner) if run < count else None
        step = run // 2
        while step:
            low, high = halves(elements, step * inner)
            swaps = _is_before(high, low, descending)
            if turned is not None:
                swaps = emit(math.Xor(swaps.value, turned.value))
            first, second = (
                emit(math.Select(swaps.value, x.value, y.value))
                for x, y in ((high, low), (low, high))
            )
            elements = joined(first, second, step * inner)
            step //= 2
        run *= 2
    return _shaped(elements, *shape)


@word
def topk(x: Traced, k: int, axis: int = -1) -> Traced:
    """The k greatest elements along an axis, in descending order; k is a power of two."""
    traced = as_traced(x)
    shape = traced.shape
    at = as_axis(axis, len(shape))
    (count,) = as_shape(k)
    if count > shape[at]:
        raise error_here(ShapeError, f"topk takes at most {shape[at]} elements, not {k}")
    inner = prod(shape[at + 1 :])
    rows = _shaped(sort(traced, at, True), prod(shape[:at]), shape[at] // count, count * inner)
    return _shaped(pick(rows, 1, 0), *shape[:at], count, *shape[at + 1 :])


def _shaped(x: Traced, *shape: int) -> Traced:
    with rules_as(ShapeError):
        return in_shape(x, *shape)


def _last(dtype: DType, descending: bool) -> float:
    """The value that comes last in an order."""
    if dtype.is_float:
        return float("-inf") if descending else nan
    return int(dtype.low if descending else dtype.high)


def _filled(x: Traced, value: float) -> Traced:
    """A value in the place of elements that do not count."""
    return emit(tile.Update(constant(value, x.dtype, x.shape).value, x.value))


def _is_before(a: Traced, b: Traced, descending: bool) -> Traced:
    """Which elements come before others in an order in which nan is the greatest."""
    low, high = (b, a) if descending else (a, b)
    less = emit(math.Compare(Predicate.LT, low.value, high.value))
    if not low.dtype.is_float:
        return less
    low_is_nan, high_is_nan = (
        emit(math.Compare(Predicate.NE, v.value, v.value)) for v in (low, high)
    )
    only = emit(math.And(high_is_nan.value, emit(math.Not(low_is_nan.value)).value))
    return emit(math.Or(less.value, only.value))
