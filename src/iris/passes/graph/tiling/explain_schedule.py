"""Say which schedules were considered for a kernel, what each costs, and what ruled others out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from iris.ir.graph import Kernel
from iris.passes.graph.tiling.choose_schedule import considered
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
    return "\n".join(
        [f"@{kernel.symbol}{where} on {target.name}:", *_lines(kernel, max_tile_bytes, target)]
    )


def _lines(kernel: Kernel, max_tile_bytes: int, target: Target) -> Iterator[str]:
    own = schedule_of(kernel)
    found = list(considered(elements_of(kernel), max_tile_bytes, target))
    if own.simdgroups and has_dots(own):
        yield from _lines_of_blocks(own, target)
    else:
        yield from _lines_of_axes(own, [s for s in found if isinstance(s, KernelSchedule)], target)
    for error in found:
        if isinstance(error, CannotFuse):
            yield f"   not with other axes: {error}"


def _lines_of_axes(
    own: KernelSchedule, found: Iterable[KernelSchedule], target: Target
) -> Iterator[str]:
    """A line for each schedule that was considered."""
    schedules = {own.written.axes: own}
    for schedule in found:
        schedules.setdefault(schedule.written.axes, schedule)
    costs = {schedule: cost_of(schedule, target) for schedule in schedules.values()}
    for schedule, cost in sorted(costs.items(), key=lambda item: item[1].microseconds):
        arrow = "->" if schedule is own else "  "
        yield f"{arrow} {cost.microseconds:.1f} us, {cost.programs} programs: [{schedule.written}]"


def _lines_of_blocks(own: KernelSchedule, target: Target) -> Iterator[str]:
    """A line for the blocks of a product, and one for each half or twice as long, or made by
    another number of simdgroups."""
    tried = [own, *neighbours(own)]
    tried += [own.with_blocks({}, n) for n in SIMDGROUPS if n != own.simdgroups]
    costs = {schedule: predicted(schedule, schedule.simdgroups, target) for schedule in tried}
    for schedule, cost in sorted(costs.items(), key=lambda item: item[1]):
        arrow = "->" if schedule is own else "  "
        spent = f"{cost.microseconds:.1f} us" if cost.fits else "no room"
        yield f"{arrow} {spent}, {schedule.programs} programs: [{schedule.written}]"
        yield f"     {cost.reason}"
