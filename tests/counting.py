"""A device that counts what a profiler would, in kernels as they are lowered for a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from iris.compiler.kernel import Kernel
from iris.interp import metal
from iris.interp.metal import Counters
from iris.ir.core import Level
from iris.runtime.device import ArrayArgument, Grid, Program
from iris.runtime.interpreters import Interpreter


class Counting(Interpreter):
    name = "counting"
    accepts = Level.METAL

    def __init__(self) -> None:
        self.counters = Counters()

    def launch(
        self, program: Program, grid: Grid, arguments: Sequence[Any], stream: Any = None
    ) -> None:
        views = [self._view(a) if isinstance(a, ArrayArgument) else a for a in arguments]
        metal.run(program.entry, grid, views, counters=self.counters)


def count(
    kernel: Kernel | Callable[..., Any], grid: Any, *arguments: Any, **named: Any
) -> Counters:
    """What a launch does."""
    device = Counting()
    kernel[grid](*arguments, device=device, **named)  # type: ignore[index]
    return device.counters
