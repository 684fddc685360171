"""Elements and copies of a Buffer, which stay as they were read.

    @given(buffer_reads.reads())
    def test_reads(read):
        read.check()

Elements are read one by one, by all their indices or by one, as of a flat array; copies are made,
on the device and on the host.  Then a launch writes the Buffer, and the host has written the array
that it was made of: neither changes a copy, and each Buffer has the numbers written to it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

import iris
from iris.testing.choices import Choices

BYTES = 24
_DEVICES = ("interp", "interp:metal")
_DTYPES = (np.float32, np.int32, np.float16, np.uint8)


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
        first = np.arange(np.prod(shape, dtype=int), dtype=choices.of(_DTYPES)).reshape(shape)
        array = first.copy()
        x = iris.asarray(array, device=device)
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
        count = choices.below(array.size + 1)
        _put[1](x, count, 99, B=128, device=device)
        written = first.copy()
        written.reshape(-1)[:count] = 99
        assert np.array_equal(iris.to_numpy(x), written), "the launch writes something else"
        for copy in (*copies, iris.to_numpy(other)):
            assert np.array_equal(copy, first), f"a launch changes what was copied: {copy}"
