"""Reductions: a thread folds its registers, lanes exchange, simdgroups meet in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from iris.ir import math, tile
from iris.ir.core import Value
from iris.ir.kinds import ReduceKind
from iris.ir.layout.linear import REGISTER, LinearLayout
from iris.ir.layout.reduce import Reduction, reduce_axis
from iris.ir.math import Predicate, element_type
from iris.ir.types import DType, f32, i32
from iris.passes.tile.lowering.context import Lowering, lower, tile_layout
from iris.passes.tile.lowering.elementwise import element_numbers
from iris.passes.tile.lowering.move import move, shuffle_xor

# What is combined: a value, or several that belong together.
Parts = tuple[Value, ...]


@dataclass(frozen=True)
class Combiner:
    """How two partial results become one."""

    combine: Callable[[Lowering, Parts, Parts], Parts]
    carrier: Callable[[DType], DType] = lambda dtype: dtype  # in what dtype it is done


def _by(op: type[math.Binary]) -> Callable[[Lowering, Parts, Parts], Parts]:
    return lambda at, a, b: (at.b(op(a[0], b[0])),)


def _more_extreme(predicate: Predicate) -> Callable[[Lowering, Parts, Parts], Parts]:
    """Of two values with their places the more extreme one: nan before all else, and of equals
    the first."""

    def combine(at: Lowering, a: Parts, b: Parts) -> Parts:
        (x, i), (y, j) = a, b
        better = at.b(math.Compare(predicate, x, y))
        same = at.b(math.Compare(Predicate.EQ, x, y))
        if element_type(x.type).element.is_float:
            nan_x, nan_y = (at.b(math.Compare(Predicate.NE, v, v)) for v in (x, y))
            better = at.b(math.Or(better, at.b(math.And(nan_x, at.b(math.Not(nan_y))))))
            same = at.b(math.Or(same, at.b(math.And(nan_x, nan_y))))
        first = at.b(math.Compare(Predicate.LT, i, j))
        left = at.b(math.Or(better, at.b(math.And(same, first))))
        return at.b(math.Select(left, x, y)), at.b(math.Select(left, i, j))

    return combine


def accumulator(dtype: DType) -> DType:
    """In what sums and products are made."""
    return f32 if dtype.is_float else dtype


COMBINERS = {
    ReduceKind.SUM: Combiner(_by(math.Add), accumulator),
    ReduceKind.PROD: Combiner(_by(math.Mul), accumulator),
    ReduceKind.MAXNUM: Combiner(_by(math.MaxNum)),
    ReduceKind.MINNUM: Combiner(_by(math.MinNum)),
    ReduceKind.MAXIMUM: Combiner(_by(math.Maximum)),
    ReduceKind.MINIMUM: Combiner(_by(math.Minimum)),
    # Bools are no words that lanes can exchange.
    ReduceKind.ANY: Combiner(_by(math.Or), lambda dtype: i32),
    ReduceKind.ALL: Combiner(_by(math.And), lambda dtype: i32),
    ReduceKind.ARGMAX: Combiner(_more_extreme(Predicate.GT)),
    ReduceKind.ARGMIN: Combiner(_more_extreme(Predicate.LT)),
}


@lower(tile.Reduce)
def reduce(at: Lowering, op: tile.Reduce) -> Sequence[Value]:
    layout = tile_layout(op.x)
    combiner = COMBINERS[op.kind]
    x = at[op.x]
    dtype = element_type(x.type).element
    carried = combiner.carrier(dtype)
    x = cast(at, x, carried)
    parts: Parts = (x,)
    if op.kind in (ReduceKind.ARGMAX, ReduceKind.ARGMIN):
        parts = (x, _places(at, op.x, op.axis))
    plan = reduce_axis(layout, op.axis)
    if plan.operand != layout:
        parts = tuple([move(at, v, layout, plan.operand) for v in parts])
    parts = _fold(at, combiner, parts, plan.registers)
    for mask in plan.lane_masks:
        others = tuple([shuffle_xor(at, v, mask) for v in parts])
        parts = combiner.combine(at, parts, others)
    if plan.simdgroup_masks:
        parts = _across_simdgroups(at, combiner, parts, plan)
    return [parts[-1] if len(parts) > 1 else cast(at, parts[0], dtype)]


def cast(at: Lowering, x: Value, dtype: DType) -> Value:
    type_ = element_type(x.type)
    return x if type_.element is dtype else at.b(math.Cast(x, type_.with_element(dtype)))


def _places(at: Lowering, x: Value, axis: int) -> Value:
    """The index of each element along an axis."""
    shape = element_type(x.type).shape
    behind = 1
    for size in shape[axis + 1 :]:
        behind *= size
    numbers = element_numbers(at, x, i32)
    type_ = element_type(numbers.type)
    if behind > 1:
        shift = at.constant(behind.bit_length() - 1, type_)
        numbers = at.b(math.Shr(numbers, shift))
    if axis:
        numbers = at.b(math.And(numbers, at.constant(shape[axis] - 1, type_)))
    return numbers


def _fold(at: Lowering, combiner: Combiner, parts: Parts, groups: Sequence[Sequence[int]]) -> Parts:
    """Combine the registers of each group, halves with halves."""
    size = len(groups[0])
    parts = tuple([at.take(v, [g[j] for j in range(size) for g in groups]) for v in parts])
    while size > 1:
        size //= 2
        middle = size * len(groups)
        low = tuple([at.take(v, range(middle)) for v in parts])
        high = tuple([at.take(v, range(middle, 2 * middle)) for v in parts])
        parts = combiner.combine(at, low, high)
    return parts


def _across_simdgroups(at: Lowering, combiner: Combiner, parts: Parts, plan: Reduction) -> Parts:
    """Give every thread the partial results of all simdgroups that have one, and fold those."""
    result = plan.result.reshape((plan.result.num_elements,))
    source, target = slotted(result, plan.partials)
    parts = tuple([move(at, v, source, target) for v in parts])
    own = result.size(REGISTER)
    count = 1 << len(plan.simdgroup_masks)
    groups = [[r + own * s for s in range(count)] for r in range(own)]
    return _fold(at, combiner, parts, groups)


def slotted(layout: LinearLayout, versions: LinearLayout) -> tuple[LinearLayout, LinearLayout]:
    """The layout of a value with its version as a first axis, and the layout in which each thread
    holds all versions, in its last registers.  `versions` maps a location to its version.
    """
    (count,) = versions.shape
    shape = (count, *layout.shape)
    both = {
        dim: [(*v, *image) for v, image in zip(numbers, images, strict=True)]
        for (dim, numbers), (_, images) in zip(versions.bases, layout.bases, strict=True)
    }
    every = {dim: [(0, *image) for image in images] for dim, images in layout.bases}
    every[REGISTER] += [(1 << j, *(0,) * layout.rank) for j in range(count.bit_length() - 1)]
    return LinearLayout.of(shape, **both), LinearLayout.of(shape, **every)
