"""Preferred layouts: which layout a value is computed in, if its op or an operand decides one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from iris.analysis.axis import Axes, order, vector
from iris.ir import tile
from iris.ir.control import Func, If, Loop, Return, Yield
from iris.ir.core import Facet, Op, Region, Value
from iris.ir.layout.linear import LANE, REGISTER, LinearLayout, Span
from iris.ir.layout.reduce import reduce_axis
from iris.ir.math import Constant, Elementwise, element_type
from iris.ir.types import Tile
from iris.passes.tile.layouts.access_layouts import coalesced, pickable, scannable
from iris.passes.tile.layouts.access_widths import AccessWidths, has_tiles
from iris.passes.tile.layouts.fragments import (
    Arrangement,
    accumulated,
    arrange,
    is_divided,
    is_of_fragments,
)
from iris.passes.tile.layouts.scalar_blocks import scalar_blocks
from iris.targets import Target

# What a barrier costs, and one element that goes to threadgroup memory and back, in accesses of a
# line of device memory.
BARRIER_COST_LINES, STAGING_COST_LINES = 16, 2

preferred = Facet("preferred layout")  # from the preferred layouts of the operands
operand_layouts = Facet("operand layouts")
visiting = Facet("preferred layouts within regions")


class LayoutPreferences:
    """The preferred layouts of a function's tiles.

    Values are visited in program order; loops are visited until nothing changes.
    """

    def __init__(self, function: Func, target: Target):
        self.target = target
        self.simdgroups = function.simdgroups
        self.axes = Axes()
        #: The ops that have to do with tiles, in order.
        self.tile_ops = dict.fromkeys([op for op in function.walk() if has_tiles(op)])
        self._widths = AccessWidths(self.tile_ops, self.axes)
        self._preferred: dict[Value, LinearLayout] = {}
        self._arrangements: dict[tile.Dot, Arrangement] = {}
        self.visit(function.body)

    def of(self, value: Value) -> LinearLayout | None:
        return self._preferred.get(value)

    def operands(self, op: Op) -> Sequence[LinearLayout | None]:
        """The layouts in which an op uses its operands, if it has a preferred one or an effect."""
        rule: Callable[[LayoutPreferences, Op], Sequence[LinearLayout | None]] = operand_layouts[
            type(op)
        ]
        return rule(self, op)

    def default(self, type_: Tile) -> LinearLayout:
        """The layout of a value that has no preferred one."""
        return coalesced(type_.shape, _row_major(type_), 4, self.simdgroups)

    def preferred_or_default(self, value: Value) -> LinearLayout:
        """The preferred layout of a value, else the default."""
        return self._preferred.get(value) or self.default(value.type_as(Tile))

    def arrangement(self, op: tile.Dot) -> Arrangement:
        """How simdgroups share the result of a product of fragments."""
        arrangement = self._arrangements.get(op)
        if arrangement is None:
            arrangement = self._arrangements[op] = arrange(op, self.simdgroups, self.target)
        return arrangement

    def at_access(self, op: Op, value: Value) -> LinearLayout:
        """A layout in which an access of memory, which loads or stores a value, is coalesced."""
        axes = order(op, self.axes)
        width = min(vector(op, axes[0], self.axes), self._widths.of(value))
        return coalesced(value.type_as(Tile).shape, axes, width, self.simdgroups)

    def visit(self, region: Region) -> None:
        """Find the preferred layouts of the values of a region."""
        for op in region:
            if op.regions:
                visiting[type(op)](self, op)
                continue
            for value in op.results:
                if isinstance(value.type, Tile):
                    layout = preferred[type(op)](self, op)
                    if layout is not None:
                        self._preferred[value] = layout  # a loop's body is visited again

    def fix(self, value: Value, layout: LinearLayout) -> None:
        """Give a carried value a preferred layout, unless it has one."""
        self._preferred.setdefault(value, layout)


def _row_major(type_: Tile) -> tuple[int, ...]:
    return tuple(reversed(range(len(type_.shape))))


# The preferred layout of a result.


@preferred(Elementwise, Constant, tile.Arange, tile.Update, tile.Unstage, tile.ConvertLayout)
def operand_layout(layouts: LayoutPreferences, op: Op) -> LinearLayout | None:
    """The first preferred layout of an operand; None if no operand has one."""
    return next(filter(None, map(layouts.of, op.operands)), None)


@preferred(tile.Broadcast)
def no_preference(layouts: LayoutPreferences, op: Op) -> None:
    """None: a broadcast costs nothing in any layout."""


@preferred(tile.Atomic, tile.AtomicCas)
def atomic_layout(layouts: LayoutPreferences, op: tile.Atomic | tile.AtomicCas) -> LinearLayout:
    """That of an operand if nobody uses the result: then nothing has to be rearranged."""
    there = None if op.result.users else operand_layout(layouts, op)
    type_ = op.result.type_as(Tile)
    return there or coalesced(type_.shape, _row_major(type_), 1, layouts.simdgroups)


@preferred(tile.Load, tile.LoadTile)
def load_layout(layouts: LayoutPreferences, op: Op) -> LinearLayout:
    """A coalesced layout; fragments if the value is only an operand of a product."""
    return _as_fragments(layouts, op.results[0]) or layouts.at_access(op, op.results[0])


def _as_fragments(layouts: LayoutPreferences, value: Value) -> LinearLayout | None:
    """The layout of a value as operand of a product, if that is its only use."""
    while True:
        if len(value.users) != 1:
            return None
        (user,) = value.users
        if not isinstance(user, Elementwise):
            break
        value = user.results[0]
    if isinstance(user, tile.Dot) and is_of_fragments(user, layouts.target):
        arrangement, shape = layouts.arrangement(user), tile.matrix_type(value).shape
        if value is user.acc:
            return arrangement.result(shape)
        return arrangement.left(shape) if value is user.a else arrangement.right(shape)
    if isinstance(user, Yield):
        branch, region = user.parent_op, user.parent
        if not isinstance(branch, If) or region is None:
            return None
        return _as_fragments(layouts, branch.results[user.operands.index(value)])
    if isinstance(user, tile.Transpose):
        layout = _as_fragments(layouts, user.result)
        inverse = sorted(range(len(user.permutation)), key=user.permutation.__getitem__)
        return layout and layout.transpose(inverse)
    if isinstance(user, tile.Reshape):
        layout = _as_fragments(layouts, user.result)
        return layout and layout.reshape(element_type(value.type).shape)
    return None


@preferred(tile.Dot)
def dot_layout(layouts: LayoutPreferences, op: tile.Dot) -> LinearLayout:
    if is_of_fragments(op, layouts.target):
        return layouts.arrangement(op).result(element_type(op.result.type).shape)
    if is_divided(op):
        return scalar_blocks(op, layouts.simdgroups)
    return layouts.preferred_or_default(accumulated(op))


@preferred(tile.ExpandDims)
def expand_dims_layout(layouts: LayoutPreferences, op: tile.ExpandDims) -> LinearLayout | None:
    layout = layouts.of(op.x)
    return layout and layout.expand(op.axis)


@preferred(tile.Reshape)
def reshape_layout(layouts: LayoutPreferences, op: tile.Reshape) -> LinearLayout | None:
    layout = layouts.of(op.x)
    return layout and layout.reshape(op.result.type_as(Tile).shape)


@preferred(tile.Transpose)
def transpose_layout(layouts: LayoutPreferences, op: tile.Transpose) -> LinearLayout | None:
    layout = layouts.of(op.x)
    return layout and layout.transpose(op.permutation)


@preferred(tile.Flip)
def flip_layout(layouts: LayoutPreferences, op: tile.Flip) -> LinearLayout:
    return layouts.preferred_or_default(op.x)


@preferred(tile.Gather)
def gather_layout(layouts: LayoutPreferences, op: tile.Gather) -> LinearLayout:
    return layouts.preferred_or_default(op.index)


@preferred(tile.Pick)
def pick_layout(layouts: LayoutPreferences, op: tile.Pick) -> LinearLayout | None:
    return reduce_axis(_picked_layout(layouts, op), op.axis).result


def _picked_layout(layouts: LayoutPreferences, op: tile.Pick) -> LinearLayout:
    """The preferred layout of the operand, else that of its elements in one row.

    So tiles of different shapes, which are made of each other by picks, keep their elements.
    """
    type_ = op.x.type_as(Tile)
    row = layouts.default(Tile((prod(type_.shape),), type_.element))
    return pickable(layouts.of(op.x) or row.reshape(type_.shape), op.axis)


@preferred(tile.Reduce)
def reduce_layout(layouts: LayoutPreferences, op: tile.Reduce) -> LinearLayout | None:
    return reduce_axis(layouts.preferred_or_default(op.x), op.axis).result


@preferred(tile.Scan)
def scan_layout(layouts: LayoutPreferences, op: tile.Scan) -> LinearLayout | None:
    return scannable(layouts.preferred_or_default(op.x), op.axis)


# The layouts that operands are used in.


@operand_layouts(Elementwise, Constant)
@operand_layouts(tile.ProgramId, tile.NumPrograms, tile.Extent, tile.Arange, tile.Broadcast)
@operand_layouts(tile.Load, tile.LoadTile, tile.Atomic, tile.AtomicCas)
@operand_layouts(tile.Flip, tile.Scan, tile.Update, tile.Unstage, Return)
def result_layout(layouts: LayoutPreferences, op: Op) -> Sequence[LinearLayout | None]:
    layout = layouts.of(op.results[0]) if op.results else None
    return [layout] * len(op.operands)


@operand_layouts(
    tile.ExpandDims,
    tile.Gather,
    tile.Reshape,
    tile.Transpose,
    tile.ConvertLayout,
    tile.Stage,
    tile.Assert,
    tile.Print,
)
def own_layouts(layouts: LayoutPreferences, op: Op) -> Sequence[LinearLayout | None]:
    return [
        layouts.preferred_or_default(v) if isinstance(v.type, Tile) else None for v in op.operands
    ]


@operand_layouts(tile.Pick)
def picked_layouts(layouts: LayoutPreferences, op: tile.Pick) -> Sequence[LinearLayout | None]:
    return [_picked_layout(layouts, op)]


@operand_layouts(tile.Reduce)
def reduced_layouts(layouts: LayoutPreferences, op: tile.Reduce) -> Sequence[LinearLayout | None]:
    """The layout of the elements, also for their places."""
    return [layouts.preferred_or_default(op.x)] * len(op.operands)


@operand_layouts(tile.Dot)
def dot_operand_layouts(layouts: LayoutPreferences, op: tile.Dot) -> Sequence[LinearLayout | None]:
    if not is_of_fragments(op, layouts.target):
        tiles = [
            layouts.preferred_or_default(v) if isinstance(v.type, Tile) else None
            for v in op.operands[:2]
        ]
        return [*tiles, layouts.of(op.result)]
    arrangement = layouts.arrangement(op)
    a, b = (tile.matrix_type(v).shape for v in (op.a, op.b))
    return [arrangement.left(a), arrangement.right(b), layouts.of(op.result)]


@operand_layouts(tile.Store, tile.StoreTile)
def store_operand_layouts(
    layouts: LayoutPreferences, op: tile.Store | tile.StoreTile
) -> Sequence[LinearLayout | None]:
    """Store a value in its preferred layout, unless that would scatter the access."""
    type_ = op.value.type
    if not isinstance(type_, Tile):
        return [None] * len(op.operands)
    best = layouts.at_access(op, op.value)
    layout = layouts.of(op.value)
    if layout is None or is_scattered(layout, best, op, type_, layouts.axes, layouts.target):
        layout = best
    return [layout] * len(op.operands)


def is_scattered(
    layout: LinearLayout, best: LinearLayout, op: Op, type_: Tile, axes: Axes, target: Target
) -> bool:
    """Whether a layout makes an access so slow that converting to the best one pays."""
    fastest, size = order(op, axes)[0], type_.element.bytes
    if prod(type_.shape) * size > target.threadgroup_bytes:
        return False  # too large to convert
    width = vector(op, fastest, axes)
    lines, least = (
        _lines_touched(candidate, fastest, size, width, target) for candidate in (layout, best)
    )
    return lines - least > STAGING_COST_LINES * layout.size(REGISTER) + BARRIER_COST_LINES


def _lines_touched(layout: LinearLayout, axis: int, size: int, width: int, target: Target) -> int:
    """How many memory lines the accesses of a simdgroup touch in all.

    Rows along `axis` are assumed to be in lines of their own.  An element has `size` bytes, and an
    access moves `width` elements.
    """
    step = prod(layout.shape[axis + 1 :])  # between the row-major numbers of neighbours
    registers, together = layout.columns_of(REGISTER), 0
    while 1 << together < width and step << together in registers:
        together += 1
    line = min(target.line_bytes // size, layout.shape[axis])
    lanes = Span(c & ~((line - 1) * step) for c in layout.columns_of(LANE))
    return 1 << len(registers) - together + lanes.rank


# Ops with regions: a carried value has one preferred layout throughout.


@visiting(Loop)
def loop_layouts(layouts: LayoutPreferences, op: Loop) -> None:
    pending = [
        ((c.result, *c.arguments), c.initial, c.yielded)
        for c in op.carried()
        if isinstance(c.result.type, Tile)
    ]
    while True:
        for region in op.regions:
            layouts.visit(region)
        # The values of an iteration decide, rather than the initial ones.
        sources = [(g, layouts.of(after) or layouts.of(initial)) for g, initial, after in pending]
        fixed = [(g, layout) for g, layout in sources if layout is not None]
        if not fixed and pending:  # nothing decides: take for one what its users have
            group, _, _ = pending[0]
            fixed = [
                (group, _used_layout(layouts, group) or layouts.preferred_or_default(group[0]))
            ]
        if not fixed:
            return
        for group, layout in fixed:
            for value in group:
                layouts.fix(value, layout)
        pending = [entry for entry in pending if layouts.of(entry[0][0]) is None]


def _used_layout(layouts: LayoutPreferences, group: Sequence[Value]) -> LinearLayout | None:
    """The first preferred layout among the results of elementwise ops on some values."""
    made = list(group)
    for value in made:  # which grows
        for user in value.users:
            if isinstance(user, Elementwise) and user.results[0] not in made:
                layout = layouts.of(user.results[0])
                if layout is not None:
                    return layout
                made.append(user.results[0])
    return None


@visiting(If)
def if_layouts(layouts: LayoutPreferences, op: If) -> None:
    for region in op.regions:
        layouts.visit(region)
    for result, *yielded in zip(op.results, *[r.end.operands for r in op.regions], strict=True):
        if isinstance(result.type, Tile):
            known = (layouts.of(v) for v in yielded)
            first = next((layout for layout in known if layout is not None), None)
            layouts.fix(result, first or layouts.default(result.type))


@operand_layouts(Loop, If)
def carried_layouts(layouts: LayoutPreferences, op: Loop | If) -> Sequence[LinearLayout | None]:
    carried = [layouts.of(v) for v in op.results]
    return [None] * (len(op.operands) - len(carried)) + carried if op.loops else [None]


@operand_layouts(Yield)
def yield_layouts(layouts: LayoutPreferences, op: Yield) -> Sequence[LinearLayout | None]:
    parent = op.enclosing_op
    if not parent.forwards(op.enclosing):
        return [None] * len(op.operands)
    return [layouts.of(v) for v in parent.results]
