"""Kernels that come as Metal text: what each takes, as Metal's reflection says, and launches."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from iris.errors import DeviceError
from iris.ir.core import Location
from iris.ir.types import DType, bf16, bool_, f16, f32, i8, i16, i32, i64, u8, u16, u32, u64
from iris.runtime.device import Grid
from iris.runtime.memory import Block
from iris.runtime.messages import BINDING_INFO, BUFFER_TYPES, READ_ONLY, Messages, Size
from iris.runtime.objc import Object, Pointer, Runtime
from iris.runtime.queue import Batch, Measured

#: More bytes than that no launch gives a kernel by value.
MOST_BYTES = 4096
# MTLBindingType; there are textures and samplers, too.
BUFFER, THREADGROUP_MEMORY = 0, 1
# MTLDataType: of each scalar, after which come its vectors of two, three and four.
_FIRST_OF = {
    3: f32,
    16: f16,
    29: i32,
    33: u32,
    37: i16,
    41: u16,
    45: i8,
    49: u8,
    53: bool_,
    81: i64,
    85: u64,
    121: bf16,
}
_STRUCT = 1
# What Metal calls dtypes.
_WORDS = {
    f32: "float",
    f16: "half",
    bf16: "bfloat",
    bool_: "bool",
    i8: "char",
    u8: "uchar",
    i16: "short",
    u16: "ushort",
    i32: "int",
    u32: "uint",
    i64: "long",
    u64: "ulong",
}


class DataType(NamedTuple):
    """A type by its number."""

    number: int

    @property
    def lanes(self) -> int:
        """Of a scalar or vector; 0 of others."""
        return next((self.number - n + 1 for n in _FIRST_OF if 0 <= self.number - n < 4), 0)

    @property
    def dtype(self) -> DType | None:
        """Of the lanes."""
        return _FIRST_OF[self.number - self.lanes + 1] if self.lanes else None

    def __str__(self) -> str:
        if self.dtype is None:
            return "struct" if self.number == _STRUCT else "another type"
        return _WORDS[self.dtype] + (str(self.lanes) if self.lanes > 1 else "")


@dataclass(frozen=True)
class Binding:
    """A parameter of a kernel that a launch binds something to."""

    name: str
    kind: int
    index: int
    data_type: DataType
    size: int  # of an element, in bytes
    is_written: bool
    is_used: bool

    def __str__(self) -> str:
        if self.kind == THREADGROUP_MEMORY:
            return f"threadgroup memory {self.name} [[threadgroup({self.index})]]"
        space = "device" if self.is_written else "constant"
        return f"{space} {self.data_type} {self.name} [[buffer({self.index})]]"


@dataclass(frozen=True)
class MetalText:
    """A text with kernels, and the file that its lines are of."""

    text: str
    file: str
    entry: str = ""  # none in particular
    version: tuple[int, int] = (3, 1)  # of the language

    def location(self, line: int) -> Location:
        return Location(self.file, line)


class TextKernel(NamedTuple):
    """A kernel of a text that is ready to run."""

    name: str
    source: MetalText
    state: Object
    bindings: tuple[Binding, ...]  # of buffers and threadgroup memory, in the order of the indices
    most_threads: int


class TextLaunch(NamedTuple):
    """All that is told to Metal of a launch."""

    kernel: TextKernel
    buffers: Mapping[int, tuple[Block, int]]  # with offsets
    values: Mapping[int, bytes]
    threadgroup_memory: Mapping[int, int]  # in bytes
    grid: Size
    threads: Size  # in a threadgroup
    grid_is_threads: bool
    blocks: Collection[Block]
    written: Collection[Block]
    size: int  # of all blocks
    waits: frozenset[Callable[[], object]]  # for work of other libraries on them

    dispatches: int = 1

    @property
    def pipelines(self) -> Sequence[TextKernel]:
        return (self.kernel,)

    @property
    def measured(self) -> Measured:
        grid: Grid = self.grid.width, self.grid.height, self.grid.depth
        if self.grid_is_threads:
            per = self.threads.width, self.threads.height, self.threads.depth
            x, y, z = (-(-size // count) for size, count in zip(grid, per, strict=True))
            grid = x, y, z
        return Measured(self.kernel.name, grid, ())

    def encode(self, send: Messages, batch: Batch) -> None:
        encoder = batch.encoder
        batch.pipeline = None
        send.set_pipeline(encoder, self.kernel.state)
        for index, (block, offset) in self.buffers.items():
            send.set_buffer_at(encoder, block.buffer, offset, index)
        for index, value in self.values.items():
            send.set_bytes(encoder, value, len(value), index)
        for index, size in self.threadgroup_memory.items():
            send.set_threadgroup_memory(encoder, size, index)
        dispatch = send.dispatch_threads if self.grid_is_threads else send.dispatch
        dispatch(encoder, self.grid, self.threads)
        for index in self.threadgroup_memory:  # of others in the batch it is none
            send.set_threadgroup_memory(encoder, 0, index)


def _each(send: Messages, array: Object | None) -> list[Any]:
    return [] if array is None else [send.at(array, i) for i in range(send.count(array))]


def bindings_of(runtime: Runtime, send: Messages, reflection: int | None) -> tuple[Binding, ...]:
    """What reflection tells of a kernel's parameters, the order of their indices; buffers first."""
    found = []
    for one in _each(send, send.bindings(reflection)):
        kind = send.type(one)
        is_buffer = kind == BUFFER
        found.append(
            Binding(
                runtime.text(send.name(one)),
                kind,
                send.index(one),
                DataType(send.data_type(one) if is_buffer else 0),
                send.data_size(one) if is_buffer else 0,
                send.access(one) != READ_ONLY,
                bool(send.is_used(one) & 0xFF),
            )
        )
    return tuple(sorted(found, key=lambda one: (one.kind, one.index)))


def names_of(runtime: Runtime, send: Messages, library: Object) -> list[str]:
    """The kernels of a library."""
    return sorted(map(runtime.text, _each(send, send.function_names(library))))


class TextLibrary:
    """The compiled kernels of a text."""

    def __init__(self, runtime: Runtime, send: Messages, library: Object, source: MetalText):
        self._runtime, self._send, self._library = runtime, send, library
        self.source = source
        self.names = tuple(names_of(runtime, send, library))
        self.constants: dict[str, DataType] = {}  # which kernels know
        for name in self.names:
            found = send.new_function(library, runtime.string(name))
            every = send.all_values(send.function_constants(found))
            for one in _each(send, every):
                self.constants[runtime.text(send.name(one))] = DataType(send.type(one))

    def function(
        self, name: str, values: Object, given: Mapping[str, tuple[DataType, bytes]]
    ) -> Object:
        """A function of a name, with values of function constants."""
        send, text = self._send, self._runtime.string(name)
        for constant, (data_type, value) in given.items():
            key = self._runtime.string(constant)
            send.set_constant(values, value, data_type.number, key)
        return send.new_function_with(self._library, text, values)  # type: ignore[no-any-return]

    def pipeline(self, name: str, device: Object, described: Object) -> TextKernel:
        """What runs a function, and what that takes."""
        send, reflection, error = self._send, Pointer(), Pointer()
        options = BINDING_INFO | BUFFER_TYPES
        places = ctypes.byref(reflection), ctypes.byref(error)
        state = send.reflected_pipeline(device, described, options, *places)
        if state is None:
            why = self._runtime.error_text(error.value)
            raise DeviceError(f"the kernel {name} makes no pipeline: {why}")
        bindings = bindings_of(self._runtime, send, reflection.value)
        return TextKernel(name, self.source, state, bindings, send.most_threads(state))
