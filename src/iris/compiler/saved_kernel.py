"""Kernels from files: compiled once, launched without tracing or passes.

    softmax.lower(x, out, 300, BLOCK=512, grid=8).save("softmax.iris")

    softmax = iris.load_kernel("softmax.iris")
    softmax[8](x, out, 300)

Constexprs are part of the kernel.  Arrays must have the dtype and rank that they had, and all that
the compiler knew of them, such as which powers of two divide their sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

from iris.compiler import kernel_file
from iris.compiler.arguments import call
from iris.compiler.compilation import entry_of
from iris.compiler.fixed_parameters import FixedParameters
from iris.compiler.grids import GridLike, as_grid
from iris.compiler.kernel import Compiled, device_of, start
from iris.errors import ArgumentError
from iris.frontend.specs import Spec
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
        self._compiled: dict[Device, Compiled] = {}
        self._parameters = FixedParameters(entry_of(module).symbol, specs)

    def __repr__(self) -> str:
        return f"the saved kernel {self._parameters.name}"

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
        given = call(self._parameters, arguments, named)
        self._parameters.check(given.specs, given.passed)
        on = device_of(device, given)
        compiled = self._compiled.get(on)
        if compiled is None:
            name = self._parameters.name
            if on.accepts in (Level.GRAPH, Level.TILE):
                raise error_here(
                    ArgumentError,
                    f"the saved kernel {name} is Metal IR, and the device {on.name!r} runs "
                    f"{on.accepts.value.title()} IR; launch it with device='interp:metal'",
                )
            entry = entry_of(self._module)
            compiled = self._compiled[on] = Compiled.of(entry, self._module, on, ())
        sizes = as_grid(grid, given)
        start(compiled, on, sizes, given, stream, self._launch, grid)
