"""Choose a schedule for a kernel.

A reduced or scanned axis becomes lanes if it is short, else a loop.  An output axis that a
reduction's result does not depend on stays within a program, too, so that the result is not
recomputed.  The other output axes are divided among programs: in blocks along one or two axes that
are contiguous in memory, or along the rows and columns of a matrix product.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from math import inf, prod

from iris.ir.core import Op, Value
from iris.ir.math import element_type
from iris.passes.graph.tiling.element_exprs import Aggregate, Contraction
from iris.passes.graph.tiling.element_graph import ElementGraph
from iris.passes.graph.tiling.element_ref import CannotFuse, ElementRef
from iris.passes.graph.tiling.index_expr import Axis
from iris.passes.graph.tiling.kernel_axes import axis_choices, merge_axes
from iris.passes.graph.tiling.kernel_cost import PROGRAMS_PER_CORE, cost_of
from iris.passes.graph.tiling.kernel_schedule import KernelSchedule, axes_size, tile_dimensions
from iris.passes.graph.tiling.tile_limits import LONG_ROW, MAX_TILE_BYTES, MAX_TILE_DIMENSIONS
from iris.targets import Target

# Elements of the largest tile of an elementwise program.
ELEMENTWISE_TILE = 1024
# Neighbours in memory that one access should cover.
LINE_ELEMENTS = 32
# Rows and columns of a block of a matrix product, and how many terms an iteration sums.
DOT_BLOCK = 64
DOT_DEPTH = 32
# The least rows of a block of a product whose columns are all in it, and the most terms of one that
# is computed within another one.
MIN_ROWS = 16
INNER_DEPTH = 128
# By what factor a tile of a whole long row must lessen what programs load.
LONG_ROW_GAIN = 1.1
# How often both sides of these tiles are halved where there are too few programs.
MOST_HALVINGS = 2


def cheapest_schedule(
    elements: ElementGraph, max_tile_bytes: int, target: Target
) -> KernelSchedule:
    """The schedule of a kernel that spills least, and of these the cheapest, with tiles of at most
    `max_tile_bytes`."""
    if not elements.outputs:
        return KernelSchedule(elements, {}, ())
    schedules = _schedules(elements, max_tile_bytes, target)
    if len(schedules) == 1:
        return schedules[0]

    # Of equal cost, that which has more programs, if too few, or loads less.
    def key(schedule: KernelSchedule) -> tuple[int, float, float, int]:
        cost = cost_of(schedule, target)
        programs = inf if cost.fills_cores else cost.programs
        return cost.spilled, cost.microseconds, -programs, cost.traffic

    return min(schedules, key=key)


def parts_that_pay(op: Op, target: Target, rereads: int = 0) -> int:
    """In how many parts to compute an op so that all cores are busy; 1 if that saves less than the
    further kernels take: one for the parts, and one for each time that all is read again."""
    wanted = PROGRAMS_PER_CORE * target.cores
    elements = ElementGraph.of(op.results, op.operands)
    if not elements.outputs:
        return 1
    try:
        costs = [cost_of(s, target) for s in _schedules(elements, MAX_TILE_BYTES, target)]
        own_axes = merge_axes(elements)
        smallest = _Choice(own_axes, MAX_TILE_BYTES, target, MOST_HALVINGS).schedule
    except CannotFuse:
        return 1
    if smallest.programs >= wanted:  # results are not too few
        return 1
    best = min(costs, key=lambda cost: cost.among(wanted).microseconds)
    each, dispatch = best.among(wanted).microseconds, target.dispatch_microseconds
    split = (1 + rereads) * each + dispatch
    pays = split < min([cost.microseconds for cost in costs])
    return -(-wanted // best.programs) if pays else 1


def _schedules(elements: ElementGraph, max_tile_bytes: int, target: Target) -> list[KernelSchedule]:
    """The schedules to choose from; at least one."""
    schedules: list[KernelSchedule] = []
    errors: list[CannotFuse] = []
    for found in considered(elements, max_tile_bytes, target):
        if isinstance(found, CannotFuse):
            errors.append(found)
        else:
            schedules.append(found)
    if not schedules:
        raise errors[0].again()  # the first itself would hold this frame, which holds it
    return schedules


def considered(
    elements: ElementGraph, max_tile_bytes: int, target: Target
) -> Iterator[KernelSchedule | CannotFuse]:
    """Yield the schedules that are considered for a kernel, and what rules others out.

    Where rows that do not fit tiles are read again, tiles of whole rows are considered, too, if all
    other schedules load clearly more: loops over rows have several programs on a core at a time.
    """
    reads_again = False
    loaded = []
    for choice, keeps in _choices_with_kept_axes(elements):
        try:
            for schedule in _by_tiles(choice, keeps, max_tile_bytes, target):
                cost = cost_of(schedule, target)
                reads_again = reads_again or cost.reloaded > 0
                loaded.append(cost.traffic)
                yield schedule
        except CannotFuse as error:
            yield error
    if reads_again and not elements.products:
        long = _Choice(next(_choices(elements)), LONG_ROW * max_tile_bytes, target).schedule
        if LONG_ROW_GAIN * cost_of(long, target).traffic < min(loaded):
            yield long


def _by_tiles(
    elements: ElementGraph, keeps: Collection[Axis], max_tile_bytes: int, target: Target
) -> Iterator[KernelSchedule]:
    """Yield a schedule, and ones with smaller tiles as long as programs are too few or spill.

    Products keep their blocks: with smaller ones each element is loaded more often.  Those that are
    made with a maximum may have fewer rows, of which a mask hides more.
    """
    keeps_blocks = any(expr.rescaling is None for _, expr, *_ in elements.products)
    for halvings in range(1 if keeps_blocks else MOST_HALVINGS + 1):
        schedule = _Choice(elements, max_tile_bytes, target, halvings, keeps).schedule
        yield schedule
        cost = cost_of(schedule, target)
        if cost.fills_cores and not cost.spilled:
            return


def _choices(elements: ElementGraph) -> Iterator[ElementGraph]:
    first, *others = axis_choices(elements)
    yield first
    # Reusing the columns of a product would keep all of them within a program.
    has_products = any(isinstance(e, Contraction) for e in elements.aggregates.values())
    yield from (other for other in others if has_products or other.online_axes)


def _choices_with_kept_axes(
    elements: ElementGraph,
) -> Iterator[tuple[ElementGraph, Collection[Axis]]]:
    """Yield the choices of axes, each with axes to keep in a program beside those that have to be:
    none, then those along which more is recomputed than there are elements."""
    for choice in _choices(elements):
        yield choice, ()
        if not choice.products:
            along = choice.computed_along.items()
            recomputed = [
                axis
                for axis in choice.long_output_axes
                if sum([n for axes, n in along if axis not in axes]) > axis.size
            ]
            if recomputed:
                yield choice, recomputed


class _Choice:
    """How many lanes each axis gets, and which output axes stay within a program."""

    def __init__(
        self,
        elements: ElementGraph,
        max_tile_bytes: int,
        target: Target,
        halvings: int = 0,
        keeps: Collection[Axis] = (),
    ):
        self.elements = elements
        self.halvings = halvings
        self.keeps = keeps
        self.products = elements.products
        self.aggregates = elements.aggregates
        self.output_axes = elements.long_output_axes
        widest = max(elements.bytes, default=1)
        self.max_elements = max_tile_bytes // max(4, widest)  # of a tile
        # Rows and columns of a tile that is transposed in threadgroup memory: two lines, if a core
        # has room for such tiles of several programs.
        tile_bytes = PROGRAMS_PER_CORE * widest * (2 * LINE_ELEMENTS) ** 2
        is_wide = halvings == 0 and tile_bytes <= target.core_threadgroup_bytes
        self.transposed_block = 2 * LINE_ELEMENTS if is_wide else LINE_ELEMENTS
        # The more updates a program collects, the fewer it adds to memory.
        collects = any(output.bins for output in elements.outputs)
        largest = self.max_elements if collects else min(ELEMENTWISE_TILE, self.max_elements)
        self.elementwise_tile = largest >> 2 * halvings
        self.dot_block = min(DOT_BLOCK >> halvings, 1 << (self.max_elements.bit_length() - 1) // 2)
        self.lanes: dict[Axis, int] = {}
        self.kept = [axis for axis in self.output_axes if self._stays_in_program(axis)]
        if self.products:
            self._split_products()
        else:
            self._split_rows()
        for ref, expr in reversed(self.aggregates.items()):
            self._split_aggregate(ref, expr)
        if sum(n > 1 for n in self.lanes.values()) > MAX_TILE_DIMENSIONS:
            for axes, others in elements.tiles:
                self._limit_dimensions(axes, others)

    @property
    def schedule(self) -> KernelSchedule:
        return KernelSchedule(self.elements, self.lanes, self.kept)

    def _stays_in_program(self, axis: Axis) -> bool:
        """Whether one program covers all of an output axis."""
        dependencies = self.elements.dependencies
        if any(axis in expr.over for expr in self.aggregates.values()):
            return True
        if any(axis in dependencies[ref] for ref, *_ in self.products):
            return False
        blocks = -(-axis.size // self.elementwise_tile)
        return axis in self.keeps or any(
            axis not in dependencies[ref] and blocks * axes_size(expr.over) > axis.size
            for ref, expr in self.aggregates.items()
        )

    def _split_products(self) -> None:
        """Split rows and columns into blocks."""
        for _, expr, rows, columns in reversed(self.products):
            if expr.rescaling is not None:
                self._split_online_product(rows, columns)
            for side in (rows, columns):
                split = [axis for axis in self.output_axes if axis in self.lanes]
                if len(split) < 2 and not any(axis in split for axis in side):
                    widest = max(reversed(side), key=lambda axis: axis.size)
                    self._split_axis(widest, self.dot_block)
            for axis in expr.over:
                self._split_axis(axis, DOT_DEPTH)

    def _split_online_product(self, rows: Sequence[Axis], columns: Sequence[Axis]) -> None:
        """Take all columns, for which the rows are computed once, and as many rows as then fit."""
        for axis in columns:
            self._split_axis(axis, self.max_elements // MIN_ROWS)
        widest = max(reversed(rows), key=lambda axis: axis.size)
        beside = prod([self.lanes[axis] for axis in columns])
        self._split_axis(widest, max(MIN_ROWS, min(self.dot_block, self.max_elements // beside)))

    def _split_rows(self) -> None:
        """Give lanes to the axes that stay in a program, and to others that make accesses wide."""
        contiguous = self._contiguous_axes()
        fastest, others = (contiguous[0], contiguous[1:]) if contiguous else (None, [])
        reduced = {axis for expr in self.aggregates.values() for axis in expr.over}
        free = [axis for axis in reversed(self.output_axes) if axis not in self.kept]
        across = [axis for axis in others if axis in free] if not reduced else []
        if fastest is not None and fastest in free:
            along = self.elements.dependencies
            is_reduced = any(fastest in along[ref] for ref in self.aggregates)
            most = (
                max(LINE_ELEMENTS, 2 * LINE_ELEMENTS >> self.halvings)
                if is_reduced or self.kept
                else self.transposed_block
                if across
                else self.elementwise_tile
            )
            self._split_axis(fastest, most)
        for axis in across[:1]:
            self._split_axis(axis, self.transposed_block)
        for axis in reversed(self.kept):
            self._split_axis(axis, self.max_elements // self._lane_count())
        inner = [_lanes_for(axes_size(e.over), self.max_elements) for e in self.aggregates.values()]
        taken = self._lane_count() if fastest in free else max(self._lane_count(), *inner, 1)
        # What reduces has one row with the smallest tiles: so there are most programs.
        is_smallest = bool(reduced) and self.halvings == MOST_HALVINGS
        left = 1 if is_smallest else self.elementwise_tile // taken
        for axis in sorted(free, key=self._elements_reused, reverse=True):
            if axis not in self.lanes and len(self.lanes) < 2:
                self._split_axis(axis, left)
                left //= self.lanes[axis]

    def _elements_reused(self, axis: Axis) -> int:
        """How many elements a program loads once for all that it computes along an axis."""
        dependencies, loads = self.elements.dependencies, self.elements.loads.items()
        return sum([_element_count(e.value) for ref, e in loads if axis not in dependencies[ref]])

    def _contiguous_axes(self) -> list[Axis]:
        """The axes that are contiguous in memory, the most accessed first."""
        weights: dict[Axis, int] = {}
        accessed = [(w.offset, _element_count(w.ref.value)) for w in self.elements.outputs]
        accessed += [(e.offset, _element_count(e.value)) for e in self.elements.loads.values()]
        for index, size in accessed:
            for atom, n in index.terms:
                if n == 1 and isinstance(atom, Axis):
                    weights[atom] = weights.get(atom, 0) + size
        return sorted(weights, key=lambda axis: -weights[axis])

    def _split_aggregate(self, ref: ElementRef, expr: Aggregate) -> None:
        """Give lanes to the reduced axes that no output has, within the space that is left."""
        if isinstance(expr, Contraction) and self._is_matrix(expr):
            for axis in expr.over:
                if axis not in self.lanes:
                    self._split_axis(axis, INNER_DEPTH)
            return
        beside = self.elements.dependencies[ref]
        lanes = [n for axis, n in self.lanes.items() if axis in beside and n > 1]
        left, dimensions = self.max_elements // prod(lanes), MAX_TILE_DIMENSIONS - len(lanes)
        for axis in reversed(expr.over):
            if axis not in self.lanes:
                self._split_axis(axis, left if dimensions else 1)
                left //= self.lanes[axis]
                dimensions -= self.lanes[axis] > 1

    def _is_matrix(self, expr: Contraction) -> bool:
        """Whether a product has lanes along rows and along columns."""
        a, b = (
            {axis for axis in self.elements.dependencies[ref] if self.lanes.get(axis, 1) > 1}
            for ref in expr.operands
        )
        return bool(a - b) and bool(b - a)

    def _limit_dimensions(self, axes: Collection[Axis], others: Collection[Axis]) -> None:
        """Drop lane axes until a tile of some axes has few enough dimensions.

        The `others` of these, such as reduced axes, are dropped first.
        """
        lanes = tile_dimensions(self.lanes, axes)
        lanes.sort(key=lambda axis: (axis in others, axis not in self.output_axes))
        for axis in lanes[MAX_TILE_DIMENSIONS:]:
            self.lanes[axis] = 1

    def _split_axis(self, axis: Axis, most: int) -> None:
        """Give an axis lanes for all of its elements if `most` allow it, else for a block."""
        whole = _lanes_for(axis.size, axis.size * 2)
        self.lanes[axis] = whole if whole <= most else max(1, min(most, self.elementwise_tile))

    def _lane_count(self) -> int:
        return prod(self.lanes.values())


def _lanes_for(size: int, most: int) -> int:
    """The least power of two that is not below a size, or `most`."""
    return min(1 << (size - 1).bit_length(), most)


def _element_count(value: Value) -> int:
    return prod(element_type(value.type).shape)
