"""Other libraries' arrays in the memory of a device, as arguments of a launch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from iris.runtime.device import ArrayArgument, Device, Held, Lent
from iris.runtime.devices import select
from iris.runtime.foreign import HOMES, home_of, library_of, refuse_negated

#: A device, what it is given for another library's array in its memory, and facts about that.
Borrowed: TypeAlias = tuple[Device, ArrayArgument, Lent]
#: How arrays of a type tell what they hold, where that costs less than DLPack: once one was taken.
#: None of an array that DLPack is to be asked about, which also tells why one is not shared.
READERS: dict[type, Callable[[Any], Held | None]] = {}


class Borrowing:
    """The arrays that one launch borrows: a library is asked once on which stream it works."""

    __slots__ = ("_places",)

    def __init__(self) -> None:
        self._places: dict[tuple[tuple[int, int], type], tuple[Device, Any]] = {}

    def read(self, value: object) -> Borrowed | None:
        """An array that tells what it holds; None, if it is for `take`."""
        kind = type(value)
        reader = READERS.get(kind)
        held = None if reader is None else reader(value)
        if held is None:
            return None
        on, order = self._places.get((held.home, kind)) or self._place(held.home, value)
        argument, lent = on.lend(held, order)
        return on, argument, lent

    def take(self, name: str, value: object) -> Borrowed | None:
        """An array in the memory of a device; None, if it is none."""
        found = self.read(value)
        if found is not None:
            return found
        home = home_of(value)
        if home is None:
            return None
        kind = type(value)
        if kind not in READERS:
            from iris.runtime import sharing  # opened when first used, with ctypes

            READERS[kind] = sharing.reader_of(kind)
            return self.take(name, value)
        refuse_negated(name, value)
        on, order = self._places.get((home, kind)) or self._place(home, value)
        argument, lent = on.share(name, value, order)
        return on, argument, lent

    def _place(self, home: tuple[int, int], value: object) -> tuple[Device, Any]:
        """The device in a place, and how launches are ordered with a library's work there."""
        kind, number = home
        on = select(f"{HOMES[kind]}:{number}" if number else HOMES[kind])
        place = self._places[home, type(value)] = on, on.order_with(library_of(value))
        return place
