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

from iris.errors import LayoutError, PipelineError
from iris.ir import metal, tile
from iris.ir.control import For
from iris.ir.core import Op, Value
from iris.ir.layout.bridge import to_linear
from iris.ir.layout.cute import Layout
from iris.ir.layout.linear import LANE, REGISTER, SIMDGROUP, LinearLayout, log2
from iris.ir.layout.swizzle import Swizzled
from iris.ir.types import Staged, Threadgroup
from iris.passes.metal.numbers import Number
from iris.passes.tile.layouts.shapes import run_along
from iris.passes.tile.lowering.context import Lowering, axis_images, lower, tile_layout


@lower(tile.Stage)
def stage(at: Lowering, op: tile.Stage) -> Sequence[Value]:
    layout, type_ = tile_layout(op.x), op.result.type
    assert isinstance(type_, Staged)
    place = _carried_as(op.result)
    if place is None:
        memory = at.b(metal.Alloc(memory_type(type_)), op.result.name)
    else:
        memory = at.spares[place]
    width = _width(type_, layout)
    address = _addresses(at, type_, layout, width)
    holder, value = at.holder(layout), at[op.x]

    def write(i: Number) -> Sequence[Value]:
        at.b.insert(metal.Store(memory, address(0, i), at.part(value, i, width), holder))
        return ()

    at.each(layout.size(REGISTER), width, write)
    return [memory]


def memory_type(type_: Staged) -> Threadgroup:
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
            "staged in that iteration, outside of branches, or carried into it, and be yielded once"
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
    type_ = staged.type
    assert isinstance(type_, Staged)
    width = _width(type_, layout)
    address = _addresses(at, type_, layout, width, axis, size)
    result = metal.registers(width, type_.element)

    def read(part: Number) -> Value:
        def each(i: Number) -> Sequence[Value]:
            return [at.b(metal.Load(at[staged], address(part, i), result=result))]

        return at.each(layout.size(REGISTER), width, each)[0]

    return read


def _strides(type_: Staged) -> tuple[int, ...]:
    """The distance between neighbours along each axis, before a swizzle."""
    layout = type_.layout
    if isinstance(layout, Swizzled):
        layout = layout.layout
    strides = layout.stride if isinstance(layout.stride, tuple) else (layout.stride,)
    plain = [s for s in strides if isinstance(s, int)]
    if len(plain) < len(strides):
        raise PipelineError(f"{type_} is not lowered: its layout has no stride for each axis")
    return tuple(plain)


def _width(type_: Staged, layout: LinearLayout) -> int:
    """How many registers one access moves: neighbours in memory, from a multiple on."""
    strides = _strides(type_)
    if 1 not in strides:
        return 1
    fastest = strides.index(1)
    width = min(run_along(layout, fastest), metal.VECTOR_BYTES // type_.element.bytes)
    if isinstance(type_.layout, Swizzled):
        width = min(width, 1 << type_.layout.swizzle.base)
    while any(stride % width for stride in strides if stride != 1):
        width //= 2
    return width


def _addresses(
    at: Lowering, type_: Staged, layout: LinearLayout, width: int, axis: int = 0, size: int = 0
) -> Callable[[Number, Number], Value]:
    """Where so many of a thread's elements are, by the number of a part along an axis, and within
    that."""
    if isinstance(type_.layout, Layout):
        return _summed(at, _strides(type_), layout, width, axis, size)
    return _combined(at, type_, layout, width, axis, size)


def _summed(
    at: Lowering, strides: Sequence[int], layout: LinearLayout, width: int, axis: int, size: int
) -> Callable[[Number, Number], Value]:
    """Addresses are sums over axes."""
    skip = width.bit_length() - 1
    base: Number = 0
    parts = []
    for along, stride in enumerate(strides):
        lanes, groups = axis_images(layout, LANE, along), axis_images(layout, SIMDGROUP, along)
        own = axis_images(layout, REGISTER, along)[skip:]
        thread = at.thread_part(lanes, groups)
        overlap = any(a & b for a in (*lanes, *groups) for b in own)
        if not overlap:
            base = at.add(base, at.times(thread, stride))
        parts.append((own, stride, thread if overlap else 0))

    def address(part: Number, i: Number) -> Value:
        here = at.add(base, at.times(part, size * strides[axis]))
        for own, stride, thread in parts:
            here = at.add(here, at.times(at.xor(thread, at.form(i, own)), stride))
        return at.value(here)

    return address


def _combined(
    at: Lowering, type_: Staged, layout: LinearLayout, width: int, axis: int, size: int
) -> Callable[[Number, Number], Value]:
    """Addresses are exclusive ors of what the bits of each number contribute."""
    memory = type_.layout
    try:
        to_linear(memory)
    except LayoutError as error:
        raise PipelineError(f"{type_} is not lowered: {error}") from error

    def images(dim: str) -> list[int]:
        return [memory(image) for image in dict(layout.bases)[dim]]

    own = images(REGISTER)[width.bit_length() - 1 :]
    thread = at.thread_part(images(LANE), images(SIMDGROUP))
    along = [tuple(size << b if a == axis else 0 for a in range(memory.rank)) for b in range(32)]
    parts = [memory(place) for place in along[: log2(type_.shape[axis] // size)]] if size else []

    def address(part: Number, i: Number) -> Value:
        return at.value(at.xor(at.xor(thread, at.form(part, parts)), at.form(i, own)))

    return address
