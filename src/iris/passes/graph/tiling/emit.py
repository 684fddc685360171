"""From demands to a tile program: what is demanded becomes tiles, once in each region.

A tile has a dimension for each lane axis of its *frame*, of size 1 where it does not differ along
it; what differs along none is a scalar.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple, TypeAlias

from iris.ir import math, tile
from iris.ir.builder import Builder
from iris.ir.control import For, Yield
from iris.ir.core import Op, Value
from iris.ir.graph import ScatterKind
from iris.ir.kinds import AtomicKind, accumulator, identity
from iris.ir.math import Constant, Predicate, element_type
from iris.ir.types import DType, ElementType, Tile, i32, i64, u32, u64
from iris.passes.graph.tiling.demand import Demand, Lookup, Unfit, Within, places_in
from iris.passes.graph.tiling.demands import Written
from iris.passes.graph.tiling.index import Atom, Axis, Index, Quotient, Remainder
from iris.passes.graph.tiling.plan import MOST_DIMENSIONS, Plan
from iris.passes.graph.tiling.recipes import (
    Choice,
    Combining,
    Load,
    Number,
    Pointwise,
    Recipe,
    Running,
    Same,
    Splat,
)

Frame: TypeAlias = tuple[Axis, ...]
MISFIT = "producer and consumer need incompatible tile shapes"


class Made(NamedTuple):
    """A value, and the axis along each of its dimensions."""

    value: Value
    frame: Frame


class Emitter:
    """Writes the tile program of a plan."""

    def __init__(self, plan: Plan, builder: Builder, pointers: Mapping[Value, Value]):
        self.plan = plan
        self.demands = plan.demands
        self.recipes = plan.demands.recipes
        self.dependencies = plan.demands.dependencies
        self.b = builder
        self.pointers = pointers
        self.scalars: dict[Axis, Value] = {}
        self.scopes: list[dict[Demand, Made]] = [{}]
        self.indices: list[dict[tuple[Index, Frame], Value]] = [{}]
        self.running: dict[Demand, Value] = {}  # what each scan in a loop has come to
        self.checked: set[Lookup] = set()

    # The program as a whole.

    def program(self, targets: Sequence[tuple[Written, Value]]) -> None:
        """Write outputs through their pointers."""
        self._number_programs()
        self._outputs(targets, self.plan.loops)

    def _number_programs(self) -> None:
        """Which point of the program axes this one is at."""
        axes = list(reversed(self.plan.programs))
        for place, axis in enumerate(axes[:2]):
            self.scalars[axis] = self.b(tile.ProgramId(place))
        rest = axes[2:]
        left = self.b(tile.ProgramId(2)) if rest else None
        for axis in rest:
            assert left is not None
            if axis is rest[-1]:
                self.scalars[axis] = left
            else:
                size = self.number(axis.size)
                self.scalars[axis] = self.b(math.Mod(left, size))
                left = self.b(math.FloorDiv(left, size))

    def _outputs(self, targets: Sequence[tuple[Written, Value]], loops: Sequence[Axis]) -> None:
        if not loops:
            for written, pointer in targets:
                self.write(written, pointer)
            return
        demands = [written.demand for written, _ in targets]
        self.prepare(demands, set(loops))

        def body(_: Sequence[Value]) -> Sequence[Value]:
            self._outputs(targets, loops[1:])
            return ()

        self.loop(loops[:1], demands, (), body)

    def write(self, written: Written, pointer: Value) -> None:
        """Write an output through its pointer."""
        demand, place, scatter = written
        op = scatter or demand.value.op
        self.b.location = op.location if op is not None else None
        # Every update counts, also along an axis on which neither it nor its place depends.
        axes = {*self.demands.outer}
        frame = self.lanes_of(axes)
        value = self.element(demand, frame)
        offset = self.index(place, frame)
        mask = self.mask(axes, demand.guard, frame)
        shape = self.shape(frame, axes)
        value, offset = self.spread(value, shape), self.spread(offset, shape)
        mask = None if mask is None else self.spread(mask, shape)
        self.b.location = op.location if op is not None else None
        if scatter is None or scatter.kind is ScatterKind.SET:
            self.b.insert(tile.Store(pointer, offset, value, mask))
        else:
            self.b.insert(tile.Atomic(AtomicKind.ADD, pointer, offset, value, mask))

    def lanes_of(self, axes: Iterable[Axis]) -> Frame:
        """Those of some axes that tiles have lanes along, in the usual order."""
        wanted = set(axes)
        frame = tuple([axis for axis in self.plan.lanes if axis in wanted])
        if len(frame) > MOST_DIMENSIONS:
            raise Unfit(MISFIT)
        return frame

    # Elements.

    def element(self, demand: Demand, frame: Frame) -> Value:
        """A demanded element, as a tile of a frame or, if it is the same everywhere, a scalar."""
        waiting = [demand]
        while waiting:
            recipe = self.recipes[waiting[-1]]
            # Of a long chain what is needed comes first, not each within the other.
            needed = recipe.demands if isinstance(recipe, _SAME_FRAME) else ()
            missing = [d for d in needed if self._find(d) is None]
            if missing and self._find(waiting[-1]) is None:
                waiting += missing
                continue
            one = waiting.pop()
            if self._find(one) is None:
                self.keep(one, _MAKERS[type(recipe)](self, recipe, one, frame))
        made = self._find(demand)
        assert made is not None
        return self.align(made, frame)

    def _find(self, demand: Demand) -> Made | None:
        while isinstance(recipe := self.recipes[demand], Same):
            demand = recipe.demand
        for scope in reversed(self.scopes):
            if demand in scope:
                return scope[demand]
        return None

    def align(self, made: Made, frame: Frame) -> Value:
        """A value with the dimensions of another frame, which has all axes it differs along."""
        value, have = made
        shape = element_type(value.type).shape
        if not shape or have == frame:
            return value
        axes = [axis for axis, size in zip(have, shape, strict=True) if size > 1]
        sizes = dict(zip(have, shape, strict=True))
        wanted = [axis for axis in frame if axis in axes]
        if len(wanted) < len(axes):
            raise Unfit(MISFIT)
        if wanted != axes:
            order = [have.index(axis) for axis in wanted]
            order += [i for i in range(len(have)) if i not in order]
            value = self.b(tile.Transpose(tuple(order), value))
        to = tuple([sizes[axis] if axis in axes else 1 for axis in frame])
        if element_type(value.type).shape == to:
            return value
        return self.reshape(value, to)

    def reshape(self, value: Value, to: tuple[int, ...]) -> Value:
        """Sizes of 1 put in or left out."""
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
        return self.b(tile.Reshape(value, Tile(to, element_type(value.type).element)))

    def shape(self, frame: Frame, along: Iterable[Axis]) -> tuple[int, ...]:
        """The sizes of a tile that differs along some axes of a frame."""
        wanted = set(along)
        return tuple([self.plan.lanes[axis] if axis in wanted else 1 for axis in frame])

    def keep(self, demand: Demand, made: Made) -> None:
        """Have what is made of a demand for all that is made in this region from here on."""
        self.scopes[-1][demand] = made

    def named(self, value: Value, demand: Demand, frame: Frame) -> Made:
        value.name = value.name or demand.value.name
        return Made(value, frame if element_type(value.type).shape else ())

    def is_ready(self, demand: Demand) -> bool:
        """Whether a demand is still to be made, and all that combines elements for it is made."""
        if self._find(demand) is not None:
            return False
        if not all(a in self.scalars or a in self.plan.lanes for a in self.dependencies[demand]):
            return False
        needed = (d for d in self._needed([demand]) if d is not demand)
        return not any(isinstance(self.recipes[d], Combining) for d in needed)

    # Numbers and indices.

    def number(self, n: int, element: DType = i32) -> Value:
        return self.b(Constant(n, element))

    def constant_of(self, n: float, type_: ElementType) -> Value:
        return self.b(Constant(n, type_))

    def like(self, n: int, value: Value) -> Value:
        return self.b(Constant(n, element_type(value.type)))

    def spread(self, value: Value, shape: tuple[int, ...]) -> Value:
        """A value over a shape."""
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
        shape = union(x, y)
        return self.b(op(self.spread(x, shape), self.spread(y, shape)))

    def index(self, formula: Index, frame: Frame) -> Value:
        """The value of a formula."""
        for scope in reversed(self.indices):
            for known in ((formula, frame), (formula, ())):
                if known in scope:
                    return scope[known]
        scalars: list[Value] = []
        tiles: list[Value] = []
        for atom, n in formula.terms:
            value, counts = self._atom(atom, frame)
            if n % counts:
                value, counts = self.b(math.FloorDiv(value, self.like(counts, value))), 1
            if n != counts:
                value = self.b(math.Mul(value, self.like(n // counts, value)))
            (tiles if element_type(value.type).shape else scalars).append(value)
        if formula.number or not formula.terms:
            scalars.append(self.number(formula.number))
        result: Value | None = None
        for part in (*scalars, *tiles):
            result = part if result is None else self.binary(math.Add, result, part)
        assert result is not None
        # A scalar goes with any frame.
        self.indices[-1][formula, frame if element_type(result.type).shape else ()] = result
        return result

    def _atom(self, atom: Atom, frame: Frame) -> tuple[Value, int]:
        """The value of an atom times a number, and that number."""
        if isinstance(atom, Quotient | Remainder):
            x = self.index(atom.of, frame)
            op = math.FloorDiv if isinstance(atom, Quotient) else math.Mod
            return self.b(op(x, self.like(atom.by, x))), 1
        if isinstance(atom, Lookup):
            return self._place(atom, frame), 1
        assert isinstance(atom, Axis)
        if atom in self.scalars:
            block = self.plan.blocks.get(atom)
            is_loop = self.scalars[atom].op is None
            return self.scalars[atom], block.size if block is not None and is_loop else 1
        return self._lane(atom, frame), 1

    def _lane(self, axis: Axis, frame: Frame) -> Value:
        """The numbers of the lanes along an axis."""
        key = Index.of(axis), frame
        for scope in reversed(self.indices):
            if key in scope:
                return scope[key]
        if axis not in frame:
            raise Unfit(MISFIT)
        value = self.b(tile.Arange(0, Tile((self.plan.lanes[axis],), i32)))
        at = frame.index(axis)
        for place in range(len(frame)):
            if place != at:
                value = self.b(tile.ExpandDims(place, value))
        self.indices[-1][key] = value
        return value

    def _place(self, lookup: Lookup, frame: Frame) -> Value:
        """A place that is looked up, which must be one of those that there are."""
        place = lookup.place
        value = self.element(place, frame)
        mask = self.mask(self.dependencies[place], place.guard, frame)
        if mask is not None:
            value = self.choose(mask, value, self.like(0, value))
        # As an unsigned number one comparison tells.
        value = self.cast(value, u64 if place.element is i64 else u32)
        if lookup not in self.checked:
            self.checked.add(lookup)
            inside = self.b(math.Compare(Predicate.LT, value, self.like(lookup.size, value)))
            self.b.insert(tile.Assert("an index is outside of its axis", inside))
        return self.cast(value, i32)

    # Masks.

    def covers(self, frame: Frame, condition: Within) -> bool:
        """Whether a condition differs along no other lanes than those of a frame."""
        return {*self.lanes_of(self.demands.axes_in([condition.index]))} <= {*frame}

    def mask(self, axes: Iterable[Axis], guard: Iterable[Within], frame: Frame) -> Value | None:
        """Where lanes along some axes are not over the end, and a guard holds."""
        guard = list(guard)
        lanes = {*axes, *self.demands.axes_in([c.index for c in guard])}
        ends = [end for axis, end in self.plan.ends.items() if axis in lanes]
        return self.all_of([*ends, *guard], frame)

    def all_of(self, conditions: Iterable[Within], frame: Frame) -> Value | None:
        """Whether conditions hold."""
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
                holds = self.b(math.Compare(predicate, value, self.like(limit, value)))
                result = holds if result is None else self.binary(math.And, result, holds)
        return result

    def choose(self, condition: Value, x: Value, other: Value) -> Value:
        shape = union(condition, x, other)
        return self.b(math.Select(*[self.spread(v, shape) for v in (condition, x, other)]))

    # Regions.

    def loop(
        self,
        axes: Sequence[Axis],
        demands: Iterable[Demand],
        carried: Sequence[Value],
        body: Callable[[Sequence[Value]], Sequence[Value]],
    ) -> Sequence[Value]:
        """Go over scalar axes, carrying values along; `demands` are what the body needs."""
        if not axes:
            return body(carried)
        axis, *rest = axes
        scans = [d for d in self._scans(demands) if axis in self._running(d).over]
        count = len(carried)
        block = self.plan.blocks.get(axis)
        step, end = (block.size, block.whole) if block is not None else (1, axis.size)
        bounds = [self.number(n) for n in (0, end, step)]
        starts = [self._start(d) for d in scans]
        op = self.b.insert(For(*bounds, [*carried, *starts]))
        op.body.arguments[0].name = axis.name
        with self.b.inside(op.body), self._scope():
            self.scalars[axis] = op.body.arguments[0]
            self.running.update(zip(scans, op.carried[count:], strict=True))
            results = self.loop(rest, demands, op.carried[:count], body)
            for demand in scans:
                self.element(demand, self.lanes_of(self.dependencies[demand]))
            self.b.insert(Yield([*results, *[self.running.pop(d) for d in scans]]))
            del self.scalars[axis]
        return tuple(op.results)[:count]

    @contextmanager
    def _scope(self) -> Iterator[None]:
        """What is made within is not seen after."""
        self.scopes.append({})
        self.indices.append({})
        checked = set(self.checked)
        yield
        self.scopes.pop()
        self.indices.pop()
        self.checked = checked

    def prepare(self, demands: Iterable[Demand], loops: set[Axis]) -> None:
        """Make what combines elements and is the same in all rounds of loops to come."""
        for demand in self._needed(demands):
            recipe = self.recipes[demand]
            axes = self.dependencies[demand]
            if (
                isinstance(recipe, Combining)
                and not axes & loops
                and all(a in self.scalars or a in self.plan.lanes for a in axes)
                and self._find(demand) is None
            ):
                self.element(demand, self.lanes_of(axes))

    def _needed(self, demands: Iterable[Demand]) -> Iterator[Demand]:
        """What demands need and is not made yet, what is needed before what needs it."""
        opened: set[Demand] = set()
        done: set[Demand] = set()
        waiting = list(demands)[::-1]
        while waiting:
            demand = waiting[-1]
            if demand in done or self._find(demand) is not None:
                waiting.pop()
            elif demand in opened:
                done.add(demand)
                yield demand
            else:
                opened.add(demand)
                recipe = self.recipes[demand]
                waiting += [*recipe.demands, *places_in(recipe.formulas())]

    def _scans(self, demands: Iterable[Demand]) -> list[Demand]:
        return [d for d in self._needed(demands) if isinstance(self.recipes[d], Running)]

    def _running(self, demand: Demand) -> Running:
        recipe = self.recipes[demand]
        assert isinstance(recipe, Running)
        return recipe

    def _start(self, demand: Demand) -> Value:
        """What a scan has come to before its first block."""
        axes, recipe = self.dependencies[demand], self._running(demand)
        shape = self.shape(self.lanes_of(axes), axes - {*recipe.over})
        element = accumulator(recipe.kind, demand.element)
        none = identity(recipe.kind, element)
        return self.constant_of(none, Tile(shape, element) if shape else element)


def union(*values: Value) -> tuple[int, ...]:
    """The shape that values have together."""
    shapes = [element_type(v.type).shape for v in values]
    rank = max(map(len, shapes))
    return tuple([max(s[i] for s in shapes if s) for i in range(rank)])


# How each recipe is made.

# Those that are made of others of the same frame.
_SAME_FRAME = (Same, Choice, Pointwise)

_MAKERS: dict[type[Recipe], Callable[..., Made]] = {}


def makes(kind: type[Recipe]) -> Callable[[Callable[..., Made]], Callable[..., Made]]:
    def register(maker: Callable[..., Made]) -> Callable[..., Made]:
        _MAKERS[kind] = maker
        return maker

    return register


@makes(Splat)
def splat(to: Emitter, recipe: Splat, demand: Demand, frame: Frame) -> Made:
    return Made(to.b(Constant.of_bits(recipe.bits, demand.element)), ())


@makes(Number)
def index_as_number(to: Emitter, recipe: Number, demand: Demand, frame: Frame) -> Made:
    value = to.cast(to.index(recipe.index, frame), demand.element)
    return Made(value, frame if element_type(value.type).shape else ())


@makes(Load)
def load(to: Emitter, recipe: Load, demand: Demand, frame: Frame) -> Made:
    offset = to.index(recipe.address, frame)
    mask = to.mask(to.demands.axes_in([recipe.address]), recipe.guard, frame)
    other: Value | None = None
    if mask is not None:
        shape = union(offset, mask)
        offset, mask = to.spread(offset, shape), to.spread(mask, shape)
        other = to.constant_of(0, element_type(offset.type).with_element(demand.element))
    value = to.b(tile.Load(to.pointers[recipe.value], offset, mask, other), recipe.value.name)
    return Made(value, frame if element_type(value.type).shape else ())


@makes(Choice)
def choice(to: Emitter, recipe: Choice, demand: Demand, frame: Frame) -> Made:
    *options, (_, last) = recipe.options
    value = to.element(last, frame)
    for conditions, option in reversed(options):
        holds = to.all_of(conditions, frame)
        assert holds is not None
        value = to.choose(holds, to.element(option, frame), value)
    return Made(value, frame if element_type(value.type).shape else ())


# What an operand is made that an op cannot take from a lane that does not count.
_HARMLESS: dict[type[Op], tuple[int, int]] = {  # which operand, and the number
    math.FloorDiv: (1, 1),
    math.Mod: (1, 1),
    math.Shl: (1, 0),
    math.Shr: (1, 0),
    math.Cast: (0, 0),
}


@makes(Pointwise)
def elementwise(to: Emitter, recipe: Pointwise, demand: Demand, frame: Frame) -> Made:
    op = recipe.op
    to.b.location = op.location
    values = [to.element(d, frame) for d in recipe.operands]
    to.b.location = op.location
    if type(op) in _HARMLESS and not op.may_speculate():
        at, n = _HARMLESS[type(op)]
        mask = to.mask(to.dependencies[demand], demand.guard, frame)
        if mask is not None:
            values[at] = to.choose(mask, values[at], to.like(n, values[at]))
    shape = union(*values)
    values = [to.spread(v, shape) for v in values]
    type_ = Tile(shape, demand.element) if shape else demand.element
    value = to.b.insert(type(op).create(tuple(values), op.attributes, (type_,))).results[0]
    value.name = op.results[0].name
    return Made(value, frame if shape else ())
