"""Who touched each part of some memory, and what no barrier orders.

An access is noted as a *stamp*, a number that says when it was, in which program and by which
thread, so that a stamp that is less than another is of an earlier access.  A barrier orders what
is before it and what is after; so what a thread does is in order with

- its own earlier accesses;
- those of another thread of its *group* that are before the last barrier that the group passed;
- those of other groups that are before the last barrier that all groups passed.

For threadgroup memory the groups are the simdgroups.  For device memory they are the programs,
and no barrier is for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from iris.interp.quick import all_of, any_of, spread

Array = npt.NDArray[Any]


class Use(Enum):
    """How a thread uses a part of memory."""

    READ = "reads"
    WRITE = "writes"
    ATOMIC = "atomically updates"
    ATOMIC_READ = "atomically reads"


# What may not have been done by one thread, with no barrier since, where another does this.
_CLASHES = {
    Use.READ: (Use.WRITE, Use.ATOMIC),
    Use.WRITE: (Use.WRITE, Use.READ, Use.ATOMIC, Use.ATOMIC_READ),
    Use.ATOMIC: (Use.WRITE, Use.READ),
    Use.ATOMIC_READ: (Use.WRITE,),
}


class Conflict(NamedTuple):
    """Two threads that use one part of memory as they may not."""

    where: int  # which of the accesses just noted
    earlier: Use
    stamp: int  # of the earlier access


class Stamps(NamedTuple):
    """Accesses, and the stamps before which others are in order with them.

    There is one stamp for accesses of other groups and one for accesses of the same group.
    """

    own: Array
    group_since: Array
    member_since: Array
    #: Of accesses that are noted, by what other group each is: the stamp before which it is in
    #: order with one that has a stamp of its own; None if nothing orders groups but barriers.
    order: Callable[[Array, Array], Array] | None = None

    def changed(self, change: Callable[[Array], Array]) -> Stamps:
        """The stamps, each array changed."""
        since = change(self.group_since), change(self.member_since)
        return Stamps(change(self.own), *since, self.order)


class Shadow:
    """Notes of the accesses to some memory, in units.

    The last write to a unit is kept.  That is enough: a race with an earlier write is also a race
    with the last one, or those two writes race.  Threads of a program may write equal values to a
    unit in one instruction: then another one of them is kept, too.  Of the readers since a barrier
    two are kept: from two groups if there are, else two of the last group.  A later writer is at
    most one of them.
    """

    __slots__ = ("group_bits", "program_bits", "size", "tables", "thread_bits")

    def __init__(self, size: int, group_bits: int, thread_bits: int, program_bits: int = 0):
        """The bits of a stamp that say which group it is of, which thread, and which program, if
        several have the memory."""
        self.size = size
        self.group_bits = group_bits
        self.thread_bits = thread_bits
        self.program_bits = program_bits
        # For each way of using: rows, each of which has a note of every unit.
        self.tables: dict[Use, Array] = {}

    def written_since(self, units: Array, since: Array) -> Array:
        """Which units were written at some time or later."""
        tables = self.tables.get(Use.WRITE)
        if tables is None:
            return np.zeros(units.shape, np.bool_)
        return np.asarray(tables[0].take(units) >= since)

    def touch(
        self,
        use: Use,
        units: Array,
        stamps: Stamps,
        values: Callable[[], Array] | None = None,
        repeats: Callable[[Array], Array] | None = None,
    ) -> Conflict | None:
        """Notes the accesses of one instruction, unless one clashes with what is noted.

        `values` gives the bits that are written to each unit; without them none are equal.
        `repeats` tells which writes that are noted are of this instruction too and left these
        bits, where it is noted for some of its threads at a time.
        """
        for earlier in _CLASHES[use]:
            for noted in self._noted(earlier, units):
                late = self._late(noted, stamps)
                if earlier is Use.WRITE and repeats is not None and any_of(late):
                    of_program = ((noted ^ stamps.own) & self.program_bits) == 0
                    late &= ~(of_program & repeats(noted))
                if any_of(late):
                    first = int(late.argmax())
                    return Conflict(first % units.size, earlier, int(noted.reshape(-1)[first]))
        if use is Use.WRITE:
            return self._note_write(units, stamps.own, values)
        self._note_others(use, units, stamps)
        return None

    def _table(self, use: Use) -> Array:
        table = self.tables.get(use)
        if table is None:
            copies = 1 if use is Use.WRITE else 2
            table = self.tables[use] = np.zeros((copies, self.size), np.int64)
        return table

    def _noted(self, use: Use, units: Array) -> Iterable[Array]:
        """The notes of units; each array has one of every unit, or several rows of these."""
        return (row.take(units) for row in self.tables.get(use, ()))

    def _late(self, noted: Array, stamps: Stamps) -> Array:
        """Which accesses that are noted are not in order with those that have these stamps."""
        late: Array = noted >= stamps.group_since
        if not any_of(late):
            return late
        late &= ((noted ^ stamps.own) & self.thread_bits) != 0
        if not any_of(late):
            return late
        far = ((noted ^ stamps.own) & self.group_bits) != 0
        late &= far | (noted >= stamps.member_since)
        if stamps.order is not None and any_of(late):
            late &= ~far | (noted >= stamps.order(noted, stamps.own))
        return late

    def _note_write(
        self, units: Array, own: Array, values: Callable[[], Array] | None
    ) -> Conflict | None:
        rows = self._table(Use.WRITE)
        rows[0][units] = own
        if len(rows) > 1:
            rows[1][units] = 0
        # Threads that write a unit in this one instruction are told by whose stamp stays.
        stayed = rows[0].take(units)
        lost = stayed != own
        if not any_of(lost):
            return None
        clash = lost
        if values is not None:
            written = values()
            differ = written != _values_kept(units, written, ~lost)
            clash = lost & (differ | (((stayed ^ own) & self.program_bits) != 0))
        if any_of(clash):
            where = int(clash.argmax())
            return Conflict(where, Use.WRITE, int(stayed.reshape(-1)[where]))
        if len(rows) == 1:
            rows = self.tables[Use.WRITE] = np.concatenate([rows, np.zeros_like(rows)])
        far = lost & (((stayed ^ own) & self.group_bits) != 0)
        # One of another group, if there is one, says more.
        for which in (lost, far):
            rows[1][units[which]] = spread(own, units.shape)[which]
        return None

    def _note_others(self, use: Use, units: Array, stamps: Stamps) -> None:
        first, second = self._table(use)
        own = stamps.own
        noted = first.take(units)
        over = noted < stamps.group_since
        if all_of(over):
            first[units] = own
        else:
            differ = noted ^ own
            over |= ((differ & self.group_bits) == 0) & (noted < stamps.member_since)
            first[units[over]] = spread(own, units.shape)[over]
        noted = first.take(units)
        left = noted != own
        if not any_of(left):
            return
        left &= ((noted ^ own) & self.thread_bits) != 0
        units, own, noted = units[left], spread(own, left.shape)[left], noted[left]
        since = spread(stamps.group_since, left.shape)[left]
        far = ((noted ^ own) & self.group_bits) != 0
        near = ~far
        if any_of(near):
            # One of another group, if there is one, says more.
            other = second.take(units)
            near &= (other < since) | (((other ^ noted) & self.group_bits) == 0)
            second[units[near]] = own[near]
        if any_of(far):
            second[units[far]] = own[far]


def _values_kept(units: Array, values: Array, kept: Array) -> Array:
    """For each access the value of the one to its unit that is kept."""
    distinct, which = np.unique(units, return_inverse=True)
    which = which.reshape(units.shape)
    held = np.empty(len(distinct), values.dtype)
    held[which[kept]] = values[kept]
    return np.asarray(held[which])
