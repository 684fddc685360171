"""The shadow of memory against the definition: an access is noted, and looked at by all later
ones, none forgotten."""

from __future__ import annotations

from copy import deepcopy
from typing import NamedTuple

import numpy as np
import pytest

from iris.interp.metal.shadow import Shadow, Stamps, Use
from support import counts

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
            return earlier.moment < max(self.all_passed, self.passed[later.thread // 32])
        return earlier.moment < self.all_passed

    def clashes(self, access: Access) -> bool:
        """Whether an access is in the way of an earlier one."""
        return any(
            earlier.unit == access.unit
            and clash(earlier.use, access.use)
            and not self.is_ordered(earlier, access)
            for earlier in self.accesses
        )

    def touch(self, accesses: list[Access]) -> bool:
        """Whether some accesses are in another's way."""
        for access in accesses:
            if self.clashes(access):
                return True
            self.accesses.append(access)
        return False

    def stamps(self, accesses: list[Access]) -> Stamps:
        own = [(a.moment << 7) + a.thread for a in accesses]
        since = [max(1, self.all_passed << 7)] * len(accesses)
        members = [self.passed[a.thread // 32] << 7 for a in accesses]
        return Stamps(*[np.array(x) for x in (own, since, members)])

    def draw_barrier(self, chance: np.random.Generator, moment: int, for_all: float) -> bool:
        """Perhaps a barrier."""
        what = chance.random()
        if what < for_all:
            self.all_passed = moment
        elif what < 0.4:
            self.passed[int(chance.integers(3))] = moment
        return what < 0.4


def draw(chance: np.random.Generator, moment: int, use: Use, count: int) -> list[Access]:
    threads = THREADS[chance.integers(len(THREADS), size=count)]
    units = chance.integers(UNITS, size=count)
    pairs = zip(units.tolist(), threads.tolist(), strict=True)
    return [Access(moment, use, unit, thread) for unit, thread in pairs]


@pytest.mark.parametrize("seed", range(counts(300, 3000)))
def test_what_is_kept_is_enough(seed: int) -> None:
    """Until the first race, which is told, and truly."""
    chance = np.random.default_rng(seed)
    uses = list(Use) if seed % 2 else [*[Use.READ] * 3, Use.WRITE]
    shadow, definition = Shadow(UNITS, GROUP_BITS, THREAD_BITS), Definition()
    for moment in range(1, 60):
        if definition.draw_barrier(chance, moment, 0.2):
            continue
        use = uses[chance.integers(len(uses))]
        count = int(chance.integers(1, 3 if use is Use.WRITE else 8))
        accesses = draw(chance, moment, use, count)
        stamps = definition.stamps(accesses)
        conflict = shadow.touch(use, np.array([a.unit for a in accesses]), stamps)
        assert (conflict is not None) is definition.touch(accesses)
        if conflict is not None:
            access = accesses[conflict.where]
            number, thread = conflict.stamp >> 7, conflict.stamp & THREAD_BITS
            earlier = Access(number, conflict.earlier, access.unit, thread)
            assert earlier in [*definition.accesses, *accesses]
            assert clash(earlier.use, access.use)
            assert not definition.is_ordered(earlier, access)
            return


@pytest.mark.parametrize("seed", range(counts(30, 300)))
def test_no_reader_is_forgotten(seed: int) -> None:
    """After each of many reads it is asked who may write."""
    chance = np.random.default_rng(seed)
    shadow, definition = Shadow(UNITS, GROUP_BITS, THREAD_BITS), Definition()
    for moment in range(1, 40):
        if not definition.draw_barrier(chance, moment, 0.1):
            accesses = draw(chance, moment, Use.READ, 1 if seed % 2 else 3)
            stamps = definition.stamps(accesses)
            assert shadow.touch(Use.READ, np.array([a.unit for a in accesses]), stamps) is None
            assert not definition.touch(accesses)
        for unit in range(UNITS):
            for thread in THREADS.tolist():
                write = Access(moment + 1, Use.WRITE, unit, thread)
                probed = deepcopy(shadow).touch(
                    Use.WRITE, np.array([unit]), definition.stamps([write])
                )
                assert (probed is not None) is definition.clashes(write)
