"""Concrete arrays that meet traced ones: one number throughout becomes a constant, numbers that
go up or down evenly an iota, a band of a mask a comparison of these, and anything else an input of
the function."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from iris.errors import DTypeError, RangeError, ShapeError
from iris.frontend.arrays.trace import current
from iris.frontend.tracing import error_here, rules_as
from iris.ir import graph, literal, math
from iris.ir.core import Value
from iris.ir.math import Constant, Predicate
from iris.ir.scalar import round_to, storage, to_bits
from iris.ir.types import DType, Tensor, bf16, bool_, i32

Array = npt.NDArray[Any]


def constant(number: bool | int | float, dtype: DType, shape: tuple[int, ...] = ()) -> Value:
    """One number in every element."""
    type_ = Tensor(shape, dtype)
    if isinstance(number, float) and dtype.is_integer and not number.is_integer():
        raise error_here(DTypeError, f"{number} is no {dtype}")
    if not dtype.is_float:
        with rules_as(RangeError):
            return current().emit(Constant(int(number), type_))
    try:
        bits = literal.encode(float(number), dtype)
    except OverflowError:  # as arithmetic of that dtype would have it
        bits = literal.encode(float("inf") if number > 0 else float("-inf"), dtype)
    return current().emit(Constant.of_bits(bits, type_))


def constant_array(array: Array, dtype: DType) -> Value:
    """The elements of a concrete array, cast to a dtype."""
    trace = current()
    with rules_as(ShapeError):
        type_ = Tensor(array.shape, dtype)
    if not array.size:
        return constant(0, dtype, array.shape)
    stored = _stored(array, dtype)
    bits = to_bits(dtype, stored)
    varying = [axis for axis in range(array.ndim) if _varies(bits, axis)]
    if not varying:
        return trace.emit(Constant.of_bits(int(bits.flat[0]), type_))
    # Along the other axes one element tells all.
    few = stored[tuple([slice(None if i in varying else 1) for i in range(array.ndim)])]
    if len(varying) == 1 and _goes_evenly(few.ravel(), dtype):
        return _evenly(few.ravel(), varying[0], type_)
    if few.size == array.size and _goes_evenly(few.ravel(), dtype):
        numbers = _evenly(few.ravel(), 0, Tensor((array.size,), dtype))
        return trace.emit(graph.Reshape(numbers, type_))
    if dtype is bool_ and len(varying) <= 2:
        ends = _band(few.reshape([array.shape[axis] for axis in varying]))
        if ends is not None:
            return _in_band(*ends, varying, type_)
    captured = trace.capture(few, dtype, array)
    return captured if captured.type is type_ else trace.emit(graph.Broadcast(captured, type_))


def _stored(array: Array, dtype: DType) -> Array:
    """The elements, cast to the storage of a dtype."""
    if dtype is bf16:
        return round_to(dtype, array.astype(np.float64))
    with np.errstate(all="ignore"):
        return np.array(array, storage(dtype), order="C")


def _varies(bits: Array, axis: int) -> bool:
    """Whether elements differ along an axis."""
    lines = np.moveaxis(bits, axis, 0)
    return any((lines[:count] != lines[:1]).any() for count in (2, len(lines)))


@np.errstate(all="ignore")
def _goes_evenly(line: Array, dtype: DType) -> bool:
    """Whether numbers are `i * step + start`, computed in their dtype."""
    if dtype is bool_ or dtype is bf16 or len(line) - 1 > _exact_up_to(dtype):
        return False
    step = line[1:2] - line[:1]
    # Three most often tell that they are not.
    for count in (3, len(line)):
        made = np.arange(len(line[:count])).astype(line.dtype) * step + line[:1]
        if made.tobytes() != line[:count].tobytes():
            return False
    return True


Ends = tuple[int | None, int | None]


def _band(mask: Array) -> Ends | None:
    """The first and the last index at which a mask holds, where it holds between these and nowhere
    else; None for an end of the mask.  The index into a matrix is that of its diagonals."""
    first = mask.ndim - 1 and 1 - len(mask)  # the lowest index
    line = mask
    if mask.ndim == 2:
        if (mask[1:, 1:] != mask[:-1, :-1]).any():
            return None  # differs along a diagonal
        line = np.concatenate([mask[:0:-1, 0], mask[0]])
    (places,) = np.nonzero(line)
    if not len(places) or len(places) <= places[-1] - places[0]:
        return None
    low, high = int(places[0]) + first, int(places[-1]) + first
    end = first + len(line) - 1
    return low if low > first else None, high if high < end else None


def _in_band(low: int | None, high: int | None, axes: list[int], type_: Tensor) -> Value:
    """Whether an index along an axis, or of a diagonal along two, is in a band."""
    trace, integers = current(), Tensor(type_.shape, i32)
    index = trace.emit(graph.Iota(axes[-1], integers))
    if len(axes) == 2:
        index = trace.emit(math.Sub(index, trace.emit(graph.Iota(axes[0], integers))))
    ends = ((Predicate.GE, low), (Predicate.LE, high))
    first, *others = [
        trace.emit(math.Compare(predicate, index, constant(end, i32, type_.shape)))
        for predicate, end in ends
        if end is not None
    ]
    return trace.emit(math.And(first, *others)) if others else first


def _exact_up_to(dtype: DType) -> int:
    """Integers up to this are all values of a dtype."""
    return 2 << int(np.finfo(storage(dtype)).nmant) if dtype.is_float else dtype.high


def _evenly(line: Array, axis: int, type_: Tensor) -> Value:
    """Numbers that go evenly along an axis."""
    trace = current()
    numbers = trace.emit(graph.Iota(axis, type_))
    with np.errstate(all="ignore"):
        step = line[1:2] - line[:1]
    for kind, number, neutral in ((math.Mul, step, 1), (math.Add, line[:1], 0)):
        if number.tobytes() != line.dtype.type(neutral).tobytes():
            bits = int(to_bits(type_.element, number)[0])
            numbers = trace.emit(kind(numbers, trace.emit(Constant.of_bits(bits, type_))))
    return numbers
