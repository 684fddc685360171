"""Whether programs that take turns get anywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


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


class Watch:
    """Tells when programs do in a whole turn what they did in the one before, and so for ever."""

    def __init__(self, memory: Callable[[], Sequence[Array]]):
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
        before, memory = self._before, self._memory()
        if before is not None and all(map(_are_same, before, memory)):
            return True
        self._before = [x.copy() for x in memory]
        return False


def _are_same(x: Any, y: Any) -> bool:
    if not isinstance(x, np.ndarray):
        return x is y
    return x is y or (x.shape == y.shape and x.tobytes() == y.tobytes())
