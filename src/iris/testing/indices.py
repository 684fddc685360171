"""Small programs that read or write where some arithmetic says: for what a pass concludes of
offsets and masks, such as how many elements may be accessed at once.

    agree(program, pipeline=INDEXED)

What indices are is known while a program is made, so that it accesses no other elements than there
are, and writes none twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from iris.ir import math, tile
from iris.ir.builder import Builder
from iris.ir.control import For, Func, Return, Yield
from iris.ir.core import Level, Module, Value
from iris.ir.literal import encode
from iris.ir.math import Predicate, element_type
from iris.ir.types import DTYPES, Ptr, Tile, f16, f32, i32, i64
from iris.testing.choices import Choices
from iris.testing.layouts import LAID_OUT
from iris.tools.replay import ONE_PROGRAM, Array, Program, Recipe, Scalar

INDEXED = f"assign-layouts,{LAID_OUT}"
BYTES = 120
MOST = 4096  # of an array
_DTYPES = (f32, f16, i32, DTYPES["i8"])
_SHAPES = (
    (128,),
    (8, 32),
    (256,),
    (16, 16),
    (512,),
    (4, 64),
    (2, 4, 32),
    (1, 128),
    (64, 4),
    (4, 2, 16),
)
_NUMBERS = (4, 8, 2, 16, 1, 32, 64, 12, 0, -4, 3, 8, -8, 128, 6, 20)
_STARTS = (0, -8, 8, -4, 0, 3, 16)


class _Index(NamedTuple):
    """A value, and what it is in each round of the loop around it."""

    value: Value
    numbers: npt.NDArray[Any]  # the first axis is of rounds


_NUMPY: dict[type[math.Binary], Callable[..., Any]] = {
    math.Add: np.add,
    math.Sub: np.subtract,
    math.Mul: np.multiply,
    math.FloorDiv: np.floor_divide,
    math.Mod: np.mod,
    math.Shr: np.right_shift,
    math.Shl: np.left_shift,
    math.And: np.bitwise_and,
    math.Or: np.bitwise_or,
    math.Xor: np.bitwise_xor,
    math.Minimum: np.minimum,
    math.Maximum: np.maximum,
}
_COMPARED: dict[Predicate, Callable[..., Any]] = {
    Predicate.LT: np.less,
    Predicate.GE: np.greater_equal,
    Predicate.LE: np.less_equal,
    Predicate.GT: np.greater,
    Predicate.EQ: np.equal,
    Predicate.NE: np.not_equal,
}
_PREDICATES = (Predicate.LT, Predicate.GE, Predicate.LT, *_COMPARED, Predicate.GE)
_SHIFTS = (math.Shr, math.Shl)
_POSITIVE = (math.FloorDiv, math.Mod, *_SHIFTS)  # by what is known, mostly a power of two


def programs() -> st.SearchStrategy[Program]:
    """Programs that read or write tiles, or blocks, once or in each round of a loop."""
    return st.binary(min_size=BYTES, max_size=BYTES).map(lambda data: _Draft(Choices(data)).made())


class _Draft:
    def __init__(self, choices: Choices):
        self.choices = choices
        self.function = Func("indexed", Level.TILE, simdgroups=choices.of((1, 1, 1, 1, 1, 2)))
        self.b = Builder(self.function.body)
        self.recipes: list[Recipe] = []
        self.shape = choices.of(_SHAPES)
        self.dtype = choices.of(_DTYPES)
        self.known: list[_Index] = []  # scalars

    def made(self) -> Program:
        choices = self.choices
        style = choices.below(6)
        access = self.block if style in (1, 4) else self.access
        if style > 3:
            self.in_loop(access)
        else:
            found = access(1)
            if found is not None:
                self.store(found)
        self.b.insert(Return())
        return Program(
            Module([self.function]), self.function.symbol, ONE_PROGRAM, tuple(self.recipes)
        )

    def in_loop(self, access: Callable[[int], Value | None]) -> None:
        """A loop that carries a start and combines the blocks it reads."""
        rounds = self.choices.of((2, 3))
        steps = np.arange(rounds)
        lower, step = self.choices.of(((0, 1), (0, 8), (-8, 8), (0, 4), (8, -4), (0, 16), (3, 16)))
        first, further = self.choices.of(_STARTS), self.choices.of(_NUMBERS)
        nothing = self.b(math.Constant(0, Tile(self.shape, self.dtype)))
        bounds = [self.number(n).value for n in (lower, lower + rounds * step)]
        by = self.b(math.Constant(step, i32))
        loop = For(*bounds, by, [nothing, self.number(first).value])
        self.b.insert(loop)
        index, total, start = loop.body.arguments
        self.known = [
            _Index(start, first + further * steps),
            _Index(index, lower + step * steps),
        ]
        with self.b.inside(loop.body):
            found = access(rounds)
            more = total if found is None else self.b(math.Maximum(total, found))
            following = self.b(math.Add(start, self.b(math.Constant(further, i32))))
            self.b.insert(Yield([more, following]))
        self.known = []
        self.store(loop.results[0])

    def argument(self, recipe: Array) -> Value:
        """An array, most often aligned."""
        self.recipes.append(recipe)
        type_ = Ptr(recipe.dtype, noalias=self.choices.flag(), aligned=not self.choices.flag(6))
        return self.function.body.add_argument(type_, f"array{len(self.recipes)}")

    def store(self, value: Value) -> None:
        """All elements of a tile."""
        count = prod(self.shape)
        lanes = self.b(tile.Arange(0, Tile((count,), i32)))
        if len(self.shape) > 1:
            lanes = self.b(tile.Reshape(lanes, Tile(self.shape, i32)))
        to = self.argument(Array(element_type(value.type).element, (count,)))
        self.b.insert(tile.Store(to, lanes, value))

    # Scalars.

    def number(self, number: int) -> _Index:
        """A constant, or a parameter with a divisor that may be known."""
        style = self.choices.of((0, 0, 0, 1, 2))
        if not style:
            return _Index(self.b(math.Constant(number, i32)), np.array([number]))
        self.recipes.append(Scalar(i32, encode(number, i32)))
        value = self.function.body.add_argument(i32, f"size{len(self.recipes)}")
        power = number & -number if number else 16
        if style == 2 and power > 1:
            value = self.b(math.AssumeDivisible(min(power, 16), value))
        return _Index(value, np.array([number]))

    def scalar(self, numbers: Sequence[int] = _NUMBERS) -> _Index:
        """A number: new, carried, or computed from two."""
        choices = self.choices
        is_known = self.known and choices.flag()
        found = choices.of(self.known) if is_known else self.number(choices.of(numbers))
        if not choices.flag():
            return found
        cls = choices.of(list(_NUMPY))
        if cls in _SHIFTS:
            other = choices.of((1, 2, 3, 0))
        elif cls in _POSITIVE:
            other = choices.of((4, 6, 2, 8, 12, 10))
        else:
            other = choices.of((4, 8, 16, -4, 2, 12, 1, -8, 3))
        return self.combined(cls, found, self.number(other))

    # Tiles.

    def combined(self, cls: type[math.Binary], x: _Index, y: _Index) -> _Index:
        return _Index(self.b(cls(x.value, y.value)), _NUMPY[cls](x.numbers, y.numbers))

    def spread(self, x: _Index, shape: tuple[int, ...]) -> _Index:
        numbers = x.numbers.reshape(-1, *[1] * len(shape))
        value = self.b(tile.Broadcast(x.value, Tile(shape, i32)))
        return _Index(value, np.broadcast_to(numbers, (len(numbers), *shape)))

    def constant(self, number: int, shape: tuple[int, ...]) -> _Index:
        value = self.b(math.Constant(number, Tile(shape, i32)))
        return _Index(value, np.full((1, *shape), number))

    def lanes(self, shape: tuple[int, ...]) -> _Index:
        """Numbers from somewhere on: in order, in columns, or a multiple for each row."""
        style = self.choices.of((0, 1, 1, 2, 3, 0))
        count, start = prod(shape), self.choices.of((0, 0, 0, 4, 8, 1, -4, 16))
        if len(shape) > 1 and style == 1:
            return self.by_rows(shape)
        if len(shape) > 1 and style == 2:
            order = self.choices.of(list(permutations(range(len(shape))))[1:])
            turned = self.lanes(tuple([shape[order.index(a)] for a in range(len(shape))]))
            value = self.b(tile.Transpose(order, turned.value))
            return _Index(value, turned.numbers.transpose(0, *[a + 1 for a in order]))
        line = _Index(
            self.b(tile.Arange(start, Tile((count,), i32))), start + np.arange(count)[None]
        )
        if style == 3:
            line = self.changed(line)
        return self.reshaped(line, shape) if len(shape) > 1 else line

    def reshaped(self, x: _Index, shape: tuple[int, ...]) -> _Index:
        value = self.b(tile.Reshape(x.value, Tile(shape, i32)))
        return _Index(value, x.numbers.reshape(-1, *shape))

    def by_rows(self, shape: tuple[int, ...]) -> _Index:
        """A sum of numbers along each axis, as people write it."""
        total: _Index | None = None
        for axis, size in enumerate(shape):
            line = self.lanes((size,))
            far = axis + 1 < len(shape) if self.choices.below(4) else axis > 0
            style = self.choices.below(5) if far else self.choices.of((5, 5, 4))
            if style < 3:
                pitches = (prod(shape[axis + 1 :]), 64, 16, 33, 36, 6)
                pitch = self.spread(self.number(self.choices.of(pitches)), (size,))
                line = self.combined(math.Mul, line, pitch)
            elif style == 3:
                by = self.constant(self.choices.of((5, 1, 2, 6)), (size,))
                line = self.combined(math.Shl, line, by)
            elif style == 4:
                line = self.changed(line)
            line = self.broadcast(line, axis, shape)
            total = line if total is None else self.combined(math.Add, total, line)
        assert total is not None
        return total

    def changed(self, x: _Index) -> _Index:
        """What some arithmetic makes of numbers."""
        choices, shape = self.choices, element_type(x.value.type).shape
        style = choices.of((0, 1, 2, 0, 3, 4, 5, 6, 7, 1, 2, 0))
        if style == 0:
            return self.combined(math.Add, x, self.spread(self.scalar(), shape))
        if style == 1:
            return self.in_rows(x)
        if style == 2:
            is_split = choices.flag()
            gap = choices.of((64, 8, 32, 16) if is_split else (1, 64, 2, 8, 6, 3, 4))
            moved = self.combined(math.Add, x, self.constant(gap, shape))
            found = self.chosen(self.mask(x), x, moved)
            return self.in_rows(found) if is_split else found
        if style == 3:
            pair = self.spread(self.scalar(), shape), x
            return self.combined(math.Sub, *pair[:: choices.of((1, -1))])
        if style == 4 and abs(x.numbers).max() < 2**15:
            wide = self.b(math.Cast(x.value, Tile(shape, choices.of((i64, DTYPES["i16"])))))
            return _Index(self.b(math.Cast(wide, Tile(shape, i32))), x.numbers)
        if style == 5:  # one of two for all
            scalar = self.combined(math.And, self.scalar(), self.number(8))
            zero = self.b(math.Constant(0, i32))
            value = self.b(math.Compare(Predicate.EQ, scalar.value, zero))
            other = self.combined(math.Add, x, self.spread(self.scalar(), shape))
            numbers = (scalar.numbers == 0).reshape(-1, *[1] * len(shape))
            return self.chosen(_Index(value, numbers), x, other)
        if style == 6 and len(shape) > 1:
            return self.reshaped(self.changed(self.reshaped(x, (prod(shape),))), shape)
        cls = choices.of(list(_NUMPY))
        number = choices.of((4, 8, 2, 16, 12, 3) if cls in _POSITIVE else _NUMBERS)
        if cls in _SHIFTS:
            number = number.bit_length() - 1
        if cls in _POSITIVE or choices.flag():
            return self.combined(cls, x, self.constant(number, shape))
        return self.combined(cls, x, self.spread(self.scalar(), shape))

    def in_rows(self, x: _Index) -> _Index:
        """Rows of a few, with room between them, or one number for each."""
        choices, shape = self.choices, element_type(x.value.type).shape
        few = choices.of((4, 8, 16, 2, 12))
        row = self.combined(math.FloorDiv, x, self.constant(few, shape))
        pitch = choices.of((2 * few, 3, few, few + 1, 5))
        row = self.combined(math.Mul, row, self.constant(pitch, shape))
        if choices.flag(3):
            return row
        rest = x
        if choices.flag():
            rest = self.combined(math.Mod, x, self.constant(few, shape))
        return self.combined(math.Add, row, rest)

    def chosen(self, there: _Index, x: _Index, y: _Index) -> _Index:
        value = self.b(math.Select(there.value, x.value, y.value))
        return _Index(value, np.where(there.numbers, x.numbers, y.numbers))

    def mask(self, x: _Index) -> _Index:
        """Which numbers compare so with one, that is theirs or that of their places."""
        choices, shape = self.choices, element_type(x.value.type).shape
        if len(shape) > 1 and choices.flag():
            return self.mask_along(choices.below(len(shape)), shape)
        if choices.flag(5):
            x = self.lanes(shape)
        if choices.flag(5):
            x = self.combined(math.FloorDiv, x, self.constant(choices.of((4, 8, 16)), shape))
        half = prod(shape) // 2
        limit = self.spread(
            self.scalar((half, 16, 8, half - 4, 20, 4, half + 2, half - 1, 3)), shape
        )
        pair = (x, limit) if choices.below(3) else (limit, x)
        return self.compared(choices.of(_PREDICATES), *pair)

    def compared(self, predicate: Predicate, x: _Index, y: _Index) -> _Index:
        value = self.b(math.Compare(predicate, x.value, y.value))
        return _Index(value, _COMPARED[predicate](x.numbers, y.numbers))

    def mask_along(self, axis: int, shape: tuple[int, ...]) -> _Index:
        """Which rows, or columns, are before a number."""
        size = shape[axis]
        line = self.lanes((size,))
        limit = self.number(self.choices.of((size // 2, size - 1, size - 4, size - 6, 4)))
        found = self.compared(
            self.choices.of(_PREDICATES),
            line,
            self.spread(limit, element_type(line.value.type).shape),
        )
        return self.broadcast(found, axis, shape)

    def broadcast(self, line: _Index, axis: int, shape: tuple[int, ...]) -> _Index:
        """A line along an axis of a tile."""
        value, numbers = line
        for other in range(len(shape)):
            if other != axis:
                value = self.b(tile.ExpandDims(other, value))
                numbers = np.expand_dims(numbers, other + 1)
        value = self.b(tile.Broadcast(value, Tile(shape, element_type(value.type).element)))
        return _Index(value, np.broadcast_to(numbers, (len(numbers), *shape)))

    # Accesses.

    def access(self, rounds: int) -> Value | None:
        """Reads a tile, or writes one if no two elements go to one place."""
        choices, shape = self.choices, self.shape
        at = self.lanes(shape)
        for _ in range(choices.of((1, 0, 2, 1, 0))):
            at = self.changed(at)
        if self.known:
            at = self.combined(math.Add, at, self.spread(choices.of(self.known), shape))
        mask = None
        for _ in range(choices.of((0, 1, 0, 1, 2))):
            one = self.mask(at)
            if mask is None:
                mask = one
                continue
            cls, both = choices.of(((math.And, np.logical_and), (math.Or, np.logical_or)))
            mask = _Index(self.b(cls(mask.value, one.value)), both(mask.numbers, one.numbers))
        there = np.broadcast_to(True if mask is None else mask.numbers, (rounds, *shape))
        places = np.broadcast_to(at.numbers, (rounds, *shape))
        found = places[there] if there.any() else np.zeros(1, np.int64)
        if found.max() - found.min() >= MOST:
            at = self.combined(math.Mod, at, self.constant(choices.of((1024, 512, 1000)), shape))
            places = np.broadcast_to(at.numbers, (rounds, *shape))
            found = places[there]
        low = int(found.min())
        # Start at a multiple of the vector width, where possible.
        shift = -(low // 16 * 16) + choices.of((0, 0, 0, 0, 4, 1))
        if low < 0 or low > MOST or shift > 0:
            at = self.combined(math.Add, at, self.constant(shift, shape))
            found = found + shift
        value = at.value
        if choices.flag(6):
            value = self.b(math.Cast(value, Tile(shape, i64)))
        count = int(found.max()) + 1
        masked = None if mask is None else mask.value
        if choices.flag(3) and self.is_distinct(places, there):
            base = self.argument(Array(self.dtype, (count,)))
            self.b.insert(tile.Store(base, value, self.read_all(), masked))
            return None
        base = self.argument(Array(self.dtype, (count,), 1 + choices.below(256)))
        other = None
        if masked is not None:
            other = self.b(math.Constant(0, Tile(shape, self.dtype)))
        return self.b(tile.Load(base, value, masked, other))

    def is_distinct(self, places: npt.NDArray[Any], there: npt.NDArray[Any]) -> bool:
        pairs = zip(places, there, strict=True)
        return all(len(np.unique(p[t])) == t.sum() for p, t in pairs)

    def read_all(self) -> Value:
        """As many elements as a tile has."""
        count = prod(self.shape)
        lanes = self.b(tile.Arange(0, Tile((count,), i32)))
        if len(self.shape) > 1:
            lanes = self.b(tile.Reshape(lanes, Tile(self.shape, i32)))
        base = self.argument(Array(self.dtype, (count,), 1 + self.choices.below(256)))
        return self.b(tile.Load(base, lanes))

    def block(self, rounds: int) -> Value | None:
        """Reads or writes a block of a matrix, or the like, that may stick out on any side."""
        choices, shape = self.choices, self.shape
        widths = [max(1, size + choices.of((0, 0, -4, 8, -1, -(size // 2), 3))) for size in shape]
        order = list(range(len(shape)))
        if choices.flag(3):
            order.reverse()
        strides, step = [0] * len(shape), choices.of((1, 1, 1, 1, 2))
        for axis in order[::-1]:
            strides[axis] = step
            step = step * widths[axis]
            step += choices.of((0, -step % 16, 0, 1))
        offsets = [self.scalar(_STARTS) for _ in shape]
        if self.known and choices.below(4):
            offsets[choices.below(len(shape))] = choices.of(self.known)
        bounds = [self.number(width) for width in widths]
        limit = (
            self.number(choices.of((step - 3, step // 2 + 1, 20, step)))
            if choices.flag(3)
            else None
        )
        values = [
            [x.value for x in xs] for xs in (offsets, [self.number(n) for n in strides], bounds)
        ]
        end = None if limit is None else limit.value
        if choices.flag(3):
            base = self.argument(Array(self.dtype, (step,)))
            self.b.insert(tile.StoreTile(base, self.read_all(), end, *values))
            return None
        base = self.argument(Array(self.dtype, (step,), 1 + choices.below(256)))
        return self.b(tile.LoadTile(base, end, *values, Tile(shape, self.dtype)))
