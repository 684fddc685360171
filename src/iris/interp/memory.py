"""The arrays that a launch works on: bounds, overlaps, and who touched what."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from enum import Enum
from itertools import combinations
from math import gcd
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from iris.errors import ArgumentError
from iris.interp.strides import elements_of
from iris.ir import scalar
from iris.ir.types import DType, Ptr, bf16

Array = npt.NDArray[Any]


def memory_dtype(dtype: DType) -> np.dtype[Any]:
    """The NumPy dtype of an array of a dtype; bf16 is kept as its bits."""
    return np.dtype(np.uint16) if dtype is bf16 else scalar.storage(dtype)


class View:
    """An argument's array, as the memory from its first element on."""

    __slots__ = (
        "array",
        "dtype",
        "elements",
        "flat",
        "name",
        "noalias",
        "shadow",
        "start",
        "width",
    )

    def __init__(self, name: str, type_: Ptr, array: Array):
        self.name = name
        self.dtype = type_.element
        self.noalias = type_.noalias
        self.array = array
        self.elements = elements_of(name, array)
        self.flat = self.elements.flat
        self.shadow: Shadow | None = None
        self.start = 0  # where `flat` starts in the shadow,
        self.width = 1  # and how much of the shadow an element takes

    @property
    def size(self) -> int:
        """How many elements there would be if none were left out."""
        return self.flat.size

    def read(self, index: Array) -> Array:
        """The elements at indices that are in bounds, in storage."""
        found = self.flat.take(index)
        return scalar.from_bits(self.dtype, found) if self.dtype is bf16 else found

    def write(self, index: Array, values: Array) -> None:
        """Writes elements at indices that are in bounds; of several in one place the last stays."""
        # NumPy scatters by its own index type much faster than by others.
        self.flat[index.astype(np.intp, copy=False)] = (
            scalar.to_bits(self.dtype, values) if self.dtype is bf16 else values
        )

    @property
    def noted_in(self) -> Shadow:
        """The shadow, which what is written has."""
        assert self.shadow is not None, f"{self.name} is not written, and so has no shadow"
        return self.shadow

    def touch(self, use: Use, index: Array, stamps: Array) -> Conflict | None:
        """Notes in the shadow who uses which elements."""
        for units in self._units(index):
            conflict = self.noted_in.touch(use, units, stamps)
            if conflict is not None:
                return conflict
        return None

    def find(self, index: Array, stamps: Array) -> None:
        """Notes in the shadow which elements are asked for that atomic ops may have written."""
        for units in self._units(index):
            self.noted_in.find(units, stamps)

    def leave(self, index: Array, stamps: Array) -> None:
        """Notes in the shadow to which elements atomic ops have written."""
        for units in self._units(index):
            self.noted_in.leave(units, stamps)

    def _units(self, index: Array) -> Iterator[Array]:
        """The units of the shadow that elements take: the first of each, then..."""
        units = index.astype(np.intp, copy=False)
        if self.width > 1 or self.start:
            units = units * self.width + self.start
        for part in range(self.width):
            yield units + part if part else units


class Use(Enum):
    """How a program uses an element."""

    READ = "reads"
    WRITE = "writes"
    ATOMIC = "atomically updates"
    ATOMIC_READ = "atomically reads"


#: What may not have been done by one program, with nothing to order the two, where another does
#: this.
CLASHES = {
    Use.READ: (Use.WRITE, Use.ATOMIC),
    Use.WRITE: (Use.WRITE, Use.READ, Use.ATOMIC, Use.ATOMIC_READ),
    Use.ATOMIC: (Use.WRITE, Use.READ),
    Use.ATOMIC_READ: (Use.WRITE,),
}


class Conflict(NamedTuple):
    """Two programs that use one element as they may not."""

    lane: int  # of the later access
    earlier: Use
    stamp: int  # of the earlier access


class Shadow:
    """Who used each element of some memory, and how.

    A use is noted as a *stamp*: a number that says which access of which program it is.  For each
    way of using, two stamps are kept, of different programs if there are two: whoever comes later
    is not one of them.
    """

    __slots__ = ("dtype", "programs", "size", "tables")

    def __init__(self, size: int, programs: int, sites: int):
        self.size = size
        self.programs = programs
        self.dtype = np.dtype(np.int32 if programs * sites < 2**31 - 1 else np.int64)
        self.tables: dict[Use, tuple[Array, Array]] = {}

    def stamps(self, site: int, programs: Array) -> Array:
        """What notes an access by each of some programs.  Stamps are not 0, which is for none."""
        return (programs + (1 + site * self.programs)).astype(self.dtype)

    def site_and_program(self, stamp: int) -> tuple[int, int]:
        return divmod(stamp - 1, self.programs)

    def touch(self, use: Use, units: Array, stamps: Array) -> Conflict | None:
        """Notes the uses of one instruction, unless one clashes with what is noted."""
        for earlier in CLASHES[use]:
            if earlier is use:
                continue
            for table in self.tables.get(earlier, ()):
                conflict = self._clash(earlier, table.take(units), stamps)
                if conflict is not None:
                    return conflict
        # Two programs that use an element in this one instruction are told by whose stamp stays.
        if use not in self.tables:
            self.tables[use] = np.zeros(self.size, self.dtype), np.zeros(self.size, self.dtype)
        first, second = self.tables[use]
        free = first.take(units) == 0
        if free.all():
            first[units] = stamps
        elif free.any():
            first[units[free]] = stamps[free]
        noted = first.take(units)
        if use is Use.WRITE:
            return self._clash(use, noted, stamps)
        others = self._differ(noted, stamps)
        if others is not None:
            second[units[others]] = stamps[others]
        return None

    def find(self, units: Array, stamps: Array) -> None:
        """Notes that units are asked for: here, what that orders is not followed."""

    def leave(self, units: Array, stamps: Array) -> None:
        """Notes that atomic ops have written to units."""

    def _differ(self, noted: Array, stamps: Array) -> Array | None:
        """Where two stamps are those of different programs."""
        differ: Array = (noted != stamps) & (noted != 0)
        if differ.any():  # most often not, and divisions are slow
            differ &= (noted - stamps) % self.programs != 0
            return differ if differ.any() else None
        return None

    def _clash(self, earlier: Use, noted: Array, stamps: Array) -> Conflict | None:
        differ = self._differ(noted, stamps)
        if differ is None:
            return None
        lane = int(differ.argmax())
        return Conflict(lane, earlier, int(noted[lane]))


def share_shadows(
    views: Sequence[View], written: Collection[View], make: Callable[[int], Shadow]
) -> None:
    """Gives one shadow to the arrays that lie in one stretch of memory, if one is written; `make`
    makes one of so many units."""
    for group in _stretches(views):
        if not any(view in written for view in group):
            continue
        _check_noalias(group)
        starts = [_address(view) for view in group]
        low = starts[0]
        unit = gcd(*[view.flat.itemsize for view in group], *[start - low for start in starts])
        high = max(start + view.flat.nbytes for start, view in zip(starts, group, strict=True))
        shadow = make((high - low) // unit)
        for start, view in zip(starts, group, strict=True):
            view.shadow = shadow
            view.start = (start - low) // unit
            view.width = view.flat.itemsize // unit


def _check_noalias(group: Sequence[View]) -> None:
    for one, other in combinations(group, 2):
        if (one.noalias or other.noalias) and np.shares_memory(one.array, other.array):
            sure = one if one.noalias else other
            raise ArgumentError(
                f"{one.name} and {other.name} share memory, but {sure.name} is declared noalias"
            )


def _stretches(views: Iterable[View]) -> Iterator[list[View]]:
    """The arrays, those together that overlap, each group from its lowest address on."""
    group: list[View] = []
    end = -1
    for view in sorted([v for v in views if v.size], key=_address):
        if group and _address(view) >= end:
            yield group
            group = []
        group.append(view)
        end = max(end if len(group) > 1 else -1, _address(view) + view.flat.nbytes)
    if group:
        yield group


def _address(view: View) -> int:
    return int(view.flat.__array_interface__["data"][0])
