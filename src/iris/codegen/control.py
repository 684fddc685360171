"""Loops and branches, and the variables that carry values through them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from iris.codegen.expression import Expression
from iris.codegen.operators import dtype_of, logical_not, ternary
from iris.codegen.statements import Assign, Declare, For, If, Run, While
from iris.codegen.tree import (
    PART,
    Call,
    Name,
    Number,
    Tree,
    Unary,
    binary,
    number,
)
from iris.codegen.tree import ternary as choice
from iris.codegen.writer import Held, Writer, emit
from iris.ir import control
from iris.ir.core import Region, Value
from iris.ir.in_place import is_last_use
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
    names = _start(ctx, op)
    constant = op.step.op.value if isinstance(op.step.op, Constant) else None
    advanced = step if op.nowrap else ctx.typed(op.step)
    with ctx.nest() as body:
        i = Name(ctx.names.new(variable.name) if variable.name else ctx.names.index())
        ctx.expressions[variable] = Expression(i, dtype)
        ctx.region(op.body)
        _assign(ctx, carried, names, op.body)
    test = _test(i, upper.tree, step.tree, constant)
    advance = _advance(ctx, i, advanced.tree, constant, op.nowrap)
    pragma = ctx.language.unroll if _numbers_registers(op) else None
    ctx.put(For(body, ctx.language.types[dtype], i.word, lower, test, advance, pragma))
    for value, target in zip(op.results, names, strict=True):
        ctx.bind_variable(value, target)


def _numbers_registers(op: control.For) -> bool:
    """Whether the variable of a loop says which part of an array in registers, which has no numbers
    unless the loop is unrolled."""
    (variable, *_) = op.body.arguments
    return op.trip_count() is not None and any(isinstance(u, Slice) for u in variable.users)


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
        return Assign(i, binary("-", i, step.without_sign())).text
    return Assign(i, binary("+", i, step)).text


@emit(control.While)
def _while(ctx: Writer, op: control.While) -> None:
    names = _start(ctx, op)
    for value, name in zip(op.body.arguments, names, strict=True):
        ctx.bind_variable(value, name)
    with ctx.nest() as body:
        ctx.region(op.condition)
        (more,) = op.condition.end.operands
        condition: Tree | None = ctx.value(more).tree
        if body:
            ctx.drop()
            ctx.put(If([Run(Name("break"))], logical_not(ctx.value(more)).tree))
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
    with ctx.nest() as body:
        _branch(ctx, op.results, names, op.then)
    with ctx.nest() as other:
        _branch(ctx, op.results, names, op.otherwise)
    if not body:
        body, other, condition = other, [], logical_not(condition)
    if body:
        ctx.put(If(body, condition.tree, other))


def _branch(
    ctx: Writer, results: Sequence[Value], names: Sequence[str | None], body: Region
) -> None:
    """One way to the values of a branch; an array is made where it is to be."""
    for result, name, value in zip(results, names, body.end.operands, strict=True):
        is_made_here = value.home is body and len(value.users) == 1
        if name is None or not is_made_here or ctx.form(value).parts == 1:
            continue
        if ctx.held(value) == ctx.held(result):
            ctx.destinations[value] = name
    ctx.region(body)
    _assign(ctx, results, names, body)


def _start(ctx: Writer, op: control.Loop) -> list[str]:
    """Declare the variables that a loop carries."""
    for value in op.initial:
        if not isinstance(value.type, (ElementType, Threadgroup)):
            raise ctx.unsupported(op, f"a loop carries no {value.type}")
    starts = [ctx.value(v) for v in op.initial]
    ctx.flush()
    names = []
    for index, start in enumerate(starts):
        value, (argument, *_), _, result = op.carried_at(index)
        name = None
        if index in op.in_place:
            name = ctx.overwritten(op, value, is_free=is_last_use(op, value))
        if name is not None:
            ctx.bind_variable(argument, name)
        else:
            name = ctx.names.new(argument.name or result.name or value.name or "v")
            ctx.define(argument, name, start)
        names.append(name)
    return names


class _Move(NamedTuple):
    name: str  # of a variable,
    held: Held  # how that holds values,
    value: Value  # what it is to have,
    content: Expression  # and what that is

    def reads(self, other: _Move) -> bool:
        """Whether it reads the variable that another one assigns."""
        return self.content.tree.has(Name(other.name))


def _assign(
    ctx: Writer, holds: Sequence[Value], names: Sequence[str | None], region: Region
) -> None:
    """Give the variables what a region yields, all at once; None: nobody wants it."""
    moves = []
    for name, old, value in zip(names, holds, region.end.operands, strict=True):
        if name is not None:
            moves.append(_Move(name, ctx.held(old), value, ctx.value(value)))
    ctx.drop()
    moves = [m for m in moves if m.content.tree.text != ctx.place(m.held, m.name).text]
    arrays = [m for m in moves if m.held.parts > 1]
    scalars = [m for m in moves if m.held.parts == 1]
    # Each element may read only elements of the same number.
    arrays = [_computed(ctx, m) if _reads_others(ctx, m, arrays) else m for m in arrays]
    # What they hold now is gone once the arrays are assigned, and scalars may need it.
    scalars = [_computed(ctx, m) if any(map(m.reads, arrays)) else m for m in scalars]
    moves = [*arrays, *scalars]
    for parts in dict.fromkeys([m.held.parts for m in moves]):
        with ctx.loop(parts) as i:
            _assign_in_order(ctx, [m for m in moves if m.held.parts == parts], i)


def _reads_others(ctx: Writer, move: _Move, arrays: Sequence[_Move]) -> bool:
    """Whether a move reads elements of an array at other numbers than its own."""
    for other in arrays:
        if other.held.parts == move.held.parts:
            own = ctx.variable(other.held, other.name)
            move = move._replace(content=move.content.put(own, PART))
    return any(map(move.reads, arrays))


def _computed(ctx: Writer, move: _Move) -> _Move:
    """Compute the new content before, into a variable of its own."""
    name = ctx.names.new(f"next_{move.name}")
    return move._replace(content=ctx.define(move.value, name, move.content))


def _assign_in_order(ctx: Writer, moves: list[_Move], i: Tree) -> None:
    """Assign variables, or the elements of a number of arrays, each before what it has is gone."""
    while moves:
        free = next((m for m in moves if not any(o.reads(m) for o in moves if o is not m)), None)
        if free is None:
            # Each is still needed by another: a copy of one makes it free.
            free = moves[0]
            old = Name(ctx.names.new(f"old_{free.name}"))
            here = ctx.variable(free.held, free.name).at(i)
            ctx.put(Declare(free.held.type, old.word, here))
            moves = [
                m if m is free else m._replace(content=m.content.at(i).put(here, old))
                for m in moves
            ]
        moves = [m for m in moves if m is not free]
        ctx.assign_part(free.held, free.name, free.content, i)
