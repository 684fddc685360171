"""The blocks of arrays that Triton's language has, in NumPy: beside the words of `plain_words`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.testing.plain_tiles import Plain, PlainPointer, Refused, as_plain
from iris.testing.plain_words import Words

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class PlainBlock:
    """A block of an array of some shape and strides."""

    base: PlainPointer
    shape: Sequence[Any]
    strides: Sequence[Any]
    offsets: Sequence[Any]
    sizes: tuple[int, ...]

    def places(self, checked: Sequence[int]) -> tuple[Array, Array]:
        """The numbers of the elements, and which are inside along the axes that are checked."""
        at, inside = np.zeros(self.sizes, np.int64), np.ones(self.sizes, np.bool_)
        for axis, index in enumerate(np.indices(self.sizes)):
            index = index + int(self.offsets[axis])
            at += index * int(self.strides[axis])
            if axis in checked:
                inside &= (index >= 0) & (index < int(self.shape[axis]))
        return (self.base + Plain(at, Words.i64)).places(self.sizes, inside), inside

    def read(self, checked: Sequence[int], padding: str) -> Plain:
        at, inside = self.places(checked)
        if padding == "nan" and not self.base.dtype.is_float:
            raise Refused("an integer that is no number")
        other = np.nan if padding == "nan" else 0
        found = self.base.array.reshape(-1)[at]
        return Plain(np.where(inside, found, np.asarray(other, found.dtype)), self.base.dtype)

    def write(self, value: Any, checked: Sequence[int]) -> None:
        at, inside = self.places(checked)
        stored = Words.broadcast_to(as_plain(value, self.base.dtype), self.sizes)
        self.base.array.reshape(-1)[at[inside]] = stored.data[inside]


@dataclass(frozen=True)
class PlainDescriptor:
    """An array that is loaded and stored in blocks, with all axes checked."""

    whole: PlainBlock
    padding: str

    def load(self, offsets: Sequence[Any]) -> Plain:
        return replace(self.whole, offsets=offsets).read(range(len(offsets)), self.padding)

    def store(self, offsets: Sequence[Any], value: Any) -> None:
        replace(self.whole, offsets=offsets).write(value, range(len(offsets)))


def _of_floats(function: Callable[[Any], Plain]) -> Callable[..., Plain]:
    """Of an integer, what it gives of that as a float."""

    def found(x: Any) -> Plain:
        value = as_plain(x)
        return function(value if value.dtype.is_float else value.to(Words.f32))

    return staticmethod(found)


class TritonWords(Words):
    """The names that a kernel of Triton finds in `tl`."""

    @staticmethod
    def make_block_ptr(
        base: PlainPointer, shape: Any, strides: Any, offsets: Any, block_shape: Any, order: Any
    ) -> PlainBlock:
        return PlainBlock(base, shape, strides, offsets, block_shape)

    @staticmethod
    def advance(block: PlainBlock, by: Sequence[Any]) -> PlainBlock:
        further = [int(o) + int(d) for o, d in zip(block.offsets, by, strict=True)]
        return replace(block, offsets=further)

    @staticmethod
    def make_tensor_descriptor(
        base: PlainPointer, shape: Any, strides: Any, block_shape: Any, padding_option: str
    ) -> PlainDescriptor:
        whole = PlainBlock(base, shape, strides, [0] * len(shape), block_shape)
        return PlainDescriptor(whole, padding_option)

    @staticmethod
    def sum(x: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Plain:
        return Words.sum(_bools_as_u32(x), axis, keepdims, dtype)

    @staticmethod
    def cumsum(x: Any, axis: int = 0, dtype: Any = None, reverse: bool = False) -> Plain:
        return Words.cumsum(_bools_as_u32(x), axis, dtype, reverse)

    @staticmethod
    def max(x: Any, axis: Any = None, keepdims: bool = False) -> Plain:
        return Words.max(_of_32_bits(x), axis, keepdims)

    @staticmethod
    def min(x: Any, axis: Any = None, keepdims: bool = False) -> Plain:
        return Words.min(_of_32_bits(x), axis, keepdims)

    floor, ceil = map(_of_floats, (Words.floor, Words.ceil))

    @staticmethod
    def topk(x: Any, k: int, axis: int = -1) -> Plain:
        value = as_plain(x)
        leaves_some = bool(value.shape) and k < value.shape[axis]
        return Words.topk(_of_32_bits(value) if leaves_some else value, k, axis)

    @staticmethod
    def load(
        pointer: Any,
        mask: Any = None,
        other: Any = 0,
        boundary_check: Sequence[int] = (),
        padding_option: str = "zero",
        volatile: bool = False,
    ) -> Plain:
        if isinstance(pointer, PlainBlock):
            return pointer.read(boundary_check, padding_option)
        return Words.load(pointer, mask, other)

    @staticmethod
    def store(
        pointer: Any, value: Any, mask: Any = None, boundary_check: Sequence[int] = ()
    ) -> None:
        if isinstance(pointer, PlainBlock):
            pointer.write(value, boundary_check)
        else:
            Words.store(pointer, value, mask)


def _bools_as_u32(x: Any) -> Plain:
    """In which Triton adds bools."""
    value = as_plain(x)
    return value.to(Words.u32) if value.dtype is Words.bool_ else value


def _of_32_bits(x: Any) -> Plain:
    """In which Triton compares small integers, and floats of which there are pairs."""
    value = as_plain(x)
    if value.dtype.bits >= 32:
        return value
    return value.to(Words.f32 if value.dtype.is_float else Words.i32)
