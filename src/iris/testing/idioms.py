"""What users write with several ops: a loop over the blocks of a row, a product of matrices block
by block, a long row that is reduced at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from math import inf, nan, prod

from iris.ir import math, tile
from iris.ir.control import For, If, Yield
from iris.ir.core import Value
from iris.ir.kinds import ReduceKind
from iris.ir.literal import Number, encode
from iris.ir.math import Predicate, element_type
from iris.ir.types import DType, ElementType, Tile, bool_, f32, i32, i64
from iris.testing.access import read, write
from iris.testing.choices import Choices
from iris.testing.elementwise import SUMMED, summable
from iris.testing.places import Memory, Place
from iris.testing.tables import around, below, matrix, own_matrix, place, size, table
from iris.testing.tiles import TileDraft
from iris.tools.replay import Array

# What is carried over the blocks of a row, and what a masked element counts as there.
_COMBINED: tuple[tuple[ReduceKind, type[math.Binary], Number], ...] = (
    (ReduceKind.SUM, math.Add, 0),
    (ReduceKind.MAXNUM, math.MaxNum, -100),
    (ReduceKind.MINIMUM, math.Minimum, 100),
    (ReduceKind.MAXIMUM, math.Maximum, -100),
)


_ADDED, _NAMED = "added", "named"


def some_matrix(draft: TileDraft, dtype: DType, choices: Choices) -> Memory:
    return own_matrix(draft, dtype, choices) if choices.flag(3) else matrix(draft, dtype, choices)


def load_rows(draft: TileDraft, choices: Choices) -> None:
    """The first block of the program's rows; what follows may use its mask, too."""
    memory = some_matrix(draft, choices.of(draft.dtypes), choices)
    found = place(draft, memory, None, choices)
    if found.mask is not None and choices.flag(3):
        draft.visible.append(found.mask)
    read(draft, found, choices)


def store_rows(draft: TileDraft, choices: Choices) -> None:
    """A block, if there is one, where the program's rows begin."""
    shape = table(draft, choices).shape
    value = draft.find(lambda t: t.shape == shape, choices)
    if value is None:
        load_rows(draft, choices)
        value = draft.visible[-1]
    memory = own_matrix(draft, element_type(value.type).element, choices)
    write(draft, place(draft, memory, None, choices), value)


@dataclass
class BlockLoop:
    """A loop over blocks, while its body is made."""

    loop: For
    start: Value  # of the block
    end: Value | None  # of all blocks, if the loop says it
    carried: list[Value]
    following: list[Value]  # what is carried on, to be filled


@contextmanager
def over_blocks(
    draft: TileDraft,
    first: int,
    end: int,
    step: int,
    initial: Sequence[Value],
    choices: Choices,
    *,
    is_plain: bool = False,
    is_upward: bool = False,
) -> Iterator[BlockLoop]:
    """A loop over the blocks from a number on: by their starts, maybe down, by their count, or with
    a start that is carried.  If it is plain, it is by their starts, and the kernel says which."""
    style = 0 if is_plain else choices.of((0, 0, 0, 1, 2, 0 if is_upward else 3))
    is_known = is_plain or choices.below(3)
    start = draft.constant(first, i32) if is_known else draft.parameter(first)
    # Most often a block is as large as the kernel says.
    is_known = is_plain or not choices.flag(4)
    stride = draft.constant(step, i32) if is_known else draft.parameter(step)
    limit = size(draft, end, choices) if style == 0 else None
    if limit is not None:
        bounds = [start, limit, stride]
        if choices.flag(8):
            bounds = [draft.put(math.Cast(value, i64)) for value in bounds]
        loop = For(*bounds, initial)
    elif style == 3:
        last = size(draft, first + (max(0, -(-(end - first) // step)) - 1) * step, choices)
        before = draft.put(math.Sub(start, draft.constant(choices.of((1, step)), i32)))
        loop = For(last, before, draft.constant(-step, i32), initial)
    else:
        count = size(draft, max(0, -(-(end - first) // step)), choices)
        more = [start] if style == 2 else []
        zero, one = draft.constant(0, i32), draft.constant(1, i32)
        loop = For(zero, count, one, [*initial, *more])
    draft.builder.insert(loop)
    with draft.inside(loop.body):
        number, *carried = loop.body.arguments
        here = number if number.type is i32 else draft.put(math.Cast(number, i32))
        if style == 1:
            here = draft.put(math.Add(start, draft.put(math.Mul(number, stride))))
        elif style == 2:
            here = carried.pop()
        made = BlockLoop(loop, here, limit, carried, [])
        yield made
        if style == 2:
            made.following.append(draft.put(math.Add(here, stride)))
        draft.builder.insert(Yield(made.following))


def go_over_rows(draft: TileDraft, choices: Choices) -> For:
    """A loop over the blocks of the program's rows, which combines them, or what is made of each,
    and may write as much as it reads."""
    cut = table(draft, choices)
    numbers = [d for d in draft.dtypes if d is not bool_] or [i32]
    memory = some_matrix(draft, choices.of(numbers), choices)
    kind, combine, neutral = choices.of(_COMBINED)
    if not memory.dtype.is_float:
        neutral = 0
    block = Tile(cut.shape, memory.dtype)
    some = some_of(draft, cut.shape, choices) if draft.masked and choices.flag() else None
    is_reduced = some is None and choices.flag()
    type_ = reduced(block) if is_reduced else block
    first = choices.of((0, 1, 0, cut.columns, 3, 2))
    whole = (cut.width - first) // cut.columns * cut.columns
    is_whole = whole > 0 and choices.flag()  # so that no column needs a mask
    end = first + whole if is_whole else choices.of((cut.width, cut.width, cut.width, 0))
    start = draft.constant(neutral, type_)
    if choices.flag(3):  # or -0.0, or what is there
        start = draft.constant(-0.0, type_) if choices.flag() else draft.like(type_, choices)
        start = summable(draft, start, kind.value, 1)
    # What is carried may also be added up on the way, or be carried under a second name.
    second = choices.of(
        (None, None, None, _ADDED) if some is None else (_ADDED, _NAMED, _ADDED, None)
    )
    initial = [start] * (1 if second is None else 2)
    with over_blocks(draft, first, end, cut.columns, initial, choices) as made:
        total, *watched = made.carried
        found = place(draft, memory, made.start, choices, is_whole=is_whole)
        if some is not None:
            mask = some if found.mask is None else draft.put(math.And(found.mask, some))
            found = found._replace(mask=mask)
            draft.add(tile.MaskedLoad(memory.pointer, found.offset, mask))
            x = draft.visible[-1]
        else:
            x = read(draft, found, choices, neutral)
        for _ in range(choices.below(4)):
            draft.step()
        if found.mask is not None and choices.flag(3):
            filler = draft.constant(neutral, block)
            draft.add(math.Select(found.mask, x, filler))
            x = draft.visible[-1]
        value = x if some is not None or choices.flag() else draft.like(block, choices)
        if choices.flag(3):
            target = own_matrix(draft, memory.dtype, choices)
            write(draft, found._replace(memory=target), draft.like(block, choices))
        value = summable(draft, value, kind.value, prod(cut.shape))
        if some is not None:  # what is masked is not 0 any more
            change = math.Sub if kind is ReduceKind.MINIMUM else math.Add
            value = draft.put(change(value, draft.constant(1, block)))
        if is_reduced:
            value = draft.put(tile.Reduce(kind, len(block.shape) - 1, value))
        if type_.shape and choices.flag(4):
            total = normalised(draft, total, choices)
        following = draft.put(combine(total, value))
        if draft.masked and (some is not None or choices.flag()):
            following = draft.put(tile.Update(total, following))
        made.following.append(following)
        for x in watched:
            made.following.append(following if second is _NAMED else draft.put(combine(x, total)))
    return made.loop


def normalised(draft: TileDraft, x: Value, choices: Choices) -> Value:
    """A tile less the extremes of its rows, or of its columns."""
    type_ = element_type(x.type)
    axis = choices.of((len(type_.shape) - 1, 0))
    kind = choices.of((ReduceKind.MAXNUM, ReduceKind.MINIMUM, ReduceKind.MAXIMUM))
    found = draft.put(tile.Reduce(kind, axis, x))
    if len(type_.shape) > 1:
        found = draft.put(tile.ExpandDims(axis, found))
    spread = draft.put(tile.Broadcast(found, Tile(type_.shape, type_.element)))
    return draft.put(math.Sub(x, spread))


def some_of(draft: TileDraft, shape: tuple[int, ...], choices: Choices) -> Value:
    """Which elements of a block a loop is about: the same ones each time."""
    count = choices.of((shape[-1] // 2, 1, shape[-1] - 1))
    found = below(draft, draft.lanes(shape[-1:]), count, choices)
    if len(shape) > 1:
        found = draft.put(tile.ExpandDims(0, found))
    return draft.put(tile.Broadcast(found, Tile(shape, bool_))) if len(shape) > 1 else found


def pass_on(draft: TileDraft, choices: Choices) -> For:
    """A loop over the blocks of an array, each of which is made of the one before."""
    numbers = [d for d in draft.dtypes if d is not bool_] or [i32]
    memory = draft.own(choices.of(numbers), choices)
    blocks = choices.of((4, 2, 8))
    count = 1 << max(1, memory.size // blocks).bit_length() - 1
    lanes = draft.lanes((count,))
    shuffled = lanes
    if choices.flag():
        shuffled = draft.put(math.Sub(draft.constant(count - 1, Tile((count,), i32)), lanes))
    first = choices.of((0, 1, 0, 3))
    end = first + ((memory.size - first) // count - 1) * count
    with over_blocks(draft, first, end, count, [], choices) as made:
        following = draft.put(math.Add(made.start, draft.constant(count, i32)))
        places = []
        for start, index in ((made.start, shuffled), (following, lanes)):
            offset = draft.put(math.Add(draft.spread(start, (count,)), index))
            offset = draft.from_start(memory.stride, offset)
            mask = None
            if memory.ragged:
                limit = draft.constant(prod(memory.recipe.shape), element_type(offset.type))
                mask = draft.put(math.Compare(Predicate.LT, offset, limit))
            places.append(Place(memory, (count,), offset, mask, distinct=True))
        x = read(draft, places[0], choices)
        draft.step()
        write(draft, places[1], draft.like(x.type, choices))
    return made.loop


def reduced(type_: Tile) -> ElementType:
    """The type of a reduction along the last axis."""
    rest = type_.shape[:-1]
    return Tile(rest, type_.element) if rest else type_.element


def multiply_blocks(draft: TileDraft, choices: Choices) -> For:
    """A product of matrices: a loop over the axis that is summed, which moves both tiles, or one,
    and may write what it reads next."""
    dtype = factors_dtype(draft, choices)
    rows, columns, depth = _product(draft, dtype, choices)
    count = 0 if choices.flag(7) else around(depth, choices)
    a = Factor(draft, dtype, rows * draft.programs, count, choices)
    is_longer = choices.flag(3)  # so that only the other operand needs a mask
    height = -(-count // depth) * depth if is_longer else count
    b = Factor(draft, dtype, height, max(1, columns + choices.of((0, 0, -3))), choices)
    row = draft.put(math.Mul(draft.number, draft.constant(rows, i32)))
    zero = draft.constant(0, i32)
    result = Tile((rows, columns), f32 if dtype.is_float else i32)
    parts = None  # of which the left operand is made, as what is stored in few bits
    if count > 0 and count % depth == 0 and choices.flag(4):
        parts = _Quotients(draft, dtype, rows * draft.programs, count, choices)
    style = 0 if parts is not None else choices.of((0, 1, 2))
    kept = choices.of((None, None, None, a, b)) if count > 0 else None
    is_written = kept is not a and choices.flag(3)
    turned = None
    if choices.flag(4):
        turned = Factor(draft, dtype, columns * draft.programs, depth, choices)
    left = a.load(row, zero, (rows, depth), choices) if kept is a else None
    right = b.load(zero, zero, (depth, columns), choices) if kept is b else None
    initial = [draft.constant(0, result)]
    if style == 2:
        initial += [a.offset(row, zero, (rows, depth)), b.offset(zero, zero, (depth, columns))]
    is_moved = style == 2  # up, whichever way the loop goes
    with over_blocks(draft, 0, count, depth, initial, choices, is_upward=is_moved) as made:
        k = made.start
        total, *offsets = made.carried
        if style == 1:
            x = left or a.load_tile(row, k, (rows, depth), choices)
            y = right or b.load_tile(k, zero, (depth, columns), choices)
        else:
            x_at, y_at = offsets or (None, None)
            fits = count % depth == 0
            if parts is not None:
                x = left or parts.load(row, k, (rows, depth))
            else:
                x = left or a.load(row, k, (rows, depth), choices, x_at, (True, fits))
            there = fits or is_longer, columns <= b.width
            y = right or b.load(k, zero, (depth, columns), choices, y_at, there)
        if is_written:
            following = draft.put(math.Add(k, draft.constant(depth, i32)))
            # What is stored elsewhere, too, is not loaded an iteration ahead.
            other = draft.constant(choices.of((3, 1)), element_type(x.type))
            a.store(row, following, x if choices.flag(3) else other, choices)
        for _ in range(choices.of((0, 0, 0, 1, 2))):
            draft.step()
        if turned is not None:  # for which the tile may need to be laid out otherwise
            first = draft.put(math.Mul(draft.number, draft.constant(columns, i32)))
            turned.store(first, zero, draft.put(tile.Transpose((1, 0), y)), choices)
        if not is_written and choices.flag(4):  # what is made of a factor on the way
            if dtype.is_float and choices.flag():
                x = draft.exact(normalised(draft, x, choices), SUMMED, SUMMED)
            else:
                x, y = (draft.exact(draft.like(v.type, choices), SUMMED, SUMMED) for v in (x, y))
        made.following.append(multiplied(draft, x, y, total, choices))
        if offsets:
            steps = a.step(1, depth, choices), b.step(0, depth, choices)
            for at, step in zip(offsets, steps, strict=True):
                wide = draft.spread(step, element_type(at.type).shape)
                made.following.append(draft.put(math.Add(at, wide)))
    if dtype.is_float and not (a.is_odd or b.is_odd):
        draft.bounds[made.loop.results[0]] = max(count, 1) * SUMMED**2
    return made.loop


class _Quotients:
    """A matrix of quotients of integers, in a dtype: there are none where nothing is loaded."""

    def __init__(
        self, draft: TileDraft, dtype: DType, height: int, width: int, choices: Choices
    ) -> None:
        self.draft, self.dtype = draft, dtype
        stored = choices.of([d for d in draft.all_dtypes if d.is_integer and d.bits < 64] or [i32])
        self.dividends = Factor(draft, stored, height, width, choices)
        self.divisors = Factor(draft, stored, height, width, choices, (1, 2, 3, 1, 5))

    def load(self, row: Value, column: Value, shape: tuple[int, int]) -> Value:
        """A tile, all of which is there."""
        x, y = (
            self.draft.put(tile.Load(f.memory.pointer, f.offset(row, column, shape)))
            for f in (self.dividends, self.divisors)
        )
        quotient = self.draft.put(math.FloorDiv(x, y))
        if element_type(x.type).element is not self.dtype:
            quotient = self.draft.put(math.Cast(quotient, Tile(shape, self.dtype)))
        if self.dtype.is_float:
            self.draft.bounds[quotient] = SUMMED
        return quotient


def multiply_twice(draft: TileDraft, choices: Choices) -> None:
    """A product of a tile, something else in its place, and the product of that."""
    dtype = factors_dtype(draft, choices)
    rows, columns, depth = _product(draft, dtype, choices)
    a = Factor(draft, dtype, rows * draft.programs, depth, choices)
    row = draft.put(math.Mul(draft.number, draft.constant(rows, i32)))
    zero = draft.constant(0, i32)
    y = draft.whole(Tile((depth, columns), dtype), choices)
    y = draft.exact(y, SUMMED, SUMMED)
    for _ in range(2):
        x = a.load(row, zero, (rows, depth), choices, None, (True, True))
        x = draft.exact(x, SUMMED, SUMMED)
        draft.visible.append(multiplied(draft, x, y, None, choices))
        a.store(row, zero, x, choices)


def multiplied(
    draft: TileDraft, x: Value, y: Value, total: Value | None, choices: Choices
) -> Value:
    """A product, maybe added to a total; seldom, only if a condition holds, and else another."""
    product = tile.Dot(x, y, total)
    if not choices.flag(4):
        return draft.put(product)
    type_ = element_type(product.result.type)
    guard = If(draft.like(bool_, choices), [type_])
    draft.builder.insert(guard)
    with draft.inside(guard.then):
        draft.builder.insert(Yield([draft.put(product)]))
    with draft.inside(guard.otherwise):
        if choices.flag():
            other = draft.put(tile.Dot(draft.put(math.Neg(x)), y, total))
        else:
            other = total or draft.constant(0, type_)
        draft.builder.insert(Yield([other]))
    found: Value = guard.results[0]
    return found


def _product(draft: TileDraft, dtype: DType, choices: Choices) -> tuple[int, int, int]:
    """Choose the sizes M, N and K of a product.  Now and then all are large, or K is so large that
    threadgroup memory has no room for padding."""
    if dtype.is_float and draft.programs < 4 and choices.flag(5):
        return 64 // dtype.bytes, 64 // dtype.bytes, 256
    is_cube = choices.flag(3)
    sizes = (64, 64, 32, 64) if choices.flag(10) else (16, 8, 32)
    first = choices.of(sizes)
    rows, columns, depth = (first if is_cube else choices.of(sizes) for _ in range(3))
    rows, columns = draft.fitting((rows, columns))
    return rows, columns, depth


def factors_dtype(draft: TileDraft, choices: Choices) -> DType:
    """The dtype of factors, mostly a float."""
    numbers = [d for d in draft.dtypes if d is not bool_ and d.bits < 64] or [f32]
    return choices.of([*[d for d in numbers if d.is_float], *numbers])


class Factor:
    """A matrix of small whole numbers, in an array of its own, so that sums are the same in any
    order.  One of the numbers may be an infinity or nan: that keeps it so.  It lies there row by
    row or, seldom, column by column."""

    def __init__(
        self,
        draft: TileDraft,
        dtype: DType,
        height: int,
        width: int,
        choices: Choices,
        numbers: Sequence[Number] = (),  # that it is of, if not of any
        *,
        is_plain: bool = False,
    ) -> None:
        self.draft, self.is_plain = draft, is_plain
        self.height, self.width = height, width
        self.is_turned = not is_plain and choices.flag(4)
        lines, line = (width, height) if self.is_turned else (height, width)
        padded = -(-line // 16) * 16
        self.pitch = padded if is_plain else choices.of((line, padded, line + 1))
        draft.seed += 1
        count = max(1, (lines - 1) * self.pitch + line)
        self.is_odd = dtype.is_float and not numbers and choices.flag(4)
        if self.is_odd:
            numbers = [*[*range(-4, 5)] * 5, choices.of((inf, nan, -inf))]
        if numbers:
            data = tuple([encode(n, dtype) for n in numbers])
            recipe = Array(dtype, (count,), data=data)
        elif draft.rounding and dtype.is_float:
            recipe = draft.filled(dtype, (count,), choices)
        else:
            recipe = Array(dtype, (count,), draft.seed)
        pointer = draft.argument("factor", recipe, noalias=choices.flag())
        self.memory = Memory(pointer, recipe, 0, 1)

    def load(
        self,
        row: Value,
        column: Value,
        shape: tuple[int, int],
        choices: Choices,
        offset: Value | None = None,
        fits: tuple[bool, bool] = (False, False),
    ) -> Value:
        """A tile by offsets, and a mask where it may not fit, or as often as not where it does."""
        if offset is None and self.is_turned and choices.flag():
            turned = copy(self)
            turned.height, turned.width, turned.is_turned = self.width, self.height, False
            x = turned.load(column, row, shape[::-1], choices, None, fits[::-1])
            return self.draft.put(tile.Transpose((1, 0), x))
        if offset is None:
            offset = self.offset(row, column, shape)
        mask = self._mask(row, column, shape, choices, fits)
        found = Place(self.memory, shape, offset, mask, distinct=True)
        x = read(self.draft, found, choices, 0)
        self._learn(x)
        return x

    def store(self, row: Value, column: Value, like: Value, choices: Choices) -> None:
        """A tile, or something of its type."""
        rows, columns = element_type(like.type).shape
        shape = rows, columns
        value = like if choices.flag() else self.draft.like(like.type, choices)
        value = self.draft.exact(value, SUMMED, SUMMED)
        mask = self._mask(row, column, shape, choices, (False, False))
        offset = self.offset(row, column, shape)
        write(self.draft, Place(self.memory, shape, offset, mask, distinct=True), value)

    def offset(self, row: Value, column: Value, shape: tuple[int, int]) -> Value:
        draft = self.draft
        down, across = self._indices(row, column, shape)
        line, place = (across, down) if self.is_turned else (down, across)
        pitch = draft.constant(self.pitch, element_type(line.type))
        first = draft.put(math.Mul(line, pitch))
        return draft.put(math.Add(*[self._whole(x, shape) for x in (first, place)]))

    def step(self, axis: int, count: int, choices: Choices) -> Value:
        """How far it is to what is so much further along an axis."""
        step = self.draft.constant(count, i32)
        if (axis == 0) is self.is_turned:
            return step
        return self.draft.put(math.Mul(step, size(self.draft, self.pitch, choices)))

    def _mask(
        self,
        row: Value,
        column: Value,
        shape: tuple[int, int],
        choices: Choices,
        fits: tuple[bool, bool],
    ) -> Value | None:
        indices, limits = self._indices(row, column, shape), (self.height, self.width)
        masks = [
            self._whole(below(self.draft, index, limit, choices), shape)
            for index, limit, fit in zip(indices, limits, fits, strict=True)
            if not fit or (not self.is_plain and choices.flag())
        ]
        if len(masks) == 2:
            return self.draft.put(math.And(*masks))
        return masks[0] if masks else None

    def _indices(self, row: Value, column: Value, shape: tuple[int, int]) -> tuple[Value, Value]:
        """The rows and the columns of a tile, along their axes."""
        draft = self.draft
        down = draft.put(tile.ExpandDims(1, draft.lanes(shape[:1])))
        across = draft.put(tile.ExpandDims(0, draft.lanes(shape[1:])))
        down = draft.put(math.Add(draft.spread(row, (shape[0], 1)), down))
        return down, draft.put(math.Add(draft.spread(column, (1, shape[1])), across))

    def _whole(self, x: Value, shape: tuple[int, int]) -> Value:
        element = element_type(x.type).element
        return self.draft.put(tile.Broadcast(x, Tile(shape, element)))

    def load_tile(
        self, row: Value, column: Value, shape: tuple[int, int], choices: Choices
    ) -> Value:
        """A tile by its first row and column."""
        draft = self.draft
        strides = [size(draft, self.pitch, choices), draft.constant(1, i32)]
        if self.is_turned:
            strides.reverse()
        bounds = [size(draft, n, choices) for n in (self.height, self.width)]
        type_ = Tile(shape, self.memory.dtype)
        op = tile.LoadTile(self.memory.pointer, None, [row, column], strides, bounds, type_)
        draft.add(op)
        self._learn(op.result)
        return op.result

    def _learn(self, x: Value) -> None:
        """Notes that it is of small numbers, also if some have been stored there."""
        if self.memory.dtype.is_float and not self.draft.rounding and not self.is_odd:
            self.draft.bounds[x] = SUMMED


def long_row(draft: TileDraft, choices: Choices) -> Value:
    """Many elements."""
    dtype = choices.of([d for d in draft.dtypes if d is not bool_] or [i32])
    count = choices.of((512, 128, 1024, 256, 2048, 4096))
    shape = (count,) if choices.flag() else (2, count // 2)
    x = draft.whole(Tile(shape, dtype), choices)
    if choices.flag(3):
        draft.step()
        return draft.like(x.type, choices)
    return x
