"""NumPy's ufuncs that are one shared op, or choices and comparisons of a few; those that take a
formula are in special.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from iris.errors import DTypeError, ExponentError
from iris.frontend.arrays.array_elementwise import (
    as_float,
    binary,
    bitcast,
    compare,
    divide,
    select,
    truth,
    unary,
)
from iris.frontend.arrays.array_values import (
    asked_dtype,
    cast,
    common_dtype,
    in_dtype,
    operand,
    spread,
    traced,
    unify,
    unify_floats,
)
from iris.frontend.arrays.protocol import ufunc
from iris.frontend.arrays.traced import TracedArray
from iris.frontend.tracing import error_here
from iris.ir import math
from iris.ir.math import Predicate
from iris.ir.types import DType, bool_, f32, i8, i16, i32

_BINARY: dict[str, type[math.Binary]] = {
    "add": math.Add,
    "subtract": math.Sub,
    "multiply": math.Mul,
    "floor_divide": math.FloorDiv,
    "remainder": math.Mod,
    "maximum": math.Maximum,
    "minimum": math.Minimum,
    "fmax": math.MaxNum,
    "fmin": math.MinNum,
    "bitwise_and": math.And,
    "bitwise_or": math.Or,
    "bitwise_xor": math.Xor,
}
_UNARY: dict[str, type[math.Unary]] = {
    "negative": math.Neg,
    "invert": math.Not,
    "exp": math.Exp,
    "exp2": math.Exp2,
    "log": math.Log,
    "log2": math.Log2,
    "sqrt": math.Sqrt,
    "sin": math.Sin,
    "cos": math.Cos,
    "tanh": math.Tanh,
    "rint": math.Round,
}
_COMPARE = {
    "equal": Predicate.EQ,
    "not_equal": Predicate.NE,
    "less": Predicate.LT,
    "less_equal": Predicate.LE,
    "greater": Predicate.GT,
    "greater_equal": Predicate.GE,
}
_LOGICAL: dict[str, type[math.Binary]] = {
    "logical_and": math.And,
    "logical_or": math.Or,
    "logical_xor": math.Xor,
}


def _given(dtype: Any, *operands: Any) -> DType | None:
    return None if dtype is None else asked_dtype(dtype, [operand(x) for x in operands])


def _register(table: dict[str, Any], make: Callable[[Any], Callable[..., TracedArray]]) -> None:
    for name, kind in table.items():
        ufunc(name)(make(kind))


_register(
    _BINARY, lambda kind: lambda a, b, dtype=None: binary(kind, a, b, dtype=_given(dtype, a, b))
)
_register(_UNARY, lambda kind: lambda x, dtype=None: unary(kind, x, dtype=_given(dtype, x)))
_register(_COMPARE, lambda predicate: lambda x1, x2: compare(predicate, x1, x2))
_register(_LOGICAL, lambda kind: lambda x1, x2: binary(kind, truth(x1), truth(x2)))


# Arithmetic.


@ufunc("divide")
def true_divide(x1: Any, x2: Any, dtype: Any = None) -> TracedArray:
    return divide(x1, x2, dtype=_given(dtype, x1, x2))


@ufunc("divmod")
def divmod(x1: Any, x2: Any) -> tuple[TracedArray, TracedArray]:
    return binary(math.FloorDiv, x1, x2), binary(math.Mod, x1, x2)


@ufunc("fmod")
def fmod(x1: Any, x2: Any) -> TracedArray:
    """The remainder with the sign of `x1`; of floats it is exact."""
    a, b = unify(x1, x2)
    if a.element.is_float:
        return copysign(binary(math.Mod, unary(math.Abs, a), unary(math.Abs, b)), a)
    found = binary(math.Mod, a, b)
    wrong = logical_and(
        compare(Predicate.NE, found, 0), compare(Predicate.LT, binary(math.Xor, a, b), 0)
    )
    return select(wrong, binary(math.Sub, found, b), found)


@ufunc("positive")
def positive(x: Any) -> TracedArray:
    value = traced(x)
    if value.element is bool_:
        raise error_here(DTypeError, "np.positive is for numbers, not bool")
    return value.copied()


@ufunc("conjugate")
def conjugate(x: Any) -> TracedArray:
    return _number(traced(x))


def _number(x: TracedArray) -> TracedArray:
    """Bools as NumPy's narrowest integers."""
    return cast(x, i8) if x.element is bool_ else x


@ufunc("absolute")
def absolute(x: Any) -> TracedArray:
    value = traced(x)
    return value if value.element is bool_ else unary(math.Abs, value)


@ufunc("fabs")
def fabs(x: Any) -> TracedArray:
    return unary(math.Abs, as_float(traced(x)))


@ufunc("square")
def square(x: Any) -> TracedArray:
    value = _number(traced(x))
    return binary(math.Mul, value, value)


@ufunc("reciprocal")
def reciprocal(x: Any) -> TracedArray:
    value = traced(x)
    if not value.element.is_float:
        raise error_here(
            DTypeError, "np.reciprocal of integers is an integer, most often 0; write 1 / x"
        )
    return divide(1.0, value)


@ufunc("sign")
def sign(x: Any) -> TracedArray:
    value = traced(x)
    if value.element is bool_:
        raise error_here(DTypeError, "np.sign is for numbers, not bool")
    above, below = compare(Predicate.GT, value, 0), compare(Predicate.LT, value, 0)
    if not value.element.is_float:
        return binary(math.Sub, cast(above, value.element), cast(below, value.element))
    # A nan is its own sign.
    other = select(compare(Predicate.EQ, value, 0), 0, value)
    return select(above, 1, select(below, -1, other))


@ufunc("copysign")
def copysign(x1: Any, x2: Any) -> TracedArray:
    size, other = unify_floats(x1, x2)
    size = unary(math.Abs, size)
    return select(signbit(other), unary(math.Neg, size), size)


@ufunc("heaviside")
def heaviside(x1: Any, x2: Any) -> TracedArray:
    x, at_zero = unify_floats(x1, x2)
    beside = select(isnan(x), x, cast(compare(Predicate.GT, x, 0), x.element))
    return select(compare(Predicate.EQ, x, 0), at_zero, beside)


# Powers.


@ufunc("power")
def power(x1: Any, x2: Any, dtype: Any = None) -> TracedArray:
    base, exponent = operand(x1), operand(x2)
    meeting = _given(dtype, base, exponent) or common_dtype([base, exponent])
    if isinstance(exponent, (bool, int, float)) and (
        exponent in (0, 1, 2, 3, 4) or (meeting.is_integer and exponent >= 0)
    ):
        return _whole_power(in_dtype(base, meeting), int(exponent))
    if meeting.is_float and isinstance(exponent, float) and exponent == 0.5:
        return unary(math.Sqrt, base, dtype=meeting)
    if meeting.is_float and isinstance(exponent, (int, float)) and exponent == -1:
        return divide(1.0, base, dtype=meeting)
    if not meeting.is_float:
        raise error_here(
            ExponentError,
            f"{meeting} ** {meeting} needs an exponent that is known while tracing, and not "
            "negative; x.astype(np.float32) ** y computes with floats",
        )
    return binary(math.Pow, base, exponent, dtype=meeting)


def _whole_power(x: TracedArray, exponent: int) -> TracedArray:
    """Multiplied with itself, by squares."""
    x = _number(x)
    found: TracedArray | None = None
    while exponent:
        if exponent & 1:
            found = x if found is None else binary(math.Mul, found, x)
        exponent >>= 1
        if exponent:
            x = binary(math.Mul, x, x)
    return spread(1, x.element, x.shape) if found is None else found


@ufunc("float_power")
def float_power(x1: Any, x2: Any) -> TracedArray:
    base, exponent = unify(x1, x2, dtype=f32)
    return binary(math.Pow, base, exponent)


# Bits.


def _shift(kind: type[math.Binary]) -> Callable[..., TracedArray]:
    """By the width or more, and by negative numbers, all bits are shifted out, as in NumPy."""

    def shifted(x1: Any, x2: Any, dtype: Any = None) -> TracedArray:
        asked, by = _given(dtype, x1, x2), operand(x2)
        x, amount = unify(x1, by, dtype=asked)
        width = x.element.bits
        known = not isinstance(by, TracedArray) and np.all((np.asarray(by) >= 0) & (by < width))
        if known or not x.element.is_integer:
            return binary(kind, x1, by, dtype=asked)
        fits = logical_and(compare(Predicate.GE, amount, 0), compare(Predicate.LT, amount, width))
        rest = binary(math.Shr, x, width - 1) if kind is math.Shr and x.element.is_signed else 0
        return select(fits, binary(kind, x, select(fits, amount, 0)), rest)

    return shifted


left_shift = ufunc("left_shift")(_shift(math.Shl))
right_shift = ufunc("right_shift")(_shift(math.Shr))


# Truth, and kinds of numbers.


@ufunc("logical_not")
def logical_not(x: Any) -> TracedArray:
    return unary(math.Not, truth(x))


def logical_and(a: Any, b: Any) -> TracedArray:
    return binary(math.And, truth(a), truth(b))


def _of_floats(
    of_others: bool, test: Callable[[TracedArray], TracedArray]
) -> Callable[[Any], TracedArray]:
    """A test of floats, which has one answer for all other numbers."""

    def tested(x: Any) -> TracedArray:
        value = traced(x)
        return test(value) if value.element.is_float else spread(of_others, bool_, value.shape)

    return tested


isnan = ufunc("isnan")(_of_floats(False, lambda x: compare(Predicate.NE, x, x)))
isinf = ufunc("isinf")(
    _of_floats(False, lambda x: compare(Predicate.EQ, unary(math.Abs, x), float("inf")))
)
isfinite = ufunc("isfinite")(
    _of_floats(True, lambda x: compare(Predicate.LT, unary(math.Abs, x), float("inf")))
)


@ufunc("signbit")
def signbit(x: Any) -> TracedArray:
    """Whether the sign is set, of -0 and of a nan, too."""
    value = traced(x)
    if value.element.is_float:
        value = bitcast(value, i32 if value.element is f32 else i16)
    if not value.element.is_signed:
        return spread(False, bool_, value.shape)
    return compare(Predicate.LT, value, 0)


# Whole numbers.


def _rounding(kind: type[math.FloatUnary]) -> Callable[[Any], TracedArray]:
    def rounded(x: Any) -> TracedArray:
        value = traced(x)
        return unary(kind, value) if value.element.is_float else value

    return rounded


floor = ufunc("floor")(_rounding(math.Floor))
ceil = ufunc("ceil")(_rounding(math.Ceil))


@ufunc("trunc")
def trunc(x: Any) -> TracedArray:
    value = traced(x)
    if not value.element.is_float:
        return value
    return select(compare(Predicate.LT, value, 0), ceil(value), floor(value))


@ufunc("modf")
def modf(x: Any) -> tuple[TracedArray, TracedArray]:
    value = as_float(traced(x))
    whole = trunc(value)
    rest = select(isinf(value), 0, binary(math.Sub, value, whole))
    return copysign(rest, value), whole
