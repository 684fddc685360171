"""The words of the tile language that touch memory, in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.ir.types import f32, i32, i64, u32
from iris.testing.plain_tiles import (
    Plain,
    PlainPointer,
    Refused,
    as_plain,
    common_shape,
    counting,
    masked,
    spread,
)

Array = npt.NDArray[Any]
_UNBOUNDED = 1 << 31


def _atomic(
    function: Callable[..., Any], pointer: PlainPointer, mask: Any, *operands: Any
) -> Plain:
    if pointer.dtype not in (i32, u32, f32):
        raise Refused("elements of another size than the hardware changes in one step")
    values = [as_plain(x, pointer.dtype) for x in operands]
    condition = as_plain(True if mask is None else mask)
    shape, inside = masked(pointer, mask, *values)
    at = pointer.places(shape, inside)
    if len(np.unique(at[inside])) != np.sum(inside):
        raise Refused("an element that is changed twice")
    flat = pointer.array.reshape(-1)
    given = [spread(x, shape) for x in (condition, pointer.offset, *values)]
    old = Plain(np.where(inside, flat[at], 0), pointer.dtype, counting(*given))
    if not all(np.all(np.isfinite(x.data)) for x in (old, *values)):
        raise Refused("no number")
    flat[at[inside]] = np.asarray(function(old.data, *[x.data for x in given[2:]]))[inside]
    return old


def _atomic_word(function: Callable[..., Any]) -> Callable[..., Plain]:
    return staticmethod(lambda pointer, value, mask=None: _atomic(function, pointer, mask, value))


def _block(
    pointer: PlainPointer,
    row: Any,
    col: Any,
    stride: Any,
    shape: tuple[int, ...],
    rows: Any,
    cols: Any,
) -> tuple[PlainPointer, Array]:
    """The elements of a block of a matrix, and which are in the matrix."""
    if len(shape) != 2 or pointer.offset.shape:
        raise Refused("no block of a matrix")
    is_offset = bool(pointer.offset.data)
    if is_offset and (rows is None or cols is None):
        raise Refused("a matrix, and nobody knows how much of it is left")
    extents = pointer.array.shape if pointer.array.ndim == 2 else (_UNBOUNDED, stride)
    limits = zip(extents, (rows, cols), strict=True)
    height, width = (x if given is None else given for x, given in limits)
    r, c = (int(n) + np.arange(size) for n, size in zip((row, col), shape, strict=True))
    r, c = np.broadcast_arrays(r[:, None], c[None])
    inside = (r >= 0) & (r < int(height)) & (c >= 0) & (c < int(width))
    at = r * int(stride) + c
    if pointer.array.ndim == 1 and (rows is None or cols is None):
        inside = inside & (at < pointer.array.size)
    return pointer + Plain(at, i64), inside


class MemoryWords:
    """Names that a kernel finds in `iris`."""

    @staticmethod
    def load(
        pointer: PlainPointer, mask: Any = None, other: Any = None, *, volatile: bool = False
    ) -> Plain:
        """Without another number, an element counts where it is read."""
        shape, inside = masked(pointer, mask)
        data = pointer.array.reshape(-1)[pointer.places(shape, inside)]
        if mask is None or other is None:
            return Plain(data, pointer.dtype, inside)
        otherwise = as_plain(other, pointer.dtype)
        if common_shape(Plain(data, pointer.dtype), otherwise) != shape:
            raise Refused("another number that does not fit")
        holds = spread(as_plain(mask), shape)
        chosen = np.where(holds.data, pointer.offset.counts, otherwise.counts)
        data = np.where(holds.data, data, otherwise.data)
        return Plain(data, pointer.dtype, holds.counts & chosen)

    @staticmethod
    def store(pointer: PlainPointer, value: Any, mask: Any = None) -> None:
        stored = as_plain(value, pointer.dtype)
        shape, inside = masked(pointer, mask, stored)
        at = pointer.places(shape, inside)[inside]
        if len(np.unique(at)) != at.size:
            raise Refused("an element that is written twice")
        pointer.array.reshape(-1)[at] = np.broadcast_to(stored.data, shape)[inside]

    @staticmethod
    def tile_load(
        pointer: PlainPointer,
        row: Any,
        col: Any,
        stride: Any,
        shape: tuple[int, ...],
        rows: Any = None,
        cols: Any = None,
    ) -> Plain:
        """Of a matrix, elements outside which are 0."""
        at, inside = _block(pointer, row, col, stride, shape, rows, cols)
        data = pointer.array.reshape(-1)[at.places(shape, inside)]
        return Plain(np.where(inside, data, 0), pointer.dtype)

    @staticmethod
    def tile_store(
        pointer: PlainPointer,
        row: Any,
        col: Any,
        stride: Any,
        value: Any,
        shape: Any = None,
        rows: Any = None,
        cols: Any = None,
    ) -> None:
        stored = as_plain(value, pointer.dtype)
        sizes = stored.shape if shape is None else shape
        if common_shape(stored, Plain(np.zeros(sizes), pointer.dtype)) != sizes:
            raise Refused("a block that does not fit")
        at, inside = _block(pointer, row, col, stride, sizes, rows, cols)
        inside = inside & np.broadcast_to(stored.counts, sizes)
        places = at.places(sizes, inside)[inside]
        if len(np.unique(places)) != places.size:
            raise Refused("an element that is written twice")
        pointer.array.reshape(-1)[places] = np.broadcast_to(stored.data, sizes)[inside]

    @staticmethod
    def atomic_cas(pointer: PlainPointer, expected: Any, value: Any, mask: Any = None) -> Plain:
        def exchanged(old: Array, was: Array, new: Array) -> Array:
            return np.where(old == was, new, old)

        return _atomic(exchanged, pointer, mask, expected, value)

    atomic_add, atomic_max, atomic_min = map(_atomic_word, (np.add, np.maximum, np.minimum))
    atomic_and, atomic_or = map(_atomic_word, (np.bitwise_and, np.bitwise_or))
    atomic_xor = _atomic_word(np.bitwise_xor)
    atomic_exchange = _atomic_word(lambda old, new: new)
