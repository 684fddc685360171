"""How a kernel of tensors goes over the elements along each of its axes.

    [i0: programs 4 of 64, r0: loop 32 of 1000]

Each program takes 4 of the 64 elements along `i0`, and goes over the 1000 along `r0` in steps of
32.  With `simdgroups: 2` at the end of the list, two simdgroups run a program.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from iris.ir.attributes import AttributeKind
from iris.ir.text.cursor import Cursor
from iris.ir.types import MAX_SIZE, Type

#: What the number of simdgroups is called in a list of axes.
SIMDGROUPS = "simdgroups"
MAX_SIMDGROUPS = 32


class Place(Enum):
    """Who goes over an axis."""

    PROGRAMS = "programs"  # each program takes a block of it
    LOOP = "loop"  # every program goes over all of it, block by block
    ONLINE = "online"  # the same, once for a maximum or a mean and the sums that depend on it


PLACES = {place.value: place for place in Place}


@dataclass(frozen=True)
class AxisSchedule:
    """How a kernel goes over one axis."""

    axis: str
    place: Place
    lanes: int  # elements of a block: 1, or a dimension of tiles; a power of two
    size: int  # of the axis

    def __str__(self) -> str:
        return f"{self.axis}: {self.place.value} {self.lanes} of {self.size}"

    @property
    def mistake(self) -> str | None:
        """A rule that it breaks, for any kernel; None if it breaks none."""
        if self.lanes & (self.lanes - 1):
            return f"{self.axis}: a block has a power of two of elements, not {self.lanes}"
        if self.lanes >= 2 * self.size:
            return f"{self.axis}: a block of {self.lanes} is too large for {self.size} elements"
        return None


@dataclass(frozen=True)
class WrittenSchedule:
    """How a kernel goes over its axes, and how many simdgroups run a program.

    Without a number, as many run it as its largest tile keeps busy.
    """

    axes: tuple[AxisSchedule, ...]
    simdgroups: int = 0

    def __str__(self) -> str:
        count = [f"{SIMDGROUPS}: {self.simdgroups}"] if self.simdgroups else []
        return ", ".join([*map(str, self.axes), *count])

    @property
    def mistake(self) -> str | None:
        """A rule that it breaks, for any kernel; None if it breaks none."""
        if self.simdgroups & (self.simdgroups - 1):
            return f"{SIMDGROUPS}: {self.simdgroups} is no power of two"
        names: set[str] = set()
        for axis in self.axes:
            if axis.axis in names:
                return f"{axis.axis} is listed twice"
            if axis.mistake is not None:
                return axis.mistake
            names.add(axis.axis)
        return None


class WrittenSchedules(AttributeKind["WrittenSchedule | None"]):
    """A schedule, in brackets; None if that is not chosen yet."""

    what = (
        "a list of axes, such as [i0: programs 4 of 64, r0: loop 32 of 1000], with the number of "
        f"simdgroups, such as {SIMDGROUPS}: 2, at its end"
    )

    def accepts(self, value: object) -> bool:
        return value is None or type(value) is WrittenSchedule

    def text(self, value: WrittenSchedule | None, of: Type | None) -> str:
        return f"[{'' if value is None else value}]"

    def parse(self, cursor: Cursor, of: Type | None) -> WrittenSchedule:
        axes: list[AxisSchedule] = []
        counts: list[int] = []

        def item() -> None:
            if counts:
                raise cursor.error(f"the number of {SIMDGROUPS} ends a schedule")
            name = cursor.take("word", f"an axis, such as i0, or {SIMDGROUPS}")
            cursor.expect(":")
            if name == SIMDGROUPS:
                counts.append(cursor.integer(1, MAX_SIMDGROUPS))
            else:
                axes.append(_read(name, cursor))

        cursor.listed("[", "]", item)
        return WrittenSchedule(tuple(axes), *counts)


def _read(axis: str, cursor: Cursor) -> AxisSchedule:
    place = cursor.one_of(PLACES, "programs, loop or online")
    lanes = cursor.integer(1, MAX_SIZE)
    cursor.expect("of")
    return AxisSchedule(axis, place, lanes, cursor.integer(2, MAX_SIZE))
