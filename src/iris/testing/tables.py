"""Matrices as kernels use them: rows and blocks of sizes that are known when the kernel runs.

Sizes lie around multiples of a block, so that some blocks are full, one is cut, or none is.  They
are parameters or constants, rows may be padded, and a mask has one of the forms that users write.
"""

from __future__ import annotations

from math import prod

from iris.ir import math, tile
from iris.ir.core import Value
from iris.ir.math import Predicate, element_type
from iris.ir.types import DType, Tile, i32
from iris.testing.choices import Choices
from iris.testing.places import Memory, Place, Table
from iris.testing.tiles import TileDraft

MOST_BLOCKS = 3  # that a row has
FAR_BELOW = 16 - 2**31  # before which there is no room for a block


def around(block: int, choices: Choices) -> int:
    """A size near a multiple of a block, and at least 1."""
    blocks = 1 + choices.below(MOST_BLOCKS)
    return max(1, blocks * block + choices.of((0, -1, 1, 0, -(block // 2), 3)))


def table(draft: TileDraft, choices: Choices) -> Table:
    """The cut of this program, which is drawn once, so that its blocks fit one another."""
    if draft.table is None:
        columns = choices.of((16, 32, 8, 64, 128, 256))
        rows = choices.of((1, 4, 2, 8)) if columns <= 64 else 1
        is_flat = rows == 1 and not choices.flag(4)
        width = around(columns, choices)
        padded = -(-width // 16) * 16
        pitch = choices.of((width, padded, width + 1, width + 2, padded, -(-width // 8) * 8))
        height = rows * draft.programs
        if choices.flag(3):
            height -= choices.below(rows * draft.programs)
        draft.table = Table(rows, columns, width, pitch, height, is_flat)
    return draft.table


def size(draft: TileDraft, number: int, choices: Choices) -> Value:
    """A size as a constant or, more often, as a parameter that a divisor may be known of."""
    if choices.flag(3):
        return draft.constant(number, i32)
    value = draft.parameter(number)
    if number % 16 == 0 and number and choices.below(3):
        divisor = choices.of((16, number & -number))
        key = (value, divisor)
        if key not in draft.memo:
            draft.memo[key] = draft.put(math.AssumeDivisible(divisor, value))
        value = draft.memo[key]
    return value


def matrix(draft: TileDraft, dtype: DType, choices: Choices) -> Memory:
    """A matrix that is only read."""
    cut = table(draft, choices)
    known = [m for m in draft.matrices if m.dtype is dtype]
    if known and not choices.flag(3):
        return choices.of(known)
    recipe = draft.filled(dtype, (cut.elements,), choices)
    pointer = draft.argument("matrix", recipe, noalias=choices.flag())
    draft.matrices.append(Memory(pointer, recipe, 0, power_below(cut.elements)))
    return draft.matrices[-1]


def own_matrix(draft: TileDraft, dtype: DType, choices: Choices) -> Memory:
    """A matrix of which each program has rows of its own."""
    cut = table(draft, choices)
    stride = cut.rows * cut.pitch
    known = [
        m
        for m in draft.owned
        if m.dtype is dtype and m.stride == stride and prod(m.recipe.shape) == cut.elements
    ]
    if known and not choices.flag(3):
        return choices.of(known)
    recipe = draft.filled(dtype, (cut.elements,), choices)
    pointer = draft.argument("rows", recipe, noalias=choices.flag(3))
    ragged = not cut.is_whole(draft.programs)
    draft.owned.append(Memory(pointer, recipe, stride, power_below(cut.width), ragged))
    return draft.owned[-1]


def own_rows(draft: TileDraft, dtype: DType, pitch: int, choices: Choices) -> Memory:
    """A row for each program, of as many elements as there are from one row to the next."""
    count = pitch * draft.programs
    for known in draft.owned:
        is_whole = known.recipe.alias is None and prod(known.recipe.shape) == count
        if known.dtype is dtype and known.stride == pitch and is_whole:
            return known
    recipe = draft.filled(dtype, (count,), choices)
    pointer = draft.argument("row", recipe, noalias=choices.flag())
    draft.owned.append(Memory(pointer, recipe, pitch, power_below(pitch)))
    return draft.owned[-1]


def power_below(count: int) -> int:
    return 1 << (count.bit_length() - 1)


def place(
    draft: TileDraft,
    memory: Memory,
    start: Value | None,
    choices: Choices,
    *,
    is_whole: bool = False,
) -> Place:
    """The block of the program's rows from a column on, or from the first; `is_whole` if all of
    its columns are there."""
    cut = table(draft, choices)
    shape = cut.shape
    rows, columns = _indices(draft, cut, choices)
    if start is not None:
        across = element_type(columns.type).shape
        columns = draft.put(math.Add(draft.spread(start, across), columns))
    inside = None
    is_full = is_whole or (start is None and cut.columns <= cut.width)
    if not is_full or choices.flag(3):
        end = choices.of((0, FAR_BELOW)) if choices.flag(10) else cut.width
        wide = below(draft, columns, end, choices)
        inside = _over(draft, wide, shape)
    if not cut.is_whole(draft.programs):
        there = _over(draft, below(draft, rows, cut.height, choices), shape)
        inside = there if inside is None else draft.put(math.And(inside, there))
    if not cut.is_flat and choices.flag(8):  # those below the diagonal
        sides = [_over(draft, x, shape) for x in (rows, columns)]
        lower = draft.put(math.Compare(Predicate.GE, *sides))
        inside = lower if inside is None else draft.put(math.And(inside, lower))
    if inside is not None and choices.flag(5):  # or no element at all
        inside = draft.put(math.And(inside, draft.like(element_type(inside.type), choices)))
    pitch = size(draft, cut.pitch, choices)
    first = draft.put(math.Mul(rows, draft.spread(pitch, element_type(rows.type).shape)))
    offset = draft.put(math.Add(_over(draft, first, shape), _over(draft, columns, shape)))
    found = Place(memory, shape, offset, inside, distinct=True)
    if start is None:
        draft.places.append(found)
    return found


def _indices(draft: TileDraft, cut: Table, choices: Choices) -> tuple[Value, Value]:
    """The rows and columns of a block: each along its own axis, or both out of the numbers of all
    elements, by division or by the bits."""
    first = draft.number
    if cut.rows > 1:
        first = draft.put(math.Mul(first, draft.constant(cut.rows, i32)))
    if cut.is_flat:
        return first, line(draft, cut.columns, choices)
    style = choices.below(4)
    if style < 2:
        rows = draft.spread(first, (cut.rows, 1))
        if cut.rows > 1:
            down = draft.put(tile.ExpandDims(1, line(draft, cut.rows, choices)))
            rows = draft.put(math.Add(rows, down))
        return rows, draft.put(tile.ExpandDims(0, line(draft, cut.columns, choices)))
    numbers = draft.lanes(cut.shape)
    width = draft.constant(cut.columns, element_type(numbers.type))
    if style == 2:
        down = draft.put(math.FloorDiv(numbers, width))
        columns = draft.put(math.Mod(numbers, width))
    else:
        bits = draft.constant(cut.columns.bit_length() - 1, element_type(numbers.type))
        down = draft.put(math.Shr(numbers, bits))
        columns = draft.put(math.Sub(numbers, draft.put(math.Shl(down, bits))))
    return draft.put(math.Add(draft.spread(first, cut.shape), down)), columns


def line(draft: TileDraft, count: int, choices: Choices) -> Value:
    """The numbers from 0 up to a count; seldom, a range that starts elsewhere is moved there."""
    if not choices.flag(8):
        return draft.lanes((count,))
    start, type_ = choices.of((1, -1, 8, 4, -16)), Tile((count,), i32)
    numbers = draft.put(tile.Arange(start, type_))
    return draft.put(math.Sub(numbers, draft.constant(start, type_)))


def _over(draft: TileDraft, value: Value, shape: tuple[int, ...]) -> Value:
    """A value along some axes of a shape, or none, along all of them."""
    type_ = element_type(value.type)
    if type_.shape == shape:
        return value
    return draft.put(tile.Broadcast(value, Tile(shape, type_.element)))


def below(draft: TileDraft, index: Value, count: int, choices: Choices) -> Value:
    """Which indices, none of which is negative, are below a size: said in one of many ways."""
    shape = element_type(index.type).shape

    def compare(predicate: Predicate, number: int) -> Value:
        is_known = number in (0, -1)
        limit = draft.constant(number, i32) if is_known else size(draft, number, choices)
        limit = draft.spread(limit, shape)
        if choices.flag(3):  # as in `0 <= i`
            return draft.put(math.Compare(predicate.swapped, limit, index))
        return draft.put(math.Compare(predicate, index, limit))

    style = choices.of((0, 1, 2, 3, 4, 5, 3))
    if style == 1:
        return compare(Predicate.LE, count - 1)
    if style == 2:  # two limits
        limits = [count, max(0, count - choices.of((1, 3, count // 2)))]
        return draft.put(
            math.And(*[compare(Predicate.LT, n) for n in limits[:: choices.of((1, -1))]])
        )
    if style == 3:  # from a number on
        first = choices.of((0, 1, count // 2))
        start = choices.of(((Predicate.GE, first), (Predicate.GT, first - 1)))
        return draft.put(math.And(compare(*start), compare(Predicate.LT, count)))
    if style == 4:  # all but a few
        hole = choices.below(count + 1)
        apart = draft.put(math.Or(compare(Predicate.LT, hole), compare(Predicate.GT, hole)))
        return draft.put(math.And(apart, compare(Predicate.LT, count)))
    if style == 5:
        return draft.put(math.Not(compare(Predicate.GE, count)))
    return compare(Predicate.LT, count)
