"""What the aggregates of a loop do in it: each carries values, and has a result after it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from itertools import groupby
from math import prod
from typing import Generic, TypeVar

from iris.ir import math, tile
from iris.ir.core import Value
from iris.ir.kinds import ReduceKind, accumulator, combined, identity
from iris.ir.math import Predicate, element_type
from iris.ir.types import DType, ElementType, Tile, f32
from iris.passes.graph.tiling.element_exprs import (
    Aggregate,
    Contraction,
    DeviationsExpr,
    LoadExpr,
    ReduceExpr,
    Substitution,
)
from iris.passes.graph.tiling.element_ref import ElementRef, Within
from iris.passes.graph.tiling.index_expr import Axis, IndexExpr
from iris.passes.graph.tiling.tile_emitter import Emitter, Frame, PlacedTile

Expr = TypeVar("Expr", bound=Aggregate)


class LoopMember(ABC, Generic[Expr]):
    """One of the aggregates that share a loop over the same axes."""

    #: The loops that are to be outside the others.
    outermost: Collection[Axis] = ()

    def __init__(self, ctx: Emitter, expr: Expr, ref: ElementRef):
        self.ctx = ctx
        self.expr = expr
        self.ref = ref

    @abstractmethod
    def initial(self) -> Sequence[Value]:
        """The initial carried values."""

    @abstractmethod
    def step(self, carried: Sequence[Value]) -> Sequence[Value]:
        """The carried values after an iteration."""

    @abstractmethod
    def finish(self, carried: Sequence[Value]) -> PlacedTile:
        """The result, from the carried values after the loop."""


class ValueReduction(LoopMember[ReduceExpr]):
    """A reduction to a value."""

    def __init__(self, ctx: Emitter, expr: ReduceExpr, ref: ElementRef):
        super().__init__(ctx, expr, ref)
        axes = {*ctx.dependencies[expr.ref], *expr.over}
        self.frame = ctx.lane_axes(axes)
        self.shape = ctx.tile_shape(self.frame, axes)
        self.element = ref.element

    def operand(self) -> Value:
        """The elements, neutral past the end."""
        ctx = self.ctx
        value = ctx.tile_of(self.expr.ref, self.frame)
        mask = ctx.mask(self.expr.over, (), self.frame)
        if mask is not None:
            neutral = identity(self.expr.kind, value.type.element)
            value = ctx.select(mask, value, ctx.typed_constant(neutral, element_type(value.type)))
        return ctx.broadcast(value, self.shape)

    def reduce_at_once(self) -> PlacedTile:
        """Reduce without a loop; round once, even if several axes are reduced in turn."""
        value = self.operand()
        if len(self.expr.over) > 1:
            value = self.ctx.cast(value, accumulator(self.expr.kind, self.element))
        return self.finish([value])

    def reduce_lanes(self, value: Value) -> PlacedTile:
        """Reduce the lanes; axes that are side by side as one, so that threads exchange once."""
        ctx, over = self.ctx, self.expr.over
        groups = [
            (is_reduced, [*axes]) for is_reduced, axes in groupby(self.frame, over.__contains__)
        ]
        sizes = dict(zip(self.frame, self.shape, strict=True))
        shape: list[int] = []
        reduced = []
        for is_reduced, axes in groups:
            if is_reduced:
                reduced.append(len(shape))
            own = [sizes[axis] for axis in axes]
            shape += [prod(own)] if is_reduced else own
        if len(shape) < len(self.frame):
            value = ctx.b(tile.Reshape(value, Tile(tuple(shape), element_type(value.type).element)))
        for position in reversed(reduced):
            value = ctx.b(tile.Reduce(self.expr.kind, position, value))
        return ctx.name_tile(value, self.ref, tuple([a for a in self.frame if a not in over]))

    def initial(self) -> Sequence[Value]:
        kind, element = self.expr.kind, accumulator(self.expr.kind, self.element)
        type_ = Tile(self.shape, element) if self.shape else element
        return [self.ctx.typed_constant(identity(kind, element), type_)]

    def step(self, carried: Sequence[Value]) -> Sequence[Value]:
        (total,) = carried
        value = self.ctx.cast(self.operand(), total.type.element)
        return [self.ctx.b(combined(self.expr.kind)(total, value))]

    def finish(self, carried: Sequence[Value]) -> PlacedTile:
        (total,) = carried
        placed = self.reduce_lanes(total)
        return PlacedTile(self.ctx.cast(placed.value, self.element), placed.frame)


class ArgReduction(ValueReduction):
    """A reduction to the first index of an extremum; nan is the most extreme."""

    @property
    def _extremum(self) -> ReduceKind:
        is_max = self.expr.kind is ReduceKind.ARGMAX
        return ReduceKind.MAXIMUM if is_max else ReduceKind.MINIMUM

    def initial(self) -> Sequence[Value]:
        ctx, element = self.ctx, self.expr.ref.element
        neutral = ctx.typed_constant(identity(self._extremum, element), self._type(element))
        # The indices of the first iteration, in case no element beats the neutral one.
        lanes = [axis for axis in self.expr.over if axis in ctx.plan.lanes]
        best_index = ctx.constant(0) if not lanes else ctx.index(IndexExpr.of(lanes[0]), self.frame)
        return [neutral, ctx.broadcast(best_index, self.shape) if self.shape else best_index]

    def _type(self, element: DType) -> ElementType:
        return Tile(self.shape, element) if self.shape else element

    def step(self, carried: Sequence[Value]) -> Sequence[Value]:
        ctx, (best, best_index) = self.ctx, carried
        value = self.operand()
        is_max = self.expr.kind is ReduceKind.ARGMAX
        predicate = Predicate.GT if is_max else Predicate.LT
        better = ctx.b(math.Compare(predicate, value, best))
        if best.type.element.is_float:
            # An earlier nan wins.
            is_number = ctx.b(math.Compare(Predicate.EQ, best, best))
            is_nan = ctx.b(math.Compare(Predicate.NE, value, value))
            better = ctx.b(math.Or(better, ctx.b(math.And(is_nan, is_number))))
        index = ctx.broadcast(ctx.index(self._index(), self.frame), self.shape)
        return [
            ctx.b(math.Select(better, value, best)),
            ctx.b(math.Select(better, index, best_index)),
        ]

    def _index(self) -> IndexExpr:
        """The index along the reduced axis."""
        return self.ctx.plan.offset_along(self.expr.over)

    def finish(self, carried: Sequence[Value]) -> PlacedTile:
        ctx, (best, best_index) = self.ctx, carried
        lanes = [axis for axis in self.frame if axis in self.expr.over]
        if not lanes:
            return ctx.name_tile(best_index, self.ref, self.frame)
        (lane,) = lanes
        position = self.frame.index(lane)
        rest = tuple([axis for axis in self.frame if axis is not lane])
        place = ctx.b(tile.Reduce(self.expr.kind, position, best, best_index))
        return ctx.name_tile(place, self.ref, rest)


class DeviationLoop(ValueReduction):
    """A sum of squared deviations from the mean: each lane has a mean and a sum of its own.

    The mean is an average of two in each iteration.  So it is finite where all elements are, and
    where the squares are too great the sum is infinite, not nan.
    """

    def __init__(self, ctx: Emitter, expr: DeviationsExpr, ref: ElementRef):
        super().__init__(ctx, expr, ref)
        self.first = expr.first
        self.looped = [axis for axis in expr.over if axis not in ctx.plan.lanes]
        self.ends = [end for axis, end in ctx.plan.ends.items() if axis in expr.over]
        ending = ctx.elements.axes_in([end.index for end in self.ends])
        self.outermost = [axis for axis in self.looped if axis in ending]
        # With one such loop, outside the others, it is its last iteration that some lanes have no
        # element in, and then it does not matter how many they had.
        self.is_uneven = len(self.outermost) > 1

    def initial(self) -> Sequence[Value]:
        ctx = self.ctx
        self.shift = self._near(ctx.tile_of(self.first, self.frame))
        zero = self._constant(0)
        return [zero if self.is_uneven else ctx.typed_constant(0, f32), zero, zero]

    def _constant(self, n: float) -> Value:
        return self.ctx.typed_constant(n, Tile(self.shape, f32) if self.shape else f32)

    def _near(self, first: Value) -> Value:
        """The first element, or 0 where to subtract that could overflow, or it is no number."""
        ctx, type_ = self.ctx, element_type(first.type)
        most = ctx.typed_constant(2.0**100, type_)
        is_small = ctx.b(math.Compare(Predicate.LE, ctx.b(math.Abs(first)), most))
        return ctx.select(is_small, first, ctx.typed_constant(0, type_))

    def step(self, carried: Sequence[Value]) -> Sequence[Value]:
        ctx, (count, mean, total) = self.ctx, carried
        x = ctx.broadcast(ctx.tile_of(self.expr.ref, self.frame), self.shape)
        x = ctx.binary(math.Sub, x, self.shift)
        mask = ctx.mask(self.expr.over, (), self.frame)
        if mask is not None:  # which changes nothing
            x = ctx.select(mask, x, mean)
        one = ctx.typed_constant(1, element_type(count.type))
        more = ctx.b(math.Add(count, one))
        if mask is not None and self.is_uneven:
            more = ctx.select(mask, more, count)
        # Of a lane without elements, any weight will do.
        divisor = ctx.b(math.MaxNum(more, one)) if self.is_uneven else more
        weight = ctx.b(math.Div(one, divisor))
        rest = ctx.b(math.Sub(one, weight))
        part = ctx.binary(math.Mul, mean, rest)
        new = ctx.b(math.Fma(x, ctx.broadcast(weight, self.shape), part))
        difference, left = ctx.b(math.Sub(x, mean)), ctx.b(math.Sub(x, new))
        return [more, new, ctx.b(math.Fma(difference, left, total))]

    def finish(self, carried: Sequence[Value]) -> PlacedTile:
        """Add what the means of lanes deviate from the mean of all."""
        ctx, (_, mean, total) = self.ctx, carried
        if not any(axis in self.expr.over for axis in self.frame):
            return ctx.name_tile(total, self.ref, self.frame)
        counts, whole = self._counts()
        share = ctx.binary(math.Mul, counts, ctx.typed_constant(1 / whole, f32))
        middle = self.reduce_lanes(ctx.binary(math.Mul, mean, share))
        difference = ctx.binary(math.Sub, mean, ctx.align(middle, self.frame))
        weighted = ctx.binary(math.Mul, difference, counts)
        return self.reduce_lanes(ctx.b(math.Fma(weighted, difference, total)))

    def _counts(self) -> tuple[Value, int]:
        """How many elements each lane has, and how many there are in all."""
        ctx, over, ends, looped = self.ctx, self.expr.over, self.ends, self.looped
        ending = ctx.elements.axes_in([end.index for end in ends])
        even = [axis for axis in over if axis not in ending]
        counts = ctx.typed_constant(prod([a.size for a in even if a not in ctx.plan.lanes]), f32)
        last = Substitution({axis: IndexExpr((), axis.high) for axis in looped})
        for end in ends:
            blocks = prod([a.size for a in ctx.elements.axes_in([end.index]) if a in looped])
            in_last = ctx.all_of([last.within(end)], self.frame)
            assert in_last is not None, "the last block has lanes past the end"
            own = ctx.binary(math.Add, ctx.typed_constant(blocks - 1, f32), ctx.cast(in_last, f32))
            counts = ctx.binary(math.Mul, counts, own)
        return counts, prod([a.size for a in even] + [end.high for end in ends])


class ContractionLoop(LoopMember[Contraction]):
    """A sum of products: `tile.dot` where rows, columns and depth have lanes, else elementwise."""

    def __init__(self, ctx: Emitter, expr: Contraction, ref: ElementRef):
        super().__init__(ctx, expr, ref)
        over = {*expr.over}
        self.depth = ctx.lane_axes(over)
        self.a = ctx.lane_axes(ctx.dependencies[expr.a] - over)
        self.b = ctx.lane_axes(ctx.dependencies[expr.b] - over)
        self.is_matrix = (
            len(self.depth) == len(self.a) == len(self.b) == 1
            and self.a != self.b
            and all(ctx.covers((*self.depth, *self.b), c) for c in expr.inside)
        )
        axes = over.union(*(ctx.dependencies[r] for r in (ref, expr.a, expr.b)))
        self.frame: Frame = (*self.a, *self.b) if self.is_matrix else ctx.lane_axes(axes)
        self.total_frame = self.frame
        self.shape = ctx.tile_shape(self.frame, axes)

    def initial(self) -> Sequence[Value]:
        type_ = Tile(self.shape, self.expr.element) if self.shape else self.expr.element
        return [self.ctx.typed_constant(0, type_)]

    def step(self, carried: Sequence[Value]) -> Sequence[Value]:
        (total,) = carried
        ctx, expr = self.ctx, self.expr
        frames = (self.frame, self.frame)
        if self.is_matrix:
            frames = (*self.a, *self.depth), (*self.depth, *self.b)
        a = self.operand(expr.a, frames[0], ())
        b = self.operand(expr.b, frames[1], expr.inside)
        if self.is_matrix:
            return [ctx.b(tile.Dot(a, b, total))]
        product = ctx.binary(math.Mul, ctx.cast(a, expr.element), ctx.cast(b, expr.element))
        return [ctx.b(math.Add(total, ctx.broadcast(product, self.shape)))]

    def operand(self, ref: ElementRef, frame: Frame, inside: Sequence[Within]) -> Value:
        """The elements of a factor, 0 in masked lanes."""
        ctx = self.ctx
        value = ctx.tile_of(ref, frame)
        if not self._is_zero_elsewhere(ref, inside):
            mask = ctx.mask(self.expr.over, inside, frame)
            if mask is not None:
                value = ctx.select(mask, value, ctx.typed_constant(0, element_type(value.type)))
        if self.is_matrix:
            value = ctx.broadcast(value, ctx.tile_shape(frame, frame))
        return value

    def _is_zero_elsewhere(self, ref: ElementRef, inside: Sequence[Within]) -> bool:
        """Whether a factor is loaded with 0 in masked lanes."""
        expr = self.ctx.elements.defined(ref)
        return (
            isinstance(expr, LoadExpr)
            and {*inside} <= expr.guard
            and {*self.expr.over} <= self.ctx.elements.axes_in([expr.offset])
        )

    def finish(self, carried: Sequence[Value]) -> PlacedTile:
        (total,) = carried
        frame = list(self.frame)
        if not self.is_matrix:
            for axis in self.depth:
                total = self.ctx.b(tile.Reduce(ReduceKind.SUM, frame.index(axis), total))
                frame.remove(axis)
        return self.ctx.name_tile(total, self.ref, tuple(frame))
