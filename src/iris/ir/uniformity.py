"""Which values of a Metal function are sure to be the same for all threads, and how far.

Threads are compared where they are together: under a condition or in a loop that not all of them
follow, among those that do, each round with the same round.  What such control flow results in
differs as its condition does, for some threads come from one side and some from the other.

    %c0: i32 = constant 0                        # the same over the threadgroup
    %simdgroup: i32 = metal.simdgroup            # the same over a simdgroup
    %x: f32 = metal.load %X, %simdgroup          # the same over a simdgroup
    %lane: i32 = metal.lane                      # varying
    %y: f32 = metal.load %X, %lane               # varying
    %first: f32 = metal.broadcast 0 %y           # the same over a simdgroup

A load from one place counts as giving all threads the same, since barriers order it against what
the threadgroup writes.  The exception is a load of device memory in a `while` that also writes it:
whether other threadgroups write it, too, no barrier decides, and threads that disagree on the
end of a loop with a barrier wait for each other forever.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import TypeGuard

from iris.ir import metal
from iris.ir.control import For, Func, If, While, carried
from iris.ir.core import Facet, Op, Resource, Value
from iris.ir.effects import effects_within, may_alias, writes
from iris.ir.math import Constant, Elementwise
from iris.ir.types import Ptr


class Uniformity(IntEnum):
    """The threads over which a value is sure to be the same; the greater, the fewer."""

    THREADGROUP = 0
    SIMDGROUP = 1
    VARYING = 2


THREADGROUP, SIMDGROUP, VARYING = Uniformity


def uniformity(function: Op) -> Mapping[Value, Uniformity]:
    """How uniform each value in a Metal function is; found when asked for, while the IR stays the
    same."""
    return _Levels(function)


def needed(op: Op) -> Uniformity:
    """The threads that must come to a convergent op together."""
    if isinstance(op, metal.Barrier) and op.scope is not metal.Scope.SIMDGROUP:
        return THREADGROUP
    return SIMDGROUP


# The values that decide whether, and how often, the regions of an op run.
guards = Facet("guards")


@guards(If)
def _guards_of_if(op: If) -> Sequence[Value]:
    return (op.condition,)


@guards(For)
def _guards_of_for(op: For) -> Sequence[Value]:
    return op.operands[:3]


@guards(While)
def _guards_of_while(op: While) -> Sequence[Value]:
    return op.condition.end.operands


@guards(metal.Foreach)
def _guards_of_foreach(op: metal.Foreach) -> Sequence[Value]:
    return ()


def diverging(
    op: Op, over: Uniformity, levels: Mapping[Value, Uniformity]
) -> Iterator[tuple[Op, Value]]:
    """The ops around an op, outwards, with their guards that may differ between threads of the
    threadgroup, or of the simdgroup."""
    around = op.parent_op
    while around is not None and not around.isolated:
        for value in guards[type(around)](around):
            if levels[value] > over:
                yield around, value
        around = around.parent_op


class _Levels(dict[Value, Uniformity]):
    """The levels that were asked for, and those that they follow from."""

    def __init__(self, function: Op):
        super().__init__()
        # Of one simdgroup, what is the same over it is the same for all.
        alone = function.simdgroups == 1  # type: ignore[attr-defined]
        self.over_simdgroup = THREADGROUP if alone else SIMDGROUP

    def __missing__(self, value: Value) -> Uniformity:
        """Raise the values that this one is made of until each is as its sources say."""
        values = self._made_of(value)
        self.update(dict.fromkeys(values, THREADGROUP))
        is_raised = True
        while is_raised:
            is_raised = False
            for v in values:
                level = self._find(v)
                if level > self[v]:
                    self[v] = level
                    is_raised = True
        return self[value]

    def _made_of(self, value: Value) -> list[Value]:
        """The value and its sources, theirs, and so on: sources first, but in a loop."""
        entered: set[Value] = set()
        found: dict[Value, None] = {}
        waiting = [value]
        while waiting:
            last = waiting[-1]
            if last in entered:
                found[waiting.pop()] = None
                continue
            entered.add(last)
            waiting += [v for v in _sources(last) if v not in entered and v not in self]
        return list(found)

    def _find(self, value: Value) -> Uniformity:
        op = value.op
        if op is None or op.regions:
            level = self.worst(_sources(value))
        else:
            level = plain[type(op)](op, self)
        return self.over_simdgroup if level is SIMDGROUP else level

    def worst(self, values: Iterable[Value]) -> Uniformity:
        worst = THREADGROUP
        for value in values:
            level = self[value]
            if level > worst:
                worst = level
        return worst


def _sources(value: Value) -> Sequence[Value]:
    """The values that the level of a value follows from."""
    op = value.owner
    assert op is not None, f"{value!r} belongs to no op"
    if not op.regions:
        return op.operands
    carried: Sequence[Value] = nested[type(op)](op, value)
    return carried if value.op is None else [*guards[type(op)](op), *carried]


# How uniform the results of an op without regions are.

plain = Facet("uniformity")


@plain(Elementwise, Constant)
@plain(metal.ThreadgroupId, metal.NumThreadgroups, metal.Extent)
@plain(metal.Splat, metal.Literal, metal.Pattern, metal.Take, metal.Join)
@plain(metal.Slice, metal.Insert)
@plain(metal.Alloc, metal.View)
def _like_operands(op: Op, levels: _Levels) -> Uniformity:
    """Equal operands make equal results."""
    return levels.worst(op.operands)


@plain(metal.AtomicLoad, metal.Atomic, metal.CompareExchange)
@plain(metal.Lane, metal.LoadRows, metal.Mma, metal.MmaShared)
def _varying(op: Op, levels: _Levels) -> Uniformity:
    """Threads hold other parts of it, or take turns."""
    return VARYING


@plain(metal.Simdgroup)
def _simdgroup(op: Op, levels: _Levels) -> Uniformity:
    return SIMDGROUP


@plain(metal.Load)
def _load(op: metal.Load, levels: _Levels) -> Uniformity:
    if op.volatile or any(may_alias(op.base, w) for w in _written_around(op)):
        return VARYING
    return levels.worst(op.operands)


@plain(metal.Broadcast)
def _broadcast(op: metal.Broadcast, levels: _Levels) -> Uniformity:
    return min(SIMDGROUP, levels[op.x])


@plain(metal.ShuffleXor)
def _shuffle_xor(op: metal.ShuffleXor, levels: _Levels) -> Uniformity:
    return levels[op.x]  # what is the same in all lanes stays so


@plain(metal.Shuffle)
def _shuffle(op: metal.Shuffle, levels: _Levels) -> Uniformity:
    if levels[op.lane] <= SIMDGROUP:  # of one lane: a broadcast
        return min(SIMDGROUP, levels[op.x])
    return levels[op.x]


def _written_around(op: Op) -> Iterator[Value]:
    """The device memory that the `while` loops around an op write.

    Barriers, which declare that they touch all memory, write none.
    """
    around = op.parent_op
    while around is not None:
        if isinstance(around, While):
            yield from (v for v in writes(effects_within(around)) if _is_array(v))
        around = around.parent_op


def _is_array(memory: Value | Resource) -> TypeGuard[Value]:
    return isinstance(memory, Value) and isinstance(memory.type, Ptr)


# What an op with regions carries to one of its results, or to an argument of its regions.

nested = Facet("carried sources")


@nested(Func)
def _of_function(op: Func, argument: Value) -> Sequence[Value]:
    return ()


@nested(If)
def _of_if(op: If, result: Value) -> Sequence[Value]:
    return [region.end.operands[result.index] for region in op.regions]


@nested(For, While)
def _of_loop(op: For | While, value: Value) -> Sequence[Value]:
    slot = carried(value)
    if slot is None:  # the variable of a `for`
        return (op.operands[0], op.operands[2])
    return slot.arguments[:1] if value is slot.result else (slot.initial, slot.yielded)


@nested(metal.Foreach)
def _of_foreach(op: metal.Foreach, value: Value) -> Sequence[Value]:
    return () if value.op is None else (op.body.end.operands[value.index],)
