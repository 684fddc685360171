"""Random schedules of the kernels of a graph, and texts of them that are edited.

`edited` gives a text one of whose schedules somebody has changed: by a rule of its own it says
whether that can be right.  `check_edit` asks for an error that names the axis, or for kernels that
return the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from iris.compiler.compilation import entry_of
from iris.compiler.graph_program import GraphProgram
from iris.compiler.pipelines import GRAPH_PIPELINE
from iris.errors import OutOfResources, ParseError, PipelineError, VerifyError
from iris.ir import graph
from iris.ir.axis_schedule import MAX_SIMDGROUPS, AxisSchedule, Place, WrittenSchedule
from iris.ir.control import Func
from iris.passes import Pipeline, run
from iris.passes.graph.tiling.element_graph import ElementGraph
from iris.passes.graph.tiling.element_ref import CannotFuse
from iris.passes.graph.tiling.kernel_axes import axis_choices
from iris.passes.graph.tiling.kernel_schedule import KernelSchedule
from iris.passes.graph.tiling.tile_program import Part, build_tile_func
from iris.targets import DEFAULT
from iris.testing.choices import Choices
from iris.testing.fusing import fuses
from iris.tools.replay import Program

MOST_LANES = 512  # of a program, so that tiles fit
MOST_STEPS = 1024  # of all programs and their loops, so that a test takes no minutes
TRIES = 8

_SCHEDULE = re.compile(r"schedule=\[([^\]]*)\]")
_ENTRY = re.compile(r"(\w+): (\w+) (\d+) of (\d+)")


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


@dataclass(frozen=True)
class Edited:
    """The text of a program, one of whose schedules is changed."""

    text: str
    change: str
    names: frozenset[str]  # of the axes that are changed: an error names one of them
    is_wrong: bool  # whatever the kernel


def edited(text: str, choices: Choices) -> Edited | None:
    """Another text, if there is a schedule in it that has axes."""
    places = [found for found in _SCHEDULE.finditer(text) if _ENTRY.search(found[1])]
    if not places:
        return None
    place = choices.of(places)
    entries = place[1].split(", ")
    at = choices.of([i for i, entry in enumerate(entries) if _ENTRY.fullmatch(entry)])
    was = entries[at]
    entries[at : at + 1], names, is_wrong = _edit(was, entries, choices)
    schedule = ", ".join(entries)
    changed = f"{text[: place.start(1)]}{schedule}{text[place.end(1) :]}"
    return Edited(changed, f"[{place[1]}] to [{schedule}]", frozenset(names), is_wrong)


def _edit(entry: str, others: Sequence[str], choices: Choices) -> tuple[list[str], set[str], bool]:
    """What stands in place of the entry of an axis, which axes an error may name, and whether there
    must be one."""
    found = _ENTRY.fullmatch(entry)
    assert found is not None, "an entry is of an axis"
    axis, place, lanes, size = found[1], found[2], int(found[3]), int(found[4])
    match choices.below(11):
        case 0 | 1:
            other = choices.of((size + 1, 2 * size, max(size - 1, 2)))
            return [f"{axis}: {place} {lanes} of {other}"], {axis}, other != size
        case 2 | 3:
            other = choices.of((3 * lanes, 1 << size.bit_length(), 2 * lanes, 2 * lanes + 1))
            is_legal = other & (other - 1) == 0 and other < 2 * size
            return [f"{axis}: {place} {other} of {size}"], {axis}, not is_legal
        case 4 | 5 | 6:
            to = choices.of([one.value for one in Place if one.value != place])
            return [f"{axis}: {to} {lanes} of {size}"], {axis}, False
        case 7:
            names = [one.partition(":")[0] for one in others if _ENTRY.fullmatch(one)]
            name = choices.of(["rows", *names])
            return [f"{name}: {place} {lanes} of {size}"], {axis, name}, name != axis
        case 8:
            return [entry, entry], {axis}, True
        case 9:  # the other axes may be a valid choice, and the error may name any of them
            names = [one.partition(":")[0] for one in others if _ENTRY.fullmatch(one)]
            return [], {axis, *names}, False
        case _:
            count = choices.of((3, 2 * MAX_SIMDGROUPS, 0))
            return [f"{entry}, simdgroups: {count}"], {"simdgroups"}, True


def check_edit(program: Program, choices: Choices, *, seconds: float) -> None:
    """Assert that a program one of whose schedules is edited is refused by an error that names an
    axis, or that its kernels return what the graph does."""
    made = edited(str(program), choices)
    if made is None:
        return
    try:
        changed = Program.parse(made.text)
        for kernel in GraphProgram.of(changed.module, DEFAULT).kernels:
            run(kernel.module, "graph-to-tile")
    except OutOfResources:
        return
    except (ParseError, VerifyError, PipelineError) as error:
        assert any(re.search(rf"\b{name}\b", str(error)) for name in made.names), (
            f"the error names no axis that was changed, from {made.change}: {error}"
        )
        return
    assert not made.is_wrong, f"nothing is said of {made.change}:\n\n{made.text}"
    fuses(changed, seconds=seconds)
