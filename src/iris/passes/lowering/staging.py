"""Staged tiles: written to threadgroup memory once, read where they are wanted.

A loop may carry a staged tile.  It then has two memories for it: while it reads the one of this
round, it may write that of the next.

    for %lo, %hi, %s (%k: i32, %a: staged<64x32xf32, ...> = %first) {
      ...
      %next: staged<64x32xf32, ...> = tile.stage %x
      yield %next
    }

becomes

    %spare: threadgroup<2048xf32> = metal.alloc
    for %lo, %hi, %s (%k: i32, %a: threadgroup<2048xf32> = %first, %a_next: ... = %spare) {
      ...
      metal.store %a_next, ...
      yield %a_next, %a
    }
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iris.errors import PipelineError
from iris.ir import metal, tile
from iris.ir.control import For
from iris.ir.core import Op, Value
from iris.ir.layout.cute import Layout
from iris.ir.layout.linear import LANE, REGISTER, SIMDGROUP, LinearLayout
from iris.ir.types import Staged, Threadgroup
from iris.passes.layouts.shapes import run_along
from iris.passes.lowering.context import Lowering, axis_images, lower, tile_layout
from iris.passes.numbers import Number

WIDEST = 16  # bytes of one access


@lower(tile.Stage)
def stage(at: Lowering, op: tile.Stage) -> Sequence[Value]:
    layout, strides = tile_layout(op.x), _strides(op.result)
    type_ = op.result.type
    assert isinstance(type_, Staged)
    place = _carried_as(op.result)
    if place is None:
        memory = at.b(metal.Alloc(memory_type(type_)), op.result.name)
    else:
        memory = at.spares[place]
    width = _width(type_, strides, layout)
    address = _addresses(at, layout, strides, width)
    holder, value = at.holder(layout), at[op.x]

    def write(i: Number) -> Sequence[Value]:
        at.b.insert(metal.Store(memory, address(i), at.part(value, i, width), holder))
        return ()

    at.each(layout.size(REGISTER), width, write)
    return [memory]


def memory_type(type_: Staged) -> Threadgroup:
    assert isinstance(type_.layout, Layout)
    return Threadgroup(type_.layout.cosize, type_.element)


def _carried_as(staged: Value) -> Value | None:
    """What a staged tile is in the next round of the loop in which it is made, if it is carried
    there."""
    assert staged.op is not None
    region = staged.op.parent
    if region is None or not isinstance(region.owner, For):
        return None
    carried = zip(region.owner.carried, region.end.operands, strict=True)
    return next((argument for argument, value in carried if value is staged), None)


def second_buffer(at: Lowering, loop: For, initial: Value) -> Value:
    """The memory that a loop has for a staged tile besides the one in which that comes to it."""
    is_own = initial.home is loop.parent and isinstance(initial.op, tile.Stage | For)
    if not is_own or len(initial.users) > 1 or loop.operands.count(initial) > 1:
        raise PipelineError(
            f"{initial!r} is not lowered: a loop writes over the staged tile that it begins with, "
            "which therefore must be staged for it alone, right before it"
        )
    type_ = initial.type
    assert isinstance(type_, Staged)
    if initial in at.spares:
        return at.spares[initial]
    return at.b(metal.Alloc(memory_type(type_)), initial.name)


def yielded(at: Lowering, loop: For, end: Op) -> Sequence[Value]:
    """What a round of a loop hands on: for each staged tile the memory that it is in, and one of
    those in which no tile is that the next round has."""
    memories = [
        memory
        for argument in loop.carried
        if isinstance(argument.type, Staged)
        for memory in (at[argument], at.spares[argument])
    ]
    taken = [at[v] for v in end.operands if isinstance(v.type, Staged)]
    free = [m for m in memories if m not in taken]
    if not {*taken} <= {*memories} or len({*taken}) < len(taken):
        raise PipelineError(
            f"@{at.source.symbol} is not lowered: each staged tile that a loop yields must be "
            "staged in that round, outside of branches, or carried into it, and be yielded once"
        )
    values = []
    for value in end.operands:
        values.append(at[value])
        if isinstance(value.type, Staged):
            spare = next(m for m in free if m.type is at[value].type)
            free.remove(spare)
            values.append(spare)
    return values


@lower(tile.Unstage)
def unstage(at: Lowering, op: tile.Unstage) -> Sequence[Value]:
    return [reader(at, op.x, tile_layout(op.result), 0, 0)(0)]


def reader(
    at: Lowering, staged: Value, layout: LinearLayout, axis: int, size: int
) -> Callable[[Number], Value]:
    """What reads a part of a staged tile, in a layout of the part; parts are numbered along an
    axis, and of so many elements there."""
    strides = _strides(staged)
    type_ = staged.type
    assert isinstance(type_, Staged)
    width = _width(type_, strides, layout)
    address = _addresses(at, layout, strides, width)
    result = metal.registers(width, type_.element)

    def read(part: Number) -> Value:
        start = at.times(part, size * strides[axis])

        def each(i: Number) -> Sequence[Value]:
            place = at.value(at.add(start, address(i)))
            return [at.b(metal.Load(at[staged], place, result=result))]

        return at.each(layout.size(REGISTER), width, each)[0]

    return read


def _strides(staged: Value) -> tuple[int, ...]:
    type_ = staged.type
    assert isinstance(type_, Staged)
    layout = type_.layout
    if not isinstance(layout, Layout) or not all(isinstance(s, int) for s in _tuple(layout.stride)):
        raise PipelineError(
            f"{type_} is not lowered: its memory layout has no stride for each axis"
        )
    return tuple([s for s in _tuple(layout.stride) if isinstance(s, int)])


def _tuple(tree: object) -> tuple[object, ...]:
    return tree if isinstance(tree, tuple) else (tree,)


def _width(type_: Staged, strides: Sequence[int], layout: LinearLayout) -> int:
    """How many registers one access moves: neighbours in memory, from a multiple on."""
    if 1 not in strides:
        return 1
    fastest = strides.index(1)
    width = min(run_along(layout, fastest), WIDEST // (type_.element.bits // 8 or 1))
    while any(stride % width for stride in strides if stride != 1):
        width //= 2
    return width


def _addresses(
    at: Lowering, layout: LinearLayout, strides: Sequence[int], width: int
) -> Callable[[Number], Value]:
    """Where a thread's elements are, a part of so many registers at a time."""
    skip = width.bit_length() - 1
    base: Number = 0
    parts = []
    for axis, stride in enumerate(strides):
        lanes, groups = axis_images(layout, LANE, axis), axis_images(layout, SIMDGROUP, axis)
        own = axis_images(layout, REGISTER, axis)[skip:]
        thread = at.thread_part(lanes, groups)
        overlap = any(a & b for a in (*lanes, *groups) for b in own)
        if not overlap:
            base = at.add(base, at.times(thread, stride))
        parts.append((own, stride, thread if overlap else 0))

    def address(i: Number) -> Value:
        here = base
        for own, stride, thread in parts:
            here = at.add(here, at.times(at.xor(thread, at.form(i, own)), stride))
        return at.value(here)

    return address
