"""The reference interpreters as devices: always there, slow, and strict."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from iris.errors import DeviceError, IrisError
from iris.ir.control import Func
from iris.ir.core import Level
from iris.ir.effects import effects_within, writes
from iris.runtime.device import (
    Array,
    ArrayArgument,
    Device,
    Grid,
    Program,
    Timing,
    as_stored,
    stored,
)
from iris.runtime.failure import Failure
from iris.targets.apple import ON_CPU

if TYPE_CHECKING:
    from iris.codegen.source import Source


class Memory(np.ndarray[Any, np.dtype[np.uint8]]):
    """Bytes, and the failure of a launch that was to write them."""

    failure: Failure | None = None


class Interpreter(Device):
    """The interpreter of Tile IR, and of kernels by thread, which checks everything."""

    name = "interp"
    accepts = Level.TILE
    is_timed = False
    _tell: Callable[[Timing], None] | None = None

    def compile(self, entry: Func, source: Source | None = None) -> Program:
        return Program(entry, entry)

    def allocate(self, size: int, *, persistent: bool = False) -> Memory:
        try:
            memory = np.empty(size + 15, np.uint8)
        except (MemoryError, OverflowError, ValueError):
            raise DeviceError(f"{self.name} could not make a buffer of {size} bytes") from None
        start = -memory.ctypes.data % 16
        return memory[start : start + size].view(Memory)

    def adopt(self, array: Array) -> Memory:
        return array.reshape(-1).view(np.uint8).view(Memory)

    def view(self, of: ArrayArgument) -> Array:
        return self._view(of)

    def copy_in(self, to: ArrayArgument, array: Array) -> None:
        view = self._view(to)
        view[...] = as_stored(array)
        if view.nbytes == to.memory.nbytes:
            to.memory.failure = None

    def copy_out(self, source: ArrayArgument, array: Array) -> None:
        self.synchronize(source.memory)
        as_stored(array)[...] = self._view(source)

    def launch(
        self, program: Program, grid: Grid, arguments: Sequence[Any], stream: Any = None
    ) -> None:
        views = []
        for argument in arguments:
            if isinstance(argument, ArrayArgument):
                self.synchronize(argument.memory)
                argument = self._view(argument)
            views.append(argument)
        start = time.perf_counter()
        try:
            self._interpreter(program.entry).run(program.entry, grid, views)
        except IrisError as error:
            _fail(program.entry, arguments, error)
            raise
        except KeyboardInterrupt:
            what = f"the kernel {program.entry.symbol} was interrupted"
            _fail(program.entry, arguments, DeviceError(what))
            raise
        if self._tell is not None:
            self._tell(Timing(program.entry, grid, tuple(arguments), start, time.perf_counter()))

    def synchronize(self, memory: Memory | None = None) -> None:
        if memory is not None and memory.failure is not None:
            raise memory.failure.error()

    def time_launches(self, tell: Callable[[Timing], None] | None) -> None:
        self._tell = tell

    def _interpreter(self, entry: Func) -> Any:
        # Opened when first used, for `import iris` to cost little.
        from iris.interp import metal, tile

        return metal if entry.function_level is Level.METAL else tile

    @staticmethod
    def _view(argument: ArrayArgument) -> Array:
        dtype, strides = stored(argument.dtype), argument.byte_strides
        made: Array = np.ndarray(argument.shape, dtype, argument.memory, argument.offset, strides)
        return made


def _fail(entry: Func, arguments: Sequence[Any], error: IrisError) -> None:
    """Mark what a launch was to write."""
    written = writes(effects_within(entry))
    failure = Failure(error)
    for parameter, argument in zip(entry.body.arguments, arguments, strict=True):
        if parameter in written and isinstance(argument, ArrayArgument):
            argument.memory.failure = failure


class MetalInterpreter(Interpreter):
    """The interpreter of Metal IR: all threads, with races and divergence reported."""

    name = "interp:metal"
    accepts = Level.METAL
    target = ON_CPU
