"""Buffers of arrays, and what changes on either side.

    @given(buffer_reads.reads())
    def test_reads(read):
        read.check()

Buffers are made of views of one array: its rows turned, every second one, backwards, without the
first, as another dtype.  Some arrays lie in pages of their own, which a Buffer may share; it does
so where it has exactly the elements of a view in the order in which they lie in memory, and
somebody may write them.  Every other Buffer has elements of its own.

Then the host writes the array or a Buffer, and launches write Buffers.  What is read of each of
them, one by one, by all indices or by one, or as a copy, are the numbers that were written to it,
or to the memory that it shares; and what was copied stays as it was.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

import iris
from iris.testing.choices import Choices

BYTES = 48
INTERPRETERS = ("interp", "interp:metal")
Array = npt.NDArray[Any]

_DTYPES = (np.float32, np.int32, np.float16, np.uint8)
# Of whole pages, whatever the dtype; some axes have equal sizes, and some are of one element.
_IN_PAGES = ((64, 64), (16, 256), (64, 128), (2, 64, 32), (16, 16, 16), (4096, 1), (4096,))
_WRITTEN = 128  # elements at most


@iris.kernel
def _put(Out, n, number, B: iris.constexpr):  # type: ignore[no-untyped-def]
    at = iris.arange(0, B)  # type: ignore[arg-type]
    iris.store(Out + at, number, mask=at < n)


def reads(devices: Sequence[str] = INTERPRETERS) -> st.SearchStrategy[Reads]:
    """Buffers on one of some devices."""
    return st.binary(min_size=BYTES, max_size=BYTES).map(partial(Reads, devices=devices))


View = Callable[[Array], Array]


def _as_other(x: Array) -> Array:
    """The same bytes, of another dtype of the same size."""
    return x.view({"f": np.dtype(f"i{x.itemsize}")}.get(x.dtype.kind, x.dtype))


_VIEWS: dict[str, View] = {
    "as it is": lambda x: x,
    "turned": lambda x: x.T,
    "with two axes exchanged": lambda x: x.swapaxes(0, -1),
    "with its inner axes exchanged": lambda x: x.swapaxes(-1, -2) if x.ndim > 1 else x,
    "backwards": lambda x: np.flip(x),
    "with its rows backwards": lambda x: x[::-1],
    "every second row": lambda x: x[::2],
    "every second column": lambda x: x[..., ::2],
    "the first half": lambda x: x[: -(-len(x) // 2)],
    "the second half": lambda x: x[len(x) // 2 :],
    "without the first row": lambda x: x[1:] if len(x) > 1 else x,
    "without the last column": lambda x: x[..., :-1] if x.shape[-1] > 1 else x,
    "one row": lambda x: x[:1],
    "with one more axis": lambda x: x[:, None],
    "as bits": _as_other,
    "for reading": lambda x: np.broadcast_to(x, x.shape),
    "twice": lambda x: np.broadcast_to(x, (2, *x.shape)),
}

# The views that a Buffer may share; two of them may overlap.
_IN_ORDER = ("as it is", "the first half", "the second half", "as bits")


@dataclass(eq=False)
class _Known:
    """A Buffer, and what must be in it."""

    buffer: iris.Buffer
    how: str  # it was made
    expected: Array  # its elements: a view of the expected array if it shares that, else a copy
    is_shared: bool


@dataclass
class _State:
    """Memory of the host, the numbers that must be in it, and the Buffers that were made of it."""

    memory: Array | None  # until the host forgets it
    expected: Array
    device: str
    can_be_shared: bool
    buffers: list[_Known] = field(default_factory=list)
    copies: list[tuple[Array, Array]] = field(default_factory=list)

    def make(self, choices: Choices) -> None:
        """Make one more Buffer, of a view of the array."""
        if self.memory is None:
            return
        self._settle()
        kinds = choices.of((_IN_ORDER, [*_VIEWS]))
        names = [choices.of(kinds) for _ in range(choices.below(3))]
        array, expected = self.memory, self.expected
        for name in names:
            if array.ndim:
                array, expected = _VIEWS[name](array), _VIEWS[name](expected)
        how = f"{self.memory.dtype} {self.memory.shape} {', '.join(names)} on {self.device}"
        buffer = iris.asarray(array, device=self.device)
        shared = np.shares_memory(buffer.numpy(), self.memory)
        may_be = self.can_be_shared and array.flags.c_contiguous and array.flags.writeable
        assert may_be or not shared, f"{how}: a Buffer shares what lies in memory otherwise"
        for known in self.buffers if shared else ():
            if known.is_shared and np.shares_memory(known.expected, expected):
                alike = known.buffer.argument.memory is buffer.argument.memory
                assert alike, f"{how}: it has memory of {known.how}, which the device takes for two"
        expected = expected if shared else expected.copy()
        self.buffers.append(_Known(buffer, how, expected, shared))

    def read(self, known: _Known, choices: Choices) -> None:
        """Read some elements of a Buffer, or all of them, and keep a copy at times."""
        expected, shape = known.expected, known.expected.shape
        if expected.size:
            index = tuple([_below(choices, size) for size in shape])
            one = int(np.ravel_multi_index(index, shape)) if shape else 0
            for given in (index, (one,)):
                found = known.buffer.peek(*given)
                assert found == expected[index], (
                    f"{known.how}: peek{given} is {found}, not {expected[index]}"
                )
        copy = self._copied(known, choices)
        assert np.array_equal(copy, expected), f"{known.how}: {copy} is not {expected}"
        if choices.flag():
            copy[...] = 55
            self._compare(known, "to write a copy changes the Buffer")
        self.copies.append((copy, copy.copy()))

    def _copied(self, known: _Known, choices: Choices) -> Array:
        if choices.flag():
            return iris.to_numpy(known.buffer)
        copy = np.zeros(known.expected.shape, known.expected.dtype)
        known.buffer.device.copy_out(known.buffer.argument, copy)
        return copy

    def write_host(self, choices: Choices) -> None:
        """Write the array where it is."""
        self._settle()
        memory = self.memory
        if memory is not None and memory.flags.writeable and memory.size:
            index = tuple([_below(choices, size) for size in memory.shape])
            number = choices.below(50) + 150
            memory[index] = self.expected[index] = number

    def write_buffer(self, known: _Known, choices: Choices) -> None:
        """Write elements of a Buffer through the array that it gives."""
        view = known.buffer.numpy()
        if view.flags.writeable and view.size:
            index = tuple([_below(choices, size) for size in view.shape])
            view[index] = known.expected[index] = choices.below(50) + 200

    def launch(self, known: _Known, choices: Choices) -> None:
        """Let a launch write the first elements of a Buffer, in row-major order."""
        count = choices.of((min(known.expected.size, _WRITTEN), 3, 1))
        count, number = min(count, known.expected.size), 90 + choices.below(9)
        _put[1](known.buffer, count, number, B=_WRITTEN, device=self.device)
        known.expected.reshape(-1)[:count] = number

    def forget(self) -> None:
        """The host forgets the array: Buffers that share its memory keep that."""
        self.memory = None

    def finish(self) -> None:
        """Assert that all hold what was written to them last, and copies what they did."""
        for known in self.buffers:
            self._compare(known, "something else was written")
        if self.memory is not None:
            assert np.array_equal(self.memory, self.expected), "the array is not as it was written"
        for copy, was in self.copies:
            assert np.array_equal(copy, was), f"what was copied has changed: {copy}, not {was}"

    def _settle(self) -> None:
        """Wait for the launches that use the array: the host sees what they write only then."""
        for known in self.buffers:
            known.buffer.numpy()

    def _compare(self, known: _Known, what: str) -> None:
        found = known.buffer.numpy()
        assert np.array_equal(found, known.expected), (
            f"{known.how}: {what}: {found} is not {known.expected}"
        )


@dataclass(frozen=True)
class Reads:
    """Buffers of an array, and reads and writes of them, as some bytes choose."""

    data: bytes
    devices: Sequence[str] = INTERPRETERS

    def check(self) -> None:
        """Assert that every number that is read was written there last."""
        choices = Choices(self.data)
        device = choices.of(self.devices)
        dtype = choices.of(_DTYPES)
        in_pages = choices.flag()
        memory = _in_pages(choices, dtype) if in_pages else _small(choices, dtype)
        memory[...] = (np.arange(memory.size) % 139).astype(dtype).reshape(memory.shape)
        expected = memory.copy()
        memory.flags.writeable = not choices.flag(6)
        state = _State(memory, expected, device, in_pages)
        del memory
        for _ in range(1 + choices.below(3)):
            state.make(choices)
        for _ in range(3 + choices.below(4)):
            known = choices.of(state.buffers)
            match choices.below(9):
                case 0 | 1:
                    state.read(known, choices)
                case 2 | 3:
                    state.launch(known, choices)
                case 4 | 5:
                    state.write_host(choices)
                case 6:
                    state.write_buffer(known, choices)
                case 7:
                    state.make(choices)
                case _:
                    state.forget()
        state.finish()


def _in_pages(choices: Choices, dtype: npt.DTypeLike) -> Array:
    shape = choices.of(_IN_PAGES)
    memory = mmap.mmap(-1, int(np.prod(shape)) * np.dtype(dtype).itemsize)
    made: Array = np.frombuffer(memory, dtype).reshape(shape)
    return made


def _small(choices: Choices, dtype: npt.DTypeLike) -> Array:
    """An array of any rank, at times at an odd byte."""
    shape = tuple([choices.of((3, 2, 1, 3, 5, 0)) for _ in range(choices.below(4))])
    itemsize = np.dtype(dtype).itemsize
    memory = np.zeros(int(np.prod(shape)) * itemsize + 1, np.uint8)
    made: Array = np.ndarray(shape, dtype, memory, choices.of((0, 0, 1)))
    return made


def _below(choices: Choices, size: int) -> int:
    """A number below any size; as often as not one of the ends."""
    if choices.flag():
        return choices.of((0, size - 1))
    return (choices.below(256) * 16 + choices.below(16)) % size
