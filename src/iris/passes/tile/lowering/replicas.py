"""Checking that lanes which have the same element have the same bits."""

from __future__ import annotations

from iris.ir import math, metal
from iris.ir.core import Value
from iris.ir.layout.linear import LANE, Span
from iris.ir.math import Predicate, element_type
from iris.ir.types import Tile, i16, i32
from iris.passes.tile.lowering.context import Lowering, tile_layout
from iris.passes.tile.lowering.move import shuffle_xor

_BITS = {16: i16, 32: i32}


def check(at: Lowering, tile: Value, x: Value) -> None:
    """Assert that a tile's elements are the same in all lanes that have them, one nan being like
    another."""
    if not isinstance(tile.type, Tile) or not tile.users:
        return
    made_by = "a region" if tile.op is None else tile.op.name
    for mask in Span(tile_layout(tile).columns_of(LANE)).relations:
        y = shuffle_xor(at, x, mask)
        same = at.b(math.Compare(Predicate.EQ, _bits(at, x), _bits(at, y)))
        if tile.type.element.is_float:
            nans = [at.b(math.Compare(Predicate.NE, v, v)) for v in (x, y)]
            same = at.b(math.Or(same, at.b(math.And(*nans))))
        for element in range(metal.count_of(same.type)):
            message = f"replicas of what {made_by} gives are equal"
            at.b.insert(metal.Assert(message, at.take(same, [element])))


def _bits(at: Lowering, x: Value) -> Value:
    type_ = element_type(x.type)
    if not type_.element.is_float:
        return x
    return at.b(math.Bitcast(x, type_.with_element(_BITS[type_.element.bits])))
