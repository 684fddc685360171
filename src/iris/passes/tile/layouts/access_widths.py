"""Choose how many neighbours of a tile a thread holds, so that its accesses are wide.

An access moves 16 bytes at most, 8 elements of f16 or 4 of f32.  Operands of an elementwise op have
one layout, so the narrowest access decides for all of them:

    %x: tile<1024xf16> = tile.load %X, %at          4, for %z wants 4
    %y: tile<1024xf32> = cast %x
    %z: tile<1024xf32> = mul %y, %y
    tile.store %Z, %at, %z

With 8 there would be gaps between what neighbouring lanes store at once.  An access to neighbours
that is not aligned, such as one at `%at + 1`, moves one element: all lanes together then access
neighbours, and not every fourth element.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from typing import TypeAlias

from iris.analysis.axis import VECTOR_BYTES, Axes, is_contiguous, order, vector
from iris.ir import tile
from iris.ir.control import Func, If, Loop, Return, Yield
from iris.ir.core import Facet, Op, Value
from iris.ir.math import Constant, Elementwise
from iris.ir.types import Tile

# Values that an op gives one layout, without constants and their broadcasts, which have none.
Groups: TypeAlias = Iterable[Sequence[Value]]
# A value that an op loads or stores, and how many elements of it one access should move.
ValueWidth: TypeAlias = tuple[Value, int]
layout_classes = Facet("values of one layout")
access_width = Facet("width of an access")


class AccessWidths:
    """The tiles of a function in classes of equal layout, and the access width of each class."""

    def __init__(self, ops: Iterable[Op], axes: Axes):
        """Take the ops of a function that have tiles, in order."""
        self._parents: dict[Value, Value] = {}
        accessed: list[ValueWidth] = []
        for op in ops:
            groups: Callable[[Op, Container[Value]], Groups] = layout_classes[type(op)]
            for group in groups(op, self._parents):
                self._join([v for v in group if isinstance(v.type, Tile)])
            access: Callable[[Op, Axes], ValueWidth | None] = access_width[type(op)]
            moved = access(op, axes)
            if moved is not None:
                accessed.append(moved)
        self._least: dict[Value, int] = {}
        for value, width in accessed:
            representative = self._representative(value)
            self._least[representative] = min(width, self._least.get(representative, width))

    def of(self, value: Value) -> int:
        """How many elements one access of a value should move."""
        return self._least[self._representative(value)]

    def _representative(self, value: Value) -> Value:
        """The representative of the class of a value."""
        parent = self._parents.get(value, value)
        while parent is not value:
            value, parent = parent, self._parents[parent]
        return value

    def _join(self, group: Sequence[Value]) -> None:
        parents = self._parents
        for value in group:
            parents.setdefault(value, value)
        for value in group[1:]:
            parents[self._representative(value)] = self._representative(group[0])


def has_tiles(op: Op) -> bool:
    """Whether an operand or a result of an op is a tile."""
    return Tile in [type(v.type) for v in (*op.results, *op.operands)]


def _elements_per_access(value: Value) -> int:
    """How many elements one access can move."""
    return VECTOR_BYTES // value.type.element.bytes


def _width_in_memory(op: Op, value: Value, axes: Axes) -> ValueWidth:
    """As many elements as memory allows; elements that are not neighbours allow any number."""
    if not isinstance(value.type, Tile):
        return value, 1
    width, fastest = _elements_per_access(value), order(op, axes)[0]
    aligned = vector(op, fastest, axes)
    return value, min(width, aligned) if is_contiguous(op, fastest, axes) else width


@layout_classes(
    Elementwise,
    Constant,
    tile.Arange,
    tile.Update,
    tile.ExpandDims,
    tile.Flip,
    tile.Reshape,
    tile.Scan,
)
@layout_classes(tile.Store, tile.StoreTile, tile.Stage)
def elementwise_class(op: Op, known: Container[Value]) -> Groups:
    """The result has the layout of the operands."""
    operands = [v for v in op.operands if v in known]
    return [[*operands, *op.results]] if operands else []


@layout_classes(tile.Load)
def load_class(op: tile.Load, known: Container[Value]) -> Groups:
    return [[op.result, *[v for v in op.operands if v in known]]]


@layout_classes(
    tile.LoadTile,
    tile.Atomic,
    tile.AtomicCas,
    tile.Pick,
    tile.Reduce,
    tile.Transpose,
    tile.Unstage,
    tile.ConvertLayout,
)
def results_start_class(op: Op, known: Container[Value]) -> Groups:
    return [op.results]


@layout_classes(tile.Gather)
def gather_class(op: tile.Gather, known: Container[Value]) -> Groups:
    return [[op.result, *[v for v in [op.index] if v in known]]]


@layout_classes(tile.Dot)
def dot_joins_accumulator(op: tile.Dot, known: Container[Value]) -> Groups:
    return [[op.result, *[v for v in op.operands[2:] if v in known]]]


@layout_classes(tile.ProgramId, tile.NumPrograms, tile.Extent, Func, Return)
@layout_classes(tile.Broadcast, tile.Print, tile.Assert)
def no_class(op: Op, known: Container[Value]) -> Groups:
    return []


@layout_classes(If)
def if_results(op: If, known: Container[Value]) -> Groups:
    return [[result] for result in op.results]


@layout_classes(Loop)
def loop_classes(op: Loop, known: Container[Value]) -> Groups:
    for initial, arguments, _, result in op.carried():
        yield [result, *arguments, *[v for v in [initial] if v in known]]


@layout_classes(Yield)
def yield_classes(op: Yield, known: Container[Value]) -> Groups:
    parent, region = op.parent_op, op.parent
    if parent is None or region is None or not parent.forwards(region):
        return []
    pairs = zip(parent.results, op.operands, strict=True)
    return [[result, value] for result, value in pairs if value in known]


@access_width(Elementwise, Constant, Func, Loop, If, Yield, Return)
@access_width(tile.ProgramId, tile.NumPrograms, tile.Extent, tile.Arange, tile.Update)
@access_width(tile.Broadcast, tile.ExpandDims, tile.Reshape, tile.Transpose, tile.ConvertLayout)
@access_width(tile.Dot, tile.Flip, tile.Pick, tile.Reduce, tile.Scan, tile.Print, tile.Assert)
@access_width(tile.Atomic, tile.AtomicCas, tile.Gather, tile.Unstage)
def moves_nothing(op: Op, axes: Axes) -> None:
    """It moves nothing between memory and registers."""


@access_width(tile.Load, tile.LoadTile)
def load_width(op: tile.Load | tile.LoadTile, axes: Axes) -> ValueWidth:
    return _width_in_memory(op, op.result, axes)


@access_width(tile.Store, tile.StoreTile)
def store_width(op: tile.Store | tile.StoreTile, axes: Axes) -> ValueWidth:
    return _width_in_memory(op, op.value, axes)


@access_width(tile.Stage)
def stage_width(op: tile.Stage, axes: Axes) -> ValueWidth:
    return op.x, _elements_per_access(op.x)
