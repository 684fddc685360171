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
from typing import Any

from iris.ir.core import AnyOp, Location, Op, Region, Value
from iris.ir.types import Type


class Builder:
    """Puts ops at the end of a region, or before an op of it."""

    __slots__ = ("_made", "before", "location", "region")

    def __init__(self, region: Region, before: Op | None = None, location: Location | None = None):
        self.region = region
        self.before = before
        self.location = location
        # What `once` has made, region by region, the outermost first.
        self._made: list[dict[Any, Value]] = [{}]

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

    def once(
        self, kind: type[Op], operands: tuple[Value, ...], attributes: tuple[Any, ...], type_: Type
    ) -> Value:
        """The value of an op without effects: put in place, unless this made an equal one before
        that is visible here."""
        key = kind, operands, attributes, type_
        for made in self._made:
            known = made.get(key)
            if known is not None:
                return known
        value = self._made[-1][key] = self(kind.create(operands, attributes, (type_,)))
        return value

    def ahead(self, op: Op) -> Builder:
        """A builder before an earlier op; this one sees everything that it makes `once`."""
        other = Builder(op.enclosing, op, self.location)
        self._made.insert(0, other._made[0])
        return other

    @contextmanager
    def inside(self, region: Region) -> Iterator[Region]:
        """Build at the end of another region for a while."""
        saved = self.region, self.before
        self.region, self.before = region, None
        self._made.append({})
        try:
            yield region
        finally:
            self.region, self.before = saved
            self._made.pop()
