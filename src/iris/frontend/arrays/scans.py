"""NumPy's scans."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from iris.errors import ArgumentError
from iris.frontend.arrays import shapes
from iris.frontend.arrays.array_elementwise import truth
from iris.frontend.arrays.array_reductions import summable, without_nan
from iris.frontend.arrays.array_values import cast, emit, traced
from iris.frontend.arrays.protocol import implements, ufunc
from iris.frontend.arrays.shapes import as_axis, flat
from iris.frontend.arrays.traced import TracedArray
from iris.frontend.tracing import error_here
from iris.ir import graph
from iris.ir.kinds import ScanKind
from iris.ir.types import bool_, i32


def scan(kind: ScanKind, x: TracedArray, axis: Any) -> TracedArray:
    """The reduction of the elements up to and with each one along an axis, or of all."""
    if axis is None or not x.ndim:
        x, axis = flat(x), 0
    if x.element is bool_:
        return cast(scan(kind, cast(x, i32), axis), bool_)
    return emit(graph.Scan(kind, as_axis(axis, x.ndim), x.value))


@implements("cumsum")
def cumsum(a: Any, axis: Any = None, dtype: Any = None, out: None = None) -> TracedArray:
    return scan(ScanKind.SUM, summable(traced(a), dtype), axis)


@implements("cumprod")
def cumprod(a: Any, axis: Any = None, dtype: Any = None, out: None = None) -> TracedArray:
    return scan(ScanKind.PROD, summable(traced(a), dtype), axis)


@implements("nancumsum")
def nancumsum(a: Any, axis: Any = None, dtype: Any = None, out: None = None) -> TracedArray:
    return cumsum(without_nan(traced(a), 0), axis, dtype)


@implements("nancumprod")
def nancumprod(a: Any, axis: Any = None, dtype: Any = None, out: None = None) -> TracedArray:
    return cumprod(without_nan(traced(a), 1), axis, dtype)


def _cumulative(of_all: Callable[..., TracedArray], first: int) -> Callable[..., TracedArray]:
    def cumulative(
        x: Any,
        /,
        *,
        axis: Any = None,
        dtype: Any = None,
        out: None = None,
        include_initial: bool = False,
    ) -> TracedArray:
        value = traced(x)
        if axis is None and value.ndim != 1:
            raise error_here(ArgumentError, f"{value} has {value.ndim} axes; give one of them")
        at = 0 if axis is None else as_axis(axis, value.ndim)
        found = of_all(value, at, dtype)
        if not include_initial:
            return found
        widths = [(int(i == at), 0) for i in range(value.ndim)]
        return shapes.pad(found, widths, first)

    return cumulative


implements("cumulative_sum")(_cumulative(cumsum, 0))
implements("cumulative_prod")(_cumulative(cumprod, 1))


# The method `accumulate` of ufuncs, whose axis is 0 where none is given.


def _register_methods() -> None:
    for name, kind in (
        ("add", ScanKind.SUM),
        ("multiply", ScanKind.PROD),
        ("maximum", ScanKind.MAXIMUM),
        ("minimum", ScanKind.MINIMUM),
        ("fmax", ScanKind.MAXNUM),
        ("fmin", ScanKind.MINNUM),
    ):
        ufunc(name, method="accumulate")(_accumulated(kind))
    for name, kind in (("logical_and", ScanKind.MINIMUM), ("logical_or", ScanKind.MAXIMUM)):
        ufunc(name, method="accumulate")(_accumulated_truth(kind))


def _accumulated(kind: ScanKind) -> Callable[..., TracedArray]:
    def accumulated(array: Any, axis: Any = 0, dtype: Any = None, out: None = None) -> TracedArray:
        x = traced(array)
        sums = kind in (ScanKind.SUM, ScanKind.PROD)
        return scan(kind, summable(x, dtype) if sums or dtype is not None else x, axis)

    return accumulated


def _accumulated_truth(kind: ScanKind) -> Callable[..., TracedArray]:
    def accumulated(array: Any, axis: Any = 0, dtype: Any = None, out: None = None) -> TracedArray:
        return scan(kind, truth(array), axis)

    return accumulated


_register_methods()
