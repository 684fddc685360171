"""Threads that run together, op by op, and how they part and meet again."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from iris.errors import ProgramError
from iris.interp.metal.describe import locations, thread_text
from iris.interp.metal.launch import Chunk, Launch
from iris.interp.metal.memory import Memory
from iris.interp.quick import all_of, any_of, spread
from iris.interp.watch import Turn
from iris.ir.core import Op, Region, Value
from iris.ir.math import element_type
from iris.ir.metal import SIMDGROUP_WIDTH, Scope
from iris.ir.types import Type

Array = npt.NDArray[Any]


class Wait(NamedTuple):
    """Threads that have reached a barrier and go on when all others have, too."""

    frame: Frame
    op: Op
    scope: Scope


#: What a frame gives while it runs: None where other simdgroups may have their turn, that it waits
#: for them, or where other programs have theirs.
Run = Generator[Wait | Turn | None, None, list[Any]]
Flow = Generator[Wait | Turn | None, None, Sequence[Any]]


class Frame:
    """Some threads of some programs, running together, and their values.

    They are all `threads` of the programs in the `rows` of a chunk, or those of them where
    `active` is true; in every row there is one.  `axes` are the counts of the loops whose rounds
    run all at once.
    """

    __slots__ = (
        "active",
        "axes",
        "chunk",
        "kept",
        "launch",
        "origin",
        "rows",
        "threads",
        "values",
    )

    def __init__(
        self,
        launch: Launch,
        chunk: Chunk,
        rows: Array,
        threads: Array,
        active: Array | None = None,
        axes: tuple[int, ...] = (),
    ):
        self.launch = launch
        self.chunk = chunk
        self.rows = rows
        self.threads = threads
        self.active = active
        self.axes = axes
        self.values: dict[Value, Any] = {}
        self.origin: Frame | None = None  # the frame that this one left,
        self.kept: Array | None = None  # and its rows there, if not all

    def only(self, kept: Array, active: Array | None) -> Frame:
        """A frame for some rows of this one, and for those of their threads that are active."""
        every = len(kept) == len(self.rows)
        rows = self.rows if every else self.rows[kept]
        if active is not None:
            active = spread(active, (len(rows), len(self.threads)))
            if all_of(active):
                active = None
        inner = Frame(self.launch, self.chunk, rows, self.threads, active, self.axes)
        inner.origin, inner.kept = self, None if every else kept
        return inner

    def rounds(self, count: int) -> Frame:
        """A frame for all rounds of a loop at once."""
        axes = (*self.axes, count)
        inner = Frame(self.launch, self.chunk, self.rows, self.threads, self.active, axes)
        inner.origin = self
        return inner

    def __getitem__(self, value: Value) -> Any:
        found = self.values.get(value)
        if found is None:
            origin = self.origin
            assert origin is not None, f"{value!r} has not been computed"
            found = take(origin[value], self.kept)
            if len(origin.axes) < len(self.axes) and isinstance(found, np.ndarray):
                found = np.expand_dims(found, 2 + len(origin.axes))
            self.values[value] = found
        return found

    def __contains__(self, value: Value) -> bool:
        """Whether a value has been computed, and may be used again."""
        return value in self.values or (self.origin is not None and value in self.origin)

    def runs(self, program: int, thread: int) -> bool:
        """Whether a thread of a program is one of these."""
        there = np.outer(self.rows + self.chunk.start == program, self.threads == thread)
        return bool((there if self.active is None else there & self.active).any())

    def part(self, value: Value, x: Any, program: int, thread: int) -> Any:
        """What one of the threads has of a value that is x for all, with an axis for each of the
        loops whose rounds run at once; of memory, all that its program sees."""
        (row,) = np.flatnonzero(self.rows + self.chunk.start == program)
        if isinstance(x, Memory):
            return x.read(x.places(np.arange(x.size), self.rows[row : row + 1]))
        (column,) = np.flatnonzero(self.threads == thread)
        return np.broadcast_to(x, self.full(value))[row, column]

    def run(self, region: Region, arguments: Sequence[Any]) -> Run:
        """What the terminator of a region carries, the region being run."""
        values, launch = self.values, self.launch
        switching, counters = launch.chance is not None, launch.counters
        values.update(zip(region.arguments, arguments, strict=True))
        for op, rule, flows, touches, count, dying in launch.plan(region):
            operands = [values[v] if v in values else self[v] for v in op.operands]
            if touches and switching:
                yield None
            found = (yield from rule(self, op, *operands)) if flows else rule(self, op, *operands)
            values.update(zip(op.results, found, strict=True))
            if count is not None:
                count(counters, self, op, *operands)
            for value in dying:
                values.pop(value, None)
        return [self[v] for v in region.end.operands]

    # The shapes of values.

    @property
    def size(self) -> tuple[int, int]:
        """How many programs and threads there are."""
        return len(self.rows), len(self.threads)

    @property
    def simdgroups(self) -> int:
        return len(self.threads) // SIMDGROUP_WIDTH

    def rank(self, type_: Type) -> int:
        """How many axes a value of a type has."""
        return 2 + len(self.axes) + len(element_type(type_).shape)

    def full(self, value: Value) -> tuple[int, ...]:
        """The shape of a value, had every axis its real size."""
        return (*self.size, *self.axes, *element_type(value.type).shape)

    def enabled(self, mask: Array | None, rank: int) -> Array | None:
        """Which threads are active and have a mask that is true; None: all.  `rank` is that of
        what they are to be compared with."""
        if mask is not None and all_of(mask):
            mask = None
        if self.active is None:
            return None if mask is None else lift(mask, rank)
        active = lift(self.active, rank)
        return active if mask is None else lift(mask, rank) & active

    def per_simdgroup(self) -> Array | None:
        """The active threads, simdgroups and lanes apart; None: all."""
        if self.active is None:
            return None
        return self.active.reshape(len(self.rows), -1, SIMDGROUP_WIDTH)

    def threads_running(self) -> int:
        """How many threads of how many rounds run, in all."""
        threads = self.size[0] * self.size[1]
        if self.active is not None:
            threads = int(np.count_nonzero(self.active))
        return threads * int(np.prod(self.axes, dtype=int))

    # Reporting.

    def fail(
        self,
        op: Op,
        where: Array,
        message: str,
        *others: Op,
        memory: Memory | None = None,
        index: Array | None = None,
    ) -> NoReturn:
        """Reports the first of the places where something is wrong.  Those of inactive threads
        do not count."""
        where = np.broadcast_to(where, (*self.size, *where.shape[2:]))
        if self.active is not None:
            where = where & lift(self.active, where.ndim)
        first = np.unravel_index(int(where.argmax()), where.shape)
        program = self.launch.numbering.program(self.chunk.start + int(self.rows[first[0]]))
        thread = int(self.threads[first[1]])
        at = None
        if index is not None:
            at = int(np.broadcast_to(index, where.shape)[first])
            message = f"index {at} {message}"
        raise ProgramError(
            f"{message}, in program {program}, {thread_text(thread)}",
            program=program,
            thread=thread,
            array=None if memory is None else memory.name,
            index=at,
            locations=locations(op, *others),
        )

    def check(self, op: Op, bad: Array, message: str) -> None:
        """Reports something that is wrong where an active thread has it."""
        if any_of(bad) and (self.active is None or any_of(bad & lift(self.active, bad.ndim))):
            self.fail(op, bad, message)


def lift(x: Array, rank: int) -> Array:
    """A value with as many axes as another one has that it meets."""
    return x.reshape(*x.shape, *[1] * (rank - x.ndim)) if x.ndim < rank else x


def take(x: Any, kept: Array | None) -> Any:
    """A value for some of the programs."""
    if kept is None or not isinstance(x, np.ndarray) or len(x) == 1:
        return x
    return x[kept]


class Part(NamedTuple):
    """What some threads did that had parted from others: their rows, which of their threads (None:
    all), and their values."""

    kept: Array
    active: Array | None
    values: Sequence[Any]


def join(frame: Frame, parts: Sequence[Part]) -> Sequence[Any]:
    """The values of threads that had parted, together again; None for memory that is not the same
    for all of them."""
    if len(parts) == 1:
        return parts[0].values
    joined = []
    masked = any(part.active is not None for part in parts)
    for values in zip(*[part.values for part in parts], strict=True):
        if not isinstance(values[0], np.ndarray):
            joined.append(values[0] if all(x is values[0] for x in values) else None)
            continue
        threads, *rest = np.broadcast_shapes(*[x.shape[1:] for x in values])
        shape = (len(frame.rows), len(frame.threads) if masked else threads, *rest)
        whole = np.zeros(shape, np.result_type(*values))
        for part, x in zip(parts, values, strict=True):
            if part.active is not None:
                x = np.where(lift(part.active, x.ndim), x, whole[part.kept])
            whole[part.kept] = x
        joined.append(whole)
    return joined
