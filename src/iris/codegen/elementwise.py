"""The shared math, op by op."""

from __future__ import annotations

from iris.codegen.expression import Expression, Precedence
from iris.codegen.helpers import helper
from iris.codegen.operators import (
    binary,
    call,
    cast_to,
    dtype_of,
    logical_not,
    prefix,
    ternary,
)
from iris.codegen.writer import Writer, emit
from iris.ir import math
from iris.ir.core import Op, Value
from iris.ir.math import Predicate
from iris.ir.types import DType, bf16, bool_, f32

_COMPARE = {
    Predicate.EQ: "==",
    Predicate.NE: "!=",
    Predicate.LT: "<",
    Predicate.LE: "<=",
    Predicate.GT: ">",
    Predicate.GE: ">=",
}
# The same of bools: an operator, and whether the left of its operands is negated, or the right.
_ORDER = {
    Predicate.LT: ("&", True),
    Predicate.LE: ("|", True),
    Predicate.GT: ("&", False),
    Predicate.GE: ("|", False),
}


@emit(math.Constant)
def _constant(w: Writer, op: math.Constant) -> None:
    text, type_, precedence = w.language.literal(op.bits, op.dtype)
    w.expressions[op.result] = Expression(text, precedence, type_)


@emit(math.AssumeDivisible)
def _assume_divisible(w: Writer, op: math.AssumeDivisible) -> None:
    # Whoever needs it may be in another block than the first who does.
    w.expressions[op.result] = w.simple(op.x)


# Arithmetic.


@emit(math.Add)
def _add(w: Writer, op: math.Add) -> Expression:
    value = _negative(op.rhs)
    if value is not None and w.ranges.of(op.rhs) == (value, value):
        return _sum(w, op, "-", -value)
    return _arithmetic(w, op, "+")


def _negative(value: Value) -> int | None:
    """The number, if it is a negative constant that can be negated."""
    if not isinstance(value.op, math.Constant) or not value.op.dtype.is_signed:
        return None
    number = int(value.op.value)
    return number if value.op.dtype.low < number < 0 else None


@emit(math.Sub)
def _sub(w: Writer, op: math.Sub) -> Expression:
    return _arithmetic(w, op, "-")


@emit(math.Mul)
def _mul(w: Writer, op: math.Mul) -> Expression:
    return _arithmetic(w, op, "*")


@emit(math.Div)
def _div(w: Writer, op: math.Div) -> Expression:
    return _arithmetic(w, op, "/")


def _arithmetic(w: Writer, op: math.Binary, operator: str) -> Expression:
    if not dtype_of(op.lhs).is_float:
        return _integer(w, op, operator, w.value(op.lhs), w.value(op.rhs))
    a, b = w.typed(op.lhs), w.typed(op.rhs)
    return binary(a, operator, b, a.type)


def _sum(w: Writer, op: math.Binary, operator: str, number: int) -> Expression:
    """`x - 4` for `x + -4`."""
    dtype = dtype_of(op.lhs)
    text, type_, precedence = w.language.literal(number, dtype)
    return _integer(w, op, operator, w.value(op.lhs), Expression(text, precedence, type_))


def _integer(w: Writer, op: Op, operator: str, a: Expression, b: Expression) -> Expression:
    dtype = dtype_of(op.results[0])
    type_ = w.language.types[dtype]
    fits = w.ranges.fits(op)
    if (
        operator == "+"
        and b.precedence == Precedence.ADDITIVE
        and b.sides
        and (not w.ranges.known(op) or _is_natural_sum(w, op))
    ):
        # What wraps, what makes addresses and what is not negative may be added in any order.
        b = b._replace(precedence=Precedence.MULTIPLICATIVE)
    if dtype.is_signed and not fits and (dtype.bits >= 32 or max(a.lanes, b.lanes) > 1):
        return _modular(w, operator, a, b, w.language.unsigned[type_])
    a, b = _plain(w, a, dtype), _plain(w, b, dtype)
    if a.lanes != b.lanes or a.lanes > 1:
        # Vectors have the arithmetic of their type; scalars are promoted first.
        a, b = cast_to(w, a, type_), cast_to(w, b, type_)
        return binary(a, operator, b, type_)
    if dtype.bits >= 32:
        return binary(a, operator, b, type_)
    if operator == "*" and type_ == "ushort" and not fits:
        return binary(cast_to(w, a, "uint"), operator, b, "uint", wraps=True)
    return binary(a, operator, b, "int", wraps=not fits)


def _is_natural_sum(w: Writer, op: Op) -> bool:
    """Whether it is a sum of sums of which no part is negative."""
    inner = op.operands[1].op
    return isinstance(inner, math.Add) and w.ranges.is_natural(*op.operands, *inner.operands)


def _modular(w: Writer, operator: str, a: Expression, b: Expression, unsigned: str) -> Expression:
    """Signed arithmetic that may wrap.  One unsigned operand makes it all unsigned."""
    if a.lanes > 1 or b.lanes > 1:
        a, b = cast_to(w, a, unsigned), cast_to(w, b, unsigned)
    elif unsigned not in (a.type, b.type):
        if a.text.isdecimal() or not b.text.isdecimal():
            a = cast_to(w, a, unsigned)
        else:
            b = cast_to(w, b, unsigned)
    return binary(a, operator, b, unsigned, wraps=True)


def _plain(w: Writer, x: Expression, dtype: DType) -> Expression:
    """The expression as a number, of a type that arithmetic takes to be one of the dtype."""
    return w.cast(x, dtype) if x.wraps else x


@emit(math.Neg)
def _neg(w: Writer, op: math.Neg) -> Expression:
    dtype = dtype_of(op.x)
    type_ = w.language.types[dtype]
    if dtype.is_float:
        return prefix("-", w.typed(op.x), type_)
    x = w.value(op.x)
    if w.ranges.fits(op):
        return prefix("-", _plain(w, x, dtype), type_ if dtype.bits >= 32 else "int")
    if x.lanes > 1 or dtype.bits >= 32:
        unsigned = w.language.unsigned.get(type_, type_)
        return prefix("-", cast_to(w, x, unsigned), unsigned, wraps=dtype.is_signed)
    return prefix("-", _plain(w, x, dtype), "int", wraps=True)


@emit(math.Abs)
def _abs(w: Writer, op: math.Abs) -> Expression:
    dtype = dtype_of(op.x)
    x = w.typed(op.x)
    if dtype.is_float:
        if dtype is bf16:
            return _rounded(w, dtype, call("abs", _wide(w, x), type_="float"))
        return call("abs", x, type_=x.type)
    if not dtype.is_signed:
        return x
    if w.ranges.of(op.x)[0] > dtype.low:
        return call("abs", x, type_=x.type)
    # Of the least integer `abs` is undefined; the distance from 0 is unsigned.
    zero = w.cast(Expression("0", Precedence.POSTFIX, "int"), dtype, x.lanes)
    if x.type == "int" and x.lanes == 1:
        zero = Expression("0", Precedence.POSTFIX, "int")
    return call("absdiff", x, zero, type_=w.language.unsigned[x.type])._replace(wraps=True)


@emit(math.FloorDiv)
def _floor_divide(w: Writer, op: math.FloorDiv) -> Expression:
    dtype = dtype_of(op.lhs)
    if dtype.is_float:
        return _in_float(w, op, "float_floor_divide")
    shift = _power_of_two(op.rhs)
    if shift == 0:
        return w.value(op.lhs)
    if shift is not None:
        amount = Expression(str(shift), Precedence.POSTFIX, "int")
        return _shifted(w, op, ">>", w.number(op.lhs), amount)
    return _divided(w, op, "/", "floor_divide")


@emit(math.Mod)
def _modulo(w: Writer, op: math.Mod) -> Expression:
    dtype = dtype_of(op.lhs)
    if dtype.is_float:
        return _in_float(w, op, "float_floor_modulo")
    shift = _power_of_two(op.rhs)
    if shift is not None:
        text, type_, precedence = w.language.literal((1 << shift) - 1, dtype)
        return _bitwise(w, op, "&", w.value(op.lhs), Expression(text, precedence, type_))
    return _divided(w, op, "%", "floor_modulo")


def _power_of_two(value: Value) -> int | None:
    """The exponent, if the value is a constant power of two."""
    if not isinstance(value.op, math.Constant):
        return None
    number = int(value.op.value)
    return number.bit_length() - 1 if number > 0 and number & (number - 1) == 0 else None


def _divided(w: Writer, op: math.Binary, operator: str, function: str) -> Expression:
    dtype = dtype_of(op.lhs)
    if dtype.is_signed and not w.ranges.is_natural(op.lhs, op.rhs):
        a, b = w.together(op.lhs, op.rhs)
        return helper(w, function, dtype, a, b)
    a, b = w.number(op.lhs), w.number(op.rhs)
    if a.lanes > 1 or b.lanes > 1:
        a, b = w.typed(op.lhs), w.typed(op.rhs)
    type_ = w.language.types[dtype] if dtype.bits >= 32 or a.lanes > 1 else "int"
    return binary(a, operator, b, type_)


def _in_float(w: Writer, op: math.Binary, function: str) -> Expression:
    dtype = dtype_of(op.lhs)
    a, b = (_wide(w, x) for x in w.together(op.lhs, op.rhs))
    return _rounded(w, dtype, helper(w, function, f32, a, b))


def _wide(w: Writer, x: Expression) -> Expression:
    return cast_to(w, x, w.language.types[f32])


def _rounded(w: Writer, dtype: DType, x: Expression) -> Expression:
    return cast_to(w, x, w.language.types[dtype])


# Extrema.


@emit(math.MaxNum, math.MinNum, math.Maximum, math.Minimum)
def _extremum(w: Writer, op: math.Binary) -> Expression:
    dtype = dtype_of(op.lhs)
    a, b = w.together(op.lhs, op.rhs)
    greater = isinstance(op, (math.MaxNum, math.Maximum))
    if not dtype.is_float:
        return call("max" if greater else "min", a, b, type_=a.type)
    plain = "fmax" if greater else "fmin"
    drops_nan = isinstance(op, (math.MaxNum, math.MinNum))
    if drops_nan and (w.fast or _is_no_zero(op.lhs) or _is_no_zero(op.rhs)):
        if dtype is bf16:
            return _rounded(w, dtype, call(plain, _wide(w, a), _wide(w, b), type_="float"))
        return call(plain, a, b, type_=a.type)
    return helper(w, f"fast_{op.name}" if w.fast else op.name, dtype, a, b)


def _is_no_zero(value: Value) -> bool:
    """Whether it is a constant other than zero: only of two zeros may `fmax` take either."""
    return isinstance(value.op, math.Constant) and value.op.value != 0


# Functions.


@emit(math.Transcendental, math.Sqrt)
def _function(w: Writer, op: Op) -> Expression:
    dtype = dtype_of(op.operands[0])
    operands = [_wide(w, x) for x in w.together(*op.operands)]
    found = w.language.intrinsics[type(op)]
    name = found.fast if w.fast else found.name
    return _rounded(w, dtype, call(name, *operands, type_="float"))


@emit(math.Floor, math.Ceil, math.Round)
def _to_integer(w: Writer, op: math.FloatUnary) -> Expression:
    dtype = dtype_of(op.x)
    x = w.typed(op.x)
    name = w.language.intrinsics[type(op)].name
    if dtype is bf16:
        return _rounded(w, dtype, call(name, _wide(w, x), type_="float"))
    return call(name, x, type_=x.type)


@emit(math.Erf)
def _erf(w: Writer, op: math.Erf) -> Expression:
    return _rounded(w, dtype_of(op.x), helper(w, "erf", f32, _wide(w, w.typed(op.x))))


@emit(math.Sigmoid)
def _sigmoid(w: Writer, op: math.Sigmoid) -> Expression:
    # exp may overflow to inf, of which this is the right 0.
    x = _wide(w, w.typed(op.x))
    found = w.language.intrinsics[math.Exp]
    name = found.fast if w.fast else found.name
    one = Expression("1.0f", Precedence.POSTFIX, "float")
    below = binary(one, "+", call(name, prefix("-", x, "float"), type_="float"), "float")
    return _rounded(w, dtype_of(op.x), binary(one, "/", below, "float"))


@emit(math.Fma)
def _fma(w: Writer, op: math.Fma) -> Expression:
    dtype = dtype_of(op.a)
    operands = w.together(*op.operands)
    if dtype is bf16:
        # In float the sum would be rounded, and then once more.
        return helper(w, "fma_bfloat", dtype, *operands)
    return call("fma", *operands, type_=operands[0].type)


# Bits.


@emit(math.And)
def _and(w: Writer, op: math.And) -> Expression:
    return _logic(w, op, "&", "&&")


@emit(math.Or)
def _or(w: Writer, op: math.Or) -> Expression:
    return _logic(w, op, "|", "||")


@emit(math.Xor)
def _xor(w: Writer, op: math.Xor) -> Expression:
    return _logic(w, op, "^", "!=")


def _logic(w: Writer, op: math.Binary, bits: str, logical: str) -> Expression:
    if dtype_of(op.lhs) is not bool_:
        return _bitwise(w, op, bits, w.value(op.lhs), w.value(op.rhs))
    a, b = w.value(op.lhs), w.arm(op.rhs)
    operator = logical if max(a.lanes, b.lanes) == 1 or logical == "!=" else bits
    return binary(a, operator, b, a.type)


def _bitwise(w: Writer, op: Op, operator: str, a: Expression, b: Expression) -> Expression:
    dtype = dtype_of(op.results[0])
    type_ = w.language.types[dtype]
    if a.lanes > 1 or b.lanes > 1:
        a, b = cast_to(w, a, type_), cast_to(w, b, type_)
        return binary(a, operator, b, type_)
    wraps = a.wraps or b.wraps
    if dtype.bits < 32:
        return binary(a, operator, b, "int", wraps=wraps)
    if wraps:
        return binary(a, operator, b, w.language.unsigned[type_], wraps=True)
    return binary(a, operator, b, type_)


@emit(math.Not)
def _not(w: Writer, op: math.Not) -> Expression:
    dtype = dtype_of(op.x)
    x = w.value(op.x)
    if dtype is bool_:
        return logical_not(x)
    if x.lanes > 1:
        x = w.typed(op.x)
        return prefix("~", x, x.type)
    if dtype.bits < 32:
        return prefix("~", x, "int", wraps=x.wraps or not dtype.is_signed)
    return prefix("~", x, x.type if x.wraps else w.language.types[dtype], wraps=x.wraps)


@emit(math.Shl)
def _shl(w: Writer, op: math.Shl) -> Expression:
    dtype = dtype_of(op.lhs)
    x, amount = w.value(op.lhs), w.number(op.rhs)
    if not dtype.is_signed or w.ranges.fits(op):
        return _shifted(w, op, "<<", _plain(w, x, dtype), amount, wraps=not w.ranges.fits(op))
    # A signed number must not lose bits.
    unsigned = w.language.unsigned[w.language.types[dtype]]
    if x.lanes > 1 or amount.lanes > 1:
        x, amount = cast_to(w, x, unsigned), cast_to(w, amount, unsigned)
    elif dtype.bits < 32:
        return binary(cast_to(w, x, "uint"), "<<", amount, "uint", wraps=True)
    return binary(cast_to(w, x, unsigned), "<<", amount, unsigned, wraps=True)


@emit(math.Shr)
def _shr(w: Writer, op: math.Shr) -> Expression:
    return _shifted(w, op, ">>", w.number(op.lhs), w.number(op.rhs))


def _shifted(
    w: Writer, op: Op, operator: str, x: Expression, amount: Expression, wraps: bool = False
) -> Expression:
    dtype = dtype_of(op.results[0])
    type_ = w.language.types[dtype]
    if x.lanes > 1 or amount.lanes > 1:
        x, amount = cast_to(w, x, type_), cast_to(w, amount, type_)
        return binary(x, operator, amount, type_)
    if dtype.bits < 32:
        return binary(x, operator, amount, "int", wraps=wraps)
    return binary(x, operator, amount, type_)


# Choosing and converting.


@emit(math.Compare)
def _compare(w: Writer, op: math.Compare) -> Expression:
    a, b = w.number(op.lhs), w.number(op.rhs)
    if max(a.lanes, b.lanes) > 1:
        a, b = w.typed(op.lhs), w.typed(op.rhs)
        if dtype_of(op.lhs) is bool_ and op.predicate in _ORDER:
            # Vectors of bools have no order, only logic.
            operator, is_left = _ORDER[op.predicate]
            a, b = (logical_not(a), b) if is_left else (a, logical_not(b))
            return binary(a, operator, b, a.type)
    return binary(a, _COMPARE[op.predicate], b, w.language.types[bool_])


@emit(math.Select)
def _select(w: Writer, op: math.Select) -> Expression:
    condition = w.value(op.condition)
    lanes = max(w.value(v).lanes for v in (op.on_true, op.on_false))
    if condition.lanes == 1:
        return ternary(condition, w.arm(op.on_true, lanes), w.arm(op.on_false, lanes))
    lanes = condition.lanes
    a, b = w.typed(op.on_true, lanes), w.typed(op.on_false, lanes)
    if dtype_of(op.result) is not bf16:
        return call("select", b, a, condition, type_=a.type)
    bits = [_as_type(w, x, "ushort") for x in (b, a)]
    return _as_type(w, call("select", *bits, condition, type_="ushort"), a.type)


@emit(math.Cast)
def _cast(w: Writer, op: math.Cast) -> Expression:
    source, target = dtype_of(op.x), dtype_of(op.result)
    types = w.language.types
    if target is bool_:
        x = w.typed(op.x)
        text, type_, precedence = w.language.literal(0, source)
        zero = Expression(text, precedence, type_)
        if x.lanes > 1:
            zero = cast_to(w, zero, x.type)
        return x if source is bool_ else binary(x, "!=", zero, types[bool_])
    if target.is_float or source.is_float:
        x = w.number(op.x) if source.is_integer else w.typed(op.x)
        if bf16 in (source, target) and f32 not in (source, target):
            # bfloat is sure to convert from and to float only.
            x = _wide(w, x)
        return cast_to(w, x, types[target])
    if target.bits > source.bits:
        return cast_to(w, w.number(op.x), types[target])
    x = w.value(op.x)
    return cast_to(w, x, types[target])


@emit(math.Bitcast)
def _bitcast(w: Writer, op: math.Bitcast) -> Expression:
    return _as_type(w, w.typed(op.x), w.language.types[dtype_of(op.result)])


def _as_type(w: Writer, x: Expression, type_: str) -> Expression:
    """The bits of an expression as another type of the same width."""
    if x.type == type_:
        return x
    name = f"{type_}{x.lanes}" if x.lanes > 1 else type_
    return call(w.language.bitcast.format(type=name), x, type_=type_)
