"""Reductions, scans and products: what is made of the elements along axes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar

from iris.ir import math, tile
from iris.ir.core import Value
from iris.ir.kinds import ReduceKind, accumulator, combined, identity
from iris.ir.math import Predicate, element_type
from iris.ir.types import DType, ElementType, Tile, i32
from iris.passes.graph.tiling.demand import Demand, Unfit, Within
from iris.passes.graph.tiling.emit import Emitter, Frame, Made, makes
from iris.passes.graph.tiling.index import Index
from iris.passes.graph.tiling.recipes import (
    Combining,
    Contraction,
    Load,
    Recipe,
    Reduction,
    Running,
    Same,
)

Kind = TypeVar("Kind", bound=Combining)
PLACES = (ReduceKind.ARGMAX, ReduceKind.ARGMIN)


class _Part(ABC, Generic[Kind]):
    """One of what goes over the same axes in the same loop."""

    def __init__(self, to: Emitter, recipe: Kind, demand: Demand):
        self.to = to
        self.recipe = recipe
        self.demand = demand

    @abstractmethod
    def starts(self) -> Sequence[Value]:
        """What the loop carries at its start."""

    @abstractmethod
    def once(self, carried: Sequence[Value]) -> Sequence[Value]:
        """What it carries on from a round."""

    @abstractmethod
    def finish(self, carried: Sequence[Value]) -> Made:
        """What is made of what it has carried to its end."""


def _part(to: Emitter, recipe: Recipe, demand: Demand) -> _Part[Any]:
    if isinstance(recipe, Contraction):
        return _Product(to, recipe, demand)
    assert isinstance(recipe, Reduction)
    return (_Places if recipe.kind in PLACES else _Values)(to, recipe, demand)


@makes(Reduction)
def reduction(to: Emitter, recipe: Reduction, demand: Demand, frame: Frame) -> Made:
    if all(axis in to.plan.lanes for axis in recipe.over):
        return _Values(to, recipe, demand).at_once()
    return _looped(to, recipe, demand)


@makes(Contraction)
def contraction(to: Emitter, recipe: Contraction, demand: Demand, frame: Frame) -> Made:
    return _looped(to, recipe, demand)


def _looped(to: Emitter, recipe: Combining, demand: Demand) -> Made:
    """What a loop makes, and with it what else goes over the same axes."""
    loops = [axis for axis in recipe.over if axis not in to.plan.lanes]
    to.prepare(recipe.demands, set(loops))
    parts = [_part(to, recipe, demand)]
    for other, known in to.recipes.items():
        goes_along = isinstance(known, type(recipe)) and known.over == recipe.over
        if goes_along and other != demand and to.is_ready(other):
            parts.append(_part(to, known, other))
    starts = [part.starts() for part in parts]

    def shares(carried: Sequence[Value]) -> Iterator[tuple[_Part[Any], Sequence[Value]]]:
        """What each part has of what is carried."""
        for part, start in zip(parts, starts, strict=True):
            yield part, carried[: len(start)]
            carried = carried[len(start) :]

    needed = [d for part in parts for d in part.recipe.demands]
    ends = to.loop(
        loops,
        needed,
        [value for start in starts for value in start],
        lambda carried: [v for part, own in shares(carried) for v in part.once(own)],
    )
    mades = {part.demand: part.finish(own) for part, own in shares(ends)}
    for made_of, made in mades.items():
        to.keep(made_of, made)
    return mades[demand]


class _Values(_Part[Reduction]):
    """A reduction to a value."""

    def __init__(self, to: Emitter, recipe: Reduction, demand: Demand):
        super().__init__(to, recipe, demand)
        axes = {*to.dependencies[recipe.demand], *recipe.over}
        self.frame = to.lanes_of(axes)
        self.shape = to.shape(self.frame, axes)
        self.element = demand.element

    def operand(self) -> Value:
        """The elements, of which those over the end do not count."""
        to = self.to
        value = to.element(self.recipe.demand, self.frame)
        mask = to.mask(self.recipe.over, (), self.frame)
        if mask is not None:
            none = identity(self.recipe.kind, element_type(value.type).element)
            value = to.choose(mask, value, to.constant_of(none, element_type(value.type)))
        return to.spread(value, self.shape)

    def at_once(self) -> Made:
        """What is left, rounded once, also where several axes go one after the other."""
        value = self.operand()
        if len(self.recipe.over) > 1:
            value = self.to.cast(value, accumulator(self.recipe.kind, self.element))
        return self.finish([value])

    def reduced(self, value: Value) -> Made:
        """What is left when the lanes are reduced."""
        frame = list(self.frame)
        for axis in reversed(self.frame):
            if axis in self.recipe.over:
                value = self.to.b(tile.Reduce(self.recipe.kind, frame.index(axis), value))
                frame.remove(axis)
        return self.to.named(value, self.demand, tuple(frame))

    def starts(self) -> Sequence[Value]:
        kind, element = self.recipe.kind, accumulator(self.recipe.kind, self.element)
        type_ = Tile(self.shape, element) if self.shape else element
        return [self.to.constant_of(identity(kind, element), type_)]

    def once(self, carried: Sequence[Value]) -> Sequence[Value]:
        (total,) = carried
        value = self.to.cast(self.operand(), element_type(total.type).element)
        return [self.to.b(combined(self.recipe.kind)(total, value))]

    def finish(self, carried: Sequence[Value]) -> Made:
        (total,) = carried
        made = self.reduced(total)
        return Made(self.to.cast(made.value, self.element), made.frame)


class _Places(_Values):
    """A reduction to the first place of an extremum, where nan is the most extreme."""

    @property
    def _extremum(self) -> ReduceKind:
        is_max = self.recipe.kind is ReduceKind.ARGMAX
        return ReduceKind.MAXIMUM if is_max else ReduceKind.MINIMUM

    def starts(self) -> Sequence[Value]:
        to, element = self.to, self.recipe.demand.element
        none = to.constant_of(identity(self._extremum, element), self._type(element))
        # The first round's own places, for where nothing is more extreme than that.
        lanes = [axis for axis in self.recipe.over if axis in to.plan.lanes]
        place = to.number(0) if not lanes else to.index(Index.of(lanes[0]), self.frame)
        return [none, to.spread(place, self.shape) if self.shape else place]

    def _type(self, element: DType) -> ElementType:
        return Tile(self.shape, element) if self.shape else element

    def once(self, carried: Sequence[Value]) -> Sequence[Value]:
        to, (best, place) = self.to, carried
        value = self.operand()
        is_max = self.recipe.kind is ReduceKind.ARGMAX
        predicate = Predicate.GT if is_max else Predicate.LT
        better = to.b(math.Compare(predicate, value, best))
        if element_type(best.type).element.is_float:
            # Nothing is more extreme than a nan that was before.
            is_number = to.b(math.Compare(Predicate.EQ, best, best))
            is_nan = to.b(math.Compare(Predicate.NE, value, value))
            better = to.b(math.Or(better, to.b(math.And(is_nan, is_number))))
        here = to.spread(to.index(self._index(), self.frame), self.shape)
        return [to.b(math.Select(better, value, best)), to.b(math.Select(better, here, place))]

    def _index(self) -> Index:
        """The place along the axis that is reduced."""
        return self.to.plan.place(self.recipe.over)

    def finish(self, carried: Sequence[Value]) -> Made:
        to, (best, place) = self.to, carried
        lanes = [axis for axis in self.frame if axis in self.recipe.over]
        if not lanes:
            return to.named(place, self.demand, self.frame)
        (lane,) = lanes
        at = self.frame.index(lane)
        extreme = to.b(tile.Reduce(self._extremum, at, best))
        rest = tuple([axis for axis in self.frame if axis is not lane])
        extreme = to.spread(to.align(Made(extreme, rest), self.frame), self.shape)
        is_it = to.b(math.Compare(Predicate.EQ, best, extreme))
        if element_type(best.type).element.is_float:
            nan = to.b(math.Compare(Predicate.NE, best, best))
            is_it = to.b(math.Or(is_it, nan))
        far = to.constant_of(i32.high, element_type(place.type))
        first = to.b(math.Select(is_it, place, far))
        return to.named(to.b(tile.Reduce(ReduceKind.MINNUM, at, first)), self.demand, rest)


@makes(Running)
def running(to: Emitter, recipe: Running, demand: Demand, frame: Frame) -> Made:
    """A scan of the lanes, after what it has come to in the rounds before."""
    lanes = [axis for axis in recipe.over if axis in to.plan.lanes]
    scalars = [axis for axis in recipe.over if axis not in to.plan.lanes]
    total = to.running.get(demand)
    if len(lanes) > 1 or len(scalars) > 1 or (scalars and total is None):
        raise Unfit("a scan goes along its axis from the start")
    axes = {*to.dependencies[recipe.demand], *recipe.over}
    frame = to.lanes_of(axes)
    kind = recipe.kind
    shape = to.shape(frame, axes)
    value = to.spread(to.element(recipe.demand, frame), shape)
    if total is not None:
        value = to.cast(value, element_type(total.type).element)
        mask = to.mask(recipe.over, (), frame)
        if mask is not None:
            none = identity(kind, element_type(value.type).element)
            value = to.choose(mask, value, to.constant_of(none, element_type(value.type)))
    result = value
    if lanes:
        result = to.b(tile.Scan(recipe.kind, frame.index(lanes[0]), value))
    if total is not None:
        result = to.binary(combined(kind), total, result)
        whole = result
        if lanes:
            at = frame.index(lanes[0])
            part = to.b(tile.Reduce(ReduceKind(kind.value), at, value))
            rest = tuple([axis for axis in frame if axis is not lanes[0]])
            whole = to.binary(combined(kind), total, to.align(Made(part, rest), frame))
        to.running[demand] = whole
    return to.named(to.cast(result, demand.element), demand, frame)


class _Product(_Part[Contraction]):
    """A sum of products: of matrices, where there are lanes along what is made and what is
    summed; else of elements."""

    def __init__(self, to: Emitter, recipe: Contraction, demand: Demand):
        super().__init__(to, recipe, demand)
        over = {*recipe.over}
        self.depth = to.lanes_of(over)
        self.a = to.lanes_of(to.dependencies[recipe.a] - over)
        self.b = to.lanes_of(to.dependencies[recipe.b] - over)
        self.is_matrix = (
            len(self.depth) == len(self.a) == len(self.b) == 1
            and self.a != self.b
            and all(to.covers((*self.depth, *self.b), c) for c in recipe.inside)
        )
        axes = over.union(*(to.dependencies[d] for d in (demand, recipe.a, recipe.b)))
        self.frame: Frame = (*self.a, *self.b) if self.is_matrix else to.lanes_of(axes)
        self.shape = to.shape(self.frame, axes)

    def starts(self) -> Sequence[Value]:
        type_ = Tile(self.shape, self.recipe.element) if self.shape else self.recipe.element
        return [self.to.constant_of(0, type_)]

    def once(self, carried: Sequence[Value]) -> Sequence[Value]:
        (total,) = carried
        to, recipe = self.to, self.recipe
        frames = (self.frame, self.frame)
        if self.is_matrix:
            frames = (*self.a, *self.depth), (*self.depth, *self.b)
        a = self.operand(recipe.a, frames[0], ())
        b = self.operand(recipe.b, frames[1], recipe.inside)
        if self.is_matrix:
            return [to.b(tile.Dot(a, b, total))]
        product = to.binary(math.Mul, to.cast(a, recipe.element), to.cast(b, recipe.element))
        return [to.b(math.Add(total, to.spread(product, self.shape)))]

    def operand(self, demand: Demand, frame: Frame, inside: Sequence[Within]) -> Value:
        """The elements of a factor, 0 where they do not count."""
        to = self.to
        value = to.element(demand, frame)
        if not self._is_zero_elsewhere(demand, inside):
            mask = to.mask(self.recipe.over, inside, frame)
            if mask is not None:
                value = to.choose(mask, value, to.constant_of(0, element_type(value.type)))
        if self.is_matrix:
            value = to.spread(value, to.shape(frame, frame))
        return value

    def _is_zero_elsewhere(self, demand: Demand, inside: Sequence[Within]) -> bool:
        """Whether a factor is loaded as 0 where it does not count."""
        known = self.to.recipes[demand]
        while isinstance(known, Same):
            known = self.to.recipes[known.demand]
        return (
            isinstance(known, Load)
            and {*inside} <= known.guard
            and {*self.recipe.over} <= self.to.demands.axes_in([known.address])
        )

    def finish(self, carried: Sequence[Value]) -> Made:
        (total,) = carried
        frame = list(self.frame)
        if not self.is_matrix:
            for axis in self.depth:
                total = self.to.b(tile.Reduce(ReduceKind.SUM, frame.index(axis), total))
                frame.remove(axis)
        return self.to.named(total, self.demand, tuple(frame))
