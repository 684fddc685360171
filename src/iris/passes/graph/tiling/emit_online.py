"""Emit the loop of a maximum, and of the sums that depend on it (`online`)."""

from __future__ import annotations

from collections.abc import Sequence

from iris.ir import math
from iris.ir.core import Op, Value
from iris.ir.kinds import ReduceKind, accumulator, combined, identity
from iris.ir.math import Predicate, element_type
from iris.ir.types import Tile, f32
from iris.passes.graph.tiling.element_exprs import Aggregate, Contraction, ReduceExpr, Rescaling
from iris.passes.graph.tiling.element_ref import ElementRef
from iris.passes.graph.tiling.loop_members import ContractionLoop, ValueReduction
from iris.passes.graph.tiling.tile_emitter import Emitter, Frame, PlacedTile


def emit_online(ctx: Emitter, ref: ElementRef) -> PlacedTile:
    """Emit the loop that makes a maximum or a sum, with all that is made in it."""
    rescaling = _rescaling(ctx, ref)
    return _OnlineLoop(ctx, ref if rescaling is None else rescaling.base).emit()[ref]


def _rescaling(ctx: Emitter, ref: ElementRef) -> Rescaling | None:
    expr = ctx.exprs[ref]
    assert isinstance(expr, Aggregate), "a maximum, or a sum"
    return expr.rescaling


class _RunningReduction(ValueReduction):
    """A reduction that is complete after each block."""

    def __init__(self, ctx: Emitter, expr: ReduceExpr, ref: ElementRef):
        super().__init__(ctx, expr, ref)
        self.total_frame = tuple([axis for axis in self.frame if axis not in expr.over])

    def initial(self) -> Sequence[Value]:
        kind, element = self.expr.kind, accumulator(self.expr.kind, self.element)
        shape = self.ctx.tile_shape(self.total_frame, self.total_frame)
        type_ = Tile(shape, element) if shape else element
        # No sum is -0.0 in the end: what is added then makes it 0.0, which a sum of weights stays.
        start = 0 if kind is ReduceKind.SUM else identity(kind, element)
        return [self.ctx.typed_constant(start, type_)]

    def step(self, carried: Sequence[Value]) -> Sequence[Value]:
        (total,) = carried
        block = self.reduce_lanes(self.ctx.cast(self.operand(), total.type.element)).value
        return [self.ctx.b(combined(self.expr.kind)(total, block))]

    def finish(self, carried: Sequence[Value]) -> PlacedTile:
        (total,) = carried
        return self.ctx.name_tile(self.ctx.cast(total, self.element), self.ref, self.total_frame)


_SumMember = _RunningReduction | ContractionLoop


class _OnlineLoop:
    """The loop of a maximum."""

    def __init__(self, ctx: Emitter, base: ElementRef):
        self.ctx = ctx
        self.base = base
        expr = ctx.exprs[base]
        assert isinstance(expr, ReduceExpr), "it is a maximum"
        self.maximum = _RunningReduction(ctx, expr, base)
        self.sums = [self._sum(ref) for ref in ctx.elements.rescaled[base]]

    def _sum(self, ref: ElementRef) -> _SumMember:
        expr = self.ctx.exprs[ref]
        if isinstance(expr, Contraction):
            return ContractionLoop(self.ctx, expr, ref)
        assert isinstance(expr, ReduceExpr), "all sums are reductions or products"
        return _RunningReduction(self.ctx, expr, ref)

    def emit(self) -> dict[ElementRef, PlacedTile]:
        ctx, members = self.ctx, [self.maximum, *self.sums]
        loops = [axis for axis in self.maximum.expr.over if axis not in ctx.plan.lanes]
        operands = [ref for member in members for ref in member.expr.operands]
        ctx.emit_invariants(operands, set(loops), apart={member.ref for member in members})
        initials = [value for member in members for value in member.initial()]
        with ctx.scope():
            maximum, *totals = ctx.emit_loop(loops, operands, initials, self._step)
        found = {self.base: self.maximum.finish([maximum])}
        ctx.remember(self.base, found[self.base])
        for member, total in zip(self.sums, totals, strict=True):
            found[member.ref] = self._in_the_end(member, member.finish([total]))
            ctx.remember(member.ref, found[member.ref])
        return found

    def _step(self, carried: Sequence[Value]) -> Sequence[Value]:
        """The maximum so far and the sums, which are of terms for it."""
        ctx, (old, *totals) = self.ctx, carried
        (new,) = self.maximum.step([old])
        finite = self._finite(new)
        ctx.remember(self.base, PlacedTile(finite, self.maximum.total_frame))
        difference = ctx.b(math.Sub(ctx.cast(old, f32), ctx.cast(finite, f32)))
        factors: dict[type[Op], Value] = {}
        results = [new]
        for member, total in zip(self.sums, totals, strict=True):
            rescaling = _rescaling(ctx, member.ref)
            assert rescaling is not None, "this is how it was found"
            function = rescaling.function
            if function not in factors:
                factors[function] = ctx.b(function.create((difference,), (), (difference.type,)))
            factor = ctx.align(
                PlacedTile(factors[function], self.maximum.total_frame), member.total_frame
            )
            results += member.step([ctx.binary(math.Mul, total, factor)])
        return results

    def _finite(self, maximum: Value) -> Value:
        """The maximum, or 0 where that is -inf, so that no term `x - m` is nan before there is one
        that counts."""
        ctx, type_ = self.ctx, element_type(maximum.type)
        lowest = ctx.typed_constant(float("-inf"), type_)
        is_lowest = ctx.b(math.Compare(Predicate.EQ, maximum, lowest))
        return ctx.select(is_lowest, ctx.typed_constant(0, type_), maximum)

    def _in_the_end(self, member: _SumMember, placed: PlacedTile) -> PlacedTile:
        """A sum times what its terms were not multiplied with in the loop.

        To add `m - m` makes it nan if the maximum is infinite, as then a term `x - m` is.
        """
        ctx, rescaling = self.ctx, _rescaling(self.ctx, member.ref)
        assert rescaling is not None, "this is how it was found"
        value, frame = placed
        maximum = ctx.tile_of(self.base, self.maximum.total_frame)
        nothing = ctx.b(math.Sub(maximum, maximum))
        value = self._applied(math.Add, value, PlacedTile(nothing, self.maximum.total_frame), frame)
        for op, ref in rescaling.end:
            own = ctx.lane_axes(ctx.dependencies[ref])
            value = self._applied(op, value, PlacedTile(ctx.tile_of(ref, own), own), frame)
        return PlacedTile(value, frame)

    def _applied(self, op: type[Op], value: Value, other: PlacedTile, frame: Frame) -> Value:
        ctx = self.ctx
        right = ctx.cast(ctx.align(other, frame), value.type.element)
        return ctx.binary(op, value, right)
