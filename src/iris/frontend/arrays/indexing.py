"""`x[...]`: NumPy's rules of indexing, for what is known while tracing and for what is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.errors import DTypeError, LanguageError, ShapeError
from iris.frontend.arrays.elementwise import binary, compare, select
from iris.frontend.arrays.shapes import (
    as_int,
    cut,
    gather,
    take_places,
    transpose,
    without_axes,
)
from iris.frontend.arrays.traced import TracedArray
from iris.frontend.arrays.values import Operand, cast, operand, reshaped, shape_of, spread, traced
from iris.frontend.tracing import error_here
from iris.frontend.values import broadcast_shapes
from iris.ir import math
from iris.ir.math import Predicate
from iris.ir.types import i32, i64, u32, u64

Array = npt.NDArray[Any]


@dataclass
class Index:
    """What an index asks of the axes of an array.

    The result has the axes of `layout`, None being a new one; before the one that is number
    `block`, it has those of the places, all broadcast together.
    """

    starts: list[int]
    steps: list[int]
    sizes: list[int]
    numbers: list[int] = field(default_factory=list)  # axes of which one element is taken
    places: dict[int, Operand] = field(default_factory=dict)  # by axis, those looked up
    layout: list[int | None] = field(default_factory=list)
    block: int = 0

    @property
    def block_shape(self) -> tuple[int, ...]:
        return broadcast_shapes((), *map(shape_of, self.places.values()))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        sizes = [1 if axis is None else self.sizes[axis] for axis in self.layout]
        return (*sizes[: self.block], *self.block_shape, *sizes[self.block :])


def parse(shape: tuple[int, ...], key: Any) -> Index:
    """What an index means for an array of a shape."""
    entries = _expanded(key if isinstance(key, tuple) else (key,), len(shape))
    index = Index([0] * len(shape), [1] * len(shape), list(shape))
    chosen: list[int] = []  # where numbers and places stand
    before = 0  # the axes of the result that stand before the first of them
    axis = 0
    for position, entry in enumerate(entries):
        if entry is None:
            index.layout.append(None)
            continue
        if isinstance(entry, slice):
            start, step, size = _range(entry, shape[axis])
            index.starts[axis], index.steps[axis], index.sizes[axis] = start, step, size
            index.layout.append(axis)
        else:
            if not chosen:
                before = len(index.layout)
            chosen.append(position)
            if isinstance(entry, int):
                index.starts[axis], index.sizes[axis] = _inside(entry, axis, shape[axis]), 1
                index.numbers.append(axis)
            else:
                index.places[axis] = nonnegative(entry, axis, shape[axis])
        axis += 1
    if chosen and chosen[-1] - chosen[0] == len(chosen) - 1:
        index.block = before
    return index


def _expanded(key: tuple[Any, ...], rank: int) -> list[Any]:
    """An entry for each axis, or None for a new one: ints, slices and places."""
    entries: list[Any] = []
    dots = None
    for entry in key:
        if entry is Ellipsis:
            if dots is not None:
                raise error_here(ShapeError, "an index has at most one ...")
            dots = len(entries)
        elif entry is None or isinstance(entry, slice):
            entries.append(entry)
        else:
            entries += _looked_up(entry)
    missing = rank - sum(entry is not None for entry in entries)
    if missing < 0:
        raise error_here(ShapeError, f"{rank} axes have no {rank - missing} indices")
    at = len(entries) if dots is None else dots
    return [*entries[:at], *[slice(None)] * missing, *entries[at:]]


def _looked_up(entry: Any) -> list[Any]:
    """An index that is no slice: an int, or places; of a mask, for each axis the places where it
    holds."""
    if isinstance(entry, TracedArray):
        if entry.element.is_integer:
            return [operand(entry)]
        if entry.element.is_float:
            raise error_here(DTypeError, f"an index is an integer, not {entry}")
        raise error_here(
            LanguageError,
            "how many elements a mask chooses depends on the data, and shapes are known while "
            "tracing; np.where(mask, x, other) keeps all elements and chooses among them",
        )
    array = np.asarray(entry)
    if array.dtype.kind == "b" and array.ndim:
        return list(np.nonzero(array))
    if not array.size and not isinstance(entry, np.ndarray):
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise error_here(
            DTypeError, f"an index is made of ints, slices, ..., None and arrays, not {entry!r}"
        )
    return [array if array.ndim else int(array)]


def _range(entry: slice, size: int) -> tuple[int, int, int]:
    """Start, step and count of a slice."""
    for bound in (entry.start, entry.stop, entry.step):
        if isinstance(bound, TracedArray):
            raise error_here(
                ShapeError,
                "the bounds of a slice are ints that are known while tracing; from a start that "
                "is not, so many elements are x[start + np.arange(count)]",
            )
        if bound is not None:
            as_int(bound, "the bound of a slice")
    if entry.step == 0:
        raise error_here(ShapeError, "the step of a slice is not 0")
    found = range(*entry.indices(size))
    return found.start, found.step, len(found)


def _inside(number: int, axis: int, size: int) -> int:
    if not -size <= number < size:
        raise error_here(ShapeError, f"axis {axis} of size {size} has no index {number}")
    return number % size


def nonnegative(places: Operand, axis: int, size: int) -> Operand:
    """Places counted from the start only."""
    if isinstance(places, np.ndarray):
        if places.size:
            _inside(int(places.min()), axis, size)
            _inside(int(places.max()), axis, size)
        return np.where(places < 0, places + size, places)
    found = traced(places)
    found = cast(found, i64 if found.element in (i64, u32, u64) else i32)
    if not traced(places).element.is_signed:
        return found
    negative = compare(Predicate.LT, found, 0)
    return select(negative, binary(math.Add, found, size), found)


def getitem(x: TracedArray, key: Any) -> TracedArray:
    """The elements that an index chooses."""
    operand(x)
    index = parse(x.shape, key)
    kept = [axis for axis in range(x.ndim) if axis not in index.numbers]
    y = without_axes(cut(x, index.starts, index.steps, index.sizes), index.numbers)
    block = [-1 - i for i in range(len(index.block_shape))]  # numbers that no axis has
    if index.places:
        axes = [kept.index(axis) for axis in index.places]
        (first, *others), at = index.places.values(), axes[0]
        if isinstance(first, np.ndarray) and first.ndim == 1 and not others:
            y = take_places(y, first, at)
            kept[at] = block[0]
        else:
            y = gather(y, axes, common_places(list(index.places.values()), index.block_shape))
            kept = [*block, *[axis for axis in kept if axis not in index.places]]
    order = [axis for axis in index.layout[: index.block] if axis is not None]
    order += block
    order += [axis for axis in index.layout[index.block :] if axis is not None]
    return reshaped(transpose(y, [kept.index(axis) for axis in order]), index.shape)


def common_places(places: Sequence[Operand], shape: tuple[int, ...]) -> list[TracedArray]:
    """Places of one dtype, over one shape."""
    wide = any(isinstance(p, TracedArray) and p.element is i64 for p in places)
    return [spread(p, i64 if wide else i32, shape) for p in places]
