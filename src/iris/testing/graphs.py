"""A graph in the making: a function of whole arrays, of a few shapes that go together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from math import prod

from iris.ir import graph, math
from iris.ir.control import Func, Return
from iris.ir.core import Facet, Level, Module, Op, Region, Value
from iris.ir.kinds import ReduceKind
from iris.ir.math import Predicate, element_type
from iris.ir.types import DTYPES, DType, ElementType, Tensor, Type, bf16, bool_, f16
from iris.testing.choices import Choices
from iris.testing.draft import Draft, Step, fitting, odd_numbers, special_array
from iris.tools.replay import ONE_PROGRAM, Array, Program

MOST_ELEMENTS = 512  # of most tensors,
MOST_OF_LARGE = 8192  # and of those of a program in which some are large
SIZES = (3, 2, 5, 4, 7, 8, 13)
LARGE_SIZES = (64, 33, 8, 100, 2, 17, 1000, 256, 2048)
MOST_AXES = 6
ALL_VALUES = 1000  # that a step sees
HALVES = (f16, bf16)

make_graph = Facet("random construction")


class GraphDraft(Draft):
    """Builds one function."""

    level = Level.GRAPH
    rules = make_graph
    deepest = 1
    moving = (graph.Broadcast, graph.Reshape, graph.Transpose, graph.Slice, graph.Gather)

    def __init__(
        self,
        steps: Sequence[Step],
        choices: Choices,
        dtypes: Sequence[DType],
        *,
        fast_math: bool = False,
        rounding: bool = False,
        portable: bool = False,
    ):
        super().__init__(steps, choices, dtypes, fast_math=fast_math, rounding=rounding)
        self.portable = portable
        self.dtypes = self.some_dtypes(choices)
        self.most = choices.of((MOST_ELEMENTS, MOST_ELEMENTS, MOST_ELEMENTS, MOST_OF_LARGE))
        some = SIZES if self.most == MOST_ELEMENTS else LARGE_SIZES
        self.sizes = [*[choices.of(some) for _ in range(3)], 1]
        self.reach = choices.of((ALL_VALUES, ALL_VALUES, 1, 3))
        self.shapes = [self._shape(choices) for _ in range(1 + choices.below(3))]
        self.outputs = choices.of((1, 24, 2, 24, 4, 24))
        self.seed = choices.below(256)
        self.inputs: list[Value] = []

    def _shape(self, choices: Choices) -> tuple[int, ...]:
        """A shape of any rank, of sizes that other shapes have, too."""
        rank = choices.of((2, 1, 3, 2, 4, 1, 2, 3, 5, 0, 6))
        shape = [choices.of(self.sizes) for _ in range(rank)]
        if choices.flag(3):  # axes can be confused without the type showing it
            shape = shape[:1] * rank
        shape = [*fitting(shape, self.most)]
        if shape and choices.flag(8):
            shape[choices.below(rank)] = 0
        return tuple(shape)

    def bound(self, op: Op) -> int | None:
        bounds = self.bounds
        if isinstance(op, graph.Pad | graph.Concat):
            known = [bounds.get(v) for v in op.operands]
            return None if None in known else max([k for k in known if k is not None])
        if isinstance(op, graph.Matmul):
            depth = element_type(op.a.type).shape[-1]
            return _total(bounds.get(op.a), _total(bounds.get(op.b), depth))
        if isinstance(op, graph.Reduce) and op.kind is ReduceKind.SUM:
            shape = element_type(op.x.type).shape
            return _total(bounds.get(op.x), prod([shape[axis] for axis in op.axes]))
        return super().bound(op)

    def step(self) -> None:
        """The next step.  In some programs it sees only the latest values: these get deeper."""
        hidden, self.visible = self.visible[: -self.reach], self.visible[-self.reach :]
        super().step()
        self.visible = [*hidden, *self.visible]

    @contextmanager
    def inside(self, region: Region) -> Iterator[None]:
        before = len(self.inputs)
        with super().inside(region):
            yield
        self.visible = [*self.inputs[before:], *self.visible]

    # Making values.

    def types(self, element: DType) -> list[ElementType]:
        shapes = [*self.shapes, (self.sizes[0],), ()]
        return [Tensor(shape, element) for shape in dict.fromkeys(shapes)]

    def leaf(self, type_: ElementType) -> Value:
        """An argument.  Some have special numbers; many of 16 bits have fractions, whose sums are
        rounded."""
        dtype, shape, style = type_.element, type_.shape, self.choices.below(6)
        if style > 3:
            return self.argument(special_array(dtype, shape, self.next_seed(), self.choices))
        if dtype in HALVES and style in (1, 2, 3):
            low = self.choices.of((-2.0, 0.0))
            return self.argument(Array(dtype, shape, self.next_seed(), (low, 2.0)))
        return self.argument(self.filled(dtype, shape, self.choices))

    def next_seed(self) -> int:
        self.seed += 1
        return self.seed

    def argument(self, recipe: Array) -> Value:
        """An argument, filled in some way."""
        type_ = Tensor(recipe.shape, recipe.dtype)
        self.recipes.append(recipe)
        value = self.func.body.add_argument(type_, f"x{len(self.inputs)}")
        if type_.element.is_float and _is_small(recipe):
            self.bounds[value] = 4
        self.inputs.append(value)
        self.visible.insert(0, value)
        return value

    def some(
        self,
        dtypes: Collection[DType],
        choices: Choices,
        fits: Callable[[ElementType], bool] = lambda type_: True,
    ) -> Value:
        """Seldom one that is uniform along axes, which a kernel computes once for each."""
        value = super().some(dtypes, choices, fits)
        type_ = element_type(value.type)
        return self.uniform(type_, choices) if choices.flag(8) else value

    def like(self, type_: Type, choices: Choices, *, besides: Value | None = None) -> Value:
        """At times one that is uniform along axes."""
        if choices.flag(5):
            return self.uniform(element_type(type_), choices)
        return super().like(type_, choices, besides=besides)

    def uniform(self, type_: ElementType, choices: Choices) -> Value:
        """A tensor whose elements are equal along some axes: a number throughout, an iota, or the
        broadcast of an argument."""
        axes = range(len(type_.shape))
        style = choices.below(3)
        if not axes or style == 0:
            return self.put(math.Constant(choices.of(odd_numbers(type_.element)), type_))
        if style == 1 and type_.element is not bool_:
            return self.put(graph.Iota(choices.below(len(axes)), type_))
        kept = {choices.below(len(axes)) for _ in range(choices.below(len(axes)))}
        one = tuple([type_.shape[axis] if axis in kept else 1 for axis in axes])
        return self.put(graph.Broadcast(self.leaf(Tensor(one, type_.element)), type_))

    def condition(self, type_: ElementType, choices: Choices) -> Value:
        return self.like(type_.with_element(bool_), choices)

    def divide(self, cls: type[math.Binary], choices: Choices) -> None:
        """By an argument without zeros; or by 1 where the divisor is zero."""
        x = self.some([d for d in DTYPES.values() if d.is_integer], choices)
        type_ = element_type(x.type)
        if choices.flag():
            divisors = Array(type_.element, type_.shape, self.next_seed(), (1, 7))
            self.add(cls(x, self.argument(divisors)))
            return
        divisor = self.other(x, choices)
        is_zero = self.put(math.Compare(Predicate.EQ, divisor, self.constant(0, type_)))
        self.add(cls(x, self.put(math.Select(is_zero, self.constant(1, type_), divisor))))

    # The end.

    def finish(self) -> Program:
        """What has not been used is returned, the latest first, and not too much of it; as often
        as not something that has been used, too."""
        while self.steps:
            self.step()
        unused = [v for v in self.visible if not v.users]
        returned = unused[: -self.outputs - 1 : -1]
        if self.visible and self.choices.flag():
            returned.append(self.choices.of(self.visible))
        if self.choices.flag():
            returned = [self._flat(v) if self.choices.flag() else v for v in returned]
        self.builder.insert(Return(returned))
        level, symbol, _, *others = self.func.attributes
        types = tuple([v.type for v in returned])
        function = Func.create((), (level, symbol, types, *others), (), self.func.regions)
        return Program(Module([function]), function.symbol, ONE_PROGRAM, tuple(self.recipes))

    def _flat(self, value: Value) -> Value:
        """In one row, which lies in memory as it was."""
        type_ = element_type(value.type)
        return self.put(graph.Reshape(value, Tensor((prod(type_.shape),), type_.element)))


def _total(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one * other


def _is_small(recipe: Array) -> bool:
    """Whether it is made of small whole numbers."""
    return not recipe.data and recipe.range is None
