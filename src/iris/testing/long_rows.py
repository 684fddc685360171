"""Programs of one long row: a core of a GPU has registers for only one of them.

    agree(program, simdgroups=[SIMDGROUPS], pipeline=METAL_PIPELINE.on(H200))

They reduce the row, and compute with its elements and with those that were loaded.  All are small
whole numbers, so that sums are exact in any order.
"""

from __future__ import annotations

from hypothesis import strategies as st

from iris.ir import math, tile
from iris.ir.builder import Builder
from iris.ir.control import Func, Return
from iris.ir.core import Level, Module, Value
from iris.ir.kinds import ReduceKind
from iris.ir.literal import encode
from iris.ir.math import Constant, Predicate, element_type
from iris.ir.types import Ptr, Tile, f16, f32, i32
from iris.testing.choices import Choices
from iris.tools.replay import Array, Program

BYTES = 24
LENGTH = 32768
SIMDGROUPS = 16
_NUMBERS = (1, -3, 2, 0, 3, -1, -2)


def programs() -> st.SearchStrategy[Program]:
    return st.binary(min_size=BYTES, max_size=BYTES).map(lambda data: made(Choices(data)))


def made(choices: Choices) -> Program:
    """A program that some bytes choose."""
    dtype = choices.of((f32, f32, i32, f16))
    # Masks take registers, too, and most programs with some are left alone.
    length = choices.of((LENGTH, LENGTH, LENGTH, LENGTH, LENGTH - 2768, LENGTH - 12767))
    pointer = Ptr(dtype, noalias=True, aligned=True)
    function = Func("program", Level.TILE, [("X", pointer), ("Y", pointer)])
    draft = _Draft(function, length, choices)
    x = draft.loaded
    steps = draft.less_most, draft.less_most, draft.with_first, draft.beside_sum, draft.moved
    for _ in range(1 + choices.below(3)):
        x = choices.of(steps)(x)
    draft.store(x)
    data = tuple([encode(number, dtype) for number in _NUMBERS])
    arrays = Array(dtype, (length,), data=data), Array(dtype, (length,))
    return Program(Module([function]), "program", (1, 1, 1), arrays)


class _Draft:
    def __init__(self, function: Func, length: int, choices: Choices):
        self.choices = choices
        self.b = Builder(function.body)
        self.x, self.y = function.body.arguments
        self.at = self.b(tile.Arange(0, Tile((LENGTH,), i32)))
        self.inside = None
        if length < LENGTH:
            end = self.b(Constant(length, Tile((LENGTH,), i32)))
            self.inside = self.b(math.Compare(Predicate.LT, self.at, end))
        dtype = self.x.type.element
        if self.inside is None:
            loaded = self.b(tile.Load(self.x, self.at))
        else:
            loaded = self.b(tile.MaskedLoad(self.x, self.at, self.inside))
        is_wide = dtype.bits == 32
        self.loaded = loaded if is_wide else self.b(math.Cast(loaded, Tile((LENGTH,), f32)))

    def number(self, value: int) -> Value:
        return self.b(Constant(value, element_type(self.loaded.type)))

    def reduced(self, kind: ReduceKind, x: Value) -> Value:
        found = self.b(tile.Reduce(kind, 0, x))
        return self.b(tile.Broadcast(found, element_type(x.type)))

    def less_most(self, x: Value) -> Value:
        return self.b(math.Sub(x, self.reduced(ReduceKind.MAXIMUM, x)))

    def beside_sum(self, x: Value) -> Value:
        """Choose by whether an element is less than the sum of all."""
        is_less = self.b(math.Compare(Predicate.LT, x, self.reduced(ReduceKind.SUM, x)))
        both = self.b(math.Add(x, self.number(1))), self.b(math.Sub(x, self.number(2)))
        return self.b(math.Select(is_less, *both))

    def with_first(self, x: Value) -> Value:
        return self.b(math.Add(x, self.loaded))

    def moved(self, x: Value) -> Value:
        """Elements at other indices of the row."""
        return self.b(tile.Flip(0, x)) if self.choices.flag(4) else self.b(math.Neg(x))

    def store(self, x: Value) -> None:
        dtype = self.y.type.element
        if x.type.element is not dtype:
            x = self.b(math.Cast(x, Tile((LENGTH,), dtype)))
        self.b.insert(tile.Store(self.y, self.at, x, self.inside))
        self.b.insert(Return([]))
