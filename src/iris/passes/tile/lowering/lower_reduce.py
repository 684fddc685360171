"""Lower reductions: along registers, then lanes, then simdgroups through memory."""

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
from iris.passes.tile.lowering.convert_layout import convert_layout, shuffle_xor
from iris.passes.tile.lowering.lower_elementwise import element_numbers

# The values to combine: one, or an extremum and its index.
Parts = tuple[Value, ...]


@dataclass(frozen=True)
class Combiner:
    """Combines two partial results."""

    combine: Callable[[Lowering, Parts, Parts], Parts]
    carrier: Callable[[DType], DType] = lambda dtype: dtype  # the dtype to combine in


def _combine_by(op: type[math.Binary]) -> Callable[[Lowering, Parts, Parts], Parts]:
    return lambda ctx, a, b: (ctx.b(op(a[0], b[0])),)


def _combine_extremes(predicate: Predicate) -> Callable[[Lowering, Parts, Parts], Parts]:
    """Choose the more extreme value with its index: nan first, and the first of equals."""

    def combine(ctx: Lowering, a: Parts, b: Parts) -> Parts:
        (x, i), (y, j) = a, b
        better = ctx.b(math.Compare(predicate, x, y))
        same = ctx.b(math.Compare(Predicate.EQ, x, y))
        if x.type.element.is_float:
            nan_x, nan_y = (ctx.b(math.Compare(Predicate.NE, v, v)) for v in (x, y))
            better = ctx.b(math.Or(better, ctx.b(math.And(nan_x, ctx.b(math.Not(nan_y))))))
            same = ctx.b(math.Or(same, ctx.b(math.And(nan_x, nan_y))))
        first = ctx.b(math.Compare(Predicate.LT, i, j))
        left = ctx.b(math.Or(better, ctx.b(math.And(same, first))))
        return ctx.b(math.Select(left, x, y)), ctx.b(math.Select(left, i, j))

    return combine


def accumulator_dtype(dtype: DType) -> DType:
    """The dtype of sums and products."""
    return f32 if dtype.is_float else dtype


COMBINERS = {
    ReduceKind.SUM: Combiner(_combine_by(math.Add), accumulator_dtype),
    ReduceKind.PROD: Combiner(_combine_by(math.Mul), accumulator_dtype),
    ReduceKind.MAXNUM: Combiner(_combine_by(math.MaxNum)),
    ReduceKind.MINNUM: Combiner(_combine_by(math.MinNum)),
    ReduceKind.MAXIMUM: Combiner(_combine_by(math.Maximum)),
    ReduceKind.MINIMUM: Combiner(_combine_by(math.Minimum)),
    # Lanes cannot shuffle bools.
    ReduceKind.ANY: Combiner(_combine_by(math.Or), lambda dtype: i32),
    ReduceKind.ALL: Combiner(_combine_by(math.And), lambda dtype: i32),
    ReduceKind.ARGMAX: Combiner(_combine_extremes(Predicate.GT)),
    ReduceKind.ARGMIN: Combiner(_combine_extremes(Predicate.LT)),
}


@lower(tile.Reduce)
def lower_reduce(ctx: Lowering, op: tile.Reduce) -> Sequence[Value]:
    layout = tile_layout(op.x)
    combiner = COMBINERS[op.kind]
    x = ctx[op.x]
    dtype = x.type.element
    carried = combiner.carrier(dtype)
    x = cast(ctx, x, carried)
    parts: Parts = (x,)
    if op.kind in (ReduceKind.ARGMAX, ReduceKind.ARGMIN):
        indices = _axis_indices(ctx, op.x, op.axis) if op.places is None else ctx[op.places]
        parts = (x, indices)
    plan = reduce_axis(layout, op.axis)
    if plan.operand != layout:
        parts = tuple([convert_layout(ctx, v, layout, plan.operand) for v in parts])
    parts = _fold_registers(ctx, combiner, parts, plan.registers)
    for mask in plan.lane_masks:
        others = tuple([shuffle_xor(ctx, v, mask) for v in parts])
        parts = combiner.combine(ctx, parts, others)
    if plan.simdgroup_masks:
        parts = _across_simdgroups(ctx, combiner, parts, plan)
    return [parts[-1] if len(parts) > 1 else cast(ctx, parts[0], dtype)]


def cast(ctx: Lowering, x: Value, dtype: DType) -> Value:
    type_ = element_type(x.type)
    return x if type_.element is dtype else ctx.b(math.Cast(x, type_.with_element(dtype)))


def _axis_indices(ctx: Lowering, x: Value, axis: int) -> Value:
    """The index of each element along an axis."""
    shape = element_type(x.type).shape
    behind = 1
    for size in shape[axis + 1 :]:
        behind *= size
    numbers = element_numbers(ctx, x, i32)
    type_ = element_type(numbers.type)
    if behind > 1:
        shift = ctx.constant(behind.bit_length() - 1, type_)
        numbers = ctx.b(math.Shr(numbers, shift))
    if axis:
        numbers = ctx.b(math.And(numbers, ctx.constant(shape[axis] - 1, type_)))
    return numbers


def _fold_registers(
    ctx: Lowering, combiner: Combiner, parts: Parts, groups: Sequence[Sequence[int]]
) -> Parts:
    """Combine the registers of each group, pairwise."""
    size = len(groups[0])
    parts = tuple([ctx.take(v, [g[j] for j in range(size) for g in groups]) for v in parts])
    while size > 1:
        size //= 2
        middle = size * len(groups)
        low = tuple([ctx.take(v, range(middle)) for v in parts])
        high = tuple([ctx.take(v, range(middle, 2 * middle)) for v in parts])
        parts = combiner.combine(ctx, low, high)
    return parts


def _across_simdgroups(ctx: Lowering, combiner: Combiner, parts: Parts, plan: Reduction) -> Parts:
    """Exchange the partial results of simdgroups, and fold them in every thread."""
    result = plan.result.reshape((plan.result.num_elements,))
    source, target = versioned_layouts(result, plan.partials)
    parts = tuple([convert_layout(ctx, v, source, target) for v in parts])
    own = result.size(REGISTER)
    count = 1 << len(plan.simdgroup_masks)
    groups = [[r + own * s for s in range(count)] for r in range(own)]
    return _fold_registers(ctx, combiner, parts, groups)


def versioned_layouts(
    layout: LinearLayout, versions: LinearLayout
) -> tuple[LinearLayout, LinearLayout]:
    """Add an axis of versions to a layout: each thread's own version, and all versions.

    In the second layout a thread holds the versions in its last registers.  `versions` maps a
    location to its version.
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
