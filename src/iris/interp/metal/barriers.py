"""The barriers that programs have passed, and so which earlier accesses come before later ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from iris.interp.metal.numbering import Numbering
from iris.interp.metal.order import Clock
from iris.interp.metal.shadow import Stamps
from iris.interp.quick import all_of
from iris.ir.metal import SIMDGROUP_WIDTH, Scope

Array = npt.NDArray[Any]


class Barriers:
    """The barriers of programs that run at a time: what has a lower stamp than `..._since` is
    before the last one.  `clock` says what fences order, if they do."""

    def __init__(self, numbering: Numbering, programs: int, clock: Clock | None):
        self._numbering = numbering
        simdgroups = numbering.threads // SIMDGROUP_WIDTH
        begin = numbering.now()
        self.device_since = np.full(programs, begin)
        self.threadgroup_since = np.full(programs, begin)
        self.simdgroup_since = np.full((programs, simdgroups), begin)
        self.clock = clock

    def passed(self, scope: Scope, rows: Array, simdgroups: Array | None = None) -> None:
        """Notes that the programs of some rows, or some of their simdgroups, passed a barrier."""
        now = self._numbering.now()
        if scope is Scope.SIMDGROUP:
            self.simdgroup_since[rows, simdgroups] = now
            return
        self.threadgroup_since[rows] = now
        if scope is Scope.DEVICE:
            self.device_since[rows] = now
            if self.clock is not None:
                self.clock.meet()

    def fence(self, threads: Array) -> None:
        """Notes that threads came to a fence."""
        if self.clock is not None:
            self.clock.fence(threads, int(self.device_since[0]))

    def device_stamps(self, own: Array, rows: Array) -> Stamps:
        """Accesses to device memory with stamps of their own, one for each row and thread."""
        since = self.device_since[rows].reshape(-1, 1)
        return Stamps(own, np.ones((1, 1), np.int64), _one_if_same(since))

    def shared_stamps(self, own: Array, rows: Array, threads: Array) -> Stamps:
        """Accesses to threadgroup memory."""
        groups = threads[::SIMDGROUP_WIDTH] // SIMDGROUP_WIDTH
        of_group = _one_if_same(self.simdgroup_since[rows][:, groups])
        if of_group.shape[1] > 1:
            of_group = np.repeat(of_group, SIMDGROUP_WIDTH, axis=1)
        return Stamps(own, _one_if_same(self.threadgroup_since[rows].reshape(-1, 1)), of_group)


def _one_if_same(x: Array) -> Array:
    """One element, with as many axes, where all are the same."""
    first = x[:1, :1]
    return first if all_of(x == first) else x
