"""Say which schedules were considered for a kernel, what each costs, and what ruled others out."""

from __future__ import annotations

from collections.abc import Iterator

from iris.ir.graph import Kernel
from iris.passes.graph.tiling.choose_schedule import considered
from iris.passes.graph.tiling.element_ref import CannotFuse
from iris.passes.graph.tiling.kernel_cost import cost_of
from iris.passes.graph.tiling.kernel_schedule import KernelSchedule
from iris.passes.graph.tiling.tile_program import elements_of, schedule_of
from iris.targets import Target


def explanation(kernel: Kernel, max_tile_bytes: int, target: Target) -> str:
    """A line for each schedule, the cheapest first; an arrow is before the one that it has.

    @softmax at scores.py:7 on apple-m1:
    -> 13.4 us, 64 programs: [i0: programs 1 of 64, i1: loop 1024 of 1000]
    """
    where = f" at {kernel.location}" if kernel.location is not None else ""
    return "\n".join(
        [f"@{kernel.symbol}{where} on {target.name}:", *_lines(kernel, max_tile_bytes, target)]
    )


def _lines(kernel: Kernel, max_tile_bytes: int, target: Target) -> Iterator[str]:
    own = schedule_of(kernel)
    schedules: dict[object, KernelSchedule] = {own.written: own}
    refused: list[CannotFuse] = []
    for found in considered(elements_of(kernel), max_tile_bytes, target):
        if isinstance(found, CannotFuse):
            refused.append(found)
        else:
            schedules.setdefault(found.written, found)
    costs = {schedule: cost_of(schedule, target) for schedule in schedules.values()}
    for schedule, cost in sorted(costs.items(), key=lambda item: item[1].microseconds):
        arrow = "->" if schedule is own else "  "
        yield f"{arrow} {cost.microseconds:.1f} us, {cost.programs} programs: [{schedule.written}]"
    for error in refused:
        yield f"   not with other axes: {error}"
