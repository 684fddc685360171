"""Tile programs that update elements in place, each by several lanes: what one lane loads, none may
have stored since.

    agree(program)

Lanes share elements whose offsets are remainders, quotients or broadcast, or multiples of a number
that may be 0.  They store the same there, for it follows from the offset and from what was loaded.
"""

from __future__ import annotations

from math import prod

from hypothesis import strategies as st

from iris.ir import math, tile
from iris.ir.builder import Builder
from iris.ir.control import For, Func, Return, Yield
from iris.ir.core import Level, Module, Value
from iris.ir.literal import encode
from iris.ir.math import Predicate
from iris.ir.types import Ptr, Tile, i32
from iris.testing.choices import Choices
from iris.tools.replay import ONE_PROGRAM, Array, Program, Recipe, Scalar

BYTES = 48
_SHAPES = ((256,), (32, 8), (64,), (4, 64), (512,), (16, 16))
_FEW = (2, 1, 3, 8, 32, 64, 7, 128)
_STRIDES = (0, 1, 2, 8)


def programs() -> st.SearchStrategy[Program]:
    """Programs of a few updates, at times in a loop."""
    return st.binary(min_size=BYTES, max_size=BYTES).map(lambda data: _Draft(Choices(data)).made())


class _Draft:
    def __init__(self, choices: Choices):
        self.choices = choices
        self.function = Func("updates", Level.TILE)
        self.b = Builder(self.function.body)
        self.recipes: list[Recipe] = []
        self.shape = choices.of(_SHAPES)
        self.size = 1 + (prod(self.shape) - 1) * max(_STRIDES)
        self.recipes.append(Array(i32, (self.size,), 1))
        self.array = self.function.body.add_argument(Ptr(i32, aligned=True), "X")

    def made(self) -> Program:
        choices = self.choices
        offsets = [self.offset() for _ in range(choices.of((1, 2)))]
        mask = self.mask() if choices.flag(4) else None
        for _ in range(choices.of((1, 2, 3))):
            offset = choices.of(offsets)
            if choices.flag(3):
                bounds = [self.b(math.Constant(n, i32)) for n in (0, choices.of((2, 3)), 1)]
                loop = self.b.insert(For(*bounds))
                with self.b.inside(loop.body):
                    self.update(offset, mask, loop.body.arguments[0])
                    self.b.insert(Yield([]))
            else:
                self.update(offset, mask, self.b(math.Constant(choices.below(4), i32)))
        self.b.insert(Return())
        module = Module([self.function])
        return Program(module, self.function.symbol, ONE_PROGRAM, tuple(self.recipes))

    def update(self, offset: Value, mask: Value | None, number: Value) -> None:
        """Store what a sum or a product makes of the element that is there."""
        other = None if mask is None else self.constant(0)
        old = self.b(tile.Load(self.array, offset, mask, other))
        further = self.b(math.Add(offset, self.spread(number)))
        if self.choices.flag():
            old = self.b(math.Mul(old, self.constant(3)))
        new = self.b(math.Add(old, further))
        self.b.insert(tile.Store(self.array, offset, new, mask))

    def offset(self) -> Value:
        """An offset for each lane; several lanes have the same."""
        choices, number = self.choices, self.lanes()
        if len(self.shape) > 1:
            axis = choices.below(2)
            number = self.along(axis)
            if choices.flag():
                return self.b(math.Add(self.few(number), self.few(self.along(1 - axis))))
        return self.few(number)

    def few(self, number: Value) -> Value:
        """What arithmetic makes of numbers: fewer, by constants or by a number not known."""
        choices = self.choices
        style = choices.below(4)
        if style == 3:
            stride = choices.of(_STRIDES[:3])
            self.recipes.append(Scalar(i32, encode(stride, i32)))
            name = f"stride{len(self.recipes)}"
            return self.b(math.Mul(number, self.spread(self.function.body.add_argument(i32, name))))
        cls = (math.Mod, math.FloorDiv, math.Mod)[style]
        return self.b(cls(number, self.constant(choices.of(_FEW))))

    def mask(self) -> Value:
        """Some of the lanes."""
        limit = self.constant(self.choices.of((1, 5, 48, prod(self.shape) - 1)))
        return self.b(math.Compare(Predicate.LT, self.lanes(), limit))

    def lanes(self) -> Value:
        """The number of each lane."""
        size = prod(self.shape)
        number = self.b(tile.Arange(0, result=Tile((size,), i32)))
        return (
            number if len(self.shape) == 1 else self.b(tile.Reshape(number, Tile(self.shape, i32)))
        )

    def along(self, axis: int) -> Value:
        """The index along an axis, the same for all lanes along the other."""
        index = self.b(tile.Arange(0, result=Tile((self.shape[axis],), i32)))
        index = self.b(tile.ExpandDims(1 - axis, index))
        return self.b(tile.Broadcast(index, Tile(self.shape, i32)))

    def constant(self, number: int) -> Value:
        return self.b(math.Constant(number, Tile(self.shape, i32)))

    def spread(self, number: Value) -> Value:
        return self.b(tile.Broadcast(number, Tile(self.shape, i32)))
