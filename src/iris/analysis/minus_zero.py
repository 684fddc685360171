"""Which values have no -0.0."""

from __future__ import annotations

from collections.abc import Sequence
from math import copysign

from iris.ir import math, tile
from iris.ir.control import For, While
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
    if isinstance(op, math.Select | tile.Update):
        return all(_has_no_minus_zero(v, assumed) for v in op.operands[-2:])
    if isinstance(op, tile.Broadcast | tile.ExpandDims | tile.Reshape | tile.Transpose):
        return _has_no_minus_zero(op.x, assumed)
    if isinstance(op, tile.Dot):
        return op.acc is not None and _has_no_minus_zero(op.acc, assumed)
    sources = _carried(x)
    return bool(sources) and all(_has_no_minus_zero(v, assumed) for v in sources)


def _carried(x: Value) -> Sequence[Value]:
    """What a value is at first and after each round, of a result or a variable of a loop."""
    loop = x.op if x.op is not None else x.home.owner if x.home is not None else None
    if not isinstance(loop, For | While):
        return ()
    ends = loop.body.end.operands
    index = x.index - (len(loop.body.arguments) - len(ends) if x.op is None else 0)
    return () if index < 0 else (loop.initial[index], ends[index])
