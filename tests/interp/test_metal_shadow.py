"""The shadow of memory against the definition: an access is noted, and looked at by all later
ones, none forgotten."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from iris.interp.metal.shadow import Shadow, Stamps, Use

THREADS = np.array([0, 1, 2, 32, 33, 64])
UNITS = 3
THREAD_BITS = (1 << 7) - 1
GROUP_BITS = THREAD_BITS & -32


class Access(NamedTuple):
    moment: int
    use: Use
    unit: int
    thread: int


def clash(one: Use, other: Use) -> bool:
    if Use.WRITE in (one, other):
        return True
    return {one, other} == {Use.READ, Use.ATOMIC}


class Definition:
    """Everything that happened, and when each group passed its last barrier."""

    def __init__(self) -> None:
        self.accesses: list[Access] = []
        self.all_passed = 0
        self.passed = {0: 0, 1: 0, 2: 0}

    def is_ordered(self, earlier: Access, later: Access) -> bool:
        if earlier.thread == later.thread:
            return True
        if earlier.thread // 32 == later.thread // 32:
            return earlier.moment < self.passed[later.thread // 32]
        return earlier.moment < self.all_passed

    def touch(self, accesses: list[Access]) -> bool:
        """Whether some of the accesses are in another's way."""
        for access in accesses:
            for earlier in self.accesses:
                if (
                    earlier.unit == access.unit
                    and clash(earlier.use, access.use)
                    and not self.is_ordered(earlier, access)
                ):
                    return True
            self.accesses.append(access)
        return False


@pytest.mark.parametrize("seed", range(600))
def test_what_is_kept_is_enough(seed: int) -> None:
    chance = np.random.default_rng(seed)
    uses = list(Use) if seed % 2 else [Use.READ, Use.READ, Use.READ, Use.WRITE]
    shadow, definition = Shadow(UNITS, GROUP_BITS, THREAD_BITS), Definition()
    for moment in range(1, 60):
        what = chance.integers(6)
        if what == 0:
            definition.all_passed = moment
            definition.passed = dict.fromkeys(definition.passed, moment)
        elif what == 1:
            definition.passed[int(chance.integers(3))] = moment
        else:
            use = uses[chance.integers(len(uses))]
            count = chance.integers(1, 4) if use is Use.WRITE else chance.integers(1, 8)
            threads = THREADS[chance.integers(len(THREADS), size=count)]
            units = chance.integers(UNITS, size=count)
            accesses = [
                Access(moment, use, u, t)
                for u, t in zip(units.tolist(), threads.tolist(), strict=True)
            ]
            own = (moment << 7) + threads
            members = np.array([definition.passed[t // 32] << 7 for t in threads.tolist()])
            since = np.full(len(threads), max(1, definition.all_passed << 7))
            conflict = shadow.touch(use, units, Stamps(own, since, np.maximum(members, since)))
            wrong = definition.touch(accesses)
            assert (conflict is not None) is wrong
            if conflict is None:
                continue
            # What is reported is true.
            access = accesses[conflict.where]
            earlier_moment, thread = conflict.stamp >> 7, conflict.stamp & THREAD_BITS
            earlier = Access(earlier_moment, conflict.earlier, access.unit, thread)
            assert earlier in [*definition.accesses, *accesses]
            assert clash(earlier.use, access.use)
            assert not definition.is_ordered(earlier, access)
            return
