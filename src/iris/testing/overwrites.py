"""A place that a random tile program writes, and then reads or writes again.

Passes give a load what was stored before it, and drop a store that a later one hides.  Whether they
may depends on what happens between the two: by another name, under another mask, in a branch, in a
loop, as a block, or as an atomic op.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from iris.ir import math, tile
from iris.ir.control import For, If, Yield
from iris.ir.core import Value
from iris.ir.kinds import AtomicKind
from iris.ir.types import Tile, bool_, i32
from iris.testing.access import block, other_name, place, read, write
from iris.testing.choices import Choices
from iris.testing.places import Place
from iris.testing.tiles import TileDraft

ATOMIC_BITS = 32  # of elements that atomic ops of every device take


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


def _narrowed(draft: TileDraft, found: Place, choices: Choices) -> Place:
    """A place, or some of its elements."""
    if not choices.flag(3):
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
    type_ = found.type
    if not isinstance(type_, Tile):
        _read(draft, found, choices)
        return
    offsets, strides, bounds, limit = block(draft, found.memory, type_.shape, choices)
    op = tile.LoadTile(found.memory.pointer, limit, offsets, strides, bounds, type_)
    _show(draft, found, draft.put(op), choices)


def _write_block(draft: TileDraft, found: Place, choices: Choices) -> None:
    """Write elements of the array, as a block where a tile goes there."""
    type_ = found.type
    if not isinstance(type_, Tile):
        _write(draft, found, choices)
        return
    offsets, strides, bounds, limit = block(draft, found.memory, type_.shape, choices)
    value = draft.like(type_, choices)
    pointer = found.memory.pointer
    draft.builder.insert(tile.StoreTile(pointer, value, limit, offsets, strides, bounds))


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
