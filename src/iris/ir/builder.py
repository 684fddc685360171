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

    __slots__ = ("_ahead", "_made", "before", "location", "region")

    def __init__(self, region: Region, before: Op | None = None, location: Location | None = None):
        self.region = region
        self.before = before
        self.location = location
        # What `once` has made that is visible here, and what a builder ahead has.
        self._made: dict[Any, Value] = {}
        self._ahead: dict[Any, Value] = {}

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
        known = self._ahead.get(key) or self._made.get(key)
        if known is None:
            known = self._made[key] = self(kind.create(operands, attributes, (type_,)))
        return known

    def ahead(self, op: Op) -> Builder:
        """A builder before an earlier op; this one sees everything that it makes `once`."""
        other = Builder(op.enclosing, op, self.location)
        self._ahead = other._made
        return other

    @contextmanager
    def inside(self, region: Region) -> Iterator[Region]:
        """Build at the end of another region for a while."""
        saved, made = (self.region, self.before), len(self._made)
        self.region, self.before = region, None
        try:
            yield region
        finally:
            self.region, self.before = saved
            while len(self._made) > made:
                self._made.popitem()  # the latest
