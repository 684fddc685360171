"""Launches on copies of their arrays, to time them or to read their results."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from iris.compiler.arguments import Array, Call, place
from iris.compiler.graph_kernels import GraphKernel, compile_all
from iris.compiler.graph_program import to_argument
from iris.ir.core import Value
from iris.ir.math import element_type
from iris.ir.scalar import from_bits
from iris.ir.types import DType, bf16, u8
from iris.runtime.buffer import Buffer, empty
from iris.runtime.device import ArrayArgument, Device, Grid, Program, stored


class Trial:
    """A repeatable launch that leaves its arguments as they are.

    Arrays that overlap overlap in the copies, too.
    """

    def __init__(
        self, device: Device, program: Program, grid: Grid, given: Call, written: Collection[str]
    ):
        self._device = device
        self._placed = place(device, given.arrays) | _copies(device, given.buffers)
        arguments = [self._placed.get(name, value) for name, value in given.passed.items()]
        self._written = [name for name in given.passed if name in written]
        self.launch = device.prepare(program, grid, arguments)

    def results(self) -> list[tuple[DType, Array]]:
        """Launch once, and give the arrays that the kernel writes, bf16 as f32."""
        self.launch()
        placed = [self._placed[name] for name in self._written]
        return [(one.dtype, _numbers(one, read(one, self._device))) for one in placed]


class KernelTrial:
    """A launch of a kernel on arrays of its own."""

    def __init__(self, kernel: GraphKernel, arrays: Sequence[Array], device: Device):
        ((program, grid),) = compile_all([kernel], device)
        known = {
            v: to_argument(v, array, device) for v, array in zip(kernel.inputs, arrays, strict=True)
        }
        for value in kernel.outputs:
            into = kernel.written_to.get(value)
            known[value] = empty_for(value, device) if into is None else known[into]
        self._device = device
        self.written = [known[v] for v in kernel.outputs]
        self.launch = device.prepare(program, grid, [known[v] for v in kernel.arrays])

    def arrays(self) -> list[Array]:
        """What one launch writes, as it is stored."""
        self.launch()
        return [read(argument, self._device) for argument in self.written]

    def results(self) -> list[tuple[DType, Array]]:
        pairs = zip(self.written, self.arrays(), strict=True)
        return [(argument.dtype, _numbers(argument, array)) for argument, array in pairs]


def empty_for(value: Value, device: Device) -> ArrayArgument:
    """Room for a tensor."""
    type_ = element_type(value.type)
    return empty(type_.shape, type_.element, device=device).argument


def read(argument: ArrayArgument, device: Device) -> Array:
    """The elements of an array as they are stored, once the launches that write it are done."""
    array = np.empty(argument.shape, stored(argument.dtype))
    device.copy_out(argument, array)
    return array


def _numbers(argument: ArrayArgument, array: Array) -> Array:
    """What is stored as bits, as numbers."""
    return array if argument.dtype is not bf16 else from_bits(bf16, array)


def _copies(device: Device, buffers: Mapping[str, Buffer]) -> dict[str, ArrayArgument]:
    """Copies of Buffers, which share memory where the Buffers do."""
    by_memory: dict[int, list[ArrayArgument]] = {}
    for buffer in buffers.values():
        by_memory.setdefault(id(buffer.argument.memory), []).append(buffer.argument)
    copied = {key: _copy(device, arguments) for key, arguments in by_memory.items()}
    return {
        name: replace(buffer.argument, memory=copied[id(buffer.argument.memory)])
        for name, buffer in buffers.items()
    }


def _copy(device: Device, arguments: list[ArrayArgument]) -> Any:
    """Other memory that holds what some arrays of one memory do, at the same offsets."""
    size = max([a.offset + int(np.prod(a.shape)) * stored(a.dtype).itemsize for a in arguments])
    start = min([a.offset for a in arguments])
    memory = device.allocate(size)
    content = np.empty(size - start, np.uint8)
    source = ArrayArgument(arguments[0].memory, start, u8, content.shape)
    device.copy_out(source, content)
    device.copy_in(replace(source, memory=memory), content)
    return memory
