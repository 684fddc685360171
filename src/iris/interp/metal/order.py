"""What fences and atomic ops order between programs: which accesses of which threads come before.

A thread's clock says of each thread of each program up to which of its accesses those of this one
come after.  An atomic op that writes leaves with the element the clock that its thread had at its
last fence; a thread that finds what was written there takes that on at its next fence, and the
others of its program do at the next barrier for device memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.interp.metal.numbering import Numbering
from iris.interp.metal.shadow import Shadow, Stamps, Use

Array = npt.NDArray[Any]
Unit = tuple[Shadow, int]


class Order:
    """The clocks of the programs of a launch."""

    def __init__(self, numbering: Numbering):
        self.numbering = numbering
        self._left: dict[Unit, Array] = {}

    def left_with(self, unit: Unit) -> Array | None:
        return self._left.get(unit)

    def leave(self, unit: Unit, clock: Array) -> None:
        """Leaves a clock with a unit of memory, besides that which is there already."""
        before = self._left.get(unit)
        self._left[unit] = clock if before is None else np.maximum(before, clock)

    def nothing(self) -> Array:
        return np.zeros((self.numbering.count, self.numbering.threads), np.int64)


class Clock:
    """The clocks of the threads of one program: one that all have, and more that some have."""

    def __init__(self, order: Order, program: int):
        self._order = order
        self._program = program
        self._all = order.nothing()
        self._own: dict[int, Array] = {}  # of threads that know more since the last barrier
        self._found: dict[int, Array] = {}  # of those that have found more since their last fence
        # At the last fence: what all knew, since when they were together, when it was.
        self._fence: tuple[Array, int, int] | None = None
        self._own_at_fence: dict[int, Array] = {}

    def find(self, thread: int, unit: Unit) -> None:
        """A thread has read by an atomic op, or volatile load."""
        left = self._order.left_with(unit)
        if left is not None:
            found = self._found.get(thread)
            self._found[thread] = left if found is None else np.maximum(found, left)

    def leave(self, thread: int, unit: Unit) -> None:
        """A thread has written by an atomic op."""
        if self._fence is None:
            return
        known, together, fenced = self._fence
        clock = self._own_at_fence.get(thread, known).copy()
        clock[self._program] = together
        clock[self._program, thread] = fenced
        self._order.leave(unit, clock)

    def fence(self, threads: Array, together: int) -> None:
        """Threads have come to a fence; all of the program met last at the stamp `together`."""
        for thread in set(self._found).intersection(threads.tolist()):
            self._own[thread] = np.maximum(self._own.get(thread, self._all), self._found[thread])
            del self._found[thread]
        self._fence = self._all, together, self._order.numbering.now()
        self._own_at_fence = dict(self._own)

    def meet(self) -> None:
        """All threads have passed a barrier for device memory."""
        for clock in self._own.values():
            self._all = np.maximum(self._all, clock)
        self._own.clear()

    def since(self, noted: Array, own: Array, *, atomic: bool) -> Array:
        """The stamp before which what is noted comes before an access with a stamp of its own."""
        numbering = self._order.numbering
        every = (1 << numbering.thread_bits) - 1
        programs = (noted & ((1 << numbering.stamp_bits) - 1)) >> numbering.thread_bits
        # Of what nobody has noted, the thread may be one that there is not.
        programs = np.minimum(programs, numbering.count - 1)
        threads = np.minimum(noted & every, numbering.threads - 1)
        since: Array = self._all[programs, threads]
        for thread, clock in [*self._own.items(), *(self._found.items() if atomic else ())]:
            mine = np.broadcast_to((own & every) == thread, since.shape)
            since = np.where(mine, np.maximum(since, clock[programs, threads]), since)
        return since


class OrderedShadow(Shadow):
    """Notes all accesses of a kind that come before none of the others, but for the last write."""

    __slots__ = ()

    def _noted(self, use: Use, units: Array) -> Iterable[Array]:
        rows = self.tables.get(use)
        return () if rows is None else (rows.take(units, axis=1),)

    def _note_others(self, use: Use, units: Array, stamps: Stamps) -> None:
        own = np.broadcast_to(stamps.own, units.shape).reshape(-1)
        rows = self.tables.get(use, np.zeros((1, self.size), np.int64))
        noted = rows.take(units, axis=1)
        free = ~self._late(noted, stamps).reshape(len(rows), -1)
        units, noted = units.reshape(-1), noted.reshape(len(rows), -1)
        left = np.arange(units.size)
        while left.size:
            if not free[:, left].any(axis=0).all():
                # Twice as many, for this to be needed seldom.
                more = np.zeros_like(rows)
                rows, noted = np.concatenate([rows, more]), np.concatenate([noted, more[:, units]])
                free = np.concatenate([free, np.ones((len(more), units.size), np.bool_)])
            chosen = free[:, left].argmax(axis=0)
            rows[chosen, units[left]] = own[left]
            # Threads that come to a unit at once are told by whose stamp stays.
            left = left[rows[chosen, units[left]] != own[left]]
            free[:, left] &= rows[:, units[left]] == noted[:, left]
        self.tables[use] = rows
