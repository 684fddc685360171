"""Elementwise ops and views, in one order, so that elementwise ops meet and so do views.

Where an elementwise op is of the same view of several things, it comes first and the view after;
only slices come before it.  So it is never of more elements than before: of fewer, if the view
spreads, pads or leaves out some.
"""

from __future__ import annotations

from typing import TypeVar

from iris.ir import graph
from iris.ir.core import Op, Value
from iris.ir.math import Elementwise
from iris.ir.rewriter import Rewriter
from iris.ir.types import Tensor
from iris.passes.graph.simplify.making import (
    Before,
    Shape,
    is_splat,
    pads_something,
    rules,
    shape_of,
    used_once,
)
from iris.passes.graph.simplify.reshapes import spread_after

V = TypeVar("V", bound=Op)


def _tensors(op: Op) -> list[Value]:
    """The operands that have a shape, and are not the same number everywhere."""
    return [v for v in op.operands if isinstance(v.type, Tensor) and not is_splat(v)]


def _views(op: Op, cls: type[V]) -> dict[Value, V]:
    """The operands that are views of a kind; none, if they are not all the same view of one
    shape, or others are not spread."""
    views = {}
    for value in _tensors(op):
        if isinstance(value.op, cls):
            views[value] = value.op
        elif not isinstance(value.op, graph.Broadcast):
            return {}
    alike = {(view.attributes, shape_of(view.operands[0])) for view in views.values()}
    return views if len(alike) == 1 else {}


def _spread(op: Op) -> dict[Value, graph.Broadcast]:
    return {v: v.op for v in _tensors(op) if isinstance(v.op, graph.Broadcast)}


def _on(before: Before, op: Elementwise, shape: Shape, source: dict[Value, Value]) -> Value:
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


@rules(Elementwise)
def elementwise_of_reshapes(op: Elementwise, rewriter: Rewriter) -> None:
    """What comes from one shape stays in it for longer; what is spread can be spread to it, if no
    axis that is spread is mixed with others."""
    views = _views(op, graph.Reshape)
    if not views or 0 in shape_of(op.results[0]):
        return
    moved = {v: view.x for v, view in views.items()}
    shape = shape_of(next(iter(moved.values())))
    narrow = {}
    for value, inner in _spread(op).items():
        to = spread_after(shape_of(inner.x), shape_of(value), shape)
        if to is None:
            return
        narrow[value] = inner.x, to
    before = Before(op, rewriter)
    for value, (x, to) in narrow.items():
        moved[value] = before.broadcast(before.reshape(x, to), shape)
    made = _on(before, op, shape, moved)
    rewriter.replace(op, before.reshape(made, shape_of(op.results[0])))


@rules(Elementwise)
def elementwise_of_transposes(op: Elementwise, rewriter: Rewriter) -> None:
    """What is transposed alike is transposed later; what is spread can be spread otherwise."""
    views = _views(op, graph.Transpose)
    if not views:
        return
    moved = {v: view.x for v, view in views.items()}
    shape = shape_of(next(iter(moved.values())))
    permutation = next(iter(views.values())).permutation
    back = sorted(range(len(shape)), key=permutation.__getitem__)
    before = Before(op, rewriter)
    for value, inner in _spread(op).items():
        moved[value] = before.broadcast(before.transpose(inner.x, back), shape)
    rewriter.replace(op, before.transpose(_on(before, op, shape, moved), permutation))


@rules(Elementwise)
def elementwise_of_broadcasts(op: Elementwise, rewriter: Rewriter) -> None:
    """What is the same along an axis for all operands is computed once along it."""
    spread = _spread(op)
    shape = shape_of(op.results[0])
    if not spread or len(spread) < len(set(_tensors(op))) or 0 in shape:
        return
    shapes = [shape_of(inner.x) for inner in spread.values()]
    narrow = tuple([max(sizes) for sizes in zip(*shapes, strict=True)])
    if narrow != shape:
        before = Before(op, rewriter)
        wide = {v: before.broadcast(inner.x, narrow) for v, inner in spread.items()}
        rewriter.replace(op, before.broadcast(_on(before, op, narrow, wide), shape))


@rules(Elementwise)
def elementwise_of_pads(op: Elementwise, rewriter: Rewriter) -> None:
    """What is padded alike, for nobody else, is padded later, with what the op makes of the
    values."""
    pads = _views(op, graph.Pad)
    view = next(iter(pads.values()), None)
    alone = not _spread(op) and all(used_once(v, op) for v in pads)
    if view is not None and alone and pads_something(view):
        before = Before(op, rewriter)
        made = _on(before, op, shape_of(view.x), {v: pad.x for v, pad in pads.items()})
        value = _on(before, op, (), {v: pad.value for v, pad in pads.items()})
        rewriter.replace(op, graph.Pad(view.low, made, value, op.results[0].type))


@rules(graph.Slice)
def slice_of_elementwise(op: graph.Slice, rewriter: Rewriter) -> None:
    """Only the part is computed, if nobody wants the rest."""
    inner = op.x.op
    if not isinstance(inner, Elementwise) or not used_once(op.x, op):
        return
    before, shape = Before(op, rewriter), shape_of(op.result)
    parts = {v: before.slice(v, op.starts, op.steps, shape) for v in _tensors(inner)}
    rewriter.replace(op, _on(before, inner, shape, parts))


@rules(graph.Reshape, graph.Transpose)
def view_of_elementwise(op: graph.Reshape | graph.Transpose, rewriter: Rewriter) -> None:
    """Push the view through the op if it undoes the views of at least half of the operands."""
    inner, shape = op.x.op, shape_of(op.result)
    if not isinstance(inner, Elementwise) or not used_once(op.x, op):
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
