"""Lines of elements whose offsets and masks tell how many may be accessed at once, or seem to: a
run that a choice, a division or a mask cuts, and one that moves with a loop, up, down, or from an
even place to an odd one."""

from __future__ import annotations

from iris.ir import math, tile
from iris.ir.control import For, Yield
from iris.ir.core import Value
from iris.ir.math import Predicate, element_type
from iris.ir.types import Tile, bool_, i32, i64
from iris.testing.access import read, write
from iris.testing.choices import Choices
from iris.testing.places import Memory, Place
from iris.testing.tables import own_rows, size
from iris.testing.tiles import TileDraft

_COMPARED = (*Predicate, Predicate.LT, Predicate.LE, Predicate.GE, Predicate.GT)


def go_along(draft: TileDraft, choices: Choices) -> None:
    """Reads and writes a strip of the program's own, at one place or as a loop moves along."""
    strip = _Strip(draft, choices)
    style = choices.of((0, 2, 1, 3, 2, 4, 2, 0) if draft.is_shallow else (0,))
    if style == 0:
        strip.access(strip.start(choices), choices)
    elif style == 1:
        strip.count(choices)
    else:
        strip.carry(choices, is_wide=style != 2, is_swapped=style == 4)


class _Strip:
    """A strip of an array, in which indices from `-block` up to `3 * block` are."""

    def __init__(self, draft: TileDraft, choices: Choices):
        self.draft = draft
        # Less than a vector for each thread is none.
        self.block = draft.fitting((choices.of((128, 256, 64, 128)),))[0]
        self.shape = (self.block,)
        self.numbers = Tile(self.shape, i32)
        self.pitch = 4 * self.block + choices.of((0, 0, 0, 0, 0, 1))
        self.dtype = choices.of([d for d in draft.dtypes if d is not bool_] or [i32])
        self.line, self.is_distinct = self._line(choices)

    # Where.

    def start(self, choices: Choices) -> Value:
        """Where the only block starts."""
        draft = self.draft
        block = self.block
        first = self._number(choices.of((0, block, 16, 1, -block, 8, 0, 4, 3, -4)), choices)
        if choices.flag(4):  # one of two
            second = self._number(choices.of((0, 8, 1)), choices)
            first = draft.put(math.Select(draft.like(bool_, choices), first, second))
        return first

    def _line(self, choices: Choices) -> tuple[Value, bool]:
        """Numbers from 0 up to twice the size of a block, one for each lane; and whether no two
        are alike."""
        draft, block = self.draft, self.block
        lanes = draft.lanes(self.shape)
        few = choices.of((4, 8, 2, 16))
        style = choices.of((0, 1, 0, 2, 3, 1, 4, 0, 5, 6, 7, 0, 8, 1, 9))
        if style == 1:  # two runs
            cut = choices.of((block // 2, 3, block // 2 + 1, 4, block - 2, 8))
            gap = choices.of((8, block, 16, 1, block, 4))
            runs = [lanes, self._with(math.Add, lanes, gap)]
            here = self._compared(lanes, cut, choices)
            return draft.put(math.Select(here, *runs)), gap == block
        if style == 2:  # rows of a few, maybe with room between them
            row = self._with(math.FloorDiv, lanes, few)
            row = self._with(math.Mul, row, choices.of((2 * few, few, few + 1)))
            return draft.put(math.Add(row, self._with(math.Mod, lanes, few))), True
        if style == 3:
            return self._with(math.Xor, lanes, choices.of((1, few, block - 1, block // 2))), True
        if style == 4:
            bound = choices.of((block // 2, 3, few))
            return self._with(choices.of((math.Minimum, math.Maximum)), lanes, bound), False
        if style == 5:  # the same one for a few
            cls, number = choices.of(
                ((math.And, -few), (math.Or, 1), (math.FloorDiv, few), (math.Or, few))
            )
            return self._with(cls, lanes, number), False
        if style == 6:  # a ring
            turned = self._with(math.Add, lanes, choices.of((few, 1, block // 2, 3)))
            return self._with(math.Mod, turned, block), True
        if style == 7:  # backwards
            last = draft.constant(block - choices.of((1, 0)), self.numbers)
            return draft.put(math.Sub(last, lanes)), True
        if style == 8:  # each in one of two blocks
            there = draft.like(Tile(self.shape, bool_), choices)
            return draft.put(math.Select(there, self._with(math.Add, lanes, block), lanes)), True
        if style == 9:  # column by column
            matrix = draft.put(tile.Reshape(lanes, Tile((few, block // few), i32)))
            turned = draft.put(tile.Transpose((1, 0), matrix))
            return draft.put(tile.Reshape(turned, self.numbers)), True
        return lanes, True

    def _number(self, number: int, choices: Choices) -> Value:
        """A number that is known more often than sizes are: by it, more can be accessed at once."""
        draft = self.draft
        return size(draft, number, choices) if choices.flag(4) else draft.constant(number, i32)

    def _with(self, cls: type[math.Binary], x: Value, number: int) -> Value:
        return self.draft.put(cls(x, self.draft.constant(number, self.numbers)))

    def _compared(self, index: Value, limit: int, choices: Choices) -> Value:
        """Which indices compare so with a number, which may be on either side."""
        draft = self.draft
        sides = [index, draft.spread(self._number(limit, choices), self.shape)]
        return draft.put(math.Compare(choices.of(_COMPARED), *sides[:: choices.of((1, 1, -1))]))

    def _mask(self, index: Value, choices: Choices) -> Value | None:
        """What an index or a lane compared with a number says, or two of them; or no mask."""
        block = self.block
        limits = (block, block // 2, 8, block - 1, 16, 0, 3 * block // 2, 4, 5, 20)
        # Of the forms of an offset and of a mask, one hides the other.
        is_plain = isinstance(self.line.op, tile.Arange)
        masks = [
            self._compared(choices.of((index, index, self.line)), choices.of(limits), choices)
            for _ in range(choices.of((1, 1, 2, 1, 0) if is_plain else (0, 1, 0)))
        ]
        if len(masks) == 2:
            both = choices.of((math.And, math.Or, math.And, math.Xor))
            return self.draft.put(both(*masks))
        return masks[0] if masks else None

    def place(self, memory: Memory, index: Value, mask: Value | None, choices: Choices) -> Place:
        offset = self.draft.from_start(self.pitch, self._with(math.Add, index, self.block))
        if choices.flag(6):
            offset = self.draft.put(math.Cast(offset, Tile(self.shape, i64)))
        return Place(memory, self.shape, offset, mask, distinct=self.is_distinct)

    def rows(self, choices: Choices) -> Memory:
        return own_rows(self.draft, self.dtype, self.pitch, choices)

    # What is done there.

    def access(self, start: Value, choices: Choices, total: Value | None = None) -> Value | None:
        """Read a block, write one, or both, from a start on; give the maximum of the block and of
        an earlier total."""
        draft = self.draft
        if start.type is i32:
            start = draft.spread(start, self.shape)
        index = draft.put(math.Add(start, self.line))
        found = self.place(self.rows(choices), index, self._mask(index, choices), choices)
        style = choices.below(3) if self.is_distinct else 0
        if style < 2:
            x = read(draft, found, choices, choices.of((0, None, 0, 1)))
            total = x if total is None else draft.put(math.Maximum(total, x))
        if style:
            if choices.flag(3):
                draft.step()
            if choices.flag(3):
                found = found._replace(mask=self._mask(index, choices))
            value = draft.like(found.type, choices)
            write(draft, found._replace(memory=self.rows(choices)), value)
        return total

    def count(self, choices: Choices) -> None:
        """A loop by the starts of blocks, up or down, maybe from below 0."""
        draft, block = self.draft, self.block
        *bounds, step = choices.of(
            (
                (0, 2 * block, block),
                (block, -1, -block),
                (-block, block, block),
                (block, -block - 1, -block),
                (0, 12, 4),
                (3, block, block // 2),
                (block, 0, -block // 2),
            )
        )
        lower, upper = (self._number(number, choices) for number in bounds)
        loop = For(lower, upper, draft.constant(step, i32), [self._nothing()])
        draft.builder.insert(loop)
        with draft.inside(loop.body):
            start, total = loop.body.arguments
            draft.builder.insert(Yield([self.access(start, choices, total)]))
        self._finish(loop)

    def carry(self, choices: Choices, *, is_wide: bool, is_swapped: bool) -> None:
        """A loop that carries where it is, in every lane or once, and moves on in one step or in
        two; or that carries two places, which it swaps."""
        draft, block = self.draft, self.block
        half = block // 2
        first, *steps = choices.of(
            (
                (0, 0, block),
                (0, 16, 1),
                (-block, 0, block),
                (half, 0, -block),
                (0, 4, 1),
                (16, -4, -16),
                (0, 0, 4),
                (block, 0, -block),
                (0, 3, half),
                (0, 0, -half),
            )
        )
        starts = [first]
        if is_swapped:
            starts, steps = [first, choices.of((1, 4, 16, 3))], []
        initial = [self._number(number, choices) for number in starts]
        if is_wide:
            initial = [draft.spread(start, self.shape) for start in initial]
        zero, one, rounds = (draft.constant(n, i32) for n in (0, 1, 2))
        loop = For(zero, rounds, one, [self._nothing(), *initial])
        draft.builder.insert(loop)
        with draft.inside(loop.body):
            _, total, *places = loop.body.arguments
            following = places[::-1]
            for step in steps:
                by = draft.spread(self._number(step, choices), element_type(places[0].type).shape)
                following = [draft.put(math.Add(places[-1], by))]
                places += following
            # The last step may lead out of the strip.
            found = self.access(choices.of(places[:2]), choices, total)
            draft.builder.insert(Yield([found, *following]))
        self._finish(loop)

    def _nothing(self) -> Value:
        return self.draft.constant(0, Tile(self.shape, self.dtype))

    def _finish(self, loop: For) -> None:
        """Let what follows use what was read."""
        self.draft.visible.append(loop.results[0])
