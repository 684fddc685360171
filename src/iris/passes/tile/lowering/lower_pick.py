"""Lower picks: from a thread's own registers, then from another lane, then from a simdgroup."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import xor

from iris.ir import math, tile
from iris.ir.core import Value
from iris.ir.layout.linear import LinearLayout
from iris.ir.layout.reduce import reduce_axis
from iris.ir.layout.scratch import scratch
from iris.ir.types import Tile
from iris.passes.tile.layouts.access_layouts import pickable
from iris.passes.tile.lowering.context import Lowering, axis_images, lower, tile_layout
from iris.passes.tile.lowering.convert_layout import (
    convert_layout,
    read_scratch,
    shuffle_xor,
    write_scratch,
)


@lower(tile.Pick)
def lower_pick(ctx: Lowering, op: tile.Pick) -> Sequence[Value]:
    """Each bit of the index lies in a bit of the register, the lane or the simdgroup.

    Both lanes of a pair shuffle alike whichever bit is picked, so two picks share the shuffle.
    """
    layout = pickable(tile_layout(op.x), op.axis)
    x = convert_layout(ctx, ctx[op.x], tile_layout(op.x), layout)
    plan = reduce_axis(layout, op.axis)
    registers, lanes, groups = (axis_images(layout, dim, op.axis) for dim in layout.dims)
    x = ctx.take(x, [_member(group, registers, op.index) for group in plan.registers])
    for bit, image in enumerate(lanes):
        if image:
            other = shuffle_xor(ctx, x, 1 << bit)
            is_high = ctx.compare(math.Predicate.NE, ctx.mask(ctx.lane, 1 << bit), 0)
            if image & op.index:
                x = ctx.b(math.Select(is_high, x, other))
            else:
                x = ctx.b(math.Select(is_high, other, x))
    if any(groups):
        owner = sum(1 << bit for bit, image in enumerate(groups) if image & op.index)
        x = _from_simdgroup(ctx, x, plan.result, owner)
    if isinstance(op.result.type, Tile):
        x = convert_layout(ctx, x, plan.result, tile_layout(op.result))
    return [x]


def _member(registers: Sequence[int], images: Sequence[int], index: int) -> int:
    """The one of some registers whose bits of the index are those of the index that is picked."""
    every = sum(images)

    def own(register: int) -> int:
        return reduce(xor, [im for bit, im in enumerate(images) if register >> bit & 1], 0)

    return next(r for r in registers if own(r) == index & every)


def _from_simdgroup(ctx: Lowering, x: Value, layout: LinearLayout, owner: int) -> Value:
    """Write elements to threadgroup memory in the simdgroups that have them; read them in all."""
    memory_layout = scratch(layout, layout, x.type.element.bytes, ctx.target)
    memory = write_scratch(ctx, x, layout, memory_layout, owner)
    return read_scratch(ctx, memory, layout, memory_layout)
