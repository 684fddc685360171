"""The shared math, op by op."""

from __future__ import annotations

from iris.codegen.expression import Expression
from iris.codegen.helpers import helper
from iris.codegen.operators import (
    as_type,
    binary,
    call,
    cast_to,
    constant,
    dtype_of,
    integer,
    logical_not,
    prefix,
    ternary,
)
from iris.codegen.tree import Number, Precedence, of_bools, regrouped
from iris.codegen.writer import Writer, emit
from iris.errors import DeclarationError
from iris.ir import math
from iris.ir.core import Op, Value
from iris.ir.math import Nowrap, Predicate
from iris.ir.types import DType, bf16, bool_, f32, i32, i64, u16, u32

_ARITHMETIC: dict[type[Op], str] = {math.Add: "+", math.Sub: "-", math.Mul: "*"}
# An operator, and the function that rounds down.
_DIVISION: dict[type[Op], tuple[str, str]] = {
    math.FloorDiv: ("/", "floor_divide"),
    math.Mod: ("%", "floor_modulo"),
}
# Of the bits, and of bools.
_LOGIC: dict[type[Op], tuple[str, str]] = {
    math.And: ("&", "&&"),
    math.Or: ("|", "||"),
    math.Xor: ("^", "!="),
}
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
def _constant(ctx: Writer, op: math.Constant) -> None:
    ctx.expressions[op.result] = constant(ctx, op.bits, op.dtype)


@emit(math.AssumeDivisible)
def _assume_divisible(ctx: Writer, op: math.AssumeDivisible) -> None:
    # Whoever needs it may be in another block than the first who does.
    ctx.expressions[op.result] = ctx.simple(op.x)


# Arithmetic.


@emit(*_ARITHMETIC)
def _arithmetic(ctx: Writer, op: math.Wrapping) -> Expression:
    operator, (lhs, rhs) = _ARITHMETIC[type(op)], op.operands
    dtype = dtype_of(lhs)
    if dtype.is_float:
        return _floats(ctx, op, operator)
    a, b = ctx.value(lhs), ctx.value(rhs)
    if operator == "+" and isinstance(b.tree, Number) and dtype.low < b.tree.value < 0:
        # `x - 4` for `x + -4`.
        operator, b = "-", b.replace(tree=b.tree.without_sign())
    may_wrap = op.may_wrap
    if dtype.is_signed and may_wrap and (dtype.bits >= 32 or a.lanes > 1 or b.lanes > 1):
        made = _modular(ctx, operator, a, b, dtype.unsigned)
    else:
        if a.wraps or b.wraps:
            a, b = [ctx.cast(x, dtype) if x.wraps else x for x in (a, b)]
        if operator == "*" and dtype is u16 and may_wrap and a.lanes == b.lanes == 1:
            # Promoted to int, the product might overflow.
            return binary(cast_to(ctx, a, u32), operator, b, u32, wraps=True)
        made = _promoted(ctx, dtype, a, operator, b, wraps=may_wrap)
    if (
        operator == "+"
        and made.tree.operands[1].precedence == Precedence.ADDITIVE
        and (op.nowrap in (Nowrap.NONE, Nowrap.ADDRESS) or _is_natural_sum(op))
    ):
        # What wraps, what makes addresses and what is not negative may be added in any order.
        return made.replace(tree=regrouped(*made.tree.operands))
    return made


def _is_natural_sum(op: math.Wrapping) -> bool:
    """Whether it adds sums, and no term is negative."""
    sums = op, op.operands[1].op
    return all(isinstance(x, math.Add) and x.nowrap is Nowrap.NATURAL for x in sums)


@emit(math.Div)
def _div(ctx: Writer, op: math.Div) -> Expression:
    if op.invariant and ctx.language.quotient:
        return call(ctx.language.quotient, *ctx.together(op.lhs, op.rhs), type_=f32)
    return _floats(ctx, op, "/")


def _floats(ctx: Writer, op: Op, operator: str) -> Expression:
    a, b = map(ctx.typed, op.operands)
    return binary(a, operator, b, a.type)


def _promoted(
    ctx: Writer, dtype: DType, a: Expression, operator: str, b: Expression, *, wraps: bool = False
) -> Expression:
    """An operation of integers: vectors have the arithmetic of their type, shorter scalars that of
    int, in which what would wrap does not."""
    if a.lanes > 1 or b.lanes > 1:
        a, b = cast_to(ctx, a, dtype), cast_to(ctx, b, dtype)
    elif dtype.bits < 32:
        return binary(a, operator, b, i32, wraps=wraps)
    return binary(a, operator, b, dtype)


def _modular(
    ctx: Writer, operator: str, a: Expression, b: Expression, unsigned: DType
) -> Expression:
    """Signed arithmetic that may wrap.  One unsigned operand makes it all unsigned."""
    if a.lanes > 1 or b.lanes > 1:
        a, b = cast_to(ctx, a, unsigned), cast_to(ctx, b, unsigned)
    elif unsigned not in (a.type, b.type):
        if _is_natural_number(a) or not _is_natural_number(b):
            a = cast_to(ctx, a, unsigned)
        else:
            b = cast_to(ctx, b, unsigned)
    return binary(a, operator, b, unsigned, wraps=True)


def _is_natural_number(x: Expression) -> bool:
    return x.type is i32 and isinstance(x.tree, Number) and x.tree.value >= 0


@emit(math.Neg)
def _neg(ctx: Writer, op: math.Neg) -> Expression:
    dtype = dtype_of(op.x)
    if dtype.is_float:
        return prefix("-", ctx.typed(op.x), dtype)
    x, is_short = ctx.value(op.x), dtype.bits < 32
    if op.may_wrap and (x.lanes > 1 or not is_short):
        return prefix("-", cast_to(ctx, x, dtype.unsigned), dtype.unsigned, wraps=dtype.is_signed)
    return prefix("-", ctx.number(op.x), i32 if is_short else dtype, wraps=op.may_wrap)


@emit(math.Abs)
def _abs(ctx: Writer, op: math.Abs) -> Expression:
    dtype = dtype_of(op.x)
    x = ctx.typed(op.x)
    if dtype.is_float:
        return _floating(ctx, ctx.language.absolute, dtype, x)
    if not dtype.is_signed:
        return x
    if not op.may_wrap:
        return call(ctx.language.absolute, x, type_=dtype)
    # Of the least integer `abs` is undefined; the distance from 0 is unsigned.
    zero = integer(0)
    if dtype is not i32 or x.lanes > 1:
        zero = ctx.cast(zero, dtype, x.lanes)
    return call(ctx.language.distance, x, zero, type_=dtype.unsigned).replace(wraps=True)


def _floating(ctx: Writer, function: str, dtype: DType, *operands: Expression) -> Expression:
    """A call of a function that there is of halves, but not of bfloats."""
    if dtype is not bf16:
        return call(function, *operands, type_=dtype)
    widened = [cast_to(ctx, x, f32) for x in operands]
    return cast_to(ctx, call(function, *widened, type_=f32), dtype)


@emit(math.FloorDiv, math.Mod)
def _divide(ctx: Writer, op: math.Division) -> Expression:
    dtype, (operator, function) = dtype_of(op.lhs), _DIVISION[type(op)]
    if dtype.is_float:
        found = helper(ctx, f"float_{function}", f32, *_as_floats(ctx, op))
        return cast_to(ctx, found, dtype)
    shift = _power_of_two(op.rhs)
    if shift is not None and operator == "%":
        return _bitwise(ctx, op, "&", ctx.value(op.lhs), constant(ctx, (1 << shift) - 1, dtype))
    if shift == 0:
        return ctx.value(op.lhs)
    if shift is not None:
        return _promoted(ctx, dtype, ctx.number(op.lhs), ">>", integer(shift))
    if dtype.is_signed and not op.natural:
        return helper(ctx, function, dtype, *ctx.together(op.lhs, op.rhs))
    return _promoted(ctx, dtype, ctx.number(op.lhs), operator, ctx.number(op.rhs))


def _power_of_two(value: Value) -> int | None:
    """The exponent, if the value is a constant power of two."""
    if not isinstance(value.op, math.Constant):
        return None
    number = int(value.op.value)
    return number.bit_length() - 1 if number > 0 and number & (number - 1) == 0 else None


def _as_floats(ctx: Writer, op: Op) -> list[Expression]:
    return [cast_to(ctx, x, f32) for x in ctx.together(*op.operands)]


# Extrema.


@emit(math.Extremum)
def _extremum(ctx: Writer, op: math.Extremum) -> Expression:
    dtype = dtype_of(op.lhs)
    a, b = ctx.together(op.lhs, op.rhs)
    if not dtype.is_float:
        greater = isinstance(op, (math.MaxNum, math.Maximum))
        return call(ctx.language.greater if greater else ctx.language.lesser, a, b, type_=dtype)
    if not op.nsz:
        return helper(ctx, op.name, dtype, a, b)
    if isinstance(op, (math.MaxNum, math.MinNum)):
        return _floating(ctx, _name(ctx, type(op)), dtype, a, b)
    return helper(ctx, f"{op.name}_nsz", dtype, a, b)


# Functions.


@emit(math.Transcendental, math.Sqrt)
def _function(ctx: Writer, op: Op) -> Expression:
    dtype = dtype_of(op.operands[0])
    found = call(_name(ctx, type(op), dtype), *_as_floats(ctx, op), type_=f32)
    return cast_to(ctx, found, dtype)


def _name(ctx: Writer, kind: type[Op], rounded: DType = f32) -> str:
    """The function of an op, whose result is rounded to a dtype."""
    found = ctx.language.intrinsics.get(kind)
    if found is None:
        raise DeclarationError(f"{ctx.language.name} has no function for {kind.name}")
    if rounded is not f32 and found.coarse is not None:
        return found.coarse
    return found.fast if ctx.fast else found.name


@emit(math.Floor, math.Ceil, math.Round)
def _to_integer(ctx: Writer, op: math.FloatUnary) -> Expression:
    return _floating(ctx, _name(ctx, type(op)), dtype_of(op.x), ctx.typed(op.x))


@emit(math.Erf)
def _erf(ctx: Writer, op: math.Erf) -> Expression:
    return cast_to(ctx, helper(ctx, "erf", f32, *_as_floats(ctx, op)), dtype_of(op.x))


@emit(math.Sigmoid)
def _sigmoid(ctx: Writer, op: math.Sigmoid) -> Expression:
    # exp may overflow to inf, of which this is the right 0.
    (x,), one = _as_floats(ctx, op), constant(ctx, _ONE, f32)
    below = binary(one, "+", call(_name(ctx, math.Exp), prefix("-", x, f32), type_=f32), f32)
    return cast_to(ctx, binary(one, "/", below, f32), dtype_of(op.x))


_ONE = 0x3F800000


@emit(math.Fma)
def _fma(ctx: Writer, op: math.Fma) -> Expression:
    dtype = dtype_of(op.a)
    operands = ctx.together(*op.operands)
    if dtype is bf16:
        # In float the sum would be rounded, and then once more.
        return helper(ctx, "fma_bfloat", dtype, *operands)
    return call(_name(ctx, math.Fma), *operands, type_=dtype)


# Bits.


@emit(*_LOGIC)
def _logic(ctx: Writer, op: math.Binary) -> Expression:
    (lhs, rhs), (bits, logical) = op.operands, _LOGIC[type(op)]
    if dtype_of(lhs) is not bool_:
        return _bitwise(ctx, op, bits, ctx.value(lhs), ctx.value(rhs))
    a, b = ctx.value(lhs), ctx.branch_operand(rhs)
    if max(a.lanes, b.lanes) == 1 or logical == "!=":
        return binary(a, logical, b, a.type)
    return binary(a, bits, b, a.type).replace(tree=of_bools(bits, a.tree, b.tree))


def _bitwise(ctx: Writer, op: Op, operator: str, a: Expression, b: Expression) -> Expression:
    dtype, wraps = dtype_of(op.results[0]), a.wraps or b.wraps
    if wraps and dtype.bits >= 32 and a.lanes == b.lanes == 1:
        return binary(a, operator, b, dtype.unsigned, wraps=True)
    return _promoted(ctx, dtype, a, operator, b, wraps=wraps)


@emit(math.Not)
def _not(ctx: Writer, op: math.Not) -> Expression:
    dtype = dtype_of(op.x)
    x = ctx.value(op.x)
    if dtype is bool_:
        return logical_not(x)
    if x.lanes > 1:
        x = ctx.typed(op.x)
        return prefix("~", x, x.type)
    if dtype.bits < 32:
        return prefix("~", x, i32, wraps=x.wraps or not dtype.is_signed)
    return prefix("~", x, x.type if x.wraps else dtype, wraps=x.wraps)


@emit(math.Shl)
def _shl(ctx: Writer, op: math.Shl) -> Expression:
    dtype = dtype_of(op.lhs)
    x, amount = ctx.value(op.lhs), ctx.number(op.rhs)
    if not (dtype.is_signed and op.may_wrap):
        return _promoted(ctx, dtype, ctx.number(op.lhs), "<<", amount, wraps=op.may_wrap)
    # A signed number must not lose bits.
    is_vector = x.lanes > 1 or amount.lanes > 1
    unsigned = dtype.unsigned if is_vector or dtype.bits >= 32 else u32
    if is_vector:
        amount = cast_to(ctx, amount, unsigned)
    return binary(cast_to(ctx, x, unsigned), "<<", amount, unsigned, wraps=True)


@emit(math.Shr)
def _shr(ctx: Writer, op: math.Shr) -> Expression:
    return _promoted(ctx, dtype_of(op.lhs), ctx.number(op.lhs), ">>", ctx.number(op.rhs))


# Choosing and converting.


@emit(math.Compare)
def _compare(ctx: Writer, op: math.Compare) -> Expression:
    lhs, rhs = op.operands
    a, b = ctx.number(lhs), ctx.number(rhs)
    if max(a.lanes, b.lanes) > 1:
        a, b = ctx.typed(lhs), ctx.typed(rhs)
        if dtype_of(lhs) is bool_ and op.predicate in _ORDER:
            # Vectors of bools have no order, only logic.
            operator, is_left = _ORDER[op.predicate]
            a, b = (logical_not(a), b) if is_left else (a, logical_not(b))
            return binary(a, operator, b, a.type)
    return binary(a, _COMPARE[op.predicate], b, bool_)


@emit(math.Select)
def _select(ctx: Writer, op: math.Select) -> Expression:
    condition = ctx.value(op.condition)
    if condition.lanes == 1:
        # One that gets a variable gets the lanes of its type, and the other needs as many.
        operands = op.on_true, op.on_false
        lanes = max([ctx.branch_operand(v).lanes for v in operands])
        return ternary(condition, *[ctx.typed(v, lanes) for v in operands])
    lanes = condition.lanes
    a, b = ctx.typed(op.on_true, lanes), ctx.typed(op.on_false, lanes)
    if dtype_of(op.result) is not bf16:
        return call(ctx.language.select, b, a, condition, type_=a.type)
    bits = [as_type(ctx, x, u16) for x in (b, a)]
    return as_type(ctx, call(ctx.language.select, *bits, condition, type_=u16), bf16)


@emit(math.Cast)
def _cast(ctx: Writer, op: math.Cast) -> Expression:
    source, target = dtype_of(op.x), dtype_of(op.result)
    if target is bool_:
        x = ctx.typed(op.x)
        zero = constant(ctx, 0, source)
        if x.lanes > 1:
            zero = cast_to(ctx, zero, x.type)
        return x if source is bool_ else binary(x, "!=", zero, bool_)
    if target.is_float or source.is_float:
        x = ctx.number(op.x) if source.is_integer else ctx.typed(op.x)
        if bf16 in (source, target) and f32 not in (source, target):
            # bfloat is sure to convert from and to float only.
            x = cast_to(ctx, x, f32)
        return cast_to(ctx, x, target)
    if target.bits > source.bits:
        x = ctx.number(op.x)
        may_have_wrapped = isinstance(op.x.op, math.Wrapping) and op.x.op.may_wrap
        function = ctx.language.widening.get(source)
        if function is not None and target.bits == 64 and may_have_wrapped:
            x = call(function, x, type_=i64)
        return cast_to(ctx, x, target)
    return cast_to(ctx, ctx.value(op.x), target)


@emit(math.Bitcast)
def _bitcast(ctx: Writer, op: math.Bitcast) -> Expression:
    target = dtype_of(op.result)
    if dtype_of(op.x).is_integer and target.is_integer:
        return cast_to(ctx, ctx.value(op.x), target)
    return as_type(ctx, ctx.typed(op.x), target)
