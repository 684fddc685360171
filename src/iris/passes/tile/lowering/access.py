"""Loads and stores of device memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iris.analysis.affine import Sums, is_nonnegative, plus
from iris.analysis.axis import order, vector
from iris.ir import metal, tile
from iris.ir.core import Op, Value
from iris.ir.layout.linear import LANE, REGISTER, SIMDGROUP, LinearLayout
from iris.ir.math import Predicate, constant_bits, element_type
from iris.ir.types import DType, Tile
from iris.passes.metal.numbers import Number
from iris.passes.tile.layouts.shapes import run_along
from iris.passes.tile.lowering.atomics import volatile_load
from iris.passes.tile.lowering.context import Lowering, axis_images, lower, tile_layout

# Where the elements of one access start, and whether it is to happen.
Where = tuple[Value, "Value | None"]


def width_of(at: Lowering, op: Op, layout: LinearLayout) -> int:
    """How many registers one access can fill or empty."""
    fastest = order(op, at.axes)[0]
    return min(vector(op, fastest, at.axes), run_along(layout, fastest))


@lower(tile.Load)
def load(at: Lowering, op: tile.Load) -> Sequence[Value]:
    if op.volatile:
        return volatile_load(at, op)
    if not isinstance(op.result.type, Tile):
        mask, other = (None if v is None else at[v] for v in (op.mask, op.other))
        type_ = op.result.type
        return [at.b(metal.Load(at[op.base], at[op.offset], mask, other, result=type_))]
    layout = tile_layout(op.result)
    width = width_of(at, op, layout)
    type_ = metal.registers(width, op.result.type.element)

    def body(i: Number) -> Sequence[Value]:
        offset, mask = _given(at, op, i, width)
        other = None if op.other is None else at.part(at[op.other], i, width)
        return [at.b(metal.Load(at[op.base], offset, mask, other, result=type_))]

    return at.each(layout.size(REGISTER), width, body)


@lower(tile.LoadTile)
def load_tile(at: Lowering, op: tile.LoadTile) -> Sequence[Value]:
    layout = tile_layout(op.result)
    width = width_of(at, op, layout)
    type_ = metal.registers(width, element_type(op.result.type).element)
    where = block(at, op, layout, width)

    def body(i: Number) -> Sequence[Value]:
        offset, mask = where(i)
        other = None if mask is None else at.constant(0, type_)
        return [at.b(metal.Load(at[op.base], offset, mask, other, result=type_))]

    return at.each(layout.size(REGISTER), width, body)


@lower(tile.Store)
def store(at: Lowering, op: tile.Store) -> Sequence[Value]:
    if not isinstance(op.value.type, Tile):
        mask = at.both(at.holder(None), None if op.mask is None else at[op.mask])
        at.b.insert(metal.Store(at[op.base], at[op.offset], at[op.value], mask))
        return ()
    layout = tile_layout(op.value)
    width = width_of(at, op, layout)
    _store(at, op, layout, width, lambda i: _given(at, op, i, width))
    return ()


@lower(tile.StoreTile)
def store_tile(at: Lowering, op: tile.StoreTile) -> Sequence[Value]:
    layout = tile_layout(op.value)
    width = width_of(at, op, layout)
    _store(at, op, layout, width, block(at, op, layout, width))
    return ()


def _store(
    at: Lowering,
    op: tile.Store | tile.StoreTile,
    layout: LinearLayout,
    width: int,
    where: Callable[[Number], Where],
) -> None:
    """Store each element once, whoever else has it."""
    holder = at.holder(layout)
    surplus = layout.free_bits()[REGISTER]

    def body(i: Number) -> Sequence[Value]:
        offset, mask = where(i)
        mask = at.both(holder, mask)
        if surplus:
            first = at.times(i, width)
            spare = at.compare(Predicate.EQ, at.mask(first, surplus), 0)
            mask = at.both(spare, mask)
        at.b.insert(metal.Store(at[op.base], offset, at.part(at[op.value], i, width), mask))
        return ()

    at.each(layout.size(REGISTER), width, body)


def _given(at: Lowering, op: tile.Load | tile.Store, i: Number, width: int) -> Where:
    """Where the program says itself, for each element."""

    def first(value: Value) -> Value:
        return at.take(at.part(at[value], i, width), [0])

    return first(op.offset), None if op.mask is None else first(op.mask)


def block(
    at: Lowering, op: tile.LoadTile | tile.StoreTile, layout: LinearLayout, width: int
) -> Callable[[Number], Where]:
    """Where the elements of a block are, a part of so many registers at a time."""
    type_ = op.offsets[0].type
    assert isinstance(type_, DType)
    skip = width.bit_length() - 1
    address: Number = 0
    starts: list[Number] = []  # along each axis, the index of the thread's first element
    steps: list[list[int]] = []
    mixed = []
    for axis, (offset, stride) in enumerate(zip(op.offsets, op.strides, strict=True)):
        lanes, groups = axis_images(layout, LANE, axis), axis_images(layout, SIMDGROUP, axis)
        own = axis_images(layout, REGISTER, axis)[skip:]
        threads = [*lanes, *groups]
        thread = at.thread_part(lanes, groups)
        start = number(at, offset)
        overlap = any(a & b for a in threads for b in own)
        mixed.append(thread if overlap else None)
        first = start if overlap else at.add(start, _wide(at, thread, type_), type_)
        starts.append(first)
        steps.append(own)
        address = at.add(address, at.times(first, number(at, stride), type_), type_)
    checks = [_checks(op, axis, size, at.sums) for axis, size in enumerate(layout.shape)]

    def where(i: Number) -> Where:
        here, mask = address, None
        for axis, (start, own, thread) in enumerate(zip(starts, steps, mixed, strict=True)):
            step = at.form(i, own)
            if thread is not None:
                step = at.xor(thread, step)
            step = _wide(at, step, type_)
            here = at.add(here, at.times(step, number(at, op.strides[axis]), type_), type_)
            index = at.add(start, step, type_) if any(checks[axis]) else 0
            below, above = checks[axis]
            if below:
                mask = at.both(mask, at.compare(Predicate.GE, at.value(index, type_), 0))
            if above:
                bound = number(at, op.bounds[axis])
                mask = at.both(mask, at.compare(Predicate.LT, at.value(index, type_), bound))
        place = at.value(here, type_)
        if op.limit is not None:
            mask = at.both(mask, at.compare(Predicate.LT, place, at[op.limit]))
        return place, mask

    return where


def _wide(at: Lowering, x: Number, type_: DType) -> Number:
    return x if isinstance(x, int) else at.value(x, type_)


def number(at: Lowering, value: Value) -> Number:
    """A scalar of the program, known if it is a constant."""
    known = constant_bits(value)
    if known is None:
        return at[value]
    high = element_type(value.type).element.high
    return known if known <= high else known - 2 * (high + 1)


def _checks(
    op: tile.LoadTile | tile.StoreTile, axis: int, size: int, sums: Sums
) -> tuple[bool, bool]:
    """Whether it must be checked that an index is not below 0, and that it is below its bound."""
    start, bound = sums.scalar(op.offsets[axis]), sums.scalar(op.bounds[axis])
    below = start is None or not is_nonnegative(start)
    above = True
    if start is not None and bound is not None:
        room = plus(bound, start, -1)
        above = bool(room.keys() - {()}) or room.get((), 0) < size
    return below, above
