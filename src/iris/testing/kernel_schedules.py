"""Random schedules of the kernels of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from iris.compiler.compilation import entry_of
from iris.compiler.pipelines import GRAPH_PIPELINE
from iris.ir import graph
from iris.ir.axis_schedule import AxisSchedule, Place, WrittenSchedule
from iris.ir.control import Func
from iris.passes import Pipeline, run
from iris.passes.graph.tiling.element_graph import ElementGraph
from iris.passes.graph.tiling.element_ref import CannotFuse
from iris.passes.graph.tiling.kernel_axes import axis_choices
from iris.passes.graph.tiling.kernel_schedule import KernelSchedule
from iris.passes.graph.tiling.tile_program import Part, build_tile_func
from iris.testing.choices import Choices
from iris.tools.replay import Program

MOST_LANES = 512  # of a program, so that tiles fit
MOST_STEPS = 1024  # of all programs and their loops, so that a test takes no minutes
TRIES = 8


def scheduled(program: Program, choices: Choices, pipeline: Pipeline = GRAPH_PIPELINE) -> Program:
    """A graph in kernels, as a pipeline makes them, each with a random schedule that programs can
    follow.

    @given(programs.graph(), st.binary(min_size=32, max_size=32))
    def test_schedules(program, data):
        fuses(scheduled(program, Choices(data)))
    """
    module = run(program.module, pipeline)
    function = entry_of(module)
    for launch in graph.launches_in(function.body):
        simdgroups = choices.of((0, 1, 4))
        for op in launch.kernels:
            schedule = _legal(op, function, choices)
            op.set_attribute("schedule", replace(schedule, simdgroups=simdgroups))
    return program.with_module(module)


def _legal(kernel: graph.Kernel, function: Func, choices: Choices) -> WrittenSchedule:
    """Another schedule for a kernel, or its own if some tries were none that can be followed."""
    elements = ElementGraph.of(kernel.written, kernel.inputs)
    alternatives = list(axis_choices(elements))
    online = [axes for axes in alternatives if axes.online_axes]
    for _ in range(TRIES):
        axes = choices.of([*alternatives, alternatives[-1], *online, *online])
        written = random_schedule(axes, choices)
        try:
            schedule = KernelSchedule.read(elements, written)
            if prod(map(schedule.blocks, schedule.elements.axes)) <= MOST_STEPS:
                build_tile_func([Part(schedule.plan(), kernel.written)], kernel.inputs, function)
                return written
        except CannotFuse:
            continue
    assert kernel.schedule is not None, "the pipeline gives each kernel a schedule"
    return kernel.schedule


def random_schedule(elements: ElementGraph, choices: Choices) -> WrittenSchedule:
    """Any blocks for the axes of a kernel; axes that are aggregated are loops, but for some, which
    programs cannot divide among them."""
    aggregated = {axis for e in elements.aggregates.values() for axis in e.over}
    left = MOST_LANES
    axes = []
    for axis in elements.axes:
        blocks = _blocks(axis.size, left)
        lanes = choices.of([blocks[-1], *blocks])
        left //= lanes
        is_loop = not choices.flag(3) if axis in aggregated else choices.flag()
        place = Place.LOOP if is_loop else Place.PROGRAMS
        if axis in elements.online_axes:
            place = Place.ONLINE
        axes.append(AxisSchedule(axis.name, place, lanes, axis.size))
    return WrittenSchedule(tuple(axes))


def _blocks(size: int, most: int) -> Sequence[int]:
    """The lengths that a block may have."""
    whole = 1 << (size - 1).bit_length()
    return [1 << n for n in range(min(whole, most).bit_length())]
