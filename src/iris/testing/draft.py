"""A program in the making: what has been built, and what can be seen from here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf, nan, prod
from typing import TYPE_CHECKING

from iris.ir import math, tile
from iris.ir.builder import Builder
from iris.ir.control import Func, Return
from iris.ir.core import Facet, Level, Module, Op, Region, Value
from iris.ir.literal import Number, encode
from iris.ir.math import element_type
from iris.ir.types import DTYPES, DType, ElementType, Ptr, Tile, Type, bool_, f16, f32, i32
from iris.testing.choices import Choices
from iris.tools.replay import Array, Grid, Program, Recipe, Scalar

if TYPE_CHECKING:
    from iris.testing.access import Place

MOST_ELEMENTS = 1024  # of a tile
DEEPEST = 3  # of loops and branches in one another

# How each op is made, from choices: `def maker(op_class, draft, choices)`.
make = Facet("random construction")

# Floats are exact as long as they are integers of no more bits than these.
_EXACT = {f32: 2**24, f16: 2**11, DTYPES["bf16"]: 2**8}

Step = tuple["type[Op] | None", bytes]


@dataclass
class Memory:
    """An array argument, and the part of it that a program may touch: `size` elements from
    `program * stride` on, of those that there are."""

    pointer: Value
    recipe: Array
    stride: int  # 0: all programs touch the same
    size: int  # a power of two
    ragged: bool = False  # whether some of that is not there

    @property
    def dtype(self) -> DType:
        return self.recipe.dtype


class Draft:
    """Builds one function, step after step.

    `visible` are the values that steps may use, the latest last.  What a step makes on the way
    is not among them, so that programs are made of what steps are for.
    """

    def __init__(
        self, steps: Sequence[Step], choices: Choices, dtypes: Sequence[DType], *, masked: bool
    ):
        self.steps = list(steps)[::-1]
        self.func = Func("program", Level.TILE)
        self.builder = Builder(self.func.body)
        self.visible: list[Value] = []
        self.memo: dict[object, Value] = {}
        self.recipes: list[Recipe] = []
        self.inputs: list[Memory] = []
        self.owned: list[Memory] = []
        self.counters: dict[tuple[DType, tile.AtomicKind], Memory] = {}
        self.places: list[Place] = []
        self.scalars: dict[DType, Value] = {}
        self.bounds: dict[Value, int] = {}
        self.masked: set[Value] = set()  # what may have elements that must not count
        self.may_mask = masked
        self.depth = 0
        self._configure(choices, dtypes)

    def _configure(self, choices: Choices, dtypes: Sequence[DType]) -> None:
        x, y, z = (1 + choices.below(4), 1 + choices.below(3), 1 + choices.below(2))
        self.grid: Grid = (x, y, z) if choices.flag() else (x, 1, 1)
        self.all_dtypes = tuple(dtypes)
        # There are fewer floats, but more is done with them.
        weighted = [d for d in dtypes for _ in range(3 if d.is_float else 1)]
        self.dtypes = tuple([choices.of(weighted) for _ in range(1 + choices.below(4))])
        self.shapes = [_shape(choices) for _ in range(1 + choices.below(3))]
        self.slice = max(8, *map(prod, self.shapes))
        self.outputs = choices.of((1, 24, 24, 24, 24, 3))
        self.seed = choices.below(256)
        self.choices = choices
        self.number = self._number()

    @property
    def programs(self) -> int:
        return prod(self.grid)

    def _number(self) -> Value:
        """Which program this is, counted through the grid."""
        number = self.put(tile.ProgramId(0))
        for axis in (1, 2):
            if self.grid[axis] > 1:
                before = self.constant(prod(self.grid[:axis]), i32)
                further = self.put(math.Mul(self.put(tile.ProgramId(axis)), before))
                number = self.put(math.Add(number, further))
        return number

    # Putting ops in place.

    def put(self, op: Op) -> Value:
        """An op of one result that is not for others to use."""
        value = self.builder(op)
        self._note(op)
        return value

    def add(self, op: Op) -> None:
        """An op whose results are there to be used."""
        self.builder.insert(op)
        self._note(op)
        self.visible.extend(op.results)

    def _note(self, op: Op) -> None:
        if self.may_mask and (
            isinstance(op, tile.MaskedLoad)
            # What loops and branches carry may be masked before they are done, or after.
            or op.regions
            or any(v in self.masked for v in op.operands)
        ):
            self.masked.update(op.results)
        bound = _bound(op, self.bounds)
        if bound is not None and bound <= _EXACT[element_type(op.results[0].type).element]:
            self.bounds[op.results[0]] = bound

    def step(self) -> None:
        """The next step, if there is one left."""
        if not self.steps:
            return
        cls, data = self.steps.pop()
        if cls is None or (self.depth == DEEPEST and cls.spec.regions):
            return
        choices = Choices(data)
        # The same again, which may or may not be merged with what is there.
        known = [v.op for v in self.visible if v.op is not None and type(v.op) is cls]
        if known and not cls.spec.regions and choices.flag(4):
            self.add(known[-1 - choices.below(len(known))].clone({}))
        else:
            make[cls](cls, self, choices)

    @contextmanager
    def inside(self, region: Region) -> Iterator[None]:
        """Build in a region, the values of which are not seen after it."""
        saved = self.visible, self.memo, self.places
        self.visible = [*self.visible, *region.arguments]
        self.memo, self.places = dict(self.memo), list(self.places)
        if self.may_mask:
            self.masked.update(region.arguments)
        self.depth += 1
        with self.builder.inside(region):
            yield
        self.depth -= 1
        self.visible, self.memo, self.places = saved

    # Finding values.

    def find(
        self,
        fits: Callable[[ElementType], bool],
        choices: Choices,
        *,
        besides: Value | None = None,
    ) -> Value | None:
        """A visible value, chosen by its distance back; those that nothing uses yet are nearest,
        so that little of a program is dead."""
        found = [v for v in self.visible if v is not besides and fits(element_type(v.type))]
        found.sort(key=lambda v: not v.users)
        back = choices.below(256) * choices.below(256) * len(found) >> 16
        return found[-1 - back] if found else None

    def some(
        self,
        dtypes: Collection[DType],
        choices: Choices,
        fits: Callable[[ElementType], bool] = lambda type_: True,
    ) -> Value:
        """A value of one of some dtypes, of which there is at least one that is used."""
        value = self.find(lambda t: t.element in dtypes and fits(t), choices)
        if value is not None:
            return value
        mine = [d for d in self.dtypes if d in dtypes]
        element = choices.of(mine or [d for d in (*self.all_dtypes, bool_, i32) if d in dtypes])
        types = [t for t in self.types(element) if fits(t)]
        return self.leaf(choices.of(types))

    def types(self, element: DType) -> list[ElementType]:
        return [element, *[Tile(shape, element) for shape in self.shapes]]

    def like(self, type_: Type, choices: Choices, *, besides: Value | None = None) -> Value:
        """A value of a type."""
        value = self.find(lambda t: t is type_, choices, besides=besides)
        return self.leaf(element_type(type_)) if value is None else value

    def other(self, value: Value, choices: Choices) -> Value:
        """A value of the type of another: seldom the same, of which too much is no news, like a
        difference of 0."""
        return value if choices.flag(8) else self.like(value.type, choices, besides=value)

    def some_tile(self, dtypes: Collection[DType], choices: Choices) -> Value:
        """A tile of one of some dtypes."""
        return self.some(dtypes, choices, lambda t: bool(t.shape))

    # Making values.

    def leaf(self, type_: ElementType) -> Value:
        """A value made of nothing that is there: a parameter, or elements of an array."""
        if type_ in self.memo:
            return self.memo[type_]
        if type_.shape or self.choices.flag():
            array = self.input(type_.element)
            lanes = self.lanes(type_.shape) if type_.shape else self.number
            count = prod(type_.shape) if type_.shape else self.programs
            if count > array.size:
                lanes = self.wrapped(lanes, array.size)
            value = self.put(tile.Load(array.pointer, lanes))
            self.learn(value, array)
        else:
            value = self.scalar(type_.element)
        self.memo[type_] = value
        return value

    def scalar(self, dtype: DType) -> Value:
        """A parameter that is a small number."""
        known = self.scalars.get(dtype)
        if known is None:
            numbers = (
                (1, 0) if dtype is bool_ else (1, 2, 3, -1, -2) if dtype.is_signed else (1, 2, 3)
            )
            number = self.choices.of(numbers)
            self.recipes.append(Scalar(dtype, encode(number, dtype)))
            known = self.scalars[dtype] = self.func.body.add_argument(dtype, f"n_{dtype}")
            if dtype.is_float:
                self.bounds[known] = abs(number)
        return known

    def constant(self, number: Number, type_: ElementType) -> Value:
        """A constant, made once in a region."""
        key = (type_, repr(number))
        if key not in self.memo:
            self.memo[key] = self.put(math.Constant(number, type_))
        return self.memo[key]

    def lanes(self, shape: tuple[int, ...]) -> Value:
        """The elements of a tile, numbered row by row."""
        if shape not in self.memo:
            value = self.put(tile.Arange(0, Tile((prod(shape),), i32)))
            if len(shape) > 1:
                value = self.put(tile.Reshape(value, Tile(shape, i32)))
            self.memo[shape] = value
        return self.memo[shape]

    def spread(self, value: Value, shape: tuple[int, ...]) -> Value:
        """A scalar in every element of a tile, or as it is."""
        if not shape:
            return value
        key = (value, shape)
        if key not in self.memo:
            element = element_type(value.type).element
            self.memo[key] = self.put(tile.Broadcast(value, Tile(shape, element)))
        return self.memo[key]

    def wrapped(self, value: Value, count: int) -> Value:
        """Any integers made into ones from 0 up to a power of two."""
        return self.put(math.And(value, self.constant(count - 1, element_type(value.type))))

    def counter(self, dtype: DType, kind: tile.AtomicKind) -> Memory:
        """An array that all programs update, in one way."""
        key = dtype, kind
        if key not in self.counters:
            self.seed += 1
            recipe = Array(dtype, (16,), self.seed)
            pointer = self.argument("counter", recipe, noalias=self.choices.flag(3))
            self.counters[key] = Memory(pointer, recipe, 0, 16)
        return self.counters[key]

    def small(self, choices: Choices, count: int) -> Value:
        """A scalar i32 from 0 up to a power of two, computed."""
        return self.wrapped(self.like(i32, choices), count)

    def clamped(self, value: Value, low: int, high: int) -> Value:
        """Numbers made into ones between two bounds; nan becomes one of them."""
        type_ = element_type(value.type)
        value = self.put(math.MaxNum(value, self.constant(low, type_)))
        return self.put(math.MinNum(value, self.constant(high, type_)))

    def exact(self, value: Value, most: int, needed: int) -> Value:
        """Floats made into integers so small that they may be added up in any order: the value
        itself if it is known to be no greater than `needed`, else cut to `most`."""
        type_ = element_type(value.type)
        if not type_.element.is_float or self.bounds.get(value, inf) <= needed:
            return value
        value = self.clamped(self.put(math.Round(value)), -most, most)
        self.bounds[value] = most
        return value

    # Arrays.

    def argument(self, prefix: str, recipe: Array, *, noalias: bool) -> Value:
        """A parameter that is an array."""
        names = sum(isinstance(r, Array) for r in self.recipes)
        self.recipes.append(recipe)
        return self.func.body.add_argument(Ptr(recipe.dtype, noalias), f"{prefix}{names}")

    def input(self, dtype: DType, choices: Choices | None = None) -> Memory:
        """An array that is only read."""
        known = [m for m in self.inputs if m.dtype is dtype]
        if known and (choices is None or len(known) > 2 or not choices.flag(3)):
            return known[-1] if choices is None else choices.of(known)
        size = max(1, 2 * self.slice - self.choices.below(2 * self.slice))
        shape: tuple[int, ...] = (size,)
        if self.choices.flag(3):
            shape = (1 + self.choices.below(4), size)
        recipe = self._filled(dtype, shape, self.choices)
        pointer = self.argument("in", recipe, noalias=self.choices.flag())
        power = 1 << (prod(shape).bit_length() - 1)
        self.inputs.append(Memory(pointer, recipe, 0, power))
        return self.inputs[-1]

    def own(self, dtype: DType, choices: Choices) -> Memory:
        """An array of which each program has a part of its own."""
        known = [m for m in self.owned if m.dtype is dtype]
        if known and (len(known) > 2 or not choices.flag()):
            return choices.of(known)
        whole = [m for m in known if m.recipe.alias is None and not _is_noalias(m)]
        if whole and self.choices.flag():
            memory = self._alias(whole[-1], half=self.choices.flag(3))
        else:
            size = self.slice * self.programs
            cut = self.choices.below(self.slice) if self.choices.flag(3) else 0
            shape: tuple[int, ...] = (size - cut,)
            if not cut and self.choices.flag(3):
                shape = (self.programs, self.slice)
            recipe = self._filled(dtype, shape, self.choices)
            pointer = self.argument("own", recipe, noalias=self.choices.flag(3))
            memory = Memory(pointer, recipe, self.slice, self.slice, bool(cut))
        self.owned.append(memory)
        return memory

    def renamed(self, memory: Memory) -> Memory:
        """Another name for the same array, if it may have one."""
        if memory.recipe.alias is not None or _is_noalias(memory):
            return memory
        for known in self.owned:
            if known.recipe.alias == memory.pointer.index and not known.recipe.at:
                return known
        self.owned.append(self._alias(memory, half=False))
        return self.owned[-1]

    def _alias(self, other: Memory, *, half: bool) -> Memory:
        """Another name for an array, or for one that starts half a slice further on."""
        whole = prod(other.recipe.shape)
        at = other.size // 2 if half and whole > other.size // 2 else 0
        recipe = Array(other.dtype, (whole - at,), alias=other.pointer.index, at=at)
        pointer = self.argument("alias", recipe, noalias=False)
        return Memory(pointer, recipe, other.stride, other.size - at, other.ragged)

    def _filled(self, dtype: DType, shape: tuple[int, ...], choices: Choices) -> Array:
        self.seed += 1
        style = choices.below(3)
        if style == 2:
            return Array(dtype, shape, data=tuple([encode(n, dtype) for n in odd_numbers(dtype)]))
        if style == 1 and dtype.is_float:
            return Array(dtype, shape, self.seed, (-2.0, 2.0))
        if style == 1 and dtype.is_integer:
            return Array(dtype, shape, self.seed, (dtype.low, dtype.high))
        return Array(dtype, shape, self.seed)

    def learn(self, value: Value, memory: Memory) -> None:
        """Notes what is known of a value that was read from an array that nobody writes."""
        recipe = memory.recipe
        if memory.dtype.is_float and not memory.stride and recipe.data == () and not recipe.range:
            self.bounds[value] = 4

    # The end.

    def finish(self) -> Program:
        """Whatever has not been used is stored, the latest first, and not too much of it."""
        while self.steps:
            self.step()
        unused = [v for v in self.visible if not v.users]
        for value in unused[: -self.outputs - 1 : -1]:
            self._store(value)
        self.builder.insert(Return([]))
        return Program(Module([self.func]), "program", self.grid, tuple(self.recipes))

    def _store(self, value: Value) -> None:
        type_ = element_type(value.type)
        size = prod(type_.shape)
        self.seed += 1
        recipe = Array(type_.element, (size * self.programs,), self.seed)
        pointer = self.argument("out", recipe, noalias=False)
        offset = self.from_start(size, self.lanes(type_.shape)) if type_.shape else self.number
        self.builder.insert(tile.Store(pointer, offset, value))

    def from_start(self, stride: int, offset: Value) -> Value:
        """An offset from where the part of each program starts in an array."""
        if self.programs == 1:
            return offset
        start = self.number
        if stride > 1:
            start = self.put(math.Mul(start, self.constant(stride, i32)))
        start = self.spread(start, element_type(offset.type).shape)
        return self.put(math.Add(start, offset))


def _is_noalias(memory: Memory) -> bool:
    type_ = memory.pointer.type
    return isinstance(type_, Ptr) and type_.noalias


def odd_numbers(dtype: DType) -> list[Number]:
    """Numbers at which things go wrong."""
    if dtype is bool_:
        return [True, False, False]
    if dtype.is_float:
        return [0.0, -0.0, 1.0, inf, -2.5, nan, -inf, 0.5, -1.0, 3.0]
    return [0, 1, dtype.high, dtype.low, 2, dtype.high - 1, 7]


def _shape(choices: Choices) -> tuple[int, ...]:
    """A tile of one to three dimensions, each of 1 to 64."""
    rank = choices.of((1, 2, 2, 3))
    powers = (8, 4, 16, 2, 64, 1, 32)
    shape = [choices.of(powers) for _ in range(rank)]
    if choices.below(3):  # a square can be transposed without its type showing it
        shape = [shape[0]] * rank
    while prod(shape) > 256:
        shape[shape.index(max(shape))] //= 2
    return tuple(shape)


_SAME_BOUND = (math.Neg, math.Abs, math.Floor, math.Ceil, math.Round, tile.Broadcast)
_MOVING = (*_SAME_BOUND, tile.ExpandDims, tile.Reshape, tile.Transpose)
_EITHER = (math.MaxNum, math.MinNum, math.Maximum, math.Minimum)


def _bound(op: Op, bounds: dict[Value, int]) -> int | None:
    """How great a result can be that is a float but has an integer's value."""
    if len(op.results) != 1 or not element_type(op.results[0].type).element.is_float:
        return None
    if isinstance(op, math.Constant):
        number = float(op.value)
        return int(abs(number)) if number.is_integer() else None
    known = [bounds.get(v) for v in op.operands]
    if None in known or not known:
        return None
    of = [k for k in known if k is not None]
    if isinstance(op, _MOVING):
        return of[0]
    if isinstance(op, _EITHER):
        return max(of)
    if isinstance(op, math.Add | math.Sub):
        return of[0] + of[1]
    if isinstance(op, math.Mul):
        return of[0] * of[1]
    return None
