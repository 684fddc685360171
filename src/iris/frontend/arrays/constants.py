"""Concrete arrays that meet traced ones: one number throughout becomes a constant, numbers that
go up or down evenly an iota, and anything else an input of the function."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from iris.errors import DTypeError, ShapeError
from iris.frontend.arrays.trace import current
from iris.frontend.tracing import error_here, rules_as
from iris.ir import graph, literal, math
from iris.ir.core import Value
from iris.ir.math import Constant
from iris.ir.scalar import round_to, storage, to_bits
from iris.ir.types import DType, Tensor, bf16, bool_

Array = npt.NDArray[Any]


def constant(number: bool | int | float, dtype: DType, shape: tuple[int, ...] = ()) -> Value:
    """One number in every element."""
    type_ = Tensor(shape, dtype)
    if isinstance(number, float) and dtype.is_integer and not number.is_integer():
        raise error_here(DTypeError, f"{number} is no {dtype}")
    if not dtype.is_float:
        with rules_as(DTypeError):
            return current().emit(Constant(int(number), type_))
    try:
        bits = literal.encode(float(number), dtype)
    except OverflowError:  # as arithmetic of that dtype would have it
        bits = literal.encode(float("inf") if number > 0 else float("-inf"), dtype)
    return current().emit(Constant.of_bits(bits, type_))


@np.errstate(all="ignore")
def constant_array(array: Array, dtype: DType) -> Value:
    """The elements of a concrete array, cast to a dtype."""
    trace = current()
    with rules_as(ShapeError):
        type_ = Tensor(array.shape, dtype)
    if not array.size:
        return constant(0, dtype, array.shape)
    stored = _stored(array, dtype)
    bits = to_bits(dtype, stored)
    first = bits.flat[0]
    if (bits == first).all():
        return trace.emit(Constant.of_bits(int(first), type_))
    steps = _steps(stored, dtype)
    if steps is None:
        return trace.capture(array, dtype)
    numbers = trace.emit(graph.Iota(steps.axis, Tensor(steps.shape, dtype)))
    for kind, number, neutral in ((math.Mul, steps.step, 1), (math.Add, steps.start, 0)):
        if number.tobytes() != number.dtype.type(neutral).tobytes():
            bits_of_it = int(to_bits(dtype, number)[0])
            other = trace.emit(Constant.of_bits(bits_of_it, Tensor(steps.shape, dtype)))
            numbers = trace.emit(kind(numbers, other))
    return numbers if numbers.type is type_ else trace.emit(graph.Reshape(numbers, type_))


def _stored(array: Array, dtype: DType) -> Array:
    """The elements, cast to the storage of a dtype."""
    if dtype is bf16:
        return round_to(dtype, array.astype(np.float64))
    return np.array(array, storage(dtype), order="C")


class _Steps(NamedTuple):
    """Numbers that are `i * step + start` along an axis, computed in their dtype."""

    shape: tuple[int, ...]
    axis: int
    start: Array
    step: Array


def _steps(x: Array, dtype: DType) -> _Steps | None:
    """How the elements go along an axis, or along all in row-major order, if they go evenly."""
    if dtype is bool_ or dtype is bf16:
        return None
    ways = [(x.shape, axis) for axis, size in enumerate(x.shape) if size > 1]
    if len(ways) > 1:
        ways.append(((x.size,), 0))
    for shape, axis in ways:
        seen = x.reshape(shape)
        line = seen[tuple([slice(None) if a == axis else 0 for a in range(len(shape))])]
        start, step = line[:1], np.subtract(line[1:2], line[:1])
        if step[0] == 0 or len(line) - 1 > _exact_up_to(dtype):
            continue
        # Three elements most often tell that they do not.
        if all(_goes_evenly(line[:count], start, step) for count in (3, len(line))):
            across = line.reshape([-1 if a == axis else 1 for a in range(len(shape))])
            if (to_bits(dtype, seen) == to_bits(dtype, across)).all():
                return _Steps(shape, axis, start, step)
    return None


def _goes_evenly(line: Array, start: Array, step: Array) -> bool:
    made = np.arange(len(line)).astype(line.dtype) * step + start
    return made.tobytes() == line.tobytes()


def _exact_up_to(dtype: DType) -> int:
    """Integers up to this are all values of a dtype."""
    return 2 << int(np.finfo(storage(dtype)).nmant) if dtype.is_float else dtype.high
