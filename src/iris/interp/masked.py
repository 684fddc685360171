"""Elements that do not count: those that a masked load leaves out, and what is made of them.

A value some elements of which do not count is a `Masked`.  For each op a rule says, as the table in
docs/language.md does, which elements of the result count, and what takes the place of elements of
the operands that do not.  Where all operands count, no rule is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.interp.frame import Frame, held_by, interpretation, masking
from iris.interp.operands import Masked, Operands, all_of, take_along, with_axes
from iris.interp.reductions import indices
from iris.ir import math, scalar, tile
from iris.ir.core import Op, Value
from iris.ir.kinds import ReduceKind, identity
from iris.ir.types import i32

Array = npt.NDArray[Any]


def _whole(value: Value, x: Array) -> Array:
    return np.broadcast_to(x, (len(x), *held_by(value).shape))


# Elementwise ops: an element counts where those do that it is made of.


@masking(math.Elementwise)
def elementwise(frame: Frame, op: math.Elementwise, given: Operands) -> Sequence[Any]:
    """What does not count is made of zeros, divided by ones: no error comes of it."""
    every = range(len(given.data))
    counts = given.counts(*every)
    for position in every:
        divides = position == 1 and isinstance(op, math.Div | math.FloorDiv | math.Mod)
        given.fill(position, counts, 1 if divides else 0)
    return [Masked(x, counts) for x in given.run()]


@masking(math.Select)
def select(frame: Frame, op: math.Select, given: Operands) -> Sequence[Any]:
    """An element counts where the one does that is chosen, and the condition."""
    on_true, on_false = (with_axes(given.counts(i), given.data[i]) for i in (1, 2))
    counts = all_of([given.counts(0), given.chosen(0, on_true, on_false)])
    return [Masked(x, counts) for x in given.run()]


@masking(tile.Update)
def update(frame: Frame, op: tile.Update, given: Operands) -> Sequence[Any]:
    """An element is the new one if that counts, else the old one."""
    old, new = given.counts(0), given.counts(1)
    given.fill_from(0, 1, new)
    return [Masked(x, with_axes(old, x) | with_axes(new, x)) for x in given.run()]


# Ops that move elements move with them whether they count.


@masking(tile.Broadcast, tile.ExpandDims, tile.Reshape, tile.Transpose, tile.ConvertLayout)
@masking(tile.Flip, tile.Pick, tile.Stage, tile.Unstage)
def moved(frame: Frame, op: Op, given: Operands) -> Sequence[Any]:
    rule = interpretation[type(op)]
    counts = given.masks[0]
    return [Masked(x, *rule(frame, op, counts)) for x in given.run()]


@masking(tile.Gather)
def gather(frame: Frame, op: tile.Gather, given: Operands) -> Sequence[Any]:
    """An element counts where its index does, and the element that it names."""
    there, known = given.masks
    given.fill(1, given.counts(1), 0)
    (found,) = given.run()
    named = None if there is None else take_along(there, given.data[1], 1 + op.axis)
    return [Masked(found, with_axes(all_of([named, known]), found))]


# Ops that combine elements.


@masking(tile.Reduce)
def reduce(frame: Frame, op: tile.Reduce, given: Operands) -> Sequence[Any]:
    """What does not count is left out; of nothing that counts, nothing comes that does."""
    axis, counts = 1 + op.axis, _whole(op.x, given.counts(*range(len(given.data))))
    any_counts = np.asarray(counts.any(axis))
    if op.kind in (ReduceKind.ARGMAX, ReduceKind.ARGMIN):
        # What is as extreme as that is behind all that count.
        given.fill(0, counts, identity(op.kind, op.x.type.element))
        if op.places is not None:
            given.fill(1, counts, i32.high)
            return [Masked(place, any_counts) for place in given.run()]
        places = np.where(counts, indices(counts, axis), i32.high)
        return [Masked(place, any_counts) for place in given.run(places)]
    _leave_out(op, given, counts, axis)
    return [Masked(y, any_counts) for y in given.run()]


@masking(tile.Scan)
def scan(frame: Frame, op: tile.Scan, given: Operands) -> Sequence[Any]:
    """What does not count is left out, and does not count in the result."""
    counts = _whole(op.x, given.counts(0))
    _leave_out(op, given, counts, 1 + op.axis)
    return [Masked(y, counts) for y in given.run()]


def _leave_out(op: tile.Reduce | tile.Scan, given: Operands, counts: Array, axis: int) -> None:
    """Replaces elements that do not count by some that change nothing of what is combined."""
    if op.kind.value in ("sum", "prod"):
        given.fill(0, counts, identity(op.kind, op.x.type.element))
        return
    # An extremum, or whether all or any is so: the last one that counts once more, before
    # which is the first one that does.
    first = np.expand_dims(counts.argmax(axis), axis)
    last = np.maximum.accumulate(np.where(counts, indices(counts, axis), first), axis)
    given.take(0, last, axis)


@masking(tile.Dot)
def dot(frame: Frame, op: tile.Dot, given: Operands) -> Sequence[Any]:
    """What does not count is 0, and so is what meets nothing else: 0 times infinity is no number.
    A row and a column give something where something of each counts."""
    a, b = _whole(op.a, given.counts(0)), _whole(op.b, given.counts(1))
    rows, columns = np.asarray(a.any(-1)), np.asarray(b.any(-2))
    given.fill(0, a & np.asarray(b.any(-1))[..., None, :], 0)
    given.fill(1, b & np.asarray(a.any(-2))[..., :, None], 0)
    counts = rows[..., :, None] & columns[..., None, :]
    if op.acc is not None:
        counts = counts & given.counts(2)
    return [Masked(x, counts) for x in given.run()]


# Memory: an access takes place where all that it needs counts.


@masking(tile.MaskedLoad)
def masked_load(frame: Frame, op: tile.MaskedLoad, given: Operands) -> Sequence[Any]:
    everywhere = np.ones((1,) * given.data[2].ndim, np.bool_)
    counts = all_of([given.chosen(2, everywhere, ~everywhere), *given.masks[1:]])
    given.fill(1, counts, 0)
    given.fill(2, counts, False)
    return [Masked(x, counts) for x in given.run()]


@masking(tile.Load)
def load(frame: Frame, op: tile.Load, given: Operands) -> Sequence[Any]:
    """With a mask, an element counts where what is chosen by it does, and the mask itself."""
    if op.mask is None:
        offset = given.data[1]
        counts = given.counts(1)
        given.fill(1, counts, 0)
        zero = np.zeros((1,) * offset.ndim, scalar.storage(op.result.type.element))
        return [Masked(x, counts) for x in given.run(counts, zero)]
    known = given.counts(1, 2)
    there, otherwise = (with_axes(given.counts(i), known) for i in (1, 3))
    counts = all_of([given.masks[2], given.chosen(2, there, otherwise)])
    given.fill(1, known, 0)
    given.fill(2, known, False)
    return [Masked(x, counts) for x in given.run()]


@masking(tile.Store, tile.Atomic, tile.AtomicCas)
def access(
    frame: Frame, op: tile.Store | tile.Atomic | tile.AtomicCas, given: Operands
) -> Sequence[Any]:
    counts = given.counts(*range(1, len(given.data)))
    given.fill(1, counts, 0)
    if op.mask is None:
        return [Masked(x, counts) for x in given.run(counts)]
    given.fill(len(given.data) - 1, counts, False)
    return [Masked(x, counts) for x in given.run()]


@masking(tile.LoadTile)
def load_tile(frame: Frame, op: tile.LoadTile, given: Operands) -> Sequence[Any]:
    counts = given.counts(*range(1, len(given.data)))
    _fill_all(given, counts, 1)
    return [Masked(x, with_axes(counts, x)) for x in given.run()]


@masking(tile.StoreTile)
def store_tile(frame: Frame, op: tile.StoreTile, given: Operands) -> Sequence[Any]:
    counts = given.counts(*range(2, len(given.data)))
    _fill_all(given, counts, 2)
    x = given.data[1]
    return given.run(active=with_axes(all_of([given.masks[1], counts]), x))


def _fill_all(given: Operands, counts: Array, start: int) -> None:
    """Let the numbers that say where a block is be zeros, which leave nothing in it."""
    for position in range(start, len(given.data)):
        given.fill(position, counts, 0)


@masking(tile.Assert)
def assert_(frame: Frame, op: tile.Assert, given: Operands) -> Sequence[Any]:
    given.fill(0, given.counts(0), True)
    return given.run()


@masking(tile.Print)
def print_(frame: Frame, op: tile.Print, given: Operands) -> Sequence[Any]:
    """Zeros are printed for what does not count, and nothing where nothing of a value does."""
    there = np.ones(len(frame.programs), np.bool_)
    for position, counts in enumerate(given.masks):
        if counts is not None:
            given.fill(position, counts, 0)
            there &= counts.reshape(len(counts), -1).any(1)
    return given.run(there=there)
