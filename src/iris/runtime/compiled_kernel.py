"""A kernel that a device has compiled from text, and how it takes its arguments."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple, Protocol

from iris.codegen.source import Array as ArrayPlace
from iris.codegen.source import Source
from iris.ir.control import Func
from iris.ir.core import Location
from iris.ir.literal import encode
from iris.ir.types import DType, i32
from iris.runtime.device import RecordedLaunch


class CompiledKernel(NamedTuple):
    """A kernel that is ready to run, and how it is given its arguments."""

    name: str
    entry: Func
    state: Any  # what the device knows it by
    source: Source
    arrays: tuple[int, ...]  # which arguments are arrays, in the order of their buffers
    written: tuple[int, ...]  # which of those
    scalars: tuple[int, ...]  # which are in the struct of constants, in the order of their fields
    extents: tuple[tuple[int, int], ...]  # sizes after them: (argument, axis)
    pack: Callable[..., bytes]

    def constants(self, arguments: Sequence[Any]) -> bytes:
        """The struct of constants of a launch; nothing, if the kernel has none."""
        if self.source.constants_buffer is None:
            return b""
        values = [arguments[i] for i in self.scalars]
        if self.extents:
            values += [arguments[i].shape[axis] for i, axis in self.extents]
        return self.pack(*values)


def compiled_kernel(entry: Func, source: Source, state: Any) -> CompiledKernel:
    """How a kernel takes its arguments, worked out once."""
    places = list(enumerate(source.arguments))
    arrays = [(i, place) for i, place in places if isinstance(place, ArrayPlace)]
    scalars = [(i, place) for i, place in places if not isinstance(place, ArrayPlace)]
    # Arrays are bound in this order, to the buffers from 0 on.
    buffers = [place.buffer for _, place in arrays]
    assert buffers == [*range(len(arrays))], f"the arrays of {source.entry} are bound to {buffers}"
    fields = [(place.offset, place.dtype) for _, place in scalars]
    fields += [(extent.offset, i32) for extent in source.extents]
    return CompiledKernel(
        name=source.entry,
        entry=entry,
        state=state,
        source=source,
        arrays=tuple([i for i, _ in arrays]),
        written=tuple([n for n, (_, place) in enumerate(arrays) if place.written]),
        scalars=tuple([i for i, _ in scalars]),
        extents=tuple([(extent.argument, extent.axis) for extent in source.extents]),
        pack=_packer(fields, source.constants_bytes),
    )


def are_alike_each_time(launches: Sequence[RecordedLaunch]) -> bool:
    """Whether launches can be told to a GPU once for all their runs: none is empty, and none leaves
    a report, for what one run reports is not that of another."""
    return all(
        prod(grid) and program.code.source.report_buffer is None for program, grid, _ in launches
    )


class MemoryNumbers(NamedTuple):
    """Which memory the launches of a template use, by the numbers that stand for it there."""

    of_launches: Sequence[Sequence[int]]  # for each array of each
    used: tuple[int, ...]  # each once
    written: tuple[int, ...]

    @classmethod
    def of(cls, launches: Sequence[RecordedLaunch]) -> MemoryNumbers:
        used, written = [], []
        for launch in launches:
            kernel: CompiledKernel = launch.program.code
            used.append([launch.arguments[n].memory for n in kernel.arrays])
            written += [used[-1][n] for n in kernel.written]
        each = dict.fromkeys([n for own in used for n in own])
        return cls(used, tuple(each), tuple(dict.fromkeys(written)))


class HasLines(Protocol):
    """A text whose lines come from lines of the user."""

    def location(self, line: int) -> Location | None: ...


def locations_in(source: HasLines, text: str, line: re.Pattern[str]) -> list[Location]:
    """The user's lines that a text about lines of the source is about; `line` finds these."""
    found = [source.location(int(number)) for number in line.findall(text)]
    return list(dict.fromkeys([place for place in found if place is not None]))


# Letters of `struct` by size, for signed integers; unsigned integers and floats use capitals.
_LETTERS = {1: "b", 2: "h", 4: "i", 8: "q"}


def _packer(fields: Sequence[tuple[int, DType]], size: int) -> Callable[..., bytes]:
    """A function from the values of fields to the bytes of the struct they are in."""
    layout, end = "<", 0
    floats = [(number, dtype) for number, (_, dtype) in enumerate(fields) if dtype.is_float]
    for offset, dtype in fields:
        size_of = dtype.bytes
        letter = _LETTERS[size_of]
        layout += f"{offset - end}x{letter.upper() if not dtype.is_signed else letter}"
        end = offset + size_of
    pack = struct.Struct(f"{layout}{size - end}x").pack

    def packed(*values: Any) -> bytes:
        changed = list(values)
        for number, dtype in floats:
            changed[number] = encode(float(values[number]), dtype)
        return pack(*changed)

    return packed if floats else pack
