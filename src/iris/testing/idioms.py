"""What users write with several ops: a loop over the blocks of a row, a product of matrices block
by block, a long row that is reduced at once."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from iris.ir import math, tile
from iris.ir.control import For, Yield
from iris.ir.core import Op, Value
from iris.ir.literal import Number
from iris.ir.math import element_type
from iris.ir.tile import ReduceKind
from iris.ir.types import DType, ElementType, Tile, bool_, f32, i32
from iris.testing.access import Place
from iris.testing.choices import Choices
from iris.testing.elementwise import SUMMED, summable
from iris.testing.tables import around, below, matrix, own_matrix, place, size, table
from iris.testing.tiles import Memory, TileDraft
from iris.tools.replay import Array

# What is carried over the blocks of a row, and what a masked element counts as there.
_COMBINED: tuple[tuple[ReduceKind, type[math.Binary], Number], ...] = (
    (ReduceKind.SUM, math.Add, 0),
    (ReduceKind.MAXNUM, math.MaxNum, -100),
    (ReduceKind.MINIMUM, math.Minimum, 100),
    (ReduceKind.MAXIMUM, math.Maximum, -100),
)


def read(draft: TileDraft, found: Place, choices: Choices, other: Number | None = None) -> Value:
    """What stands at a place, with a number or anything else where the mask is off."""
    pointer, offset, mask = found.memory.pointer, found.offset, found.mask
    op: Op
    if mask is not None and draft.masked and choices.flag():
        op = tile.MaskedLoad(pointer, offset, mask)
    elif mask is None:
        op = tile.Load(pointer, offset)
    else:
        type_ = found.type
        filler = draft.like(type_, choices) if other is None else draft.constant(other, type_)
        op = tile.Load(pointer, offset, mask, filler)
    draft.add(op)
    return op.results[0]


def write(draft: TileDraft, found: Place, value: Value) -> None:
    draft.builder.insert(tile.Store(found.memory.pointer, found.offset, value, found.mask))


def some_matrix(draft: TileDraft, dtype: DType, choices: Choices) -> Memory:
    return own_matrix(draft, dtype, choices) if choices.flag(3) else matrix(draft, dtype, choices)


def load_rows(draft: TileDraft, choices: Choices) -> None:
    """The first block of the program's rows."""
    memory = some_matrix(draft, choices.of(draft.dtypes), choices)
    read(draft, place(draft, memory, None, choices), choices)


def store_rows(draft: TileDraft, choices: Choices) -> None:
    """A block, if there is one, where the program's rows begin."""
    shape = table(draft, choices).shape
    value = draft.find(lambda t: t.shape == shape, choices)
    if value is None:
        load_rows(draft, choices)
        value = draft.visible[-1]
    memory = own_matrix(draft, element_type(value.type).element, choices)
    write(draft, place(draft, memory, None, choices), value)


def go_over_rows(draft: TileDraft, choices: Choices) -> For:
    """A loop over the blocks of the program's rows, which combines them, or what is made of each,
    and may write as much as it reads."""
    cut = table(draft, choices)
    numbers = [d for d in draft.dtypes if d is not bool_] or [i32]
    memory = some_matrix(draft, choices.of(numbers), choices)
    kind, combine, neutral = choices.of(_COMBINED)
    if memory.dtype.kind is not f32.kind and neutral:
        neutral = 0
    block = Tile(cut.shape, memory.dtype)
    is_reduced = choices.flag()
    type_ = _reduced(block) if is_reduced else block
    first = choices.of((0, 0, 0, cut.columns))
    start = draft.constant(0, i32) if choices.flag() else draft.parameter(first)
    end = size(draft, cut.width, choices)
    loop = For(start, end, size(draft, cut.columns, choices), [draft.constant(neutral, type_)])
    draft.builder.insert(loop)
    with draft.inside(loop.body):
        column, total = loop.body.arguments
        found = place(draft, memory, column, choices)
        x = read(draft, found, choices, neutral)
        for _ in range(choices.below(4)):
            draft.step()
        if found.mask is not None and choices.flag(3):
            filler = draft.constant(neutral, block)
            draft.add(math.Select(found.mask, x, filler))
            x = draft.visible[-1]
        value = draft.like(block, choices) if choices.flag() else x
        if choices.flag(3):
            target = own_matrix(draft, memory.dtype, choices)
            write(draft, found._replace(memory=target), draft.like(block, choices))
        value = summable(draft, value, kind.value, prod(cut.shape))
        if is_reduced:
            value = draft.put(tile.Reduce(kind, len(block.shape) - 1, value))
        following = draft.put(combine(total, value))
        if draft.masked and choices.flag():
            following = draft.put(tile.Update(total, following))
        draft.builder.insert(Yield([following]))
    return loop


def _reduced(type_: Tile) -> ElementType:
    """The type of a reduction along the last axis."""
    rest = type_.shape[:-1]
    return Tile(rest, type_.element) if rest else type_.element


def multiply_blocks(draft: TileDraft, choices: Choices) -> For:
    """A product of matrices: a loop over the axis that is summed, which moves both tiles."""
    numbers = [d for d in draft.dtypes if d is not bool_ and d.bits < 64] or [f32]
    dtype = choices.of([*[d for d in numbers if d.is_float], *numbers])
    rows, depth, columns = (choices.of((16, 8, 32)) for _ in range(3))
    count = around(depth, choices)
    a = _Factor(draft, dtype, rows * draft.programs, count, choices)
    b = _Factor(draft, dtype, count, columns + choices.of((0, 0, -3)), choices)
    result = Tile((rows, columns), f32 if dtype.is_float else i32)
    row = draft.put(math.Mul(draft.number, draft.constant(rows, i32)))
    step = size(draft, depth, choices)
    end = size(draft, count, choices)
    zero = draft.constant(0, i32)
    initial = draft.constant(0, result)
    loop = For(zero, end, step, [initial])
    draft.builder.insert(loop)
    by_tile = choices.flag()
    with draft.inside(loop.body):
        k, total = loop.body.arguments
        load: Callable[..., Value] = a.load_tile if by_tile else a.load
        x = load(row, k, (rows, depth), choices)
        load = b.load_tile if by_tile else b.load
        y = load(k, zero, (depth, columns), choices)
        draft.visible += [x, y]
        for _ in range(choices.of((0, 0, 0, 1, 2))):
            draft.step()
        if choices.flag(4):  # what is made of a factor on the way
            x, y = (draft.exact(draft.like(v.type, choices), SUMMED, SUMMED) for v in (x, y))
        draft.builder.insert(Yield([draft.put(tile.Dot(x, y, total))]))
    if dtype.is_float:
        draft.bounds[loop.results[0]] = count * SUMMED**2
    return loop


class _Factor:
    """A matrix of small whole numbers, in memory of its own."""

    def __init__(
        self, draft: TileDraft, dtype: DType, height: int, width: int, choices: Choices
    ) -> None:
        self.draft = draft
        self.height, self.width = height, max(1, width)
        self.pitch = choices.of((self.width, -(-self.width // 16) * 16, self.width + 1))
        draft.seed += 1
        recipe = Array(dtype, ((height - 1) * self.pitch + self.width,), draft.seed)
        pointer = draft.argument("factor", recipe, noalias=choices.flag())
        self.memory = Memory(pointer, recipe, 0, 1)

    def load(self, row: Value, column: Value, shape: tuple[int, int], choices: Choices) -> Value:
        """A tile by offsets and a mask."""
        draft = self.draft
        down, across = (
            draft.put(math.Add(draft.spread(start, one), self._along(axis, shape[axis])))
            for axis, start, one in (
                (0, row, (shape[0], 1)),
                (1, column, (1, shape[1])),
            )
        )
        pitch = draft.spread(size(draft, self.pitch, choices), (shape[0], 1))
        parts = [draft.put(math.Mul(down, pitch)), across]
        offset = draft.put(math.Add(*[self._whole(x, shape) for x in parts]))
        limits = zip((down, across), (self.height, self.width), strict=True)
        masks = [self._whole(below(draft, x, limit, choices), shape) for x, limit in limits]
        mask = draft.put(math.And(*masks))
        found = Place(self.memory, shape, offset, mask, distinct=True)
        x = read(draft, found, choices, 0)
        draft.learn(x, self.memory)
        return x

    def _along(self, axis: int, count: int) -> Value:
        return self.draft.put(tile.ExpandDims(1 - axis, self.draft.lanes((count,))))

    def _whole(self, x: Value, shape: tuple[int, int]) -> Value:
        element = element_type(x.type).element
        return self.draft.put(tile.Broadcast(x, Tile(shape, element)))

    def load_tile(
        self, row: Value, column: Value, shape: tuple[int, int], choices: Choices
    ) -> Value:
        """A tile by its first row and column."""
        draft = self.draft
        strides = [size(draft, self.pitch, choices), draft.constant(1, i32)]
        bounds = [size(draft, n, choices) for n in (self.height, self.width)]
        type_ = Tile(shape, self.memory.dtype)
        op = tile.LoadTile(self.memory.pointer, None, [row, column], strides, bounds, type_)
        draft.add(op)
        draft.learn(op.result, self.memory)
        return op.result


def long_row(draft: TileDraft, choices: Choices) -> Value:
    """Many elements, which are mostly all different."""
    dtype = choices.of([d for d in draft.dtypes if d is not bool_] or [i32])
    count = choices.of((512, 128, 1024, 256, 2048, 4096))
    shape = (count,) if choices.flag() else (2, count // 2)
    draft.seed += 1
    recipe = Array(dtype, (count,), draft.seed, None)
    pointer = draft.argument("row", recipe, noalias=choices.flag())
    lanes = draft.put(tile.Arange(0, Tile((count,), i32)))
    if len(shape) > 1:
        lanes = draft.put(tile.Reshape(lanes, Tile(shape, i32)))
    x = draft.put(tile.Load(pointer, lanes))
    draft.visible.append(x)
    draft.learn(x, Memory(pointer, recipe, 0, count))
    if choices.flag(3):
        draft.step()
        return draft.like(x.type, choices)
    return x
