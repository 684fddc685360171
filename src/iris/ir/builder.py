"""Building IR: a place to put ops, and the location they come from.

b = Builder(function.body)
total = b(Add(x, y), "total")
loop = b.insert(For(lower, upper, step, [total]))
with b.inside(loop.body):
    ...
    b.insert(Yield([next_total]))
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from iris.ir.core import AnyOp, Location, Op, Region, Value


class Builder:
    """Puts ops at the end of a region, or before an op of it."""

    __slots__ = ("before", "location", "region")

    def __init__(self, region: Region, before: Op | None = None, location: Location | None = None):
        self.region = region
        self.before = before
        self.location = location

    @staticmethod
    def before_op(op: Op) -> Builder:
        """Build before an op, for its line."""
        return Builder(op.enclosing, op, op.location)

    def insert(self, op: AnyOp) -> AnyOp:
        """Put an op in place; it gets the builder's location unless it has one."""
        if op.location is None:
            op.location = self.location
        self.region.insert(op, self.before)
        return op

    def __call__(self, op: Op, name: str | None = None) -> Value:
        """Put an op of one result in place, and give that result."""
        value = self.insert(op).results[0]
        if name is not None:
            value.name = name
        return value

    @contextmanager
    def inside(self, region: Region) -> Iterator[Region]:
        """Build at the end of another region for a while."""
        saved = self.region, self.before
        self.region, self.before = region, None
        try:
            yield region
        finally:
            self.region, self.before = saved
