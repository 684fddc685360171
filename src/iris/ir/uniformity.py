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

from iris.ir import metal
from iris.ir.control import For, If, Loop, While
from iris.ir.core import Facet, Op, Region, Resource, Value
from iris.ir.declare import Access
from iris.ir.effects import effects_within, may_alias
from iris.ir.math import Constant, Elementwise
from iris.ir.types import Ptr


class Uniformity(IntEnum):
    """The threads over which a value is sure to be the same; the greater, the fewer."""

    THREADGROUP = 0
    SIMDGROUP = 1
    VARYING = 2


THREADGROUP, SIMDGROUP, VARYING = Uniformity


def uniformity(function: Op) -> Mapping[Value, Uniformity]:
    """How uniform each value in a Metal function is."""
    analysis = _Analysis(function)
    analysis.region(function.regions[0])
    return analysis.levels


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


class _Analysis:
    def __init__(self, function: Op):
        self.levels: dict[Value, Uniformity] = dict.fromkeys(
            function.regions[0].arguments, THREADGROUP
        )
        # Of one simdgroup, what is the same over it is the same for all.
        alone = function.simdgroups == 1  # type: ignore[attr-defined]
        self.over_simdgroup = THREADGROUP if alone else SIMDGROUP
        self.written: list[Value | Resource] = []  # by the `while` loops around

    def worst(self, values: Iterable[Value]) -> Uniformity:
        worst, levels = THREADGROUP, self.levels
        for value in values:
            level = levels[value]
            if level > worst:
                worst = level
        return worst

    def set(self, value: Value, level: Uniformity) -> None:
        self.levels[value] = self.over_simdgroup if level is SIMDGROUP else level

    def region(self, region: Region) -> None:
        for op in region:
            if op.regions:
                nested[type(op)](op, self)
            elif op.results:
                level = plain[type(op)](op, self)
                if level is SIMDGROUP:
                    level = self.over_simdgroup
                for value in op.results:
                    self.levels[value] = level

    def loop(self, op: Loop) -> None:
        """Raise the carried values until an iteration leaves them as they are."""
        slots, previous = op.carried(), None
        levels = [self.levels[c.initial] for c in slots]
        while levels != previous:
            for slot, level in zip(slots, levels, strict=True):
                for argument in slot.arguments:
                    self.set(argument, level)
            for region in op.regions:
                self.region(region)
            previous = levels
            levels = [max(a, self.levels[c.yielded]) for a, c in zip(levels, slots, strict=True)]
        self.end(op, [c.arguments[0] for c in slots])

    def end(self, op: Op, *sources: Sequence[Value]) -> None:
        """Set the results of control flow: as uniform as its guards and what comes to them."""
        guard = self.worst(guards[type(op)](op))
        for result, *values in zip(op.results, *sources, strict=True):
            self.set(result, max(guard, self.worst(values)))


# How uniform the results of an op without regions are.

plain = Facet("uniformity")


@plain(Elementwise, Constant)
@plain(metal.ThreadgroupId, metal.NumThreadgroups, metal.Extent)
@plain(metal.Splat, metal.Literal, metal.Pattern, metal.Take, metal.Join, metal.Slice)
@plain(metal.Alloc, metal.View)
def _like_operands(op: Op, analysis: _Analysis) -> Uniformity:
    """Equal operands make equal results."""
    return analysis.worst(op.operands)


@plain(metal.Lane, metal.Mma, metal.AtomicLoad, metal.Atomic, metal.CompareExchange)
def _varying(op: Op, analysis: _Analysis) -> Uniformity:
    """Threads hold other parts of it, or take turns."""
    return VARYING


@plain(metal.Simdgroup)
def _simdgroup(op: Op, analysis: _Analysis) -> Uniformity:
    return SIMDGROUP


@plain(metal.Load)
def _load(op: metal.Load, analysis: _Analysis) -> Uniformity:
    if op.volatile or any(may_alias(op.base, w) for w in analysis.written):
        return VARYING
    return analysis.worst(op.operands)


@plain(metal.Broadcast)
def _broadcast(op: metal.Broadcast, analysis: _Analysis) -> Uniformity:
    return min(SIMDGROUP, analysis.levels[op.x])


@plain(metal.ShuffleXor)
def _shuffle_xor(op: metal.ShuffleXor, analysis: _Analysis) -> Uniformity:
    return analysis.levels[op.x]  # what is the same in all lanes stays so


@plain(metal.Shuffle)
def _shuffle(op: metal.Shuffle, analysis: _Analysis) -> Uniformity:
    if analysis.levels[op.lane] <= SIMDGROUP:  # of one lane: a broadcast
        return min(SIMDGROUP, analysis.levels[op.x])
    return analysis.levels[op.x]


# Ops with regions set the levels of what is in them, and of their results.

nested = Facet("nested uniformity")


@nested(If)
def _if(op: If, analysis: _Analysis) -> None:
    for region in op.regions:
        analysis.region(region)
    analysis.end(op, op.then.end.operands, op.otherwise.end.operands)


@nested(For)
def _for(op: For, analysis: _Analysis) -> None:
    analysis.set(op.body.arguments[0], analysis.worst((op.lower, op.step)))
    analysis.loop(op)


@nested(While)
def _while(op: While, analysis: _Analysis) -> None:
    outer = analysis.written
    analysis.written = [*outer, *_device_memory_written(op)]
    analysis.loop(op)
    analysis.written = outer


def _device_memory_written(loop: While) -> list[Value | Resource]:
    """Barriers, which declare that they touch all memory, write none."""
    return [
        e.resource
        for e in effects_within(loop)
        if Access.WRITE in e.access
        and isinstance(e.resource, Value)
        and isinstance(e.resource.type, Ptr)
    ]


@nested(metal.Foreach)
def _foreach(op: metal.Foreach, analysis: _Analysis) -> None:
    analysis.set(op.body.arguments[0], THREADGROUP)
    analysis.region(op.body)
    analysis.end(op, op.body.end.operands)
