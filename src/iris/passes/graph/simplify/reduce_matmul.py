"""Simplify reductions and matrix products of views, and of each other."""

from __future__ import annotations

from collections.abc import Sequence

from iris.ir import graph
from iris.ir.core import Op, Value
from iris.ir.kinds import ReduceKind
from iris.ir.rewriter import Rewriter
from iris.ir.types import f32
from iris.passes.graph.simplify.reshapes import reshape_groups
from iris.passes.graph.simplify.rule_helpers import (
    InsertBefore,
    dtype_of,
    is_only_use,
    rules,
    shape_of,
)

_ARG_KINDS = (ReduceKind.ARGMAX, ReduceKind.ARGMIN)
_SUM_KINDS = (ReduceKind.SUM, ReduceKind.PROD)


@rules(graph.Reduce)
def reduce_of_reduce(op: graph.Reduce, rewriter: Rewriter) -> None:
    """Merge two reductions of one kind.

    Not sums of 16-bit floats, which are rounded after each.  Sums of f32 have no fixed order.
    """
    inner = op.x.op
    if not isinstance(inner, graph.Reduce) or not is_only_use(op.x, op):
        return
    dtype = dtype_of(op.x)
    if inner.kind is not op.kind or op.kind in _ARG_KINDS:
        return
    if op.kind in _SUM_KINDS and dtype.is_float and dtype is not f32:
        return
    kept = _kept_axes(inner)
    axes = sorted([*inner.axes, *[kept[axis] for axis in op.axes]])
    rewriter.replace(op, graph.Reduce(op.kind, tuple(axes), inner.x))


def _kept_axes(op: graph.Reduce) -> list[int]:
    """The axes that are not reduced."""
    return [axis for axis in range(len(shape_of(op.x))) if axis not in op.axes]


@rules(graph.Reduce)
def reduce_of_transpose(op: graph.Reduce, rewriter: Rewriter) -> None:
    """Reduce before transposing."""
    inner = op.x.op
    if not isinstance(inner, graph.Transpose):
        return
    before = InsertBefore(op, rewriter)
    axes = sorted([inner.permutation[axis] for axis in op.axes])
    reduced = before.insert(graph.Reduce(op.kind, tuple(axes), inner.x))
    left = [inner.permutation[axis] for axis in _kept_axes(op)]
    rewriter.replace(op, before.transpose(reduced, [sorted(left).index(axis) for axis in left]))


@rules(graph.Reduce)
def reduce_of_reshape(op: graph.Reduce, rewriter: Rewriter) -> None:
    """Reduce before reshaping, if the reshape merges no reduced axis with another one."""
    inner = op.x.op
    if not isinstance(inner, graph.Reshape) or 0 in shape_of(op.x):
        return
    axes: list[int] = []
    for group in reshape_groups(shape_of(inner.x), shape_of(op.x)):
        reduced_axes = [axis in op.axes for axis in group.after]
        if any(reduced_axes):
            if not all(reduced_axes):
                return
            axes += group.before
    if not axes or (op.kind in _ARG_KINDS and len(axes) > 1):
        return
    before = InsertBefore(op, rewriter)
    reduced = before.insert(graph.Reduce(op.kind, tuple(axes), inner.x))
    rewriter.replace(op, before.reshape(reduced, shape_of(op.result)))


@rules(graph.Reduce)
def reduce_of_broadcast(op: graph.Reduce, rewriter: Rewriter) -> None:
    """Reduce before broadcasting.

    An extremum along a broadcast axis is one element; a sum still needs all of them.
    """
    inner = op.x.op
    if not isinstance(inner, graph.Broadcast) or 0 in shape_of(op.x):
        return
    narrow, wide = shape_of(inner.x), shape_of(op.x)
    needed = op.axes if op.kind in _SUM_KINDS else ()
    to = tuple([wide[axis] if axis in needed else n for axis, n in enumerate(narrow)])
    if to != wide:
        before = InsertBefore(op, rewriter)
        reduced = before.insert(graph.Reduce(op.kind, op.axes, before.broadcast(inner.x, to)))
        rewriter.replace(op, before.broadcast(reduced, shape_of(op.result)))


# Products.


@rules(graph.Matmul)
def matmul_of_broadcasts(op: graph.Matmul, rewriter: Rewriter) -> None:
    """Multiply before broadcasting rows, columns or matrices."""
    shape = shape_of(op.result)
    if 0 in shape or 0 in shape_of(op.a):
        return
    *outer, rows, _ = _narrow_shape(op.a)
    *others, _, columns = _narrow_shape(op.b)
    depth = shape_of(op.a)[-1]
    outer = [max(sizes) for sizes in zip(outer, others, strict=True)]
    to = (*outer, rows, columns)
    if to != shape:
        before = InsertBefore(op, rewriter)
        a = before.broadcast(_broadcast_source(op.a), (*outer, rows, depth))
        b = before.broadcast(_broadcast_source(op.b), (*outer, depth, columns))
        rewriter.replace(op, before.broadcast(before.insert(graph.Matmul(a, b)), shape))


def _broadcast_source(value: Value) -> Value:
    """The source of a broadcast, else the value."""
    return value.op.x if isinstance(value.op, graph.Broadcast) else value


def _narrow_shape(value: Value) -> tuple[int, ...]:
    return shape_of(_broadcast_source(value))


@rules(graph.Transpose)
def transpose_of_matmul(op: graph.Transpose, rewriter: Rewriter) -> None:
    """Transpose the factors instead, if that leaves fewer transposes.

    The factors change places if rows become columns.
    """
    inner = op.x.op
    if not isinstance(inner, graph.Matmul) or not is_only_use(op.x, op):
        return
    rank = len(op.permutation)
    row, column = op.permutation[-2:]
    if {row, column} != {rank - 2, rank - 1}:
        return
    swapped = row > column
    operands = (inner.b, inner.a) if swapped else (inner.a, inner.b)
    orders = [_composed_order(v.op, op.permutation) for v in operands]
    if _transpose_count(orders) >= 1 + sum(isinstance(v.op, graph.Transpose) for v in operands):
        return
    before = InsertBefore(op, rewriter)
    a, b = (
        before.transpose(v.op.x if isinstance(v.op, graph.Transpose) else v, order)
        for v, order in zip(operands, orders, strict=True)
    )
    rewriter.replace(op, graph.Matmul(a, b))


def _composed_order(op: Op | None, permutation: Sequence[int]) -> list[int]:
    """The permutation composed with that of a transpose, if there is one."""
    if isinstance(op, graph.Transpose):
        return [op.permutation[axis] for axis in permutation]
    return list(permutation)


def _transpose_count(orders: Sequence[list[int]]) -> int:
    return sum(order != sorted(order) for order in orders)
