"""Deciding how a kernel is cut up into programs, loops and lanes.

Axes that always go together are made one.  An axis along which something is combined stays within
a program: as lanes if they are not too many, else in a loop.  What a reduction's result does not
depend on stays there, too, so that it is not made again and again.  The other axes of the outputs
are cut up among programs: in blocks along one or two that lie in memory one element after
another, or along which a product of matrices has its rows and columns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import pairwise, product
from math import prod

from iris.ir.core import Value
from iris.ir.math import element_type
from iris.passes.graph.tiling.demand import Demand, Unfit, Within, address
from iris.passes.graph.tiling.demands import Demands
from iris.passes.graph.tiling.index import Axis, Index
from iris.passes.graph.tiling.plan import MOST_DIMENSIONS, Block, Plan
from iris.passes.graph.tiling.recipes import Combining, Contraction, Load, Reduction, Substitution

# Elements of the largest tile of a program that goes element by element.
PLAIN = 1024
# Elements that lie next to each other and are accessed together.
LINE = 32
# Rows and columns of a block of a product of matrices, and how many products are summed at a time.
ROWS = 64
DEPTH = 32
ORDERS = "two consumers would sum it in different orders, and could round differently"


def ways(demands: Demands) -> Iterator[Demands]:
    """The ways to have the axes of what a kernel demands, of which one may be cheaper."""
    _check_products(demands)
    own = shared(demands)
    yield merged(own)
    # A row that is reduced for a product has its columns in a program if they are the product's.
    if own is not demands and any(isinstance(r, Contraction) for r in demands.recipes.values()):
        yield merged(demands)


def _check_products(demands: Demands) -> None:
    """A product is not made again for every block of another."""
    inner: set[Demand] = set()
    for demand, recipe in reversed(demands.recipes.items()):
        if demand in inner and isinstance(recipe, Contraction):
            raise Unfit("a matrix product would be recomputed within another one")
        if demand in inner or isinstance(recipe, Contraction):
            inner.update(recipe.demands)


# Axes that are the same, or go together.


def shared(demands: Demands) -> Demands:
    """Let a reduction reuse an output axis when the elements that it reads are also written.

    An example is `x / sum(x)`.
    """
    reductions = [r for r in demands.recipes.values() if isinstance(r, Reduction)]
    work = [d for d, r in demands.recipes.items() if isinstance(r, Load | Combining)]
    outermost = {*demands.reduced.get(frozenset(), ())}
    found: dict[Axis, Index] = {}
    for over in dict.fromkeys(r.over for r in reductions if outermost.issuperset(r.over)):
        new = {axis for axis in over if axis not in found}
        beside = [d for r in reductions if not new.isdisjoint(r.over) for d in r.demands]
        needed: set[Axis] = set().union(*(demands.dependencies[d] for d in beside))
        taken = needed.union(*(index.atoms() for index in found.values()))
        free = {axis for axis in demands.outer if axis not in taken}
        own = [d for d in work if not demands.dependencies[d].isdisjoint(new)]
        for demand, other in product(own, work):
            to = _matched(demand, other, new, free) if demand.value is other.value else {}
            if to and Substitution(found | to).demand(demand) in demands.recipes:
                found |= to
                break
    return demands.substituted(found) if found else demands


def _matched(
    demand: Demand, other: Demand, axes: Collection[Axis], free: Collection[Axis]
) -> dict[Axis, Index]:
    """Pair each reduced axis with a free axis of equal size and stride; {} if one has none."""
    places = {n: atom for atom, n in address(other).terms if atom in free}
    found: dict[Axis, Index] = {}
    for atom, n in address(demand).terms:
        if isinstance(atom, Axis) and atom in axes:
            place = places.get(n)
            if not isinstance(place, Axis) or place.size != atom.size:
                return {}
            found[atom] = Index.of(place)
    return found if found.keys() == {*axes} else {}


def merged(demands: Demands) -> Demands:
    """The same with neighbouring axes made one wherever all that is accessed allows it."""
    formulas = list(dict.fromkeys(_formulas(demands)))
    combined = [r.over for r in demands.recipes.values() if isinstance(r, Combining)]

    def joins(a: Axis, b: Axis) -> bool:
        return all((a in over) is (b in over) for over in combined) and all(
            _count(a, f) == b.size * _count(b, f) for f in formulas
        )

    spans: list[list[Axis]] = []
    for axes in _neighbours(demands):
        spans.append([axes[0]])
        for a, b in pairwise(axes):
            if joins(a, b):
                spans[-1].append(b)
            else:
                spans.append([b])
    found: dict[Axis, Index] = {}
    for span in spans:
        if len(span) > 1:
            size = 1
            for axis in span:
                size *= axis.size
            whole = Index.of(Axis("".join(axis.name for axis in span), size))
            for axis in reversed(span):
                found[axis] = whole % axis.size
                whole = whole // axis.size
    return demands.substituted(found) if found else demands


def _neighbours(demands: Demands) -> Iterator[list[Axis]]:
    """Axes in the order in which an output, or what a reduction is over, has them."""
    seen: set[Axis] = set()
    runs = [demands.outer, *(r.over for r in demands.recipes.values() if isinstance(r, Combining))]
    for run in runs:
        new = [axis for axis in run if axis not in seen]
        seen.update(new)
        if new:
            yield new


def _formulas(demands: Demands) -> Iterator[Index]:
    """All formulas whose value matters."""
    for output in demands.outputs:
        yield from output.place.formulas()
    for recipe in demands.recipes.values():
        for formula in recipe.formulas():
            yield from formula.formulas()


def _count(axis: Axis, formula: Index) -> int:
    return next((n for atom, n in formula.terms if atom is axis), 0)


# Cutting up.


class Cut:
    """How many lanes there are along each axis, and which axes of the outputs are kept whole."""

    def __init__(self, demands: Demands, room: int):
        self.demands = demands
        widest = max([d.element.bytes for d in demands.recipes], default=1)
        self.most = room // max(4, widest)  # elements of a tile
        self.plain = min(PLAIN, self.most)
        self.rows = min(ROWS, 1 << (self.most.bit_length() - 1) // 2)
        self.outer = [axis for axis in demands.outer if axis.size > 1]
        self.combining = {d: r for d, r in demands.recipes.items() if isinstance(r, Combining)}
        self.lanes: dict[Axis, int] = {}
        self.products = [
            (d, r, *sides)
            for d, r in self.combining.items()
            if (sides := self._sides(r)) is not None
        ]
        self.kept = [axis for axis in self.outer if self._is_kept(axis)]
        self._check_orders()
        if self.products:
            self._cut_products()
        else:
            self._cut_rows()
        for demand, recipe in reversed(self.combining.items()):
            self._cut_reduced(demand, recipe)
        if sum(n > 1 for n in self.lanes.values()) > MOST_DIMENSIONS:
            for needed, made_of in demands.recipes.items():
                over = made_of.over if isinstance(made_of, Combining) else ()
                self._limit([needed, *made_of.demands], over)
            for output in demands.outputs:
                self._limit([output.demand], demands.outer)

    def blocks(self, axis: Axis) -> int:
        """In how many parts an axis is cut."""
        return -(-axis.size // self.lanes.get(axis, 1))

    @property
    def programs(self) -> int:
        """How many programs there are."""
        return prod([self.blocks(axis) for axis in self.demands.outer if axis not in self.kept])

    def times(self, axes: Collection[Axis]) -> int:
        """How often all programs together make an element of what differs along some axes, each
        of which may be made by several programs."""
        shared = [a for a in self.demands.outer if a not in self.kept and a not in axes]
        return _size(axes) * prod([self.blocks(axis) for axis in shared])

    def _sides(self, recipe: Combining) -> tuple[list[Axis], list[Axis]] | None:
        """The axes along which a product of matrices has its rows, and those of its columns."""
        if not isinstance(recipe, Contraction):
            return None
        a, b = (self.demands.dependencies[d] for d in recipe.demands)
        rows = [axis for axis in self.outer if axis in a and axis not in b]
        columns = [axis for axis in self.outer if axis in b and axis not in a]
        return (rows, columns) if rows and columns else None

    def _is_combined(self, axis: Axis) -> bool:
        return any(axis in recipe.over for recipe in self.combining.values())

    def _is_kept(self, axis: Axis) -> bool:
        """Whether all of an axis of the outputs stays within a program."""
        dependencies = self.demands.dependencies
        if self._is_combined(axis):
            return True
        if any(axis in dependencies[demand] for demand, *_ in self.products):
            return False
        blocks = -(-axis.size // self.plain)
        return any(
            axis not in dependencies[demand] and blocks * _size(recipe.over) > axis.size
            for demand, recipe in self.combining.items()
        )

    def _check_orders(self) -> None:
        """What depends on the order in which it is summed is summed once, lest a number differ from
        itself: the greatest of some from all of them."""
        found: dict[Value, tuple[Index, ...]] = {}
        for demand, recipe in self.combining.items():
            if recipe.is_rounded and found.setdefault(demand.value, demand.at) != demand.at:
                raise Unfit(ORDERS)

    def _cut_products(self) -> None:
        """Blocks of rows and columns."""
        for _, recipe, rows, columns in reversed(self.products):
            for side in (rows, columns):
                taken = [axis for axis in self.outer if axis in self.lanes]
                if len(taken) < 2 and not any(axis in taken for axis in side):
                    widest = max(reversed(side), key=lambda axis: axis.size)
                    self._cut(widest, self.rows)
            for axis in recipe.over:
                self._cut(axis, DEPTH)
        for axis in filter(self._is_combined, self.kept):
            if self.lanes.get(axis, 1) < axis.size:
                raise Unfit(f"rows of {axis.size} products do not fit a program")

    def _cut_rows(self) -> None:
        """What is kept in a program, and as much beside it as makes accesses wide."""
        contiguous = self._contiguous()
        line, others = (contiguous[0], contiguous[1:]) if contiguous else (None, [])
        reduced = {axis for recipe in self.combining.values() for axis in recipe.over}
        free = [axis for axis in self.outer if axis not in self.kept]
        across = [axis for axis in others if axis in free] if not reduced else []
        if line is not None and line in free:
            most = 2 * LINE if reduced or self.kept else LINE if across else self.plain
            self._cut(line, most)
        for axis in across[:1]:
            self._cut(axis, LINE)
        for axis in reversed(self.kept):
            self._cut(axis, self.most // self._count())
        inner = [_lanes(_size(r.over), self.most) for r in self.combining.values()]
        taken = self._count() if line in free else max(self._count(), *inner, 1)
        room = self.plain // taken
        for axis in reversed(free):
            if axis not in self.lanes and len(self.lanes) < 2:
                self._cut(axis, room)
                room //= self.lanes[axis]

    def _contiguous(self) -> list[Axis]:
        """The axes along which elements lie next to each other, those of the most elements
        first."""
        weights: dict[Axis, int] = {}
        accessed = [(w.place, _elements(w.demand.value)) for w in self.demands.outputs]
        for recipe in self.demands.recipes.values():
            if isinstance(recipe, Load):
                accessed.append((recipe.address, _elements(recipe.value)))
        for formula, size in accessed:
            for atom, n in formula.terms:
                if n == 1 and isinstance(atom, Axis):
                    weights[atom] = weights.get(atom, 0) + size
        return sorted(weights, key=lambda axis: -weights[axis])

    def _cut_reduced(self, demand: Demand, recipe: Combining) -> None:
        """What is combined and is in no output, beside the lanes of what is made of it."""
        beside = self.demands.dependencies[demand]
        lanes = [n for axis, n in self.lanes.items() if axis in beside and n > 1]
        room, places = self.most // prod(lanes), MOST_DIMENSIONS - len(lanes)
        for axis in reversed(recipe.over):
            if axis not in self.lanes:
                self._cut(axis, room if places else 1)
                room //= self.lanes[axis]
                places -= self.lanes[axis] > 1

    def _limit(self, demands: Iterable[Demand], others: Collection[Axis]) -> None:
        """Have no more lanes for what depends on some demands, and goes along other axes, than a
        tile has dimensions: rather none along those."""
        axes = {*others}.union(*(self.demands.dependencies[d] for d in demands))
        lanes = [axis for axis in self.lanes if axis in axes and self.lanes[axis] > 1]
        lanes.sort(key=lambda axis: (axis in others, axis not in self.outer))
        for axis in lanes[MOST_DIMENSIONS:]:
            self.lanes[axis] = 1

    def _cut(self, axis: Axis, most: int) -> None:
        """Have lanes for all of an axis if they are not too many, else for a part."""
        whole = _lanes(axis.size, axis.size * 2)
        self.lanes[axis] = whole if whole <= most else max(1, min(most, self.plain))

    def _count(self) -> int:
        return prod(self.lanes.values())

    # The plan.

    def plan(self) -> Plan:
        if not self.demands.outputs:
            return Plan(self.demands, self.demands.outer)
        found: dict[Axis, Index] = {}
        lanes: dict[Axis, int] = {}
        ends: dict[Axis, Within] = {}
        blocks: dict[Axis, Block] = {}
        programs: list[Axis] = []
        loops: list[Axis] = []
        for axis in (*self.outer, *(a for a in self.lanes if a not in self.outer)):
            count = self.lanes.get(axis, 1)
            scalar, lane = axis, axis
            if 1 < count < axis.size:
                scalar = Axis(axis.name, -(-axis.size // count))
                lane = Axis(f"{axis.name}i", count)
                blocks[scalar] = Block(count, axis.size)
                found[axis] = Index.of(scalar) * count + Index.of(lane)
            if count > 1:
                lanes[lane] = count
                if axis.size % count:
                    ends[lane] = Within(found.get(axis) or Index.of(axis), 0, axis.size)
            if count < axis.size and axis in self.outer:
                (loops if axis in self.kept else programs).append(scalar)
        demands = self.demands.substituted(found) if found else self.demands
        return Plan(demands, tuple(programs), tuple(loops), lanes, ends, blocks)


def _lanes(size: int, most: int) -> int:
    """The power of two that holds a size, or the most."""
    return min(1 << (size - 1).bit_length(), most)


def _size(axes: Iterable[Axis]) -> int:
    return prod(axis.size for axis in axes)


def _elements(value: Value) -> int:
    return prod(element_type(value.type).shape)
