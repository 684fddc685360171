"""Programs that wait for each other, with what they compute; some race, some wait for ever."""

# mypy: ignore-errors
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

import iris

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Case:
    """A launch: its arrays, and what the last of them is after it."""

    kernel: Any
    grid: int
    arrays: Callable[[], list[Array]]
    expected: Any = None
    constants: dict[str, int] = field(default_factory=dict)

    def run(self, device: str, **options: Any) -> Array:
        arrays = self.arrays()
        self.kernel[self.grid](*arrays, **self.constants, device=device, **options)
        return arrays[-1]


def _zeros(*counts: int) -> Callable[[], list[Array]]:
    return lambda: [np.zeros(count, np.int32) for count in counts]


# A lock.


@iris.kernel
def lock(Lock, Total):
    while iris.atomic_cas(Lock, 0, 1) != 0:
        pass
    iris.store(Total, iris.load(Total) + 1)
    iris.atomic_exchange(Lock, 0)


@iris.kernel
def lock_of_tiles(Lock, Total):
    at = iris.arange(0, 64)
    while iris.atomic_exchange(Lock, 1) != 0:
        pass
    iris.store(Total + at, iris.load(Total + at) + at)
    iris.atomic_exchange(Lock, 0)


@iris.kernel
def lock_and_mark(X, Lock, Used, Sums):
    row = iris.program_id(0)
    which = row % 2
    at = iris.arange(0, 64)
    part = iris.load(X + row * 64 + at)
    while iris.atomic_cas(Lock + which, 0, 1) != 0:
        pass
    if iris.load(Used + which) == 0:
        iris.atomic_exchange(Used + which, 1)
    else:
        part += iris.load(Sums + which * 64 + at)
    iris.store(Sums + which * 64 + at, part)
    iris.atomic_exchange(Lock + which, 0)


@iris.kernel
def released_too_early(Lock, Total):
    while iris.atomic_cas(Lock, 0, 1) != 0:
        pass
    total = iris.load(Total) + 1
    iris.atomic_exchange(Lock, 0)
    iris.store(Total, total)


@iris.kernel
def taken_too_late(Lock, Total):
    total = iris.load(Total) + 1
    while iris.atomic_cas(Lock, 0, 1) != 0:
        pass
    iris.store(Total, total)
    iris.atomic_exchange(Lock, 0)


@iris.kernel
def two_locks(Lock, Total):
    which = iris.program_id(0) % 2
    while iris.atomic_cas(Lock + which, 0, 1) != 0:
        pass
    iris.store(Total, iris.load(Total) + 1)
    iris.atomic_exchange(Lock + which, 0)


@iris.kernel
def never_released(Lock, Total):
    while iris.atomic_cas(Lock, 0, 1) != 0:
        pass
    iris.store(Total, iris.load(Total) + 1)


@iris.kernel
def in_opposite_order(Lock):
    mine = iris.program_id(0)
    other = 1 - mine
    while iris.atomic_cas(Lock + mine, 0, 1) != 0:
        pass
    while iris.atomic_cas(Lock + other, 0, 1) != 0:
        pass
    iris.atomic_exchange(Lock + other, 0)
    iris.atomic_exchange(Lock + mine, 0)


# One after the other.


@iris.kernel
def in_turn(Turn, Out):
    number = iris.num_programs(0) - 1 - iris.program_id(0)
    at = iris.arange(0, 32)
    while iris.load(Turn, volatile=True) != number:
        pass
    iris.store(Out + at, iris.load(Out + at) * 2 + number)
    iris.atomic_add(Turn, 1)


@iris.kernel
def turn_given_too_early(Turn, Out):
    number = iris.num_programs(0) - 1 - iris.program_id(0)
    at = iris.arange(0, 32)
    while iris.load(Turn, volatile=True) != number:
        pass
    iris.atomic_add(Turn, 1)
    iris.store(Out + at, iris.load(Out + at) * 2 + number)


# One makes what others need.


@iris.kernel
def producer(Flag, Data, Out):
    program = iris.program_id(0)
    at = iris.arange(0, 64)
    if program == iris.num_programs(0) - 1:
        iris.store(Data + at, at * 3)
        iris.atomic_exchange(Flag, 1)
    else:
        while iris.load(Flag, volatile=True) == 0:
            pass
        iris.store(Out + program * 64 + at, iris.load(Data + 63 - at))


@iris.kernel
def flag_before_data(Flag, Data, Out):
    program = iris.program_id(0)
    at = iris.arange(0, 64)
    if program == iris.num_programs(0) - 1:
        iris.atomic_exchange(Flag, 1)
        iris.store(Data + at, at * 3)
    else:
        while iris.load(Flag, volatile=True) == 0:
            pass
        iris.store(Out + program * 64 + at, iris.load(Data + 63 - at))


@iris.kernel
def plain_flag(Flag, Data, Out):
    program = iris.program_id(0)
    if program == 0:
        iris.store(Data, 42)
        iris.store(Flag, 1)
    else:
        while iris.load(Flag, volatile=True) == 0:
            pass
        iris.store(Out + program, iris.load(Data))


@iris.kernel
def nobody_sets_it(Flag, Out):
    while iris.load(Flag + 2, volatile=True) == 0:
        pass
    iris.store(Out + iris.program_id(0), 1)


# The last to come does the rest; nobody waits.


@iris.kernel
def last_reduces(Ticket, Parts, Out, PROGRAMS: iris.constexpr):
    program = iris.program_id(0)
    iris.store(Parts + program, program + 1)
    if iris.atomic_add(Ticket, 1) == PROGRAMS - 1:
        iris.store(Out, iris.sum(iris.load(Parts + iris.arange(0, PROGRAMS))))


@iris.kernel
def last_reads_what_atomics_wrote(Done, Bins, Out, PROGRAMS: iris.constexpr):
    at = iris.arange(0, 64)
    iris.atomic_add(Bins + at, at)
    if iris.atomic_add(Done, 1) == PROGRAMS - 1:
        iris.store(Out, iris.sum(iris.load(Bins + at)))


@iris.kernel
def last_writes_over(Done, Out, PROGRAMS: iris.constexpr):
    at = iris.arange(0, 64)
    iris.store(Out + iris.program_id(0) * 64 + at, at)
    if iris.atomic_add(Done, 1) == PROGRAMS - 1:
        for program in range(PROGRAMS):
            iris.store(Out + program * 64 + at, PROGRAMS)


@iris.kernel
def last_but_one_reduces(Ticket, Parts, Out, PROGRAMS: iris.constexpr):
    program = iris.program_id(0)
    iris.store(Parts + program, program + 1)
    if iris.atomic_add(Ticket, 1) == PROGRAMS - 2:
        iris.store(Out, iris.sum(iris.load(Parts + iris.arange(0, PROGRAMS))))


@iris.kernel
def ticket_before_part(Ticket, Parts, Out, PROGRAMS: iris.constexpr):
    program = iris.program_id(0)
    ticket = iris.atomic_add(Ticket, 1)
    iris.store(Parts + program, program + 1)
    if ticket == PROGRAMS - 1:
        iris.store(Out, iris.sum(iris.load(Parts + iris.arange(0, PROGRAMS))))


# A lock that is tried; nobody waits.


@iris.kernel
def tried_in_a_loop(count, Lock, Out):
    at = iris.arange(0, 64)
    for i in range(count):
        if i == iris.program_id(0) and iris.atomic_cas(Lock, 0, 1) == 0:
            iris.store(Out + at, at)
            iris.atomic_exchange(Lock, 0)


@iris.kernel
def tried_and_kept(count, Count, Out):
    for i in range(count):
        if iris.atomic_add(Count, 1) % 2 == 1:
            iris.store(Out, i)


# What stands before an atomic is in order with what stands after one that finds it, and is used.


@iris.kernel
def counter_reset_plainly(Done, PROGRAMS: iris.constexpr):
    if iris.atomic_add(Done, 1) == PROGRAMS - 1:
        iris.store(Done, 0)


@iris.kernel
def flag_taken_back_plainly(Flag, Out):
    if iris.program_id(0) == 0:
        iris.store(Out, 1)
        iris.atomic_exchange(Flag, 1)
    else:
        while iris.load(Flag, volatile=True) == 0:
            pass
        iris.store(Flag, 0)


@iris.kernel
def nobody_looks(Count, Data, Out):
    program = iris.program_id(0)
    if program == 0:
        iris.store(Data, 1)
    iris.atomic_add(Count, 1)
    if program == 2:
        iris.store(Out, iris.load(Data))
    if iris.atomic_add(Count, 1) == 5:
        iris.store(Data, 2)


# A scan in which each program looks back at those before it.


@iris.kernel
def look_back(X, State, Parts, Prefixes, Out, BLOCK: iris.constexpr):
    program = iris.program_id(0)
    at = program * BLOCK + iris.arange(0, BLOCK)
    x = iris.load(X + at)
    total = iris.sum(x)
    iris.store(Parts + program, total)
    iris.atomic_exchange(State + program, 1)
    before = 0
    other = program - 1
    while other >= 0:
        state = iris.load(State + other, volatile=True)
        while state == 0:
            state = iris.load(State + other, volatile=True)
        if state == 2:
            before += iris.load(Prefixes + other)
            other = -1
        else:
            before += iris.load(Parts + other)
            other -= 1
    iris.store(Prefixes + program, before + total)
    iris.atomic_exchange(State + program, 2)
    iris.store(Out + at, before + iris.cumsum(x))


@iris.kernel
def look_back_too_early(X, State, Parts, Prefixes, Out, BLOCK: iris.constexpr):
    program = iris.program_id(0)
    total = iris.sum(iris.load(X + program * BLOCK + iris.arange(0, BLOCK)))
    iris.atomic_exchange(State + program, 1)
    iris.store(Parts + program, total)
    if program > 0:
        while iris.load(State + program - 1, volatile=True) == 0:
            pass
        iris.store(Out + program, iris.load(Parts + program - 1))


def _scanned() -> list[Array]:
    return [np.arange(128, dtype=np.int32), *_zeros(4, 4, 4, 128)()]


def _rows() -> list[Array]:
    return [np.arange(256, dtype=np.int32), *_zeros(2, 2, 128)()]


SCAN = {"BLOCK": 32}

#: What ends, and how.
RIGHT = {
    "lock": Case(lock, 6, _zeros(1, 1), [6]),
    "lock of tiles": Case(lock_of_tiles, 3, _zeros(1, 64), 3 * np.arange(64)),
    "lock and mark": Case(lock_and_mark, 4, _rows, 2 * np.arange(128) + 128),
    "in turn": Case(in_turn, 4, _zeros(1, 32), np.full(32, ((0 * 2 + 1) * 2 + 2) * 2 + 3)),
    "producer": Case(producer, 3, _zeros(1, 64, 128), np.tile(189 - 3 * np.arange(64), 2)),
    "last reduces": Case(last_reduces, 8, _zeros(1, 8, 1), [36], {"PROGRAMS": 8}),
    "last reads what atomics wrote": Case(
        last_reads_what_atomics_wrote, 4, _zeros(1, 64, 1), [4 * 2016], {"PROGRAMS": 4}
    ),
    "last writes over": Case(last_writes_over, 4, _zeros(1, 256), 256 * [4], {"PROGRAMS": 4}),
    "tried in a loop": Case(tried_in_a_loop, 3, lambda: [4, *_zeros(1, 64)()], range(64)),
    "look back": Case(look_back, 4, _scanned, np.cumsum(np.arange(128)), SCAN),
}
#: What programs use in no order.
RACY = {
    "released too early": Case(released_too_early, 3, _zeros(1, 1)),
    "taken too late": Case(taken_too_late, 3, _zeros(1, 1)),
    "two locks": Case(two_locks, 3, _zeros(2, 1)),
    "turn given too early": Case(turn_given_too_early, 3, _zeros(1, 32)),
    "flag before data": Case(flag_before_data, 3, _zeros(1, 64, 192)),
    "plain flag": Case(plain_flag, 3, _zeros(1, 1, 3)),
    "last but one reduces": Case(last_but_one_reduces, 4, _zeros(1, 4, 1), None, {"PROGRAMS": 4}),
    "ticket before part": Case(ticket_before_part, 4, _zeros(1, 4, 1), None, {"PROGRAMS": 4}),
    "tried and kept": Case(tried_and_kept, 3, lambda: [4, *_zeros(1, 1)()]),
    "counter reset plainly": Case(counter_reset_plainly, 3, _zeros(1), None, {"PROGRAMS": 3}),
    "flag taken back plainly": Case(flag_taken_back_plainly, 2, _zeros(1, 1)),
    "nobody looks": Case(nobody_looks, 3, _zeros(1, 1, 1)),
    "look back too early": Case(look_back_too_early, 4, _scanned, None, SCAN),
}
#: What waits for ever, and for which element.
STUCK = {
    "never released": (Case(never_released, 3, _zeros(1, 1)), "Lock", 0),
    "in opposite order": (Case(in_opposite_order, 2, _zeros(2)), "Lock", 1),
    "nobody sets it": (Case(nobody_sets_it, 3, _zeros(3, 3)), "Flag", 2),
}
