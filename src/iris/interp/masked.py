"""Elements that do not count: those that a masked load leaves out, and what is made of them.

A value some elements of which do not count is a `Masked`.  For each op a rule says, as the table in
docs/language.md does, which elements of the result count, and what takes the place of elements of
the operands that do not.  Where all operands count, no rule is asked.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.interp.frame import Frame, Masked, held_by, interpretation, masking
from iris.ir import math, scalar, tile
from iris.ir.core import Op, Value
from iris.ir.tile import ReduceKind, ScanKind

Array = npt.NDArray[Any]
# Runs an op by the rule that it has where all operands count.
Run = Callable[..., Sequence[Any]]
Rule = Callable[..., Sequence[Any]]  # of a frame, an op, how to run it, and its `Operands`


class Operands:
    """The operands of an op, and which of their elements count."""

    def __init__(self, given: Sequence[Any]):
        self.data: list[Any] = [x.data if isinstance(x, Masked) else x for x in given]
        self.masks = [x.counts if isinstance(x, Masked) else None for x in given]

    def counts(self, *positions: int) -> Array:
        """Where the elements of all of some operands count."""
        return _all_of([self.masks[i] for i in positions])

    def fill(self, position: int, counts: Array, other: Any) -> None:
        """Let an operand be something else where elements do not count."""
        x = self.data[position]
        self.data[position] = np.where(_with_axes(counts, x), x, np.asarray(other, x.dtype))


def _all_of(masks: Sequence[Array | None]) -> Array:
    known = [m for m in masks if m is not None]
    if not known:
        return np.ones(1, np.bool_)
    widest = max(known, key=np.ndim)
    return np.asarray(functools.reduce(np.logical_and, [_with_axes(m, widest) for m in known]))


def _with_axes(x: Array, like: Array) -> Array:
    """A number for each program, with as many axes as a tile has."""
    return x.reshape(len(x), *[1] * (like.ndim - 1)) if x.ndim == 1 else x


def _whole(value: Value, x: Array) -> Array:
    return np.broadcast_to(x, (len(x), *held_by(value).shape))


def counting(*classes: type[Op]) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        def act(frame: Frame, op: Op, run: Run, operands: Sequence[Any]) -> Sequence[Any]:
            return rule(frame, op, run, Operands(operands))

        masking(*classes)(act)
        return rule

    return register


# Elementwise ops: an element counts where those do that it is made of.


@counting(math.Unary, math.Binary, math.Fma, math.Compare)
@counting(math.Cast, math.Bitcast, math.AssumeDivisible)
def elementwise(frame: Frame, op: Op, run: Run, given: Operands) -> Sequence[Any]:
    """What does not count is made of zeros, divided by ones: no error comes of it."""
    every = range(len(given.data))
    counts = given.counts(*every)
    for position in every:
        divides = position == 1 and isinstance(op, math.Div | math.FloorDiv | math.Mod)
        given.fill(position, counts, 1 if divides else 0)
    return [Masked(x, counts) for x in run(*given.data)]


@counting(math.Select)
def select(frame: Frame, op: math.Select, run: Run, given: Operands) -> Sequence[Any]:
    """An element counts where the one does that is chosen, and the condition."""
    where, on_true, on_false = given.data
    one, other = (_with_axes(given.counts(i), x) for i, x in ((1, on_true), (2, on_false)))
    chosen = np.where(_with_axes(where, one if one.ndim > other.ndim else other), one, other)
    return [Masked(x, _all_of([given.counts(0), chosen])) for x in run(*given.data)]


@counting(tile.Update)
def update(frame: Frame, op: tile.Update, run: Run, given: Operands) -> Sequence[Any]:
    """An element is the new one if that counts, else the old one."""
    old, new = given.counts(0), given.counts(1)
    given.fill(1, new, given.data[0])
    return [Masked(x, _with_axes(old, x) | _with_axes(new, x)) for x in run(*given.data)]


# Ops that move elements move with them whether they count.


@counting(tile.Broadcast, tile.ExpandDims, tile.Reshape, tile.Transpose, tile.ConvertLayout)
@counting(tile.Stage, tile.Unstage)
def moved(frame: Frame, op: Op, run: Run, given: Operands) -> Sequence[Any]:
    rule = interpretation[type(op)]
    counts = given.masks[0]
    return [Masked(x, *rule(frame, op, counts)) for x in run(*given.data)]


# Ops that combine elements.


@counting(tile.Reduce)
def reduce(frame: Frame, op: tile.Reduce, run: Run, given: Operands) -> Sequence[Any]:
    """What does not count is left out; of nothing that counts, nothing comes that does."""
    axis = 1 + op.axis
    counts, x = (_whole(op.x, v) for v in (given.counts(0), given.data[0]))
    any_counts = np.asarray(counts.any(axis))
    if op.kind in (ReduceKind.ARGMAX, ReduceKind.ARGMIN):
        # With those first that count, in their order, no other can be the first of the extrema.
        shape = np.broadcast_shapes(x.shape, counts.shape)
        counts, x = np.broadcast_to(counts, shape), np.broadcast_to(x, shape)
        order = np.argsort(~counts, axis, kind="stable")
        ordered = np.take_along_axis(x, order, axis)
        kept = np.take_along_axis(counts, order, axis)
        (place,) = run(np.where(kept, ordered, ordered.take([0], axis)))
        found = np.take_along_axis(order, np.expand_dims(place, axis), axis)
        return [Masked(found.squeeze(axis).astype(place.dtype), any_counts)]
    return [Masked(y, any_counts) for y in run(_left_out(op.kind, x, counts, axis))]


@counting(tile.Scan)
def scan(frame: Frame, op: tile.Scan, run: Run, given: Operands) -> Sequence[Any]:
    """What does not count is left out, and does not count in the result."""
    counts, x = (_whole(op.x, v) for v in (given.counts(0), given.data[0]))
    return [Masked(y, counts) for y in run(_left_out(op.kind, x, counts, 1 + op.axis))]


def _left_out(kind: ReduceKind | ScanKind, x: Array, counts: Array, axis: int) -> Array:
    """Elements of which those that do not count change nothing of what is combined."""
    shape = np.broadcast_shapes(x.shape, counts.shape)
    counts, x = np.broadcast_to(counts, shape), np.broadcast_to(x, shape)
    if kind.value == "sum":
        return np.where(counts, x, x.dtype.type(-0.0))
    if kind.value == "prod":
        return np.where(counts, x, x.dtype.type(1))
    # An extremum, or whether all or any is so: the last one that counts once more, before
    # which is the first one that does.
    places = np.arange(shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(shape))])
    first = np.expand_dims(counts.argmax(axis), axis)
    last = np.maximum.accumulate(np.where(counts, places, first), axis)
    return np.take_along_axis(x, last, axis)


@counting(tile.Dot)
def dot(frame: Frame, op: tile.Dot, run: Run, given: Operands) -> Sequence[Any]:
    """What does not count is 0, and so is what meets nothing else: 0 times infinity is no number.
    A row and a column give something where something of each counts."""
    a, b = _whole(op.a, given.counts(0)), _whole(op.b, given.counts(1))
    rows, columns = np.asarray(a.any(2)), np.asarray(b.any(1))
    given.fill(0, a & np.asarray(b.any(2))[:, None, :], 0)
    given.fill(1, b & np.asarray(a.any(1))[:, :, None], 0)
    counts = rows[:, :, None] & columns[:, None, :]
    if op.acc is not None:
        counts = counts & given.counts(2)
    return [Masked(x, counts) for x in run(*given.data)]


# Memory: an access takes place where all that it needs counts.


@counting(tile.MaskedLoad)
def masked_load(frame: Frame, op: tile.MaskedLoad, run: Run, given: Operands) -> Sequence[Any]:
    view, offset, mask = given.data
    counts = _all_of([mask, *given.masks[1:]])
    return [Masked(x, counts) for x in run(view, np.where(counts, offset, 0), counts)]


@counting(tile.Load)
def load(frame: Frame, op: tile.Load, run: Run, given: Operands) -> Sequence[Any]:
    """With a mask, an element counts where what is chosen by it does, and the mask itself."""
    view, offset, *rest = given.data
    known, counts = given.counts(1), given.counts(1)
    mask, other = known, np.zeros((1,) * offset.ndim, scalar.storage(view.dtype))
    if rest:
        asked, other = rest
        known = given.counts(1, 2)
        mask = _all_of([known, asked])
        there, otherwise = (_with_axes(given.counts(i), mask) for i in (1, 3))
        chosen = np.where(_with_axes(asked, mask), there, otherwise)
        counts = _all_of([given.masks[2], chosen])
    return [Masked(x, counts) for x in run(view, np.where(known, offset, 0), mask, other)]


@counting(tile.Store, tile.Atomic, tile.AtomicCas)
def access(
    frame: Frame, op: tile.Store | tile.Atomic | tile.AtomicCas, run: Run, given: Operands
) -> Sequence[Any]:
    counts = given.counts(*range(1, len(given.data)))
    given.fill(1, counts, 0)
    values = given.data[: len(op.operands) - (op.mask is not None)]
    mask = counts if op.mask is None else _all_of([counts, given.data[-1]])
    return [Masked(x, counts) for x in run(*values, mask)]


@counting(tile.LoadTile)
def load_tile(frame: Frame, op: tile.LoadTile, run: Run, given: Operands) -> Sequence[Any]:
    counts = given.counts(*range(1, len(given.data)))
    _fill_all(given, counts, 1)
    return [Masked(x, _with_axes(counts, x)) for x in run(*given.data)]


@counting(tile.StoreTile)
def store_tile(frame: Frame, op: tile.StoreTile, run: Run, given: Operands) -> Sequence[Any]:
    counts = given.counts(*range(2, len(given.data)))
    _fill_all(given, counts, 2)
    x = given.data[1]
    return run(*given.data, active=_with_axes(_all_of([given.masks[1], counts]), x))


def _fill_all(given: Operands, counts: Array, start: int) -> None:
    """Let the numbers that say where a block is be zeros, which leave nothing in it."""
    for position in range(start, len(given.data)):
        given.fill(position, counts, 0)


@counting(tile.Assert)
def assert_(frame: Frame, op: tile.Assert, run: Run, given: Operands) -> Sequence[Any]:
    given.fill(0, given.counts(0), True)
    return run(*given.data)


@counting(tile.Print)
def print_(frame: Frame, op: tile.Print, run: Run, given: Operands) -> Sequence[Any]:
    """Zeros are printed for what does not count, and nothing where nothing of a value does."""
    there = np.ones(len(frame.programs), np.bool_)
    for position, counts in enumerate(given.masks):
        if counts is not None:
            given.fill(position, counts, 0)
            there &= counts.reshape(len(counts), -1).any(1)
    return run(*given.data, there=there)
