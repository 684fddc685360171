"""Elements and copies of a Buffer, which stay as they were read.

    @given(buffer_reads.reads())
    def test_reads(read):
        read.check()

Elements are read one by one, by all their indices or by one, as of a flat array; copies are made,
on the device and on the host.  Then a launch writes the Buffer, and the host has written the array
that it was made of: neither changes a copy, and each Buffer has the numbers written to it.

Some arrays lie in pages of their own, which a Buffer may share, so the host does not write these;
those that nobody may write, and whose elements are in another order, stay as they are.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

import iris
from iris.testing.choices import Choices

BYTES = 24
_DEVICES = ("interp", "interp:metal")
_DTYPES = (np.float32, np.int32, np.float16, np.uint8)
_IN_PAGES = ((16, 256), (8, 512), (2, 64, 32), (4096,))
_WRITTEN = 128  # elements at most


@iris.kernel
def _put(Out, n, number, B: iris.constexpr):  # type: ignore[no-untyped-def]
    at = iris.arange(0, B)  # type: ignore[arg-type]
    iris.store(Out + at, number, mask=at < n)


def reads() -> st.SearchStrategy[Reads]:
    """Buffers of all ranks."""
    return st.binary(min_size=BYTES, max_size=BYTES).map(Reads)


@dataclass(frozen=True)
class Reads:
    """A Buffer, and which elements are read of it, as some bytes choose."""

    data: bytes

    def check(self) -> None:
        """Assert that elements and copies equal the Buffer, and stay as they are."""
        choices = Choices(self.data)
        device = choices.of(_DEVICES)
        shape = tuple([choices.of((3, 2, 1, 5)) for _ in range(choices.below(4))])
        dtype = choices.of(_DTYPES)
        in_pages = choices.flag(4)
        array = _in_pages(choices, dtype) if in_pages else np.empty(shape, dtype)
        shape = array.shape
        first = (np.arange(array.size) % 251).astype(dtype).reshape(shape)
        array[...] = first
        array.flags.writeable = not (in_pages and choices.flag())
        may_be_shared = in_pages and array.flags.writeable and array.flags.c_contiguous
        x = iris.asarray(array, device=device)
        if not in_pages:
            array[...] = 77
        for _ in range(3):
            index = tuple([choices.below(size) for size in shape])
            one = int(np.ravel_multi_index(index, shape)) if shape else 0
            for given in (index, (one,)):
                found = x.peek(*given)
                assert found == first[index], f"{shape}: peek{given} is {found}, not {first[index]}"
        copies = [iris.to_numpy(x) for _ in range(1 + choices.below(2))]
        other = iris.asarray(iris.to_numpy(x), device=device)
        if choices.flag():
            copies[0][...] = 55
            assert np.array_equal(iris.to_numpy(x), first), "to write a copy changes the Buffer"
            copies[0][...] = first
        count = choices.below(min(array.size, _WRITTEN) + 1)
        _put[1](x, count, 99, B=_WRITTEN, device=device)
        written = first.copy()
        written.reshape(-1)[:count] = 99
        assert np.array_equal(iris.to_numpy(x), written), "the launch writes something else"
        kept = [array] if in_pages and not may_be_shared else []
        for copy in (*copies, iris.to_numpy(other), *kept):
            assert np.array_equal(copy, first), f"a launch changes what was copied: {copy}"


def _in_pages(choices: Choices, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An array of whole pages, whose elements may be in another order."""
    shape = choices.of(_IN_PAGES)
    memory = mmap.mmap(-1, int(np.prod(shape)) * np.dtype(dtype).itemsize)
    array: npt.NDArray[Any] = np.frombuffer(memory, dtype).reshape(shape)
    return array.T if choices.flag() else array
