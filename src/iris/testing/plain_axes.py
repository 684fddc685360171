"""The words of the tile language that go along an axis, in NumPy: they reduce, scan, order and
multiply, and leave out the lanes that do not count."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.ir.types import DType, Kind, bool_, f32, i32, i64, u32
from iris.testing.plain_tiles import (
    HELD,
    Plain,
    Refused,
    arithmetic,
    as_dtype,
    as_number,
    as_plain,
    check_axis,
    common_shape,
    counting,
    meeting,
    one_zero,
    spread,
)

Array = npt.NDArray[Any]
_WHOLE = 1 << 24  # up to which f32 has all integers
_FINEST_PRODUCTS = 256  # of floats that are multiples of 1 / 16
_TF32_BITS = 11
_NAN = float("nan")


def _added_in(dtype: DType, wanted: DType | str | None) -> DType:
    if wanted is not None:
        chosen = as_dtype(wanted)
        if chosen is bool_:
            raise Refused("a sum of bools")
        return chosen
    if dtype.is_float or dtype.bits >= 32:
        return dtype
    return u32 if dtype.kind is Kind.UNSIGNED else i32


def _any_counts(x: Plain, axis: int | None, keepdims: bool) -> Array:
    return np.asarray(x.counts.any(axis=axis, keepdims=keepdims))


def _added(
    function: np.ufunc, neutral: int, x: Any, axis: int | None, keepdims: bool, dtype: Any
) -> Plain:
    value = one_zero(as_plain(x))
    check_axis(value, axis)
    value = value.to(_added_in(value.dtype, dtype))
    total = np.float32 if value.dtype.is_float else value.data.dtype
    terms = value.filled(neutral)
    if function is np.multiply and value.dtype.is_float and not _multiplies_exactly(terms):
        raise Refused("a product that may be rounded")
    found = function.reduce(terms, axis=axis, dtype=total, keepdims=keepdims)
    return Plain(found, value.dtype, _any_counts(value, axis, keepdims))


def _multiplies_exactly(terms: Array) -> bool:
    """Whether products of some terms, in any order, are powers of two that f16 holds."""
    sizes = np.abs(terms.astype(np.float64))
    regular = sizes[(sizes > 0) & np.isfinite(sizes)]
    exponents = np.log2(regular)
    return bool(np.all(exponents == np.rint(exponents)) and np.abs(exponents).sum() < _TF32_BITS)


def _extreme(
    of_integers: np.ufunc, dropping_nan: np.ufunc, x: Any, axis: Any, keepdims: bool
) -> Plain:
    value = as_number(one_zero(as_plain(x)))
    check_axis(value, axis)
    if value.dtype.is_float:
        found = dropping_nan.reduce(value.filled(_NAN), axis=axis, keepdims=keepdims)
    else:
        last = value.dtype.low if of_integers is np.maximum else value.dtype.high
        found = of_integers.reduce(value.filled(last), axis=axis, keepdims=keepdims)
    return Plain(found, value.dtype, _any_counts(value, axis, keepdims))


def _truth(function: np.ufunc, neutral: bool, x: Any, axis: Any, keepdims: bool) -> Plain:
    value = as_plain(x)
    check_axis(value, axis)
    holds = np.where(value.counts, value.data != 0, neutral)
    found = function.reduce(holds, axis=axis, keepdims=keepdims)
    return Plain(found, bool_, _any_counts(value, axis, keepdims))


def _place(function: Callable[..., Any], x: Any, axis: Any, keepdims: bool) -> Plain:
    """The place of the first extreme element, among those that count."""
    value = as_number(as_plain(x))
    check_axis(value, axis)
    lanes = [value.data, value.counts] if value.shape else [value.data[None], value.counts[None]]
    data, kept = (v.reshape(-1) if axis is None else np.moveaxis(v, axis, -1) for v in lanes)
    rows = data.reshape(-1, data.shape[-1]), kept.reshape(-1, data.shape[-1])
    places = [
        np.flatnonzero(counts)[function(row[counts])] if counts.any() else 0
        for row, counts in zip(*rows, strict=True)
    ]
    found = np.array(places).reshape(data.shape[:-1])
    if keepdims:
        found = found.reshape(_any_counts(value, axis, True).shape)
    return Plain(found, i32, _any_counts(value, axis, keepdims))


def _combined(values: Any, fn: Callable[..., Any], one: Sequence[Any], other: Sequence[Any]) -> Any:
    """What a function makes of elements, or of several ones that belong together; of one that
    counts and one that does not, the former."""
    made = fn(*one, *other)
    results = made if isinstance(values, tuple) else (made,)
    combined = []
    for x, y, result in zip(one, other, results, strict=True):
        if not isinstance(result, Plain) or (result.dtype, result.shape) != (x.dtype, x.shape):
            raise Refused("a function that changes a type")
        data = np.where(x.counts, np.where(y.counts, result.data, x.data), y.data)
        combined.append(Plain(data, x.dtype, x.counts | y.counts))
    return combined


def _steps(values: Any, axis: int | None) -> list[list[Plain]]:
    """The elements one after the other along an axis, or all, of each of the values."""
    several = [as_plain(x) for x in (values if isinstance(values, tuple) else (values,))]
    shape = common_shape(*several)
    if not shape:
        raise Refused("no axis")
    several = [spread(x, shape) for x in several]
    counts = counting(*several)
    together = [Plain(x.data, x.dtype, counts) for x in several]
    if axis is None:
        together = [x.moved(np.ravel) for x in together]
    check_axis(together[0], axis)
    moved = [x.moved(lambda v: np.moveaxis(v, axis or 0, 0)) for x in together]
    return [[x[n] for x in moved] for n in range(moved[0].shape[0])]


def _rounded_to_tf32(x: Array) -> Array:
    """Round numbers to floats of so many bits, ties to even."""
    parts, exponents = np.frexp(x)
    rounded: Array = np.ldexp(np.rint(parts * 2.0**_TF32_BITS), exponents - _TF32_BITS)
    return np.where(np.isfinite(x), rounded, x)


class AxisWords:
    """Names that a kernel finds in `iris`."""

    @staticmethod
    def sum(x: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Plain:
        return _added(np.add, 0, x, axis, keepdims, dtype)

    @staticmethod
    def prod(x: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Plain:
        return _added(np.multiply, 1, x, axis, keepdims, dtype)

    @staticmethod
    def max(x: Any, axis: Any = None, keepdims: bool = False) -> Plain:
        return _extreme(np.maximum, np.fmax, x, axis, keepdims)

    @staticmethod
    def min(x: Any, axis: Any = None, keepdims: bool = False) -> Plain:
        return _extreme(np.minimum, np.fmin, x, axis, keepdims)

    @staticmethod
    def any(x: Any, axis: Any = None, keepdims: bool = False) -> Plain:
        return _truth(np.logical_or, False, x, axis, keepdims)

    @staticmethod
    def all(x: Any, axis: Any = None, keepdims: bool = False) -> Plain:
        return _truth(np.logical_and, True, x, axis, keepdims)

    @staticmethod
    def argmax(x: Any, axis: Any = None, keepdims: bool = False) -> Plain:
        return _place(np.argmax, x, axis, keepdims)

    @staticmethod
    def argmin(x: Any, axis: Any = None, keepdims: bool = False) -> Plain:
        return _place(np.argmin, x, axis, keepdims)

    @staticmethod
    def cumsum(x: Any, axis: int = 0, dtype: Any = None, reverse: bool = False) -> Plain:
        value = as_plain(x)
        check_axis(value, axis)
        value = value.to(_added_in(value.dtype, dtype))
        total = np.float32 if value.dtype.is_float else value.data.dtype
        terms = value.filled(-0.0 if value.dtype.is_float else 0)
        if reverse:
            terms = np.flip(terms, axis)
        sums = np.cumsum(terms, axis=axis, dtype=total)
        return Plain(np.flip(sums, axis) if reverse else sums, value.dtype, value.counts)

    @staticmethod
    def reduce(values: Any, axis: Any, fn: Callable[..., Any], keepdims: bool = False) -> Any:
        first, *others = _steps(values, axis)
        for other in others:
            first = _combined(values, fn, first, other)
        if keepdims:
            every = [as_plain(x) for x in (values if isinstance(values, tuple) else (values,))]
            kept = tuple(range(len(common_shape(*every)))) if axis is None else axis
            first = [x.moved(lambda v: np.expand_dims(v, kept)) for x in first]
        return tuple(first) if isinstance(values, tuple) else first[0]

    @staticmethod
    def associative_scan(
        values: Any, axis: int, fn: Callable[..., Any], reverse: bool = False
    ) -> Any:
        steps = _steps(values, axis)[:: -1 if reverse else 1]
        own = [x[0].counts for x in steps]
        for n in range(1, len(steps)):
            steps[n] = _combined(values, fn, steps[n - 1], steps[n])
        parts = zip(*steps[:: -1 if reverse else 1], strict=True)
        counts = np.stack(own[:: -1 if reverse else 1], axis)
        scanned = [Plain(np.stack([x.data for x in xs], axis), xs[0].dtype, counts) for xs in parts]
        return tuple(scanned) if isinstance(values, tuple) else scanned[0]

    @staticmethod
    def sort(x: Any, axis: int = -1, descending: bool = False) -> Plain:
        """In order, nan as the greatest; a lane that does not count holds what comes last."""
        value = one_zero(as_plain(x))
        if value.dtype is bool_ or not value.shape:
            raise Refused("nothing that has an order")
        check_axis(value, axis)
        ends = (-np.inf, _NAN) if value.dtype.is_float else (value.dtype.low, value.dtype.high)
        found = np.sort(value.filled(ends[not descending]), axis=axis)
        return Plain(np.flip(found, axis) if descending else found, value.dtype)

    @classmethod
    def topk(cls, x: Any, k: int, axis: int = -1) -> Plain:
        found = cls.sort(x, axis, True)
        if k > found.shape[axis]:
            raise Refused("more than there are")
        return found.moved(lambda v: np.take(v, range(k), axis))

    @staticmethod
    def histogram(x: Any, bins: int, mask: Any = True) -> Plain:
        value, counted = as_plain(x), as_plain(mask)
        if not value.dtype.is_integer or counted.dtype is not bool_:
            raise Refused("nothing to count")
        if common_shape(value, counted) != value.shape:
            raise Refused("a mask that does not fit")
        counted = spread(counted, value.shape)
        counts = counting(value, counted)
        inside = value.data[counted.data & counts & (value.data >= 0) & (value.data < bins)]
        found = np.bincount(inside.astype(np.int64), minlength=bins).astype(np.int32)
        return Plain(found, i32, counts.any())

    @staticmethod
    def dot(a: Plain, b: Plain, acc: Any = None, precision: str = "ieee") -> Plain:
        if not (a.data.ndim == b.data.ndim >= 2 and a.shape[-1] == b.shape[-2]):
            raise Refused("no matrices that fit")
        if a.shape[:-2] != b.shape[:-2]:
            raise Refused("other numbers of matrices")
        dtype = meeting(a, b)
        usual = f32 if dtype.is_float else i32
        if acc is None:
            acc = Plain(0, usual)
        added = as_plain(
            acc, acc.dtype if isinstance(acc, Plain) else meeting(Plain(0, usual), acc)
        )
        if dtype is bool_ or added.dtype is not usual:
            raise Refused("a product in another dtype")
        held = HELD[f32 if dtype.is_float else i64]
        x, y = (v.to(dtype).filled(0).astype(held) for v in (a, b))
        if precision == "tf32" and dtype is f32:
            x, y = map(_rounded_to_tf32, (x, y))
        if dtype.is_float and not np.all(np.abs(x) @ np.abs(y) < _WHOLE / _FINEST_PRODUCTS):
            raise Refused("a sum that may be rounded, or is no number")
        rows, columns = np.asarray(a.counts.any(-1)), np.asarray(b.counts.any(-2))
        counts = rows[..., None] & columns[..., None, :]
        product = Plain(x @ y, usual, counts)
        if common_shape(product, added) != product.shape:
            raise Refused("an accumulator that does not fit")
        return arithmetic(operator.add, product, added)
