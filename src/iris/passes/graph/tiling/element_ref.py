"""References to elements: a tensor, and an index expression for each of its dimensions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from iris.ir import graph
from iris.ir.core import Value
from iris.ir.math import element_type
from iris.ir.types import DType
from iris.passes.graph.tiling.index_expr import Axis, IndexExpr, weighted_sum


class CannotFuse(Exception):
    """Says why some ops cannot be one kernel."""

    def again(self) -> CannotFuse:
        """The same to raise once more, without what led to it the first time."""
        return type(self)(*self.args)


class DoesNotFit(CannotFuse):
    """Says that some ops need more arrays or registers than a kernel has.  Together with others
    they may need fewer."""


@dataclass(frozen=True)
class Within:
    """The condition `low <= index < high`."""

    index: IndexExpr
    low: int
    high: int

    @property
    def is_certain(self) -> bool:
        return self.low <= self.index.low and self.index.high < self.high

    @property
    def comparisons(self) -> int:
        """How many numbers the index is compared with."""
        return 1 + (self.index.low < self.low)

    @property
    def is_impossible(self) -> bool:
        return self.index.high < self.low or self.high <= self.index.low


class Guard(AbstractSet[Within]):
    """Conditions that all hold.

    They keep their order, so that compiling a function again gives the same text.  The order does
    not count for equality.
    """

    __slots__ = ("_conditions", "_hashed")

    def __init__(self, conditions: Iterable[Within] = ()):
        self._conditions = dict.fromkeys(conditions)
        self._hashed = hash(frozenset(self._conditions))

    def __contains__(self, condition: object) -> bool:
        return condition in self._conditions

    def __iter__(self) -> Iterator[Within]:
        return iter(self._conditions)

    def __len__(self) -> int:
        return len(self._conditions)

    def __hash__(self) -> int:
        return self._hashed

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Guard) and self._conditions == other._conditions


ALWAYS = Guard()


class ElementRef:
    """An element of a tensor; where the guard does not hold, it may have any value."""

    __slots__ = ("_hash", "guard", "indices", "value")

    def __init__(self, value: Value, indices: tuple[IndexExpr, ...], guard: Guard = ALWAYS):
        self.value = value
        self.indices = indices
        self.guard = guard
        self._hash = hash((value, indices, guard))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, ElementRef)
            and self.value is other.value
            and self.indices == other.indices
            and self.guard == other.guard
        )

    @property
    def element(self) -> DType:
        return self.value.type.element

    @property
    def shape(self) -> tuple[int, ...]:
        return element_type(self.value.type).shape

    def where(self, *conditions: Within) -> ElementRef:
        """The same element, also guarded by some conditions."""
        guard = [*self.guard, *(c for c in conditions if not c.is_certain)]
        return ElementRef(self.value, self.indices, Guard(guard))

    def bounds(self, index: IndexExpr) -> tuple[int, int]:
        """Between which numbers an index is, the second excluded, where the guard holds."""
        low, high = index.low, index.high + 1
        for condition in self.guard:
            if condition.index.terms == index.terms:
                more = condition.index.constant - index.constant
                low, high = max(low, condition.low - more), min(high, condition.high - more)
        return low, high

    def within(self, index: IndexExpr, low: int, high: int) -> ElementRef:
        """The same element, guarded by narrower bounds of an index."""
        others = [condition for condition in self.guard if condition.index.terms != index.terms]
        return ElementRef(self.value, self.indices, Guard(others)).where(Within(index, low, high))

    def with_own_guard(self) -> ElementRef:
        """The same element without the conditions on axes that its indices do not have."""
        own = axes_of(self.indices).keys()
        conditions = [(c, axes_of([c.index])) for c in self.guard]
        guard = [c for c, axes in conditions if not axes or not own.isdisjoint(axes)]
        return ElementRef(self.value, self.indices, Guard(guard))

    def of(self, value: Value, indices: tuple[IndexExpr, ...] | None = None) -> ElementRef:
        """An element of another tensor under the same guard."""
        return ElementRef(value, self.indices if indices is None else indices, self.guard)

    def index_exprs(self) -> tuple[IndexExpr, ...]:
        if self.guard is ALWAYS:
            return self.indices
        return (*self.indices, *[condition.index for condition in self.guard])


@dataclass(frozen=True)
class Lookup:
    """An index that is read from a tensor; it must be below a size."""

    ref: ElementRef
    size: int

    low = 0

    @property
    def high(self) -> int:
        return max(1, self.size - 1)  # never one number alone, which would not be looked up

    def __repr__(self) -> str:
        return f"{self.ref.value.name or 'index'}{list(self.ref.indices)}"


def looked_up_refs(indices: Iterable[IndexExpr]) -> list[ElementRef]:
    """The elements that index expressions look up."""
    return [a.ref for index in indices for a in index.atoms() if isinstance(a, Lookup)]


def indices_of(axes: Sequence[Axis]) -> tuple[IndexExpr, ...]:
    return tuple([IndexExpr.of(axis) for axis in axes])


def axes_of(indices: Iterable[IndexExpr]) -> dict[Axis, None]:
    """The axes in index expressions, in order, also within lookups."""
    found: dict[Axis, None] = {}
    for index in indices:
        for atom in index.atoms():
            if isinstance(atom, Lookup):
                found.update(axes_of(atom.ref.index_exprs()))
            elif isinstance(atom, Axis):
                found[atom] = None
    return found


def row_major_offset(ref: ElementRef) -> IndexExpr:
    """The offset of an element in row-major order."""
    parts, stride = [], 1
    for size, index in zip(reversed(ref.shape), reversed(ref.indices), strict=True):
        parts.append((index, stride))
        stride *= size
    return weighted_sum(reversed(parts))


def looked_up_indices(
    op: graph.Gather | graph.Scatter, indices: tuple[IndexExpr, ...], guard: Guard = ALWAYS
) -> tuple[IndexExpr, ...]:
    """The indices into `op.x` of an element that is gathered, or scattered to."""
    shape = element_type(op.x.type).shape
    rank = len(element_type(op.indices[0].type).shape)
    indices_of_x = list(indices[rank:])
    for axis, value in zip(op.axes, op.indices, strict=True):
        lookup = Lookup(ElementRef(value, indices[:rank], guard), shape[axis])
        indices_of_x.insert(axis, IndexExpr.of(lookup))
    return tuple(indices_of_x)
