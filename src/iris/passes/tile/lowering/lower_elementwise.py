"""Lower elementwise ops, program indices, and ops that only rename registers."""

from __future__ import annotations

from collections.abc import Sequence

from iris.ir import math, metal, tile
from iris.ir.core import Op, Value
from iris.ir.layout.linear import REGISTER
from iris.ir.layout.spread import spread
from iris.ir.types import DType, Tile
from iris.passes.tile.lowering.context import Lowering, axis_images, lower, tile_layout


@lower(math.Elementwise, math.Constant)
def lower_elementwise(ctx: Lowering, op: Op) -> Sequence[Value]:
    (result,) = op.results
    operands = tuple([ctx[v] for v in op.operands])
    return [ctx.b.once(type(op), operands, op.attributes, ctx.type(result.type))]


# The index of a program.


@lower(tile.ProgramId)
def lower_program_id(ctx: Lowering, op: tile.ProgramId) -> Sequence[Value]:
    return [ctx.b(metal.ThreadgroupId(op.axis))]


@lower(tile.NumPrograms)
def lower_num_programs(ctx: Lowering, op: tile.NumPrograms) -> Sequence[Value]:
    return [ctx.b(metal.NumThreadgroups(op.axis))]


@lower(tile.Extent)
def lower_extent(ctx: Lowering, op: tile.Extent) -> Sequence[Value]:
    return [ctx.b(metal.Extent(op.axis, ctx[op.base]))]


# New tiles, and tiles in other shapes: registers stay, or are renumbered.


@lower(tile.Arange)
def lower_arange(ctx: Lowering, op: tile.Arange) -> Sequence[Value]:
    element = op.result.type.element
    return [element_numbers(ctx, op.result, element, op.start)]


def element_numbers(ctx: Lowering, tile_: Value, element: DType, start: int = 0) -> Value:
    """The row-major number of each element of a tile that a thread holds."""
    layout = tile_layout(tile_)
    flat = layout.reshape((layout.num_elements,))
    registers, lanes, groups = (axis_images(flat, dim, 0) for dim in flat.dims)
    threads = [*lanes, *groups]
    thread = ctx.thread_part(lanes, groups)
    count = flat.size(REGISTER)
    if count == 1:
        return ctx.value(ctx.add(thread, start), element)
    type_ = metal.registers(count, element)
    steps = ctx.b(metal.Pattern(tuple(registers), type_))
    overlap = any(a & b for a in threads for b in registers)
    if overlap:
        mixed = ctx.b(math.Xor(ctx.splat(ctx.value(thread, element), count), steps))
        return ctx.b(math.Add(mixed, ctx.constant(start, type_))) if start else mixed
    first = ctx.add(thread, start)
    return ctx.b(math.Add(ctx.splat(ctx.value(first, element), count), steps)) if first else steps


@lower(tile.Broadcast)
def lower_broadcast(ctx: Lowering, op: tile.Broadcast) -> Sequence[Value]:
    layout = tile_layout(op.result)
    if not isinstance(op.x.type, Tile):
        return [ctx.splat(ctx[op.x], layout.size(REGISTER))]
    return [ctx.take(ctx[op.x], spread(layout, op.x.type.shape).sources)]


@lower(tile.ExpandDims, tile.Reshape, tile.Transpose)
def lower_view(ctx: Lowering, op: Op) -> Sequence[Value]:
    return [ctx[op.operands[0]]]
