"""`x[...]`: NumPy's rules of indexing, for indices known while tracing and for traced ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.errors import IndexingError, LanguageError, ShapeError
from iris.frontend.arrays.array_elementwise import binary, compare, select
from iris.frontend.arrays.array_values import (
    Operand,
    cast,
    operand,
    reshaped,
    shape_of,
    spread,
    traced,
)
from iris.frontend.arrays.shapes import (
    as_int,
    cut,
    gather,
    take_places,
    transpose,
    without_axes,
)
from iris.frontend.arrays.traced import TracedArray
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
        try:
            return broadcast_shapes((), *map(shape_of, self.places.values()))
        except ShapeError as error:
            raise IndexingError(error.message, error.spot) from None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        sizes = [1 if axis is None else self.sizes[axis] for axis in self.layout]
        return (*sizes[: self.block], *self.block_shape, *sizes[self.block :])


def parse(shape: tuple[int, ...], key: Any) -> Index:
    """What an index means for an array of a shape."""
    entries = _expanded(key if isinstance(key, tuple) else (key,), shape)
    index = Index([0] * len(shape), [1] * len(shape), list(shape))
    chosen: list[int] = []  # where numbers and places stand
    before = 0  # the axes of the result that stand before the first of them
    axis = 0
    for position, entry in enumerate(entries):
        if entry is None:
            index.layout.append(None)
            continue
        if entry is Ellipsis:
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


def _expanded(key: tuple[Any, ...], shape: tuple[int, ...]) -> list[Any]:
    """An entry for each axis, None for a new one, or ... for none: ints, slices and places."""
    known = [_entry(part) for part in key]
    if sum(part is Ellipsis for part in known) > 1:
        raise error_here(IndexingError, "an index has at most one ...")
    count = sum([_axes_of(part) for part in known])
    if count > len(shape):
        raise error_here(IndexingError, f"{len(shape)} axes have no {count} indices")
    if not any(part is Ellipsis for part in known):
        known.append(Ellipsis)
    entries: list[Any] = []
    axis = 0
    for part in known:
        if part is Ellipsis:
            # One that is for no axis stands between those beside it nevertheless.
            entries += [slice(None)] * (len(shape) - count) or [Ellipsis]
            axis += len(shape) - count
        elif _is_mask(part):
            over = shape[axis : axis + part.ndim]
            if part.shape != over:
                raise error_here(
                    IndexingError,
                    f"a mask of the shape {part.shape} does not fit axes of {over}",
                )
            entries += np.nonzero(part)
        else:
            entries.append(part)
        axis += _axes_of(part)
    return entries


def _is_mask(part: Any) -> bool:
    return isinstance(part, np.ndarray) and part.dtype == np.bool_


def _axes_of(part: Any) -> int:
    """How many axes an entry of an index is for."""
    if part is None or part is Ellipsis:
        return 0
    return part.ndim if _is_mask(part) else 1


def _entry(part: Any) -> Any:
    """An entry of an index: None, ..., a slice, an int, places, or a mask that is known, which is
    for the places where it holds."""
    if part is None or part is Ellipsis or isinstance(part, slice):
        return part
    if isinstance(part, TracedArray):
        if part.element.is_integer:
            return operand(part)
        if part.element.is_float:
            raise error_here(IndexingError, f"an index is an integer, not {part}")
        raise error_here(
            LanguageError,
            "how many elements a mask chooses depends on the data, and shapes are known while "
            "tracing; np.where(mask, x, other) keeps all elements and chooses among them",
        )
    array = np.asarray(part)
    if array.dtype.kind == "b" and array.ndim:
        return array
    if not array.size and not isinstance(part, np.ndarray):
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise error_here(
            IndexingError, f"an index is made of ints, slices, ..., None and arrays, not {part!r}"
        )
    return array if array.ndim else int(array)


def _range(entry: slice, size: int) -> tuple[int, int, int]:
    """Start, step and count of a slice."""
    for bound in (entry.start, entry.stop, entry.step):
        if isinstance(bound, TracedArray):
            raise error_here(
                ShapeError,
                "the bounds of a slice must be ints known while tracing; with a traced start, "
                "write x[start + np.arange(count)]",
            )
        if bound is not None:
            as_int(bound, "the bound of a slice")
    if entry.step == 0:
        raise error_here(ShapeError, "the step of a slice is not 0")
    found = range(*entry.indices(size))
    return found.start, found.step, len(found)


def _inside(number: int, axis: int, size: int) -> int:
    if not -size <= number < size:
        raise error_here(IndexingError, f"axis {axis} of size {size} has no index {number}")
    return number % size


def wide(places: Operand) -> Operand:
    """Places in a dtype that holds the size of any axis, too."""
    if isinstance(places, np.ndarray):
        return places.astype(np.int64) if places.itemsize < 4 else places
    found = traced(places)
    return cast(found, i32) if found.element.bits < 32 else found


def nonnegative(places: Operand, axis: int, size: int) -> Operand:
    """Places counted from the start only."""
    if isinstance(places, np.ndarray):
        if places.size:
            _inside(int(places.min()), axis, size)
            _inside(int(places.max()), axis, size)
        return np.where(places < 0, places + size, places)
    found = traced(places)
    if not size and 0 not in found.shape:
        raise error_here(IndexingError, f"axis {axis} of size 0 has no index")
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
    found = reshaped(transpose(y, [kept.index(axis) for axis in order]), index.shape)
    return x.seen(found.value) if _is_view(key, found.shape) else found.copied()


def _is_view(key: Any, shape: tuple[int, ...]) -> bool:
    """Whether NumPy gives a view for an index: there are but numbers, slices and new axes in it.
    An element is a number in no memory, unless `...` asks for an array."""
    parts = key if isinstance(key, tuple) else (key,)
    return (bool(shape) or any(k is Ellipsis for k in parts)) and all(
        k is None
        or k is Ellipsis
        or isinstance(k, (int, np.integer, slice))
        or (isinstance(k, TracedArray) and not k.shape)
        for k in parts
    )


def common_places(places: Sequence[Operand], shape: tuple[int, ...]) -> list[TracedArray]:
    """Places of one dtype, over one shape."""
    wide = any(isinstance(p, TracedArray) and p.element is i64 for p in places)
    return [spread(p, i64 if wide else i32, shape) for p in places]
