"""The shared math on operands of every kind."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from iris.errors import DTypeError
from iris.frontend.arrays.array_values import (
    Operand,
    cast,
    common_dtype,
    dtype_of,
    emit,
    in_dtype,
    operand,
    over_shape,
    shape_of,
    spread,
    traced,
    unify,
    unify_floats,
)
from iris.frontend.arrays.dtypes import meeting
from iris.frontend.arrays.traced import TracedArray
from iris.frontend.tracing import error_here
from iris.frontend.values import broadcast_shapes
from iris.ir import math
from iris.ir.math import Predicate
from iris.ir.types import DType, bool_, f32, i8, u64

# Of bools these have another name.
_OF_BOOLS: dict[type[math.Binary], type[math.Binary]] = {
    math.Add: math.Or,
    math.Mul: math.And,
    math.Maximum: math.Or,
    math.Minimum: math.And,
    math.MaxNum: math.Or,
    math.MinNum: math.And,
}
# Of integers there is no nan.
_OF_INTEGERS: dict[type[math.Binary], type[math.Binary]] = {
    math.MaxNum: math.Maximum,
    math.MinNum: math.Minimum,
}
# NumPy makes them of bools as of its narrowest integers.
_NUMBERS_OF_BOOLS = (math.FloorDiv, math.Mod, math.Shl, math.Shr)


def binary(kind: type[math.Binary], a: Any, b: Any, dtype: DType | None = None) -> TracedArray:
    """An op of two operands, in the dtype in which they meet, or in another."""
    lhs, rhs = unify(a, b, dtype=dtype)
    if lhs.element is bool_:
        kind = _OF_BOOLS.get(kind, kind)
        if kind in _NUMBERS_OF_BOOLS and dtype is None:
            lhs, rhs = cast(lhs, i8), cast(rhs, i8)
    elif lhs.element.is_integer:
        kind = _OF_INTEGERS.get(kind, kind)
    _check(kind, lhs)
    return emit(kind(lhs.value, rhs.value), lhs.weak and rhs.weak)


def unary(kind: type[math.Unary], x: Any, dtype: DType | None = None) -> TracedArray:
    """An op of one operand; floats are made of integers where it needs them."""
    value = traced(x) if dtype is None else in_dtype(operand(x), dtype)
    if issubclass(kind, math.FloatUnary) and dtype is None:
        value = as_float(value)
    _check(kind, value)
    return emit(kind(value.value), value.weak)


def _check(kind: type[math.Unary | math.Binary], x: TracedArray) -> None:
    constraint = kind.spec.fixed[0].constraint
    if x.value.type not in constraint:
        instead = _INSTEAD.get(kind, "") if x.element is bool_ else ""
        raise error_here(
            DTypeError, f"{kind.name} is for {constraint.what}, not {x.element}{instead}"
        )


_INSTEAD: dict[type[math.Unary | math.Binary], str] = {
    math.Sub: "; the difference of bools is a ^ b",
    math.Neg: "; the negation of a bool is ~x",
}


def as_float(x: TracedArray) -> TracedArray:
    """The numbers as floats: integers as f32."""
    return x if x.element.is_float else cast(x, f32)


def truth(x: Any) -> TracedArray:
    """Where something is not 0."""
    value = traced(x)
    return value if value.element is bool_ else cast(value, bool_)


def divide(a: Any, b: Any, dtype: DType | None = None) -> TracedArray:
    """`/`: of integers, too, a float."""
    lhs, rhs = unify_floats(a, b, dtype=dtype)
    _check(math.Div, lhs)
    return emit(math.Div(lhs.value, rhs.value), lhs.weak and rhs.weak)


def select(condition: Any, on_true: Any, on_false: Any) -> TracedArray:
    """Element by element, one or the other."""
    chosen = truth(condition)
    a, b = unify(on_true, on_false)
    shape = broadcast_shapes(chosen.shape, a.shape)
    a, b, chosen = over_shape(a, shape), over_shape(b, shape), over_shape(chosen, shape)
    weak = a.weak and b.weak and chosen.weak
    return emit(math.Select(chosen.value, a.value, b.value), weak)


def bitcast(x: TracedArray, dtype: DType) -> TracedArray:
    """The same bits under another dtype of the same width."""
    return emit(math.Bitcast(x.value, math.element_type(x.value.type).with_element(dtype)))


# Comparisons, which are right for integers of any two dtypes.

_PYTHON: dict[Predicate, Callable[[Any, Any], bool]] = {
    predicate: getattr(operator, predicate.value) for predicate in Predicate
}


def compare(predicate: Predicate, a: Any, b: Any) -> TracedArray:
    """Whether a predicate holds, element by element."""
    lhs, rhs = _narrowed(operand(a), operand(b))
    if _beyond(lhs, rhs):
        return compare(predicate.swapped, rhs, lhs)
    if _beyond(rhs, lhs):
        # All elements are on one side of the number.
        return spread(_PYTHON[predicate](0, rhs), bool_, shape_of(lhs))
    dtype = _comparable(lhs, rhs)
    if dtype is u64 and any(_may_be_negative(x) for x in (lhs, rhs)):
        return _compare_with_u64(predicate, lhs, rhs)
    lhs, rhs = unify(lhs, rhs, dtype=dtype)
    return emit(math.Compare(predicate, lhs.value, rhs.value), lhs.weak and rhs.weak)


def _comparable(a: Operand, b: Operand) -> DType:
    """The dtype in which operands are compared; of integers it holds both, if there is one."""
    if not (dtype_of(a).is_integer and dtype_of(b).is_integer):
        return common_dtype([a, b])
    if isinstance(a, int) or isinstance(b, int):
        return dtype_of(b if isinstance(a, int) else a)
    return meeting([dtype_of(a), dtype_of(b)]) or u64


def _may_be_negative(x: Operand) -> bool:
    return not isinstance(x, int) and dtype_of(x).is_signed


def _narrowed(a: Operand, b: Operand) -> tuple[Operand, Operand]:
    """A concrete array of integers in the dtype of the traced one that it is compared with, where
    that holds them all: NumPy's own integers most often have more bits than they need."""
    if isinstance(a, np.ndarray) and isinstance(b, TracedArray):
        b, a = _narrowed(b, a)
    elif isinstance(b, np.ndarray) and isinstance(a, TracedArray):
        low, high = a.element.low, a.element.high
        integers = b.dtype.kind in "iu" and a.element.is_integer and b.size
        if integers and low <= b.min() and b.max() <= high:
            b = b.astype(a.dtype)
    return a, b


def _beyond(number: Operand, other: Operand) -> bool:
    """Whether an integer is outside of the range of what it is compared with."""
    if isinstance(number, bool) or not isinstance(number, int) or isinstance(other, int):
        return False
    dtype = dtype_of(other)
    return dtype.is_integer and not dtype.low <= number <= dtype.high


def _compare_with_u64(predicate: Predicate, a: Operand, b: Operand) -> TracedArray:
    """Signed integers and u64, for which there are no wider integers."""
    if _may_be_negative(b):
        return _compare_with_u64(predicate.swapped, b, a)
    lhs, rhs = unify(cast(traced(a), u64), b, dtype=u64)  # of negative numbers it does not matter
    found = emit(math.Compare(predicate, lhs.value, rhs.value))
    negative = over_shape(compare(Predicate.LT, a, 0), found.shape)
    if _PYTHON[predicate](-1, 0):
        return binary(math.Or, negative, found)
    return binary(math.And, unary(math.Not, negative), found)
