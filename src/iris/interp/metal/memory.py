"""Memory as a program names it: the arrays that a launch works on, and threadgroup memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import combinations
from math import gcd
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from iris.errors import ArgumentError
from iris.interp.metal.barriers import Barriers
from iris.interp.metal.counters import Counters
from iris.interp.metal.shadow import Shadow, Stamps, Use
from iris.ir import scalar
from iris.ir.metal import SIMDGROUP_WIDTH
from iris.ir.types import DType, Ptr, Threadgroup, bf16, bool_

Array = npt.NDArray[Any]

#: What an `aligned` pointer is a multiple of, and the most that an access has to be.
ALIGNMENT = 16


def memory_dtype(dtype: DType) -> np.dtype[Any]:
    """The NumPy dtype of an array of a dtype; bf16 is kept as its bits."""
    return np.dtype(np.uint16) if dtype is bf16 else scalar.storage(dtype)


class Memory:
    """Elements that can be loaded and stored, by their *places* in a flat array."""

    __slots__ = ("dtype", "flat", "gaps", "name", "shadow", "size", "start", "width")

    kind: ClassVar[str]
    name: str
    dtype: DType
    size: int  # how many elements there are, with those that are left out
    gaps: Array | None  # which of them are left out, if any are
    flat: Array
    shadow: Shadow | None  # if accesses are noted;
    start: int  # in it, where the first place is,
    width: int  # and how many units each takes

    def outside(self, first: Array, count: int) -> Array:
        """Where some of the `count` elements from an index on are none of these."""
        outside: Array = (first < 0) | (first > self.size - count)
        if self.gaps is not None:
            for after in range(count):
                outside |= self.gaps.take(np.where(outside, 0, first + after))
        return outside

    @property
    def extent(self) -> str:
        """How much there is, to people."""
        return f"which has {self.size} elements"

    @property
    def in_flight(self) -> Array | None:
        """Which units of the shadow a copy goes to that nobody has waited for, if there is any."""
        return None

    def places(self, index: Array, rows: Array) -> Array:
        """Where elements at indices that are in bounds are."""
        raise NotImplementedError

    def index_at(self, place: int) -> int:
        """Which element is at a place."""
        raise NotImplementedError

    def stamps(
        self, barriers: Barriers, use: Use, own: Array, rows: Array, threads: Array
    ) -> Stamps:
        """Accesses with stamps of their own, one for each row and thread, as the shadow wants
        them."""
        raise NotImplementedError

    def fresh_since(self, rows: Array, threads: Array) -> Array | None:
        """The stamp before which nothing was written that can be read, for each row."""
        return None

    def count(self, counters: Counters, first: Array, count: int, loads: bool) -> None:
        """Counts accesses to so many elements each: a row for each instruction of a simdgroup, in
        it the first byte that each lane accesses, or -1."""
        raise NotImplementedError

    @property
    def address(self) -> int:
        """Where the first element is, in bytes, but for multiples of the greatest alignment."""
        raise NotImplementedError

    @property
    def itemsize(self) -> int:
        return self.flat.itemsize

    def read(self, places: Array) -> Array:
        """The elements at places, in storage."""
        found = self.flat.take(places)
        if self.dtype is bf16 or self.dtype is bool_:
            return scalar.from_bits(self.dtype, found)
        return found

    def write(self, places: Array, values: Array) -> None:
        """Writes elements at places; of several in one place the last stays."""
        self.flat[places] = scalar.to_bits(bf16, values) if self.dtype is bf16 else values

    def units(self, places: Array) -> Iterator[Array]:
        """The units of the shadow that elements at places take: the first of each, then..."""
        if self.width > 1 or self.start:
            places = places * self.width + self.start
        for part in range(self.width):
            yield places + part if part else places


class Device(Memory):
    """An argument's array, as the memory from its first element on."""

    __slots__ = ("array", "noalias")
    kind = "device"

    def __init__(self, name: str, type_: Ptr, array: Array):
        self.name = name
        self.dtype = type_.element
        self.noalias = type_.noalias
        self.array = array
        self.flat, self.gaps = _span(name, array)
        self.size = self.flat.size
        self.shadow = None
        self.start, self.width = 0, 1
        if type_.aligned and self.size and self.address % ALIGNMENT:
            raise ArgumentError(
                f"{name} is declared aligned, but its array does not start at a multiple of "
                f"{ALIGNMENT} bytes"
            )

    @property
    def address(self) -> int:
        return _address(self)

    @property
    def extent(self) -> str:
        if self.gaps is None:
            return super().extent
        strides = tuple([step // self.itemsize for step in self.array.strides])
        return f"which has the shape {self.array.shape} and, in elements, the strides {strides}"

    def places(self, index: Array, rows: Array) -> Array:
        return index

    def index_at(self, place: int) -> int:
        return place

    def stamps(
        self, barriers: Barriers, use: Use, own: Array, rows: Array, threads: Array
    ) -> Stamps:
        stamps = barriers.device_stamps(own, rows)
        if barriers.clock is None:
            return stamps
        is_atomic = use in (Use.ATOMIC, Use.ATOMIC_READ)
        return stamps._replace(order=partial(barriers.clock.since, atomic=is_atomic))

    def count(self, counters: Counters, first: Array, count: int, loads: bool) -> None:
        size = self.size * self.itemsize
        counters.device(self, size, first, count * self.itemsize, loads)


class Arena:
    """One allocation of threadgroup memory, for each row of a chunk."""

    __slots__ = ("bytes", "fresh_since", "in_flight", "shadow", "stride", "unit")

    def __init__(
        self, size: int, unit: int, rows: int, simdgroups: int, shadow_bits: tuple[int, int]
    ):
        """`unit` is how many bytes at a time are noted in the shadow."""
        self.unit = unit
        self.stride = -(-size // ALIGNMENT) * ALIGNMENT
        self.bytes = np.zeros(self.stride * rows, np.uint8)
        self.shadow = Shadow(self.stride * rows // unit, *shadow_bits)
        self.in_flight: Array | None = None
        # What was written before is lost, for the threads of each simdgroup.
        self.fresh_since = np.zeros((rows, simdgroups), np.int64)


class Shared(Memory):
    """Threadgroup memory: an allocation, or a part of it, as elements of a dtype."""

    __slots__ = ("arena", "first")
    kind = "threadgroup"

    def __init__(self, name: str, type_: Threadgroup, arena: Arena, first: int):
        self.name = name
        self.dtype = type_.element
        self.size = type_.count
        self.gaps = None
        self.arena = arena
        self.first = first  # byte of the allocation
        stored = np.dtype(np.uint8) if self.dtype is bool_ else memory_dtype(self.dtype)
        self.flat = arena.bytes.view(stored)
        self.shadow = arena.shadow
        self.start, self.width = 0, stored.itemsize // arena.unit

    @property
    def address(self) -> int:
        return self.first

    @property
    def in_flight(self) -> Array | None:
        return self.arena.in_flight

    def places(self, index: Array, rows: Array) -> Array:
        starts = (rows * self.arena.stride + self.first) // self.itemsize
        return np.asarray(index + starts.reshape(-1, *[1] * (index.ndim - 1)))

    def index_at(self, place: int) -> int:
        return (place * self.itemsize % self.arena.stride - self.first) // self.itemsize

    def stamps(
        self, barriers: Barriers, use: Use, own: Array, rows: Array, threads: Array
    ) -> Stamps:
        return barriers.shared_stamps(own, rows, threads)

    def fresh_since(self, rows: Array, threads: Array) -> Array | None:
        # The threads are of one simdgroup, or all, in which case they made it together.
        return np.asarray(self.arena.fresh_since[rows, threads[0] // SIMDGROUP_WIDTH])

    def count(self, counters: Counters, first: Array, count: int, loads: bool) -> None:
        first = np.where(first < 0, first, first + self.first)
        counters.shared(first, count * self.itemsize, loads)


def _span(name: str, array: Array) -> tuple[Array, Array | None]:
    """The memory from an array's first element to its last, and what of it is no element."""
    if array.flags.c_contiguous:
        return array.reshape(-1), None
    size, places = array.itemsize, np.zeros(array.shape, np.intp)
    for axis, (count, step) in enumerate(zip(array.shape, array.strides, strict=True)):
        if count > 1 and (step % size or step < 0):
            what = "negative" if step < 0 else "no whole number of elements"
            raise ArgumentError(f"{name} has a stride that is {what}; pass a copy of it")
        steps = np.arange(count) * (step // size)
        places += steps.reshape([-1 if i == axis else 1 for i in range(array.ndim)])
    gaps = np.ones(int(places.max(initial=-1)) + 1, np.bool_)
    gaps[places] = False
    flat = as_strided(array, gaps.shape, (size,), writeable=array.flags.writeable)
    return flat, gaps if gaps.any() else None


def share_shadows(
    arrays: Sequence[Device], written: Collection[Device], make: Callable[[int], Shadow]
) -> None:
    """Gives one shadow to the arrays that lie in one stretch of memory, if one is written; `make`
    makes one of so many units."""
    for group in _stretches(arrays):
        if not any(array in written for array in group):
            continue
        _check_noalias(group)
        starts = [_address(array) for array in group]
        low = starts[0]
        unit = gcd(*[array.itemsize for array in group], *[start - low for start in starts])
        high = max(start + a.flat.nbytes for start, a in zip(starts, group, strict=True))
        shadow = make((high - low) // unit)
        for start, array in zip(starts, group, strict=True):
            array.shadow = shadow
            array.start = (start - low) // unit
            array.width = array.itemsize // unit


def _check_noalias(group: Sequence[Device]) -> None:
    for one, other in combinations(group, 2):
        if (one.noalias or other.noalias) and np.shares_memory(one.array, other.array):
            sure = one if one.noalias else other
            raise ArgumentError(
                f"{one.name} and {other.name} share memory, but {sure.name} is declared noalias"
            )


def _stretches(arrays: Iterable[Device]) -> Iterator[list[Device]]:
    """The arrays, those together that overlap, each group from its lowest address on."""
    group: list[Device] = []
    end = -1
    for array in sorted([a for a in arrays if a.size], key=_address):
        if group and _address(array) >= end:
            yield group
            group, end = [], -1
        group.append(array)
        end = max(end, _address(array) + array.flat.nbytes)
    if group:
        yield group


def _address(array: Device) -> int:
    return int(array.flat.__array_interface__["data"][0])
