"""Who runs when: all threads in lockstep, or simdgroups by turns."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from iris.interp.metal.frame import Frame, Run, Wait
from iris.interp.watch import Turn
from iris.ir.metal import SIMDGROUP_WIDTH

Array = npt.NDArray[Any]

#: For how many accesses to memory a simdgroup may run before another has its turn.
_TURNS = (1, 1, 1, 2, 4, 16, 1 << 30)


def _release(wait: Wait) -> None:
    frame = wait.frame
    frame.chunk.barriers.passed(wait.scope, frame.rows)
    if frame.launch.counters is not None:
        frame.launch.counters.barriers[wait.scope.value] += len(frame.rows)


#: Simdgroups that run, and what they end with: a list of values for each that runs for itself.
Program = Generator[Turn, None, list[list[Any]]]


def in_lockstep(run: Run) -> Program:
    """Threads that run together, all that there are."""
    while True:
        try:
            stop = next(run)
        except StopIteration as end:
            return [list(end.value)]
        if isinstance(stop, Turn):
            yield stop
        elif stop is not None:
            _release(stop)


def by_turns(runs: Sequence[Run], chance: np.random.Generator) -> Program:
    """Simdgroups that run for themselves, until all wait at a barrier or for other programs."""
    ended: dict[int, list[Any]] = {}
    waiting: dict[int, Wait] = {}
    turns: dict[int, Turn] = {}
    ready = list(range(len(runs)))
    while ready or waiting or turns:
        if not ready and turns:
            yield _together(turns)
            ready = sorted(turns)
            turns.clear()
        if not ready:
            _check_together(waiting, ended)
            _release(waiting[min(waiting)])
            ready = sorted(waiting)
            waiting.clear()
        number = ready[chance.integers(len(ready))]
        for _ in range(_TURNS[chance.integers(len(_TURNS))]):
            try:
                stop = next(runs[number])
            except StopIteration as end:
                ended[number] = list(end.value)
                ready.remove(number)
                break
            if stop is not None:
                if isinstance(stop, Turn):
                    turns[number] = stop
                else:
                    waiting[number] = stop
                ready.remove(number)
                break
    return [ended[number] for number in range(len(runs))]


def _together(turns: Mapping[int, Turn]) -> Turn:
    """Where a program is of whose simdgroups each is somewhere."""
    parts = [turns[number] for number in sorted(turns)]
    carried = [x for part in parts for x in part.carried]
    return Turn(tuple([part.run for part in parts]), carried, all(p.goes_on for p in parts))


def alone(program: Program) -> list[list[Any]]:
    """What programs end with that wait for no others."""
    while True:
        try:
            next(program)
        except StopIteration as end:
            return list(end.value)


def _check_together(waiting: dict[int, Wait], ended: dict[int, list[Any]]) -> None:
    """Reports a barrier at which a simdgroup is not waiting that should."""
    first = waiting[min(waiting)]
    for number in ended:
        _report_missing(first, first.frame.rows[:1], number)
    for number, wait in waiting.items():
        if wait.op is not first.op:
            _report_missing(first, first.frame.rows[:1], number, wait)
        if wait.frame.rows is first.frame.rows:  # as when no program is done
            continue
        for one, other, absent in ((first, wait, number), (wait, first, min(waiting))):
            rows = np.setdiff1d(one.frame.rows, other.frame.rows)
            if len(rows):
                _report_missing(one, rows[:1], absent)


def _report_missing(wait: Wait, rows: Array, simdgroup: int, other: Wait | None = None) -> NoReturn:
    threads = np.arange(SIMDGROUP_WIDTH) + simdgroup * SIMDGROUP_WIDTH
    Frame(wait.frame.launch, wait.frame.chunk, rows, threads).fail(
        wait.op,
        np.ones((1, 1), np.bool_),
        f"metal.barrier {wait.scope.value} is not reached by all threads of the threadgroup: "
        "one is missing",
        *([] if other is None else [other.op]),
    )
