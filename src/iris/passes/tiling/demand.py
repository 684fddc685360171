"""What a kernel computes, as demands: which element of which tensor, for each point of its axes.

To have an element of a result is to demand elements of what it is made of, down to those of the
kernel's inputs, which are loaded.  Views of a tensor are no work at all: they are other indices.

    softmax[i, j]   exp(x[i, j] - max[i]) / sum[i]       max[i], sum[i]: over all of axis j
    matmul[i, j]    a[i, k] times b[k, j], over all of axis k

`rules` has, for each op, what a demand for its result becomes; each is a `Recipe`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import NamedTuple, TypeAlias

from iris.ir import graph, math
from iris.ir.core import OPS, Facet, Op, Value
from iris.ir.literal import encode
from iris.ir.math import element_type
from iris.ir.tile import ReduceKind, ScanKind
from iris.ir.types import DType, i32
from iris.passes.tiling.index import Atom, Axis, Index, divide, total
from iris.passes.tiling.numbers import identity, is_rounded

rules = Facet("demand")


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


Guard: TypeAlias = frozenset[Within]
ALWAYS: Guard = frozenset()


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
        guard = self.guard | {c for c in conditions if not c.is_certain}
        return Demand(self.value, self.at, guard)

    def alone(self) -> Demand:
        """The same element without what says of other axes where it is needed."""
        own = axes_of(self.at).keys()
        conditions = [(c, axes_of([c.index])) for c in self.guard]
        guard = [c for c, axes in conditions if not axes or not own.isdisjoint(axes)]
        return Demand(self.value, self.at, frozenset(guard))

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


# Recipes: what a demanded element is made of.


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
class Elementwise(Recipe):
    """A function of elements."""

    op: Op
    operands: tuple[Demand, ...]

    @property
    def demands(self) -> tuple[Demand, ...]:
        return self.operands

    def substituted(self, new: Substitution) -> Elementwise:
        return Elementwise(self.op, tuple(map(new.demand, self.operands)))


@dataclass(frozen=True)
class Combining(Recipe):
    """What is made of the elements along some axes."""

    over: tuple[Axis, ...]

    @property
    def is_rounded(self) -> bool:
        """Whether it may be another number if the elements come in another order."""
        raise NotImplementedError


@dataclass(frozen=True)
class Reduction(Combining):
    """One value for the elements along some axes."""

    kind: ReduceKind
    demand: Demand

    @property
    def demands(self) -> tuple[Demand, ...]:
        return (self.demand,)

    @property
    def is_rounded(self) -> bool:
        return is_rounded(self.kind.value, self.demand.element)

    def substituted(self, new: Substitution) -> Reduction:
        return Reduction(new.axes(self.over), self.kind, new.demand(self.demand))


@dataclass(frozen=True)
class Running(Combining):
    """The reduction of the elements along some axes up to and with one."""

    kind: ScanKind
    demand: Demand

    @property
    def demands(self) -> tuple[Demand, ...]:
        return (self.demand,)

    @property
    def is_rounded(self) -> bool:
        return is_rounded(self.kind.value, self.demand.element)

    def substituted(self, new: Substitution) -> Running:
        return Running(new.axes(self.over), self.kind, new.demand(self.demand))


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
        return is_rounded("sum", self.element)

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
        return frozenset(map(self.within, old)) if old else old

    def axes(self, old: Iterable[Axis]) -> tuple[Axis, ...]:
        return tuple(axes_of([self._formulas.get(axis) or Index.of(axis) for axis in old]))

    def _atom(self, atom: Atom) -> Index | None:
        if isinstance(atom, Lookup):
            return Index.of(Lookup(self.demand(atom.place), atom.size))
        return self._formulas.get(atom) if isinstance(atom, Axis) else None


class Written(NamedTuple):
    """An element that a kernel writes: what it is, and where it goes."""

    demand: Demand
    place: Index
    scatter: graph.Scatter | None = None  # how it goes there, if not as all there is there

    def substituted(self, new: Substitution) -> Written:
        return Written(new.demand(self.demand), new.index(self.place), self.scatter)


class Demands:
    """What a kernel demands, from its outputs down to its inputs."""

    def __init__(self, outputs: Sequence[Written], inputs: Iterable[Value], axes: Sequence[Axis]):
        self.inputs = set(inputs)
        self.outer = tuple(axes)  # those of the outputs
        # Those of reductions, by the axes of others within whose loops they are.
        self.reduced: dict[frozenset[Axis], list[Axis]] = {}
        self.summed: dict[Demand, Axis] = {}  # those of products, by their rows
        self.outputs = list(outputs)
        self.recipes: dict[Demand, Recipe] = {}
        for demand in self.roots():
            self._visit(demand)

    @staticmethod
    def of(values: Sequence[Value], inputs: Iterable[Value]) -> Demands:
        """The demands of what writes some values, all of one shape."""
        for value in values:
            if isinstance(value.op, graph.Scatter):
                return _scattering(value.op, values, {*inputs})
        axes = _axes(values[0])
        if any(axis.size == 0 for axis in axes):
            return Demands([], inputs, axes)
        demands = [Demand(v, indices_of(axes)) for v in values]
        return Demands([Written(d, address(d)) for d in demands], inputs, axes)

    def _visit(self, demand: Demand) -> None:
        """Find the recipes of all that a demand needs, what is needed before what needs it."""
        opened: dict[Demand, Recipe] = {}
        waiting = [demand]
        while waiting:
            demand = waiting[-1]
            if demand in self.recipes:
                waiting.pop()
            elif demand in opened:
                self.recipes[demand] = opened[demand]
            else:
                recipe = opened[demand] = self._recipe(demand)
                waiting += _needs(demand, recipe)[::-1]

    def _recipe(self, demand: Demand) -> Recipe:
        op = demand.value.op
        if not prod(demand.shape):
            return Splat(0)  # there is no such element, so that no guard of it ever holds
        if demand.value in self.inputs or op is None:
            place = address(demand)
            if place.low < i32.low or place.high > i32.high:
                raise Unfit("the index of an element that is not needed may not fit 32 bits")
            return Load(demand.value, place, demand.guard)
        rule: Callable[..., Recipe] = rules[type(op)]
        return rule(op, demand, self)

    def axis_over(self, size: int, demand: Demand, others: Sequence[Axis]) -> Axis:
        """An axis for a reduction whose result depends on what a demand does.

        That of another reduction serves, so that both are over the same elements, if the results
        of both depend on the same axes of reductions and products, within whose loops they are
        made then, one after the other.
        """
        taken = {*axes_of(demand.indices()), *others}
        within = frozenset(axes_of(demand.indices())).difference(self.outer)
        known = self.reduced.setdefault(within, [])
        for axis in known:
            if axis.size == size and axis not in taken:
                return axis
        count = sum(map(len, self.reduced.values()))
        known.append(Axis(f"r{count}", size))
        return known[-1]

    @cached_property
    def dependencies(self) -> dict[Demand, frozenset[Axis]]:
        """The axes along which each demanded element differs."""
        found: dict[Demand, frozenset[Axis]] = {}
        for demand, recipe in self.recipes.items():
            axes: set[Axis] = set()
            for index in recipe.formulas():
                axes |= _axes_in(index, found)
            for needed in recipe.demands:
                axes |= found[needed]
            if isinstance(recipe, Running):
                axes.update(recipe.over)
            elif isinstance(recipe, Combining):
                axes.difference_update(recipe.over)
            found[demand] = frozenset(axes)
        return found

    def axes_in(self, indices: Iterable[Index]) -> set[Axis]:
        """The axes along which the values of formulas differ."""
        return {axis for index in indices for axis in _axes_in(index, self.dependencies)}

    def substituted(self, formulas: Mapping[Axis, Index]) -> Demands:
        """The same with axes replaced by formulas of others, and what is over them over those."""
        to = Substitution(formulas)
        new = Demands.__new__(Demands)
        new.inputs = self.inputs
        new.outer = to.axes(self.outer)
        new.outputs = [output.substituted(to) for output in self.outputs]
        recipes: dict[Demand, Recipe] = {}
        for demand, recipe in self.recipes.items():
            # Of what is one demand now the first recipe comes after what it needs.
            recipes.setdefault(to.demand(demand), recipe.substituted(to))
        needed = {*new.roots()}
        for demand in reversed(recipes):
            if demand in needed:
                needed.update(_needs(demand, recipes[demand]))
        new.recipes = {d: recipe for d, recipe in recipes.items() if d in needed}
        return new

    def roots(self) -> Iterator[Demand]:
        """What the outputs themselves demand."""
        for output in self.outputs:
            yield from places_in([output.place])
            yield output.demand


def _needs(demand: Demand, recipe: Recipe) -> list[Demand]:
    """What an element is made of, and what is looked up to find it."""
    return [*places_in(demand.indices()), *recipe.demands]


def _axes(value: Value) -> list[Axis]:
    return [Axis(f"i{n}", size) for n, size in enumerate(element_type(value.type).shape)]


def _scattering(op: graph.Scatter, values: Sequence[Value], inputs: set[Value]) -> Demands:
    """The demands of what writes to some places of a tensor that is in memory already."""
    if len(values) > 1 or op.x not in inputs:
        raise Unfit("what is scattered to is in memory before")
    axes = _axes(op.updates)
    if any(axis.size == 0 for axis in axes):
        return Demands([], inputs, axes)
    demand = Demand(op.updates, indices_of(axes))
    place = address(Demand(op.x, places(op, demand.at)))
    return Demands([Written(demand, place, op)], inputs, axes)


def _axes_in(index: Index, places: Mapping[Demand, frozenset[Axis]]) -> set[Axis]:
    axes: set[Axis] = set()
    for atom in index.atoms():
        if isinstance(atom, Lookup):
            axes |= places[atom.place]
        elif isinstance(atom, Axis):
            axes.add(atom)
    return axes


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
    result = Index()
    for size, index in zip(demand.shape, demand.at, strict=True):
        result = result * size + index
    return result


# The rules.


def elementwise(op: Op, demand: Demand, demands: Demands) -> Recipe:
    return Elementwise(op, tuple([demand.of(v) for v in op.operands]))


for _op in OPS.values():
    if _op.__module__ == math.__name__ and _op is not math.Constant:
        rules(_op)(elementwise)


@rules(math.Constant)
def constant(op: math.Constant, demand: Demand, demands: Demands) -> Recipe:
    return Splat(op.bits)


@rules(graph.Iota)
def iota(op: graph.Iota, demand: Demand, demands: Demands) -> Recipe:
    return Number(demand.at[op.axis])


@rules(graph.Broadcast)
def broadcast(op: graph.Broadcast, demand: Demand, demands: Demands) -> Recipe:
    sizes = element_type(op.x.type).shape
    at = [i if size > 1 else Index() for i, size in zip(demand.at, sizes, strict=True)]
    return Same(demand.of(op.x, at=tuple(at)))


@rules(graph.Reshape)
def reshape(op: graph.Reshape, demand: Demand, demands: Demands) -> Recipe:
    return Same(demand.of(op.x, at=unflattened(address(demand), op.x)))


def unflattened(place: Index, value: Value) -> tuple[Index, ...]:
    """The indices of the element at a place in row-major order."""
    at = []
    for size in reversed(element_type(value.type).shape):
        place, index = divide(place, size)
        at.append(index)
    return tuple(at[::-1])


@rules(graph.Transpose)
def transpose(op: graph.Transpose, demand: Demand, demands: Demands) -> Recipe:
    at = [demand.at[op.permutation.index(axis)] for axis in range(len(demand.at))]
    return Same(demand.of(op.x, at=tuple(at)))


@rules(graph.Slice)
def slice_(op: graph.Slice, demand: Demand, demands: Demands) -> Recipe:
    steps = zip(demand.at, op.starts, op.steps, strict=True)
    return Same(demand.of(op.x, at=tuple([i * step + at for i, at, step in steps])))


@rules(graph.Pad)
def pad(op: graph.Pad, demand: Demand, demands: Demands) -> Recipe:
    sizes = element_type(op.x.type).shape
    at = tuple([i + -low for i, low in zip(demand.at, op.low, strict=True)])
    inside = tuple([Within(i, 0, size) for i, size in zip(at, sizes, strict=True)])
    inner = demand.of(op.x, at=at)
    return _choice([(inside, inner), ((), demand.of(op.value, at=()))])


@rules(graph.Concat)
def concat(op: graph.Concat, demand: Demand, demands: Demands) -> Recipe:
    options, start = [], 0
    for value in op.values:
        size = element_type(value.type).shape[op.axis]
        at = list(demand.at)
        at[op.axis] = at[op.axis] + -start
        inside = Within(at[op.axis], 0, size)
        options.append(((inside,), demand.of(value, at=tuple(at))))
        start += size
    return _choice(options)


def _choice(options: Sequence[tuple[tuple[Within, ...], Demand]]) -> Recipe:
    """The first element whose conditions hold, of which there is one."""
    possible: list[tuple[tuple[Within, ...], Demand]] = []
    for conditions, demand in options:
        if any(c.is_impossible for c in conditions):
            continue
        open_ = tuple([c for c in conditions if not c.is_certain])
        possible.append((open_, demand.where(*open_)))
        if not open_:
            break
    if len(possible) == 1:
        return Same(possible[0][1])
    return Choice(tuple(possible))


@rules(graph.Reduce)
def reduce(op: graph.Reduce, demand: Demand, demands: Demands) -> Recipe:
    shape = element_type(op.x.type).shape
    if not prod(shape):
        return _nothing(op.kind.value, demand)
    demand = demand.alone()
    axes: list[Axis] = []
    at = list(demand.at)
    for place in op.axes:
        axis = demands.axis_over(shape[place], demand, axes)
        axes.append(axis)
        at.insert(place, Index.of(axis))
    inner = demand.of(op.x, at=tuple(at))
    over = tuple([axis for axis in axes if axis.size > 1])
    if not over:
        is_place = op.kind in (ReduceKind.ARGMAX, ReduceKind.ARGMIN)
        return Splat(0) if is_place else Same(inner)
    return Reduction(over, op.kind, inner)


def _nothing(kind: str, demand: Demand) -> Splat:
    """What is made of no elements."""
    number = 0 if kind in ("sum", "any") else identity(kind, demand.element)
    return Splat(encode(number, demand.element))


@rules(graph.Scan)
def scan(op: graph.Scan, demand: Demand, demands: Demands) -> Recipe:
    index = demand.at[op.axis]
    axes = tuple(axes_of([index]))
    others = axes_of([i for axis, i in enumerate(demand.at) if axis != op.axis])
    if len(axes) > 1 or index != total(indices_of(axes)) or others.keys() & {*axes}:
        raise Unfit(f"{op.name} is wanted in another order than it is made in")
    # What comes before is needed, too, wherever one element is.
    elsewhere = [c for c in demand.guard if not axes_of([c.index]).keys() & {*axes}]
    bounds = zip(demand.at, demand.shape, strict=True)
    inner = Demand(op.x, demand.at, frozenset(elsewhere)).where(
        *[Within(i, 0, size) for i, size in bounds]
    )
    return Running(axes, op.kind, inner)


@rules(graph.Matmul)
def matmul(op: graph.Matmul, demand: Demand, demands: Demands) -> Recipe:
    *batch, row, column = demand.at
    depth = element_type(op.a.type).shape[-1]
    if not depth:
        return _nothing("sum", demand)
    demand = demand.alone()
    # Products of the same rows go over them together.
    rows = demand.of(op.a, at=(*batch, row))
    axis = demands.summed.setdefault(rows, Axis(f"k{len(demands.summed)}", depth))
    a = demand.of(op.a, at=(*batch, row, Index.of(axis)))
    b = demand.of(op.b, at=(*batch, Index.of(axis), column))
    return Contraction((axis,), a, b, demand.element)


@rules(graph.Conv2d)
def conv2d(op: graph.Conv2d, demand: Demand, demands: Demands) -> Recipe:
    image, channel, *place = demand.at
    made, count, *window = element_type(op.w.type).shape
    axis = Axis("k", count * window[0] * window[1])
    if not axis.size:
        return _nothing("sum", demand)
    rest, across = divide(Index.of(axis), window[1])
    source, down = divide(rest, window[0])
    at = [
        p * stride + step * dilation + -before
        for p, stride, step, dilation, before in zip(
            place, op.strides, (down, across), op.dilation, op.padding[::2], strict=True
        )
    ]
    group = channel // (made // op.groups)
    sizes = element_type(op.x.type).shape[2:]
    within = [Within(i, 0, size) for i, size in zip(at, sizes, strict=True)]
    inside = tuple([c for c in within if not c.is_certain])
    x = demand.of(op.x, at=(image, group * count + source, *at)).where(*inside)
    w = demand.of(op.w, at=(channel, source, down, across))
    return Contraction((axis,), w, x, demand.element, inside)


@rules(graph.Gather)
def gather(op: graph.Gather, demand: Demand, demands: Demands) -> Recipe:
    return Same(demand.of(op.x, at=places(op, demand.at, demand.guard)))


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


@rules(graph.Scatter)
def scatter(op: graph.Scatter, demand: Demand, demands: Demands) -> Recipe:
    raise Unfit("what is scattered to is written before it is read")


@rules(graph.Kernel)
def kernel(op: graph.Kernel, demand: Demand, demands: Demands) -> Recipe:
    raise Unfit(f"it has kernels of its own, such as @{op.symbol}; take one of them")
