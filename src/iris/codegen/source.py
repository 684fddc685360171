"""What the emitter makes: the text of a kernel, and how a host launches it."""

from __future__ import annotations

from dataclasses import dataclass

from iris.ir.core import Location
from iris.ir.types import DType, Type

RECORD_WORDS = 8
REPORT_HEADER_WORDS = 2


@dataclass(frozen=True, slots=True)
class Array:
    """An argument bound as a buffer of its own."""

    buffer: int
    dtype: DType
    written: bool  # stored to, or touched by an atomic


@dataclass(frozen=True, slots=True)
class Scalar:
    """An argument at a byte of the constant struct."""

    offset: int
    dtype: DType


@dataclass(frozen=True, slots=True)
class Extent:
    """The size of an array argument along an axis: an i32 at a byte of the constant struct."""

    argument: int
    axis: int
    offset: int


@dataclass(frozen=True, slots=True)
class Site:
    """An assert or a print that reports.

    The text is the message of an assert or the prefix of a print; a print has the types of its
    values.
    """

    text: str
    types: tuple[Type, ...] | None  # None: an assert
    location: Location | None

    @property
    def is_assert(self) -> bool:
        return self.types is None


@dataclass(frozen=True, slots=True)
class Source:
    """A kernel as text, and all that a host must know to run it.

    **The report buffer** is of 32-bit words: how many words of records have been asked for so far
    (the host writes 0); how many there is room for, a multiple of 8; then records of 8 words:

        0  the site, an index into `sites`
        1  the program: x + grid.x * (y + grid.y * z)
        2  the thread, in its threadgroup
        3  of a print, which of its values; else 0
        4  of a print, the row-major number of the element; -1 where the print has no values
        5  of a print, the element's bits, the low word
        6  ... and the high one
        7  0

    Records come in any order.  Those that there was no room for are counted but lost.
    """

    text: str
    entry: str
    threads: int  # in a threadgroup
    arguments: tuple[Array | Scalar, ...]
    extents: tuple[Extent, ...]
    constants_buffer: int | None  # where the constant struct goes
    constants_bytes: int
    report_buffer: int | None
    threadgroup_bytes: int
    sites: tuple[Site, ...]
    first_line: int  # of the body, in the text
    locations: tuple[Location | None, ...]  # of the lines of the body
    version: tuple[int, int] = (3, 1)  # of the language

    @property
    def parts(self) -> tuple[str, str]:
        """What stands before the body, and the body to the end of the text."""
        lines = self.text.splitlines(keepends=True)
        return "".join(lines[: self.first_line - 1]), "".join(lines[self.first_line - 1 :])

    def location(self, line: int) -> Location | None:
        """The user's line that a line of the text, counted from 1, comes from."""
        number = line - self.first_line
        return self.locations[number] if 0 <= number < len(self.locations) else None
