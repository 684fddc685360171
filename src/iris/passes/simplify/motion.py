"""Elementwise ops and views, in one order, so that elementwise ops meet and so do views.

Where an elementwise op is of the same view of several things, it comes first and the view after;
only slices come before it.  So it is never of more elements than before: of fewer, if the view
spreads, pads or leaves out some.
"""

from __future__ import annotations

from iris.ir import graph
from iris.ir.core import Op, Value
from iris.ir.math import element_type
from iris.ir.rewriter import Rewriter
from iris.ir.types import Tensor
from iris.passes.simplify.making import (
    ELEMENTWISE,
    Before,
    Shape,
    is_splat,
    pads_something,
    rules,
    shape_of,
    used_once,
)


def _tensors(op: Op) -> list[Value]:
    """The operands that have a shape, and are not the same number everywhere."""
    return [v for v in op.operands if isinstance(v.type, Tensor) and not is_splat(v)]


def _common(op: Op, cls: type[Op]) -> Op | None:
    """The view that all operands are of something or other, of one shape."""
    views = [v.op for v in _tensors(op)]
    first = views[0] if views else None
    if not isinstance(first, cls):
        return None
    source = shape_of(first.operands[0])
    for view in views:
        if (
            not isinstance(view, cls)
            or view.attributes != first.attributes
            or shape_of(view.operands[0]) != source
        ):
            return None
    return first


def _on(before: Before, op: Op, shape: Shape, source: dict[Value, Value]) -> Value:
    """An elementwise op on other things instead of its operands."""
    operands = []
    for value in op.operands:
        if value in source:
            operands.append(source[value])
        elif isinstance(value.type, Tensor):
            operands.append(before.splat(value, shape))
        else:
            operands.append(value)
    return before.elementwise(op, operands, shape)


def _sources(op: Op) -> dict[Value, Value]:
    """What each operand, a view, is of."""
    return {v: v.op.operands[0] for v in _tensors(op) if v.op is not None}


@rules(*ELEMENTWISE)
def elementwise_of_reshapes(op: Op, rewriter: Rewriter) -> None:
    """What comes from one shape stays in it for longer."""
    view = _common(op, graph.Reshape)
    if view is not None:
        before = Before(op, rewriter)
        made = _on(before, op, shape_of(view.operands[0]), _sources(op))
        rewriter.replace(op, before.reshape(made, shape_of(op.results[0])))


@rules(*ELEMENTWISE)
def elementwise_of_transposes(op: Op, rewriter: Rewriter) -> None:
    """What is transposed alike is transposed later."""
    view = _common(op, graph.Transpose)
    if isinstance(view, graph.Transpose):
        before = Before(op, rewriter)
        made = _on(before, op, shape_of(view.x), _sources(op))
        rewriter.replace(op, before.transpose(made, view.permutation))


@rules(*ELEMENTWISE)
def elementwise_of_broadcasts(op: Op, rewriter: Rewriter) -> None:
    """What is the same along an axis for all operands is computed once along it."""
    values = _tensors(op)
    shape = element_type(op.results[0].type).shape
    if not values or 0 in shape or not all(isinstance(v.op, graph.Broadcast) for v in values):
        return
    sources = _sources(op)
    narrow = tuple([max(sizes) for sizes in zip(*map(shape_of, sources.values()), strict=True)])
    if narrow != shape:
        before = Before(op, rewriter)
        wide = {v: before.broadcast(x, narrow) for v, x in sources.items()}
        rewriter.replace(op, before.broadcast(_on(before, op, narrow, wide), shape))


@rules(*ELEMENTWISE)
def elementwise_of_pads(op: Op, rewriter: Rewriter) -> None:
    """What is padded alike is padded later, with what the op makes of the values."""
    view = _common(op, graph.Pad)
    if isinstance(view, graph.Pad) and pads_something(view):
        before = Before(op, rewriter)
        pads = {v: v.op for v in _tensors(op)}
        values = {v: pad.value for v, pad in pads.items() if isinstance(pad, graph.Pad)}
        made = _on(before, op, shape_of(view.x), _sources(op))
        value = _on(before, op, (), values)
        rewriter.replace(op, graph.Pad(view.low, made, value, op.results[0].type))


@rules(graph.Slice)
def slice_of_elementwise(op: graph.Slice, rewriter: Rewriter) -> None:
    """Only the part is computed, if nobody wants the rest."""
    inner = op.x.op
    if not isinstance(inner, ELEMENTWISE) or not used_once(op.x, op):
        return
    before, shape = Before(op, rewriter), shape_of(op.result)
    parts = {v: before.slice(v, op.starts, op.steps, shape) for v in _tensors(inner)}
    rewriter.replace(op, _on(before, inner, shape, parts))


@rules(graph.Reshape, graph.Transpose)
def view_of_elementwise(op: graph.Reshape | graph.Transpose, rewriter: Rewriter) -> None:
    """What undoes the views of as many operands as it would not is done to the others."""
    inner, shape = op.x.op, shape_of(op.result)
    if not isinstance(inner, ELEMENTWISE) or not used_once(op.x, op):
        return
    values = dict.fromkeys(_tensors(inner))
    undone = [v for v in values if _undoes(op, v.op)]
    if not undone or len(values) > 2 * len(undone):
        return
    before = Before(op, rewriter)
    moved = {}
    for value in values:
        if value in undone and value.op is not None:
            moved[value] = value.op.operands[0]
        elif isinstance(op, graph.Transpose):
            moved[value] = before.transpose(value, op.permutation)
        else:
            moved[value] = before.reshape(value, shape)
    rewriter.replace(op, _on(before, inner, shape, moved))


def _undoes(op: Op, view: Op | None) -> bool:
    if isinstance(op, graph.Transpose) and isinstance(view, graph.Transpose):
        return [view.permutation[axis] for axis in op.permutation] == [*range(len(op.permutation))]
    if isinstance(op, graph.Reshape) and isinstance(view, graph.Reshape):
        return shape_of(op.result) == shape_of(view.x)
    return False
