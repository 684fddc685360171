"""Memory of the threadgroup that loops carry: what its names stand for.

    %a: threadgroup<64xf32> = metal.alloc
    %b: threadgroup<64xf32> = metal.alloc
    for %c0, %n, %c1 (%k: i32, %now: threadgroup<64xf32> = %a, %next: threadgroup<64xf32> = %b) {
      ...
      yield %next, %now
    }

A loop *rotates* its memories if they are apart to begin with and it yields each of them once.
Then `%now` and `%next` are apart in every round, and what is `%next` in a round is `%now` in the
next one, `%next` in the one after that, and so on.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

from iris.ir import metal
from iris.ir.control import For, Loop, names_of
from iris.ir.core import Op, Resource, Value
from iris.ir.effects import may_alias
from iris.ir.types import Threadgroup


class MemoryRange(NamedTuple):
    """A memory, and a range of its bytes if that is known."""

    memory: Value | Resource
    span: range | None

    @staticmethod
    def of(memory: Value) -> MemoryRange:
        """Where memory is first named, or carried by a loop, and which part of that it is."""
        start, size = 0, memory.type_as(Threadgroup).bytes
        while isinstance(memory.op, metal.View):
            start += memory.op.start
            memory = memory.op.x
        return MemoryRange(memory, range(start, start + size))


class CarriedMemory:
    """The memories that the loops of a function carry."""

    def __init__(self) -> None:
        self._orders: dict[For, dict[int, list[int]] | None] = {}
        self._apart: dict[tuple[MemoryRange, MemoryRange], bool] = {}

    def is_one(self, memory: Value | Resource) -> bool:
        """Whether a name is, at any one time, of one allocation or argument and of all of it."""
        if not isinstance(memory, Value):
            return False
        owner = memory.owner
        is_first = isinstance(owner, metal.Alloc) or (owner is not None and owner.isolated)
        return is_first or self._rotated(memory) is not None

    def are_apart(self, a: MemoryRange, b: MemoryRange) -> bool:
        """Whether two parts that have their names at the same time have no byte in common."""
        if (a, b) not in self._apart:
            self._apart[a, b] = self._find_apart(a, b)
        return self._apart[a, b]

    def later(self, memory: Value | Resource, loop: Op) -> list[Value | Resource]:
        """What the memory may be called one or more rounds of a loop later."""
        found = self._rotated(memory)
        if found is None or found.loop is not loop:
            return [memory]
        return [found.loop.carried_arguments[i] for i in found.order]

    def outside(self, memory: Value | Resource, loop: Op) -> list[MemoryRange] | None:
        """What the memory may have been called before a loop; None if the loop does not carry it,
        or does not rotate what it carries."""
        found = self._rotated(memory)
        return found.sources() if found is not None and found.loop is loop else None

    def _find_apart(self, a: MemoryRange, b: MemoryRange) -> bool:
        if a.memory is b.memory:
            return a.span is not None and b.span is not None and not _overlap(a.span, b.span)
        one, other = self._rotated(a.memory), self._rotated(b.memory)
        if one is not None and other is not None and one.is_beside(other):
            return True
        for found, rest in ((one, b), (other, a)):
            if found is not None:
                return all(self.are_apart(source, rest) for source in found.sources())
        return not may_alias(a.memory, b.memory)

    def _rotated(self, memory: Value | Resource) -> _Rotated | None:
        """Which memory of a loop that rotates them a name stands for, if it does."""
        if not isinstance(memory, Value) or not isinstance(memory.type, Threadgroup):
            return None
        is_result = memory.op is not None
        loop = memory.owner
        if not isinstance(loop, For):
            return None
        if loop not in self._orders:
            self._orders[loop] = self._find_orders(loop)
        orders = self._orders[loop]
        if orders is None:
            return None
        position = memory.index - (not is_result)
        return _Rotated(loop, position, is_result, orders[position])

    def _find_orders(self, loop: For) -> dict[int, list[int]] | None:
        """Of each memory that a loop carries the positions one round later, two, and so on until
        it is back; None if the loop does not rotate them."""
        carried = loop.carried_arguments
        positions = [i for i, v in enumerate(carried) if isinstance(v.type, Threadgroup)]
        yielded = [loop.body.end.operands[i] for i in positions]
        if {*yielded} != {carried[i] for i in positions}:
            return None
        starts = [MemoryRange.of(loop.initial[i]) for i in positions]
        if not all(self.are_apart(a, b) for a, b in combinations(starts, 2)):
            return None
        after = {carried.index(v): i for i, v in zip(positions, yielded, strict=True)}
        return {i: _cycle(after, i) for i in positions}


class _Rotated(NamedTuple):
    """One of the memories of a loop, by its name in a round, or after the last one."""

    loop: For
    position: int
    is_result: bool
    order: list[int]  # its positions in later rounds

    def is_beside(self, other: _Rotated) -> bool:
        """Whether the loop has both at the same time, at two positions."""
        at = self.loop, self.is_result
        return at == (other.loop, other.is_result) and self.position != other.position

    def sources(self) -> list[MemoryRange]:
        return [MemoryRange.of(self.loop.initial[i]) for i in self.order]


def _overlap(a: range, b: range) -> bool:
    return a.start < b.stop and b.start < a.stop


def _cycle(after: dict[int, int], start: int) -> list[int]:
    found = [after[start]]
    while found[-1] != start:
        found.append(after[found[-1]])
    return found


def accesses(memory: Value) -> Iterator[Op]:
    """The ops that may access memory, by whatever name."""
    names, waiting = {memory}, [memory]
    while waiting:
        for user, positions in _uses(waiting.pop()):
            others = [v for i in positions for v in _other_names(user, i)]
            if not others:
                yield user
            new = [v for v in others if v not in names]
            names.update(new)
            waiting += new


def _uses(memory: Value) -> Iterator[tuple[Op, list[int]]]:
    for user in memory.users:
        yield user, [i for i, v in enumerate(user.operands) if v is memory]


def _other_names(user: Op, index: int) -> list[Value]:
    """What an operand of an op goes by there and after it, if that is memory."""
    if isinstance(user, metal.View):
        return [user.result]
    if user.terminator:
        return names_of(user.enclosing_op, index)
    if isinstance(user, Loop):
        return names_of(user, index - len(user.spec.fixed))
    return []
