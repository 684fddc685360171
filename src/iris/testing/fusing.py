"""The kernels that a graph becomes return what NumPy's own functions do."""

from __future__ import annotations

from functools import partial

import numpy as np

from iris.codegen.language import Language
from iris.compiler.compilation import target_of
from iris.compiler.graph_program import GraphProgram
from iris.compiler.pipelines import GRAPH_PIPELINE
from iris.errors import OutOfResources
from iris.interp.memory import memory_dtype
from iris.ir import Level
from iris.passes import Pipeline
from iris.passes.graph.graph_to_tile import GraphToTile
from iris.passes.graph.tiling.kernel_regions import is_scheduled
from iris.runtime.buffer import Buffer
from iris.runtime.device import Device
from iris.runtime.devices import select
from iris.targets.target import EXPANSION_ULPS, Accuracy, Target
from iris.testing.faults import Judge, Wrong, doing
from iris.testing.limit import unlimited
from iris.testing.numpy_graphs import Expected
from iris.testing.reduce import SECONDS
from iris.testing.report import check
from iris.tools.replay import Program, Values

EXPANDED = {name: Accuracy(ulps) for name, ulps in EXPANSION_ULPS.items()}


def fuses(
    program: Program,
    device: Device | str = "interp",
    *,
    pipeline: Pipeline = GRAPH_PIPELINE,
    target: Target | None = None,
    seconds: float = SECONDS,
) -> None:
    """Asserts that the kernels of a graph, launched one after the other, return what it returns.

        @given(programs.graph())
        def test_graphs(program):
            fuses(program)

    The kernels hand on memory as they do for users: what one writes, the next reads, and memory
    that nothing needs any more is used again.  They are compared with what NumPy returns, as in
    `matches_numpy`.  A pipeline makes the kernels; with an empty one they are made as users' are,
    for a target, or else for the device.  Those that have schedules stay as they are, and
    nothing is asserted of schedules that a device has no room for.  Functions such as `exp` are as
    exact as the device's target says, on an interpreter exact.
    """
    __tracebackhide__ = True
    given = is_scheduled(program.function)
    passes = Pipeline() if given else pipeline
    check(program, [passes], partial(_fuses, select(device), target, given), seconds=seconds)


def _fuses(device: Device, target: Target | None, given: bool, program: Program) -> Judge:
    """The oracle: a graph as kernels on a device; whether their schedules are given."""
    functions = device.target.ulps if isinstance(device.accepts, Language) else {}
    exact = {name: Accuracy(ulps) for name, ulps in functions.items()}
    expected = Expected.of(program, {**exact, **EXPANDED})

    def judge(made: Program, rest: Pipeline) -> None:
        """Only where kernels are wrong, and where a pass is looked for that may be guilty, the
        graph runs in the interpreter."""
        if rest.passes:
            _interpret(expected, made)
            return
        try:
            _launch(device, target, expected, made)
        except Wrong as wrong:
            if given and isinstance(wrong.error, OutOfResources):
                return
            _interpret(expected, made)
            raise

    return judge


def _interpret(expected: Expected, made: Program) -> None:
    with doing("made a graph that fails"):
        returned = made.run(made.make_arguments())
    with doing("changed what the graph returns"):
        expected.compare(returned)


def _launch(device: Device, target: Target | None, expected: Expected, made: Program) -> None:
    is_interpreted = device.accepts is Level.TILE
    part = GraphToTile.name if is_interpreted else f"{GraphToTile.name} or what follows it"
    with doing("the graph has no kernels", part=part):
        kernels = GraphProgram.of(made.module, target or target_of(device))
    with doing(f"the kernels fail on {device.name}", part=part):
        if isinstance(device.accepts, Language):
            with unlimited():  # a compiler may take long, and is not interrupted
                kernels.compiled(device)
        buffers = kernels.run(device, made.make_arguments())
        # Who changes one result does not change another.
        memories = {id(b.argument.memory) for b in buffers}
        assert len(memories) == len(buffers), "two results are in the same memory"
        returned = [values_of(b) for b in buffers]
    with doing(f"the kernels do otherwise on {device.name}", part=part):
        expected.compare(returned)


def values_of(buffer: Buffer) -> Values:
    """The elements of a Buffer, as the interpreter has them in memory."""
    values = np.empty(buffer.shape, memory_dtype(buffer.dtype))
    buffer.device.synchronize(buffer.argument.memory)
    buffer.device.copy_out(buffer.argument, values)
    return values
