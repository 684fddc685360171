"""What arrays hold, and which launches have failed, if each line of a script runs at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from iris.runtime.buffer import dtype_of
from iris.runtime.device import Array
from iris.testing import launched
from iris.testing.elements import around
from iris.tools.run import bits_of

Failures: TypeAlias = frozenset[int]
NONE: Failures = frozenset()


class Unsettled(Exception):
    """From here on nobody can say what the array on the host holds."""


@dataclass
class Cell:
    """The memory of a Buffer: its elements, and which failed launches were to write it.

    `surfaced`: a read has raised the failure, so that every launch must.  `doubtful`: a launch
    that was to write it raised the failure of another, and may have run all the same.
    """

    data: Array
    failures: Failures = NONE
    surfaced: bool = False
    doubtful: bool = False

    def fail(self, failures: Failures, *, doubtful: bool = False) -> None:
        self.failures, self.doubtful = failures, doubtful

    def mend(self) -> None:
        """It has been written as a whole."""
        self.failures, self.surfaced, self.doubtful = NONE, False, False


class Outcome(NamedTuple):
    """What a line came to: the arrays that it showed, and the failed launch that it told of."""

    shown: list[Array]
    failure: int | None


class Call(NamedTuple):
    """A launch of a kernel; its arguments are Cells, arrays of the host, and numbers."""

    kernel: launched.Tried
    arguments: Sequence[Any]
    constants: dict[str, Any]
    own: Failures  # its number, if it fails
    is_empty: bool = False  # its grid has no programs

    @property
    def cells(self) -> list[Cell]:
        return [value for value in self.arguments if isinstance(value, Cell)]

    @property
    def written(self) -> list[Cell]:
        return [value for value in self._written if isinstance(value, Cell)]

    @property
    def writes_to_host(self) -> bool:
        return any(isinstance(value, np.ndarray) for value in self._written)

    @property
    def _written(self) -> list[Any]:
        also = [index for name, index in self.kernel.writes_if if self.constants[name]]
        return [self.arguments[index] for index in (*self.kernel.writes, *also)]

    @property
    def waits(self) -> bool:
        """Launches that are given arrays wait, and raise what is wrong."""
        return any(isinstance(value, np.ndarray) for value in self.arguments)

    def run(self) -> list[str]:
        """Does it; gives the lines that it prints."""
        arrays = [value.data if isinstance(value, Cell) else value for value in self.arguments]
        with np.errstate(all="ignore"):
            return self.kernel.meaning(*arrays, **self.constants) or []


class InOrder:
    """The state of a script after some of its lines."""

    def __init__(self) -> None:
        self.cells = {name: Cell(array) for name, array in launched.arrays().items()}
        self.host = launched.host()
        self.prepared: Call | None = None
        self.is_recorded = False  # the prepared launch
        self.lines: list[str] = []  # that were printed
        # Failed launches that nobody was told of; and launches that fail if they have run at all.
        self.untold: set[int] = set()
        self.unsure: set[int] = set()
        # Those that ran, and more than once: who is told of one is not told of the others.
        self.ran: set[int] = set()
        self.ran_again: set[int] = set()

    def launch(self, call: Call, failure: int | None = None, times: int = 1) -> None:
        """Does what a kernel does; or checks the failure that it raised."""
        given = failures_of(call.cells)
        if call.is_empty:
            if failure is not None:
                self.tell(failure, given)
            return
        self.ran_again |= call.own if times > 1 else call.own & self.ran
        self.ran |= call.own
        if failure is not None:
            self.tell(failure, given | call.own)
            for cell in call.written:
                if failure in call.own:
                    # One that ran before may have raised it, and what ran since counts, too.
                    since = given if failure in self.ran_again else NONE
                    cell.fail(call.own | since)
                elif call.waits or times > 1:
                    cell.fail(given, doubtful=True)
            return
        # A launch that is given memory which has failed need not run, and so fail by itself.
        failures = call.own | given
        doubtful = not call.own and any(cell.doubtful for cell in call.cells)
        must_raise = call.waits or any(cell.surfaced for cell in call.cells)
        assert not failures or doubtful or not must_raise, "it raises no error, and had to"
        if failures:
            if doubtful and call.writes_to_host:
                raise Unsettled
            (self.unsure if given else self.untold).update(call.own)
            for cell in call.written:
                cell.fail(failures, doubtful=doubtful)
            return
        for _ in range(times):
            self.lines += call.run()

    def read(self, cell: Cell, outcome: Outcome, expected: Array | None = None) -> None:
        """Checks what a read of memory showed, all of it or what is expected, or raised."""
        if outcome.failure is not None:
            self.tell(outcome.failure, cell.failures)
            cell.surfaced, cell.doubtful = True, False
        elif cell.failures:
            assert cell.doubtful, "it raises no error, and a launch that was to write it has failed"
        else:
            for shown in outcome.shown:
                compare(cell.data if expected is None else expected, shown)

    def tell(self, failure: int, failures: Failures | set[int]) -> None:
        """Checks that a launch which failed is one that somebody may be told of here."""
        assert failure in failures, f"it raises the failure of another launch, {failure}"
        self.untold.discard(failure)
        if failure in self.ran_again:
            self.unsure.add(failure)
        else:
            self.unsure.discard(failure)

    def synchronize(self, failure: int | None) -> None:
        """Checks the failure that was raised by waiting for everything, if any was."""
        if failure is None:
            assert not self.untold, "it raises no error, and nobody was told of a failed launch"
        else:
            self.tell(failure, self.untold | self.unsure)
        self.untold.clear()
        self.unsure.clear()


def failures_of(cells: Sequence[Cell]) -> Failures:
    return NONE.union(*[cell.failures for cell in cells])


def compare(expected: Array, shown: Array) -> None:
    """Raises `AssertionError` for the first element that has other bits."""
    dtype = dtype_of(expected.dtype)
    assert dtype is not None
    was, now = bits_of(dtype, expected), bits_of(dtype, shown)
    wrong = np.flatnonzero(was != now)
    if wrong.size:
        raise AssertionError(f"in order, {around(dtype, was, now, int(wrong[0]))}")
