"""Move views past elementwise ops, so that elementwise ops meet, and so do views.

An elementwise op on equal views of several tensors comes first, and the view after it; only slices
come before the op.  So the op never computes more elements than before, and fewer if the view
broadcasts, pads or slices.
"""

from __future__ import annotations

from typing import TypeVar

from iris.ir import graph
from iris.ir.core import Op, Value
from iris.ir.math import Elementwise
from iris.ir.rewriter import Rewriter
from iris.ir.types import Tensor
from iris.passes.graph.simplify.reshapes import broadcast_before_reshape
from iris.passes.graph.simplify.rule_helpers import (
    InsertBefore,
    Shape,
    has_padding,
    is_only_use,
    is_splat,
    rules,
    shape_of,
)

V = TypeVar("V", bound=Op)


def _is_tensor(value: Value) -> bool:
    """Whether a value is a tensor and no constant."""
    return isinstance(value.type, Tensor) and not is_splat(value)


def _tensor_operands(op: Op) -> list[Value]:
    return [v for v in op.operands if _is_tensor(v)]


def _common_views(op: Op, cls: type[V]) -> dict[Value, V]:
    """The operands that are views of a class.

    Empty unless all are the same view of one shape, and the other operands are broadcasts.
    """
    views = {}
    for value in op.operands:
        if isinstance(value.op, cls):
            views[value] = value.op
        elif not isinstance(value.op, graph.Broadcast) and _is_tensor(value):
            return {}
    alike = {(view.attributes, shape_of(view.operands[0])) for view in views.values()}
    return views if len(alike) == 1 else {}


def _broadcasts(op: Op) -> dict[Value, graph.Broadcast]:
    return {v: v.op for v in op.operands if isinstance(v.op, graph.Broadcast)}


def _apply_to(
    before: InsertBefore, op: Elementwise, shape: Shape, source: dict[Value, Value]
) -> Value:
    """Apply an elementwise op to the sources of its operands."""
    operands = []
    for value in op.operands:
        if value in source:
            operands.append(source[value])
        elif isinstance(value.type, Tensor):
            operands.append(before.splat(value, shape))
        else:
            operands.append(value)
    return before.elementwise(op, operands, shape)


@rules(Elementwise)
def elementwise_of_reshapes(op: Elementwise, rewriter: Rewriter) -> None:
    """Reshape after the op; broadcasts must not merge a broadcast axis with another one."""
    views = _common_views(op, graph.Reshape)
    if not views or 0 in shape_of(op.results[0]):
        return
    moved = {v: view.x for v, view in views.items()}
    shape = shape_of(next(iter(moved.values())))
    narrow = {}
    for value, inner in _broadcasts(op).items():
        to = broadcast_before_reshape(shape_of(inner.x), shape_of(value), shape)
        if to is None:
            return
        narrow[value] = inner.x, to
    before = InsertBefore(op, rewriter)
    for value, (x, to) in narrow.items():
        moved[value] = before.broadcast(before.reshape(x, to), shape)
    result = _apply_to(before, op, shape, moved)
    rewriter.replace(op, before.reshape(result, shape_of(op.results[0])))


@rules(Elementwise)
def elementwise_of_transposes(op: Elementwise, rewriter: Rewriter) -> None:
    """Transpose after the op; broadcasts are transposed back."""
    views = _common_views(op, graph.Transpose)
    if not views:
        return
    moved = {v: view.x for v, view in views.items()}
    shape = shape_of(next(iter(moved.values())))
    permutation = next(iter(views.values())).permutation
    back = sorted(range(len(shape)), key=permutation.__getitem__)
    before = InsertBefore(op, rewriter)
    for value, inner in _broadcasts(op).items():
        moved[value] = before.broadcast(before.transpose(inner.x, back), shape)
    rewriter.replace(op, before.transpose(_apply_to(before, op, shape, moved), permutation))


@rules(Elementwise)
def elementwise_of_broadcasts(op: Elementwise, rewriter: Rewriter) -> None:
    """Broadcast after the op along axes that all operands are broadcast along."""
    broadcasts = _broadcasts(op)
    shape = shape_of(op.results[0])
    if not broadcasts or len(broadcasts) < len(set(_tensor_operands(op))) or 0 in shape:
        return
    shapes = [shape_of(inner.x) for inner in broadcasts.values()]
    narrow = tuple([max(sizes) for sizes in zip(*shapes, strict=True)])
    if narrow != shape:
        before = InsertBefore(op, rewriter)
        wide = {v: before.broadcast(inner.x, narrow) for v, inner in broadcasts.items()}
        rewriter.replace(op, before.broadcast(_apply_to(before, op, narrow, wide), shape))


@rules(Elementwise)
def elementwise_of_pads(op: Elementwise, rewriter: Rewriter) -> None:
    """Pad after the op, with the op applied to the paddings."""
    pads = _common_views(op, graph.Pad)
    view = next(iter(pads.values()), None)
    if view is None or not has_padding(view) or _broadcasts(op):
        return
    if all(is_only_use(v, op) for v in pads):
        before = InsertBefore(op, rewriter)
        result = _apply_to(before, op, shape_of(view.x), {v: pad.x for v, pad in pads.items()})
        value = _apply_to(before, op, (), {v: pad.value for v, pad in pads.items()})
        rewriter.replace(op, graph.Pad(view.low, result, value, op.results[0].type))


@rules(graph.Slice)
def slice_of_elementwise(op: graph.Slice, rewriter: Rewriter) -> None:
    """Slice before the op, if the slice is its only user."""
    inner = op.x.op
    if not isinstance(inner, Elementwise) or not is_only_use(op.x, op):
        return
    before, shape = InsertBefore(op, rewriter), shape_of(op.result)
    parts = {v: before.slice(v, op.starts, op.steps, shape) for v in _tensor_operands(inner)}
    rewriter.replace(op, _apply_to(before, inner, shape, parts))


@rules(graph.Reshape, graph.Transpose)
def view_of_elementwise(op: graph.Reshape | graph.Transpose, rewriter: Rewriter) -> None:
    """Push the view through the op if it undoes the views of at least half of the operands."""
    inner, shape = op.x.op, shape_of(op.result)
    if not isinstance(inner, Elementwise) or not is_only_use(op.x, op):
        return
    values = dict.fromkeys(_tensor_operands(inner))
    cancelled = [v for v in values if _cancels(op, v.op)]
    if not cancelled or len(values) > 2 * len(cancelled):
        return
    before = InsertBefore(op, rewriter)
    moved = {}
    for value in values:
        if value in cancelled and value.op is not None:
            moved[value] = value.op.operands[0]
        elif isinstance(op, graph.Transpose):
            moved[value] = before.transpose(value, op.permutation)
        else:
            moved[value] = before.reshape(value, shape)
    rewriter.replace(op, _apply_to(before, inner, shape, moved))


def _cancels(op: Op, view: Op | None) -> bool:
    if isinstance(op, graph.Transpose) and isinstance(view, graph.Transpose):
        return [view.permutation[axis] for axis in op.permutation] == [*range(len(op.permutation))]
    if isinstance(op, graph.Reshape) and isinstance(view, graph.Reshape):
        return shape_of(op.result) == shape_of(view.x)
    return False
