"""Asserts and prints."""

from __future__ import annotations

from collections.abc import Sequence

from iris.ir import math, metal, tile
from iris.ir.core import Value
from iris.ir.layout.linear import REGISTER
from iris.ir.math import element_type
from iris.ir.types import Tile, Type, i32
from iris.passes.tile.lowering.context import Lowering, lower, tile_layout
from iris.passes.tile.lowering.elementwise import element_numbers


@lower(tile.Assert)
def check(at: Lowering, op: tile.Assert) -> Sequence[Value]:
    """Each thread checks its elements, whoever else has them: they are alike."""
    holds = at[op.condition]
    size = metal.count_of(holds.type)
    while size > 1:
        size //= 2
        low, high = at.take(holds, range(size)), at.take(holds, range(size, 2 * size))
        holds = at.b(math.And(low, high))
    at.b.insert(metal.Assert(op.message, holds))
    return ()


@lower(tile.Print)
def report(at: Lowering, op: tile.Print) -> Sequence[Value]:
    types: list[Type] = []
    places = []
    for value in op.values:
        type_ = element_type(value.type)
        types.append(Tile(type_.shape, type_.element) if type_.shape else type_)
        places.append(_places(at, value))
    values = [at[v] for v in op.values]
    at.b.insert(metal.Print(op.prefix, tuple(types), values=values, places=places))
    return ()


def _places(at: Lowering, value: Value) -> Value:
    """The number of each element, or -1 where another thread reports it."""
    if not isinstance(value.type, Tile):
        numbers, layout = at.constant(0), None
    else:
        numbers, layout = element_numbers(at, value, i32), tile_layout(value)
    type_ = element_type(numbers.type)
    nowhere = at.constant(-1, type_)
    holder = at.holder(layout)
    if layout is not None and layout.free_bits()[REGISTER]:
        surplus = layout.free_bits()[REGISTER]
        count = metal.count_of(type_)
        kept = [-1 if r & surplus else 0 for r in range(count)]
        spare = at.b(metal.Literal(tuple(kept), type_))
        numbers = at.b(math.Or(numbers, spare))
    return numbers if holder is None else at.b(math.Select(holder, numbers, nowhere))
