"""Replace arithmetic by fewer or cheaper ops that give equal bits."""

from __future__ import annotations

from math import frexp, ldexp

from iris.ir import math
from iris.ir.core import Value
from iris.ir.math import element_type
from iris.ir.rewriter import Rewriter
from iris.ir.types import DType, Kind, bf16, bool_, f16, f32
from iris.passes.generic.fold import is_number
from iris.passes.graph.simplify.rule_helpers import InsertBefore, dtype_of, rules

# The bits of a significand, and the least exponent of 2 that is not subnormal.
_PRECISION = {f32: 24, bf16: 8, f16: 11}
_LEAST_EXPONENT = {f32: -126, bf16: -126, f16: -14}


def _constant_like(number: float, like: Value, op: math.Binary, rewriter: Rewriter) -> Value:
    return InsertBefore(op, rewriter).insert(math.Constant(number, element_type(like.type)))


# Signs.


@rules(math.Add)
def add_negative(op: math.Add, rewriter: Rewriter) -> None:
    """`x + -y` is `x - y`."""
    for x, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        if isinstance(other.op, math.Neg):
            rewriter.replace(op, math.Sub(x, other.op.x))
            return


@rules(math.Sub)
def subtract_negative(op: math.Sub, rewriter: Rewriter) -> None:
    """`x - -y` is `x + y`."""
    if isinstance(op.rhs.op, math.Neg):
        rewriter.replace(op, math.Add(op.lhs, op.rhs.op.x))


@rules(math.Sub)
def subtract_from_zero(op: math.Sub, rewriter: Rewriter) -> None:
    """`0 - x` of integers, and `-0.0 - x`, are `-x`."""
    if is_number(op.lhs, -0.0 if dtype_of(op.lhs).is_float else 0):
        rewriter.replace(op, math.Neg(op.rhs))


@rules(math.Neg)
def negate_difference(op: math.Neg, rewriter: Rewriter) -> None:
    """`-(x - y)` of integers is `y - x`."""
    inner = op.x.op
    if isinstance(inner, math.Sub) and dtype_of(op.x).is_integer:
        rewriter.replace(op, math.Sub(inner.rhs, inner.lhs))


@rules(math.Mul)
def multiply_by_minus_one(op: math.Mul, rewriter: Rewriter) -> None:
    """`x * -1` is `-x`."""
    for x, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        dtype = dtype_of(other)
        if (dtype.is_float or dtype.is_signed) and is_number(other, -1):
            rewriter.replace(op, math.Neg(x))
            return


@rules(math.Mul, math.Div)
def ratio_or_product_of_negatives(op: math.Mul | math.Div, rewriter: Rewriter) -> None:
    """`-x * -y` is `x * y`, and so for quotients."""
    x, y = op.lhs.op, op.rhs.op
    if isinstance(x, math.Neg) and isinstance(y, math.Neg):
        rewriter.replace(op, type(op)(x.x, y.x))


@rules(math.Abs)
def abs_of_sign(op: math.Abs, rewriter: Rewriter) -> None:
    """`abs(-x)` is `abs(x)`, and `abs(x)` of an unsigned integer is `x`."""
    inner, dtype = op.x.op, dtype_of(op.x)
    if dtype.kind is Kind.UNSIGNED:
        rewriter.replace(op, op.x)
    elif isinstance(inner, math.Neg):
        rewriter.replace(op, math.Abs(inner.x))


@rules(math.Abs, math.Floor, math.Ceil, math.Round)
def abs_or_rounding_again(op: math.Unary, rewriter: Rewriter) -> None:
    """`abs(abs(x))` is `abs(x)`, and so for roundings to integers."""
    inner = op.x.op
    whole = isinstance(inner, _ROUNDING) and isinstance(op, _ROUNDING)
    if whole or (inner is not None and type(inner) is type(op)):
        rewriter.replace(op, op.x)


_ROUNDING = (math.Floor, math.Ceil, math.Round)


# Powers.


@rules(math.Div)
def divide_by_power_of_two(op: math.Div, rewriter: Rewriter) -> None:
    """`x / 8` is `x * 0.125`, which is exact."""
    if not isinstance(op.rhs.op, math.Constant):
        return
    number = float(op.rhs.op.value)
    significand, exponent = frexp(number)
    least = _LEAST_EXPONENT[dtype_of(op.rhs)]
    # The inverse of 2 ** (e - 1) is 2 ** (1 - e); neither may be subnormal or too great.
    if abs(significand) == 0.5 and least <= 1 - exponent <= -least:
        inverse = _constant_like(ldexp(significand * 2, 1 - exponent), op.rhs, op, rewriter)
        rewriter.replace(op, math.Mul(op.lhs, inverse))


@rules(math.Pow)
def pow_of_small_exponent(op: math.Pow, rewriter: Rewriter) -> None:
    """`x ** 2` is `x * x`, and `x ** 0` is 1 whatever x is."""
    if is_number(op.rhs, 2):
        rewriter.replace(op, math.Mul(op.lhs, op.lhs))
    elif is_number(op.rhs, 0) or is_number(op.rhs, -0.0):
        rewriter.replace(op, _constant_like(1, op.lhs, op, rewriter))


# Choices and casts.


@rules(math.Select)
def select_of_select(op: math.Select, rewriter: Rewriter) -> None:
    """Skip an inner select on the same condition."""
    values = []
    for value, position in ((op.on_true, 1), (op.on_false, 2)):
        inner = value.op
        again = isinstance(inner, math.Select) and inner.condition is op.condition
        values.append(inner.operands[position] if again and inner is not None else value)
    if values != [op.on_true, op.on_false]:
        rewriter.replace(op, math.Select(op.condition, *values))


@rules(math.Cast)
def cast_of_cast(op: math.Cast, rewriter: Rewriter) -> None:
    """Skip a cast to a dtype that represents every number of its source.

    Not from integers to floats and back: a float that does not fit the integer is an error, and an
    integer wraps.
    """
    inner = op.x.op
    if not isinstance(inner, math.Cast):
        return
    source, middle, target = dtype_of(inner.x), dtype_of(op.x), dtype_of(op.result)
    detour = source.is_integer and middle.is_float and target.is_integer
    if _represents(middle, source) and not detour:
        rewriter.replace(op, math.Cast(inner.x, op.result.type))


def _represents(dtype: DType, source: DType) -> bool:
    """Whether a dtype represents every number of another."""
    if source is dtype or source is bool_:
        return True
    if dtype.is_float:
        bits = _PRECISION.get(source, source.bits - source.is_signed)
        return bits <= _PRECISION[dtype] and (not source.is_float or dtype is f32)
    if source.is_float or dtype is bool_:
        return False
    return dtype.low <= source.low and source.high <= dtype.high
