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
from iris.codegen.writer import Writer, emit
from iris.ir.control import For, If, While
from iris.ir.core import Region, Value
from iris.ir.math import Constant
from iris.ir.metal import Slice
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
    if _numbers_matrices(w, op):
        w.line(w.language.unroll)
    start = w.open(f"for ({type_} {name} = {lower}; {test}; {advance})")
    w.names.new(name)
    w.expressions[number] = Expression(name, Precedence.POSTFIX, type_)
    w.region(op.body)
    _assign(w, names, op.body)
    w.close(start)
    for value, target in zip(op.results, names, strict=True):
        w.call(value, target)


def _numbers_matrices(w: Writer, op: For) -> bool:
    """Whether the variable of a loop says which of an array of matrices, or of what meets them,
    which has no numbers once it is in registers."""
    return op.trip_count() is not None and any(
        isinstance(inner, Slice) and w.meets_matrices(inner.x) for inner in op.body
    )


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
    used = [v for v in op.results if w.is_used(v)]
    if (
        len(op.results) == len(used) == 1
        and op.then.first is then
        and op.otherwise.first is otherwise
    ):
        (a,), (b,) = then.operands, otherwise.operands
        lanes = max(w.value(v).lanes for v in (a, b))
        w.give(op.results[0], ternary(condition, w.typed(a, lanes), w.typed(b, lanes)))
        return
    names = [w.name_of(v) if w.is_used(v) else None for v in op.results]
    for value, name in zip(op.results, names, strict=True):
        if name is not None:
            w.reserve(value, name)
    is_bare = not any(names)
    if is_bare and op.then.first is then:
        if op.otherwise.first is otherwise:
            return
        start = w.open(f"if ({logical_not(condition).text})")
        w.region(op.otherwise)
        w.drop()
        w.close(start)
        return
    start = w.open(f"if ({condition.text})")
    _branch(w, op.results, names, op.then)
    if not (is_bare and op.otherwise.first is otherwise):
        otherwise_start = w.reopen("else")
        _branch(w, op.results, names, op.otherwise)
        if len(w.lines) > otherwise_start:
            start = otherwise_start
        else:
            w.lines.pop()
    w.close(start)


def _branch(w: Writer, results: Sequence[Value], names: Sequence[str | None], body: Region) -> None:
    """One way to the values of a branch; an array is made where it is to be."""
    for result, name, value in zip(results, names, body.end.operands, strict=True):
        is_made_here = value.home is body and len(value.users) == 1
        is_like = w.form(value) == w.form(result) and w.is_matrix(value) == w.is_matrix(result)
        if name is not None and is_made_here and is_like and w.form(value).parts > 1:
            w.awaited[value] = name
    w.region(body)
    _assign(w, names, body)


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
        if w.is_spent(op, value):
            name = w.variables[value]
            w.call(argument, name)
        else:
            name = w.names.new(argument.name or result.name or value.name or "v")
            w.define(argument, name, start)
        names.append(name)
        w.carried.add(name)
    return names


def _assign(w: Writer, names: Sequence[str | None], region: Region) -> None:
    """Give the variables what a region yields, all at once; None: nobody wants it."""
    values = region.end.operands
    left = [(n, v, w.value(v)) for n, v in zip(names, values, strict=True) if n is not None]
    w.drop()
    left = [(n, v, e) for n, v, e in left if e.text != w.place(v, n)]
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
        if w.form(value).parts > 1 and mentions(
            expression.text.replace(f"{name}[{INDEX}]", ""), name
        ):
            # Elements that the loop has passed are needed at later ones.
            copy = w.names.new(f"next_{name}")
            expression = w.define(value, copy, expression)
        w.assign(value, name, expression)


def _is_free(left: Sequence[tuple[str, Value, Expression]], position: int) -> bool:
    """Whether no other assignment still needs what the variable has."""
    name = left[position][0]
    return not any(mentions(e.text, name) for i, (_, _, e) in enumerate(left) if i != position)


def _renamed(expression: Expression, name: str, new: str) -> Expression:
    return expression._replace(text=rename(expression.text, name, new), sides=None)


def _copy(w: Writer, like: Value, name: str, copy: str) -> None:
    """Declare a variable that has what another has."""
    parts = w.form(like).parts
    type_ = w.held_as(like)
    if parts == 1:
        w.line(f"{type_} {copy} = {name};")
        return
    w.line(f"{type_} {copy}[{parts}];")
    i, start = w.loop(parts, unrolled=w.meets_matrices(like))
    w.line(f"{copy}[{i}] = {name}[{i}];")
    w.close(start)
