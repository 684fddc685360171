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
class Factor:
    """One condition of a mask.  Its value has the axes it lies along, in their order, and no
    others; along none it is a scalar."""

    value: Value
    axes: tuple[int, ...]
    origin: Location | None = field(compare=False)  # of the load it comes from
    witness: Witness | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Witness:
    """What a factor follows from that says `somewhere along an axis`: factors of these values,
    each along those of their common axes that have these positions."""

    values: tuple[tuple[Value, Axes], ...]
    position: int  # of the axis that was dropped


Mask = tuple[Factor, ...]  # all of them hold; the empty one leaves nothing out
Axes = tuple[int, ...]
Rule = Callable[[Op, "Masks"], None]
Values = tuple[Value, ...]

follow = Facet("mask")


def join(*masks: Mask) -> Mask:
    """All of these, but what follows from others of them."""
    mask = tuple(dict.fromkeys(chain(*masks)))
    return tuple(f for f in mask if not _follows(f, mask))


def without(mask: Mask, known: Mask) -> Mask:
    """What is left of a mask where another is known to hold."""
    return tuple(f for f in mask if f not in known and not _follows(f, known))


def _follows(factor: Factor, mask: Mask) -> bool:
    """Whether a factor that says `somewhere` holds because one lane is known where it does."""
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
    """How long the axes of a mask are."""
    size = {a: s for f in mask for a, s in zip(f.axes, shape_of(f.value), strict=True)}
    return tuple(size[a] for a in axes_of(mask))


def origin_of(mask: Mask) -> Location | None:
    return next((f.origin for f in mask if f.origin is not None), None)


def shape_of(value: Value) -> tuple[int, ...]:
    return element_type(value.type).shape


def of_shape(shape: tuple[int, ...], element: DType = bool_) -> ElementType:
    return Tile(shape, element) if shape else element


def _is_zero(other: Value | float) -> bool:
    """Whether this is 0, and not -0.0."""
    return not isinstance(other, Value) and other == 0 and copysign(1, other) > 0


class Masks:
    """The masks of the values met so far, and the ops that come of them."""

    def __init__(self) -> None:
        self.of: dict[Value, Mask] = {}  # only what is masked
        self.zeroed: dict[Value, Mask] = {}  # by which factors what they mask is 0
        self.unadded: dict[Value, Mask] = {}  # where a dot adds nothing but 0 to what it is given
        self.lost: dict[Value, frozenset[Factor]] = {}  # where updates keep what was there
        self._made: list[Op] = []
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
            masked = any(v in self.of for v in op.operands)
            if masked or op.regions or isinstance(op, tile.MaskedLoad | tile.Update):
                self.go_to(op)
                rule: Rule = follow[type(op)]
                rule(op, self)
        self._scopes.pop()
        self._builder = saved

    @contextmanager
    def at_end(self, region: Region) -> Iterator[Op]:
        """Build before the terminator of a region that has been followed."""
        saved = self._builder
        self._scopes.append(self._scope_of[region])
        self.go_to(region.end)
        yield region.end
        self._scopes.pop()
        self._builder = saved

    def go_to(self, op: Op) -> None:
        """Build before an op, for its line."""
        assert op.parent is not None
        self._builder = Builder(op.parent, op, op.location)

    def sweep(self) -> None:
        """Take away what was made and is not used."""
        for op in reversed(self._made):
            if not any(v.users for v in op.results):
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
        return join(*(self[v] for v in values))

    # Making ops.

    def make(self, op: Op, name: str | None = None) -> Value:
        self._made.append(op)
        return self._builder(op, name)

    def build(self, op: Op) -> None:
        """Put an op in place that stays."""
        self._builder.insert(op)

    def replace(self, op: Op, by: Op) -> Value:
        """Put an op in the place of one of the same result."""
        old, new = op.results[0], self._builder.insert(by).results[0]
        new.name = old.name
        old.replace_by(new)
        op.erase()
        return new

    def constant(self, number: float, type_: ElementType) -> Value:
        key = ("constant", str(number), type_)
        return self._once(key, lambda: self.make(Constant(number, type_)))

    def _once(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """What was made for a key where it can be used here, or what is made now."""
        for scope in self._scopes:
            if key in scope:
                return scope[key]
        value = self._scopes[-1][key] = make()
        return value

    def holds(self, mask: Mask, axes: Axes, sizes: tuple[int, ...]) -> Value:
        """Where a mask holds, as a bool along some axes, of these sizes, which have all of its
        own among them."""

        def make() -> Value:
            if not mask:
                return self.constant(1, of_shape(sizes))
            own = axes_of(mask)
            if own != axes:
                size = dict(zip(axes, sizes, strict=True))
                narrow = self.holds(mask, own, tuple(size[a] for a in own))
                return self.spread(narrow, own, axes, sizes)
            parts = [self.spread(f.value, f.axes, axes, sizes) for f in mask]
            whole = parts[0]
            for part in parts[1:]:
                whole = self.make(math.And(whole, part))
            return whole

        if len(mask) == 1 and mask[0].axes == axes:
            return mask[0].value
        return self._once((frozenset(mask), axes, sizes), make)

    def holds_in(self, mask: Mask, shape: tuple[int, ...]) -> Value:
        return self.holds(mask, tuple(range(len(shape))), shape)

    def spread(self, x: Value, own: Axes, axes: Axes, sizes: tuple[int, ...]) -> Value:
        """A value along some axes, as one along more of them."""
        type_ = of_shape(sizes, element_type(x.type).element)
        if own:
            for position, axis in enumerate(axes):
                if axis not in own:
                    x = self.make(tile.ExpandDims(position, x))
        return x if x.type is type_ else self.make(tile.Broadcast(x, type_))

    def select(self, mask: Mask, x: Value, other: Value | float) -> Value:
        """A value where a mask holds, another elsewhere."""
        if x in self.zeroed and _is_zero(other):
            mask = without(mask, self.zeroed[x])
        if not mask:
            return x
        if not isinstance(other, Value):
            other = self.constant(other, element_type(x.type))
        shape = shape_of(x)
        scalar = not axes_of(mask)
        where = self.holds(mask, (), ()) if scalar else self.holds_in(mask, shape)
        return self.make(math.Select(where, x, other))

    def update(self, mask: Mask, new: Value, old: Value) -> Value:
        """A new value where a mask holds, the old one elsewhere."""
        return self.select(tuple(f for f in mask if not self._is_old(f, new, old)), new, old)

    def _is_old(self, factor: Factor, new: Value, old: Value) -> bool:
        """Whether, where a factor does not hold, only zeros have been added to a value."""
        if new is old:
            return True
        start = None  # what the zeros are added to
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
        """Where one of two masks holds."""
        axes, sizes = axes_of((*one, *other)), sizes_of((*one, *other))
        value = self.make(math.Or(self.holds(one, axes, sizes), self.holds(other, axes, sizes)))
        return (Factor(value, axes, origin_of((*one, *other))),)

    def any_along(self, mask: Mask, axis: int, shape: tuple[int, ...]) -> Factor:
        """Where a mask holds somewhere along an axis; that axis is dropped, not renumbered."""
        axes = axes_of(mask)
        position = axes.index(axis)

        def make() -> Value:
            whole = self.holds(mask, axes, tuple(shape[a] for a in axes))
            return self.make(tile.Reduce(ReduceKind.ANY, position, whole))

        value = self._once(("any", axis, frozenset(mask), shape), make)
        witness = Witness(
            tuple((f.value, tuple(axes.index(a) for a in f.axes)) for f in mask), position
        )
        left = axes[:position] + axes[position + 1 :]
        return Factor(value, left, origin_of(mask), witness)

    def anywhere(self, value: Value) -> Mask:
        """Where something of a value counts."""
        mask = self[value]
        while axes := axes_of(mask):
            within = tuple(f for f in mask if axes[-1] in f.axes)
            mask = (*without(mask, within), self.any_along(within, axes[-1], shape_of(value)))
        return mask

    # The factors of a bool.

    def factors(self, condition: Value, origin: Location | None) -> Mask:
        """A condition as a conjunction."""
        op = condition.op
        if isinstance(op, math.And):
            mask = join(self.factors(op.lhs, origin), self.factors(op.rhs, origin))
        else:
            narrow = self._narrowed.get(condition)
            if narrow is None:
                narrow = self._narrowed[condition] = self._narrow_at_home(condition)
            mask = (Factor(narrow, self.varies_along(condition), origin),)
        shape = shape_of(condition)
        every = tuple(range(len(shape)))
        self._once((frozenset(mask), every, shape), lambda: condition)
        return mask

    def varies_along(self, x: Value) -> Axes:
        """The axes along which a value may change, as far as its ops tell."""
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

    def _narrow_at_home(self, condition: Value) -> Value:
        """The condition along its own axes, made where it is made, which may be outside a loop."""
        op, saved = condition.op, self._builder
        if op is not None and op.parent is not None and op.next is not None:
            self._builder = Builder(op.parent, op.next, op.location)
        narrow = self._narrow(condition)
        self._builder = saved
        return narrow

    def _narrow(self, x: Value) -> Value:
        """A value along only the axes that it varies along."""
        axes, shape, op = self.varies_along(x), shape_of(x), x.op
        if len(axes) == len(shape):
            return x
        if isinstance(op, Constant):
            return self.make(Constant.of_bits(op.bits, op.dtype))
        if isinstance(op, tile.Broadcast | tile.ExpandDims):
            return self._narrow(op.x)
        if isinstance(op, tile.Transpose):
            return self._reordered(self._narrow(op.x), [op.permutation[a] for a in axes])
        assert op is not None
        sizes = tuple(shape[a] for a in axes)
        operands = tuple(
            self.spread(self._narrow(v), self.varies_along(v), axes, sizes) if shape_of(v) else v
            for v in op.operands
        )
        type_ = of_shape(sizes, element_type(x.type).element)
        return self.make(type(op).create(operands, op.attributes, (type_,)))

    def _reordered(self, x: Value, order: Sequence[int]) -> Value:
        """A value along ascending axes, as one along these axes in the order given."""
        ascending = sorted(order)
        if list(order) == ascending:
            return x
        return self.make(tile.Transpose(tuple(ascending.index(a) for a in order), x))

    def transposed(self, factor: Factor, permutation: tuple[int, ...]) -> Factor:
        axes = tuple(i for i, a in enumerate(permutation) if a in factor.axes)
        value = self._reordered(factor.value, [permutation[i] for i in axes])
        return replace(factor, value=value, axes=axes)
