"""Loops and branches, and the variables that carry values through them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from iris.codegen.expression import (
    INDEX,
    Expression,
    Precedence,
    mentions,
    rename,
)
from iris.codegen.operators import dtype_of, logical_not, ternary
from iris.codegen.ranges import loop_bounds
from iris.codegen.writer import Line, Writer, emit
from iris.ir.control import For, If, While
from iris.ir.core import Region, Value
from iris.ir.math import Constant
from iris.ir.metal import Slice
from iris.ir.types import ElementType, Threadgroup


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
    _assign(w, carried, names, op.body)
    w.close(start)
    for value, target in zip(op.results, names, strict=True):
        _call(w, value, target)


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
    if step.text.startswith("-") and step.precedence >= Precedence.PREFIX:
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
        head, location = w.lines[start - 1]
        w.lines[start - 1] = Line(f"{head[: -len('(true) {')]}({condition.text}) {{", location)
    else:
        w.drop()
        w.line(f"if ({logical_not(condition).text}) break;")
    w.region(op.body)
    _assign(w, op.condition.arguments, names, op.body)
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
    for value in used:
        w.room(value)
    names = [w.variables[v] if w.is_used(v) else None for v in op.results]
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
    _assign(w, results, names, body)


def _start(w: Writer, op: For | While, arguments: Sequence[Value]) -> list[str]:
    """Declare the variables that a loop carries."""
    for value in op.initial:
        if not isinstance(value.type, ElementType | Threadgroup):
            raise w.unsupported(op, f"a loop carries no {value.type}")
    starts = [w.value(v) for v in op.initial]
    w.flush()
    names = []
    for argument, result, value, start in zip(
        arguments, op.results, op.initial, starts, strict=True
    ):
        if w.is_spent(op, value):
            name = w.variables[value]
            _call(w, argument, name)
        else:
            name = w.names.new(argument.name or result.name or value.name or "v")
            if isinstance(value.type, Threadgroup):
                w.line(f"{_pointer_type(w, value.type)} {name} = {start.text};")
                _call(w, argument, name)
            else:
                w.define(argument, name, start)
        names.append(name)
        w.carried.add(name)
    return names


class _Assignment(NamedTuple):
    name: str  # of a variable,
    holds: Value  # what it was declared for,
    value: Value  # and what it is to have
    content: Expression


def _assign(w: Writer, holds: Sequence[Value], names: Sequence[str | None], region: Region) -> None:
    """Give the variables what a region yields, all at once; None: nobody wants it."""
    left = [
        _Assignment(name, held, value, w.value(value))
        for name, held, value in zip(names, holds, region.end.operands, strict=True)
        if name is not None
    ]
    w.drop()
    left = [a for a in left if a.content.text != _place(w, a.holds, a.name)]
    while left:
        free = next((i for i in range(len(left)) if _is_free(left, i)), None)
        if free is None:
            # Each is still needed by another: a copy of one makes it free.
            name = left[0].name
            copy = w.names.new(f"old_{name}")
            _copy(w, left[0].holds, name, copy)
            left = [left[0], *[_renamed(a, name, copy) for a in left[1:]]]
            free = 0
        name, held, value, content = left.pop(free)
        if isinstance(held.type, Threadgroup):
            w.line(f"{name} = {content.text};")
            continue
        if w.form(held).parts > 1 and mentions(content.text.replace(f"{name}[{INDEX}]", ""), name):
            # Elements that the loop has passed are needed at later ones.
            content = w.define(value, w.names.new(f"next_{name}"), content)
        w.assign(held, name, content)


def _is_free(left: Sequence[_Assignment], position: int) -> bool:
    """Whether no other assignment still needs what the variable has."""
    name = left[position].name
    return not any(mentions(a.content.text, name) for i, a in enumerate(left) if i != position)


def _renamed(assignment: _Assignment, name: str, new: str) -> _Assignment:
    content = assignment.content
    content = content._replace(text=rename(content.text, name, new), sides=None)
    return assignment._replace(content=content)


def _copy(w: Writer, like: Value, name: str, copy: str) -> None:
    """Declare a variable that has what another has."""
    if isinstance(like.type, Threadgroup):
        w.line(f"{_pointer_type(w, like.type)} {copy} = {name};")
        return
    parts = w.form(like).parts
    type_ = w.held_as(like)
    if parts == 1:
        w.line(f"{type_} {copy} = {name};")
        return
    w.line(f"{type_} {copy}[{parts}];")
    i, start = w.loop(parts, unrolled=w.meets_matrices(like))
    w.line(f"{copy}[{i}] = {name}[{i}];")
    w.close(start)


# Memory of the threadgroup is carried as a pointer to its first element.


def _pointer_type(w: Writer, memory: Threadgroup) -> str:
    return f"{w.language.shared} {w.language.memory_types[memory.element]}*"


def _place(w: Writer, value: Value, name: str) -> str:
    return name if isinstance(value.type, Threadgroup) else w.place(value, name)


def _call(w: Writer, value: Value, name: str) -> None:
    """Let a value be called by the name of a variable that a loop carries."""
    if isinstance(value.type, Threadgroup):
        element = w.language.memory_types[value.type.element]
        w.expressions[value] = Expression(name, Precedence.POSTFIX, element)
        w.variables[value] = name
    else:
        w.call(value, name)
