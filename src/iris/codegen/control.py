"""Loops and branches, and the variables that carry values through them."""

from __future__ import annotations

from collections.abc import Sequence

from iris.codegen.expression import (
    INDEX,
    Expression,
    Precedence,
    mentions,
    rename,
)
from iris.codegen.operators import dtype_of, logical_not, ternary
from iris.codegen.ranges import loop_bounds
from iris.codegen.writer import Writer, element_of, emit
from iris.ir.control import For, If, While
from iris.ir.core import Op, Region, Value
from iris.ir.math import Constant
from iris.ir.types import ElementType


@emit(For)
def _for(w: Writer, op: For) -> None:
    (number, *carried) = op.body.arguments
    lower = w.content(w.value(op.lower), dtype_of(number), 1)
    # The head is evaluated every time around.
    upper, step = _steady(w, op.upper), _steady(w, op.step)
    names = _start(w, op, carried)
    (low, high), ends_inside = loop_bounds(w.ranges, op)
    w.ranges.set(number, low, high)
    type_ = w.language.types[dtype_of(number)]
    w.names.enter()
    name = w.names.new(number.name) if number.name else w.names.index()
    w.names.leave()
    constant = op.step.op.value if isinstance(op.step.op, Constant) else None
    test = _test(name, upper, step, constant)
    advance = _advance(name, w.typed(op.step) if not ends_inside else step, constant, ends_inside)
    start = w.open(f"for ({type_} {name} = {lower}; {test}; {advance})")
    w.names.new(name)
    w.expressions[number] = Expression(name, Precedence.POSTFIX, type_)
    w.region(op.body)
    _assign(w, names, op.body)
    w.close(start)
    for value, target in zip(op.results, names, strict=True):
        w.call(value, target)


def _steady(w: Writer, value: Value) -> Expression:
    """An expression that may be evaluated again and again."""
    expression = w.number(value)
    return w.simple(value) if expression.touches or "(" in expression.text else expression


def _test(name: str, upper: Expression, step: Expression, constant: object) -> str:
    bound = upper.at_least(Precedence.SHIFT)
    if isinstance(constant, int):
        return f"{name} {'<' if constant > 0 else '>'} {bound}"
    size = step.at_least(Precedence.SHIFT)
    return f"{size} > 0 ? {name} < {bound} : {name} > {bound}"


def _advance(name: str, step: Expression, constant: object, ends_inside: bool) -> str:
    if constant in (1, -1):  # which cannot overflow before the loop ends
        return f"{'++' if constant == 1 else '--'}{name}"
    if not ends_inside:
        # The step past the end may not fit; what is at the end of the numbers ends the loop, too.
        return f"{name} = addsat({name}, {step.text})"
    if step.text.startswith("-"):
        return f"{name} -= {step.text[1:]}"
    return f"{name} += {step.text}"


@emit(While)
def _while(w: Writer, op: While) -> None:
    names = _start(w, op, op.condition.arguments)
    for value, name in zip(op.body.arguments, names, strict=True):
        w.call(value, name)
    start = w.open("while (true)")
    w.region(op.condition)
    (more,) = op.condition.end.operands
    condition = w.value(more)
    if len(w.lines) == start:
        # Nothing but an expression.
        w.lines[start - 1] = f"{w.lines[start - 1][: -len('(true) {')]}({condition.text}) {{"
    else:
        w.drop()
        w.line(f"if ({logical_not(condition).text}) break;")
    w.region(op.body)
    _assign(w, names, op.body)
    w.close(start)
    for value, name in zip(op.results, names, strict=True):
        w.call(value, name)


@emit(If)
def _if(w: Writer, op: If) -> None:
    condition = w.value(op.condition)
    w.flush()
    then, otherwise = op.then.end, op.otherwise.end
    if len(op.results) == 1 and op.then.first is then and op.otherwise.first is otherwise:
        (a,), (b,) = then.operands, otherwise.operands
        lanes = max(w.value(v).lanes for v in (a, b))
        w.give(op.results[0], ternary(condition, w.typed(a, lanes), w.typed(b, lanes)))
        return
    names = [w.name_of(v) for v in op.results]
    for value, name in zip(op.results, names, strict=True):
        w.reserve(value, name)
    is_bare = not names
    if is_bare and op.then.first is then:
        if op.otherwise.first is otherwise:
            return
        start = w.open(f"if ({logical_not(condition).text})")
        w.region(op.otherwise)
        w.drop()
        w.close(start)
        return
    start = w.open(f"if ({condition.text})")
    w.region(op.then)
    _assign(w, names, op.then)
    if not (is_bare and op.otherwise.first is otherwise):
        start = w.reopen("else")
        w.region(op.otherwise)
        _assign(w, names, op.otherwise)
    w.close(start)


def _start(w: Writer, op: For | While, arguments: Sequence[Value]) -> list[str]:
    """Declare the variables that a loop carries."""
    for value in op.initial:
        if not isinstance(value.type, ElementType):
            raise w.unsupported(op, f"a loop carries no {value.type}")
    starts = [w.value(v) for v in op.initial]
    w.flush()
    names = []
    for argument, result, value, start in zip(
        arguments, op.results, op.initial, starts, strict=True
    ):
        if _is_spent(w, op, value):
            name = start.text.removesuffix(f"[{INDEX}]")
            w.call(argument, name)
        else:
            name = w.names.new(argument.name or result.name or value.name or "v")
            w.define(argument, name, start)
        names.append(name)
    return names


def _is_spent(w: Writer, op: Op, value: Value) -> bool:
    """Whether a value has a variable that nobody will read again after this op."""
    if value not in w.variables or value.home is not op.parent:
        return False
    if len(value.users) > 1 or op.operands.count(value) > 1:
        return False
    # What the condition of a loop is given, the body is given again.
    owner = None if value.region is None else value.region.owner
    return not (isinstance(owner, While) and value.region is owner.condition)


def _assign(w: Writer, names: Sequence[str], region: Region) -> None:
    """Give the variables what a region yields, all at once."""
    values = region.end.operands
    left = [(name, value, w.value(value)) for name, value in zip(names, values, strict=True)]
    w.drop()
    left = [(n, v, e) for n, v, e in left if e.text not in (n, f"{n}[{INDEX}]")]
    while left:
        free = next((i for i in range(len(left)) if _is_free(left, i)), None)
        if free is None:
            # Each is still needed by another: a copy of one makes it free.
            name, value, _ = left[0]
            copy = w.names.new(f"old_{name}")
            _copy(w, value, name, copy)
            left = [(n, v, e if n == name else _renamed(e, name, copy)) for n, v, e in left]
            free = 0
        name, value, expression = left.pop(free)
        type_ = element_of(value)
        shape = w.form(value)
        if shape.parts > 1 and mentions(expression.text.replace(f"{name}[{INDEX}]", ""), name):
            # Elements that the loop has passed are needed at later ones.
            copy = w.names.new(f"next_{name}")
            expression = w.define(value, copy, expression)
        w.assign(name, expression, type_.element, shape)


def _is_free(left: Sequence[tuple[str, Value, Expression]], position: int) -> bool:
    """Whether no other assignment still needs what the variable has."""
    name = left[position][0]
    return not any(mentions(e.text, name) for i, (_, _, e) in enumerate(left) if i != position)


def _renamed(expression: Expression, name: str, new: str) -> Expression:
    return expression._replace(text=rename(expression.text, name, new), sides=None)


def _copy(w: Writer, like: Value, name: str, copy: str) -> None:
    """Declare a variable that has what another has."""
    type_ = element_of(like)
    lanes, parts = w.form(like)
    if parts == 1:
        w.line(f"{w.type_name(type_.element, lanes)} {copy} = {name};")
        return
    w.line(f"{w.type_name(type_.element, lanes)} {copy}[{parts}];")
    i, start = w.loop(parts)
    w.line(f"{copy}[{i}] = {name}[{i}];")
    w.close(start)
