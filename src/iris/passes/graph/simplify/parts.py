"""What is put together of parts, and taken apart again."""

from __future__ import annotations

from iris.ir import graph
from iris.ir.core import Value
from iris.ir.math import constant_bits
from iris.ir.rewriter import Rewriter
from iris.ir.types import Tensor
from iris.passes.graph.simplify.making import Before, dtype_of, rules, shape_of


@rules(graph.Concat)
def concat_of_one(op: graph.Concat, rewriter: Rewriter) -> None:
    """One thing after no other."""
    if len(op.values) == 1:
        rewriter.replace(op, op.values[0])


@rules(graph.Concat)
def concat_of_something(op: graph.Concat, rewriter: Rewriter) -> None:
    """Parts without elements are left out, if one stays."""
    parts = [v for v in op.values if shape_of(v)[op.axis]]
    if parts and len(parts) < len(op.values):
        rewriter.replace(op, graph.Concat(op.axis, parts))


@rules(graph.Concat)
def concat_of_concats(op: graph.Concat, rewriter: Rewriter) -> None:
    """What is put together twice along an axis is put together once."""
    parts: list[Value] = []
    for value in op.values:
        inner = value.op
        alike = isinstance(inner, graph.Concat) and inner.axis == op.axis
        parts += inner.operands if alike and inner is not None else [value]
    if len(parts) > len(op.values):
        rewriter.replace(op, graph.Concat(op.axis, parts))


@rules(graph.Concat)
def concat_of_slices(op: graph.Concat, rewriter: Rewriter) -> None:
    """Parts of one thing that follow each other are one part of it."""
    for index, (left, right) in enumerate(zip(op.values, op.values[1:], strict=False)):
        joined = _joined(op.axis, left, right)
        if joined is not None:
            part = Before(op, rewriter).put(joined)
            rewriter.replace(
                op, graph.Concat(op.axis, [*op.values[:index], part, *op.values[index + 2 :]])
            )
            return


def _joined(axis: int, left: Value, right: Value) -> graph.Slice | None:
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
    """What lies in one part is a slice of that."""
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
            before = Before(op, rewriter)
            rewriter.replace(op, before.slice(part, starts, op.steps, shape_of(op.result)))
            return
        offset += size


@rules(graph.Slice)
def slice_of_pad(op: graph.Slice, rewriter: Rewriter) -> None:
    """What lies in the thing that was padded is a slice of it; what lies beside it is the value."""
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
    before = Before(op, rewriter)
    if inside:
        starts = [start - low for start, low in zip(op.starts, inner.low, strict=True)]
        rewriter.replace(op, before.slice(inner.x, starts, op.steps, shape))
    elif outside:
        rewriter.replace(op, before.spread(inner.value, shape))


@rules(graph.Pad)
def pad_of_nothing(op: graph.Pad, rewriter: Rewriter) -> None:
    """The value everywhere."""
    if 0 in shape_of(op.x) and 0 not in shape_of(op.result):
        rewriter.replace(op, Before(op, rewriter).spread(op.value, shape_of(op.result)))


@rules(graph.Pad)
def pad_twice(op: graph.Pad, rewriter: Rewriter) -> None:
    """Padded more, with the same value."""
    inner = op.x.op
    if isinstance(inner, graph.Pad) and _same(inner.value, op.value):
        low = tuple([a + b for a, b in zip(inner.low, op.low, strict=True)])
        rewriter.replace(op, graph.Pad(low, inner.x, op.value, op.result.type))


def _same(one: Value, other: Value) -> bool:
    return one is other or (
        constant_bits(one) is not None and constant_bits(one) == constant_bits(other)
    )


@rules(graph.Conv2d)
def convolution_of_pad(op: graph.Conv2d, rewriter: Rewriter) -> None:
    """Zeros round the images are padding of its own."""
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
