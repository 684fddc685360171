"""Which values have no -0.0."""

from __future__ import annotations

from math import copysign

from iris.ir import math, tile
from iris.ir.control import carried
from iris.ir.core import Value


def stays_if_zero_is_added(x: Value) -> bool:
    """Whether adding 0 never changes a value: whether it has no -0.0, which would become 0.0.

    A sum of values without -0.0 has none.
    """
    return _has_no_minus_zero(x, set())


def _has_no_minus_zero(x: Value, assumed: set[Value]) -> bool:
    """Given that what is assumed has none: what a loop carries, in the rounds before."""
    if not x.type.element.is_float or x in assumed:
        return True
    assumed.add(x)
    op = x.op
    if isinstance(op, math.Constant):
        return op.value != 0 or copysign(1, op.value) > 0
    if isinstance(op, math.Add):
        return any(_has_no_minus_zero(v, {*assumed}) for v in op.operands)
    if isinstance(op, (math.Select, tile.Update)):
        return all(_has_no_minus_zero(v, assumed) for v in op.operands[-2:])
    if isinstance(op, (tile.Broadcast, tile.ExpandDims, tile.Reshape, tile.Transpose)):
        return _has_no_minus_zero(op.x, assumed)
    if isinstance(op, tile.Dot):
        return op.acc is not None and _has_no_minus_zero(op.acc, assumed)
    slot = carried(x)
    return slot is not None and all(
        _has_no_minus_zero(v, assumed) for v in (slot.initial, slot.yielded)
    )
