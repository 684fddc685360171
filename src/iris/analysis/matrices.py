"""Which values are multiplied or loaded as matrices, and where they come from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from iris.analysis.liveness import is_unused
from iris.ir.control import For, If, While, carried_together
from iris.ir.core import Op, Value
from iris.ir.math import Constant
from iris.ir.metal import LoadRows, Mma, MmaShared, Slice
from iris.ir.types import ElementType

OF_MATRICES = LoadRows, Mma, MmaShared


def multiplied(ops: Sequence[Op], dead: frozenset[Value]) -> frozenset[Value]:
    """The factors and sums of products that some op needs, and fragments that are loaded by rows;
    and the values that loops, branches and slices carry these from and to.

    The ops are all those of a body, as `walk` gives them.
    """
    held = [op for op in ops if type(op) in OF_MATRICES and not is_unused(op, dead)]
    if not held:
        return frozenset()
    carriers: defaultdict[Value, list[Value]] = defaultdict(list)
    for op in ops:
        if op.regions and isinstance(op, (For, While, If)):
            for values in carried_together(op):
                for value in values:
                    if not isinstance(value.op, Constant):
                        carriers[value] += values
        elif type(op) is Slice:
            carriers[op.result].append(op.x)
    pending = [
        value
        for op in held
        for value in (*op.operands, *op.results)
        if isinstance(value.type, ElementType) and value.type.shape
    ]
    found: set[Value] = set()
    while pending:
        value = pending.pop()
        if value not in found:
            found.add(value)
            pending += carriers[value]
    return frozenset(found)
