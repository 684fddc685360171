"""A place that a random tile program writes, and then reads or writes again.

Passes give a load what was stored before it, and drop a store that a later one hides.  Whether they
may depends on what happens between the two: by another name, under another mask, in a branch, in a
loop, as a block, or as an atomic op.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from hypothesis import strategies as st

from iris.ir import math, tile
from iris.ir.control import For, If, Yield
from iris.ir.core import Value
from iris.ir.kinds import AtomicKind
from iris.ir.math import element_type
from iris.ir.types import bool_, i32
from iris.testing.access import Block, block, other_name, place, read, write
from iris.testing.choices import Choices
from iris.testing.elementwise import ALL
from iris.testing.places import Place
from iris.testing.tiles import TileDraft
from iris.tools.replay import Program

BYTES = 200
ATOMIC_BITS = 32  # of elements that atomic ops of every device take
_ATOMIC = [d for d in ALL if d.bits == ATOMIC_BITS]


def programs() -> st.SearchStrategy[Program]:
    """Programs that do little but use a few places of an array or two.

    @given(overwrites.programs())
    def test_my_pass(program):
        preserves(MyPass(), program)
    """
    return st.binary(min_size=BYTES, max_size=BYTES).map(lambda data: made(Choices(data)))


def made(choices: Choices) -> Program:
    """A program that some bytes choose."""
    draft = TileDraft([], choices, ALL)
    for _ in range(choices.of((1, 2))):
        # Of such as atomic ops take as often as not.
        value = draft.some(choices.of((draft.dtypes, _ATOMIC)), choices)
        type_ = element_type(value.type)
        memory = draft.own(type_.element, choices)
        found = place(draft, memory, type_.shape, choices, distinct=True)
        use_often(draft, found, value, choices)
    return draft.finish()


def overwrite(draft: TileDraft, found: Place, value: Value, choices: Choices) -> None:
    """Write to a place, or read it; then, maybe after something else, do so again."""
    reads, elsewhere = choices.flag(), other_name(draft, found, choices)
    if choices.flag():
        elsewhere = found._replace(memory=draft.renamed(found.memory))
    if reads and choices.flag(3):
        _read(draft, found, choices)
    else:
        write(draft, _narrowed(draft, found, choices), value)
    with _within(draft, choices):
        choices.of(_BEFORE_READ if reads else _BEFORE_WRITE)(draft, elsewhere, choices)
    again = _narrowed(draft, found, choices)
    if reads:
        read(draft, again, choices)
    else:
        write(draft, again, draft.like(found.type, choices, besides=value))


def use_often(draft: TileDraft, found: Place, value: Value, choices: Choices) -> None:
    """Write to a place, and use it again and again, itself or by another name, some of its elements
    or those beside it; now and then in a branch or a loop.

    The offsets and masks of these are the same values, so that any pass sees what is the same.
    """
    masked = _narrowed(draft, found, choices, always=True)
    beside = place(draft, found.memory, found.shape, choices, distinct=True)
    renamed = found._replace(memory=draft.renamed(found.memory))
    several = (found, masked, renamed, beside, found, masked, beside)
    there = block(draft, found.memory, found.shape, choices) if found.shape else None
    write(draft, choices.of(several), value)
    for _ in range(3 + choices.below(4)):
        is_inner = choices.flag()
        with _within(draft, choices) if is_inner else nullcontext():
            for _ in range(choices.of((1, 2)) if is_inner else 1):
                seen = _use(draft, choices.of(several), there, value, choices)
                if is_inner and seen is not None:
                    _show(draft, found, seen, choices)
    read(draft, choices.of(several), choices)


def _use(
    draft: TileDraft, found: Place, there: Block | None, value: Value, choices: Choices
) -> Value | None:
    """Read, write or update a place, or elements of its array as a block; what is read, if any."""
    style = choices.below(10)
    if there is not None and style > 6:
        return _use_block(draft, found, there, choices, writes=style == 9)
    if style > 4:
        _update(draft, found, choices)
    elif style > 2:
        write(draft, found, draft.like(found.type, choices, besides=value))
    else:
        return read(draft, found, choices)
    return None


def _use_block(
    draft: TileDraft, found: Place, there: Block, choices: Choices, *, writes: bool
) -> Value | None:
    """Read or write elements of the array as a block."""
    pointer, (offsets, strides, bounds, limit) = found.memory.pointer, there
    if writes:
        value = draft.like(found.type, choices)
        draft.builder.insert(tile.StoreTile(pointer, value, limit, offsets, strides, bounds))
        return None
    return draft.put(tile.LoadTile(pointer, limit, offsets, strides, bounds, found.type))


def _narrowed(draft: TileDraft, found: Place, choices: Choices, *, always: bool = False) -> Place:
    """A place, or some of its elements."""
    if not (always or choices.flag(3)):
        return found
    mask = draft.like(found.type.with_element(bool_), choices)
    if found.mask is not None:
        mask = draft.put(math.And(found.mask, mask))
    return found._replace(mask=mask)


@contextmanager
def _within(draft: TileDraft, choices: Choices) -> Iterator[None]:
    """Here, in a branch, or in a loop, which may have no iterations."""
    style = choices.below(4)
    if style < 2:
        yield
        return
    op: If | For = If(draft.like(bool_, choices))
    if style == 3:
        zero, one = (draft.constant(n, i32) for n in (0, 1))
        op = For(zero, draft.small(choices, 4), one)
    draft.builder.insert(op)
    for number, region in enumerate(op.regions):
        with draft.inside(region):
            if not number:
                yield
            draft.builder.insert(Yield([]))


def _nothing(draft: TileDraft, found: Place, choices: Choices) -> None:
    pass


def _write(draft: TileDraft, found: Place, choices: Choices) -> None:
    write(draft, _narrowed(draft, found, choices), draft.like(found.type, choices))


def _read(draft: TileDraft, found: Place, choices: Choices) -> None:
    _show(draft, found, read(draft, _narrowed(draft, found, choices), choices), choices)


def _read_block(draft: TileDraft, found: Place, choices: Choices) -> None:
    """Read elements of the array, as a block where a tile goes there."""
    if not found.shape:
        _read(draft, found, choices)
        return
    there = block(draft, found.memory, found.shape, choices)
    seen = _use_block(draft, found, there, choices, writes=False)
    assert seen is not None
    _show(draft, found, seen, choices)


def _write_block(draft: TileDraft, found: Place, choices: Choices) -> None:
    """Write elements of the array, as a block where a tile goes there."""
    if not found.shape:
        _write(draft, found, choices)
        return
    there = block(draft, found.memory, found.shape, choices)
    _use_block(draft, found, there, choices, writes=True)


def _update(draft: TileDraft, found: Place, choices: Choices) -> None:
    """Update by an atomic op, where every device has one."""
    if found.type.element.bits != ATOMIC_BITS:
        _write(draft, found, choices)
        return
    value = draft.like(found.type, choices)
    pointer, offset, mask = found.memory.pointer, found.offset, found.mask
    draft.add(tile.Atomic(AtomicKind.MAX, pointer, offset, value, mask))


def _read_and_write(draft: TileDraft, found: Place, choices: Choices) -> None:
    """Read, and write again: in a loop the next iteration reads what this one wrote."""
    _read(draft, found, choices)
    _write(draft, other_name(draft, found, choices), choices)


def _show(draft: TileDraft, found: Place, value: Value, choices: Choices) -> None:
    """Store what was read, so that it matters also if it was read in a region."""
    memory = draft.own(found.type.element, choices)
    write(draft, place(draft, memory, found.shape, choices, distinct=True), value)


_Between = Callable[[TileDraft, Place, Choices], None]
_BEFORE_READ: tuple[_Between, ...] = (
    *(_nothing, _write, _update, _update, _read_and_write, _write_block),
)
_BEFORE_WRITE: tuple[_Between, ...] = (_nothing, _read, _read_block, _update, _read_and_write)
