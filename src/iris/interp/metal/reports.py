"""The lines that programs print, put together from what their threads give."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.errors import ProgramError
from iris.interp.metal.describe import locations, thread_text
from iris.interp.metal.numbering import Numbering
from iris.ir import metal, scalar
from iris.ir.literal import text
from iris.ir.math import element_type
from iris.ir.types import DType

Array = npt.NDArray[Any]


class _Tile:
    """A tile that is printed, of which threads give elements."""

    __slots__ = ("count", "dtype", "elements", "givers", "problem", "shape")

    def __init__(self, dtype: DType, shape: tuple[int, ...]):
        self.dtype = dtype
        self.shape = shape
        self.count = int(np.prod(shape, dtype=int))
        self.elements = np.zeros(self.count, scalar.storage(dtype))
        self.givers = np.full(self.count, -1)
        self.problem: tuple[str, int | None] | None = None  # and the thread that has it

    def give(self, threads: Array, elements: Array, places: Array) -> None:
        mine = places != -1
        by = np.broadcast_to(threads[:, None], mine.shape)[mine]
        places = places[mine]
        outside = (places < 0) | (places >= self.count)
        if outside.any():
            where = int(outside.argmax())
            what = f"is given the element {places[where]} of {self.count}"
            self.problem = self.problem or (what, int(by[where]))
            return
        twice = (self.givers[places] >= 0) | (np.bincount(places)[places] > 1)
        if twice.any():
            where = int(twice.argmax())
            what = f"is given the element {places[where]} twice"
            self.problem = self.problem or (what, int(by[where]))
        self.elements[places] = elements[mine]
        self.givers[places] = by

    def __str__(self) -> str:
        """Numbers in as few digits as tell them from others of their dtype."""
        bits = scalar.to_bits(self.dtype, self.elements.reshape(self.shape))
        return np.array2string(
            bits,
            separator=", ",
            formatter={"int": lambda b: text(int(b), self.dtype)},
            threshold=1000,
        )


class _Line:
    """What one program prints at a time."""

    __slots__ = ("number", "op", "tiles")

    def __init__(self, op: metal.Print, number: int):
        self.op = op
        self.number = number
        self.tiles = [_Tile(t.element, element_type(t).shape) for t in op.types]

    def problem(self) -> tuple[str, int | None] | None:
        for tile in self.tiles:
            if tile.problem is not None:
                return tile.problem
            if (tile.givers < 0).any():
                return f"is given no element {int(tile.givers.argmin())}", None
        return None


class Reports:
    """The lines that programs print.  Each simdgroup gives its part of a line when it comes to the
    print, and the lines that it comes to again and again are told apart by how often it did."""

    def __init__(self, numbering: Numbering):
        self._numbering = numbering
        self.lines: dict[tuple[metal.Print, int, int], _Line] = {}
        self.rounds: Counter[tuple[metal.Print, int, int]] = Counter()
        self.finished: list[_Line] = []

    def line(self, op: metal.Print, number: int, runner: int) -> _Line:
        """The output line that a group of threads which run together is filling."""
        round_ = self.rounds[op, number, runner]
        self.rounds[op, number, runner] += 1
        line = self.lines.get((op, number, round_))
        if line is None:
            line = self.lines[op, number, round_] = _Line(op, number)
        return line

    def finish(self) -> None:
        """Reports what is wrong with the lines so far, to which nothing is added any more."""
        for line in self.lines.values():
            problem = line.problem()
            if problem is not None:
                what, thread = problem
                program = self._numbering.program(line.number)
                by = "" if thread is None else f", {thread_text(thread)}"
                raise ProgramError(
                    f"metal.print {what}, in program {program}{by}",
                    program=program,
                    thread=thread,
                    locations=locations(line.op),
                )
        self.finished += self.lines.values()
        self.lines.clear()
        self.rounds.clear()

    def write(self, output: Callable[[str], object]) -> None:
        """Gives out the lines, in the order of the programs; those that lack something not."""
        lines = self.finished + [x for x in self.lines.values() if x.problem() is None]
        for line in sorted(lines, key=lambda x: x.number):
            place = ",".join(map(str, self._numbering.program(line.number)))
            words = [f"{line.op.prefix}[program ({place})]", *map(str, line.tiles)]
            output(" ".join(words))
