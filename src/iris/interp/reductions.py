"""Reductions and scans along an axis, per dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.ir import scalar
from iris.ir.kinds import ReduceKind, ScanKind, identity, of_nothing
from iris.ir.types import DType, f32, i32

Array = npt.NDArray[Any]

_EXTREMA: dict[str, np.ufunc] = {
    "maximum": np.maximum,
    "minimum": np.minimum,
    "maxnum": np.fmax,
    "minnum": np.fmin,
}


@np.errstate(all="ignore")
def reduce(kind: ReduceKind, dtype: DType, x: Array, *axes: int) -> Array:
    """The reduction of all elements along some axes; `argmax` and `argmin` go along one."""
    if kind is ReduceKind.ARGMAX:
        return np.asarray(x.argmax(axes[0]), np.int32)
    if kind is ReduceKind.ARGMIN:
        return np.asarray(x.argmin(axes[0]), np.int32)
    if kind is ReduceKind.ANY:
        return np.asarray(x.any(axes))
    if kind is ReduceKind.ALL:
        return np.asarray(x.all(axes))
    if kind.value in _EXTREMA:
        return extremum(kind.value, dtype, x, lambda ufunc, y: ufunc.reduce(y, axis=axes))
    if kind is ReduceKind.PROD:
        return _accumulated(dtype, np.prod(x, axis=axes, dtype=_accumulator(dtype)))
    start = identity(kind, dtype) if x.size else of_nothing(kind, dtype)
    total = np.sum(x, axis=axes, dtype=_accumulator(dtype), initial=start)
    return _accumulated(dtype, total)


def indices(x: Array, axis: int) -> Array:
    """The index of each element along an axis."""
    return np.arange(x.shape[axis]).reshape([-1 if i == axis else 1 for i in range(x.ndim)])


def least_place(kind: ReduceKind, x: Array, places: Array, axis: int) -> Array:
    """The least place of an `argmax` or `argmin`, of the places given for the elements."""
    ufunc = np.maximum if kind is ReduceKind.ARGMAX else np.minimum
    extremum = ufunc.reduce(x, axis=axis, keepdims=True)
    is_extremum = (x == extremum) | (x != x)  # a nan is the extremum
    return np.asarray(np.where(is_extremum, places, i32.high).min(axis), np.int32)


@np.errstate(all="ignore")
def scan(kind: ScanKind, dtype: DType, x: Array, axis: int) -> Array:
    """The reductions of the elements up to and with each one along an axis."""
    if kind.value in _EXTREMA:
        return extremum(kind.value, dtype, x, lambda ufunc, y: ufunc.accumulate(y, axis=axis))
    function = np.cumsum if kind is ScanKind.SUM else np.cumprod
    return _accumulated(dtype, function(x, axis=axis, dtype=_accumulator(dtype)))


def extremum(kind: str, dtype: DType, x: Array, apply: Callable[[np.ufunc, Array], Array]) -> Array:
    """What applying the function of a kind, one of `maximum`, `minimum`, `maxnum` and `minnum`,
    along an axis gives."""
    ufunc = _EXTREMA[kind]
    found = apply(ufunc, x)
    if not dtype.is_float or not (found == 0).any():
        return found
    # Of two zeros NumPy gives either one; -0 is less than +0.  Integers that are ordered like
    # the floats have no such doubt, nor nan: here it is the least or the greatest of them.
    ordered = np.maximum if kind in ("maximum", "maxnum") else np.minimum
    limits = np.iinfo(f"i{x.itemsize}")
    nan = limits.max if kind in ("maximum", "minnum") else limits.min
    keys = _flip(x.view(limits.dtype))
    keys = apply(ordered, np.where(np.isnan(x), limits.dtype.type(nan), keys))
    return np.asarray(_flip(keys)).view(x.dtype)


def _flip(bits: Array) -> Array:
    """The bits of floats as integers in the floats' order, and back."""
    return np.where(bits < 0, bits ^ bits.dtype.type(np.iinfo(bits.dtype).max), bits)


def _accumulator(dtype: DType) -> np.dtype[Any]:
    """Sums of 16-bit floats are made in f32; integers wrap."""
    return scalar.storage(f32 if dtype.is_float else dtype)


def _accumulated(dtype: DType, total: Array) -> Array:
    return scalar.round_to(dtype, total) if dtype.is_float else total
