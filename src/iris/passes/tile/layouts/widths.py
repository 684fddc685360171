"""How many neighbours of a tile a thread is to hold, for its accesses to be as wide as can be.

An access moves 16 bytes at most, 8 elements of f16 or 4 of f32.  Tiles that meet elementwise have
one layout, so the widest elements among those that are loaded, stored or staged decide for all:

    %x: tile<1024xf16> = tile.load %X, %at          4, for %z wants 4
    %y: tile<1024xf32> = cast %x
    %z: tile<1024xf32> = mul %y, %y
    tile.store %Z, %at, %z

With 8 there would be gaps between what neighbouring lanes store at once.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from typing import TypeAlias

from iris.analysis.axis import VECTOR_BYTES
from iris.ir import tile
from iris.ir.control import For, Func, If, Return, While, Yield
from iris.ir.core import Facet, Op, Value
from iris.ir.math import Constant, Elementwise, element_type
from iris.ir.types import Tile

# Values that an op gives one layout, from those that have a layout of their own.  Constants and
# broadcasts of them have none.
Groups: TypeAlias = Iterable[Sequence[Value]]
alike = Facet("values of one layout")
moved = Facet("value that is loaded or stored")


class Widths:
    """The tiles of a function, those of one layout in one class."""

    def __init__(self, function: Func):
        self._parents: dict[Value, Value] = {}
        accessed: list[Value] = []
        for op in function.walk():
            groups: Callable[[Op, Container[Value]], Groups] = alike[type(op)]
            for group in groups(op, self._parents):
                self._join([v for v in group if isinstance(v.type, Tile)])
            value = moved[type(op)](op)
            if value is not None:
                accessed.append(value)
        self._least: dict[Value, int] = {}
        for value in accessed:
            here, width = self._stands_for(value), _widest(value)
            self._least[here] = min(width, self._least.get(here, width))

    def of(self, value: Value) -> int:
        """How many elements of a value that is loaded or stored."""
        return self._least[self._stands_for(value)]

    def _stands_for(self, value: Value) -> Value:
        """The value that stands for the class of a value."""
        parent = self._parents.get(value, value)
        while parent is not value:
            value, parent = parent, self._parents[parent]
        return value

    def _join(self, group: Sequence[Value]) -> None:
        for value in group:
            self._parents.setdefault(value, value)
            self._parents[self._stands_for(value)] = self._stands_for(group[0])


def _widest(value: Value) -> int:
    """How many elements one access can move."""
    return VECTOR_BYTES // element_type(value.type).element.bytes


@alike(Elementwise, Constant, tile.Arange, tile.Update, tile.ExpandDims, tile.Reshape, tile.Scan)
@alike(tile.Store, tile.StoreTile, tile.Stage)
def elementwise(op: Op, known: Container[Value]) -> Groups:
    """The result is like the operands."""
    operands = [v for v in op.operands if v in known]
    return [[*operands, *op.results]] if operands else []


@alike(tile.Load)
def also_without_operands(op: tile.Load, known: Container[Value]) -> Groups:
    return [[op.result, *[v for v in op.operands if v in known]]]


@alike(
    tile.LoadTile,
    tile.Atomic,
    tile.AtomicCas,
    tile.Reduce,
    tile.Transpose,
    tile.Unstage,
    tile.ConvertLayout,
)
def results_start_class(op: Op, known: Container[Value]) -> Groups:
    return [op.results]


@alike(tile.Dot)
def dot_joins_accumulator(op: tile.Dot, known: Container[Value]) -> Groups:
    return [[op.result, *[v for v in op.operands[2:] if v in known]]]


@alike(tile.ProgramId, tile.NumPrograms, tile.Extent, Func, Return)
@alike(tile.Broadcast, tile.Print, tile.Assert)
def each_by_itself(op: Op, known: Container[Value]) -> Groups:
    return []


@alike(If)
def if_results(op: If, known: Container[Value]) -> Groups:
    return [[result] for result in op.results]


@alike(For, While)
def what_is_carried(op: For | While, known: Container[Value]) -> Groups:
    for index in range(-len(op.results), 0):
        initial = [v for v in [op.operands[index]] if v in known]
        yield [op.results[index], *[r.arguments[index] for r in op.regions], *initial]


@alike(Yield)
def yield_classes(op: Yield, known: Container[Value]) -> Groups:
    parent, region = op.parent_op, op.parent
    if parent is None or region is None or not parent.forwards(region):
        return []
    pairs = zip(parent.results, op.operands, strict=True)
    return [[result, value] for result, value in pairs if value in known]


@moved(Elementwise, Constant, Func, For, While, If, Yield, Return)
@moved(tile.ProgramId, tile.NumPrograms, tile.Extent, tile.Arange, tile.Update)
@moved(tile.Broadcast, tile.ExpandDims, tile.Reshape, tile.Transpose, tile.ConvertLayout)
@moved(tile.Dot, tile.Reduce, tile.Scan, tile.Print, tile.Assert)
@moved(tile.Atomic, tile.AtomicCas, tile.Unstage)
def nothing(op: Op) -> None:
    """It moves nothing between memory and registers."""


@moved(tile.Load, tile.LoadTile)
def what_it_loads(op: tile.Load | tile.LoadTile) -> Value:
    return op.result


@moved(tile.Store, tile.StoreTile)
def what_it_stores(op: tile.Store | tile.StoreTile) -> Value:
    return op.value


@moved(tile.Stage)
def what_it_stages(op: tile.Stage) -> Value:
    return op.x
