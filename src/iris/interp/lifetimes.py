"""When the values of a region are used for the last time."""

from __future__ import annotations

from iris.ir.core import Op, Region, Value


def last_uses(region: Region) -> list[tuple[Op, tuple[Value, ...]]]:
    """The ops of a region, without its terminator, and the values of the region that nothing
    uses after each one."""
    found: list[tuple[Op, tuple[Value, ...]]] = []
    alive: set[Value] = set()
    for op in reversed(region):
        mentioned = {value for inner in op.walk() for value in inner.operands}
        mentioned.update(op.results)
        dying = tuple([v for v in mentioned if v not in alive and v.home is region])
        alive.update(dying)
        if not op.terminator:
            found.append((op, dying))
    return found[::-1]
