"""The reference interpreters as devices: always there, slow, and strict."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from iris.ir.control import Func
from iris.ir.core import Level
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

if TYPE_CHECKING:
    from iris.codegen.source import Source


class Interpreter(Device):
    """The interpreter of Tile IR, which checks everything."""

    name = "interp"
    accepts = Level.TILE
    _tell: Callable[[Timing], None] | None = None

    def compile(self, entry: Func, source: Source | None = None) -> Program:
        return Program(entry, entry)

    def allocate(self, size: int, *, persistent: bool = False) -> Array:
        memory = np.empty(size + 15, np.uint8)
        start = -memory.ctypes.data % 16
        return memory[start : start + size]

    def adopt(self, array: Array) -> Array:
        return np.asarray(array.reshape(-1).view(np.uint8))

    def view(self, of: ArrayArgument) -> Array:
        return self._view(of)

    def copy_in(self, to: ArrayArgument, array: Array) -> None:
        self._view(to)[...] = as_stored(array)

    def copy_out(self, source: ArrayArgument, array: Array) -> None:
        as_stored(array)[...] = self._view(source)

    def launch(
        self, program: Program, grid: Grid, arguments: Sequence[Any], stream: Any = None
    ) -> None:
        views = [self._view(a) if isinstance(a, ArrayArgument) else a for a in arguments]
        start = time.perf_counter()
        self._interpreter().run(program.entry, grid, views)
        if self._tell is not None:
            self._tell(Timing(program.entry, grid, tuple(arguments), start, time.perf_counter()))

    def time_launches(self, tell: Callable[[Timing], None] | None) -> None:
        self._tell = tell

    def _interpreter(self) -> Any:
        # Opened when first used, for `import iris` to cost little.
        from iris.interp import tile

        return tile

    @staticmethod
    def _view(argument: ArrayArgument) -> Array:
        dtype, strides = stored(argument.dtype), argument.byte_strides
        made: Array = np.ndarray(argument.shape, dtype, argument.memory, argument.offset, strides)
        return made


class MetalInterpreter(Interpreter):
    """The interpreter of Metal IR: all threads, with races and divergence reported."""

    name = "interp:metal"
    accepts = Level.METAL

    def _interpreter(self) -> Any:
        from iris.interp import metal

        return metal
