"""A launch on copies of its arrays, to time it or to read its results."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from iris.compiler.arguments import Array, Call, place
from iris.ir.scalar import from_bits
from iris.ir.types import DType, bf16, u8
from iris.runtime.buffer import Buffer
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
        self._device.synchronize()
        placed = [self._placed[name] for name in self._written]
        return [(one.dtype, self._read(one)) for one in placed]

    def _read(self, placed: ArrayArgument) -> Array:
        array = np.empty(placed.shape, stored(placed.dtype))
        self._device.copy_out(placed, array)
        return array if placed.dtype is not bf16 else from_bits(bf16, array)


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
