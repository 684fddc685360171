"""Estimate how many registers a thread of a kernel needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from operator import mul

from iris.cost.occupancy import OTHER_REGISTERS
from iris.ir.metal import SIMDGROUP_WIDTH, VECTOR
from iris.passes.graph.tiling.element_exprs import Aggregate, Piecewise
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
    lanes = _lanes(schedule)
    threads = _threads(schedule, lanes, target)
    words = _words(schedule, lanes, threads)
    room = int(PART * target.thread_registers)
    if sum(_broadcast(schedule.elements, words)) <= room:
        return 0
    room_between = target.registers_among(threads) - OTHER_REGISTERS
    vectors, between = _alive(schedule, lanes, words)
    return max(0, vectors - room, between - room_between)


def vectors_held(target: Target) -> int:
    """How many vectors of 32-bit values a thread has registers for."""
    return int(PART * target.thread_registers) // VECTOR


def words_alive(schedule: KernelSchedule, target: Target) -> int:
    """How many values of 32 bits a thread holds at once."""
    lanes = _lanes(schedule)
    words = _words(schedule, lanes, _threads(schedule, lanes, target))
    return max(_alive(schedule, lanes, words))


def _threads(schedule: KernelSchedule, lanes: Sequence[int], target: Target) -> int:
    """How many threads run a program."""
    largest = max(map(mul, lanes, schedule.elements.bytes), default=0)
    return SIMDGROUP_WIDTH * simdgroups_for(largest, target)


def _lanes(schedule: KernelSchedule) -> list[int]:
    """The elements of each tile."""
    dependencies = schedule.elements.dependencies
    along = {axes: schedule.lanes_along(axes) for axes in {*dependencies.values()}}
    return [along[axes] for axes in dependencies.values()]


def _words(schedule: KernelSchedule, lanes: Sequence[int], threads: int) -> list[int]:
    """The values of 32 bits that a thread has of each tile."""
    both = zip(lanes, schedule.elements.words, strict=True)
    return [-(-count // threads) * words for count, words in both]


def _alive(schedule: KernelSchedule, lanes: Sequence[int], words: Sequence[int]) -> tuple[int, int]:
    """The most values of 32 bits that a thread holds at once: while it computes vector by vector,
    and from before a reduction until after it."""
    elements = schedule.elements
    order = emission_order(elements, lanes)
    most = PER_THREAD_BYTES // 4 if elements.aggregates else VECTOR
    vectors = [min(most, count) for count in _broadcast(elements, words)]
    return most_alive(elements, order, vectors), _most_held(elements, order, words)


def _broadcast(elements: ElementGraph, words: Sequence[int]) -> list[int]:
    """The sizes of elements, as broadcast where the index chooses one of several; constants take
    no register."""
    broadcast = [*words]
    for expr, operands, own in zip(elements.exprs.values(), elements.operands, words, strict=True):
        if isinstance(expr, Piecewise):
            for operand in operands:
                broadcast[operand] = max(broadcast[operand], own) if words[operand] else 0
    return broadcast


def _most_held(elements: ElementGraph, order: Sequence[int], sizes: Sequence[int]) -> int:
    """The greatest sum of the sizes of elements that are computed before a reduction, and used
    after it."""
    held = [sum([sizes[n] for n in alive]) for _, alive in at_aggregates(elements, order)]
    return max(held, default=0)


def at_aggregates(
    elements: ElementGraph, order: Sequence[int]
) -> Iterator[tuple[int, AbstractSet[int]]]:
    """Yield the reductions and products, the last first, each with the elements that are computed
    before it and used after it; these only until the next one is asked for."""
    if not elements.aggregates:
        return
    operands, exprs = elements.operands, list(elements.exprs.values())
    alive: set[int] = set()
    for n in order:
        alive.discard(n)
        if n < len(exprs) and isinstance(exprs[n], Aggregate):
            yield n, alive
        alive.update(operands[n] if n < len(exprs) else ())


def most_alive(elements: ElementGraph, order: Sequence[int], sizes: Sequence[int]) -> int:
    """The greatest sum of the sizes of elements that are alive at once: computed, and still to be
    used; the `order` has the last first."""
    operands = elements.operands
    used: set[int] = set()  # later
    alive = most = 0
    for n in order:
        if n >= len(operands):
            continue
        for operand in operands[n]:
            if operand not in used:
                used.add(operand)
                alive += sizes[operand]
        most = max(most, alive)
        alive -= sizes[n] if n in used else 0
    return most
