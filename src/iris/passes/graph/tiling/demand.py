"""A demand: an element of a tensor, at indices that are formulas of axes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from iris.ir import graph
from iris.ir.core import Value
from iris.ir.math import element_type
from iris.ir.types import DType
from iris.passes.graph.tiling.index import Axis, Index, total


class Unfit(Exception):
    """Why some ops cannot be one kernel."""


@dataclass(frozen=True)
class Within:
    """That an index is from `low` to below `high`."""

    index: Index
    low: int
    high: int

    @property
    def is_certain(self) -> bool:
        return self.low <= self.index.low and self.index.high < self.high

    @property
    def is_impossible(self) -> bool:
        return self.index.high < self.low or self.high <= self.index.low


class Guard(AbstractSet[Within]):
    """Conditions that all hold.

    They stay in the order in which they were required, so that compiling a function again gives the
    same text; a guard equals another one of the same conditions in any order.
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


class Demand:
    """An element of a tensor; where the guard does not hold, any number will do."""

    __slots__ = ("_hash", "at", "guard", "value")

    def __init__(self, value: Value, at: tuple[Index, ...], guard: Guard = ALWAYS):
        self.value = value
        self.at = at
        self.guard = guard
        self._hash = hash((value, at, guard))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Demand)
            and self.value is other.value
            and self.at == other.at
            and self.guard == other.guard
        )

    @property
    def element(self) -> DType:
        return element_type(self.value.type).element

    @property
    def shape(self) -> tuple[int, ...]:
        return element_type(self.value.type).shape

    def where(self, *conditions: Within) -> Demand:
        """The same element, needed only where some conditions hold, too."""
        guard = [*self.guard, *(c for c in conditions if not c.is_certain)]
        return Demand(self.value, self.at, Guard(guard))

    def alone(self) -> Demand:
        """The same element without what says of other axes where it is needed."""
        own = axes_of(self.at).keys()
        conditions = [(c, axes_of([c.index])) for c in self.guard]
        guard = [c for c, axes in conditions if not axes or not own.isdisjoint(axes)]
        return Demand(self.value, self.at, Guard(guard))

    def of(self, value: Value, at: tuple[Index, ...] | None = None) -> Demand:
        """An element of another tensor, needed where this one is."""
        return Demand(value, self.at if at is None else at, self.guard)

    def indices(self) -> Iterator[Index]:
        yield from self.at
        for condition in self.guard:
            yield condition.index


@dataclass(frozen=True)
class Lookup:
    """A number that is looked up in a tensor of places, which are below a size."""

    place: Demand
    size: int

    low = 0

    @property
    def high(self) -> int:
        return max(1, self.size - 1)  # never one number alone, which would not be looked up

    def __repr__(self) -> str:
        return f"{self.place.value.name or 'place'}{list(self.place.at)}"


def places_in(indices: Iterable[Index]) -> list[Demand]:
    """What is looked up for indices."""
    return [a.place for index in indices for a in index.atoms() if isinstance(a, Lookup)]


def indices_of(axes: Sequence[Axis]) -> tuple[Index, ...]:
    return tuple([Index.of(axis) for axis in axes])


def axes_of(indices: Iterable[Index]) -> dict[Axis, None]:
    """The axes in formulas, in order, those of what is looked up among them."""
    found: dict[Axis, None] = {}
    for index in indices:
        for atom in index.atoms():
            if isinstance(atom, Lookup):
                found.update(axes_of(atom.place.indices()))
            elif isinstance(atom, Axis):
                found[atom] = None
    return found


def address(demand: Demand) -> Index:
    """Where an element is, in row-major order."""
    parts, stride = [], 1
    for size, index in zip(reversed(demand.shape), reversed(demand.at), strict=True):
        parts.append((index, stride))
        stride *= size
    return total(reversed(parts))


def places(
    op: graph.Gather | graph.Scatter, at: tuple[Index, ...], guard: Guard = ALWAYS
) -> tuple[Index, ...]:
    """The indices of what is looked up, or scattered to, for an element at the indices given."""
    shape = element_type(op.x.type).shape
    rank = len(element_type(op.indices[0].type).shape)
    found = list(at[rank:])
    for axis, value in zip(op.axes, op.indices, strict=True):
        place = Lookup(Demand(value, at[:rank], guard), shape[axis])
        found.insert(axis, Index.of(place))
    return tuple(found)
