"""Blocks of arrays: what `make_block_ptr` and tensor descriptors give.

A block is an origin, and for each axis an offset, a stride, a bound and a size. One whose axes are
all checked is the IR's own block load, which vectorises and stages it; an axis that is not checked
is part of the origin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from iris.errors import ArgumentError, ShapeError
from iris.frontend import language, memory
from iris.frontend.chosen_pointers import ChosenPointer
from iris.frontend.specs import Composite
from iris.frontend.tracing import current, error_here, rules_as
from iris.frontend.triton.float8 import check_is_plain, float8_of, loaded_as, stored_as
from iris.frontend.values import (
    Address,
    Traced,
    as_offset,
    as_pointer,
    as_shape,
    binary,
    cast,
    emit,
    of_one_width,
    spread,
)
from iris.ir import math, tile
from iris.ir.types import Tile

_MOST_AXES = 3  # of a block in the IR


class Block(NamedTuple):
    """A block of an array; a loop carries it, as it does any tuple."""

    base: Address
    shape: tuple[Any, ...]  # of the array
    strides: tuple[Any, ...]
    offsets: tuple[Any, ...]
    block_shape: tuple[int, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of the block as plain numbers; in a variable they are of another class."""
        return as_shape(self.block_shape)

    @property
    def dtype(self) -> Any:
        return self.base.dtype

    @property
    def type(self) -> Any:
        return self.base.dtype


def block(base: Address, shape: Any, strides: Any, offsets: Any, sizes: Any) -> Block:
    """A block of an array."""
    made = Block(base, tuple(shape), tuple(strides), tuple(offsets), as_shape(tuple(sizes)))
    if len({len(part) for part in made[1:]}) > 1:
        raise error_here(
            ShapeError, "the shape, strides, offsets and block_shape of a block differ in length"
        )
    return made


def advanced(of: Block, by: Any) -> Block:
    """A block that is further by some elements along each axis."""
    if len(by) != len(of.sizes):
        raise error_here(ShapeError, f"this block has {len(of.sizes)} axes, not {len(by)}")
    return of._replace(offsets=tuple([o + d for o, d in zip(of.offsets, by, strict=True)]))


def load(of: Block, checked: Any, padding: str) -> Any:
    """The elements of a block; 0 or nan where one is outside along a checked axis."""
    encoding = float8_of(of.base)
    if encoding is None:
        return _loaded(of, checked, padding)
    if padding == "nan":
        raise error_here(ArgumentError, f"a block of {encoding} is padded with zeros")
    return loaded_as(encoding, _loaded(of, checked, padding))


def _loaded(of: Block, checked: Any, padding: str) -> Traced:
    if padding not in ("", "zero", "nan"):
        raise error_here(ArgumentError, f"padding_option is 'zero' or 'nan', not {padding!r}")
    groups, sizes = _in_ir(of, _axes(of, checked))
    if padding == "nan" or groups is None:
        pointer, mask = _addresses(of, _axes(of, checked))
        other = float("nan") if padding == "nan" else 0
        return memory.load(pointer) if mask is None else memory.load(pointer, mask, other)
    with rules_as(ShapeError):
        type_ = Tile(sizes, of.base.element)
        loaded = emit(tile.LoadTile(of.base.base, None, *groups, type_))
    return language.reshape(loaded, of.sizes)


def store(of: Block, value: Any, checked: Any) -> None:
    """Write the elements of a block, but for those outside along a checked axis."""
    stored = spread(cast(stored_as(float8_of(of.base), value), of.base.element), of.sizes)
    groups, sizes = _in_ir(of, _axes(of, checked))
    if groups is None:
        pointer, mask = _addresses(of, _axes(of, checked))
        memory.store(pointer, stored, mask)
        return
    with rules_as(ShapeError):
        stored = language.reshape(stored, sizes)
        op = tile.StoreTile(of.base.base, stored.value, None, *groups)
    current().insert(op)


def _axes(of: Block, checked: Any) -> tuple[int, ...]:
    """The axes that are checked."""
    rank = len(of.sizes)
    axes = tuple(checked) if isinstance(checked, (tuple, list)) else (checked,)
    if not all(isinstance(axis, int) and 0 <= axis < rank for axis in axes):
        raise error_here(ShapeError, f"boundary_check is made of axes from 0 to {rank - 1}")
    return axes


def _in_ir(of: Block, checked: Sequence[int]) -> tuple[Any, tuple[int, ...]]:
    """The offsets, strides and bounds of a block of the IR, and its sizes; None if it is none."""
    if isinstance(of.base, ChosenPointer):
        return None, ()  # a block of the IR is of one array
    rank = len(of.sizes)
    origin = of.base.offset
    for axis in range(rank):
        if axis not in checked:
            apart = binary(math.Mul, as_offset(of.offsets[axis]), of.strides[axis])
            origin = apart if origin is None else binary(math.Add, origin, apart)
    is_tile = origin is not None and bool(origin.shape)
    if not checked or is_tile or rank + (origin is not None) > _MOST_AXES:
        return None, ()
    offsets = [of.offsets[a] if a in checked else 0 for a in range(rank)]
    bounds = [of.shape[a] if a in checked else of.sizes[a] for a in range(rank)]
    strides, sizes = list(of.strides), of.sizes
    if origin is not None:  # a step along an axis of its own, for it may be negative
        offsets.insert(0, 1)
        strides.insert(0, origin)
        bounds.insert(0, 2)
        sizes = (1, *sizes)
    groups = offsets, strides, bounds
    return of_one_width([[as_offset(x) for x in group] for group in groups]), sizes


def _addresses(of: Block, checked: Sequence[int]) -> tuple[Address, Traced | None]:
    """The pointers to the elements of a block, and a mask of those inside."""
    rank = len(of.sizes)
    pointer, mask = of.base, None
    for axis, size in enumerate(of.sizes):
        along = (None,) * axis + (slice(None),) + (None,) * (rank - 1 - axis)
        index: Any = binary(math.Add, language.arange(0, size)[along], as_offset(of.offsets[axis]))
        pointer = pointer + index * of.strides[axis]
        if axis in checked:
            inside = (index >= 0) & (index < of.shape[axis])
            mask = inside if mask is None else mask & inside
    return pointer, mask


class Descriptor(NamedTuple):
    """An array that is loaded and stored in blocks, with all axes checked."""

    base: Any  # a pointer
    shape: tuple[Any, ...]
    strides: tuple[Any, ...]
    block_shape: tuple[int, ...]
    padding: str

    @property
    def dtype(self) -> Any:
        return self.base.element

    def load(self, offsets: Any) -> Any:
        """The block at some offsets."""
        return load(self._at(offsets), tuple(range(len(self.shape))), self.padding)

    def store(self, offsets: Any, value: Any) -> None:
        """Write the block at some offsets."""
        store(self._at(offsets), value, tuple(range(len(self.shape))))

    def gather(self, x_offsets: Any, y_offset: Any) -> Any:
        """Rows by their indices, from a column on."""
        pointer, inside = self._rows(x_offsets, y_offset)
        encoding = float8_of(pointer)
        other = float("nan") if self.padding == "nan" else 0
        return loaded_as(encoding, memory.load(pointer, inside, other))

    def scatter(self, value: Any, x_offsets: Any, y_offset: Any) -> None:
        """Write rows by their indices, from a column on."""
        pointer, inside = self._rows(x_offsets, y_offset)
        memory.store(pointer, stored_as(float8_of(pointer), value), inside)

    def _rows(self, rows: Any, column: Any) -> tuple[Address, Traced]:
        """The pointers to some rows, and where they are inside."""
        if len(self.block_shape) != 2:
            raise error_here(ShapeError, "gather and scatter are for descriptors of two axes")
        (height, width), (down, along) = self.shape, self.strides
        columns = as_offset(column) + language.arange(0, self.block_shape[1])[None, :]
        index = as_offset(rows)[:, None]
        inside = (index >= 0) & (index < height) & (columns >= 0) & (columns < width)
        pointer = as_pointer(self.base, "a descriptor")
        return pointer + index * down + columns * along, inside

    def _at(self, offsets: Any) -> Block:
        pointer = as_pointer(self.base, "a descriptor")
        return block(pointer, self.shape, self.strides, offsets, self.block_shape)


def _atomic(change: Callable[..., Traced]) -> Callable[[Descriptor, Any, Any], None]:
    """The method of a descriptor that changes a block, element by element."""

    def method(self: Descriptor, offsets: Any, value: Any) -> None:
        of = self._at(offsets)
        pointer, inside = _addresses(of, tuple(range(len(of.shape))))
        check_is_plain(pointer, change.__name__)
        change(pointer, value, inside)

    method.__name__ = method.__qualname__ = change.__name__
    method.__doc__ = change.__doc__
    return method


for _change in (
    *(memory.atomic_add, memory.atomic_and, memory.atomic_max, memory.atomic_min),
    *(memory.atomic_or, memory.atomic_xor),
):
    setattr(Descriptor, _change.__name__, _atomic(_change))


def descriptor(
    base: Any, shape: Any, strides: Any, block_shape: Any, padding: str = "zero"
) -> Descriptor:
    """The descriptor of an array."""
    described = Descriptor(base, tuple(shape), tuple(strides), tuple(block_shape), padding)
    if not len(described.shape) == len(described.strides) == len(described.block_shape):
        raise error_here(
            ShapeError, "the shape, strides and block_shape of a descriptor differ in length"
        )
    return described


@dataclass
class HostDescriptor(Composite):
    """A descriptor that is made before a launch; each launch takes it as it is then."""

    base: Any  # an array
    shape: Sequence[int]
    strides: Sequence[int]
    block_shape: Sequence[int]
    padding: str = "zero"

    def __post_init__(self) -> None:
        self.parts()  # which checks it

    @staticmethod
    def from_tensor(tensor: Any, block_shape: Any, padding: str = "zero") -> HostDescriptor:
        """The descriptor of a whole tensor of PyTorch."""
        return HostDescriptor(tensor, tensor.shape, tensor.stride(), block_shape, padding)

    def parts(self) -> Descriptor:
        return descriptor(self.base, self.shape, self.strides, self.block_shape, self.padding)
