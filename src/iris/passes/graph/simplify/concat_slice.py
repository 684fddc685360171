"""Simplify concatenations, paddings, and slices of them."""

from __future__ import annotations

from iris.ir import graph
from iris.ir.core import Value
from iris.ir.math import constant_bits
from iris.ir.rewriter import Rewriter
from iris.ir.types import Tensor
from iris.passes.graph.simplify.rule_helpers import InsertBefore, dtype_of, rules, shape_of


@rules(graph.Concat)
def concat_of_one(op: graph.Concat, rewriter: Rewriter) -> None:
    """Erase a concatenation of one tensor."""
    if len(op.values) == 1:
        rewriter.replace(op, op.values[0])


@rules(graph.Concat)
def concat_of_empty(op: graph.Concat, rewriter: Rewriter) -> None:
    """Drop empty operands, unless all are empty."""
    parts = [v for v in op.values if shape_of(v)[op.axis]]
    if parts and len(parts) < len(op.values):
        rewriter.replace(op, graph.Concat(op.axis, parts))


@rules(graph.Concat)
def concat_of_concats(op: graph.Concat, rewriter: Rewriter) -> None:
    """Merge concatenations along one axis."""
    parts: list[Value] = []
    for value in op.values:
        inner = value.op
        alike = isinstance(inner, graph.Concat) and inner.axis == op.axis
        parts += inner.operands if alike and inner is not None else [value]
    if len(parts) > len(op.values):
        rewriter.replace(op, graph.Concat(op.axis, parts))


@rules(graph.Concat)
def concat_of_slices(op: graph.Concat, rewriter: Rewriter) -> None:
    """Merge adjacent slices of one tensor."""
    for index, (left, right) in enumerate(zip(op.values, op.values[1:], strict=False)):
        joined = _joined_slice(op.axis, left, right)
        if joined is not None:
            part = InsertBefore(op, rewriter).insert(joined)
            rewriter.replace(
                op, graph.Concat(op.axis, [*op.values[:index], part, *op.values[index + 2 :]])
            )
            return


def _joined_slice(axis: int, left: Value, right: Value) -> graph.Slice | None:
    one, other = left.op, right.op
    if not isinstance(one, graph.Slice) or not isinstance(other, graph.Slice):
        return None
    count, more = shape_of(left)[axis], shape_of(right)[axis]
    step = one.steps[axis]
    if count == 1:  # it could have any step
        step = other.starts[axis] - one.starts[axis]
    goes_on = other.starts[axis] == one.starts[axis] + step * count
    if one.x is not other.x or not step or not goes_on or (more > 1 and other.steps[axis] != step):
        return None
    for i, n in enumerate(shape_of(left)):
        same = one.starts[i] == other.starts[i] and (n < 2 or one.steps[i] == other.steps[i])
        if i != axis and not same:
            return None
    steps = [step if i == axis else s for i, s in enumerate(one.steps)]
    shape = [n + more if i == axis else n for i, n in enumerate(shape_of(left))]
    return graph.Slice(one.starts, tuple(steps), one.x, Tensor(tuple(shape), dtype_of(left)))


@rules(graph.Slice)
def slice_of_concat(op: graph.Slice, rewriter: Rewriter) -> None:
    """Slice the operand that has all elements of the slice."""
    inner = op.x.op
    if not isinstance(inner, graph.Concat) or 0 in shape_of(op.result):
        return
    axis, start = inner.axis, op.starts[inner.axis]
    last = start + op.steps[axis] * (shape_of(op.result)[axis] - 1)
    offset = 0
    for part in inner.values:
        size = shape_of(part)[axis]
        if offset <= min(start, last) and max(start, last) < offset + size:
            starts = [s - offset if i == axis else s for i, s in enumerate(op.starts)]
            before = InsertBefore(op, rewriter)
            rewriter.replace(op, before.slice(part, starts, op.steps, shape_of(op.result)))
            return
        offset += size


@rules(graph.Slice)
def slice_of_pad(op: graph.Slice, rewriter: Rewriter) -> None:
    """Slice the padded tensor, or fill with the padding, if the slice is within one of them."""
    inner, shape = op.x.op, shape_of(op.result)
    if not isinstance(inner, graph.Pad) or 0 in shape:
        return
    inside, outside = True, False
    for start, step, size, low, n in zip(
        op.starts, op.steps, shape, inner.low, shape_of(inner.x), strict=True
    ):
        first, last = sorted((start, start + step * (size - 1)))
        inside &= low <= first and last < low + n
        outside |= last < low or low + n <= first
    before = InsertBefore(op, rewriter)
    if inside:
        starts = [start - low for start, low in zip(op.starts, inner.low, strict=True)]
        rewriter.replace(op, before.slice(inner.x, starts, op.steps, shape))
    elif outside:
        rewriter.replace(op, before.fill(inner.value, shape))


@rules(graph.Pad)
def pad_of_empty(op: graph.Pad, rewriter: Rewriter) -> None:
    """Fill with the padding where the padded tensor is empty."""
    if 0 in shape_of(op.x) and 0 not in shape_of(op.result):
        rewriter.replace(op, InsertBefore(op, rewriter).fill(op.value, shape_of(op.result)))


@rules(graph.Pad)
def pad_of_pad(op: graph.Pad, rewriter: Rewriter) -> None:
    """Merge two paddings with one value."""
    inner = op.x.op
    if isinstance(inner, graph.Pad) and _same_value(inner.value, op.value):
        low = tuple([a + b for a, b in zip(inner.low, op.low, strict=True)])
        rewriter.replace(op, graph.Pad(low, inner.x, op.value, op.result.type))


def _same_value(one: Value, other: Value) -> bool:
    return one is other or (
        constant_bits(one) is not None and constant_bits(one) == constant_bits(other)
    )


@rules(graph.Conv2d)
def conv2d_of_pad(op: graph.Conv2d, rewriter: Rewriter) -> None:
    """Make padding with zeros part of the convolution."""
    inner = op.x.op
    if not isinstance(inner, graph.Pad) or constant_bits(inner.value) != 0:
        return
    source, wide = shape_of(inner.x), shape_of(op.x)
    if source[:2] != wide[:2]:
        return
    padding = [
        inner.low[2] + op.padding[0],
        wide[2] - source[2] - inner.low[2] + op.padding[1],
        inner.low[3] + op.padding[2],
        wide[3] - source[3] - inner.low[3] + op.padding[3],
    ]
    rewriter.replace(
        op, graph.Conv2d(op.strides, tuple(padding), op.dilation, op.groups, inner.x, op.w)
    )
