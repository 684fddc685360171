"""The kernels that a graph becomes return what NumPy's own functions do."""

from __future__ import annotations

from functools import partial

import numpy as np

from iris.compiler.compilation import GRAPH_PIPELINE
from iris.compiler.graph_program import GraphProgram
from iris.interp.memory import memory_dtype
from iris.ir import verify
from iris.passes import run as run_passes
from iris.passes.instruments import Check
from iris.runtime.buffer import Buffer
from iris.runtime.device import Device
from iris.runtime.devices import select
from iris.target import EXPANSION_ULPS, Accuracy
from iris.testing.faults import Judge, doing
from iris.testing.numpy_graphs import Expected
from iris.testing.reduce import SECONDS
from iris.testing.report import check
from iris.tools.replay import Program, Values

EXPANDED = {name: Accuracy(ulps) for name, ulps in EXPANSION_ULPS.items()}


def fuses(program: Program, device: Device | str = "interp", *, seconds: float = SECONDS) -> None:
    """Asserts that the kernels of a graph, launched one after the other, return what it returns.

        @given(programs.graph())
        def test_graphs(program):
            fuses(program)

    The kernels hand on memory as they do for users: what one writes, the next reads, and memory
    that nothing needs any more is used again.  They are compared with what NumPy returns, as in
    `matches_numpy`; the device must compute functions such as `exp` as the interpreter does.
    """
    __tracebackhide__ = True
    check(program, [], partial(_fuses, select(device)), seconds=seconds)


def _fuses(device: Device, program: Program) -> Judge:
    """The oracle: a graph as kernels on a device."""
    expected = Expected.of(program, EXPANDED)
    with doing("the graph has no kernels"):
        fused = GraphProgram(run_passes(program.module, GRAPH_PIPELINE, [Check(verify)]))
    arguments = program.make_arguments()
    with doing(f"the kernels fail on {device.name}"):
        returned = [_values(device, b) for b in fused.run(device, arguments)]
    with doing(f"the kernels do otherwise on {device.name}"):
        expected.compare(returned)
    return lambda made, rest: None


def _values(device: Device, buffer: Buffer) -> Values:
    """The elements of a Buffer, as the interpreter has them in memory."""
    values = np.empty(buffer.shape, memory_dtype(buffer.dtype))
    device.synchronize(buffer.argument.memory)
    device.copy_out(buffer.argument, values)
    return values
