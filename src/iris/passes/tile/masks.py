"""Masks: which lanes of a value count, as conditions along axes, and the IR made of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from math import copysign

from iris.analysis.minus_zero import stays_if_zero_is_added
from iris.ir import math, tile
from iris.ir.builder import Builder
from iris.ir.core import Facet, Location, Op, Region, Value
from iris.ir.kinds import ReduceKind
from iris.ir.math import Constant, element_type
from iris.ir.types import DType, ElementType, Tile, bool_
from iris.ir.updates import ELEMENTWISE


@dataclass(frozen=True)
class MaskFactor:
    """One condition of a mask.

    Its value has the axes that the condition depends on, in order; it is a scalar if there are
    none.
    """

    value: Value
    axes: tuple[int, ...]
    origin: Location | None = field(compare=False)  # of the load it comes from
    witness: Witness | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Witness:
    """The factors that imply a factor of the form "somewhere along an axis".

    Each has a value, and the positions of its axes among the common axes.
    """

    values: tuple[tuple[Value, Axes], ...]
    position: int  # of the axis that was dropped


Mask = tuple[MaskFactor, ...]  # a conjunction; an empty one masks nothing
Axes = tuple[int, ...]
Rule = Callable[[Op, "Masks"], None]
Values = tuple[Value, ...]

follow = Facet("mask")


def conjunction(*masks: Mask) -> Mask:
    """The conjunction of masks, without factors that others imply."""
    mask = tuple(dict.fromkeys(chain(*masks)))
    return tuple(f for f in mask if not _follows(f, mask))


def difference(mask: Mask, known: Mask) -> Mask:
    """The factors of a mask that another mask does not imply."""
    return tuple(f for f in mask if f not in known and not _follows(f, known))


def _follows(factor: MaskFactor, mask: Mask) -> bool:
    """Whether a mask implies a factor of the form "somewhere along an axis"."""
    if factor.witness is None:
        return False
    sources: Mask = ()
    for value, _ in factor.witness.values:
        found = [f for f in mask if f.value is value]
        if len(found) != 1:
            return False
        sources += (found[0],)
    axes = axes_of(sources)
    position = factor.witness.position
    return factor.axes == axes[:position] + axes[position + 1 :] and all(
        f.axes == tuple(axes[p] for p in positions if p < len(axes))
        for f, (_, positions) in zip(sources, factor.witness.values, strict=True)
    )


def axes_of(mask: Mask) -> Axes:
    return tuple(sorted({a for f in mask for a in f.axes}))


def sizes_of(mask: Mask) -> tuple[int, ...]:
    """The sizes of the axes of a mask."""
    size = {a: s for f in mask for a, s in zip(f.axes, shape_of(f.value), strict=True)}
    return tuple(size[a] for a in axes_of(mask))


def origin_of(mask: Mask) -> Location | None:
    return next((f.origin for f in mask if f.origin is not None), None)


def shape_of(value: Value) -> tuple[int, ...]:
    return element_type(value.type).shape


def tile_or_scalar(shape: tuple[int, ...], element: DType = bool_) -> ElementType:
    return Tile(shape, element) if shape else element


def _is_zero(other: Value | float) -> bool:
    """Whether a number is 0 and not -0.0."""
    return not isinstance(other, Value) and other == 0 and copysign(1, other) > 0


class Masks:
    """The masks of the values visited so far, and the ops created for them."""

    def __init__(self) -> None:
        self.of: dict[Value, Mask] = {}  # of masked values only
        self.zeroed: dict[Value, Mask] = {}  # the factors whose masked lanes are 0
        self.unadded: dict[Value, Mask] = {}  # where a dot adds 0 to its accumulator
        self.lost: dict[Value, frozenset[MaskFactor]] = {}  # where updates keep old elements
        self._created: list[Op] = []
        self._scopes: list[dict[Hashable, Value]] = []  # made before, one for each region
        self._scope_of: dict[Region, dict[Hashable, Value]] = {}
        self._narrowed: dict[Value, Value] = {}
        self._varies: dict[Value, Axes] = {}
        self._builder = Builder(Region())

    def follow_region(self, region: Region) -> None:
        scope = self._scope_of[region] = {}
        saved = self._builder
        self._scopes.append(scope)
        for op in region:
            if op.terminator:  # what it carries is its parent's to follow
                break
            masked = not self.of.keys().isdisjoint(op.operands)
            if masked or op.regions or isinstance(op, (tile.MaskedLoad, tile.Update)):
                self.insert_before(op)
                rule: Rule = follow[type(op)]
                rule(op, self)
        self._scopes.pop()
        self._builder = saved

    @contextmanager
    def at_end(self, region: Region) -> Iterator[Op]:
        """Insert before the terminator of a visited region."""
        saved = self._builder
        self._scopes.append(self._scope_of[region])
        self.insert_before(region.end)
        yield region.end
        self._scopes.pop()
        self._builder = saved

    def insert_before(self, op: Op) -> None:
        """Insert before an op, with its location."""
        self._builder = Builder.before_op(op)

    def erase_unused(self) -> None:
        """Erase created ops without users."""
        for op in reversed(self._created):
            if not [v for v in op.results if v.users]:
                op.erase()

    # Masks of values.

    def __getitem__(self, value: Value) -> Mask:
        return self.of.get(value, ())

    def __setitem__(self, value: Value, mask: Mask) -> None:
        if mask:
            self.of[value] = mask
        else:
            self.of.pop(value, None)

    def all_of(self, values: Iterable[Value]) -> Mask:
        return conjunction(*(self[v] for v in values))

    # Making ops.

    def make(self, op: Op, name: str | None = None) -> Value:
        self._created.append(op)
        return self._builder(op, name)

    def insert(self, op: Op) -> None:
        """Insert an op that stays even if unused."""
        self._builder.insert(op)

    def replace(self, op: Op, by: Op) -> Value:
        """Replace an op by another one with the same type of result."""
        old, new = op.results[0], self._builder.insert(by).results[0]
        new.name = old.name
        old.replace_by(new)
        op.erase()
        return new

    def constant(self, number: float, type_: ElementType) -> Value:
        key = ("constant", str(number), type_)
        return self._cached(key, lambda: self.make(Constant(number, type_)))

    def _cached(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """The value created for a key in this or an outer region, else a new one."""
        for scope in self._scopes:
            if key in scope:
                return scope[key]
        value = self._scopes[-1][key] = make()
        return value

    def holds(self, mask: Mask, axes: Axes, sizes: tuple[int, ...]) -> Value:
        """A mask as a value along some axes, which include its own."""

        def make() -> Value:
            if not mask:
                return self.constant(1, tile_or_scalar(sizes))
            own = axes_of(mask)
            if own != axes:
                size = dict(zip(axes, sizes, strict=True))
                narrow = self.holds(mask, own, tuple(size[a] for a in own))
                return self.broadcast(narrow, own, axes, sizes)
            parts = [self.broadcast(f.value, f.axes, axes, sizes) for f in mask]
            whole = parts[0]
            for part in parts[1:]:
                whole = self.make(math.And(whole, part))
            return whole

        if len(mask) == 1 and mask[0].axes == axes:
            return mask[0].value
        return self._cached((frozenset(mask), axes, sizes), make)

    def holds_in(self, mask: Mask, shape: tuple[int, ...]) -> Value:
        return self.holds(mask, tuple(range(len(shape))), shape)

    def broadcast(self, x: Value, own: Axes, axes: Axes, sizes: tuple[int, ...]) -> Value:
        """Broadcast a value from its own axes to more axes."""
        type_ = tile_or_scalar(sizes, x.type.element)
        if own:
            for position, axis in enumerate(axes):
                if axis not in own:
                    x = self.make(tile.ExpandDims(position, x))
        return x if x.type is type_ else self.make(tile.Broadcast(x, type_))

    def select(self, mask: Mask, x: Value, other: Value | float) -> Value:
        """Select a value where a mask holds, and another elsewhere."""
        if x in self.zeroed and _is_zero(other):
            mask = difference(mask, self.zeroed[x])
        if not mask:
            return x
        if not isinstance(other, Value):
            other = self.constant(other, element_type(x.type))
        shape = shape_of(x)
        scalar = not axes_of(mask)
        where = self.holds(mask, (), ()) if scalar else self.holds_in(mask, shape)
        return self.make(math.Select(where, x, other))

    def update(self, mask: Mask, new: Value, old: Value) -> Value:
        """Select a new value where a mask holds, and the old one elsewhere."""
        return self.select(tuple(f for f in mask if not self._is_old(f, new, old)), new, old)

    def _is_old(self, factor: MaskFactor, new: Value, old: Value) -> bool:
        """Whether only zeros are added to a value where a factor does not hold."""
        if new is old:
            return True
        start = None  # the value before the zeros
        if isinstance(new.op, tile.Dot) and factor in self.unadded.get(new, ()):
            start = new.op.acc
        elif isinstance(new.op, math.Add):
            for one, other in (new.op.operands, reversed(new.op.operands)):
                if factor in self.zeroed.get(other, ()):
                    start = one
        return (
            start is not None and stays_if_zero_is_added(start) and self._is_old(factor, start, old)
        )

    def either(self, one: Mask, other: Mask) -> Mask:
        """The disjunction of two masks."""
        axes, sizes = axes_of((*one, *other)), sizes_of((*one, *other))
        value = self.make(math.Or(self.holds(one, axes, sizes), self.holds(other, axes, sizes)))
        return (MaskFactor(value, axes, origin_of((*one, *other))),)

    def any_along(
        self, mask: Mask, axis: int, shape: tuple[int, ...], found: Value | None = None
    ) -> MaskFactor:
        """Whether a mask holds somewhere along an axis; the other axes keep their numbers.

        `found` tells it already; without it, or a value made before, the mask is reduced.
        """
        axes = axes_of(mask)
        position = axes.index(axis)

        def make() -> Value:
            if found is not None:
                return found
            whole = self.holds(mask, axes, tuple(shape[a] for a in axes))
            return self.make(tile.Reduce(ReduceKind.ANY, position, whole))

        value = self._cached(("any", axis, frozenset(mask), shape), make)
        witness = Witness(
            tuple((f.value, tuple(axes.index(a) for a in f.axes)) for f in mask), position
        )
        left = axes[:position] + axes[position + 1 :]
        return MaskFactor(value, left, origin_of(mask), witness)

    def any_element(self, value: Value) -> Mask:
        """Whether some element of a value is not masked."""
        mask = self[value]
        while axes := axes_of(mask):
            within = tuple(f for f in mask if axes[-1] in f.axes)
            mask = (*difference(mask, within), self.any_along(within, axes[-1], shape_of(value)))
        return mask

    # The factors of a bool.

    def factors(self, condition: Value, origin: Location | None) -> Mask:
        """A condition as a conjunction."""
        op = condition.op
        if isinstance(op, math.And):
            mask = conjunction(self.factors(op.lhs, origin), self.factors(op.rhs, origin))
        else:
            narrow = self._narrowed.get(condition)
            if narrow is None:
                narrow = self._narrowed[condition] = self._narrow_at_definition(condition)
            mask = (MaskFactor(narrow, self.varies_along(condition), origin),)
        shape = shape_of(condition)
        every = tuple(range(len(shape)))
        self._cached((frozenset(mask), every, shape), lambda: condition)
        return mask

    def varies_along(self, x: Value) -> Axes:
        """The axes along which a value may differ."""
        known = self._varies.get(x)
        if known is None:
            known = self._varies[x] = tuple(sorted(self._find_axes(x)))
        return known

    def _find_axes(self, x: Value) -> Iterable[int]:
        op, shape = x.op, shape_of(x)
        if isinstance(op, Constant):
            return ()
        if isinstance(op, tile.Broadcast):
            own = self.varies_along(op.x)
            if all(shape_of(op.x)[a] == shape[a] for a in own):
                return own
        elif isinstance(op, tile.ExpandDims):
            return (a + (a >= op.axis) for a in self.varies_along(op.x))
        elif isinstance(op, tile.Transpose):
            own = self.varies_along(op.x)
            return (i for i, a in enumerate(op.permutation) if a in own)
        elif isinstance(op, ELEMENTWISE):
            return {a for v in op.operands for a in self.varies_along(v)}
        return range(len(shape))

    def _narrow_at_definition(self, condition: Value) -> Value:
        """Narrow a condition right after its definition, which may be outside a loop."""
        op, saved = condition.op, self._builder
        if op is not None and op.parent is not None and op.next is not None:
            self._builder = Builder(op.parent, op.next, op.location)
        narrow = self._narrow(condition)
        self._builder = saved
        return narrow

    def _narrow(self, x: Value) -> Value:
        """Compute a value along only the axes that it varies along."""
        axes, shape, op = self.varies_along(x), shape_of(x), x.op
        if len(axes) == len(shape):
            return x
        if isinstance(op, Constant):
            return self.make(Constant.of_bits(op.bits, op.dtype))
        if isinstance(op, (tile.Broadcast, tile.ExpandDims)):
            return self._narrow(op.x)
        if isinstance(op, tile.Transpose):
            return self._reordered(self._narrow(op.x), [op.permutation[a] for a in axes])
        op, sizes = x.producer, tuple(shape[a] for a in axes)
        operands = tuple(
            self.broadcast(self._narrow(v), self.varies_along(v), axes, sizes) if shape_of(v) else v
            for v in op.operands
        )
        type_ = tile_or_scalar(sizes, x.type.element)
        return self.make(type(op).create(operands, op.attributes, (type_,)))

    def _reordered(self, x: Value, order: Sequence[int]) -> Value:
        """Transpose a value from ascending axes to a given order."""
        ascending = sorted(order)
        if list(order) == ascending:
            return x
        return self.make(tile.Transpose(tuple(ascending.index(a) for a in order), x))

    def transposed(self, factor: MaskFactor, permutation: tuple[int, ...]) -> MaskFactor:
        axes = tuple(i for i, a in enumerate(permutation) if a in factor.axes)
        value = self._reordered(factor.value, [permutation[i] for i in axes])
        return replace(factor, value=value, axes=axes)
