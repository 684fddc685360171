"""Whether a value is computed from another element by element, as an updated variable is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import is_

from iris.ir import math, tile
from iris.ir.control import If, Loop
from iris.ir.core import Value
from iris.ir.math import element_type

ELEMENTWISE = (math.Elementwise, tile.Update)


def made_of(new: Value, is_old: Callable[[Value], bool]) -> bool:
    """Whether a value is computed element by element from one that `is_old` knows.

    A result of a branch is, if both sides yield such a value.
    """
    todo, seen = [new], {new}
    while todo:
        value = todo.pop()
        if is_old(value):
            return True
        if isinstance(value.op, If):
            given = [region.end.operands[value.index] for region in value.op.regions]
            if all(made_of(v, is_old) for v in given):
                return True
        sources = [v for v in _sources(value) if v not in seen]
        todo += sources
        seen.update(sources)
    return False


def _sources(value: Value) -> Sequence[Value]:
    """What an element of a value is made of, where that is one element of each."""
    op = value.op
    if isinstance(op, math.Select):
        return op.operands[1:]
    if isinstance(op, tile.Update):
        return (op.old,)  # a variable is made of what it held; what is assigned was another's
    if isinstance(op, ELEMENTWISE):
        return op.operands
    if isinstance(op, (tile.Broadcast, tile.ExpandDims)):
        return () if element_type(op.x.type).shape else op.operands
    if isinstance(op, tile.Dot):
        return op.operands[2:]
    if isinstance(op, Loop):
        carried = op.carried_at(value.index)
        if made_of(carried.yielded, partial(is_, carried.argument)):
            return (carried.initial,)
    return ()
