"""A loop over the blocks of rows, which reads and writes some of them, and numbers, in turn."""

from __future__ import annotations

from collections.abc import Sequence

from iris.ir import math, tile
from iris.ir.control import For, If, Yield
from iris.ir.core import Value
from iris.ir.literal import encode
from iris.ir.math import Predicate, element_type
from iris.ir.types import DType, Tile, Type, bool_, i32
from iris.testing.access import read, write
from iris.testing.choices import Choices
from iris.testing.idioms import over_blocks
from iris.testing.places import Memory, Place
from iris.testing.tables import around, own_rows, size
from iris.testing.tiles import TileDraft
from iris.tools.replay import Array

MOST_WRITTEN = 3  # at the end
MARGIN = 8  # elements before each row, so that an index may be a little below 0


def walk_rows(draft: TileDraft, choices: Choices) -> For:
    """Each program has rows of its own, all of one width; what is done to a block in which order
    is drawn.  Most accesses have one mask, `index < width`, and the loop may end there; or, where
    it goes over whole blocks alone, they have none."""
    block = choices.of((16, 128, 32, 8, 64, 256))
    width = around(block, choices)
    first = choices.of((0, 1, 0, -4, 3, -2, 5, 2))
    is_plain = choices.flag()
    if is_plain and choices.flag():  # whole blocks from 0 on; from elsewhere, the last one is not
        width, first = block * (1 + choices.below(3)), choices.of((1, 0, 3, block // 2))
    dtypes = [draft.dtypes[0], *draft.dtypes[-1:], i32]
    whole = max(0, width - first) // block * block
    is_whole = whole > 0 and choices.flag(4 if is_plain else 2)
    end = first + whole if is_whole else width
    with over_blocks(draft, first, end, block, [], choices, is_plain=is_plain) as made:
        # As in `for i in range(first, n, BLOCK)` with `i + arange < n`.
        end_of_rows = None if is_whole else made.end
        walk = _Walk(draft, width, block, made.start, end_of_rows, choices, is_plain=is_plain)
        if is_whole:
            walk.mask = None
        memories = [walk.rows(dtype, choices) for dtype in dtypes]
        if choices.flag():
            walk.read(choices.of(memories), choices)
        for _ in range(2 + choices.below(5)):
            choices.of(_ACTIONS)(walk, choices.of(memories), choices)
        walk.write_rest(memories)
    return made.loop


class _Walk:
    """A loop while its body is made."""

    def __init__(
        self,
        draft: TileDraft,
        width: int,
        block: int,
        start: Value,
        end: Value | None,
        choices: Choices,
        *,
        is_plain: bool,
    ):
        self.draft = draft
        pitch = MARGIN + max(width, block) + 1  # one more, for what is read backwards
        self.width, self.pitch = width, choices.of((-(-pitch // 16) * 16, pitch))
        self.shape = (block,)
        self.start = start
        lanes = draft.lanes(self.shape)
        if not is_plain and choices.flag(4):
            before = choices.of((2, 4))
            if choices.flag():
                lanes = draft.put(tile.Arange(-before, self.numbers))
            else:
                lanes = draft.put(math.Sub(lanes, draft.constant(before, self.numbers)))
        if not is_plain and choices.flag(6):
            start = draft.put(math.Minimum(start, draft.constant(choices.of((-3, 20)), i32)))
        self.index = draft.put(math.Add(draft.spread(start, self.shape), lanes))
        self.end = end or size(draft, width, choices)
        self.mask: Value | None = self.before(self.index, self.end)
        self.known = len(draft.visible)  # before anything is read

    @property
    def numbers(self) -> Tile:
        return Tile(self.shape, i32)

    def before(self, index: Value, end: Value) -> Value:
        limit = self.draft.spread(end, self.shape)
        return self.draft.put(math.Compare(Predicate.LT, index, limit))

    def rows(self, dtype: DType, choices: Choices) -> Memory:
        """A row for each program."""
        return own_rows(self.draft, dtype, self.pitch, choices)

    def place(self, memory: Memory, index: Value, mask: Value | None) -> Place:
        draft = self.draft
        pitch = draft.constant(self.pitch, i32)
        first = draft.put(math.Mul(draft.number, pitch))
        first = draft.put(math.Add(first, draft.constant(MARGIN, i32)))
        shape = element_type(index.type).shape
        offset = draft.put(math.Add(draft.spread(first, shape) if shape else first, index))
        return Place(memory, shape, offset, mask, distinct=True)

    # What may be done.

    def read(self, memory: Memory, choices: Choices) -> None:
        read(self.draft, self.place(memory, self.index, self.mask), choices, 0)

    def write(self, memory: Memory, choices: Choices) -> None:
        value = self.draft.like(Tile(self.shape, memory.dtype), choices)
        write(self.draft, self.place(memory, self.index, self.mask), value)

    def write_rest(self, memories: Sequence[Memory]) -> None:
        """The latest values that nothing uses, so that they are not made in vain."""
        by_type: dict[Type, Memory] = {Tile(self.shape, m.dtype): m for m in memories}
        made = self.draft.visible[self.known :]
        unused = [v for v in made if not v.users and v.type in by_type]
        for value in unused[-MOST_WRITTEN:]:
            write(self.draft, self.place(by_type[value.type], self.index, self.mask), value)

    def read_again(self, memory: Memory, choices: Choices) -> None:
        """The same elements, whichever block it is, which may be others for the next."""
        lanes = self.draft.lanes(self.shape)
        mask = self.before(lanes, self.end) if choices.flag(3) else None
        found = self.place(memory, lanes, mask)
        read(self.draft, found, choices, 0)
        if choices.flag() and memory.dtype is not bool_:
            one = self.draft.constant(1, found.type)
            write(self.draft, found, self.draft.put(math.Add(self.draft.visible[-1], one)))

    def pass_number(self, memory: Memory, choices: Choices) -> None:
        """A number by way of memory, or one that has been there."""
        draft = self.draft
        found = self.place(memory, draft.constant(0, i32), None)
        if choices.flag():
            first = choices.flag()
            value = draft.like(Tile(self.shape, memory.dtype) if first else memory.dtype, choices)
            at = self.place(memory, draft.lanes(self.shape), None) if first else found
            write(draft, at, value)
        number = read(draft, found, choices)
        draft.add(tile.Broadcast(number, Tile(self.shape, memory.dtype)))

    def step_over(self, memory: Memory, choices: Choices) -> None:
        """Reads every second element of the block and of the one after it, up to the end."""
        draft = self.draft
        twice = draft.put(math.Mul(draft.lanes(self.shape), draft.constant(2, self.numbers)))
        index = draft.put(math.Add(draft.spread(self.start, self.shape), twice))
        read(draft, self.place(memory, index, self.before(index, self.end)), choices, 0)

    def read_backwards(self, memory: Memory, choices: Choices) -> None:
        """Reads as many elements as a block has, the last one first."""
        draft = self.draft
        last = draft.constant(self.shape[0] - choices.of((0, 0, 1)), self.numbers)
        shift = draft.put(math.Sub(last, draft.lanes(self.shape)))
        index = draft.put(math.Add(draft.spread(self.start, self.shape), shift))
        mask = None if self.mask is None else self.before(index, self.end)
        read(draft, self.place(memory, index, mask), choices, 0)

    def read_further(self, memory: Memory, choices: Choices) -> None:
        """Reads as many elements from a little further on, up to the end."""
        shift = self.draft.constant(choices.of((1, 4, 2, self.shape[0], 8)), self.numbers)
        index = self.draft.put(math.Add(self.index, shift))
        mask = self.before(index, self.end)
        read(self.draft, self.place(memory, index, mask), choices, 0)

    def write_some(self, memory: Memory, choices: Choices) -> None:
        """Writes as many elements as a number in memory says; that number may change next."""
        draft = self.draft
        found = Place(self.counts(), (), draft.number, None, distinct=True)
        count = read(draft, found, choices)
        if choices.flag():
            number = draft.constant(choices.of((0, self.width // 2)), i32)
            write(draft, found, number)
        value = draft.like(Tile(self.shape, memory.dtype), choices)
        write(draft, self.place(memory, self.index, self.before(self.index, count)), value)

    def counts(self) -> Memory:
        """How many elements there are, at most: an array that nothing else writes."""
        draft = self.draft
        numbers = [self.width - 1, self.width // 2, self.width]
        data = tuple([encode(n, i32) for n in numbers])
        recipe = Array(i32, (draft.programs,), data=data)
        key = "counts", self.width
        if key not in draft.pointers:
            draft.pointers[key] = draft.argument("counts", recipe, noalias=False)
        return Memory(draft.pointers[key], recipe, 1, 1)

    def inside(self, memory: Memory, choices: Choices) -> None:
        """Something in a branch or in a loop, between what is done to blocks."""
        draft = self.draft
        style = choices.below(4)
        op: For | If
        if style == 0:
            zero, one = draft.constant(0, i32), draft.constant(1, i32)
            op = For(zero, size(draft, choices.of((2, 0, 1)), choices), one)
        else:
            condition = draft.like(bool_, choices)
            if style > 1:  # of the first block, or of all others
                first = draft.constant(self.shape[0], i32)
                predicate = choices.of((Predicate.GE, Predicate.LT))
                condition = draft.put(math.Compare(predicate, self.start, first))
            op = If(condition)
        draft.builder.insert(op)
        with draft.inside(op.regions[0]):
            choices.of((_Walk.write, _Walk.write, _Walk.pass_number))(self, memory, choices)
            draft.builder.insert(Yield([]))
        for region in op.regions[1:]:
            with draft.inside(region):
                draft.builder.insert(Yield([]))

    def step(self, memory: Memory, choices: Choices) -> None:
        self.draft.step()


_ACTIONS = (
    _Walk.read,
    _Walk.write,
    _Walk.read_again,
    _Walk.pass_number,
    _Walk.pass_number,
    _Walk.step_over,
    _Walk.read_backwards,
    _Walk.read_further,
    _Walk.write_some,
    _Walk.inside,
    _Walk.step,
    _Walk.read,
    _Walk.write,
)
