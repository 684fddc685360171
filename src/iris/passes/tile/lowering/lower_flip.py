"""Lower flips: along a thread's registers, then between lanes, then between simdgroups."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import xor

from iris.ir import metal, tile
from iris.ir.core import Value
from iris.ir.math import element_type
from iris.ir.metal import SIMDGROUP_WIDTH, count_of
from iris.ir.types import Threadgroup
from iris.passes.metal.index_arithmetic import Number
from iris.passes.tile.lowering.context import Lowering, lower, tile_layout
from iris.passes.tile.lowering.convert_layout import shuffle_xor


@lower(tile.Flip)
def lower_flip(ctx: Lowering, op: tile.Flip) -> Sequence[Value]:
    """A reversed index has all its bits inverted, so each element comes from one distance."""
    image = dict(tile_layout(op.x).right_inverse().bases)[f"dim{op.axis}"]
    # Of an axis with one element there are no bits.
    register, lane, simdgroup = (reduce(xor, [bit[d] for bit in image], 0) for d in range(3))
    return [from_distance(ctx, ctx[op.x], register, lane, simdgroup)]


def from_distance(ctx: Lowering, x: Value, register: int, lane: int, simdgroup: int) -> Value:
    """Elements of the threads and registers whose numbers differ by these bits."""
    x = ctx.take(x, [r ^ register for r in range(count_of(x.type))])
    if lane:
        x = shuffle_xor(ctx, x, lane)
    return _from_simdgroup(ctx, x, simdgroup) if simdgroup else x


def _from_simdgroup(ctx: Lowering, x: Value, distance: int) -> Value:
    """Swap values with another simdgroup, through threadgroup memory."""
    threads, count = SIMDGROUP_WIDTH * ctx.simdgroups, count_of(x.type)
    dtype = element_type(x.type).element
    memory = ctx.b(metal.Alloc(Threadgroup(count * threads, dtype)), "flipped")
    own = ctx.add(ctx.lane, ctx.times(ctx.simdgroup, SIMDGROUP_WIDTH))
    other = ctx.xor(own, distance * SIMDGROUP_WIDTH)

    def write(i: Number) -> Sequence[Value]:
        place = ctx.value(ctx.add(own, ctx.times(i, threads)))
        ctx.b.insert(metal.Store(memory, place, ctx.part(x, i, 1)))
        return ()

    def read(i: Number) -> Sequence[Value]:
        place = ctx.value(ctx.add(other, ctx.times(i, threads)))
        return [ctx.b(metal.Load(memory, place, result=dtype))]

    ctx.each(count, 1, write)
    return ctx.each(count, 1, read)[0]
