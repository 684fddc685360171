"""Emit the tile program of a plan; each element becomes a tile once in each region.

A tile has a dimension for each lane axis of its *frame*, of size 1 where the element does not
differ along that axis.  An element that differs along none becomes a scalar.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial, reduce
from typing import NamedTuple, TypeAlias

from iris.ir import math, tile
from iris.ir.builder import Builder
from iris.ir.control import For, Yield
from iris.ir.core import Op, Value
from iris.ir.graph import ScatterKind
from iris.ir.kinds import AtomicKind, accumulator, identity
from iris.ir.math import Constant, Predicate, element_type
from iris.ir.types import DType, ElementType, Tile, i32, i64, u32, u64
from iris.passes.graph.tiling.element_exprs import (
    Aggregate,
    Alias,
    ElementExpr,
    IndexValue,
    LoadExpr,
    Piecewise,
    Pointwise,
    ScanExpr,
    SplatExpr,
)
from iris.passes.graph.tiling.element_graph import OutputStore
from iris.passes.graph.tiling.element_ref import (
    CannotFuse,
    ElementRef,
    Lookup,
    Within,
    looked_up_refs,
)
from iris.passes.graph.tiling.emission_order import emission_order
from iris.passes.graph.tiling.index_expr import Atom, Axis, IndexExpr, Quotient, Remainder
from iris.passes.graph.tiling.plan import Plan
from iris.passes.graph.tiling.tile_limits import MAX_TILE_DIMENSIONS

Frame: TypeAlias = tuple[Axis, ...]
SHAPES_CLASH = "producer and consumer need incompatible tile shapes"


class PlacedTile(NamedTuple):
    """A value, and the axis along each of its dimensions."""

    value: Value
    frame: Frame


class Emitter:
    """Emits the tile program of a plan."""

    def __init__(
        self,
        plan: Plan,
        builder: Builder,
        pointers: Mapping[Value, Value],
        number: Value | None = None,
    ):
        self.plan = plan
        self.number = number  # of the program, if the grid is not that of the plan
        self.elements = plan.elements
        self.exprs = plan.elements.exprs
        self.dependencies = plan.elements.dependencies
        order = emission_order(self.elements, [plan.lanes_of(ref) for ref in self.exprs])
        times = {n: -later for later, n in enumerate(order)}
        self.order = {ref: times[n] for ref, n in self.elements.numbers.items()}
        self.b = builder
        self.pointers = pointers
        self.scalars: dict[Axis, Value] = {}
        self.scopes: list[dict[ElementRef, PlacedTile]] = [{}]
        self.indices: list[dict[tuple[IndexExpr, Frame], Value]] = [{}]
        self.scan_totals: dict[ElementRef, Value] = {}  # of scans in a loop, so far
        self.checked_lookups: set[Lookup] = set()
        self.looped_over: set[Value] = set()  # the tensors that loops have loaded so far

    # The program as a whole.

    def emit_program(self, targets: Sequence[tuple[OutputStore, Value]]) -> None:
        """Emit the computation and the stores of all outputs."""
        self._emit_program_ids()
        ordered = sorted(targets, key=lambda target: self.order[target[0].ref])
        self._emit_outputs(ordered, self.plan.loops)

    def _emit_program_ids(self) -> None:
        """Compute the index of this program along each program axis."""
        axes = list(reversed(self.plan.programs))
        left = self.number
        if left is None:
            for dimension, axis in enumerate(axes[:2]):
                self.scalars[axis] = self.b(tile.ProgramId(dimension))
            axes = axes[2:]
        if axes:
            *rest, last = axes
            if left is None:
                left = self.b(tile.ProgramId(2))
            for axis in rest:
                size = self.constant(axis.size)
                self.scalars[axis] = self.b(math.Mod(left, size))
                left = self.b(math.FloorDiv(left, size))
            self.scalars[last] = left

    def _emit_outputs(
        self, targets: Sequence[tuple[OutputStore, Value]], loops: Sequence[Axis]
    ) -> None:
        if not loops:
            for output, pointer in targets:
                self.emit_store(output, pointer)
            return
        refs = [output.ref for output, _ in targets]
        self.emit_invariants(refs, set(loops))

        def body(_: Sequence[Value]) -> Sequence[Value]:
            self._emit_outputs(targets, loops[1:])
            return ()

        self.emit_loop(loops[:1], refs, (), body, is_backward=self._reads_again(loops[0], refs))

    def _reads_again(self, axis: Axis, refs: Sequence[ElementRef]) -> bool:
        """Whether a loop over whole blocks of outputs loads what a loop before it has loaded.

        It then goes backward: what was loaded last may still be in a cache.
        """
        block = self.plan.blocks.get(axis)
        if axis is not self.plan.loops[0] or (block and block.extent % block.size):
            return False
        exprs = [self.exprs[ref] for ref in self._pending(refs)]
        if any(isinstance(expr, ScanExpr) and axis in expr.over for expr in exprs):
            return False
        return not self.looped_over.isdisjoint(_loaded(exprs))

    def emit_store(self, output: OutputStore, pointer: Value) -> None:
        """Store one output."""
        ref, destination, scatter = output
        op = scatter or ref.value.op
        self.b.location = op.location if op is not None else None
        # Every update counts, also along an axis that neither value nor offset depends on.
        axes = {*self.elements.output_axes}
        frame = self.lane_axes(axes)
        value = self.tile_of(ref, frame)
        offset = self.index(destination, frame)
        mask = self.mask(axes, ref.guard, frame)
        shape = self.tile_shape(frame, axes)
        value, offset = self.broadcast(value, shape), self.broadcast(offset, shape)
        mask = None if mask is None else self.broadcast(mask, shape)
        self.b.location = op.location if op is not None else None
        if scatter is None or scatter.kind is ScatterKind.SET:
            self.b.insert(tile.Store(pointer, offset, value, mask))
        else:
            add = tile.Atomic(AtomicKind.ADD, pointer, offset, value, mask, bins=output.bins)
            self.b.insert(add)

    def lane_axes(self, axes: Iterable[Axis]) -> Frame:
        """The axes that have lanes, in the order of tile dimensions."""
        wanted = set(axes)
        frame = tuple([axis for axis in self.plan.lanes if axis in wanted])
        if len(frame) > MAX_TILE_DIMENSIONS:
            raise CannotFuse(SHAPES_CLASH)
        return frame

    # Elements.

    def tile_of(self, ref: ElementRef, frame: Frame) -> Value:
        """An element as a tile of a frame, or as a scalar if it differs along no lane axis."""
        for needed in self._missing(ref):
            if self._find(needed) is None:  # a loop may have made several
                expr = self.exprs[needed]
                self.remember(needed, _EMIT_RULES[type(expr)](self, expr, needed, frame))
        placed = self._find(ref)
        assert placed is not None, f"{ref.value!r} is demanded, but not emitted"
        return self.align(placed, frame)

    def _missing(self, ref: ElementRef) -> list[ElementRef]:
        """What to emit for an element in its frame, operands first: a long chain must not
        recurse."""
        missing: set[ElementRef] = set()
        waiting = [ref]
        while waiting:
            ref = waiting.pop()
            if ref not in missing and self._find(ref) is None:
                expr = self.exprs[ref]
                if not isinstance(expr, Alias):
                    missing.add(ref)
                if isinstance(expr, _SAME_FRAME):
                    waiting += expr.refs
        return sorted(missing, key=self.order.__getitem__)

    def _find(self, ref: ElementRef) -> PlacedTile | None:
        while isinstance(expr := self.exprs[ref], Alias):
            ref = expr.ref
        for scope in reversed(self.scopes):
            if ref in scope:
                return scope[ref]
        return None

    def align(self, placed: PlacedTile, frame: Frame) -> Value:
        """Transpose and reshape a value to another frame, which has all axes it differs along."""
        value, have = placed
        shape = element_type(value.type).shape
        if not shape or have == frame:
            return value
        axes = [axis for axis, size in zip(have, shape, strict=True) if size > 1]
        sizes = dict(zip(have, shape, strict=True))
        wanted = [axis for axis in frame if axis in axes]
        if len(wanted) < len(axes):
            raise CannotFuse(SHAPES_CLASH)
        if wanted != axes:
            order = [have.index(axis) for axis in wanted]
            order += [i for i in range(len(have)) if i not in order]
            value = self.b(tile.Transpose(tuple(order), value))
        to = tuple([sizes[axis] if axis in axes else 1 for axis in frame])
        if element_type(value.type).shape == to:
            return value
        return self.reshape(value, to)

    def reshape(self, value: Value, to: tuple[int, ...]) -> Value:
        """Insert or drop dimensions of size 1."""
        shape = element_type(value.type).shape
        while len(shape) < len(to):
            place = next(
                (i for i, n in enumerate(to) if n == 1 and shape[i : i + 1] != (1,)), len(shape)
            )
            if shape[:place] != to[:place]:
                break
            value = self.b(tile.ExpandDims(place, value))
            shape = element_type(value.type).shape
        if shape == to:
            return value
        return self.b(tile.Reshape(value, Tile(to, value.type.element)))

    def tile_shape(self, frame: Frame, along: Iterable[Axis]) -> tuple[int, ...]:
        """The sizes of a tile that differs along some axes of a frame."""
        wanted = set(along)
        return tuple([self.plan.lanes[axis] if axis in wanted else 1 for axis in frame])

    def remember(self, ref: ElementRef, placed: PlacedTile) -> None:
        """Reuse a tile for the rest of this region."""
        self.scopes[-1][ref] = placed
        ref.value.became = placed.value

    def name_tile(self, value: Value, ref: ElementRef, frame: Frame) -> PlacedTile:
        value.name = value.name or ref.value.name
        return PlacedTile(value, frame if element_type(value.type).shape else ())

    def is_ready(self, ref: ElementRef) -> bool:
        """Whether an element is not emitted yet, and all aggregates that it needs are."""
        if self._find(ref) is not None:
            return False
        if not all(a in self.scalars or a in self.plan.lanes for a in self.dependencies[ref]):
            return False
        needed = (r for r in self._pending([ref]) if r is not ref)
        return not any(isinstance(self.exprs[r], Aggregate) for r in needed)

    # Constants and indices.

    def constant(self, n: int, element: DType = i32) -> Value:
        return self.b(Constant(n, element))

    def typed_constant(self, n: float, type_: ElementType) -> Value:
        return self.b(Constant(n, type_))

    def constant_like(self, n: int, value: Value) -> Value:
        return self.b(Constant(n, element_type(value.type)))

    def broadcast(self, value: Value, shape: tuple[int, ...]) -> Value:
        """Broadcast a value to a shape."""
        type_ = element_type(value.type)
        if type_.shape == shape:
            return value
        if isinstance(value.op, Constant):
            return self.b(Constant.of_bits(value.op.bits, Tile(shape, type_.element)))
        return self.b(tile.Broadcast(value, Tile(shape, type_.element)))

    def cast(self, value: Value, element: DType) -> Value:
        type_ = element_type(value.type)
        if type_.element is element:
            return value
        return self.b(math.Cast(value, type_.with_element(element)))

    def binary(self, op: Callable[[Value, Value], Op], x: Value, y: Value) -> Value:
        shape = broadcast_shape(x, y)
        return self.b(op(self.broadcast(x, shape), self.broadcast(y, shape)))

    def index(self, expr: IndexExpr, frame: Frame) -> Value:
        """The value of an index expression."""
        for scope in reversed(self.indices):
            for cached in ((expr, frame), (expr, ())):
                if cached in scope:
                    return scope[cached]
        scalars: list[Value] = []
        tiles: list[Value] = []
        for atom, n in expr.terms:
            value, counts = self._atom(atom, frame)
            if n % counts:
                value, counts = self.b(math.FloorDiv(value, self.constant_like(counts, value))), 1
            if n != counts:
                value = self.b(math.Mul(value, self.constant_like(n // counts, value)))
            (tiles if element_type(value.type).shape else scalars).append(value)
        if expr.constant or not expr.terms:
            scalars.append(self.constant(expr.constant))
        result: Value = reduce(partial(self.binary, math.Add), (*scalars, *tiles))
        # A scalar goes with any frame.
        self.indices[-1][expr, frame if element_type(result.type).shape else ()] = result
        return result

    def _atom(self, atom: Atom, frame: Frame) -> tuple[Value, int]:
        """The value of a multiple of an atom, and the factor."""
        if isinstance(atom, (Quotient, Remainder)):
            x = self.index(atom.dividend, frame)
            op = math.FloorDiv if isinstance(atom, Quotient) else math.Mod
            return self.b(op(x, self.constant_like(atom.divisor, x))), 1
        if isinstance(atom, Lookup):
            return self._looked_up_index(atom, frame), 1
        assert isinstance(atom, Axis), f"{atom} is no part of an index"
        if atom in self.scalars:
            block = self.plan.blocks.get(atom)
            # Programs are counted by blocks, loops by elements.
            counts = 1 if block is None or atom in self.plan.programs else block.size
            return self.scalars[atom], counts
        return self._lane_numbers(atom, frame), 1

    def _lane_numbers(self, axis: Axis, frame: Frame) -> Value:
        """The numbers of the lanes along an axis."""
        key = IndexExpr.of(axis), frame
        for scope in reversed(self.indices):
            if key in scope:
                return scope[key]
        if axis not in self.plan.lanes:
            raise CannotFuse(f"{axis.name}: its elements are needed outside of the loop over it")
        if axis not in frame:
            raise CannotFuse(SHAPES_CLASH)
        value = self.b(tile.Arange(0, Tile((self.plan.lanes[axis],), i32)))
        position = frame.index(axis)
        for dimension in range(len(frame)):
            if dimension != position:
                value = self.b(tile.ExpandDims(dimension, value))
        self.indices[-1][key] = value
        return value

    def _looked_up_index(self, lookup: Lookup, frame: Frame) -> Value:
        """An index that is read from a tensor, checked against the size of its axis."""
        index_ref = lookup.ref
        value = self.tile_of(index_ref, frame)
        mask = self.mask(self.dependencies[index_ref], index_ref.guard, frame)
        if mask is not None:
            value = self.select(mask, value, self.constant_like(0, value))
        # Unsigned, one comparison checks both ends.
        value = self.cast(value, u64 if index_ref.element is i64 else u32)
        if lookup not in self.checked_lookups:
            self.checked_lookups.add(lookup)
            inside = self.b(
                math.Compare(Predicate.LT, value, self.constant_like(lookup.size, value))
            )
            self.b.insert(tile.Assert("an index is outside of its axis", inside))
        return self.cast(value, i32)

    # Masks.

    def covers(self, frame: Frame, condition: Within) -> bool:
        """Whether a condition differs only along lane axes of a frame."""
        return {*self.lane_axes(self.elements.axes_in([condition.index]))} <= {*frame}

    def mask(self, axes: Iterable[Axis], guard: Iterable[Within], frame: Frame) -> Value | None:
        """A mask of the lanes that are within the ends of some axes and satisfy a guard."""
        guard = list(guard)
        lanes = {*axes, *self.elements.axes_in([c.index for c in guard])}
        ends = [end for axis, end in self.plan.ends.items() if axis in lanes]
        return self.all_of([*ends, *guard], frame)

    def all_of(self, conditions: Iterable[Within], frame: Frame) -> Value | None:
        """A mask of the lanes that satisfy all conditions; None if there are none."""
        result: Value | None = None
        for condition in conditions:
            index = condition.index
            value = self.index(index, frame)
            for predicate, limit, certain in (
                (Predicate.GE, condition.low, index.low >= condition.low),
                (Predicate.LT, condition.high, False),
            ):
                if certain:
                    continue
                holds = self.b(math.Compare(predicate, value, self.constant_like(limit, value)))
                result = holds if result is None else self.binary(math.And, result, holds)
        return result

    def select(self, condition: Value, x: Value, other: Value) -> Value:
        shape = broadcast_shape(condition, x, other)
        return self.b(math.Select(*[self.broadcast(v, shape) for v in (condition, x, other)]))

    # Regions.

    def emit_loop(
        self,
        axes: Sequence[Axis],
        refs: Iterable[ElementRef],
        carried: Sequence[Value],
        body: Callable[[Sequence[Value]], Sequence[Value]],
        is_backward: bool = False,
    ) -> Sequence[Value]:
        """Emit loops over scalar axes that carry values; `refs` are the elements the body needs.

        The first one may go backward over its blocks.
        """
        if not axes:
            return body(carried)
        axis, *rest = axes
        if axis in self.scalars:
            raise CannotFuse(
                f"{axis.name}: its elements are needed within a loop over it, all at once"
            )
        pending = {r: self.exprs[r] for r in self._pending(refs)}
        scans = {r: e for r, e in pending.items() if isinstance(e, ScanExpr) and axis in e.over}
        self.looped_over.update(_loaded(pending.values()))
        count = len(carried)
        block = self.plan.blocks.get(axis)
        step, end = (block.size, block.extent) if block is not None else (1, axis.size)
        bounds = [self.constant(n) for n in (0, end, step)]
        starts = [self._scan_start(r, expr) for r, expr in scans.items()]
        op = self.b.insert(For(*bounds, [*carried, *starts]))
        op.body.arguments[0].name = axis.name
        with self.b.inside(op.body), self.scope():
            (index, *_) = op.body.arguments
            if is_backward:
                index = self.b(math.Sub(self.constant(end - step), index))
            self.scalars[axis] = index
            self.scan_totals.update(zip(scans, op.carried_arguments[count:], strict=True))
            results = self.emit_loop(rest, refs, op.carried_arguments[:count], body)
            for ref in scans:
                self.tile_of(ref, self.lane_axes(self.dependencies[ref]))
            self.b.insert(Yield([*results, *[self.scan_totals.pop(r) for r in scans]]))
            del self.scalars[axis]
        return tuple(op.results)[:count]

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Forget tiles and indices of the region at its end."""
        self.scopes.append({})
        self.indices.append({})
        checked = set(self.checked_lookups)
        yield
        self.scopes.pop()
        self.indices.pop()
        self.checked_lookups = checked

    def emit_invariants(
        self, refs: Iterable[ElementRef], loops: set[Axis], apart: Collection[ElementRef] = ()
    ) -> None:
        """Emit the aggregates that no loop axis changes, ahead of the loops; not those `apart`."""
        for ref in self._pending(refs):
            expr = self.exprs[ref]
            axes = self.dependencies[ref]
            if (
                isinstance(expr, Aggregate)
                and ref not in apart
                and not axes & loops
                and all(a in self.scalars or a in self.plan.lanes for a in axes)
                and self._find(ref) is None
            ):
                self.tile_of(ref, self.lane_axes(axes))

    def _pending(self, refs: Iterable[ElementRef]) -> Iterator[ElementRef]:
        """Yield the elements that are needed and not emitted yet, operands first."""
        opened: set[ElementRef] = set()
        done: set[ElementRef] = set()
        waiting = list(refs)[::-1]
        while waiting:
            ref = waiting[-1]
            if ref in done or self._find(ref) is not None:
                waiting.pop()
            elif ref in opened:
                done.add(ref)
                yield ref
            else:
                opened.add(ref)
                expr = self.exprs[ref]
                waiting += [*expr.refs, *looked_up_refs(expr.index_exprs())]

    def _scan_start(self, ref: ElementRef, expr: ScanExpr) -> Value:
        """The total of a scan before its first block."""
        axes = self.dependencies[ref]
        shape = self.tile_shape(self.lane_axes(axes), axes - {*expr.over})
        element = accumulator(expr.kind, ref.element)
        none = identity(expr.kind, element)
        return self.typed_constant(none, Tile(shape, element) if shape else element)


def _loaded(exprs: Iterable[ElementExpr]) -> Iterator[Value]:
    return (expr.value for expr in exprs if isinstance(expr, LoadExpr))


def broadcast_shape(*values: Value) -> tuple[int, ...]:
    """The shape that values broadcast to."""
    shapes = [element_type(v.type).shape for v in values]
    rank = max(map(len, shapes))
    return tuple([max(s[i] for s in shapes if s) for i in range(rank)])


# A rule for each kind of expression.

# Expressions whose operands have the same frame.
_SAME_FRAME = (Alias, Piecewise, Pointwise)

_EMIT_RULES: dict[type[ElementExpr], Callable[..., PlacedTile]] = {}


def emits(
    expr_type: type[ElementExpr],
) -> Callable[[Callable[..., PlacedTile]], Callable[..., PlacedTile]]:
    def register(rule: Callable[..., PlacedTile]) -> Callable[..., PlacedTile]:
        _EMIT_RULES[expr_type] = rule
        return rule

    return register


@emits(SplatExpr)
def emit_splat(ctx: Emitter, expr: SplatExpr, ref: ElementRef, frame: Frame) -> PlacedTile:
    return PlacedTile(ctx.b(Constant.of_bits(expr.bits, ref.element)), ())


@emits(IndexValue)
def emit_index_value(ctx: Emitter, expr: IndexValue, ref: ElementRef, frame: Frame) -> PlacedTile:
    value = ctx.cast(ctx.index(expr.index, frame), ref.element)
    return PlacedTile(value, frame if element_type(value.type).shape else ())


@emits(LoadExpr)
def emit_load(ctx: Emitter, expr: LoadExpr, ref: ElementRef, frame: Frame) -> PlacedTile:
    offset = ctx.index(expr.offset, frame)
    mask = ctx.mask(ctx.elements.axes_in([expr.offset]), expr.guard, frame)
    other: Value | None = None
    if mask is not None:
        shape = broadcast_shape(offset, mask)
        offset, mask = ctx.broadcast(offset, shape), ctx.broadcast(mask, shape)
        other = ctx.typed_constant(0, element_type(offset.type).with_element(ref.element))
    value = ctx.b(tile.Load(ctx.pointers[expr.value], offset, mask, other), expr.value.name)
    return PlacedTile(value, frame if element_type(value.type).shape else ())


@emits(Piecewise)
def emit_piecewise(ctx: Emitter, expr: Piecewise, ref: ElementRef, frame: Frame) -> PlacedTile:
    *cases, (_, last) = expr.cases
    value = ctx.tile_of(last, frame)
    for conditions, case in reversed(cases):
        holds = ctx.all_of(conditions, frame)
        assert holds is not None, "a case before the last one has no condition"
        value = ctx.select(holds, ctx.tile_of(case, frame), value)
    return PlacedTile(value, frame if element_type(value.type).shape else ())


# Replaces an operand in masked lanes where the op would be an error.
_HARMLESS: dict[type[Op], tuple[int, int]] = {  # which operand, and the number
    math.FloorDiv: (1, 1),
    math.Mod: (1, 1),
    math.Shl: (1, 0),
    math.Shr: (1, 0),
    math.Cast: (0, 0),
}


@emits(Pointwise)
def emit_pointwise(ctx: Emitter, expr: Pointwise, ref: ElementRef, frame: Frame) -> PlacedTile:
    op = expr.op
    ctx.b.location = op.location
    values = [ctx.tile_of(r, frame) for r in expr.operands]
    ctx.b.location = op.location
    if type(op) in _HARMLESS and not op.may_speculate():
        position, n = _HARMLESS[type(op)]
        mask = ctx.mask(ctx.dependencies[ref], ref.guard, frame)
        if mask is not None:
            values[position] = ctx.select(
                mask, values[position], ctx.constant_like(n, values[position])
            )
    shape = broadcast_shape(*values)
    values = [ctx.broadcast(v, shape) for v in values]
    type_ = Tile(shape, ref.element) if shape else ref.element
    value = ctx.b.insert(type(op).create(tuple(values), op.attributes, (type_,))).results[0]
    value.name = op.results[0].name
    return PlacedTile(value, frame if shape else ())
