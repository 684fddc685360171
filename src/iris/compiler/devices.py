"""Devices: what can run a kernel, behind one small contract."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from iris import knobs
from iris.errors import SettingError
from iris.ir.control import Func
from iris.ir.core import Level
from iris.ir.scalar import storage
from iris.ir.types import DType, bf16

Array = npt.NDArray[Any]
Grid = tuple[int, int, int]


@dataclass(frozen=True)
class Program:
    """A kernel that a device has compiled."""

    entry: Func
    code: Any


@dataclass(frozen=True)
class ArrayArgument:
    """An array in device memory: at an offset in bytes, for arrays that overlap share memory."""

    memory: Any
    offset: int
    dtype: DType
    shape: tuple[int, ...]


class Device:
    """The contract.  Memory belongs to the device: arrays are copied in and out of it."""

    name: ClassVar[str]
    accepts: ClassVar[Level]  # the level that `compile` takes

    def compile(self, entry: Func) -> Program:
        """What `launch` runs."""
        raise NotImplementedError

    def allocate(self, size: int) -> Any:
        """Memory of a size in bytes, at a multiple of 16."""
        raise NotImplementedError

    def copy_in(self, to: ArrayArgument, array: Array) -> None:
        """Copy an array to device memory, in row-major order."""
        raise NotImplementedError

    def copy_out(self, source: ArrayArgument, array: Array) -> None:
        """Copy device memory to an array."""
        raise NotImplementedError

    def launch(self, program: Program, grid: Grid, arguments: Sequence[Any]) -> None:
        """Run all programs of a grid; what they print goes to standard output."""
        raise NotImplementedError

    def synchronize(self) -> None:
        """Wait until all launches are done."""


class Interpreter(Device):
    """A reference interpreter: always there, checks everything.  This one is that of Tile IR."""

    name = "interp"
    accepts = Level.TILE

    def compile(self, entry: Func) -> Program:
        return Program(entry, entry)

    def allocate(self, size: int) -> Array:
        memory = np.empty(size + 15, np.uint8)
        start = -memory.ctypes.data % 16
        return memory[start : start + size]

    def copy_in(self, to: ArrayArgument, array: Array) -> None:
        self._view(to)[...] = _as_stored(array)

    def copy_out(self, source: ArrayArgument, array: Array) -> None:
        _as_stored(array)[...] = self._view(source)

    def launch(self, program: Program, grid: Grid, arguments: Sequence[Any]) -> None:
        views = [self._view(a) if isinstance(a, ArrayArgument) else a for a in arguments]
        self._interpreter().run(program.entry, grid, views)

    def _interpreter(self) -> Any:
        # Opened when first used, for `import iris` to cost little.
        from iris.interp import tile

        return tile

    @staticmethod
    def _view(argument: ArrayArgument) -> Array:
        stored = np.dtype(np.uint16) if argument.dtype is bf16 else storage(argument.dtype)
        size = prod(argument.shape) * stored.itemsize
        block = argument.memory[argument.offset : argument.offset + size]
        return np.asarray(block.view(stored).reshape(argument.shape))


class MetalInterpreter(Interpreter):
    """The reference interpreter of Metal IR: all threads, with races and divergence reported."""

    name = "interp:metal"
    accepts = Level.METAL

    def _interpreter(self) -> Any:
        from iris.interp import metal

        return metal


def _as_stored(array: Array) -> Array:
    """A bf16 array as its bits, which NumPy has no dtype for; another as it is."""
    return array.view(np.uint16) if array.dtype.name == "bfloat16" else array


DEVICES: dict[str, type[Device]] = {d.name: d for d in (Interpreter, MetalInterpreter)}
_opened: dict[str, Device] = {}


def select(device: str | Device | None) -> Device:
    """The device that a launch names, or the environment does, or the default one."""
    if isinstance(device, Device):
        return device
    name = device or knobs.device() or Interpreter.name
    if name not in DEVICES:
        raise SettingError(f"there is no device {name!r}; there are {', '.join(DEVICES)}")
    if name not in _opened:
        _opened[name] = DEVICES[name]()
    return _opened[name]
