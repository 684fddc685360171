"""Kernels that are given as Metal text, with checked arguments: on a Mac, and on softmetal."""

from __future__ import annotations

import ctypes
import itertools
import linecache
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from iris.compiler.arguments import (
    Array,
    as_array,
    check_written,
    place,
    shared_buffer,
)
from iris.compiler.grids import as_grid
from iris.errors import ArgumentError, DTypeError, FileError, OutOfResources, RangeError
from iris.frontend.tracing import error_here
from iris.ir.literal import encode
from iris.ir.types import bool_
from iris.runtime.borrowing import Borrowing
from iris.runtime.buffer import Buffer, dtype_named
from iris.runtime.device import ArrayArgument, Device, stored
from iris.runtime.devices import select
from iris.runtime.messages import Size
from iris.runtime.metal import Metal
from iris.runtime.metal_text import (
    BUFFER,
    MOST_BYTES,
    THREADGROUP_MEMORY,
    Binding,
    DataType,
    MetalText,
    TextKernel,
    TextLaunch,
    TextLibrary,
)
from iris.runtime.recorder import refuse_while_recording

_NUMBERS = itertools.count(1)
# A threadgroup where a launch names none, by the axes of the grid.
_USUAL = {1: (256, 1, 1), 2: (32, 8, 1), 3: (32, 4, 2)}


def library(
    source: str | Path, *, fast_math: bool = False, device: str | Device | None = None
) -> Library:
    """The kernels of a Metal text, or of a file: a path, or a name that ends in `.metal`.

    add = iris.metal.library("add.metal").add
    add[cdiv(n, 256), 256](a, b, out)       # threadgroups, and threads in each
    add(a, b, out, threads=n)               # or threads, in threadgroups of a usual size

    Arguments go to buffers in the order of their indices, or by name.  Arrays are NumPy's or
    Buffers; numbers, tuples for vectors, structured scalars of NumPy, structures of ctypes and
    bytes go to what the kernel only reads.  `name=bytes` gives threadgroup memory its size.
    """
    on = select(device)
    if device is None and not isinstance(on, Metal):
        on = select("softmetal")
    if not isinstance(on, Metal):
        raise error_here(
            ArgumentError, f"the device {on.name!r} runs no Metal text; softmetal does"
        )
    text = _read(source)
    return Library(on, on.library(text, fast_math=fast_math), {})


def _read(source: str | Path) -> MetalText:
    if isinstance(source, Path) or (source.endswith(".metal") and "\n" not in source):
        try:
            return MetalText(Path(source).read_text(encoding="utf-8"), str(source))
        except (OSError, UnicodeDecodeError) as error:
            raise FileError(f"{source} cannot be read: {error}") from None
    file = f"<metal text {next(_NUMBERS)}>"
    # For errors to quote its lines.
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    return MetalText(source, file)


class Library:
    """Compiled kernels, as attributes, or by `library["name"]`."""

    def __init__(
        self, device: Metal, compiled: TextLibrary, values: Mapping[str, tuple[DataType, bytes]]
    ):
        self.device = device
        self._compiled, self._values = compiled, values
        self._kernels: dict[str, LibraryKernel] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all kernels."""
        return self._compiled.names

    def specialize(self, **constants: Any) -> Library:
        """The kernels with values of function constants."""
        values = dict(self._values)
        for name, value in constants.items():
            known = self._compiled.constants
            if name not in known:
                names = ", ".join(sorted(known)) or "none"
                raise error_here(
                    ArgumentError, f"there is no function constant {name!r}; there are: {names}"
                )
            values[name] = known[name], _packed(f"the function constant {name}", known[name], value)
        return Library(self.device, self._compiled, values)

    def __getitem__(self, name: str) -> LibraryKernel:
        if name not in self.names:
            raise error_here(
                ArgumentError, f"there is no kernel {name!r}; there are: {', '.join(self.names)}"
            )
        if name not in self._kernels:
            made = self.device.kernel(self._compiled, name, self._values)
            self._kernels[name] = LibraryKernel(self.device, made)
        return self._kernels[name]

    def __getattr__(self, name: str) -> LibraryKernel:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __dir__(self) -> Iterable[str]:
        return [*super().__dir__(), *self.names]

    def __repr__(self) -> str:
        return f"a Metal library of {', '.join(self.names)}"


class Shape(NamedTuple):
    """How a launch is divided: a grid of threadgroups or of threads, and a threadgroup."""

    grid: tuple[int, int, int]
    threads: tuple[int, int, int]
    grid_is_threads: bool


class LibraryKernel:
    """A kernel; see `iris.metal.library`."""

    def __init__(self, device: Metal, kernel: TextKernel):
        self._device, self._kernel = device, kernel
        self.name = kernel.name
        self._buffers = [one for one in kernel.bindings if one.kind == BUFFER]
        self._parameters = {one.name: one for one in kernel.bindings}
        for one in kernel.bindings:
            if one.kind not in (BUFFER, THREADGROUP_MEMORY):
                raise ArgumentError(f"{self.name} takes a texture or sampler, {one.name}")

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(map(str, self._kernel.bindings))})"

    def __getitem__(self, shape: tuple[Any, Any]) -> Callable[..., None]:
        if not isinstance(shape, tuple) or len(shape) != 2:
            raise self._undivided()
        divided = Shape(as_grid(shape[0], None), as_grid(shape[1], None), False)

        def launch(*arguments: Any, stream: Any = None, **named: Any) -> None:
            self._launch(divided, arguments, named, stream)

        return launch

    def __call__(
        self,
        *arguments: Any,
        threads: int | tuple[int, ...] | None = None,
        threadgroup: int | tuple[int, ...] | None = None,
        stream: Any = None,
        **named: Any,
    ) -> None:
        if threads is None:
            raise self._undivided()
        grid = as_grid(threads, None)
        most = self._kernel.most_threads
        axes = 3 if grid[2] > 1 else 2 if grid[1] > 1 else 1
        usual = _USUAL[axes] if most >= prod(_USUAL[axes]) else (most, 1, 1)
        per = usual if threadgroup is None else as_grid(threadgroup, None)
        self._launch(Shape(grid, per, True), arguments, named, stream)

    def _undivided(self) -> ArgumentError:
        return error_here(
            ArgumentError,
            f"a launch is {self.name}[grid, threadgroup](...), as {self.name}[(8, 4), 256], or "
            f"{self.name}(..., threads=...)",
        )

    def _launch(
        self, shape: Shape, arguments: Sequence[Any], named: Mapping[str, Any], stream: Any
    ) -> None:
        refuse_while_recording(f"{self.name} is launched")
        threads, most = prod(shape.threads), self._kernel.most_threads
        if not 1 <= threads <= most:
            raise error_here(
                OutOfResources,
                f"{self.name} runs with 1 to {most} threads a threadgroup: {threads}",
            )
        bound = self._bound(arguments, named)
        values, buffers, arrays = {}, {}, {}
        memory: dict[int, int] = {}
        for name, value in bound.items():
            one = self._parameters[name]
            if one.kind == THREADGROUP_MEMORY:
                memory[one.index] = self._threadgroup_bytes(one, value)
                continue
            found = self._array(one, value)
            if found is None:
                values[one.index] = self._value(one, value)
            elif isinstance(found, Buffer):
                buffers[name] = found.argument
            else:
                arrays[name] = found
        # Types were checked: the bytes are all that a device needs to know.
        placed = place(self._device, {name: _bytes(array) for name, array in arrays.items()})
        launch = self._made(shape, {**buffers, **placed}, values, memory)
        if not prod(shape.grid):
            return
        self._device.start(launch, stream, wait=bool(arrays))
        for name, array in arrays.items():
            if self._parameters[name].is_written:
                self._device.copy_out(placed[name], _bytes(array))

    def _made(
        self,
        shape: Shape,
        arrays: Mapping[str, ArrayArgument],
        values: Mapping[int, bytes],
        memory: Mapping[int, int],
    ) -> TextLaunch:
        blocks = {name: one.memory.block for name, one in arrays.items()}
        return TextLaunch(
            self._kernel,
            {self._parameters[n].index: (blocks[n], one.offset) for n, one in arrays.items()},
            values,
            memory,
            Size(*shape.grid),
            Size(*shape.threads),
            shape.grid_is_threads,
            tuple(blocks.values()),
            tuple([blocks[name] for name in arrays if self._parameters[name].is_written]),
            sum([block.size for block in blocks.values()]),
            frozenset([block.home for block in blocks.values() if block.home is not None]),
        )

    def _bound(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments by the names of parameters."""
        if len(arguments) > len(self._buffers):
            raise self._wrong(
                f"takes {len(self._buffers)} buffers and values, not {len(arguments)}"
            )
        bound = {one.name: value for one, value in zip(self._buffers, arguments, strict=False)}
        for name, value in named.items():
            if name not in self._parameters:
                raise self._wrong(f"has no parameter {name!r}")
            if name in bound:
                raise self._wrong(f"was given {name!r} twice")
            bound[name] = value
        for name, one in self._parameters.items():
            if one.is_used and bound.get(name) is None:
                raise self._wrong(f"needs {one}")
        return {name: value for name, value in bound.items() if value is not None}

    def _wrong(self, message: str) -> ArgumentError:
        takes = "\n    ".join(map(str, self._kernel.bindings))
        return error_here(ArgumentError, f"{self.name} {message}; it takes\n    {takes}")

    def _threadgroup_bytes(self, one: Binding, value: Any) -> int:
        is_number = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
        if not is_number or not 0 < value <= self._device.most_threadgroup:
            raise error_here(
                ArgumentError,
                f"{one} is given its size in bytes, at most {self._device.most_threadgroup}; "
                f"not {value!r}",
            )
        return -(-int(value) // 16) * 16

    def _array(self, one: Binding, value: Any) -> Buffer | Array | None:
        """An array or Buffer of a type that the kernel takes; None of what is none."""
        if isinstance(value, (int, float, np.generic, bytes, tuple, ctypes.Structure)):
            return None
        found = value if isinstance(value, Buffer) else shared_buffer(one.name, value, Borrowing())
        if found is None:
            return self._host_array(one, value)
        if found.device is not self._device:
            raise error_here(
                ArgumentError,
                f"{one.name} is a Buffer on the device {found.device.name!r}, and the library is "
                f"on {self._device.name!r}",
            )
        self._check_elements(one, found.nbytes, stored(found.dtype), str(found.dtype))
        if one.is_written:
            check_written(one.name, found)
        return found

    def _host_array(self, one: Binding, value: Any) -> Array | None:
        found = as_array(one.name, value)
        if found is None:
            return None
        if not found.flags.c_contiguous:
            raise error_here(
                ArgumentError,
                f"{one.name} is not contiguous: pass np.ascontiguousarray({one.name}), a copy, and "
                "copy it back if it is written",
            )
        self._check_elements(one, found.nbytes, found.dtype, found.dtype.name)
        if one.is_written:
            check_written(one.name, found)
        return found

    def _check_elements(self, one: Binding, size: int, dtype: np.dtype[Any], word: str) -> None:
        """Refuse an array of another type than the parameter's."""
        wanted = one.data_type.dtype
        is_of_it = word == str(wanted) or dtype_named(word) is wanted
        if wanted is not None and not is_of_it:
            raise error_here(DTypeError, f"{one} is of {one.data_type}, and the array of {word}")
        if dtype.fields and dtype.itemsize != one.size:
            raise error_here(
                DTypeError,
                f"{one} has elements of {one.size} bytes, and the array of {dtype.itemsize}: pad "
                "the dtype as Metal pads the struct",
            )
        if one.size and size % one.size:
            raise error_here(
                ArgumentError,
                f"{one} has elements of {one.size} bytes, and the array has {size} bytes, which is "
                "no whole number of them",
            )

    def _value(self, one: Binding, value: Any) -> bytes:
        if one.is_written:
            raise error_here(ArgumentError, f"{one} is written to: pass an array, not {value!r}")
        made = _packed(one.name, one.data_type, value, one.size)
        if (one.size and len(made) != one.size) or not 0 < len(made) <= MOST_BYTES:
            raise error_here(
                ArgumentError,
                f"{one} is of {one.size} bytes, and the value of {len(made)}; values are of at "
                f"most {MOST_BYTES} bytes",
            )
        return made


def _bytes(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)


def _packed(name: str, data_type: DataType, value: Any, size: int = 0) -> bytes:
    """A value as a kernel has it in memory; a vector of three may be as large as one of four."""
    if isinstance(value, np.void):
        return value.tobytes()
    if isinstance(value, (bytes, ctypes.Structure)):
        return bytes(value)
    dtype = data_type.dtype
    lanes = value if isinstance(value, tuple) else (value,)
    if dtype is None:
        raise error_here(
            ArgumentError,
            f"{name} is a struct: pass a structured scalar of NumPy, a structure of ctypes, or "
            f"bytes; not {value!r}",
        )
    if len(lanes) != data_type.lanes:
        raise error_here(ArgumentError, f"{name} is {data_type}, not {value!r}")
    made = b""
    for lane in lanes:
        number = lane.item() if isinstance(lane, np.generic) else lane
        kinds = bool if dtype is bool_ else (int, float) if dtype.is_float else int
        if not isinstance(number, kinds) or (isinstance(number, bool) and dtype is not bool_):
            raise error_here(DTypeError, f"{name} is {data_type}, not {value!r}")
        try:
            made += encode(number, dtype).to_bytes(dtype.bytes, "little")
        except OverflowError as error:
            raise error_here(RangeError, f"{name} is {data_type}: {error}") from None
    return made.ljust(size, b"\0")
