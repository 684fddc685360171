"""An array argument as memory: from its first element on, as its strides say."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from iris.errors import ArgumentError

Array = npt.NDArray[Any]


class Elements(NamedTuple):
    """The memory from an array's first element to its last, one after the other."""

    array: Array
    flat: Array
    own: Array | None  # which of them the array has; None: all

    def __str__(self) -> str:
        if self.own is None:
            return f"which has {self.flat.size} elements"
        strides = tuple([stride // self.array.itemsize for stride in self.array.strides])
        return f"which has the shape {self.array.shape} and, in elements, the strides {strides}"

    def outside(self, index: Array) -> Array:
        """Where indices are those of no element of the array."""
        outside: Array = (index < 0) | (index >= self.flat.size)
        if self.own is not None:
            outside |= ~self.own.take(np.where(outside, 0, index))
        return outside

    def shaped(self, values: Array) -> Array:
        """Of a value for each place of the memory, those of the elements, in the array's shape."""
        if self.own is None and self.array.flags.c_contiguous:
            return values.reshape(self.array.shape)
        width = values.itemsize
        strides = [stride // self.array.itemsize * width for stride in self.array.strides]
        return as_strided(values, self.array.shape, strides)


def elements_of(name: str, array: Array) -> Elements:
    """The memory of an array; its strides are whole numbers of elements, none negative."""
    if array.flags.c_contiguous:
        return Elements(array, array.reshape(-1), None)
    size = array.itemsize
    # Along an axis of one element it does not matter how far it would be to the next.
    longer = [(n, step) for n, step in zip(array.shape, array.strides, strict=True) if n > 1]
    if any(step < 0 or step % size for _, step in longer):
        raise ArgumentError(
            f"the strides of {name}, in bytes, are {array.strides}; they must be whole numbers of "
            "elements, and none negative; pass a copy of it"
        )
    count = 1 + sum([(n - 1) * (step // size) for n, step in longer])
    flat = as_strided(array, (count,), (size,), writeable=array.flags.writeable)
    own = np.zeros(count, np.bool_)
    as_strided(own, [n for n, _ in longer], [step // size for _, step in longer])[...] = True
    return Elements(array, flat, None if own.all() else own)
