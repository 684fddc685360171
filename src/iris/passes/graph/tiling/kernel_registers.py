"""Estimate how many registers a thread of a kernel needs."""

from __future__ import annotations

from collections.abc import Sequence
from operator import mul

from iris.ir.metal import SIMDGROUP_WIDTH, VECTOR
from iris.passes.graph.tiling.element_exprs import Alias, SplatExpr
from iris.passes.graph.tiling.element_graph import ElementGraph
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
    words = _words(schedule)
    return 0 if sum(words) <= room else max(0, _alive(schedule, words) - room)


def _most_words(elements: ElementGraph) -> int:
    """The most values of 32 bits that a thread holds of one tile."""
    return PER_THREAD_BYTES // 4 if elements.aggregates else VECTOR


def words_alive(schedule: KernelSchedule) -> int:
    """How many values of 32 bits a thread holds at once."""
    return _alive(schedule, _words(schedule))


def _lanes(schedule: KernelSchedule) -> list[int]:
    """The elements of each tile."""
    dependencies = schedule.elements.dependencies
    along = {axes: schedule.lanes_along(axes) for axes in {*dependencies.values()}}
    return [along[axes] for axes in dependencies.values()]


def _words(schedule: KernelSchedule) -> list[int]:
    """The values of 32 bits that a thread holds of each tile."""
    exprs, lanes = schedule.elements.exprs, _lanes(schedule)
    sizes = [ref.element.bytes for ref in exprs]
    largest = max(map(mul, lanes, sizes), default=0)
    threads = SIMDGROUP_WIDTH * simdgroups_for(largest)
    own = min(_most_words(schedule.elements), -(-max(lanes, default=0) // threads))
    return [
        0 if isinstance(expr, SplatExpr) else min(own, count) * -(-size // 4)
        for expr, count, size in zip(exprs.values(), lanes, sizes, strict=True)
    ]


def _alive(schedule: KernelSchedule, words: Sequence[int]) -> int:
    order = emission_order(schedule.elements, _lanes(schedule))
    return most_alive(schedule.elements, order, words)


def most_alive(elements: ElementGraph, order: Sequence[int], sizes: Sequence[int]) -> int:
    """The greatest sum of the sizes of elements that are alive at once: computed, and still to be
    used; the `order` has the last first."""
    operands, exprs = elements.operands, list(elements.exprs.values())
    used: set[int] = set()  # later
    alive = most = 0
    for n in order:
        if n >= len(exprs) or isinstance(exprs[n], Alias):
            continue
        for operand in operands[n]:
            if operand not in used:
                used.add(operand)
                alive += sizes[operand]
        most = max(most, alive)
        alive -= sizes[n] if n in used else 0
    return most
