"""Waiting for copies that go on by themselves."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from iris.analysis.carried_memory import CarriedMemory, MemoryRange
from iris.ir import metal
from iris.ir.control import For, Func, If
from iris.ir.core import Module, Op, Region, Resource, Value
from iris.ir.types import Threadgroup
from iris.passes.pipeline import Pass


@dataclass(frozen=True)
class WaitForCopies(Pass):
    """Wait for copies before the barrier after which what they bring is touched.

        for %c0, %n, %c1 (%k: i32, %now: threadgroup<64xf32> = %a, %next: ... = %b) {
          metal.barrier threadgroup
          metal.copy 4 %next, %mine, %X, %at
          %x: f32 = metal.load %now, %other
          yield %next, %now
        }

    becomes

        metal.wait_copies 0                     // of what was begun before
        for %c0, %n, %c1 (%k: i32, %now: threadgroup<64xf32> = %a, %next: ... = %b) {
          metal.wait_copies 0
          metal.barrier threadgroup
          metal.copy 4 %next, %mine, %X, %at
          %x: f32 = metal.load %now, %other
          yield %next, %now
        }
        metal.wait_copies 0

    Where a loop carries three memories, what one round copies is touched in the one after the next,
    and `metal.wait_copies 1` lets the copies of the round before go on.

    The barriers must be there already: `insert-barriers` runs before.
    """

    name = "wait-for-copies"
    level = metal.MetalOp.level

    def run(self, module: Module) -> dict[str, int]:
        waits = 0
        for function in [f for f in module if isinstance(f, Func)]:
            if metal.Copy in map(type, function.walk()):
                waits += _Waits(function).count
        return {"waits": waits}


class _Waits:
    """The waits of a function."""

    def __init__(self, function: Func):
        self.memories = CarriedMemory()
        self.count = 0
        self._region(function.body, [])

    def _wait(self, before: Op, latest: int = 0) -> None:
        before.insert_before(metal.WaitCopies(latest, location=before.location))
        self.count += 1

    def _region(self, region: Region, pending: list[MemoryRange]) -> list[MemoryRange]:
        """Wait where copies are pending that an op, or what comes after a barrier, needs; gives
        those that are pending at the end."""
        for op in list(region):
            if pending and self._are_met(_copied(op), pending):
                self._wait(op)  # of two copies to one place either may be the last
                pending = []
            if isinstance(op, metal.WaitCopies):
                pending = [] if op.latest == 0 else pending
            elif isinstance(op, metal.Copy):
                pending = [*pending, MemoryRange.of(op.base)]
            elif op.loops and not isinstance(op, metal.Foreach):
                self._loop(op, pending)
                pending = []
            elif pending and (isinstance(op, metal.Barrier) or self._touches(op.walk(), pending)):
                self._wait(op)
                pending = []
            if isinstance(op, (If, metal.Foreach)):
                pending = [p for inner in op.regions for p in self._region(inner, pending)]
            if isinstance(op, metal.Foreach) and self._touches(op.walk(), pending):
                self._wait(op.body.end)  # the next turn does
                pending = []
        return list(dict.fromkeys(pending))

    def _touches(self, ops: Iterable[Op], pending: Sequence[MemoryRange]) -> bool:
        """Whether ops touch the memory that copies write."""
        return self._are_met(_touched(ops), pending)

    def _are_met(self, some: Iterable[MemoryRange], pending: Sequence[MemoryRange]) -> bool:
        return any(not self.memories.are_apart(a, b) for a in some for b in pending)

    def _loop(self, loop: Op, pending: Sequence[MemoryRange]) -> None:
        """Wait in a loop, and for what is pending before and after it."""
        if pending:
            self._wait(loop)
        if not any(isinstance(op, metal.Copy) for op in loop.walk()):
            return
        rounds = self._rounds_ahead(loop) if isinstance(loop, For) else None
        if rounds is None:
            for region in loop.regions:
                if self._region(region, []):
                    self._wait(region.end)
            return
        barrier = next(op for op in loop.regions[0] if isinstance(op, metal.Barrier))
        self._wait(barrier, rounds - 1)
        following = loop.next
        assert following is not None, "a loop ends no region"
        self._wait(following)

    def _rounds_ahead(self, loop: For) -> int | None:
        """How many rounds before others touch it each round copies to memories that the loop
        rotates; None if it does not, or there is more to it than a barrier and those copies."""
        body = list(loop.body)
        barriers = [n for n, op in enumerate(body) if isinstance(op, metal.Barrier)]
        copying = [n for n, op in enumerate(body) if any(_copies(op))]
        if not barriers or barriers[0] > copying[0]:
            return None
        after = [inner for op in body[copying[0] :] for inner in op.walk()]
        if any(isinstance(op, metal.Barrier) for op in after):
            return None  # what comes after the loop may count on it, and not on the first
        inner = [op for op in loop.body.walk() if op.loops and not isinstance(op, metal.Foreach)]
        if any(any(_copies(op)) or any(map(_is_of_threadgroup, op.operands)) for op in inner):
            return None  # an inner loop has names of its own for the memories that it carries
        copying_to = [part for op in body for part in _copied(op)]
        copies, carried = [part.memory for part in copying_to], loop.carried_arguments
        by_other_names = [p for p in _touched(loop.body.walk()) if p.memory not in carried]
        if self._are_met(by_other_names, copying_to):
            return None
        touched = {part.memory for part in _touched(loop.body.walk())}
        copied = {*copies}
        if not copied <= {*carried} or not all(map(self.memories.is_one, copied)):
            return None
        if len(copied) < len(copies):
            return None
        early = {p.memory for op in body[: barriers[0]] for p in _touched(op.walk())}
        if early or _is_touched_later(loop.body, copied):
            return None
        met = touched | copied  # of two copies to one place either may be the last
        return min(
            next((n for n, name in enumerate(names, 1) if name in met), len(names))
            for names in (self.memories.later(memory, loop) for memory in copied)
        )


def _is_touched_later(region: Region, copied: Collection[Value | Resource]) -> bool:
    """Whether ops touch memory after copies to it in the same round."""
    began = False
    for op in region:
        if began and any(part.memory in copied for part in _touched(op.walk())):
            return True
        if any(_copies(op)):
            began = True
            if any(_is_touched_later(inner, copied) for inner in op.regions):
                return True
    return False


def _copies(op: Op) -> Iterator[metal.Copy]:
    return (inner for inner in op.walk() if isinstance(inner, metal.Copy))


def _copied(op: Op) -> Iterator[MemoryRange]:
    return (MemoryRange.of(copy.base) for copy in _copies(op))


def _touched(ops: Iterable[Op]) -> Iterator[MemoryRange]:
    """The memories of the threadgroup that ops touch, but by copies."""
    for op in ops:
        if isinstance(op, (metal.Copy, metal.Alloc)):
            continue
        for _, resource in op.effects():
            if _is_of_threadgroup(resource):
                yield MemoryRange.of(resource)


def _is_of_threadgroup(resource: Value | Resource) -> TypeGuard[Value]:
    return isinstance(resource, Value) and isinstance(resource.type, Threadgroup)
