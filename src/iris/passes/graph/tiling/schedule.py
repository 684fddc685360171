"""Divide the axes of a kernel among programs, loops and lanes.

Axes that always occur together are merged.  A reduced or scanned axis stays within a program: as
lanes if it is short, else as a loop.  An output axis that a reduction's result does not depend on
stays there, too, so that the result is not recomputed.  The other output axes are divided among
programs: in blocks along one or two axes that are contiguous in memory, or along the rows and
columns of a matrix product.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import pairwise, product
from math import prod

from iris.ir.core import Value
from iris.ir.math import element_type
from iris.passes.graph.tiling.element_exprs import (
    Aggregate,
    Contraction,
    LoadExpr,
    ReduceExpr,
    Substitution,
)
from iris.passes.graph.tiling.element_graph import ElementGraph
from iris.passes.graph.tiling.element_ref import CannotFuse, ElementRef, Within, row_major_offset
from iris.passes.graph.tiling.index_expr import Axis, IndexExpr
from iris.passes.graph.tiling.plan import MAX_TILE_DIMENSIONS, AxisBlock, Plan

# Elements of the largest tile of an elementwise program.
ELEMENTWISE_TILE = 1024
# Neighbours in memory that one access should cover.
LINE_ELEMENTS = 32
# Rows and columns of a block of a matrix product, and how many terms an iteration sums.
DOT_BLOCK = 64
DOT_DEPTH = 32
SUM_ORDERS_DIFFER = "two consumers would sum it in different orders, and could round differently"


def schedule_candidates(elements: ElementGraph) -> Iterator[ElementGraph]:
    """Yield the element graphs to schedule: with and without output axes that reductions reuse."""
    _check_products(elements)
    reused = reuse_output_axes(elements)
    yield merge_axes(reused)
    # Reusing the columns of a product would keep all of them within a program.
    if reused is not elements and any(isinstance(e, Contraction) for e in elements.exprs.values()):
        yield merge_axes(elements)


def _check_products(elements: ElementGraph) -> None:
    """Refuse a matrix product that each block of another one would recompute."""
    inner: set[ElementRef] = set()
    for ref, expr in reversed(elements.exprs.items()):
        if ref in inner and isinstance(expr, Contraction):
            raise CannotFuse("a matrix product would be recomputed within another one")
        if ref in inner or isinstance(expr, Contraction):
            inner.update(expr.refs)


# Equal axes, and axes to merge.


def reuse_output_axes(elements: ElementGraph) -> ElementGraph:
    """Let a reduction reuse an output axis when the elements that it reads are also written.

    An example is `x / sum(x)`.
    """
    reductions = [e for e in elements.exprs.values() if isinstance(e, ReduceExpr)]
    computed = [r for r, e in elements.exprs.items() if isinstance(e, LoadExpr | Aggregate)]
    outermost = {*elements.reduction_axes.get(frozenset(), ())}
    replacements: dict[Axis, IndexExpr] = {}
    for over in dict.fromkeys(e.over for e in reductions if outermost.issuperset(e.over)):
        new = {axis for axis in over if axis not in replacements}
        read_beside = [r for e in reductions if not new.isdisjoint(e.over) for r in e.refs]
        needed: set[Axis] = set().union(*(elements.dependencies[r] for r in read_beside))
        taken = needed.union(*(index.atoms() for index in replacements.values()))
        free = {axis for axis in elements.output_axes if axis not in taken}
        over_new = [r for r in computed if not elements.dependencies[r].isdisjoint(new)]
        for ref, other in product(over_new, computed):
            pairs = _match_axes_by_stride(ref, other, new, free) if ref.value is other.value else {}
            if pairs and Substitution(replacements | pairs).ref(ref) in elements.exprs:
                replacements |= pairs
                break
    return elements.substituted(replacements) if replacements else elements


def _match_axes_by_stride(
    ref: ElementRef, other: ElementRef, axes: Collection[Axis], free: Collection[Axis]
) -> dict[Axis, IndexExpr]:
    """Pair each reduced axis with a free axis of equal size and stride; {} if one has none."""
    free_by_stride = {
        stride: atom for atom, stride in row_major_offset(other).terms if atom in free
    }
    pairs: dict[Axis, IndexExpr] = {}
    for atom, stride in row_major_offset(ref).terms:
        if isinstance(atom, Axis) and atom in axes:
            partner = free_by_stride.get(stride)
            if not isinstance(partner, Axis) or partner.size != atom.size:
                return {}
            pairs[atom] = IndexExpr.of(partner)
    return pairs if pairs.keys() == {*axes} else {}


def merge_axes(elements: ElementGraph) -> ElementGraph:
    """Merge adjacent axes wherever every index expression allows it."""
    index_exprs = list(dict.fromkeys(_index_exprs(elements)))
    combined = [e.over for e in elements.exprs.values() if isinstance(e, Aggregate)]

    def joins(a: Axis, b: Axis) -> bool:
        return all((a in over) is (b in over) for over in combined) and all(
            _coefficient(a, i) == b.size * _coefficient(b, i) for i in index_exprs
        )

    groups: list[list[Axis]] = []
    for axes in _adjacent_axes(elements):
        groups.append([axes[0]])
        for a, b in pairwise(axes):
            if joins(a, b):
                groups[-1].append(b)
            else:
                groups.append([b])
    replacements: dict[Axis, IndexExpr] = {}
    for group in groups:
        if len(group) > 1:
            size = 1
            for axis in group:
                size *= axis.size
            joined = IndexExpr.of(Axis("".join(axis.name for axis in group), size))
            for axis in reversed(group):
                replacements[axis] = joined % axis.size
                joined = joined // axis.size
    return elements.substituted(replacements) if replacements else elements


def _adjacent_axes(elements: ElementGraph) -> Iterator[list[Axis]]:
    """Yield the axes of the outputs, then those of each reduction or scan, each axis once."""
    seen: set[Axis] = set()
    runs = [
        elements.output_axes,
        *(e.over for e in elements.exprs.values() if isinstance(e, Aggregate)),
    ]
    for run in runs:
        new = [axis for axis in run if axis not in seen]
        seen.update(new)
        if new:
            yield new


def _index_exprs(elements: ElementGraph) -> Iterator[IndexExpr]:
    """Yield the index expressions that the kernel computes, and their subexpressions."""
    for output in elements.outputs:
        yield from output.offset.subexprs()
    for expr in elements.exprs.values():
        for index in expr.index_exprs():
            yield from index.subexprs()


def _coefficient(axis: Axis, index: IndexExpr) -> int:
    return next((n for atom, n in index.terms if atom is axis), 0)


# The schedule.


class Schedule:
    """How many lanes each axis has, and which output axes stay within a program."""

    def __init__(self, elements: ElementGraph, max_tile_bytes: int):
        self.elements = elements
        widest = max([r.element.bytes for r in elements.exprs], default=1)
        self.max_elements = max_tile_bytes // max(4, widest)  # of a tile
        self.elementwise_tile = min(ELEMENTWISE_TILE, self.max_elements)
        self.dot_block = min(DOT_BLOCK, 1 << (self.max_elements.bit_length() - 1) // 2)
        # Those with more than one element.
        self.output_axes = [axis for axis in elements.output_axes if axis.size > 1]
        self.aggregates = {r: e for r, e in elements.exprs.items() if isinstance(e, Aggregate)}
        self.lanes: dict[Axis, int] = {}
        self.products = [
            (r, e, *sides)
            for r, e in self.aggregates.items()
            if (sides := self._row_and_column_axes(e)) is not None
        ]
        self.kept = [axis for axis in self.output_axes if self._stays_in_program(axis)]
        self._check_sum_orders()
        if self.products:
            self._split_products()
        else:
            self._split_rows()
        for ref, expr in reversed(self.aggregates.items()):
            self._split_aggregate(ref, expr)
        if sum(n > 1 for n in self.lanes.values()) > MAX_TILE_DIMENSIONS:
            for needed, needed_expr in elements.exprs.items():
                over = needed_expr.over if isinstance(needed_expr, Aggregate) else ()
                self._limit_dimensions([needed, *needed_expr.refs], over)
            for output in elements.outputs:
                self._limit_dimensions([output.ref], elements.output_axes)

    def blocks(self, axis: Axis) -> int:
        """The number of blocks along an axis."""
        return -(-axis.size // self.lanes.get(axis, 1))

    @property
    def programs(self) -> int:
        """The number of programs."""
        return prod(
            [self.blocks(axis) for axis in self.elements.output_axes if axis not in self.kept]
        )

    def evaluations(self, axes: Collection[Axis]) -> int:
        """How many elements all programs compute of a value that differs along some axes.

        An element counts once for each program that computes it.
        """
        others = [a for a in self.elements.output_axes if a not in self.kept and a not in axes]
        return _axes_size(axes) * prod([self.blocks(axis) for axis in others])

    def _row_and_column_axes(self, expr: Aggregate) -> tuple[list[Axis], list[Axis]] | None:
        """The output axes that are rows of a matrix product, and those that are its columns."""
        if not isinstance(expr, Contraction):
            return None
        a, b = (self.elements.dependencies[r] for r in expr.refs)
        rows = [axis for axis in self.output_axes if axis in a and axis not in b]
        columns = [axis for axis in self.output_axes if axis in b and axis not in a]
        return (rows, columns) if rows and columns else None

    def _is_aggregated(self, axis: Axis) -> bool:
        return any(axis in expr.over for expr in self.aggregates.values())

    def _stays_in_program(self, axis: Axis) -> bool:
        """Whether one program covers all of an output axis."""
        dependencies = self.elements.dependencies
        if self._is_aggregated(axis):
            return True
        if any(axis in dependencies[ref] for ref, *_ in self.products):
            return False
        blocks = -(-axis.size // self.elementwise_tile)
        return any(
            axis not in dependencies[ref] and blocks * _axes_size(expr.over) > axis.size
            for ref, expr in self.aggregates.items()
        )

    def _check_sum_orders(self) -> None:
        """Refuse to sum one tensor in two orders, which could round differently."""
        orders: dict[Value, tuple[IndexExpr, ...]] = {}
        for ref, expr in self.aggregates.items():
            if expr.is_rounded and orders.setdefault(ref.value, ref.indices) != ref.indices:
                raise CannotFuse(SUM_ORDERS_DIFFER)

    def _split_products(self) -> None:
        """Split rows and columns into blocks."""
        for _, expr, rows, columns in reversed(self.products):
            for side in (rows, columns):
                split = [axis for axis in self.output_axes if axis in self.lanes]
                if len(split) < 2 and not any(axis in split for axis in side):
                    widest = max(reversed(side), key=lambda axis: axis.size)
                    self._split_axis(widest, self.dot_block)
            for axis in expr.over:
                self._split_axis(axis, DOT_DEPTH)
        for axis in filter(self._is_aggregated, self.kept):
            if self.lanes.get(axis, 1) < axis.size:
                raise CannotFuse(f"rows of {axis.size} products do not fit a program")

    def _split_rows(self) -> None:
        """Give lanes to the axes that stay in a program, and to others that make accesses wide."""
        contiguous = self._contiguous_axes()
        fastest, others = (contiguous[0], contiguous[1:]) if contiguous else (None, [])
        reduced = {axis for expr in self.aggregates.values() for axis in expr.over}
        free = [axis for axis in self.output_axes if axis not in self.kept]
        across = [axis for axis in others if axis in free] if not reduced else []
        if fastest is not None and fastest in free:
            most = (
                2 * LINE_ELEMENTS
                if reduced or self.kept
                else LINE_ELEMENTS
                if across
                else self.elementwise_tile
            )
            self._split_axis(fastest, most)
        for axis in across[:1]:
            self._split_axis(axis, LINE_ELEMENTS)
        for axis in reversed(self.kept):
            self._split_axis(axis, self.max_elements // self._lane_count())
        inner = [
            _lanes_for(_axes_size(e.over), self.max_elements) for e in self.aggregates.values()
        ]
        taken = self._lane_count() if fastest in free else max(self._lane_count(), *inner, 1)
        left = self.elementwise_tile // taken
        for axis in reversed(free):
            if axis not in self.lanes and len(self.lanes) < 2:
                self._split_axis(axis, left)
                left //= self.lanes[axis]

    def _contiguous_axes(self) -> list[Axis]:
        """The axes that are contiguous in memory, the most accessed first."""
        weights: dict[Axis, int] = {}
        accessed = [(w.offset, _element_count(w.ref.value)) for w in self.elements.outputs]
        for expr in self.elements.exprs.values():
            if isinstance(expr, LoadExpr):
                accessed.append((expr.offset, _element_count(expr.value)))
        for index, size in accessed:
            for atom, n in index.terms:
                if n == 1 and isinstance(atom, Axis):
                    weights[atom] = weights.get(atom, 0) + size
        return sorted(weights, key=lambda axis: -weights[axis])

    def _split_aggregate(self, ref: ElementRef, expr: Aggregate) -> None:
        """Give lanes to the reduced axes that no output has, within the space that is left."""
        beside = self.elements.dependencies[ref]
        lanes = [n for axis, n in self.lanes.items() if axis in beside and n > 1]
        left, dimensions = self.max_elements // prod(lanes), MAX_TILE_DIMENSIONS - len(lanes)
        for axis in reversed(expr.over):
            if axis not in self.lanes:
                self._split_axis(axis, left if dimensions else 1)
                left //= self.lanes[axis]
                dimensions -= self.lanes[axis] > 1

    def _limit_dimensions(self, refs: Iterable[ElementRef], others: Collection[Axis]) -> None:
        """Drop lane axes until a tile of all axes of some elements has few enough dimensions.

        The `others`, such as reduced axes, are dropped first.
        """
        axes = {*others}.union(*(self.elements.dependencies[r] for r in refs))
        lanes = [axis for axis in self.lanes if axis in axes and self.lanes[axis] > 1]
        lanes.sort(key=lambda axis: (axis in others, axis not in self.output_axes))
        for axis in lanes[MAX_TILE_DIMENSIONS:]:
            self.lanes[axis] = 1

    def _split_axis(self, axis: Axis, most: int) -> None:
        """Give an axis lanes for all of its elements if `most` allow it, else for a block."""
        whole = _lanes_for(axis.size, axis.size * 2)
        self.lanes[axis] = whole if whole <= most else max(1, min(most, self.elementwise_tile))

    def _lane_count(self) -> int:
        return prod(self.lanes.values())

    # The plan.

    def plan(self) -> Plan:
        if not self.elements.outputs:
            return Plan(self.elements, self.elements.output_axes)
        replacements: dict[Axis, IndexExpr] = {}
        lanes: dict[Axis, int] = {}
        ends: dict[Axis, Within] = {}
        blocks: dict[Axis, AxisBlock] = {}
        programs: list[Axis] = []
        loops: list[Axis] = []
        for axis in (*self.output_axes, *(a for a in self.lanes if a not in self.output_axes)):
            count = self.lanes.get(axis, 1)
            scalar, lane = axis, axis
            if 1 < count < axis.size:
                scalar = Axis(axis.name, -(-axis.size // count))
                lane = Axis(f"{axis.name}i", count)
                blocks[scalar] = AxisBlock(count, axis.size)
                replacements[axis] = IndexExpr.of(scalar) * count + IndexExpr.of(lane)
            if count > 1:
                lanes[lane] = count
                if axis.size % count:
                    ends[lane] = Within(replacements.get(axis) or IndexExpr.of(axis), 0, axis.size)
            if count < axis.size and axis in self.output_axes:
                (loops if axis in self.kept else programs).append(scalar)
        elements = self.elements.substituted(replacements) if replacements else self.elements
        return Plan(elements, tuple(programs), tuple(loops), lanes, ends, blocks)


def _lanes_for(size: int, most: int) -> int:
    """The least power of two that is not below a size, or `most`."""
    return min(1 << (size - 1).bit_length(), most)


def _axes_size(axes: Iterable[Axis]) -> int:
    return prod(axis.size for axis in axes)


def _element_count(value: Value) -> int:
    return prod(element_type(value.type).shape)
