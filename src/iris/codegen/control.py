"""Loops and branches, and the variables that carry values through them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from iris.codegen.expression import Expression, in_memory
from iris.codegen.memory import pointer_type
from iris.codegen.operators import dtype_of, logical_not, ternary
from iris.codegen.ranges import loop_bounds
from iris.codegen.statements import Assign, Break, Declare, For, If, While
from iris.codegen.tree import (
    PART,
    Call,
    Element,
    Name,
    Number,
    Tree,
    Unary,
    binary,
    element,
    number,
)
from iris.codegen.tree import ternary as choice
from iris.codegen.writer import Writer, emit
from iris.ir import control
from iris.ir.core import Region, Value
from iris.ir.math import Constant
from iris.ir.metal import Slice
from iris.ir.types import ElementType, Threadgroup


@emit(control.For)
def _for(ctx: Writer, op: control.For) -> None:
    (variable, *carried) = op.body.arguments
    dtype = dtype_of(variable)
    lower = ctx.content(ctx.value(op.lower), dtype, 1)
    # The head is evaluated every time around.
    upper, step = _steady(ctx, op.upper), _steady(ctx, op.step)
    names = _start(ctx, op, carried)
    (low, high), ends_inside = loop_bounds(ctx.ranges, op)
    ctx.ranges.set(variable, low, high)
    constant = op.step.op.value if isinstance(op.step.op, Constant) else None
    advanced = step if ends_inside else ctx.typed(op.step)
    with ctx.nest() as body:
        i = Name(ctx.names.new(variable.name) if variable.name else ctx.names.index())
        ctx.expressions[variable] = Expression(i, dtype)
        ctx.region(op.body)
        _assign(ctx, carried, names, op.body)
    test = _test(i, upper.tree, step.tree, constant)
    advance = _advance(ctx, i, advanced.tree, constant, ends_inside)
    pragma = ctx.language.unroll if _numbers_matrices(ctx, op) else None
    ctx.put(For(body, ctx.language.types[dtype], i.word, lower, test, advance, pragma))
    for value, target in zip(op.results, names, strict=True):
        _bind(ctx, value, target)


def _numbers_matrices(ctx: Writer, op: control.For) -> bool:
    """Whether the variable of a loop says which of an array of matrices, or of what meets them,
    which has no numbers once it is in registers."""
    return op.trip_count() is not None and any(
        isinstance(inner, Slice) and ctx.meets_matrices(inner.x) for inner in op.body
    )


def _steady(ctx: Writer, value: Value) -> Expression:
    """An expression that may be evaluated again and again."""
    x = ctx.number(value)
    return ctx.simple(value) if x.touches or x.tree.calls else x


def _test(i: Name, upper: Tree, step: Tree, constant: object) -> Tree:
    """Whether there is a next round, by the sign of the step."""
    if isinstance(constant, int):
        return binary("<" if constant > 0 else ">", i, upper)
    upwards = binary(">", step, number(0))
    return choice(upwards, binary("<", i, upper), binary(">", i, upper))


def _advance(ctx: Writer, i: Name, step: Tree, constant: object, ends_inside: bool) -> str:
    if constant in (1, -1):  # which cannot overflow before the loop ends
        return f"{'++' if constant == 1 else '--'}{i}"
    if not ends_inside:
        # The step past the end may not fit; what is at the end of the numbers ends the loop, too.
        return Assign(i, Call(ctx.language.add_saturated, i, step)).text
    if isinstance(step, Unary) and step.word == "-":
        return Assign(i, binary("-", i, step.operands[0])).text
    if isinstance(step, Number) and step.word.startswith("-"):
        return Assign(i, binary("-", i, Number(step.word[1:], -step.value))).text
    return Assign(i, binary("+", i, step)).text


@emit(control.While)
def _while(ctx: Writer, op: control.While) -> None:
    names = _start(ctx, op, op.condition.arguments)
    for value, name in zip(op.body.arguments, names, strict=True):
        ctx.bind_variable(value, name)
    with ctx.nest() as body:
        ctx.region(op.condition)
        (more,) = op.condition.end.operands
        condition: Tree | None = ctx.value(more).tree
        if body:
            ctx.drop()
            ctx.put(If([Break()], logical_not(ctx.value(more)).tree))
            condition = None
        ctx.region(op.body)
        _assign(ctx, op.condition.arguments, names, op.body)
    ctx.put(While(body, condition))
    for value, name in zip(op.results, names, strict=True):
        ctx.bind_variable(value, name)


@emit(control.If)
def _if(ctx: Writer, op: control.If) -> None:
    condition = ctx.value(op.condition)
    ctx.flush()
    then, otherwise = op.then.end, op.otherwise.end
    used = [v for v in op.results if ctx.is_used(v)]
    if (
        len(op.results) == len(used) == 1
        and op.then.first is then
        and op.otherwise.first is otherwise
    ):
        (a,), (b,) = then.operands, otherwise.operands
        lanes = max(ctx.value(v).lanes for v in (a, b))
        ctx.bind(op.results[0], ternary(condition, ctx.typed(a, lanes), ctx.typed(b, lanes)))
        return
    for value in used:
        ctx.declare_empty(value)
    names = [ctx.variables[v] if ctx.is_used(v) else None for v in op.results]
    is_bare = not any(names)
    if is_bare and op.then.first is then:
        if op.otherwise.first is otherwise:
            return
        with ctx.nest() as body:
            ctx.region(op.otherwise)
            ctx.drop()
        ctx.put(If(body, logical_not(condition).tree))
        return
    with ctx.nest() as body:
        _branch(ctx, op.results, names, op.then)
    with ctx.nest() as other:
        _branch(ctx, op.results, names, op.otherwise)
    ctx.put(If(body, condition.tree, other))


def _branch(
    ctx: Writer, results: Sequence[Value], names: Sequence[str | None], body: Region
) -> None:
    """One way to the values of a branch; an array is made where it is to be."""
    for result, name, value in zip(results, names, body.end.operands, strict=True):
        is_made_here = value.home is body and len(value.users) == 1
        is_like = ctx.held_alike(value, result)
        if name is not None and is_made_here and is_like and ctx.form(value).parts > 1:
            ctx.destinations[value] = name
    ctx.region(body)
    _assign(ctx, results, names, body)


def _start(ctx: Writer, op: control.For | control.While, arguments: Sequence[Value]) -> list[str]:
    """Declare the variables that a loop carries."""
    for value in op.initial:
        if not isinstance(value.type, ElementType | Threadgroup):
            raise ctx.unsupported(op, f"a loop carries no {value.type}")
    starts = [ctx.value(v) for v in op.initial]
    ctx.flush()
    names = []
    for argument, result, value, start in zip(
        arguments, op.results, op.initial, starts, strict=True
    ):
        if ctx.dies_here(op, value):
            name = ctx.variables[value]
            _bind(ctx, argument, name)
        else:
            name = ctx.names.new(argument.name or result.name or value.name or "v")
            if isinstance(value.type, Threadgroup):
                ctx.put(Declare(pointer_type(ctx, value.type), name, start.tree))
                _bind(ctx, argument, name)
            else:
                ctx.define(argument, name, start)
        names.append(name)
        ctx.carried.add(name)
    return names


class _Assignment(NamedTuple):
    name: str  # of a variable,
    holds: Value  # what it was declared for,
    value: Value  # and what it is to have
    content: Expression


def _assign(
    ctx: Writer, holds: Sequence[Value], names: Sequence[str | None], region: Region
) -> None:
    """Give the variables what a region yields, all at once; None: nobody wants it."""
    left = [
        _Assignment(name, held, value, ctx.value(value))
        for name, held, value in zip(names, holds, region.end.operands, strict=True)
        if name is not None
    ]
    ctx.drop()
    left = [a for a in left if a.content.tree.text != _place(ctx, a.holds, a.name).text]
    while left:
        free = next((i for i in range(len(left)) if _is_free(left, i)), None)
        if free is None:
            # Each is still needed by another: a copy of one makes it free.
            name = left[0].name
            copy = ctx.names.new(f"old_{name}")
            _copy(ctx, left[0].holds, name, copy)
            left = [left[0], *[_renamed(a, name, copy) for a in left[1:]]]
            free = 0
        name, held, value, content = left.pop(free)
        if isinstance(held.type, Threadgroup):
            ctx.put(Assign(Name(name), content.tree))
            continue
        if ctx.form(held).parts > 1 and _needs_others(content.tree, Name(name)):
            # Elements that the loop has passed are needed at later ones.
            content = ctx.define(value, ctx.names.new(f"next_{name}"), content)
        ctx.assign(held, name, content)


def _is_free(left: Sequence[_Assignment], position: int) -> bool:
    """Whether no other assignment still needs what the variable has."""
    name = Name(left[position].name)
    return not any(a.content.tree.has(name) for i, a in enumerate(left) if i != position)


def _needs_others(content: Tree, array: Name) -> bool:
    """Whether a part of what an array is to have is made of other parts than the same."""
    if isinstance(content, Element) and content.operands[1] is PART:
        content = content.operands[0]
        return not content.is_like(array) and content.has(array)
    return content.is_like(array) or any(_needs_others(x, array) for x in content.operands)


def _renamed(assignment: _Assignment, name: str, new: str) -> _Assignment:
    content = assignment.content
    content = content._replace(tree=content.tree.put(Name(name), Name(new)))
    return assignment._replace(content=content)


def _copy(ctx: Writer, like: Value, name: str, copy: str) -> None:
    """Declare a variable that has what another has."""
    if isinstance(like.type, Threadgroup):
        ctx.put(Declare(pointer_type(ctx, like.type), copy, Name(name)))
        return
    parts = ctx.form(like).parts
    if parts == 1:
        ctx.put(Declare(ctx.held_as(like), copy, Name(name)))
        return
    ctx.put(Declare(ctx.held_as(like), copy, count=parts))
    with ctx.loop(parts, unrolled=ctx.meets_matrices(like)) as i:
        ctx.put(Assign(element(Name(copy), i), element(Name(name), i)))


# Memory of the threadgroup is carried as a pointer to its first element.


def _place(ctx: Writer, value: Value, name: str) -> Tree:
    return Name(name) if isinstance(value.type, Threadgroup) else ctx.place(value, name)


def _bind(ctx: Writer, value: Value, name: str) -> None:
    """Let a value be called by the name of a variable that a loop carries."""
    if isinstance(value.type, Threadgroup):
        ctx.expressions[value] = Expression(Name(name), in_memory(value.type.element))
        ctx.variables[value] = name
    else:
        ctx.bind_variable(value, name)
