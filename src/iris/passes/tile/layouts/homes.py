"""Homes: in which layout a value is computed, where something decides that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from iris.analysis.axis import Axes, order, vector
from iris.ir import tile
from iris.ir.control import For, Func, If, Return, While, Yield
from iris.ir.core import Facet, Op, Region, Value
from iris.ir.layout.linear import LANE, REGISTER, LinearLayout, Span
from iris.ir.layout.reduce import reduce_axis
from iris.ir.math import Constant, Elementwise, element_type
from iris.ir.types import Tile
from iris.passes.tile.layouts.fragments import arrange, is_of_fragments, matrix_type
from iris.passes.tile.layouts.shapes import coalesced, scannable
from iris.passes.tile.layouts.widths import Widths
from iris.targets import Target

# What a barrier takes, and one element on its way to threadgroup memory and back, as accesses of a
# line of the device's.
BARRIER, WAY = 16, 2

home = Facet("home")  # of the only result of an op, from those of its operands
uses = Facet("layouts in which operands are used")
walks = Facet("walk")  # of ops with regions


class Homes:
    """The homes of a function's tiles.  Values are visited in program order, what loops carry
    until nothing changes."""

    def __init__(self, function: Func, target: Target):
        self.target = target
        self.simdgroups = function.simdgroups
        self.axes = Axes()
        self._widths = Widths(function)
        self._homes: dict[Value, LinearLayout] = {}
        self.visit(function.body)

    def of(self, value: Value) -> LinearLayout | None:
        return self._homes.get(value)

    def operands(self, op: Op) -> Sequence[LinearLayout | None]:
        """The layouts in which an op that has a home, or an effect, uses its operands."""
        rule: Callable[[Homes, Op], Sequence[LinearLayout | None]] = uses[type(op)]
        return rule(self, op)

    def default(self, type_: Tile) -> LinearLayout:
        """Where nothing says otherwise."""
        return coalesced(type_.shape, _row_major(type_), 4, self.simdgroups)

    def settled(self, value: Value) -> LinearLayout:
        """The home of a value, or what it is to be computed in, having none."""
        assert isinstance(value.type, Tile)
        return self._homes.get(value) or self.default(value.type)

    def at_access(self, op: Op, value: Value) -> LinearLayout:
        """A layout in which an access of memory, which loads or stores a value, is coalesced."""
        assert isinstance(value.type, Tile)
        axes = order(op, self.axes)
        width = min(vector(op, axes[0], self.axes), self._widths.of(value))
        return coalesced(value.type.shape, axes, width, self.simdgroups)

    def visit(self, region: Region) -> None:
        """Find homes for what is computed in a region."""
        for op in region:
            rule = walks.get(type(op))
            if rule is not None:
                rule(self, op)
                continue
            for value in op.results:
                if isinstance(value.type, Tile):
                    at = home[type(op)](self, op)
                    if at is not None:
                        self._homes[value] = at  # a loop's body is visited again

    def settle(self, value: Value, layout: LinearLayout) -> None:
        """Give a value that regions carry a home, unless it has one."""
        self._homes.setdefault(value, layout)


def _row_major(type_: Tile) -> tuple[int, ...]:
    return tuple(reversed(range(len(type_.shape))))


# What decides the home of a result.


@home(Elementwise, Constant, tile.Arange, tile.Update, tile.Unstage, tile.ConvertLayout)
def where_an_operand_is(homes: Homes, op: Op) -> LinearLayout | None:
    """The result has the home of an operand, and none if no operand has one."""
    known = (homes.of(v) for v in op.operands if isinstance(v.type, Tile))
    return next((layout for layout in known if layout is not None), None)


@home(tile.Broadcast)
def anywhere(homes: Homes, op: Op) -> None:
    """It costs nothing to have what is the same along an axis in yet another place."""


@home(tile.Atomic, tile.AtomicCas)
def one_at_a_time(homes: Homes, op: tile.Atomic | tile.AtomicCas) -> LinearLayout:
    assert isinstance(op.result.type, Tile)
    type_ = op.result.type
    return coalesced(type_.shape, _row_major(type_), 1, homes.simdgroups)


@home(tile.Load, tile.LoadTile)
def where_it_is_coalesced(homes: Homes, op: Op) -> LinearLayout:
    """Or, if it is for a product alone, as fragments."""
    return _as_fragments(homes, op.results[0]) or homes.at_access(op, op.results[0])


def _as_fragments(homes: Homes, value: Value) -> LinearLayout | None:
    """The layout in which a product has a value as its operand, if that is all the value is for."""
    while True:
        if len(value.users) != 1:
            return None
        (user,) = value.users
        if not isinstance(user, Elementwise):
            break
        value = user.results[0]
    if isinstance(user, tile.Dot) and is_of_fragments(user):
        found, shape = arrange(user, homes.simdgroups), matrix_type(value).shape
        if value is user.acc:
            return found.result(shape)
        return found.left(shape) if value is user.a else found.right(shape)
    if isinstance(user, Yield):
        branch, region = user.parent_op, user.parent
        if not isinstance(branch, If) or region is None:
            return None
        return _as_fragments(homes, branch.results[user.operands.index(value)])
    if isinstance(user, tile.Transpose):
        layout = _as_fragments(homes, user.result)
        inverse = sorted(range(len(user.permutation)), key=user.permutation.__getitem__)
        return layout and layout.transpose(inverse)
    if isinstance(user, tile.Reshape):
        layout = _as_fragments(homes, user.result)
        return layout and layout.reshape(element_type(value.type).shape)
    return None


@home(tile.Dot)
def in_fragments(homes: Homes, op: tile.Dot) -> LinearLayout:
    if not is_of_fragments(op):
        assert op.acc is not None
        return homes.settled(op.acc)
    return arrange(op, homes.simdgroups).result(element_type(op.result.type).shape)


@home(tile.ExpandDims)
def with_an_axis(homes: Homes, op: tile.ExpandDims) -> LinearLayout | None:
    layout = homes.of(op.x)
    return layout and layout.expand(op.axis)


@home(tile.Reshape)
def in_another_shape(homes: Homes, op: tile.Reshape) -> LinearLayout | None:
    layout = homes.of(op.x)
    assert isinstance(op.result.type, Tile)
    return layout and layout.reshape(op.result.type.shape)


@home(tile.Transpose)
def with_axes_in_another_order(homes: Homes, op: tile.Transpose) -> LinearLayout | None:
    layout = homes.of(op.x)
    return layout and layout.transpose(op.permutation)


@home(tile.Reduce)
def without_the_axis(homes: Homes, op: tile.Reduce) -> LinearLayout | None:
    return reduce_axis(homes.settled(op.x), op.axis).result


@home(tile.Scan)
def where_it_can_be_scanned(homes: Homes, op: tile.Scan) -> LinearLayout | None:
    return scannable(homes.settled(op.x), op.axis)


# In what layouts operands are used.


@uses(Elementwise, Constant)
@uses(tile.ProgramId, tile.NumPrograms, tile.Extent, tile.Arange, tile.Broadcast)
@uses(tile.Load, tile.LoadTile, tile.Atomic, tile.AtomicCas)
@uses(tile.Scan, tile.Update, tile.Unstage, Return)
def where_the_result_is(homes: Homes, op: Op) -> Sequence[LinearLayout | None]:
    at = next((homes.of(v) for v in op.results if isinstance(v.type, Tile)), None)
    return [at] * len(op.operands)


@uses(
    tile.ExpandDims,
    tile.Reshape,
    tile.Transpose,
    tile.Reduce,
    tile.ConvertLayout,
    tile.Stage,
    tile.Assert,
    tile.Print,
)
def where_they_are(homes: Homes, op: Op) -> Sequence[LinearLayout | None]:
    return [homes.settled(v) if isinstance(v.type, Tile) else None for v in op.operands]


@uses(tile.Dot)
def where_they_are_but_what_is_added(homes: Homes, op: tile.Dot) -> Sequence[LinearLayout | None]:
    if not is_of_fragments(op):
        return [homes.settled(op.a), homes.settled(op.b), homes.of(op.result)]
    found = arrange(op, homes.simdgroups)
    a, b = (matrix_type(v).shape for v in (op.a, op.b))
    return [found.left(a), found.right(b), homes.of(op.result)]


@uses(tile.Store, tile.StoreTile)
def where_the_value_is(
    homes: Homes, op: tile.Store | tile.StoreTile
) -> Sequence[LinearLayout | None]:
    """What is stored stays where it is, unless that would scatter it."""
    type_ = op.value.type
    if not isinstance(type_, Tile):
        return [None] * len(op.operands)
    best = homes.at_access(op, op.value)
    at = homes.of(op.value)
    if at is None or is_scattered(at, best, op, type_, homes.axes, homes.target):
        at = best
    return [at] * len(op.operands)


def is_scattered(
    layout: LinearLayout, best: LinearLayout, op: Op, type_: Tile, axes: Axes, target: Target
) -> bool:
    """Whether an access in a layout is so much worse than in another that it is worth a way
    through threadgroup memory."""
    fastest, size = order(op, axes)[0], type_.element.bytes
    if prod(type_.shape) * size > target.threadgroup_bytes:
        return False  # there is no such way
    width = vector(op, fastest, axes)
    found, least = (_lines(at, fastest, size, width, target) for at in (layout, best))
    return found - least > WAY * layout.size(REGISTER) + BARRIER


def _lines(layout: LinearLayout, axis: int, size: int, width: int, target: Target) -> int:
    """How many lines of memory the accesses of a simdgroup touch, summed, if rows along an axis
    are each in lines of their own; an element has so many bytes, an access so many elements."""
    step = prod(layout.shape[axis + 1 :])  # between the row-major numbers of neighbours
    registers, together = layout.columns_of(REGISTER), 0
    while 1 << together < width and step << together in registers:
        together += 1
    line = min(target.line_bytes // size, layout.shape[axis])
    lanes = Span(c & ~((line - 1) * step) for c in layout.columns_of(LANE))
    return 1 << len(registers) - together + lanes.rank


# What runs regions: what is carried has one home throughout.


@walks(For, While)
def walk_loop(homes: Homes, op: For | While) -> None:
    start = len(op.body.arguments) - len(op.results)
    groups = [
        [result, *[region.arguments[start * (region is op.body) + i] for region in op.regions]]
        for i, result in enumerate(op.results)
    ]
    pending = [
        (group, op.initial[i], op.body.end.operands[i])
        for i, group in enumerate(groups)
        if isinstance(group[0].type, Tile)
    ]
    while True:
        for region in op.regions:
            homes.visit(region)
        # What the rounds make decides, rather than what there is before them.
        sources = [(g, homes.of(after) or homes.of(initial)) for g, initial, after in pending]
        found = [(g, at) for g, at in sources if at is not None]
        if not found and pending:  # nothing decides, so one is taken
            group, _, _ = pending[0]
            found = [(group, homes.settled(group[0]))]
        if not found:
            return
        for group, at in found:
            for value in group:
                homes.settle(value, at)
        pending = [entry for entry in pending if homes.of(entry[0][0]) is None]


@walks(If)
def walk_branches(homes: Homes, op: If) -> None:
    for region in op.regions:
        homes.visit(region)
    for result, *yielded in zip(op.results, *[r.end.operands for r in op.regions], strict=True):
        if isinstance(result.type, Tile):
            known = (homes.of(v) for v in yielded)
            at = next((layout for layout in known if layout is not None), None)
            homes.settle(result, at or homes.default(result.type))


@uses(For, While, If)
def where_it_is_carried(homes: Homes, op: For | While | If) -> Sequence[LinearLayout | None]:
    carried = [homes.of(v) for v in op.results]
    return [None] * (len(op.operands) - len(carried)) + carried if op.loops else [None]


@uses(Yield)
def where_it_goes(homes: Homes, op: Yield) -> Sequence[LinearLayout | None]:
    parent, region = op.parent_op, op.parent
    assert parent is not None and region is not None
    if not parent.forwards(region):
        return [None] * len(op.operands)
    return [homes.of(v) for v in parent.results]
