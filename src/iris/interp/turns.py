"""Programs that wait for each other: each runs by itself, and they take turns.

A program lets the next one go on each time that it has found out whether a loop that waits goes on.
All get their turn, one after the other, until all have ended.  What one program stores is in order
with what another one does after an atomic op, or a volatile load, that found what an atomic op of
the first wrote after it (`order.py`); whatever nothing orders is a race.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.interp.frame import Frame, Launch, ObservedFrame, bounds_of, data_of, holds
from iris.interp.memory import View
from iris.interp.watch import Asked, Turn, take_turns
from iris.ir.control import For, If, While
from iris.ir.core import Facet, Op, Region
from iris.ir.effects import asks_others
from iris.ir.waiting import waiting_loops

Array = npt.NDArray[Any]


Flow = Generator[Turn, None, Sequence[Any]]


class TurnFrame(Frame):
    """One program, which runs up to its next turn."""

    __slots__ = ("asked", "waiting")
    asked: tuple[Op, View, Array]  # what it asked last, and where

    def __init__(self, launch: Launch, programs: Array, waiting: frozenset[Op]):
        super().__init__(launch, programs)
        self.waiting = waiting

    def steps(self, region: Region, arguments: Sequence[Any]) -> Flow:
        """What the terminator of a region carries, the region being run turn by turn."""
        values = self.values
        values.update(zip(region.arguments, arguments, strict=True))
        for op, rule, dying in self.launch.plan(region):
            if op.regions:
                operands = self.settled(op, [self[v] for v in op.operands])
                found = yield from self.flow(op, operands)
            else:
                if asks_others(op):
                    view, index, *_ = [self[v] for v in op.operands]
                    self.asked = op, view, data_of(index)
                found = self.results(op, rule)
            values.update(zip(op.results, found, strict=True))
            for value in dying:
                values.pop(value, None)
        return [self[v] for v in region.end.operands]

    def flow(self, op: Op, operands: Sequence[Any]) -> Flow:
        """What an op with regions gives, run turn by turn."""
        rule: Callable[..., Flow] = flow[type(op)]
        return rule(self, op, *operands)


class ObservedTurnFrame(ObservedFrame, TurnFrame):
    """One program of a launch that has an observer."""

    __slots__ = ()

    def flow(self, op: Op, operands: Sequence[Any]) -> Flow:
        self.launch.observer.before(self, op)
        found = yield from super().flow(op, operands)
        self.launch.observer.after(self, op, found)
        return found


flow = Facet("flow of one program")


@flow(If)
def _if(frame: TurnFrame, op: If, condition: Any) -> Flow:
    return (yield from frame.steps(op.then if holds(condition)[0] else op.otherwise, ()))


@flow(For)
def _for(frame: TurnFrame, op: For, lower: Any, upper: Any, step: Any, *carried: Any) -> Flow:
    lower, upper, step = bounds_of(lower, upper, step)
    if not step[0]:
        frame.fail(op, step == 0, "a for loop with a step of zero")
    values: Sequence[Any] = carried
    for index in range(int(lower[0]), int(upper[0]), int(step[0])):
        news = yield from frame.steps(op.body, (np.array([index], lower.dtype), *values))
        values = frame.kept(op, values, news)
    return values


@flow(While)
def _while(frame: TurnFrame, op: While, *carried: Any) -> Flow:
    values: Sequence[Any] = carried
    run = object() if op in frame.waiting else None
    while True:
        (found,) = yield from frame.steps(op.condition, values)
        more = bool(holds(found)[0])
        if run is not None:
            yield Turn(run, [data_of(x) for x in values], more)
        if not more:
            return values
        news = yield from frame.steps(op.body, values)
        values = frame.kept(op, values, news)


def run_by_turns(
    launch: Launch, frames: type[TurnFrame] = TurnFrame
) -> Iterator[tuple[Frame, Sequence[Any]]]:
    """Runs all programs of a launch: in their order, the frame of each and what it returns."""
    waiting: frozenset[Op] = frozenset(waiting_loops(launch.function))
    programs = [frames(launch, np.array([n]), waiting) for n in range(launch.count)]
    runs = [frame.steps(launch.function.body, launch.arguments) for frame in programs]
    arrays = [x.flat for x in launch.arguments if isinstance(x, View)]
    returned = take_turns(runs, arrays, lambda number: _asked(programs[number]))
    return zip(programs, returned, strict=True)


def _asked(frame: TurnFrame) -> Asked:
    op, view, index = frame.asked
    program = frame.launch.program(int(frame.programs[0]))
    return Asked(program, view.name, int(index.flat[0]), op.location)
