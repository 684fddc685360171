"""Programs that take turns: each in its turn, until all have ended or none gets anywhere."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from iris.errors import DeadlockError

Array = npt.NDArray[Any]
Result = TypeVar("Result")


class Turn(NamedTuple):
    """Where a program lets others go on."""

    run: object  # of the loop: which one it is in
    carried: Sequence[Any]
    goes_on: bool

    def is_like(self, other: Turn | None) -> bool:
        """Whether the program is where it was, and will do the same again if memory is the same."""
        return (
            other is not None
            and self.run == other.run
            and self.goes_on
            and all(map(_are_same, self.carried, other.carried))
        )


class Asked(NamedTuple):
    """What a program that waits has asked for last."""

    program: tuple[int, int, int]
    array: str
    element: int
    location: tuple[str, int] | None


def take_turns(
    programs: Sequence[Generator[Turn, None, Result]],
    memory: Sequence[Array],
    asked: Callable[[int], Asked],
) -> list[Result]:
    """Runs programs, each up to its next turn, until all have ended; gives what each returns.
    `asked` says of a program by its number what it waits for, should all wait for ever."""
    running = dict(enumerate(programs))
    returned: dict[int, Result] = {}
    watch = _Watch(memory)
    while running:
        turns: dict[int, Turn] = {}
        for number, program in list(running.items()):
            try:
                turns[number] = next(program)
            except StopIteration as end:
                returned[number] = end.value
                del running[number]
        if watch.stands_still(turns):
            raise _deadlock([asked(number) for number in running])
    return [returned[number] for number in range(len(programs))]


def _deadlock(waits: Sequence[Asked]) -> DeadlockError:
    first = waits[0]
    return DeadlockError.of(
        [f"program {w.program} waits for element {w.element} of {w.array}" for w in waits],
        program=first.program,
        array=first.array,
        index=first.element,
        locations=list(dict.fromkeys(w.location for w in waits if w.location is not None)),
    )


class _Watch:
    """Tells when programs do in a whole turn what they did in the one before, and so for ever."""

    def __init__(self, memory: Sequence[Array]):
        self._memory = memory
        self._turns: Mapping[int, Turn] = {}
        self._before: list[Array] | None = None  # memory after the last turn, if that was looked at

    def stands_still(self, turns: Mapping[int, Turn]) -> bool:
        """Whether a whole turn of all programs that have not ended has changed nothing."""
        earlier, self._turns = self._turns, turns
        alike = turns.keys() == earlier.keys() and all(
            turn.is_like(earlier[number]) for number, turn in turns.items()
        )
        if not turns or not alike:
            self._before = None
            return False
        before = self._before
        if before is not None and all(map(_are_same, before, self._memory)):
            return True
        self._before = [x.copy() for x in self._memory]
        return False


def _are_same(x: Any, y: Any) -> bool:
    if not isinstance(x, np.ndarray):
        return x is y
    return x is y or (x.shape == y.shape and x.tobytes() == y.tobytes())
