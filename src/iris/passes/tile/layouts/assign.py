"""Assign a layout to every tile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from iris.errors import PipelineError
from iris.ir import tile
from iris.ir.builder import Builder
from iris.ir.control import Func
from iris.ir.core import Facet, Module, Op, Region, Value
from iris.ir.effects import effects_within, may_alias, writes
from iris.ir.layout.convert import convert
from iris.ir.layout.linear import LinearLayout
from iris.ir.layout.spread import spread
from iris.ir.math import Constant, Elementwise, element_type
from iris.ir.types import Tile, Type
from iris.passes.pipeline import TargetPass
from iris.passes.tile.layouts.preferences import LayoutPreferences, is_scattered
from iris.targets import Target


@dataclass(frozen=True)
class AssignLayouts(TargetPass):
    """Give every tile a layout, which says which thread holds which element.

        %cols: tile<64xi32> = tile.arange 0
        %x: tile<64xf32> = tile.load %X, %cols
        tile.store %Y, %cols, %x

    becomes, with a layout written `L` here,

        %cols: tile<64xi32, L> = tile.arange 0
        %x: tile<64xf32, L> = tile.load %X, %cols
        tile.store %Y, %cols, %x

    A value is computed in its *preferred layout*: a load in one in which it is coalesced, a sum in
    that of an operand.  A value that depends on no memory access or reduction has none: it is
    computed for each user, in the layout that the user needs.  A user that needs another layout
    than the preferred one gets a `tile.convert_layout` or, if that costs less, another load.
    """

    name = "assign-layouts"
    level = tile.TileOp.level

    def run(self, module: Module) -> dict[str, int]:
        conversions = 0
        for function in list(module):
            if isinstance(function, Func):
                if not function.simdgroups:
                    raise PipelineError(
                        f"assign-layouts: @{function.symbol} has no number of simdgroups; "
                        "run choose-simdgroups before"
                    )
                assignment = _LayoutAssignment(function, self.target)
                conversions += assignment.run()
        return {"conversions": conversions}


layouts_for_result = Facet("layouts of operands")


@layouts_for_result(
    Elementwise,
    Constant,
    tile.Arange,
    tile.Load,
    tile.LoadTile,
    tile.Update,
    tile.Unstage,
    tile.ConvertLayout,
)
def same_layouts(op: Op, layout: LinearLayout) -> Sequence[LinearLayout]:
    """Give operands the layout of the result."""
    return [layout] * len(op.operands)


@layouts_for_result(tile.Broadcast)
def broadcast_operand_layout(op: tile.Broadcast, layout: LinearLayout) -> Sequence[LinearLayout]:
    shape = op.x.type.shape if isinstance(op.x.type, Tile) else (1,) * layout.rank
    return [spread(layout, shape).layout]


@layouts_for_result(tile.ExpandDims)
def expand_dims_operand_layout(op: tile.ExpandDims, layout: LinearLayout) -> Sequence[LinearLayout]:
    return [layout.slice(op.axis)]


@layouts_for_result(tile.Reshape)
def reshape_operand_layout(op: tile.Reshape, layout: LinearLayout) -> Sequence[LinearLayout]:
    return [layout.reshape(op.x.type_as(Tile).shape)]


@layouts_for_result(tile.Transpose)
def transpose_operand_layout(op: tile.Transpose, layout: LinearLayout) -> Sequence[LinearLayout]:
    inverse = sorted(range(layout.rank), key=op.permutation.__getitem__)
    return [layout.transpose(inverse)]


class _LayoutAssignment:
    """Rewrites one function: inserts each op that has to do with tiles again, with its layouts, and
    moves the others.

    An op without a preferred layout is inserted for each user.
    """

    def __init__(self, function: Func, target: Target):
        self.function = function
        for op in function.walk():
            if isinstance(op, tile.Dot) and op.acc is None:
                _add_zero_accumulator(op)
        self.preferences = LayoutPreferences(function, target)
        self.written = writes(effects_within(function))
        self.conversions = 0
        # The new tiles, by layout; the last scope is that of the innermost region.
        self.scopes: list[dict[tuple[Value, LinearLayout], Value]] = [{}]
        self.scalars: dict[Value, Value] = {}  # and what is no tile, of ops that are inserted again
        self.layouts_in_region = self._layouts_in_region()

    def run(self) -> int:
        body = self.function.body
        self.regions = [(body, body)]  # that enclose the current op: old and new
        ops = list(body)
        for op in ops:
            op.detach()
        self.builder = Builder(body)
        for op in ops:
            self.assign_op(op)
        for op in reversed(ops):
            if op.parent is None:
                op.erase()
        return self.conversions

    def _layouts_in_region(self) -> dict[Value, dict[LinearLayout, None]]:
        """In which layouts ops of their own region use the elementwise functions that are computed
        for each user, and depend on what is loaded.

        They are inserted in their own places, so that what they are computed of need not be kept.
        """
        preferences = self.preferences
        wanted: dict[Value, dict[LinearLayout, None]] = {}
        ops = [op for op in self.function.walk() if op is not self.function]
        for op in reversed(ops):
            is_for_users = len(op.results) == 1 and self._is_for_users(op.results[0])
            if not (is_for_users or op.regions or op.terminator or op in preferences.tile_ops):
                continue
            if is_for_users:
                rule = layouts_for_result[type(op)]
                uses = [rule(op, layout) for layout in wanted.get(op.results[0], ())]
            else:
                uses = [preferences.operands(op)]
            for layouts in uses:
                for value, layout in zip(op.operands, layouts, strict=True):
                    if layout and self._is_for_users(value) and value.home is op.parent:
                        wanted.setdefault(value, {})[layout] = None
        wanted = {v: layouts for v, layouts in wanted.items() if isinstance(v.op, Elementwise)}
        dependent: set[Value] = set()
        for op in ops if wanted else ():
            if op.regions or op.effects() or not dependent.isdisjoint(op.operands):
                dependent.update(op.results)
        return {v: layouts for v, layouts in wanted.items() if v in dependent}

    def _is_for_users(self, value: Value) -> bool:
        """Whether a tile is computed for each user, in the layout that the user needs."""
        return isinstance(value.type, Tile) and self.preferences.of(value) is None

    def value_in(self, value: Value, layout: LinearLayout) -> Value:
        """A tile in a layout."""
        key = value, layout
        for scope in reversed(self.scopes):
            found = scope.get(key)
            if found is not None:
                return found
        with self._before_loops(value):
            computed = self.scopes[-1][key] = self._compute(value, layout)
        return computed

    def _compute(self, value: Value, layout: LinearLayout) -> Value:
        """Compute or convert a value in a layout."""
        preferred = self.preferences.of(value)
        if preferred is None or self._is_worth_reloading(value, layout):
            op = value.producer
            return self.emit(op, layouts_for_result[type(op)](op, layout), [layout])[0]
        type_ = Tile(value.type_as(Tile).shape, value.type.element, layout)
        self.conversions += 1
        return self.builder(tile.ConvertLayout(self.value_in(value, preferred), type_), value.name)

    @contextmanager
    def _before_loops(self, value: Value) -> Iterator[None]:
        """Insert before the loops that do not change a value."""
        depth = len(self.regions) - 1
        while depth and self.regions[depth][0] is not value.home:
            owner = self.regions[depth][0].owner
            if owner is None or not owner.loops:
                break
            depth -= 1
        saved = self.scopes, self.regions
        self.scopes, self.regions = self.scopes[: depth + 1], self.regions[: depth + 1]
        with self.builder.inside(self.regions[depth][1]):
            yield
        self.scopes, self.regions = saved

    def _is_worth_reloading(self, value: Value, layout: LinearLayout) -> bool:
        """Whether to load a value again in another layout, rather than convert it through
        threadgroup memory: nothing writes its source, and the load touches few lines."""
        op, preferred = value.op, self.preferences.of(value)
        if preferred is None or not isinstance(value.type, Tile):
            return False
        if isinstance(op, (tile.ExpandDims, tile.Reshape, tile.Transpose)):
            return self._is_worth_reloading(op.x, layouts_for_result[type(op)](op, layout)[0])
        if not isinstance(op, (tile.Load, tile.LoadTile)):
            return False
        if any(may_alias(op.base, written) for written in self.written):
            return False
        if not convert(preferred, layout).through_memory:
            return False
        preferences = self.preferences
        return not is_scattered(
            layout, preferred, op, value.type, preferences.axes, preferences.target
        )

    def emit(
        self,
        op: Op,
        operands: Sequence[LinearLayout | None],
        results: Sequence[LinearLayout | None],
        regions: tuple[Region, ...] = (),
    ) -> Sequence[Value]:
        """Insert an op with its operands and results in these layouts."""
        values = []
        for value, layout in zip(op.operands, operands, strict=True):
            if isinstance(value.type, Tile):
                assert layout is not None, f"{value!r} has no layout as an operand of {op.name}"
                self.builder.location = op.location  # also of its conversions
                values.append(self.value_in(value, layout))
            else:
                values.append(self.scalars.get(value, value))
        types = [
            _with_layout(v.type, layout) for v, layout in zip(op.results, results, strict=True)
        ]
        new = type(op).create(tuple(values), op.attributes, types, regions, op.location)
        self.builder.insert(new)
        for old, made in zip(op.results, new.results, strict=True):
            made.name = old.name
            old.became = made
        return new.results

    def assign_op(self, op: Op) -> None:
        """Insert an op, unless its users insert it."""
        preferences = self.preferences
        if not (op.regions or op.terminator or op in preferences.tile_ops):
            self._move(op)
            return
        results = [preferences.of(v) for v in op.results]
        for value in op.results:
            if self._is_for_users(value):
                for wanted in self.layouts_in_region.get(value, ()):
                    self.value_in(value, wanted)
                return
        regions = tuple([self.assign_region(region) for region in op.regions])
        made = self.emit(op, preferences.operands(op), results, regions)
        for old, new, layout in zip(op.results, made, results, strict=True):
            self._put(old, new, layout)

    def _put(self, old: Value, new: Value, layout: LinearLayout | None) -> None:
        """Note the new value, in a layout if it is a tile."""
        old.became = new
        if layout is None:
            self.scalars[old] = new
        else:
            self.scopes[-1][old, layout] = new

    def _move(self, op: Op) -> None:
        """Put an op that has to do with no tile itself in place."""
        scalars = self.scalars
        if not scalars.keys().isdisjoint(op.operands):
            op.set_operands(tuple([scalars.get(v, v) for v in op.operands]))
        op.detach()
        self.builder.insert(op)

    def assign_region(self, region: Region) -> Region:
        preferences = self.preferences
        new = Region()
        self.scopes.append({})
        for old in region.arguments:
            layout = preferences.of(old)
            self._put(old, new.add_argument(_with_layout(old.type, layout), old.name), layout)
        self.regions.append((region, new))
        with self.builder.inside(new):
            for op in region:
                self.assign_op(op)
        self.scopes.pop()
        self.regions.pop()
        return new


def _add_zero_accumulator(op: tile.Dot) -> None:
    """Add a product to zero; its layout is that of its accumulator, so it must have one."""
    zero = Constant.of_bits(0, element_type(op.result.type))
    op.insert_before(zero)
    op.set_operands((op.a, op.b, zero.result))


def _with_layout(type_: Type, layout: LinearLayout | None) -> Type:
    return Tile(type_.shape, type_.element, layout) if isinstance(type_, Tile) else type_
