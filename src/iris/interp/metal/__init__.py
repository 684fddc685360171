"""The reference interpreter of Metal IR: what a launch of a thread program means.

All threads of many threadgroups run at once, op by op.  A value is one array for all of them:
an axis for the programs, one for the threads of a threadgroup, one for each `metal.foreach`
around it, and for a register array one for its elements.  An axis along which all is the same
may have size 1 whatever its real size; NumPy's broadcasting gives it its full size where it meets
others.

Where programs part ways, those on each side go on in a `Frame` of their own; where the threads
of one program do, in frames with masks.  As threads run in lockstep, much that goes wrong on a
GPU would go well here.  So every access to memory is noted in a shadow of it (`shadow.py`), which
tells whatever the barriers passed so far do not order.  Simdgroups can also be run by turns, in a
random order (`schedule.py`).

This shares nothing with the interpreter of Tile IR but the scalar math, so that the two can be
held against each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.errors import RaceError

# Each of these registers the rules of some ops.
from iris.interp.metal import (
    arithmetic,
    assert_print,
    atomics,
    control,
    copies,
    loadstore,
    matrices,
    registers,
    threads,
)
from iris.interp.metal.begun import wait_if_implied
from iris.interp.metal.counters import Counters
from iris.interp.metal.frame import Frame
from iris.interp.metal.launch import Chunk, Launch
from iris.interp.metal.lockstep import Program, alone, by_turns, in_lockstep
from iris.interp.metal.memory import Device
from iris.interp.metal.numbering import Grid
from iris.interp.observer import Observer
from iris.interp.watch import Asked, take_turns
from iris.ir import metal, scalar
from iris.ir.control import Func
from iris.ir.core import Value
from iris.ir.metal import SIMDGROUP_WIDTH
from iris.ir.waiting import waiting_loops

__all__ = [
    "Counters",
    "arithmetic",
    "assert_print",
    "atomics",
    "control",
    "copies",
    "loadstore",
    "matrices",
    "registers",
    "run",
    "threads",
]

Array = npt.NDArray[Any]

# Programs run so many at a time that the largest value of all of them takes about this much: few
# enough for the caches, enough to make little of the time that each op costs.
CHUNK_BYTES = 1 << 21


@np.errstate(all="ignore")
def run(
    function: Func,
    grid: Grid,
    arguments: Sequence[Any],
    *,
    output: Callable[[str], object] = print,
    counters: Counters | None = None,
    interleave: int | None = None,
    chunk_bytes: int = CHUNK_BYTES,
    implied_barriers: bool = False,
    implied_waits: bool = False,
    observer: Observer | None = None,
) -> list[Array]:
    """Runs a function in a threadgroup for every program of a grid.

    `arguments` are those of the function, in order: an array for each pointer (bf16 as its bits,
    in uint16), written in place; a number for each scalar.  What the programs print goes to
    `output`, line by line in the order of the programs, also when a `ProgramError` ends the run;
    memory then holds what was written so far.

    With `interleave`, a seed, the simdgroups of a threadgroup advance by turns in a random order,
    and `compare_exchange` sometimes fails for no reason.  `counters` gathers what was done.

    With `implied_barriers`, IR into which `insert-barriers` has yet to put its barriers runs in
    lockstep as if one stood before each access.  Races that no barrier mends are still reported.
    With `implied_waits`, IR that has yet to get `wait_copies` runs as if one stood wherever it is
    needed, and as late as it may.

    An observer is told of each op, and never of the same run twice: where it might have to be,
    programs take turns from the start.

    The result is what the function returns: for each value an array with a row per program, of a
    row per thread.
    """
    start = partial(
        Launch,
        function,
        grid,
        arguments,
        counters,
        interleave,
        implied_barriers=implied_barriers,
        implied_waits=implied_waits,
        observer=observer,
    )
    fences = any(isinstance(op, metal.Fence) for op in function.walk())
    once = counters is not None or observer is not None
    if waiting_loops(function) or (fences and once):
        return _take_turns(start(ordered=True), output)
    launch = start()
    if not fences:
        return _run_all(launch, chunk_bytes, output)
    before, lines = [x.copy() for x in launch.stored], list[str]()
    try:
        return _run_all(launch, chunk_bytes, lines.append)
    except RaceError:
        # It may be none: whether atomic ops order what programs do is seen by turns.
        for array, old in zip(launch.stored, before, strict=True):
            array[...] = old
        lines.clear()
        return _take_turns(start(ordered=True), lines.append)
    finally:
        for line in lines:
            output(line)


def _run_all(launch: Launch, chunk_bytes: int, output: Callable[[str], object]) -> list[Array]:
    """Runs programs many at a time."""
    step = launch.programs_at_a_time(chunk_bytes)
    returned = []
    try:
        for start in range(0, launch.numbering.count, step):
            chunk = Chunk(launch, start, min(start + step, launch.numbering.count))
            returned.append(_gathered(launch, chunk, alone(_program(launch, chunk))))
            launch.reports.finish()
    finally:
        launch.reports.write(output)
    return _finished(launch, returned)


def _take_turns(launch: Launch, output: Callable[[str], object]) -> list[Array]:
    """Runs programs that may wait for each other: each by itself, up to its next turn."""
    chunks = [Chunk(launch, number, number + 1) for number in range(launch.numbering.count)]
    runs = [_program(launch, chunk) for chunk in chunks]
    arrays = [x.flat for x in launch.arguments if isinstance(x, Device)]
    try:
        ends = take_turns(runs, arrays, lambda number: _asked(chunks[number]))
        launch.reports.finish()
    finally:
        launch.reports.write(output)
    return _finished(launch, [_gathered(launch, c, e) for c, e in zip(chunks, ends, strict=True)])


def _asked(chunk: Chunk) -> Asked:
    op, memory, index = chunk.asked
    return Asked(chunk.launch.numbering.program(chunk.start), memory.name, index, op.location)


def _finished(launch: Launch, parts: Sequence[list[Array]]) -> list[Array]:
    if launch.counters is not None:
        launch.counters.finish()
    return [np.concatenate(columns) for columns in zip(*parts, strict=True)]


def _program(launch: Launch, chunk: Chunk) -> Program:
    """The programs of a chunk, which run together."""
    frames = _frames(launch, chunk)
    runs = [frame.run(launch.function.body, launch.arguments) for frame in frames]
    return in_lockstep(runs[0]) if launch.chance is None else by_turns(runs, launch.chance)


def _frames(launch: Launch, chunk: Chunk) -> list[Frame]:
    every = np.arange(launch.numbering.threads)
    groups = [every] if launch.chance is None else list(every.reshape(-1, SIMDGROUP_WIDTH))
    rows = np.arange(chunk.size)
    return [Frame(launch, chunk, rows, threads) for threads in groups]


def _gathered(launch: Launch, chunk: Chunk, ends: Sequence[Sequence[Any]]) -> list[Array]:
    """What the programs of a chunk return, of what their simdgroups end with."""
    returned = launch.function.body.end.operands
    frames = _frames(launch, chunk)
    for frame in frames:
        wait_if_implied(frame)
    parts = [
        [_whole(frame, v, x) for v, x in zip(returned, values, strict=True)]
        for frame, values in zip(frames, ends, strict=True)
    ]
    return [np.concatenate(columns, axis=1) for columns in zip(*parts, strict=True)]


def _whole(frame: Frame, value: Value, x: Array) -> Array:
    """A value with a row for each program and thread, and every element."""
    return np.broadcast_to(x.astype(scalar.storage(value.type.element)), frame.full(value))
