"""Building expressions from expressions: operators, calls, and the casts these need."""

from __future__ import annotations

from iris.codegen.expression import Expression, Precedence
from iris.codegen.writer import Writer, merge_touches
from iris.ir.core import Value
from iris.ir.math import element_type
from iris.ir.types import DType

_LEVELS = {
    "*": Precedence.MULTIPLICATIVE,
    "/": Precedence.MULTIPLICATIVE,
    "%": Precedence.MULTIPLICATIVE,
    "+": Precedence.ADDITIVE,
    "-": Precedence.ADDITIVE,
    "<<": Precedence.SHIFT,
    ">>": Precedence.SHIFT,
    "<": Precedence.RELATIONAL,
    "<=": Precedence.RELATIONAL,
    ">": Precedence.RELATIONAL,
    ">=": Precedence.RELATIONAL,
    "==": Precedence.EQUALITY,
    "!=": Precedence.EQUALITY,
    "&": Precedence.AND,
    "^": Precedence.XOR,
    "|": Precedence.OR,
    "&&": Precedence.LOGICAL_AND,
    "||": Precedence.LOGICAL_OR,
}
_ARITHMETIC = ("*", "/", "%", "+", "-")
_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")


def binary(
    a: Expression, operator: str, b: Expression, type_: str, *, wraps: bool = False
) -> Expression:
    level = _LEVELS[operator]
    if operator in _ARITHMETIC:
        left, right = a.at_least(level), b.at_least(level + 1)
    elif operator in _COMPARISONS:
        # `a < b == c` is right and nobody reads it.
        left, right = a.at_least(Precedence.SHIFT), b.at_least(Precedence.SHIFT)
    elif operator in ("&&", "||"):
        left, right = _logical(a, level), _logical(b, level)
    else:
        # Nobody knows by heart how these bind: only a chain of one of them goes without.
        left = a.text if a.precedence == level else a.at_least(Precedence.PREFIX)
        right = b.at_least(Precedence.PREFIX)
    return Expression(
        f"{left} {operator} {right}",
        level,
        type_,
        max(a.lanes, b.lanes),
        wraps,
        a.touches | b.touches,
        (left, operator, right),
    )


def _logical(e: Expression, level: int) -> str:
    return e.text if e.precedence == level else e.at_least(Precedence.EQUALITY)


def prefix(operator: str, x: Expression, type_: str, *, wraps: bool = False) -> Expression:
    text = x.at_least(Precedence.PREFIX)
    if text.startswith(operator):  # `--x` is something else
        text = f"({text})"
    return Expression(
        f"{operator}{text}", Precedence.PREFIX, type_, x.lanes, wraps, touches=x.touches
    )


def call(function: str, *arguments: Expression, type_: str, lanes: int | None = None) -> Expression:
    return Expression(
        f"{function}({', '.join([a.text for a in arguments])})",
        Precedence.POSTFIX,
        type_,
        max(a.lanes for a in arguments) if lanes is None else lanes,
        touches=merge_touches(arguments),
    )


def ternary(condition: Expression, a: Expression, b: Expression) -> Expression:
    text = (
        f"{condition.at_least(Precedence.LOGICAL_OR)} ? {a.at_least(Precedence.LOGICAL_OR)} : "
        f"{b.at_least(Precedence.TERNARY)}"
    )
    touches = condition.touches | a.touches | b.touches
    return Expression(text, Precedence.TERNARY, a.type, max(a.lanes, b.lanes), touches=touches)


def cast_to(w: Writer, x: Expression, type_: str) -> Expression:
    """The expression as another C type; a plain number takes its suffix instead."""
    if x.type == type_:
        return x._replace(wraps=False)
    unpacked = x.type.removeprefix("packed_")
    if unpacked not in (x.type, type_):  # a packed vector becomes only one of its own elements
        x = cast_to(w, x, unpacked)
    name = f"{type_}{x.lanes}" if x.lanes > 1 else type_
    if x.text.isdecimal() and x.type == "int" and type_ == "uint":
        return x._replace(text=x.text + "u", type=type_)
    return Expression(f"{name}({x.text})", Precedence.POSTFIX, type_, x.lanes, touches=x.touches)


def dtype_of(value: Value) -> DType:
    return element_type(value.type).element


def logical_not(x: Expression) -> Expression:
    return prefix("!", x, x.type)
