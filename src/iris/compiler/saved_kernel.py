"""Kernels from files: compiled once, launched without tracing or passes.

    softmax.lower(x, out, 300, BLOCK=512, grid=8).save("softmax.iris")

    softmax = iris.load_kernel("softmax.iris")
    softmax[8](x, out, 300)

Constexprs are part of the kernel.  Arrays must have the dtype and rank that they had, and all that
the compiler knew of them, such as which powers of two divide their sizes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

from iris.compiler import kernel_file
from iris.compiler.arguments import call
from iris.compiler.compilation import entry_of
from iris.compiler.kernel import Compiled, GridLike, as_grid, device_of, start
from iris.compiler.kernel_file import Spec
from iris.errors import ArgumentError
from iris.frontend.function import Parameter
from iris.frontend.specs import ArraySpec, ScalarSpec
from iris.frontend.tracing import error_here
from iris.ir import Module
from iris.ir.core import Level
from iris.runtime.device import Device


def load_kernel(file: str | PathLike[str]) -> SavedKernel:
    """A kernel that `Compilation.save` wrote.

    kernel = iris.load_kernel("softmax.iris")
    kernel[8](x, out, 300)
    """
    return SavedKernel(*kernel_file.read(Path(file)))


class SavedKernel:
    """A kernel from a file: `kernel[grid](*arguments)` launches it."""

    def __init__(self, module: Module, specs: Mapping[str, Spec]):
        self._module = module
        self._specs = specs
        self._compiled: dict[Device, Compiled] = {}
        # What sorts out the arguments of a launch asks for these.
        self.name = entry_of(module).symbol
        self.parameters = tuple([Parameter(name, False, inspect.Parameter.empty) for name in specs])
        self.names = self.variables = tuple(specs)
        self.constants: tuple[str, ...] = ()

    def __getitem__(self, grid: GridLike) -> Callable[..., None]:
        return partial(self._launch, grid)

    def _launch(
        self,
        grid: GridLike,
        /,
        *arguments: Any,
        device: str | Device | None = None,
        stream: Any = None,
        **named: Any,
    ) -> None:
        given = call(self, arguments, named)
        passed = given.passed
        for name, spec in self._specs.items():
            lacking = _lacking(spec, given.specs[name], passed[name])
            if lacking is not None:
                raise error_here(
                    ArgumentError,
                    f"the saved kernel {self.name} is for other arguments: {name} {lacking}",
                )
        on = device_of(device, given)
        compiled = self._compiled.get(on)
        if compiled is None:
            if on.accepts in (Level.GRAPH, Level.TILE):
                raise error_here(
                    ArgumentError,
                    f"the saved kernel {self.name} is Metal IR, and the device {on.name!r} runs "
                    f"{on.accepts.value.title()} IR; launch it with device='interp:metal'",
                )
            entry = entry_of(self._module)
            compiled = self._compiled[on] = Compiled.of(entry, self._module, on, ())
        start(compiled, on, as_grid(grid, given), given, stream, self._launch, grid)


def _lacking(needed: Spec, given: Spec, value: Any) -> str | None:
    """The property that a kernel was compiled for and an argument lacks, or None."""
    if isinstance(needed, ScalarSpec):
        if not isinstance(given, ScalarSpec) or given.type is not needed.type:
            return f"must be a number of {needed.type}"
        if needed.is_one and not given.is_one:
            return "must be 1"
        # A float is divided by nothing but 1.
        return _divisible(value, needed.divisor, "") if needed.divisor != 1 else None
    if not isinstance(given, ArraySpec):
        return f"must be an array of {needed.dtype}"
    if (given.dtype, given.rank) != (needed.dtype, needed.rank):
        return f"must have the dtype {needed.dtype} and {needed.rank} axes"
    if needed.noalias and not given.noalias:
        return "must share no memory with other arguments"
    if needed.aligned and not given.aligned:
        return "must start at a multiple of 16 bytes"
    if needed.rows_are_dense and not given.rows_are_dense:
        return "must have rows without gaps"
    pairs = enumerate(zip(given.divisors, needed.divisors, strict=True))
    whys = [_divisible(has, needs, f"axis {axis} of size ") for axis, (has, needs) in pairs]
    return next((why for why in whys if why is not None), None)


def _divisible(has: int, needs: int, what: str) -> str | None:
    return None if has % needs == 0 else f"must be {what}divisible by {needs}"
