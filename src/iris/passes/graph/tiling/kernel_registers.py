"""Estimate how many registers a thread of a kernel needs."""

from __future__ import annotations

from collections.abc import Mapping

from iris.ir.metal import SIMDGROUP_WIDTH, VECTOR
from iris.passes.graph.tiling.element_exprs import Alias, SplatExpr
from iris.passes.graph.tiling.element_graph import ElementGraph, refs_of
from iris.passes.graph.tiling.element_ref import ElementRef
from iris.passes.graph.tiling.emission_order import emission_order
from iris.passes.graph.tiling.kernel_schedule import KernelSchedule
from iris.passes.tile.layouts.choose_simdgroups import PER_THREAD_BYTES, simdgroups_for
from iris.targets import Target

# The part of a thread's registers that elements may fill.  The rest is for indices, for what has
# just been loaded, and for what later passes move to where more is alive.
PART = 0.5


def spilled(schedule: KernelSchedule, target: Target) -> int:
    """How many values of 32 bits a thread holds beyond those that its registers have room for.

    A thread computes vector by vector: of each tile it holds a vector at once, or all that it has
    of the tile where a reduction comes before the tile is used.
    """
    elements = schedule.elements
    room = int(PART * target.thread_registers)
    if _most_words(elements) * len(elements.exprs) <= room:
        return 0
    return max(0, words_alive(schedule) - room)


def _most_words(elements: ElementGraph) -> int:
    """The most values of 32 bits that a thread holds of one tile."""
    return PER_THREAD_BYTES // 4 if elements.aggregates else VECTOR


def words_alive(schedule: KernelSchedule) -> int:
    """How many values of 32 bits a thread holds at once."""
    elements = schedule.elements
    lanes = {r: schedule.lanes_along(axes) for r, axes in elements.dependencies.items()}
    largest = max([count * ref.element.bytes for ref, count in lanes.items()], default=0)
    threads = SIMDGROUP_WIDTH * simdgroups_for(largest)
    own = min(_most_words(elements), -(-max(lanes.values(), default=0) // threads))
    words = {
        ref: 0 if isinstance(expr, SplatExpr) else min(own, lanes[ref]) * -(-ref.element.bytes // 4)
        for ref, expr in elements.exprs.items()
    }
    order = emission_order(elements, lanes.__getitem__)
    return most_alive(elements, order, words)


def most_alive(
    elements: ElementGraph, order: Mapping[ElementRef, int], sizes: Mapping[ElementRef, int]
) -> int:
    """The greatest sum of the sizes of elements that are alive at once: computed, and still to be
    used."""
    exprs = elements.exprs
    computed = {time: ref for ref, time in order.items() if not isinstance(exprs[ref], Alias)}
    used: set[int] = set()  # later: when what is used there is computed
    alive = most = 0
    for time in sorted(computed, reverse=True):
        ref = computed[time]
        for operand in refs_of(ref, exprs[ref]):
            if order[operand] not in used:
                used.add(order[operand])
                alive += sizes[operand]
        most = max(most, alive)
        alive -= sizes[ref] if time in used else 0
    return most
