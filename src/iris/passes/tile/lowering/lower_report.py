"""Lower asserts and prints."""

from __future__ import annotations

from collections.abc import Sequence

from iris.ir import math, metal, tile
from iris.ir.core import Value
from iris.ir.layout.linear import REGISTER
from iris.ir.math import element_type
from iris.ir.types import Tile, Type, i32
from iris.passes.tile.lowering.context import Lowering, lower, tile_layout
from iris.passes.tile.lowering.lower_elementwise import element_numbers


@lower(tile.Assert)
def lower_assert(ctx: Lowering, op: tile.Assert) -> Sequence[Value]:
    """Check in every thread all elements that it holds."""
    holds = ctx[op.condition]
    size = metal.count_of(holds.type)
    while size > 1:
        size //= 2
        low, high = ctx.take(holds, range(size)), ctx.take(holds, range(size, 2 * size))
        holds = ctx.b(math.And(low, high))
    ctx.b.insert(metal.Assert(op.message, holds))
    return ()


@lower(tile.Print)
def lower_print(ctx: Lowering, op: tile.Print) -> Sequence[Value]:
    types: list[Type] = []
    numbers = []
    for value in op.values:
        type_ = element_type(value.type)
        types.append(Tile(type_.shape, type_.element) if type_.shape else type_)
        numbers.append(_reported_numbers(ctx, value))
    values = [ctx[v] for v in op.values]
    ctx.b.insert(metal.Print(op.prefix, tuple(types), values=values, places=numbers))
    return ()


def _reported_numbers(ctx: Lowering, value: Value) -> Value:
    """The row-major number of each element, or -1 where another thread reports it."""
    if not isinstance(value.type, Tile):
        numbers, layout = ctx.constant(0), None
    else:
        numbers, layout = element_numbers(ctx, value, i32), tile_layout(value)
    type_ = element_type(numbers.type)
    unreported = ctx.constant(-1, type_)
    holder = ctx.holder(layout)
    if layout is not None and layout.free_bits()[REGISTER]:
        surplus = layout.free_bits()[REGISTER]
        count = metal.count_of(type_)
        kept = [-1 if r & surplus else 0 for r in range(count)]
        spare = ctx.b(metal.Literal(tuple(kept), type_))
        numbers = ctx.b(math.Or(numbers, spare))
    return numbers if holder is None else ctx.b(math.Select(holder, numbers, unreported))
