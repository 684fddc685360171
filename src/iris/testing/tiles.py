"""A kernel in the making: a program instance's tiles, and the arrays that it may touch."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from math import prod

from iris.ir import math, tile
from iris.ir.control import For, If, While, Yield
from iris.ir.core import Facet, Level, Region, Value
from iris.ir.kinds import AtomicKind
from iris.ir.literal import Number, encode
from iris.ir.math import Predicate, element_type
from iris.ir.types import DTYPES, MAX_RANK, DType, ElementType, Ptr, Tile, bool_, i32
from iris.testing.choices import Choices
from iris.testing.draft import KernelDraft, Step, fitting
from iris.testing.places import Memory, Place, Table
from iris.tools.replay import Array, Grid, Scalar

MOST_ELEMENTS = 1024  # of a tile
MOST_OF_ALL = 8192  # of a large tile, in all programs together
MOST_TRIPS = 4
ALIGNMENT = 16  # bytes, of an aligned pointer

make_tile = Facet("random construction")


class TileDraft(KernelDraft):
    """Builds one kernel."""

    level = Level.TILE
    rules = make_tile
    deepest = 3
    moving = (
        *(tile.Broadcast, tile.ExpandDims, tile.Flip, tile.Gather, tile.Pick, tile.Reshape),
        tile.Transpose,
    )

    def __init__(
        self,
        steps: Sequence[Step],
        choices: Choices,
        dtypes: Sequence[DType],
        *,
        fast_math: bool = False,
        rounding: bool = False,
        masked: bool = False,
    ):
        super().__init__(steps, choices, dtypes, fast_math=fast_math, rounding=rounding)
        self.masked = masked  # whether it may have what `follow-masks` leaves nothing of
        self.inputs: list[Memory] = []
        self.owned: list[Memory] = []
        self.counters: dict[tuple[DType, AtomicKind], Memory] = {}
        self.places: list[Place] = []
        self.table: Table | None = None  # once something is cut by it
        self.matrices: list[Memory] = []  # of that cut, only read
        self.sizes: dict[int, Value] = {}
        self.divisors: dict[DType, Value] = {}
        self.pointers: dict[object, Value] = {}
        self.scalars: dict[DType, Value] = {}
        x, y, z = (1 + choices.below(4), 1 + choices.below(3), 1 + choices.below(2))
        self.grid: Grid = (x, y, z) if choices.flag() else (x, 1, 1)
        self.dtypes = self.some_dtypes(choices)
        self.shapes = [_shape(choices) for _ in range(1 + choices.below(3))]
        self.slice = max(8, *map(prod, self.shapes))
        self.outputs = choices.of((1, 24, 24, 24, 24, 3))
        self.seed = choices.below(256)
        self.number = self._number()

    @property
    def programs(self) -> int:
        return prod(self.grid)

    @property
    def is_shallow(self) -> bool:
        """Whether a loop of many elements may stand here: within two others it takes too long."""
        return self.depth < self.deepest - 1

    def _number(self) -> Value:
        """Which program this is, counted through the grid."""
        number = self.put(tile.ProgramId(0))
        for axis in (1, 2):
            if self.grid[axis] > 1:
                before = self.constant(prod(self.grid[:axis]), i32)
                further = self.put(math.Mul(self.put(tile.ProgramId(axis)), before))
                number = self.put(math.Add(number, further))
        return number

    @contextmanager
    def inside(self, region: Region) -> Iterator[None]:
        places, self.places = self.places, list(self.places)
        with super().inside(region):
            yield
        self.places = places

    # Making values.

    def types(self, element: DType) -> list[ElementType]:
        return [element, *[Tile(shape, element) for shape in self.shapes]]

    def leaf(self, type_: ElementType) -> Value:
        """A value made of nothing that is there: a parameter, or elements of an array."""
        if type_ in self.memo:
            return self.memo[type_]
        if type_.shape or self.choices.flag():
            array = self.input(type_.element)
            value = self.put(tile.Load(array.pointer, self._first_of(array, type_.shape)))
            self.learn(value, array)
        else:
            value = self.scalar(type_.element)
        self.memo[type_] = value
        return value

    def _first_of(self, array: Memory, shape: tuple[int, ...]) -> Value:
        """The first elements of an array, or for a scalar each program's own, again and again."""
        lanes = self.lanes(shape) if shape else self.number
        count = prod(shape) if shape else self.programs
        return self.wrapped(lanes, array.size) if count > array.size else lanes

    def some_shaped(self, dtypes: Collection[DType], choices: Choices) -> Value:
        """As at any level; in programs with masks at times elements of which some are left out."""
        if not (self.masked and choices.flag(4)):
            return super().some_shaped(dtypes, choices)
        element = choices.of([d for d in self.dtypes if d in dtypes] or list(dtypes))
        type_ = Tile(choices.of(self.shapes), element)
        array = self.input(element, choices)
        mask = self.like(type_.with_element(bool_), choices)
        return self.put(tile.MaskedLoad(array.pointer, self._first_of(array, type_.shape), mask))

    def whole(self, type_: Tile, choices: Choices) -> Value:
        """All elements of an array that is only read, for others to use."""
        count = prod(type_.shape)
        known = [m for m in self.inputs if m.dtype is type_.element and m.size == count]
        if not known:
            recipe = self.filled(type_.element, (count,), choices)
            pointer = self.argument("whole", recipe, noalias=choices.flag())
            self.inputs.append(Memory(pointer, recipe, 0, count))
            known = self.inputs[-1:]
        self.add(tile.Load(known[0].pointer, self.lanes(type_.shape)))
        self.learn(self.visible[-1], known[0])
        return self.visible[-1]

    def alike(self, type_: Tile, number: Number, first: int) -> Value:
        """Elements of an array that are all one number, which no pass knows; some programs leave
        out those before the first."""
        key = (type_, "alike", repr(number))
        recipe = Array(type_.element, (prod(type_.shape),), data=(encode(number, type_.element),))
        if key not in self.pointers:
            self.pointers[key] = self.argument("alike", recipe, noalias=True)
        lanes = self.lanes(type_.shape)
        if not (self.masked and first):
            return self.put(tile.Load(self.pointers[key], lanes))
        start = self.constant(first, element_type(lanes.type))
        mask = self.put(math.Compare(Predicate.GE, lanes, start))
        return self.put(tile.MaskedLoad(self.pointers[key], lanes, mask))

    def fitting(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """A shape, made smaller if programs are so many that it would take long."""
        return fitting(shape, max(MOST_ELEMENTS // 4, MOST_OF_ALL // self.programs))

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

    def parameter(self, number: int) -> Value:
        """A parameter that is a size or the like."""
        known = self.sizes.get(number)
        if known is None:
            self.recipes.append(Scalar(i32, encode(number, i32)))
            known = self.sizes[number] = self.func.body.add_argument(i32, f"size_{len(self.sizes)}")
        return known

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

    def counter(self, dtype: DType, kind: AtomicKind) -> Memory:
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

    def condition(self, type_: ElementType, choices: Choices) -> Value:
        return self.like(bool_ if choices.flag() else type_.with_element(bool_), choices)

    def divide(self, cls: type[math.Binary], choices: Choices) -> None:
        """By numbers that are not zero, or only where they are masked; or in a branch, or a loop,
        that is not entered if the divisor is zero."""
        integers = [d for d in DTYPES.values() if d.is_integer]
        is_entered = not choices.flag(3)
        x = self.some(integers, choices, lambda t: not (is_entered and t.shape))
        type_ = element_type(x.type)
        if not is_entered:
            self.add(cls(x, self.divisor(type_, choices)))
            return
        never = choices.flag(4)  # is it entered, as bounds or a condition that are known say
        zero = self.constant(0, type_)
        divisor = zero if never else self.wrapped(self.other(x, choices), MOST_TRIPS)
        style = choices.of((0, 1, 2, 3, 1))
        if style == 3:
            is_asked = self.like(bool_, choices)
            with self.entered_if_not_zero(divisor, x), self.perhaps(is_asked, x):
                self.builder.insert(Yield([self.put(cls(x, divisor))]))
        elif style == 2:
            self._divide_once(cls, x, divisor)
        elif style == 1:
            is_safe = self.put(math.Compare(Predicate.NE, divisor, zero))
            with self.entered_if(is_safe, zero):
                self.builder.insert(Yield([self.put(cls(x, divisor))]))
        else:
            with self.entered_if_not_zero(divisor, x):
                self.builder.insert(Yield([self.put(cls(x, divisor))]))

    def _divide_once(self, cls: type[math.Binary], x: Value, divisor: Value) -> None:
        """A loop that ends after one iteration, or before it if the divisor is zero."""
        type_ = element_type(x.type)
        loop = While([divisor, x])
        self.add(loop)
        with self.inside(loop.condition):
            zero = self.constant(0, type_)
            more = math.Compare(Predicate.NE, loop.condition.arguments[0], zero)
            self.builder.insert(Yield([self.put(more)]))
        with self.inside(loop.body):
            self.builder.insert(Yield([self.constant(0, type_), self.put(cls(x, divisor))]))

    def divisor(self, type_: ElementType, choices: Choices) -> Value:
        """Elements of an array of numbers that are not zero."""
        known = self.divisors.get(type_.element)
        if known is None:
            self.seed += 1
            numbers = (1, -2, 3, 7, -1, 5, 2, -3) if type_.element.is_signed else (1, 2, 3, 7, 5)
            data = tuple([encode(n, type_.element) for n in numbers])
            recipe = Array(type_.element, (self.slice,), data=data)
            known = self.argument("divisors", recipe, noalias=choices.flag())
            self.divisors[type_.element] = known
        lanes = self.lanes(type_.shape) if type_.shape else self.number
        lanes = self.wrapped(lanes, 1 << (self.slice.bit_length() - 1))
        if self.masked and choices.flag():
            mask = self.like(type_.with_element(bool_), choices)
            return self.put(tile.MaskedLoad(known, lanes, mask))
        return self.put(tile.Load(known, lanes))

    @contextmanager
    def entered_if_not_zero(self, upper: Value, initial: Value) -> Iterator[None]:
        """A loop from 0 to a number, with something in it that is right only if that is not 0."""
        type_ = element_type(upper.type)
        loop = For(self.constant(0, type_), upper, self.constant(1, type_), [initial])
        self.add(loop)
        with self.inside(loop.body):
            yield

    @contextmanager
    def perhaps(self, condition: Value, otherwise: Value) -> Iterator[None]:
        """A branch in a loop, whose value the loop carries on: another one if a condition fails."""
        with self.entered_if(condition, otherwise) as guard:
            yield
        self.builder.insert(Yield(guard.results))

    @contextmanager
    def entered_if(self, condition: Value, otherwise: Value) -> Iterator[If]:
        """A branch, with a value that another one takes the place of if a condition fails."""
        guard = If(condition, [otherwise.type])
        self.add(guard)
        with self.inside(guard.then):
            yield guard
        with self.inside(guard.otherwise):
            self.builder.insert(Yield([otherwise]))

    # Arrays.

    def argument(self, prefix: str, recipe: Array, *, noalias: bool) -> Value:
        """A parameter that is an array."""
        names = self.arrays
        self.recipes.append(recipe)
        is_aligned = recipe.at * recipe.dtype.bytes % ALIGNMENT == 0 and not self.choices.flag(4)
        type_ = Ptr(recipe.dtype, noalias, is_aligned)
        return self.func.body.add_argument(type_, f"{prefix}{names}")

    def input(self, dtype: DType, choices: Choices | None = None) -> Memory:
        """An array that is only read."""
        known = [m for m in self.inputs if m.dtype is dtype]
        if known and (choices is None or len(known) > 2 or not choices.flag(3)):
            return known[-1] if choices is None else choices.of(known)
        size = max(1, 2 * self.slice - self.choices.below(2 * self.slice))
        shape: tuple[int, ...] = (size,)
        if self.choices.flag(3):
            shape = (1 + self.choices.below(4), size)
        recipe = self.filled(dtype, shape, self.choices)
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
            recipe = self.filled(dtype, shape, self.choices)
            pointer = self.argument("own", recipe, noalias=self.choices.flag(3))
            memory = Memory(pointer, recipe, self.slice, self.slice, bool(cut))
        self.owned.append(memory)
        return memory

    def renamed(self, memory: Memory) -> Memory:
        """Another name for the same array, if it may have one."""
        if _is_noalias(memory) or memory.recipe.at:
            return memory
        first = memory.recipe.alias
        for known in self.owned:
            if known.pointer.index == first or (
                known.recipe.alias == memory.pointer.index and not known.recipe.at
            ):
                return known
        if first is not None:
            return memory
        self.owned.append(self._alias(memory, half=False))
        return self.owned[-1]

    def _alias(self, other: Memory, *, half: bool) -> Memory:
        """Another name for an array, or for one that starts half a slice further on."""
        whole = prod(other.recipe.shape)
        at = other.size // 2 if half and whole > other.size // 2 else 0
        recipe = Array(other.dtype, (whole - at,), alias=other.pointer.index, at=at)
        pointer = self.argument("alias", recipe, noalias=False)
        return Memory(pointer, recipe, other.stride, other.size - at, other.ragged)

    def learn(self, value: Value, memory: Memory) -> None:
        """Notes what is known of a value that was read from an array that nobody writes."""
        recipe = memory.recipe
        if memory.dtype.is_float and not memory.stride and recipe.data == () and not recipe.range:
            self.bounds[value] = 4

    # The end.

    def store(self, value: Value) -> None:
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


def _shape(choices: Choices) -> tuple[int, ...]:
    """A tile of one to five dimensions, each of 1 to 64."""
    rank = choices.of((1, 2, 2, 3))
    powers = (8, 4, 16, 2, 64, 1, 32)
    shape = [choices.of(powers) for _ in range(rank)]
    if choices.below(3):  # a square can be transposed without its type showing it
        shape = [shape[0]] * rank
    elif rank == 3:
        divided = [part for n in shape for part in ((4, n // 4) if n > 8 else (n,))]
        shape = divided[:MAX_RANK]
    return fitting(shape, MOST_ELEMENTS // 4)
