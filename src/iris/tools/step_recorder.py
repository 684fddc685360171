"""Records what one program or thread does, op by op, for a page to go through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from iris.errors import ProgramError
from iris.interp.observer import Observer
from iris.ir.control import Func
from iris.ir.core import Op, Value
from iris.ir.types import Ptr, Threadgroup
from iris.tools.stepper import Listing, Place, shown

ELEMENTS = 32  # of a value that are kept
ROOM = 400_000  # bytes that a run may take in a page, about; what comes later is left out
OF_OP, OF_VALUE = 4, 12  # bytes of each in a page, beside the texts of values


class StepRecorder(Observer):
    """Keeps the line of each op that runs, and what each value is from when on.

    Step `n` is the moment before the `n`-th op runs, and the last one that after all of them.
    """

    def __init__(self, function: Func, place: Place):
        self.place = place
        self.listing = Listing(function)
        self.lines: list[int] = []
        self.values: dict[str, list[tuple[int, str]]] = {}
        self.left_out = 0  # ops
        self.error: str | None = None
        self._room = ROOM

    def before(self, frame: Any, op: Op) -> None:
        if not frame.runs(self.place.number, self.place.thread):
            return
        if self._room <= 0:
            self.left_out += 1
            return
        if op.parent is not None and op.previous is None:
            for value in op.parent.arguments:
                self._keep(frame, value, frame[value])
        self.lines.append(self.listing.line_of[op] - 1)
        self._room -= OF_OP

    def after(self, frame: Any, op: Op, results: Sequence[Any]) -> None:
        if self.left_out or not frame.runs(self.place.number, self.place.thread):
            return
        for value, x in zip(op.results, results, strict=True):
            if x is not None:  # threads left a loop with different memories
                self._keep(frame, value, x)
        for value in op.operands:
            if isinstance(value.type, Ptr | Threadgroup):
                self._keep(frame, value, frame[value])

    def _keep(self, frame: Any, value: Value, x: Any) -> None:
        part = frame.part(value, x, self.place.number, self.place.thread)
        text = shown(value, part, ELEMENTS)
        known = self.values.setdefault(self.listing.names[value], [])
        is_memory = isinstance(value.type, Ptr | Threadgroup)
        if is_memory and known and known[-1][1] == text:
            return
        known.append((len(self.lines), text))
        self._room -= OF_VALUE + len(text)

    def failed(self, error: ProgramError) -> None:
        self.error = str(error)

    def data(self) -> dict[str, Any]:
        """What a page shows."""
        return {
            "where": str(self.place),
            "lines": self.lines,
            "values": self.values,
            "leftOut": self.left_out,
            "error": self.error,
        }
