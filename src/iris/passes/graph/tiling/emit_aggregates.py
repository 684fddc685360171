"""Emit reductions, scans and contractions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from iris.ir import tile
from iris.ir.core import Value
from iris.ir.kinds import ReduceKind, combined, identity
from iris.ir.math import element_type
from iris.passes.graph.tiling.element_exprs import (
    Contraction,
    DeviationsExpr,
    ReduceExpr,
    ScanExpr,
)
from iris.passes.graph.tiling.element_ref import CannotFuse, ElementRef
from iris.passes.graph.tiling.emit_online import emit_online
from iris.passes.graph.tiling.loop_members import (
    ArgReduction,
    ContractionLoop,
    DeviationLoop,
    Expr,
    LoopMember,
    ValueReduction,
)
from iris.passes.graph.tiling.tile_emitter import Emitter, Frame, PlacedTile, emits

ARG_KINDS = (ReduceKind.ARGMAX, ReduceKind.ARGMIN)


def _reduction_member(ctx: Emitter, expr: ReduceExpr, ref: ElementRef) -> LoopMember[ReduceExpr]:
    if isinstance(expr, DeviationsExpr):
        return DeviationLoop(ctx, expr, ref)
    return (ArgReduction if expr.kind in ARG_KINDS else ValueReduction)(ctx, expr, ref)


@emits(ReduceExpr)
@emits(DeviationsExpr)
def emit_reduction(ctx: Emitter, expr: ReduceExpr, ref: ElementRef, frame: Frame) -> PlacedTile:
    if ctx.elements.is_online(ref):
        return emit_online(ctx, ref)
    is_plain = not isinstance(expr, DeviationsExpr)
    if is_plain and all(axis in ctx.plan.lanes for axis in expr.over):
        return ValueReduction(ctx, expr, ref).reduce_at_once()
    return _emit_members(ctx, ReduceExpr, expr, ref, _reduction_member)


@emits(Contraction)
def emit_contraction(ctx: Emitter, expr: Contraction, ref: ElementRef, frame: Frame) -> PlacedTile:
    if ctx.elements.is_online(ref):
        return emit_online(ctx, ref)
    return _emit_members(ctx, Contraction, expr, ref, ContractionLoop)


def _emit_members(
    ctx: Emitter,
    type_: type[Expr],
    expr: Expr,
    ref: ElementRef,
    member_of: Callable[[Emitter, Expr, ElementRef], LoopMember[Expr]],
) -> PlacedTile:
    """Emit a loop for an aggregate, and for all others of a type that are ready and share its
    axes."""
    loops = [axis for axis in expr.over if axis not in ctx.plan.lanes]
    ctx.emit_invariants(expr.refs, set(loops))
    members = [member_of(ctx, expr, ref)]
    for other_ref, other_expr in ctx.exprs.items():
        if not isinstance(other_expr, type_) or other_expr.over != expr.over:
            continue
        if other_ref == ref or ctx.elements.is_online(other_ref):
            continue
        if ctx.is_ready(other_ref):
            members.append(member_of(ctx, other_expr, other_ref))
    loops.sort(key=lambda axis: not any(axis in member.outermost for member in members))
    initials = [member.initial() for member in members]

    def carried_by_member(
        carried: Sequence[Value],
    ) -> Iterator[tuple[LoopMember[Any], Sequence[Value]]]:
        """Split the carried values by member."""
        for member, initial in zip(members, initials, strict=True):
            yield member, carried[: len(initial)]
            carried = carried[len(initial) :]

    refs = [r for member in members for r in member.expr.refs]
    ends = ctx.emit_loop(
        loops,
        refs,
        [value for initial in initials for value in initial],
        lambda carried: [v for member, own in carried_by_member(carried) for v in member.step(own)],
    )
    placed_by_ref = {member.ref: member.finish(own) for member, own in carried_by_member(ends)}
    for member_ref, placed in placed_by_ref.items():
        ctx.remember(member_ref, placed)
    return placed_by_ref[ref]


@emits(ScanExpr)
def emit_scan(ctx: Emitter, expr: ScanExpr, ref: ElementRef, frame: Frame) -> PlacedTile:
    """Scan the lanes; add the total of the iterations before."""
    lanes = [axis for axis in expr.over if axis in ctx.plan.lanes]
    scalars = [axis for axis in expr.over if axis not in ctx.plan.lanes]
    total = ctx.scan_totals.get(ref)
    if len(lanes) > 1 or len(scalars) > 1 or (scalars and total is None):
        raise CannotFuse("a scan goes along its axis from the start")
    axes = {*ctx.dependencies[expr.ref], *expr.over}
    frame = ctx.lane_axes(axes)
    kind = expr.kind
    shape = ctx.tile_shape(frame, axes)
    value = ctx.broadcast(ctx.tile_of(expr.ref, frame), shape)
    if total is not None:
        value = ctx.cast(value, total.type.element)
        mask = ctx.mask(expr.over, (), frame)
        if mask is not None:
            neutral = identity(kind, value.type.element)
            value = ctx.select(mask, value, ctx.typed_constant(neutral, element_type(value.type)))
    result = value
    if lanes:
        result = ctx.b(tile.Scan(expr.kind, frame.index(lanes[0]), value))
    if total is not None:
        result = ctx.binary(combined(kind), total, result)
        whole = result
        if lanes:
            position = frame.index(lanes[0])
            part = ctx.b(tile.Reduce(ReduceKind(kind.value), position, value))
            rest = tuple([axis for axis in frame if axis is not lanes[0]])
            whole = ctx.binary(combined(kind), total, ctx.align(PlacedTile(part, rest), frame))
        ctx.scan_totals[ref] = whole
    return ctx.name_tile(ctx.cast(result, ref.element), ref, frame)
