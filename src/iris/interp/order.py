"""What atomic ops order: who used each element, and what is in no order with what.

Each program has a clock: up to which of the accesses of each program its own ones come after.  An
atomic op that writes leaves the clock of its program with the element; one whose result is used, or
a volatile load, takes on the clock that is left there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.interp.memory import CLASHES, Conflict, Shadow, Use

Array = npt.NDArray[Any]


class Clocks:
    """The clocks of the programs of a launch, and how late it is."""

    def __init__(self) -> None:
        self.now = 0  # the number of the latest access
        self._of: dict[int, Array] = {}

    def of(self, program: int, programs: int) -> Array:
        """For each program, the first of its accesses that is in no order with the next of this
        one."""
        clock = self._of.get(program)
        if clock is None:
            clock = self._of[program] = np.zeros(programs, np.int64)
        return clock


class OrderedShadow(Shadow):
    """Notes of uses by one program at a time.

    Of the writes to an element the last is noted.  Of other uses, all those are that come before
    none of the others.
    """

    __slots__ = ("clocks", "left", "rows", "sites")

    def __init__(self, clocks: Clocks, size: int, programs: int, sites: int):
        super().__init__(size, programs, sites)
        self.clocks = clocks
        self.sites = sites
        # For each way of using: rows, each of which has a note of every unit.
        self.rows: dict[Use, Array] = {use: np.zeros((0, size), np.int64) for use in Use}
        self.left: dict[int, Array] = {}  # the clock that an atomic op left with a unit

    def stamps(self, site: int, programs: Array) -> Array:
        self.clocks.now += 1
        return 1 + programs + (site + self.sites * self.clocks.now) * self.programs

    def site_and_program(self, stamp: int) -> tuple[int, int]:
        rest, program = divmod(stamp - 1, self.programs)
        return rest % self.sites, program

    def touch(self, use: Use, units: Array, stamps: Array) -> Conflict | None:
        if not len(units):
            return None
        program = self.site_and_program(int(stamps[0]))[1]
        clock = self.clocks.of(program, self.programs)
        for earlier in CLASHES[use]:
            noted = self.rows[earlier][:, units]
            late = ~self._comes_after(noted, program, clock)
            if late.any():
                row, lane = np.unravel_index(late.argmax(), late.shape)
                return Conflict(int(lane), earlier, int(noted[row, lane]))
        self._note(use, units, stamps, program, clock)
        return None

    def find(self, units: Array, stamps: Array) -> None:
        """Notes that a program asks what atomic ops wrote to units."""
        if not len(units):
            return
        program = self.site_and_program(int(stamps[0]))[1]
        clock = self.clocks.of(program, self.programs)
        for left in self._left_with(units):
            np.maximum(clock, left, out=clock)

    def leave(self, units: Array, stamps: Array) -> None:
        """Notes that atomic ops have written to units: with what is before them, not with them."""
        if not len(units):
            return
        program = self.site_and_program(int(stamps[0]))[1]
        clock = self.clocks.of(program, self.programs).copy()
        clock[program] = self.clocks.now
        # What others left stays: this is made of what they wrote.
        for left in self._left_with(units):
            np.maximum(clock, left, out=clock)
        self.left.update(dict.fromkeys(units.tolist(), clock))

    def _left_with(self, units: Array) -> Iterable[Array]:
        """The clocks, each once, that atomic ops left with units."""
        found = (self.left.get(unit) for unit in units.tolist())
        return {id(x): x for x in found if x is not None}.values()

    def _comes_after(self, noted: Array, program: int, clock: Array) -> Array:
        """Whether what a program does comes after uses that are noted."""
        rest, by = np.divmod(noted - 1, self.programs)
        after: Array = (noted == 0) | (by == program) | (rest // self.sites < clock[by])
        return after

    def _note(self, use: Use, units: Array, stamps: Array, program: int, clock: Array) -> None:
        rows = self.rows[use]
        free = self._comes_after(rows[:, units], program, clock)
        if not free.any(axis=0).all():
            # Twice as many, for this to be needed seldom.
            more = np.zeros((max(len(rows), 1), self.size), np.int64)
            rows = self.rows[use] = np.concatenate([rows, more])
            free = np.concatenate([free, np.ones((len(more), len(units)), np.bool_)])
        rows[free.argmax(axis=0), units] = stamps
