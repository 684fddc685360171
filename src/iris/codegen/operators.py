"""Building expressions from expressions: operators, calls, and the casts these need."""

from __future__ import annotations

from iris.codegen import tree
from iris.codegen.expression import Expression, merge_touches
from iris.codegen.tree import Call, Number, Unary
from iris.codegen.writer import Writer
from iris.ir.core import Value
from iris.ir.types import DType, i32, u32


def binary(
    a: Expression, operator: str, b: Expression, type_: DType, *, wraps: bool = False
) -> Expression:
    made = tree.binary(operator, a.tree, b.tree)
    lanes = a.lanes if a.lanes > b.lanes else b.lanes
    return Expression(made, type_, lanes, wraps, a.touches | b.touches)


def prefix(operator: str, x: Expression, type_: DType, *, wraps: bool = False) -> Expression:
    return Expression(Unary(operator, x.tree), type_, x.lanes, wraps, x.touches)


def call(
    function: str, *arguments: Expression, type_: DType, lanes: int | None = None
) -> Expression:
    return Expression(
        Call(function, *[a.tree for a in arguments]),
        type_,
        max([a.lanes for a in arguments]) if lanes is None else lanes,
        touches=merge_touches(arguments),
    )


def ternary(condition: Expression, a: Expression, b: Expression) -> Expression:
    made = tree.ternary(condition.tree, a.tree, b.tree)
    touches = condition.touches | a.touches | b.touches
    return Expression(made, a.type, max(a.lanes, b.lanes), touches=touches)


def cast_to(ctx: Writer, x: Expression, type_: DType) -> Expression:
    """The expression as another type; a plain number takes its suffix instead."""
    if x.type is type_ and not x.is_packed:
        return x.replace(wraps=False)
    if x.is_packed and x.type is not type_:  # it becomes only a vector of its own elements
        x = cast_to(ctx, x, x.type)
    if isinstance(x.tree, Number) and x.tree.value >= 0 and (x.type, type_) == (i32, u32):
        return x.replace(tree=ctx.language.literal(x.tree.value, u32)[0], type=u32)
    return ctx.cast(x, type_)


def constant(ctx: Writer, bits: int, dtype: DType) -> Expression:
    return Expression(*ctx.language.literal(bits, dtype))


def integer(value: int) -> Expression:
    """A number of the type that arithmetic gives small integers."""
    return Expression(tree.number(value), i32)


def dtype_of(value: Value) -> DType:
    return value.type.element


def logical_not(x: Expression) -> Expression:
    return prefix("!", x, x.type)


def as_type(ctx: Writer, x: Expression, type_: DType, lanes: int | None = None) -> Expression:
    """The bits of an expression as another type, of as many lanes unless it says how many."""
    if x.type is type_:
        return x
    lanes = x.lanes if lanes is None else lanes
    function = ctx.language.bitcast.format(type=ctx.type_name(type_, lanes))
    return call(function, x, type_=type_, lanes=lanes)
