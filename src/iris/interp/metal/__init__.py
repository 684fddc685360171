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
from typing import Any

import numpy as np
import numpy.typing as npt

# Each of these registers the rules of some ops.
from iris.interp.metal import (
    arithmetic,
    atomics,
    control,
    loadstore,
    matrices,
    registers,
    reports,
    threads,
)
from iris.interp.metal.counters import Counters
from iris.interp.metal.frame import Frame
from iris.interp.metal.launch import Chunk, Grid, Launch
from iris.interp.metal.schedule import by_turns, in_lockstep
from iris.ir import scalar
from iris.ir.control import Func
from iris.ir.core import Value
from iris.ir.math import element_type
from iris.ir.metal import SIMDGROUP_WIDTH

__all__ = [
    "Counters",
    "arithmetic",
    "atomics",
    "control",
    "loadstore",
    "matrices",
    "registers",
    "reports",
    "run",
    "threads",
]

Array = npt.NDArray[Any]

# Programs run so many at a time that the largest value of all of them takes about this much: few
# enough for the caches, enough to make little of the time that each op costs.
CHUNK_BYTES = 1 << 21


def run(
    function: Func,
    grid: Grid,
    arguments: Sequence[Any],
    *,
    output: Callable[[str], object] = print,
    counters: Counters | None = None,
    interleave: int | None = None,
    chunk_bytes: int = CHUNK_BYTES,
) -> list[Array]:
    """Runs a function in a threadgroup for every program of a grid.

    `arguments` are those of the function, in order: an array for each pointer (bf16 as its bits,
    in uint16), written in place; a number for each scalar.  What the programs print goes to
    `output`, line by line in the order of the programs, also when a `ProgramError` ends the run;
    memory then holds what was written so far.

    With `interleave`, a seed, the simdgroups of a threadgroup advance by turns in a random order,
    and `compare_exchange` sometimes fails for no reason.  `counters` gathers what was done.

    The result is what the function returns: for each value an array with a row per program, of a
    row per thread.
    """
    launch = Launch(function, grid, arguments, counters, interleave)
    step = launch.programs_at_a_time(chunk_bytes)
    returned = []
    try:
        for start in range(0, launch.count, step):
            chunk = Chunk(launch, start, min(start + step, launch.count))
            returned.append(_run_chunk(launch, chunk))
            launch.reports.finish()
    finally:
        launch.reports.write(output)
    if counters is not None:
        counters.finish()
    return [np.concatenate(parts) for parts in zip(*returned, strict=True)]


def _run_chunk(launch: Launch, chunk: Chunk) -> list[Array]:
    body, rows = launch.function.body, np.arange(chunk.size)
    every = np.arange(launch.threads)
    groups = [every] if launch.chance is None else list(every.reshape(-1, SIMDGROUP_WIDTH))
    frames = [Frame(launch, chunk, rows, threads) for threads in groups]
    runs = [frame.run(body, launch.arguments) for frame in frames]
    ends = [in_lockstep(runs[0])] if launch.chance is None else by_turns(runs, launch.chance)
    parts = [
        [_whole(frame, v, x) for v, x in zip(body.end.operands, values, strict=True)]
        for frame, values in zip(frames, ends, strict=True)
    ]
    return [np.concatenate(columns, axis=1) for columns in zip(*parts, strict=True)]


def _whole(frame: Frame, value: Value, x: Array) -> Array:
    """A value with a row for each program and thread, and every element."""
    return np.broadcast_to(
        x.astype(scalar.storage(element_type(value.type).element)), frame.full(value)
    )
