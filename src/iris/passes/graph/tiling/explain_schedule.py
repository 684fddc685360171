"""Say which schedules were considered for a kernel, what each costs, and what ruled others out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from iris.ir.graph import Kernel
from iris.passes.graph.tiling.choose_schedule import considered
from iris.passes.graph.tiling.element_graph import ElementGraph
from iris.passes.graph.tiling.element_ref import CannotFuse
from iris.passes.graph.tiling.kernel_cost import cost_of
from iris.passes.graph.tiling.kernel_schedule import KernelSchedule
from iris.passes.graph.tiling.predict import has_dots, predicted
from iris.passes.graph.tiling.refine_schedule import SIMDGROUPS, neighbours
from iris.passes.graph.tiling.tile_program import elements_of, schedule_of
from iris.targets import Target


def explanation(kernel: Kernel, max_tile_bytes: int, target: Target) -> str:
    """A line for each schedule, the cheapest first; an arrow is before the one that it has.

    @softmax at scores.py:7 on apple-m1:
    -> 13.4 us, 64 programs: [i0: programs 1 of 64, i1: loop 1024 of 1000, simdgroups: 4]
    """
    where = f" at {kernel.location}" if kernel.location is not None else ""
    schedules, refused = considered_schedules(kernel, max_tile_bytes, target)
    notes = [*refused, *_how_it_adds(elements_of(kernel))]
    lines = [*map(str, schedules), *[f"   {note}" for note in notes]]
    return "\n".join([f"@{kernel.symbol}{where} on {target.name}:", *lines])


def _how_it_adds(elements: ElementGraph) -> Iterator[str]:
    """What becomes of updates that are added up."""
    for output in elements.outputs:
        if output.adds:
            order = "in any order, by atomics" if output.ref.element.is_float else "by atomics"
            if output.bins:
                yield f"programs add their updates up in threadgroup memory, in {output.bins} bins"
                order = f"the sums {order}"
            else:
                order = f"each update {order}"
            yield f"adds {order}"


class ConsideredSchedule(NamedTuple):
    """A schedule that was considered for a kernel, and what it costs."""

    schedule: str
    programs: int
    microseconds: float | None  # None if a core has no room for it
    reason: str  # what limits it, if that was found out
    is_chosen: bool

    def __str__(self) -> str:
        arrow = "->" if self.is_chosen else "  "
        spent = "no room" if self.microseconds is None else f"{self.microseconds:.1f} us"
        line = f"{arrow} {spent}, {self.programs} programs: [{self.schedule}]"
        return f"{line}\n     {self.reason}" if self.reason else line


def considered_schedules(
    kernel: Kernel, max_tile_bytes: int, target: Target
) -> tuple[list[ConsideredSchedule], list[str]]:
    """The schedules that were considered, the cheapest first, and what ruled others out."""
    own = schedule_of(kernel)
    found = list(considered(elements_of(kernel), max_tile_bytes, target))
    if own.simdgroups and has_dots(own):
        schedules = _schedules_of_blocks(own, target)
    else:
        of_axes = [s for s in found if isinstance(s, KernelSchedule)]
        schedules = _schedules_of_axes(own, of_axes, target)
    errors = dict.fromkeys([str(error) for error in found if isinstance(error, CannotFuse)])
    return list(schedules), [f"not with other axes: {error}" for error in errors]


def _schedules_of_axes(
    own: KernelSchedule, found: Iterable[KernelSchedule], target: Target
) -> Iterator[ConsideredSchedule]:
    """Each schedule that was considered."""
    schedules = {own.written.axes: own}
    for schedule in found:
        schedules.setdefault(schedule.written.axes, schedule)
    costs = {schedule: cost_of(schedule, target) for schedule in schedules.values()}
    for schedule, cost in sorted(costs.items(), key=lambda item: item[1].microseconds):
        text = str(schedule.written)
        yield ConsideredSchedule(text, cost.programs, cost.microseconds, "", schedule is own)


def _schedules_of_blocks(own: KernelSchedule, target: Target) -> Iterator[ConsideredSchedule]:
    """The blocks of a product, and others with each half or twice as long, or made by another
    number of simdgroups."""
    tried = [own, *neighbours(own)]
    tried += [own.with_blocks({}, n) for n in SIMDGROUPS if n != own.simdgroups]
    costs = {schedule: predicted(schedule, schedule.simdgroups, target) for schedule in tried}
    for schedule, cost in sorted(costs.items(), key=lambda item: item[1]):
        spent = cost.microseconds if cost.fits else None
        text = str(schedule.written)
        yield ConsideredSchedule(text, schedule.programs, spent, cost.reason, schedule is own)
