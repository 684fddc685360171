"""Recipes: what a demanded element is made of, as far as one op says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from iris.ir.core import Op, Value
from iris.ir.kinds import ReduceKind, ScanKind, is_rounded
from iris.ir.types import DType
from iris.passes.graph.tiling.demand import Demand, Guard, Lookup, Within, axes_of
from iris.passes.graph.tiling.index import Atom, Axis, Index


@dataclass(frozen=True)
class Recipe:
    """What an element is made of."""

    @property
    def demands(self) -> tuple[Demand, ...]:
        """The elements it is made of."""
        return ()

    def formulas(self) -> Iterator[Index]:
        """The indices that are computed for it."""
        return iter(())

    def substituted(self, new: Substitution) -> Recipe:
        return self


@dataclass(frozen=True)
class Load(Recipe):
    """An element of an input, in row-major order."""

    value: Value
    address: Index
    guard: Guard

    def formulas(self) -> Iterator[Index]:
        yield self.address
        for condition in self.guard:
            yield condition.index

    def substituted(self, new: Substitution) -> Load:
        return Load(self.value, new.index(self.address), new.guard(self.guard))


@dataclass(frozen=True)
class Number(Recipe):
    """An index as a number."""

    index: Index

    def formulas(self) -> Iterator[Index]:
        yield self.index

    def substituted(self, new: Substitution) -> Number:
        return Number(new.index(self.index))


@dataclass(frozen=True)
class Splat(Recipe):
    """A constant, by its bits."""

    bits: int


@dataclass(frozen=True)
class Same(Recipe):
    """Another element."""

    demand: Demand

    @property
    def demands(self) -> tuple[Demand, ...]:
        return (self.demand,)

    def substituted(self, new: Substitution) -> Same:
        return Same(new.demand(self.demand))


@dataclass(frozen=True)
class Choice(Recipe):
    """The first of some elements whose conditions hold; there are none for the last."""

    options: tuple[tuple[tuple[Within, ...], Demand], ...]

    @property
    def demands(self) -> tuple[Demand, ...]:
        return tuple([demand for _, demand in self.options])

    def formulas(self) -> Iterator[Index]:
        for conditions, _ in self.options:
            for condition in conditions:
                yield condition.index

    def substituted(self, new: Substitution) -> Choice:
        options = [(tuple(map(new.within, cs)), new.demand(d)) for cs, d in self.options]
        return Choice(tuple(options))


@dataclass(frozen=True)
class Pointwise(Recipe):
    """A function of elements."""

    op: Op
    operands: tuple[Demand, ...]

    @property
    def demands(self) -> tuple[Demand, ...]:
        return self.operands

    def substituted(self, new: Substitution) -> Pointwise:
        return Pointwise(self.op, tuple(map(new.demand, self.operands)))


@dataclass(frozen=True)
class Combining(Recipe):
    """What is made of the elements along some axes."""

    over: tuple[Axis, ...]

    @property
    def is_rounded(self) -> bool:
        """Whether it may be another number if the elements come in another order."""
        raise NotImplementedError


@dataclass(frozen=True)
class _Folding(Combining):
    """What is made of elements of one tensor."""

    kind: ReduceKind | ScanKind
    demand: Demand

    @property
    def demands(self) -> tuple[Demand, ...]:
        return (self.demand,)

    @property
    def is_rounded(self) -> bool:
        return is_rounded(self.kind, self.demand.element)

    def substituted(self, new: Substitution) -> _Folding:
        return type(self)(new.axes(self.over), self.kind, new.demand(self.demand))


@dataclass(frozen=True)
class Reduction(_Folding):
    """One value for the elements along some axes."""

    kind: ReduceKind


@dataclass(frozen=True)
class Running(_Folding):
    """The reduction of the elements along some axes up to and with one."""

    kind: ScanKind


@dataclass(frozen=True)
class Contraction(Combining):
    """The sum of the products along some axes, of which `b` is 0 unless some conditions hold."""

    a: Demand
    b: Demand
    element: DType
    inside: tuple[Within, ...] = ()

    @property
    def demands(self) -> tuple[Demand, ...]:
        return (self.a, self.b)

    @property
    def is_rounded(self) -> bool:
        return is_rounded(ReduceKind.SUM, self.element)

    def formulas(self) -> Iterator[Index]:
        for condition in self.inside:
            yield condition.index

    def substituted(self, new: Substitution) -> Contraction:
        inside = tuple(map(new.within, self.inside))
        a, b = new.demand(self.a), new.demand(self.b)
        return Contraction(new.axes(self.over), a, b, self.element, inside)


class Substitution:
    """Axes replaced by formulas of others."""

    def __init__(self, formulas: Mapping[Axis, Index]):
        self._formulas = formulas
        self._demands: dict[Demand, Demand] = {}
        self._indices: dict[Index, Index] = {}

    def demand(self, old: Demand) -> Demand:
        moved = self._demands.get(old)
        if moved is None:
            at = tuple([self.index(i) for i in old.at])
            moved = self._demands[old] = Demand(old.value, at, self.guard(old.guard))
        return moved

    def index(self, old: Index) -> Index:
        moved = self._indices.get(old)
        if moved is None:
            moved = self._indices[old] = old.substitute(self._atom)
        return moved

    def within(self, old: Within) -> Within:
        return Within(self.index(old.index), old.low, old.high)

    def guard(self, old: Guard) -> Guard:
        return Guard(map(self.within, old)) if old else old

    def axes(self, old: Iterable[Axis]) -> tuple[Axis, ...]:
        return tuple(axes_of([self._formulas.get(axis) or Index.of(axis) for axis in old]))

    def _atom(self, atom: Atom) -> Index | None:
        if isinstance(atom, Lookup):
            return Index.of(Lookup(self.demand(atom.place), atom.size))
        return self._formulas.get(atom) if isinstance(atom, Axis) else None
