"""A program in the making: what has been built, and what can be seen from here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from math import inf, nan, prod
from random import Random
from typing import ClassVar

from iris.ir import math
from iris.ir.builder import Builder
from iris.ir.control import Func, Return
from iris.ir.core import Facet, Level, Location, Module, Op, Region, Value
from iris.ir.literal import Number, encode
from iris.ir.math import element_type
from iris.ir.types import DTYPES, DType, ElementType, Type, bool_, f16, f32, i32
from iris.testing.choices import Choices
from iris.tools.replay import Array, Grid, Program, Recipe, default_range

# How each op is made, from choices: `def maker(op_class, draft, choices)`.
make = Facet("random construction")

# Floats are exact as long as they are integers of no more bits than these.
_EXACT = {f32: 2**24, f16: 2**11, DTYPES["bf16"]: 2**8}

MOST_ARRAYS = 29  # that a kernel takes beside its scalars and what it reports

# Where steps come from, mostly from nowhere: in files whose names have what texts set apart.
_FILES = ("a.py", 'a "new" one.py', "C:\\new\\1.py", "\n\u00fc,.py", "%x = at")
PLACES = (*[None] * 11, *[Location(file, 1) for file in _FILES])

Step = tuple["type[Op] | None", bytes]
Bounds = dict[Value, int]


class Draft:
    """Builds one function, step after step.

    `visible` are the values that steps may use, the latest last.  What a step makes on the way
    is not among them, so that programs are made of what steps are for.
    """

    level: ClassVar[Level]
    rules: ClassVar[Facet]  # how ops are made at this level, where that is not as at any
    deepest: ClassVar[int]  # how many regions are in one another
    # Floats that an op of the level gives are no greater than those that it is given first.
    moving: ClassVar[tuple[type[Op], ...]]
    dtypes: tuple[DType, ...]  # those that this program is mostly of

    def __init__(
        self,
        steps: Sequence[Step],
        choices: Choices,
        dtypes: Sequence[DType],
        *,
        fast_math: bool = False,
        rounding: bool = False,
    ):
        self.steps = list(steps)[::-1]
        self.func = Func("program", self.level, fast_math=fast_math)
        self.builder = Builder(self.func.body)
        self.visible: list[Value] = []
        self.memo: dict[object, Value] = {}
        self.recipes: list[Recipe] = []
        self.bounds: Bounds = {}
        self.rounding = rounding  # whether sums of floats may be rounded
        self.depth = 0
        self.choices = choices
        self.all_dtypes = tuple(dtypes)
        self.seed = 0
        self.avoided: tuple[type[Op], ...] = ()  # ops that nothing is made by
        self.nests = True  # whether operands may be made by ops that nobody asked for

    def types(self, element: DType) -> list[ElementType]:
        """The types that values of a dtype mostly have, the simplest first."""
        raise NotImplementedError

    def leaf(self, type_: ElementType) -> Value:
        """A value made of nothing that is there."""
        raise NotImplementedError

    def condition(self, type_: ElementType, choices: Choices) -> Value:
        """What selects between values of a type."""
        raise NotImplementedError

    def divide(self, cls: type[math.Binary], choices: Choices) -> None:
        """A division of integers that is right because of what is asked before."""
        raise NotImplementedError

    def finish(self) -> Program:
        """The program, made of the steps that are left and what follows of them."""
        raise NotImplementedError

    def some_dtypes(self, choices: Choices) -> tuple[DType, ...]:
        # There are fewer floats, but more is done with them.
        weighted = [d for d in self.all_dtypes for _ in range(3 if d.is_float else 1)]
        return tuple([choices.of(weighted) for _ in range(1 + choices.below(4))])

    # Putting ops in place.

    def put(self, op: Op) -> Value:
        """An op of one result that is not for others to use."""
        value = self.builder(op)
        self.note(op)
        return value

    def add(self, op: Op) -> None:
        """An op whose results are there to be used."""
        self.builder.insert(op)
        self.note(op)
        self.visible.extend(op.results)

    def add_built(self, op: Op) -> None:
        """An op in place already, with what it has in it: its results are there to be used."""
        op.detach()
        self.add(op)

    def note(self, op: Op) -> None:
        """Notes what is known of what an op gives."""
        if len(op.results) != 1 or not element_type(op.results[0].type).element.is_float:
            return
        bound = self.bound(op)
        if bound is not None and bound <= _EXACT[element_type(op.results[0].type).element]:
            self.bounds[op.results[0]] = bound

    def bound(self, op: Op) -> int | None:
        """How great a result can be that is a float but has an integer's value."""
        if isinstance(op, self.moving):
            return self.bounds.get(op.operands[0])
        return _bound(op, self.bounds)

    def step(self) -> None:
        """The next step, if there is one left."""
        if not self.steps:
            return
        cls, data = self.steps.pop()
        if cls is None or (self.depth >= self.deepest and cls.spec.regions):
            return
        choices = Choices(data)
        # Not a choice, so that the text alone is another.
        self.builder.location = PLACES[data[-1] % len(PLACES)] if data else None
        # The same again, which may or may not be merged with what is there.
        known = [v.op for v in self.visible if v.op is not None and type(v.op) is cls]
        if known and not cls.spec.regions and choices.flag(4):
            self.add(known[-1 - choices.below(len(known))].clone({}))
        else:
            rule = self.rules.get(cls) or make[cls]
            rule(cls, self, choices)

    @contextmanager
    def inside(self, region: Region) -> Iterator[None]:
        """Build in a region, the values of which are not seen after it."""
        saved = self.visible, self.memo
        self.visible = [*self.visible, *region.arguments]
        self.memo = dict(self.memo)
        self.depth += 1
        with self.builder.inside(region):
            yield
        self.depth -= 1
        self.visible, self.memo = saved

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

    def like(self, type_: Type, choices: Choices, *, besides: Value | None = None) -> Value:
        """A value of a type."""
        value = self.find(lambda t: t is type_, choices, besides=besides)
        return self.leaf(element_type(type_)) if value is None else value

    def other(self, value: Value, choices: Choices) -> Value:
        """A value of the type of another, or a number: seldom the same value, of which too much is
        no news, like a difference of 0."""
        style = choices.below(8)
        if style == 7:
            return value
        if style in (3, 5):
            type_ = element_type(value.type)
            return self.constant(special_number(type_.element, choices), type_)
        return self.like(value.type, choices, besides=value)

    def some_shaped(self, dtypes: Collection[DType], choices: Choices) -> Value:
        """A value of one of some dtypes that has axes."""
        return self.some(dtypes, choices, lambda t: bool(t.shape))

    # Making values.

    def constant(self, number: Number, type_: ElementType) -> Value:
        """A constant, made once in a region."""
        key = (type_, repr(number))
        if key not in self.memo:
            self.memo[key] = self.put(math.Constant(number, type_))
        return self.memo[key]

    def wrapped(self, value: Value, count: int) -> Value:
        """Any integers made into ones from 0 up to a power of two."""
        return self.put(math.And(value, self.constant(count - 1, element_type(value.type))))

    def clamped(self, value: Value, low: int, high: int) -> Value:
        """Numbers made into ones between two bounds; nan becomes one of them."""
        type_ = element_type(value.type)
        value = self.put(math.MaxNum(value, self.constant(low, type_)))
        return self.put(math.MinNum(value, self.constant(high, type_)))

    def exact(self, value: Value, most: int, needed: int) -> Value:
        """Floats made into integers so small that they may be added up in any order: the value
        itself if it is known to be no greater than `needed`, else cut to `most`.  With `rounding`,
        the value as it is."""
        type_ = element_type(value.type)
        is_exact = not type_.element.is_float or self.bounds.get(value, inf) <= needed
        if self.rounding or is_exact:
            return value
        value = self.clamped(self.put(math.Round(value)), -most, most)
        self.bounds[value] = most
        return value

    def filled(self, dtype: DType, shape: tuple[int, ...], choices: Choices) -> Array:
        """An array of some numbers or others."""
        self.seed += 1
        style = choices.of((0, 1, 2, 0, 1, 3, 4))
        if style == 2:
            return special_array(dtype, shape, self.seed, choices)
        if style > 2:
            data: list[Number] = [choices.of(odd_numbers(dtype))]  # all alike
            if style == 4:  # one among many
                least, most = default_range(dtype)
                data = [*[*range(least, most + 1)] * 5, *data]
            return Array(dtype, shape, data=tuple([encode(n, dtype) for n in data]))
        if dtype.is_float and (style == 1 or self.rounding):
            low = choices.of((0.0, -2.0))
            return Array(dtype, shape, self.seed, (low, 2.0))
        if style == 1 and dtype.is_integer:
            return Array(dtype, shape, self.seed, (dtype.low, dtype.high))
        return Array(dtype, shape, self.seed)


class KernelDraft(Draft):
    """Builds a kernel, which writes what it makes to arrays."""

    grid: Grid
    outputs: int  # how many values that nothing uses are stored at the end

    @property
    def arrays(self) -> int:
        """How many array arguments there are."""
        return sum(isinstance(recipe, Array) for recipe in self.recipes)

    @property
    def spare_arrays(self) -> int:
        """How many more there may be."""
        return max(MOST_ARRAYS - self.arrays, 0)

    def store(self, value: Value) -> None:
        """Store a value in an array of its own."""
        raise NotImplementedError

    def finish(self) -> Program:
        """Whatever has not been used is stored, the latest first, and not too much of it."""
        while self.steps:
            self.step()
        unused = [v for v in self.visible if not v.users]
        count = min(self.outputs, self.spare_arrays)
        for value in unused[: -count - 1 : -1]:
            self.store(value)
        self.builder.insert(Return([]))
        return Program(Module([self.func]), "program", self.grid, tuple(self.recipes))


def fitting(shape: Sequence[int], most: int) -> tuple[int, ...]:
    """A shape, made smaller if it has too many elements."""
    sizes = list(shape)
    while prod(sizes) > most:
        sizes[sizes.index(max(sizes))] //= 2
    return tuple(sizes)


def odd_numbers(dtype: DType) -> list[Number]:
    """Numbers at which things go wrong."""
    if dtype is bool_:
        return [True, False, False]
    if dtype.is_float:
        return [0.0, -0.0, 1.0, inf, -2.5, nan, -inf, 0.5, -1.0, 3.0]
    return [0, 1, dtype.high, dtype.low, 2, dtype.high - 1, 7]


def special_numbers(dtype: DType) -> list[Number]:
    """Numbers that folds and simplifications know, and those next to them."""
    if dtype is bool_:
        return [True, False]
    if dtype.is_float:
        powers = [0.5, 2.0, 4.0, 0.25, -2.0, 2.0**-14]
        return [1.0, 0.0, -1.0, -0.0, *powers, 0.1, 3.0, inf, -inf, nan, 0.7]
    limits = [dtype.high, dtype.low, dtype.high - 1, dtype.low + 1]
    powers = [2, 4, 8, 16, 1 << dtype.bits - 2]
    return [1, 0, *([-1, -2] if dtype.is_signed else []), *powers, 3, 7, *limits]


def special_number(dtype: DType, choices: Choices) -> Number:
    """One of them, as often as not of the first few."""
    numbers = special_numbers(dtype)
    return choices.of(numbers[:4] if choices.flag() else numbers)


PERIOD = 61  # elements, after which special numbers come again: a prime, which divides no block


def special_array(dtype: DType, shape: tuple[int, ...], seed: int, choices: Choices) -> Array:
    """An array of numbers at which things go wrong, at times of few of them.  They are in an order
    of their own, so that equal ones are at all distances."""
    numbers = odd_numbers(dtype) if choices.flag() else special_numbers(dtype)
    if choices.flag():
        numbers = [choices.of(numbers) for _ in range(1 + choices.below(3))]
    order = Random(seed).choices(range(len(numbers)), k=min(PERIOD, max(1, prod(shape))))
    return Array(dtype, shape, data=tuple([encode(numbers[n], dtype) for n in order]))


_SAME_BOUND = (math.Neg, math.Abs, math.Floor, math.Ceil, math.Round)
_EITHER = (math.MaxNum, math.MinNum, math.Maximum, math.Minimum)


def _bound(op: Op, bounds: Bounds) -> int | None:
    if isinstance(op, math.Constant):
        number = float(op.value)
        return int(abs(number)) if number.is_integer() else None
    known = [bounds.get(v) for v in op.operands]
    if None in known or not known:
        return None
    of = [k for k in known if k is not None]
    if isinstance(op, _SAME_BOUND):
        return of[0]
    if isinstance(op, _EITHER):
        return max(of)
    if isinstance(op, math.Add | math.Sub):
        return of[0] + of[1]
    if isinstance(op, math.Mul):
        return of[0] * of[1]
    return None
