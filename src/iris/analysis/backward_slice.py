"""What values are made of."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from iris.ir.core import Op, Region, Value


def makers(values: Iterable[Value], region: Region, done: Collection[Op] = ()) -> set[Op]:
    """The ops of a region that values are made by, but for those that are done, and by those
    alone."""
    found: set[Op] = set()
    waiting = list(values)
    while waiting:
        op = waiting.pop().op
        if op is not None and op.parent is region and op not in found and op not in done:
            found.add(op)
            waiting += operands_within(op)
    return found


def operands_within(op: Op) -> list[Value]:
    """The operands of an op and of the ops inside it."""
    return [v for inner in op.walk() for v in inner.operands] if op.regions else [*op.operands]
