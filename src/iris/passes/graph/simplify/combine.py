"""Reductions and products of views, and of each other."""

from __future__ import annotations

from collections.abc import Sequence

from iris.ir import graph
from iris.ir.core import Op, Value
from iris.ir.kinds import ReduceKind
from iris.ir.rewriter import Rewriter
from iris.ir.types import f32
from iris.passes.graph.simplify.making import Before, dtype_of, rules, shape_of, used_once
from iris.passes.graph.simplify.reshapes import groups

_PLACES = (ReduceKind.ARGMAX, ReduceKind.ARGMIN)
_SUMS = (ReduceKind.SUM, ReduceKind.PROD)


@rules(graph.Reduce)
def reduce_twice(op: graph.Reduce, rewriter: Rewriter) -> None:
    """Along all of the axes at once.

    Not sums of 16-bit floats, which are rounded after each; of other floats the order is free.
    """
    inner = op.x.op
    if not isinstance(inner, graph.Reduce) or not used_once(op.x, op):
        return
    dtype = dtype_of(op.x)
    if inner.kind is not op.kind or op.kind in _PLACES:
        return
    if op.kind in _SUMS and dtype.is_float and dtype is not f32:
        return
    kept = _kept(inner)
    axes = sorted([*inner.axes, *[kept[axis] for axis in op.axes]])
    rewriter.replace(op, graph.Reduce(op.kind, tuple(axes), inner.x))


def _kept(op: graph.Reduce) -> list[int]:
    """The axes that stay."""
    return [axis for axis in range(len(shape_of(op.x))) if axis not in op.axes]


@rules(graph.Reduce)
def reduce_of_transpose(op: graph.Reduce, rewriter: Rewriter) -> None:
    """What is left is transposed."""
    inner = op.x.op
    if not isinstance(inner, graph.Transpose):
        return
    before = Before(op, rewriter)
    axes = sorted([inner.permutation[axis] for axis in op.axes])
    made = before.put(graph.Reduce(op.kind, tuple(axes), inner.x))
    left = [inner.permutation[axis] for axis in _kept(op)]
    rewriter.replace(op, before.transpose(made, [sorted(left).index(axis) for axis in left]))


@rules(graph.Reduce)
def reduce_of_reshape(op: graph.Reduce, rewriter: Rewriter) -> None:
    """Where axes that go stay apart from the others, what is left is reshaped."""
    inner = op.x.op
    if not isinstance(inner, graph.Reshape) or 0 in shape_of(op.x):
        return
    axes: list[int] = []
    for group in groups(shape_of(inner.x), shape_of(op.x)):
        gone = [axis in op.axes for axis in group.after]
        if any(gone):
            if not all(gone):
                return
            axes += group.before
    if not axes or (op.kind in _PLACES and len(axes) > 1):
        return
    before = Before(op, rewriter)
    made = before.put(graph.Reduce(op.kind, tuple(axes), inner.x))
    rewriter.replace(op, before.reshape(made, shape_of(op.result)))


@rules(graph.Reduce)
def reduce_of_broadcast(op: graph.Reduce, rewriter: Rewriter) -> None:
    """What is the same along an axis that stays is reduced once; and along one that goes it is
    like one element, except for sums."""
    inner = op.x.op
    if not isinstance(inner, graph.Broadcast) or 0 in shape_of(op.x):
        return
    narrow, wide = shape_of(inner.x), shape_of(op.x)
    needed = op.axes if op.kind in _SUMS else ()
    to = tuple([wide[axis] if axis in needed else n for axis, n in enumerate(narrow)])
    if to != wide:
        before = Before(op, rewriter)
        made = before.put(graph.Reduce(op.kind, op.axes, before.broadcast(inner.x, to)))
        rewriter.replace(op, before.broadcast(made, shape_of(op.result)))


# Products.


@rules(graph.Matmul)
def product_of_broadcasts(op: graph.Matmul, rewriter: Rewriter) -> None:
    """Rows, columns and matrices that are all the same are computed once."""
    shape = shape_of(op.result)
    if 0 in shape or 0 in shape_of(op.a):
        return
    *outer, rows, _ = _narrow(op.a)
    *others, _, columns = _narrow(op.b)
    depth = shape_of(op.a)[-1]
    outer = [max(sizes) for sizes in zip(outer, others, strict=True)]
    to = (*outer, rows, columns)
    if to != shape:
        before = Before(op, rewriter)
        a = before.broadcast(_source(op.a), (*outer, rows, depth))
        b = before.broadcast(_source(op.b), (*outer, depth, columns))
        rewriter.replace(op, before.broadcast(before.put(graph.Matmul(a, b)), shape))


def _source(value: Value) -> Value:
    """What is spread, if anything is."""
    return value.op.x if isinstance(value.op, graph.Broadcast) else value


def _narrow(value: Value) -> tuple[int, ...]:
    return shape_of(_source(value))


@rules(graph.Transpose)
def transpose_of_product(op: graph.Transpose, rewriter: Rewriter) -> None:
    """The product of what is transposed, in the other order if rows become columns; where there
    are fewer transposes than before."""
    inner = op.x.op
    if not isinstance(inner, graph.Matmul) or not used_once(op.x, op):
        return
    rank = len(op.permutation)
    row, column = op.permutation[-2:]
    if {row, column} != {rank - 2, rank - 1}:
        return
    swapped = row > column
    operands = (inner.b, inner.a) if swapped else (inner.a, inner.b)
    orders = [_after(v.op, op.permutation) for v in operands]
    if _transposes(orders) >= 1 + sum(isinstance(v.op, graph.Transpose) for v in operands):
        return
    before = Before(op, rewriter)
    a, b = (
        before.transpose(v.op.x if isinstance(v.op, graph.Transpose) else v, order)
        for v, order in zip(operands, orders, strict=True)
    )
    rewriter.replace(op, graph.Matmul(a, b))


def _after(op: Op | None, permutation: Sequence[int]) -> list[int]:
    """The order of axes after another transpose, if there is one."""
    if isinstance(op, graph.Transpose):
        return [op.permutation[axis] for axis in permutation]
    return list(permutation)


def _transposes(orders: Sequence[list[int]]) -> int:
    return sum(order != sorted(order) for order in orders)
