"""Lower gathers: write elements to threadgroup memory, and load each by its index."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from iris.ir import math, metal, tile
from iris.ir.core import Value
from iris.ir.layout.linear import LANE, REGISTER, SIMDGROUP
from iris.ir.layout.scratch import WIDEST, Scratch
from iris.ir.math import element_type
from iris.ir.metal import count_of
from iris.ir.types import i32, u32, u64
from iris.passes.metal.index_arithmetic import Number
from iris.passes.tile.lowering.context import Lowering, lower, tile_layout
from iris.passes.tile.lowering.convert_layout import write_scratch


@lower(tile.Gather)
def lower_gather(ctx: Lowering, op: tile.Gather) -> Sequence[Value]:
    """The axis comes first in memory, so that no index outside it leads to another element.

    What the indices name is in any bank, also where lanes differ along the axis only: the lower
    bits of an index change those of the place among the other axes.
    """
    layout, to = tile_layout(op.x), tile_layout(op.result)
    size, dtype = layout.shape[op.axis], element_type(op.x.type).element
    others = layout.num_elements // size
    inner = prod(layout.shape[op.axis + 1 :])
    outer = others // inner
    along = [b * others | b & (others - 1) for b in _bits(size)]
    columns = (*_bits(inner), *along, *[b * inner for b in _bits(outer)])
    memory = write_scratch(ctx, ctx[op.x], layout, Scratch(columns, WIDEST // dtype.bytes))

    def places(dim: str) -> list[int]:
        """What the bits of a dimension contribute to the place among the other axes."""
        outermost = inner * to.shape[op.axis]
        return [c % inner | c // outermost * inner for c in to.columns_of(dim)]

    lanes, groups, registers = places(LANE), places(SIMDGROUP), places(REGISTER)
    thread = ctx.thread_part(lanes, groups)
    index = ctx[op.index]
    unsigned = u64 if element_type(index.type).element.bits == 64 else u32

    def read(i: Number) -> Sequence[Value]:
        # One past the end stands for all that is outside, so that the address is, too.
        own = ctx.b(math.Cast(ctx.part(index, i, 1), unsigned))
        own = ctx.b(math.Cast(ctx.binary(math.Minimum, own, ctx.constant(size, unsigned)), i32))
        rest = ctx.xor_forms(thread, ctx.linear_form(i, registers), [*lanes, *groups], registers)
        rest = ctx.xor(rest, ctx.mask(own, others - 1) if others > 1 else 0)
        address = ctx.value(ctx.add(ctx.times(own, others), rest))
        return [ctx.b(metal.Load(memory, address, result=dtype))]

    return [ctx.each(count_of(index.type), 1, read)[0]]


def _bits(size: int) -> list[int]:
    """The numbers with one bit below a power of two."""
    return [1 << b for b in range(size.bit_length() - 1)]
