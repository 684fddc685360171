"""What a kernel computes, as demands: which element of which tensor, for each point of its axes.

To have an element of a result is to demand elements of what it is made of, down to those of the
kernel's inputs, which are loaded.  Views of a tensor are no work at all: they are other indices.

    softmax[i, j]   exp(x[i, j] - max[i]) / sum[i]       max[i], sum[i]: over all of axis j
    matmul[i, j]    a[i, k] times b[k, j], over all of axis k

`rules` has, for each op, what a demand for its result becomes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from math import prod
from typing import NamedTuple

from iris.ir import graph
from iris.ir.core import Facet, Value
from iris.ir.math import element_type
from iris.ir.types import i32
from iris.passes.graph.tiling.demand import (
    Demand,
    Lookup,
    Unfit,
    address,
    axes_of,
    indices_of,
    places,
    places_in,
)
from iris.passes.graph.tiling.index import Axis, Index
from iris.passes.graph.tiling.recipes import Combining, Load, Recipe, Running, Splat, Substitution

rules = Facet("demand")

# At how many places a program makes elements of a tensor, on average, and in how many more in all.
# What is made of two places of what is made of two places again would be too long a program.
PLACES, MORE = 8, 1024


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
        self.made: set[Value] = set()
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
        self.made.add(demand.value)
        if len(self.recipes) > PLACES * len(self.made) + MORE:
            raise Unfit("fusing would recompute too many elements")
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
        raise Unfit("the input of a scatter must be in memory")
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
