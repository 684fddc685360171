"""Refine the schedule of a kernel: the blocks of its matrix products, and how many simdgroups run a
program.

`fuse` compares many possible kernels, each with blocks that suit most products.  Of the kernels
that are taken, the schedule is then improved step by step: while half or twice as many rows,
columns or terms in a block cost less, with the number of simdgroups that suits them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from operator import itemgetter

from iris.ir.core import Value
from iris.ir.metal import FRAGMENT_SIZE, SIMDGROUP_WIDTH, VECTOR_BYTES
from iris.passes.graph.tiling.element_exprs import Contraction, LoadExpr
from iris.passes.graph.tiling.element_ref import CannotFuse
from iris.passes.graph.tiling.index_expr import Axis
from iris.passes.graph.tiling.kernel_cost import loops_of, tensor_bytes
from iris.passes.graph.tiling.kernel_schedule import KernelSchedule, axes_size
from iris.passes.graph.tiling.predict import Prediction, has_dots, predicted
from iris.passes.graph.tiling.tile_limits import MAX_TILE_BYTES
from iris.passes.tile.layouts.choose_simdgroups import simdgroups_for
from iris.targets import Target

# The bounds of a block of a product: rows and columns; terms of an iteration, which fewer make
# more barriers of than the model knows a price for.
LEAST_SIDE, MOST_SIDE = 16, 256
LEAST_DEPTH, MOST_DEPTH = 16, 64
SIMDGROUPS = (1, 2, 4, 8, 16)
# The part of a core's registers that a block of results may take.
BLOCK_PART = 1 / 2
# How many simdgroups of programs with loops a core should have.
SIMDGROUPS_OF_CORE = 32


def refined(schedule: KernelSchedule, max_tile_bytes: int, target: Target) -> KernelSchedule:
    """The schedule, or a cheaper one with other blocks; it says how many simdgroups there are."""
    if not has_dots(schedule):
        return schedule.with_blocks({}, usual_simdgroups(schedule, target))
    best, cost = _by_best_simdgroups(schedule, target)
    seen = {best.written.axes}
    most = BLOCK_PART * target.core.register_bytes * max_tile_bytes / MAX_TILE_BYTES
    while True:
        steps = [s for s in neighbours(best) if s.written.axes not in seen]
        steps = [s for s in steps if _largest(s) <= max(_largest(best), most)]
        seen.update([s.written.axes for s in steps])
        found = [_by_best_simdgroups(s, target) for s in steps]
        step, step_cost = min(found, key=itemgetter(1), default=(best, cost))
        if step_cost >= cost:
            usual = usual_simdgroups(schedule, target)
            return best if cost.fits else schedule.with_blocks({}, usual)
        best, cost = step, step_cost


def _by_best_simdgroups(
    schedule: KernelSchedule, target: Target
) -> tuple[KernelSchedule, Prediction]:
    """The number of simdgroups that is cheapest for some blocks, and what that costs."""
    costs = [(n, predicted(schedule, n, target)) for n in SIMDGROUPS]
    count, cost = min(costs, key=itemgetter(1))
    return schedule.with_blocks({}, count), cost


def _largest(schedule: KernelSchedule) -> int:
    """The bytes of the largest block of results of a product."""
    along = schedule.elements.dependencies
    return max([4 * schedule.lanes_along(along[p.ref]) for p in schedule.elements.products])


def neighbours(schedule: KernelSchedule) -> Iterator[KernelSchedule]:
    """The schedules whose products have half or twice as many rows, columns or terms in a block."""
    products = schedule.elements.products
    sides = [axis for p in products for axis in (*p.rows, *p.columns)]
    terms = [axis for p in products for axis in p.expr.over]
    groups: list[tuple[Collection[Axis], int, int]] = [
        *[((axis,), LEAST_SIDE, MOST_SIDE) for axis in dict.fromkeys(sides)],
        (dict.fromkeys(terms), LEAST_DEPTH, MOST_DEPTH),
    ]
    for axes, least, most in groups:
        for halve in (False, True):
            lanes = {axis: _step(schedule.lanes.get(axis, 1), halve) for axis in axes}
            if _is_within(lanes, least, most):
                try:
                    yield schedule.with_blocks(lanes, schedule.simdgroups)
                except CannotFuse:
                    continue


def _step(lanes: int, halve: bool) -> int:
    return lanes if lanes == 1 else lanes // 2 if halve else lanes * 2


def _is_within(lanes: Mapping[Axis, int], least: int, most: int) -> bool:
    """Whether blocks are of a length that is tried, and no longer than their axes need."""
    return any(n > 1 for n in lanes.values()) and all(
        n == 1 or (least <= n <= most and n < 2 * axis.size) for axis, n in lanes.items()
    )


def _kept_programs(schedule: KernelSchedule, target: Target) -> int:
    """How many programs of a core may run at a time for the cache to keep what they load again."""
    elements, loops = schedule.elements, loops_of(schedule)
    loaded: Counter[Value] = Counter()
    for ref, expr in elements.exprs.items():
        if isinstance(expr, LoadExpr):
            size = axes_size(elements.dependencies[ref]) * ref.element.bytes
            loaded[expr.value] += loops.get(ref, 1) * size
    again = sum([max(0, n - tensor_bytes(value)) for value, n in loaded.items()])
    kept = target.cache_bytes * schedule.programs // (target.cores * max(1, again))
    return max(1, kept)


def _is_enough(simdgroups: int, largest: int, programs: int, target: Target) -> bool:
    """Whether some simdgroups suffice for a program that reduces: its largest tile, in bytes, is
    not too large for their threads, and there are enough programs for all cores."""
    room = simdgroups * SIMDGROUP_WIDTH * target.core.reduced_bytes
    return largest <= room and programs * simdgroups >= target.cores * SIMDGROUPS_OF_CORE


def _may_spill_half(schedule: KernelSchedule, largest: int, target: Target) -> bool:
    """Whether a core has registers for one program alone, and for two if half of the largest tile,
    in bytes, is in threadgroup memory (`spill-to-threadgroup`); and loads as much only once, in
    vectors."""
    along, lanes = schedule.elements.dependencies, schedule.lanes
    # What is computed needs about as many registers as the tile.
    is_alone = 4 * largest > target.core.register_bytes >= 2 * largest
    has_room = largest <= min(target.core_threadgroup_bytes, 2 * target.threadgroup_bytes)
    rows = [
        axes_size([axis for axis in along[ref] if lanes.get(axis, 1) > 1]) * ref.element.bytes
        for ref in schedule.elements.loads
        if max(4, ref.element.bytes) * schedule.lanes_along(along[ref]) == largest
    ]
    return is_alone and has_room and len(rows) == 1 and rows[0] % VECTOR_BYTES == 0


def usual_simdgroups(schedule: KernelSchedule, target: Target) -> int:
    """As many simdgroups as the largest tile of a program keeps busy, as long as none of them
    computes a part of a product that another one has.

    Where a core has few programs, nothing else runs while one waits for the next block of a loop.
    Such a program has more simdgroups, as long as each thread has a vector.  So has one that loads
    again what the cache keeps of few programs alone.  Where a core has many programs, one that
    reduces has fewer: they wait for each other to combine what each of them reduced.  So has one
    that can share a core only with half of its tile in threadgroup memory.
    """
    elements, along = schedule.elements, schedule.elements.dependencies
    # Indices have four bytes.
    tiles = [schedule.lanes_along(axes) * max(4, r.element.bytes) for r, axes in along.items()]
    largest = max(tiles, default=0)
    count = simdgroups_for(largest, target)
    is_enough = _is_enough(count // 2, largest, schedule.programs, target)
    shares = schedule.programs > target.cores and _may_spill_half(schedule, largest, target)
    if elements.aggregates and (is_enough or shares):
        count //= 2
    of_core = min(max(1, -(-schedule.programs // target.cores)), _kept_programs(schedule, target))
    if any(schedule.is_looped(axis) for axis in elements.axes):
        most = min(SIMDGROUPS_OF_CORE // of_core, largest // (SIMDGROUP_WIDTH * VECTOR_BYTES))
        while 2 * count <= most:
            count *= 2
    for _, expr, rows, columns in elements.products:
        parts = schedule.lanes_along(rows) // FRAGMENT_SIZE
        if expr.rescaling is None:
            parts *= schedule.lanes_along(columns) // FRAGMENT_SIZE
        if isinstance(expr, Contraction) and parts:
            count = min(count, parts)
    return count
