"""Which values are multiplied as matrices, and where they come from."""

from __future__ import annotations

from collections import defaultdict

from iris.analysis.liveness import is_unused
from iris.ir.control import For, If, While, carried_together
from iris.ir.core import Region, Value
from iris.ir.math import Constant
from iris.ir.metal import Mma, Slice


def multiplied(body: Region, dead: frozenset[Value]) -> frozenset[Value]:
    """The factors and sums of products that some op needs, and what loops, branches and slices
    carry these from and to."""
    carriers: defaultdict[Value, list[Value]] = defaultdict(list)
    pending: list[Value] = []
    for op in body.walk():
        if isinstance(op, For | While | If):
            for values in carried_together(op):
                for value in values:
                    if not isinstance(value.op, Constant):
                        carriers[value] += values
        elif isinstance(op, Slice):
            carriers[op.result].append(op.x)
        elif isinstance(op, Mma) and not is_unused(op, dead):
            pending += [*op.operands, op.result]
    found: set[Value] = set()
    while pending:
        value = pending.pop()
        if value not in found:
            found.add(value)
            pending += carriers[value]
    return frozenset(found)
