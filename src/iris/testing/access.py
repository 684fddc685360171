"""Where random programs read and write: never outside an array, nor where another program does."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from iris.ir import math, tile
from iris.ir.core import Op, Value
from iris.ir.literal import Number
from iris.ir.math import Predicate, element_type
from iris.ir.types import Tile, bool_, i32, i64
from iris.testing.choices import Choices
from iris.testing.places import Memory, Place
from iris.testing.tiles import TileDraft


def place(
    draft: TileDraft, memory: Memory, shape: tuple[int, ...], choices: Choices, *, distinct: bool
) -> Place:
    """A place in an array, new or, if it has served for this shape, maybe not."""
    known = [
        p
        for p in draft.places
        if (p.memory is memory or _alike(p.memory, memory))
        and p.shape == shape
        and (p.distinct or not distinct)
    ]
    if known and choices.flag():
        return known[-1 - choices.below(len(known))]._replace(memory=memory)
    found = Place(memory, shape, *_place(draft, memory, shape, choices, distinct), distinct)
    draft.places.append(found)
    return found


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


def revisit(draft: TileDraft, choices: Choices, *, distinct: bool) -> Place | None:
    """Where a program has read or written before, maybe by another name or in another array: what
    is read again after a write, or only seems to be, is what passes go wrong about."""
    known = [p for p in draft.places if p.memory.stride and (p.distinct or not distinct)]
    if not known or not choices.flag():
        return None
    found = known[-1 - choices.below(len(known))]
    others = [m for m in draft.owned if _alike(m, found.memory)]
    return found._replace(memory=choices.of(others)) if others and choices.flag() else found


def other_name(draft: TileDraft, found: Place, choices: Choices) -> Place:
    """The same place, maybe by another name, or in another array of that dtype."""
    memory = found.memory
    if choices.flag(3):
        return found._replace(memory=draft.renamed(memory))
    others = [m for m in draft.owned if _alike(m, memory) and m.dtype is memory.dtype]
    return found._replace(memory=choices.of([memory, *others]))


def _alike(one: Memory, other: Memory) -> bool:
    """Whether the offsets that are right for one array are right for another."""
    sizes = prod(one.recipe.shape), prod(other.recipe.shape)
    return (one.stride, one.size) == (other.stride, other.size) and sizes[0] == sizes[1]


def _place(
    draft: TileDraft, memory: Memory, shape: tuple[int, ...], choices: Choices, distinct: bool
) -> tuple[Value, Value | None]:
    element = i64 if choices.flag(4) else i32
    inside: Value | None = None
    if not shape:
        offset = draft.small(choices, memory.size)
    else:
        offset, inside = _tile(draft, memory, shape, choices, distinct=distinct)
    if memory.stride:
        offset = draft.from_start(memory.stride, offset)
        if memory.ragged:
            there = _below(draft, offset, prod(memory.recipe.shape), shape)
            inside = there if inside is None else draft.put(math.And(inside, there))
    if choices.flag(3):
        wanted = draft.like(Tile(shape, bool_) if shape else bool_, choices)
        inside = wanted if inside is None else draft.put(math.And(inside, wanted))
    if element is i64:
        wide = Tile(shape, i64) if shape else i64
        offset = draft.put(math.Cast(offset, wide))
    return offset, inside


def _tile(
    draft: TileDraft, memory: Memory, shape: tuple[int, ...], choices: Choices, *, distinct: bool
) -> tuple[Value, Value | None]:
    count = prod(shape)
    style = choices.below(5)
    if style == 4 and not distinct:
        anywhere = draft.like(Tile(shape, i32), choices)
        return draft.wrapped(anywhere, memory.size), None
    offset = _lanes(draft, shape, choices)
    if style == 3:  # backwards
        end = count if count < memory.size and choices.flag() else count - 1
        last = draft.constant(end, Tile(shape, i32))
        offset = draft.put(math.Sub(last, offset))
    elif style == 2 and count <= memory.size:  # one of the blocks that the memory has room for
        block = draft.put(
            math.And(draft.like(i32, choices), draft.constant(memory.size - count, i32))
        )
        offset = draft.put(math.Add(draft.spread(block, shape), offset))
    elif style == 1 and not memory.stride:  # past the end
        shift = draft.spread(draft.small(choices, 8), shape)
        offset = draft.put(math.Add(offset, shift))
        return offset, _below(draft, offset, prod(memory.recipe.shape), shape)
    if count > memory.size:
        return offset, _below(draft, offset, memory.size, shape)
    return offset, None


def _lanes(draft: TileDraft, shape: tuple[int, ...], choices: Choices) -> Value:
    """The elements numbered row by row, by one arange or, as people write it, by several; or column
    by column."""
    style = choices.below(5)
    if len(shape) < 2 or style < 2:
        return draft.lanes(shape)
    if style == 4:
        axes = tuple(reversed(range(len(shape))))
        return draft.put(tile.Transpose(axes, draft.lanes(shape[::-1])))
    total: Value | None = None
    for axis in range(len(shape)):
        index = draft.lanes(shape[axis : axis + 1])
        for other in range(len(shape)):
            if other != axis:
                index = draft.put(tile.ExpandDims(other, index))
        if (stride := prod(shape[axis + 1 :])) > 1:
            index = draft.put(math.Mul(index, draft.constant(stride, element_type(index.type))))
        index = draft.put(tile.Broadcast(index, Tile(shape, i32)))
        total = index if total is None else draft.put(math.Add(total, index))
    assert total is not None
    return total


def _below(draft: TileDraft, offset: Value, count: int, shape: tuple[int, ...]) -> Value:
    limit = draft.constant(count, Tile(shape, i32) if shape else i32)
    return draft.put(math.Compare(Predicate.LT, offset, limit))


class Block(NamedTuple):
    offsets: list[Value]
    strides: list[Value]
    bounds: list[Value]
    limit: Value | None


def block(draft: TileDraft, memory: Memory, shape: tuple[int, ...], choices: Choices) -> Block:
    """A place for a tile in what a program may touch, seen as a matrix or the like that is not
    larger than the tile in any but its first dimension."""
    sizes: list[int] = []
    rest = memory.size
    # What is a program's own starts with one of the rows.
    divisor = memory.stride & -memory.stride or rest
    for size in shape[:0:-1]:
        sizes.insert(0, min(rest, size, divisor))
        rest //= sizes[0]
        divisor //= sizes[0]
    inner = prod(sizes)
    first = draft.small(choices, rest) if choices.flag() else draft.constant(0, i32)
    end = draft.constant(rest, i32)
    if memory.stride:
        # Rows of earlier programs have no bound to keep them out, so `first` is not negative.
        first, end = (draft.from_start(memory.stride // inner, x) for x in (first, end))
    offsets, bounds = [first], [end]
    for size in sizes:
        offsets.append(_nearby(draft, choices))
        bounds.append(draft.constant(size, i32))
    strides = [draft.constant(prod(sizes[axis:]), i32) for axis in range(len(shape))]
    limit = None
    if memory.ragged or choices.flag():
        count = prod(memory.recipe.shape)
        limit = draft.constant(min(count, choices.of((count, 3, 20))), i32)
    return Block(offsets, strides, bounds, limit)


def _nearby(draft: TileDraft, choices: Choices) -> Value:
    """An offset that may let a tile stick out on either side."""
    if not choices.flag():
        return draft.constant(0, i32)
    return draft.put(math.Sub(draft.small(choices, 4), draft.constant(2, i32)))
