"""Assert that replicas of an element have equal bits."""

from __future__ import annotations

from iris.ir import math, metal
from iris.ir.core import Value
from iris.ir.layout.linear import LANE, Span
from iris.ir.math import Predicate, element_type
from iris.ir.types import Tile, i16, i32
from iris.passes.tile.lowering.context import Lowering, tile_layout
from iris.passes.tile.lowering.convert_layout import shuffle_xor

_BITS = {16: i16, 32: i32}


def assert_equal_replicas(ctx: Lowering, tile: Value, x: Value) -> None:
    """Assert that an element is equal in all lanes that hold it; all nans are equal."""
    if not isinstance(tile.type, Tile) or not tile.users:
        return
    made_by = "a region" if tile.op is None else tile.op.name
    for mask in Span(tile_layout(tile).columns_of(LANE)).relations:
        y = shuffle_xor(ctx, x, mask)
        same = ctx.b(math.Compare(Predicate.EQ, _bits(ctx, x), _bits(ctx, y)))
        if tile.type.element.is_float:
            nans = [ctx.b(math.Compare(Predicate.NE, v, v)) for v in (x, y)]
            same = ctx.b(math.Or(same, ctx.b(math.And(*nans))))
        for element in range(metal.count_of(same.type)):
            message = f"replicas of what {made_by} gives are equal"
            ctx.b.insert(metal.Assert(message, ctx.take(same, [element])))


def _bits(ctx: Lowering, x: Value) -> Value:
    type_ = element_type(x.type)
    if not type_.element.is_float:
        return x
    return ctx.b(math.Bitcast(x, type_.with_element(_BITS[type_.element.bits])))
