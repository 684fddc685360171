"""The axes of a kernel: which ones are the same, and which ones are merged to one."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import pairwise, product

from iris.passes.graph.tiling.deviations import deviations_form
from iris.passes.graph.tiling.element_exprs import (
    Aggregate,
    LoadExpr,
    ReduceExpr,
    Substitution,
)
from iris.passes.graph.tiling.element_graph import ElementGraph
from iris.passes.graph.tiling.element_ref import ElementRef, row_major_offset
from iris.passes.graph.tiling.index_expr import Axis, IndexExpr
from iris.passes.graph.tiling.online import rescaled_form

# What makes sums that depend on others along the same axes in one loop with these.
ONLINE_RULES = (deviations_form, rescaled_form)


def axis_choices(elements: ElementGraph) -> Iterator[ElementGraph]:
    """Yield a kernel's elements in terms of the axes that it may have.

    First a reduction reuses the axes of the outputs where it can, then it has axes of its own, and
    last it is made in one loop with others that it depends on.
    """
    if not elements.outputs:  # which have no elements
        yield elements
        return
    reused = reuse_output_axes(elements)
    yield merge_axes(reused)
    if reused is not elements:
        yield merge_axes(elements)
    online = elements
    for rule in ONLINE_RULES:
        online = rule(online) or online
    if online is not elements:
        yield merge_axes(online)


def reuse_output_axes(elements: ElementGraph) -> ElementGraph:
    """Let a reduction reuse an output axis when the elements that it reads are also written.

    An example is `x / sum(x)`.
    """
    reductions = [e for e in elements.aggregates.values() if isinstance(e, ReduceExpr)]
    if not reductions:
        return elements
    computed = [r for r, e in elements.exprs.items() if isinstance(e, (LoadExpr, Aggregate))]
    outermost = {*elements.reduction_axes.get(frozenset(), ())}
    replacements: dict[Axis, IndexExpr] = {}
    for over in dict.fromkeys(e.over for e in reductions if outermost.issuperset(e.over)):
        new = {axis for axis in over if axis not in replacements}
        read_beside = [r for e in reductions if not new.isdisjoint(e.over) for r in e.refs]
        needed: set[Axis] = set().union(*(elements.dependencies[r] for r in read_beside))
        taken = needed.union(*(index.atoms() for index in replacements.values()))
        free = {axis for axis in elements.output_axes if axis not in taken}
        if not {axis.size for axis in new} <= {axis.size for axis in free}:
            continue  # one of them has no partner
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
    combined = [e.over for e in elements.aggregates.values()]

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
    for run in (elements.output_axes, *[e.over for e in elements.aggregates.values()]):
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
