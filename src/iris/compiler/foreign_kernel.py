"""A kernel for another library: its queue orders and launches the kernel, on its own arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

from iris.codegen.source import Source
from iris.compiler.arguments import bind
from iris.compiler.fixed_parameters import FixedParameters
from iris.compiler.grids import GridLike, as_grid
from iris.errors import ArgumentError, DeviceError, DTypeError
from iris.frontend.specs import Spec
from iris.frontend.tracing import error_here
from iris.ir.control import Func
from iris.ir.types import DType, u32
from iris.runtime.buffer import NUMPY_NAMES, dtype_named
from iris.runtime.compiled_kernel import compiled_kernel
from iris.runtime.device import Grid

#: Of the name of a parameter and an argument: what a kernel may know of it, and the argument itself
#: or, with a shape, what stands for it.
Look = Callable[[str, Any], tuple[Spec, Any]]


class Bound(NamedTuple):
    """A launch: the arrays in the order of their buffers, and the bytes of the constants."""

    arrays: list[Any]
    constants: bytes
    threads: Grid


class ForeignKernel:
    """The text of a kernel, and how its arguments are bound."""

    def __init__(self, entry: Func, source: Source, specs: Mapping[str, Spec], grid: Grid):
        if source.report_buffer is not None:
            raise error_here(
                ArgumentError,
                f"the kernel {source.entry} asserts or prints, and only launches by Iris report "
                "what it says",
            )
        self.source = source
        self.parameters = FixedParameters(source.entry, specs)
        self._code = compiled_kernel(entry, source, None)
        self._grid = grid

    @property
    def arrays(self) -> list[str]:
        """The parameters that are arrays, in the order of their buffers."""
        return [self.parameters.names[i] for i in self._code.arrays]

    @property
    def written(self) -> list[str]:
        """The arrays that the kernel writes to."""
        return [self.arrays[i] for i in self._code.written]

    def bound(
        self,
        grid: GridLike | None,
        arguments: Sequence[Any],
        named: Mapping[str, Any],
        look: Look,
    ) -> Bound:
        """A launch with checked arguments; without a grid, on the one that it was lowered for."""
        passed = bind(self.parameters, arguments, named)
        seen = {name: look(name, value) for name, value in passed.items()}
        self.parameters.check({name: spec for name, (spec, _) in seen.items()}, passed)
        ordered = [seen[name][1] for name in self.parameters.names]
        programs = self._grid if grid is None else as_grid(grid, None)
        threads = programs[0] * self.source.threads
        if threads > u32.high:
            raise error_here(
                ArgumentError,
                f"{programs[0]} programs of {self.source.threads} threads are more than Metal "
                "numbers along an axis; use another axis of the grid, too",
            )
        return Bound(
            [ordered[i] for i in self._code.arrays],
            self._code.constants(ordered),
            (threads, *programs[1:]),
        )


def imported(module: str, package: str) -> Any:
    """A library that kernels are handed to, opened when that is asked for."""
    try:
        return import_module(module)
    except ImportError:
        raise DeviceError(f"{module} is not installed: pip install {package}") from None


def foreign_dtype(name: str, dtype: object) -> DType:
    """What an array's dtype is, such as `torch.float32`."""
    found = dtype_named(str(dtype).rpartition(".")[2])
    if found is None:
        raise error_here(
            DTypeError, f"{name} has the dtype {dtype}; arrays are of {', '.join(NUMPY_NAMES)}"
        )
    return found
