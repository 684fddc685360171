"""What a launch moves between memory and the last-level cache.

If all arrays of a launch fit the cache, each byte comes from memory once.  Else programs share what
they load only while the cache keeps it.  Programs are taken in the order in which a GPU starts
them, in windows: what one window needs is loaded once, and nothing of it is left for the next.
A window has as many programs as run at a time, or more if the cache has room for what these need.
If the cache holds a part of a window's data only, a program that loads a row again hits the cache
for that part, and loads the rest from memory.

    C = A @ B by 4096 programs of 64x64 elements, in rows of 64: 32 of them need
    one block of rows of A and 32 blocks of columns of B

`block-swizzle` changes the order: then 32 programs need 4 blocks of A, and 8 of B.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

MOST_FOLLOWED = 1024  # programs whose addresses are compared


@dataclass(frozen=True)
class Access:
    """An access to device memory: the bytes that a program moves by it, and the first address of
    each program that is followed, in the order of their start."""

    array: Hashable
    bytes: int
    first: Array | None  # None: nothing is known, so each program is taken to have its own
    loop: int = 0  # the number of the outermost loop around it


class Traffic:
    """The bytes that a launch moves between memory and caches of any size.

    `arrays` has the bytes of each array that is known, `touched` those that programs would move
    without any cache, array by array.  `follow` lists what a program accesses.
    """

    def __init__(
        self,
        arrays: Mapping[Any, int],
        touched: Mapping[Any, int],
        programs: int,
        follow: Callable[[], Sequence[Access]],
    ):
        self._arrays = arrays
        self._touched = touched
        self._programs = programs
        self._follow = follow

    @cached_property
    def once(self) -> int:
        """The bytes that a launch moves if the cache keeps all that is used again."""
        return sum(min(n, self._arrays.get(name, n)) for name, n in self._touched.items())

    @cached_property
    def _accesses(self) -> Sequence[Access]:
        return self._follow()

    def moved(self, cache_bytes: int, together: int) -> int:
        """The bytes that a launch moves for a cache, if `together` programs run at a time."""
        if self.once <= cache_bytes:
            return self.once
        most = min(self._programs, MOST_FOLLOWED)
        window = min(together, most)
        needed = self._needed(window)
        missing = 1 - min(1, cache_bytes / max(1, sum(needed.values())))
        while 2 * window <= most:
            more = self._needed(2 * window)
            if sum(more.values()) > cache_bytes:
                break
            window, needed = 2 * window, more
        total = 0
        for name, touched in self._touched.items():
            loaded = needed[name] * self._programs // window
            loaded += round(missing * self._loaded_again(name))
            total += min(touched, max(loaded, self._arrays.get(name, 0)))
        return total

    def _needed(self, window: int) -> Counter[Hashable]:
        """The bytes of each array that the first programs need, what they share counted once."""
        needed: Counter[Hashable] = Counter()
        for access in self._accesses:
            places = window if access.first is None else len(np.unique(access.first[:window]))
            needed[access.array] += access.bytes * places
        for name, size in self._arrays.items():
            part = -(-size // self._programs) * window if name in self._divided else size
            needed[name] = min(needed[name], part)
        return needed

    @cached_property
    def _divided(self) -> frozenset[Hashable]:
        """The arrays that programs divide among themselves: no two load the same part."""
        shared = {a.array for a in self._accesses if a.first is None or _repeats(a.first)}
        return frozenset(self._arrays) - shared

    def _loaded_again(self, name: Hashable) -> int:
        """The bytes of a divided array that later loops load a second time; 0 of a shared array."""
        if name not in self._divided:
            return 0
        moved: Counter[int] = Counter()
        for access in self._accesses:
            if access.array == name:
                moved[access.loop] += access.bytes * self._programs
        size = self._arrays[name]
        return max(0, sum([min(n, size) for n in moved.values()]) - size)


def _repeats(addresses: Array) -> bool:
    return len(np.unique(addresses)) < len(addresses)
