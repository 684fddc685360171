"""What a thread does to each of its elements alone."""

from __future__ import annotations

from collections.abc import Sequence

from iris.ir import math, metal, tile
from iris.ir.core import Op, Value
from iris.ir.layout.linear import REGISTER
from iris.ir.layout.spread import spread
from iris.ir.math import element_type
from iris.ir.types import DType, Tile
from iris.passes.tile.lowering.context import Lowering, axis_images, lower, tile_layout


@lower(math.Elementwise, math.Constant)
def elementwise(at: Lowering, op: Op) -> Sequence[Value]:
    operands = tuple([at[v] for v in op.operands])
    types = [at.type(v.type) for v in op.results]
    return at.b.insert(type(op).create(operands, op.attributes, types)).results


# Where a program is.


@lower(tile.ProgramId)
def program_id(at: Lowering, op: tile.ProgramId) -> Sequence[Value]:
    return [at.b(metal.ThreadgroupId(op.axis))]


@lower(tile.NumPrograms)
def num_programs(at: Lowering, op: tile.NumPrograms) -> Sequence[Value]:
    return [at.b(metal.NumThreadgroups(op.axis))]


@lower(tile.Extent)
def extent(at: Lowering, op: tile.Extent) -> Sequence[Value]:
    return [at.b(metal.Extent(op.axis, at[op.base]))]


# Tiles out of nothing, and in other shapes: registers stay, or are named anew.


@lower(tile.Arange)
def arange(at: Lowering, op: tile.Arange) -> Sequence[Value]:
    element = element_type(op.result.type).element
    return [element_numbers(at, op.result, element, op.start)]


def element_numbers(at: Lowering, tile_: Value, element: DType, start: int = 0) -> Value:
    """The row-major number of each element of a tile that a thread holds."""
    layout = tile_layout(tile_)
    flat = layout.reshape((layout.num_elements,))
    registers, lanes, groups = (axis_images(flat, dim, 0) for dim in flat.dims)
    threads = [*lanes, *groups]
    thread = at.thread_part(lanes, groups)
    count = flat.size(REGISTER)
    if count == 1:
        return at.value(at.add(thread, start), element)
    type_ = metal.registers(count, element)
    steps = at.b(metal.Pattern(tuple(registers), type_))
    overlap = any(a & b for a in threads for b in registers)
    if overlap:
        mixed = at.b(math.Xor(at.splat(at.value(thread, element), count), steps))
        return at.b(math.Add(mixed, at.constant(start, type_))) if start else mixed
    first = at.add(thread, start)
    return at.b(math.Add(at.splat(at.value(first, element), count), steps)) if first else steps


@lower(tile.Broadcast)
def broadcast(at: Lowering, op: tile.Broadcast) -> Sequence[Value]:
    layout = tile_layout(op.result)
    if not isinstance(op.x.type, Tile):
        return [at.splat(at[op.x], layout.size(REGISTER))]
    return [at.take(at[op.x], spread(layout, op.x.type.shape).sources)]


@lower(tile.ExpandDims, tile.Reshape, tile.Transpose)
def same_registers(at: Lowering, op: Op) -> Sequence[Value]:
    return [at[op.operands[0]]]
