"""How a kernel of tensors goes over the elements along each of its axes.

    [i0: programs 4 of 64, r0: loop 32 of 1000]

Each program takes 4 of the 64 elements along `i0`, and goes over the 1000 along `r0` in steps of
32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from iris.ir.attributes import AttributeKind
from iris.ir.text.cursor import Cursor
from iris.ir.types import MAX_SIZE, Type


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


class AxisSchedules(AttributeKind["tuple[AxisSchedule, ...] | None"]):
    """How a kernel goes over its axes, in brackets; None if that is not chosen yet."""

    what = "a list of axes, such as [i0: programs 4 of 64, r0: loop 32 of 1000]"

    def accepts(self, value: object) -> bool:
        return value is None or (
            type(value) is tuple and all(isinstance(axis, AxisSchedule) for axis in value)
        )

    def text(self, value: Sequence[AxisSchedule] | None, of: Type | None) -> str:
        return f"[{', '.join(map(str, value or ()))}]"

    def parse(self, cursor: Cursor, of: Type | None) -> tuple[AxisSchedule, ...]:
        return tuple(cursor.listed("[", "]", lambda: _read(cursor)))


def _read(cursor: Cursor) -> AxisSchedule:
    axis = cursor.take("word", "an axis, such as i0")
    cursor.expect(":")
    place = cursor.one_of(PLACES, "programs, loop or online")
    lanes = cursor.integer(1, MAX_SIZE)
    cursor.expect("of")
    return AxisSchedule(axis, place, lanes, cursor.integer(2, MAX_SIZE))
