"""Operands of every kind, brought to one dtype and one shape.

An operand is a traced array, a number of Python, or a concrete array.  Numbers are weak: they take
the dtype of what they meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from iris.errors import DTypeError, LanguageError, ScopeError, ShapeError
from iris.frontend.arrays.constants import constant, constant_array
from iris.frontend.arrays.dtypes import as_dtype, meeting, nearest_dtype
from iris.frontend.arrays.trace import current
from iris.frontend.arrays.traced import TracedArray
from iris.frontend.arrays.weak_scalars import may_overflow
from iris.frontend.plain import check_plain
from iris.frontend.tracing import error_here, rules_as
from iris.frontend.values import broadcast_shapes, promote, strong_dtype
from iris.ir import graph, math
from iris.ir.core import Op
from iris.ir.math import Constant
from iris.ir.types import DType, Tensor, bool_, f32

Array = npt.NDArray[Any]
Number: TypeAlias = "bool | int | float"
Operand: TypeAlias = "TracedArray | bool | int | float | Array"


def emit(op: Op, weak: bool = False) -> TracedArray:
    """Put an op in place and stand for its result."""
    trace = current()
    return TracedArray(trace.emit(op), trace, weak)


def view(x: TracedArray, op: Op) -> TracedArray:
    """Put an op in place that gives elements of an array in its own memory, as NumPy does."""
    return x.seen(current().emit(op))


def operand(x: Any) -> Operand:
    """What can be computed with."""
    if isinstance(x, TracedArray):
        if x.owner is not current():
            raise error_here(
                ScopeError,
                f"{x} was traced in another call of {x.owner.function.symbol} or another function, "
                "so it has no value here; pass it as an argument, or return it",
            )
        return x
    if isinstance(x, (bool, int)):
        return x
    if isinstance(x, float):
        return float(x)  # NumPy's own scalars of 64 bits are numbers of Python, too
    array = np.asanyarray(x)
    check_plain("what is computed with", array, LanguageError)
    array = np.asarray(array)
    if array.dtype.kind in "OUSMmV" and array.dtype.name != "bfloat16":
        raise error_here(DTypeError, f"a {type(x).__name__} cannot be computed with here")
    return float(array) if array.dtype == np.float64 and not array.shape else array


def dtype_of(x: Operand) -> DType:
    """The dtype of an operand on its own."""
    if isinstance(x, TracedArray):
        return x.element
    return nearest_dtype(x.dtype) if isinstance(x, np.ndarray) else strong_dtype(x)


def shape_of(x: Operand) -> tuple[int, ...]:
    return x.shape if isinstance(x, (TracedArray, np.ndarray)) else ()


def is_weak(x: Operand) -> bool:
    return x.weak if isinstance(x, TracedArray) else not isinstance(x, np.ndarray)


def common_dtype(operands: Sequence[Operand]) -> DType:
    """The dtype in which operands meet."""
    strong = [dtype_of(x) for x in operands if not is_weak(x)]
    found = meeting(strong) if strong else dtype_of(operands[0])
    if found is None:
        signed = next(dtype for dtype in strong if dtype.is_signed)
        raise error_here(
            DTypeError,
            f"{signed} and u64 meet in no dtype that GPUs have, and f32 would not hold them: "
            "convert one of them with astype, to np.int64, np.uint64 or np.float32",
        )
    for x in operands:
        if is_weak(x):
            found = (_with_weak if strong else promote)(found, dtype_of(x))
    return found


def asked_dtype(dtype: Any, operands: Sequence[Operand], casting: Any = "same_kind") -> DType:
    """The dtype that a call asks for, into which its operands go as NumPy lets them."""
    asked = as_dtype(dtype)
    if casting == "unsafe":
        return asked
    if casting != "same_kind":
        raise error_here(LanguageError, f"casting={casting!r} is not supported for traced arrays")
    for x in operands:
        own = dtype_of(x)
        weak_integer = is_weak(x) and own.is_integer and asked.is_integer
        if _kind_order(own) > _kind_order(asked) and not weak_integer:
            raise error_here(
                DTypeError, f"{own} does not go into {asked} by itself; use astype first"
            )
    return asked


def _kind_order(dtype: DType) -> int:
    """A dtype is cast to one of a later kind, and not back, if nobody asks for it."""
    return 3 if dtype.is_float else 2 if dtype.is_signed else int(dtype is not bool_)


def _with_weak(found: DType, own: DType) -> DType:
    """The dtype in which arrays meet a number that would have a dtype on its own."""
    if own is bool_:
        return found
    if own.is_float:
        return found if found.is_float else f32
    return own if found is bool_ else found


def in_dtype(x: Operand, dtype: DType) -> TracedArray:
    """An operand cast to a dtype."""
    return spread(x, dtype, shape_of(x))


def traced(x: Any) -> TracedArray:
    """Anything that can be computed with, as a traced array of its own dtype."""
    x = operand(x)
    return x if isinstance(x, TracedArray) else in_dtype(x, dtype_of(x))


def strong(x: Any) -> Operand:
    """An operand where NumPy makes an array of a Python number, which does not give way."""
    if isinstance(x, TracedArray) and x.weak:
        return TracedArray(x.value, x.owner)
    return operand(np.asarray(x) if isinstance(x, (int, float)) else x)


def cast(x: TracedArray, dtype: DType) -> TracedArray:
    """The same numbers in another dtype."""
    if x.element is dtype:
        return x
    return emit(math.Cast(x.value, Tensor(x.shape, dtype)), x.weak)


def unify(*operands: Any, dtype: DType | None = None) -> list[TracedArray]:
    """Operands in one dtype and over one shape."""
    known = [operand(x) for x in operands]
    if dtype is None:
        dtype = common_dtype(known)
    shape = broadcast_shapes(*map(shape_of, known))
    return [spread(x, dtype, shape) for x in known]


def unify_floats(*operands: Any, dtype: DType | None = None) -> list[TracedArray]:
    """Operands in one dtype of floats and over one shape; integers become f32 one by one where
    there is no other float."""
    known = [operand(x) for x in operands]
    if dtype is None and any(dtype_of(x).is_float for x in known):
        dtype = common_dtype(known)
    return unify(*known, dtype=f32 if dtype is None else dtype)


def spread(x: Operand, dtype: DType, shape: tuple[int, ...]) -> TracedArray:
    """An operand of a dtype, over a shape, as in NumPy."""
    if isinstance(x, np.ndarray):
        trace = current()
        return over_shape(TracedArray(constant_array(x, dtype), trace), shape)
    if isinstance(x, TracedArray):
        if x.weak and may_overflow(x.element, dtype):
            current().narrow(x.value, dtype)
        return over_shape(cast(x, dtype), shape)
    return TracedArray(constant(x, dtype, shape), current(), weak=not shape)


def over_shape(x: TracedArray, shape: tuple[int, ...]) -> TracedArray:
    """A traced array over a shape, as in NumPy."""
    if x.shape == shape:
        return x
    if broadcast_shapes(x.shape, shape) != shape:
        raise error_here(ShapeError, f"{x} cannot be broadcast to the shape {shape}")
    with rules_as(ShapeError):
        type_ = Tensor(shape, x.element)
    if isinstance(x.value.op, Constant):
        return emit(Constant.of_bits(x.value.op.bits, type_))
    x = reshaped(x, (1,) * (len(shape) - x.ndim) + x.shape)
    return x if x.shape == shape else view(x, graph.Broadcast(x.value, type_))


def reshaped(x: TracedArray, shape: tuple[int, ...]) -> TracedArray:
    """The same elements, in another shape with as many."""
    if x.shape == shape:
        return x
    return view(x, graph.Reshape(x.value, Tensor(shape, x.element)))
