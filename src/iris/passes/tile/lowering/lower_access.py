"""Lower loads and stores of device memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iris.analysis.affine import Sums, is_nonnegative, plus
from iris.analysis.axis import order, vector
from iris.ir import metal, tile
from iris.ir.core import Op, Value
from iris.ir.layout.linear import LANE, REGISTER, SIMDGROUP, LinearLayout
from iris.ir.math import Predicate, constant_bits
from iris.ir.types import DType, Tile
from iris.passes.metal.index_arithmetic import Number
from iris.passes.tile.layouts.access_layouts import run_along
from iris.passes.tile.lowering.context import Lowering, axis_images, lower, tile_layout
from iris.passes.tile.lowering.lower_atomics import lower_volatile_load

# The offset of one access, and its mask.
AddressMask = tuple[Value, "Value | None"]


def access_width(ctx: Lowering, op: Op, layout: LinearLayout) -> int:
    """How many registers one access moves."""
    fastest = order(op, ctx.axes)[0]
    return min(vector(op, fastest, ctx.axes), run_along(layout, fastest))


@lower(tile.Load)
def lower_load(ctx: Lowering, op: tile.Load) -> Sequence[Value]:
    if op.volatile:
        return lower_volatile_load(ctx, op)
    if not isinstance(op.result.type, Tile):
        mask, other = (None if v is None else ctx[v] for v in (op.mask, op.other))
        type_ = op.result.type
        return [ctx.b(metal.Load(ctx[op.base], ctx[op.offset], mask, other, result=type_))]
    layout = tile_layout(op.result)
    width = access_width(ctx, op, layout)
    type_ = metal.registers(width, op.result.type.element)

    def body(i: Number) -> Sequence[Value]:
        offset, mask = _explicit_access(ctx, op, i, width)
        other = None if op.other is None else ctx.part(ctx[op.other], i, width)
        return [ctx.b(metal.Load(ctx[op.base], offset, mask, other, result=type_))]

    return ctx.each(layout.size(REGISTER), width, body)


@lower(tile.LoadTile)
def lower_load_tile(ctx: Lowering, op: tile.LoadTile) -> Sequence[Value]:
    layout = tile_layout(op.result)
    width = access_width(ctx, op, layout)
    type_ = metal.registers(width, op.result.type.element)
    access = block_addresses(ctx, op, layout, width)

    def body(i: Number) -> Sequence[Value]:
        offset, mask = access(i)
        other = None if mask is None else ctx.constant(0, type_)
        return [ctx.b(metal.Load(ctx[op.base], offset, mask, other, result=type_))]

    return ctx.each(layout.size(REGISTER), width, body)


@lower(tile.Store)
def lower_store(ctx: Lowering, op: tile.Store) -> Sequence[Value]:
    if not isinstance(op.value.type, Tile):
        mask = ctx.both(ctx.holder(None), None if op.mask is None else ctx[op.mask])
        ctx.b.insert(metal.Store(ctx[op.base], ctx[op.offset], ctx[op.value], mask))
        return ()
    layout = tile_layout(op.value)
    width = access_width(ctx, op, layout)
    _store(ctx, op, layout, width, lambda i: _explicit_access(ctx, op, i, width))
    return ()


@lower(tile.StoreTile)
def lower_store_tile(ctx: Lowering, op: tile.StoreTile) -> Sequence[Value]:
    layout = tile_layout(op.value)
    width = access_width(ctx, op, layout)
    _store(ctx, op, layout, width, block_addresses(ctx, op, layout, width))
    return ()


def _store(
    ctx: Lowering,
    op: tile.Store | tile.StoreTile,
    layout: LinearLayout,
    width: int,
    access: Callable[[Number], AddressMask],
) -> None:
    """Store each element once, though several threads may hold it."""
    holder = ctx.holder(layout)
    surplus = layout.free_bits()[REGISTER]

    def body(i: Number) -> Sequence[Value]:
        offset, mask = access(i)
        mask = ctx.both(holder, mask)
        if surplus:
            first = ctx.times(i, width)
            spare = ctx.compare(Predicate.EQ, ctx.mask(first, surplus), 0)
            mask = ctx.both(spare, mask)
        ctx.b.insert(metal.Store(ctx[op.base], offset, ctx.part(ctx[op.value], i, width), mask))
        return ()

    ctx.each(layout.size(REGISTER), width, body)


def _explicit_access(
    ctx: Lowering, op: tile.Load | tile.Store, i: Number, width: int
) -> AddressMask:
    """The offset and mask that the program gives for each element."""

    def first_of(value: Value) -> Value:
        return ctx.take(ctx.part(ctx[value], i, width), [0])

    return first_of(op.offset), None if op.mask is None else first_of(op.mask)


def block_addresses(
    ctx: Lowering, op: tile.TileAccess, layout: LinearLayout, width: int
) -> Callable[[Number], AddressMask]:
    """A function from the number of an access to its offset and mask within a block."""
    type_ = op.index_type
    skip = width.bit_length() - 1
    base: Number = 0
    starts: list[Number] = []  # along each axis, the index of the thread's first element
    steps: list[Sequence[int]] = []
    overlapping = []
    for axis, (offset, stride) in enumerate(zip(op.offsets, op.strides, strict=True)):
        lanes, groups = axis_images(layout, LANE, axis), axis_images(layout, SIMDGROUP, axis)
        own = axis_images(layout, REGISTER, axis)[skip:]
        threads = [*lanes, *groups]
        thread = ctx.thread_part(lanes, groups)
        start = scalar_number(ctx, offset)
        overlap = any(a & b for a in threads for b in own)
        overlapping.append(thread if overlap else None)
        first = start if overlap else ctx.add(start, _as_dtype(ctx, thread, type_), type_)
        starts.append(first)
        steps.append(own)
        base = ctx.add(base, ctx.times(first, scalar_number(ctx, stride), type_), type_)
    checks = [_bound_checks(op, axis, size, ctx.sums) for axis, size in enumerate(layout.shape)]

    def access(i: Number) -> AddressMask:
        offset, mask = base, None
        for axis, (start, own, thread) in enumerate(zip(starts, steps, overlapping, strict=True)):
            step = ctx.linear_form(i, own)
            if thread is not None:
                step = ctx.xor(thread, step)
            step = _as_dtype(ctx, step, type_)
            offset = ctx.add(
                offset, ctx.times(step, scalar_number(ctx, op.strides[axis]), type_), type_
            )
            index = ctx.add(start, step, type_) if any(checks[axis]) else 0
            below, above = checks[axis]
            if below:
                mask = ctx.both(mask, ctx.compare(Predicate.GE, ctx.value(index, type_), 0))
            if above:
                bound = scalar_number(ctx, op.bounds[axis])
                mask = ctx.both(mask, ctx.compare(Predicate.LT, ctx.value(index, type_), bound))
        address = ctx.value(offset, type_)
        if op.limit is not None:
            mask = ctx.both(mask, ctx.compare(Predicate.LT, address, ctx[op.limit]))
        return address, mask

    return access


def _as_dtype(ctx: Lowering, x: Number, type_: DType) -> Number:
    return x if isinstance(x, int) else ctx.value(x, type_)


def scalar_number(ctx: Lowering, value: Value) -> Number:
    """A scalar, as a Python integer if it is a constant."""
    bits = constant_bits(value)
    if bits is None:
        return ctx[value]
    high = value.type.element.high
    return bits if bits <= high else bits - 2 * (high + 1)


def _bound_checks(op: tile.TileAccess, axis: int, size: int, sums: Sums) -> tuple[bool, bool]:
    """Whether an index must be compared with 0, and with its bound."""
    start, bound = sums.scalar(op.offsets[axis]), sums.scalar(op.bounds[axis])
    below = start is None or not is_nonnegative(start)
    above = True
    if start is not None and bound is not None:
        room = plus(bound, start, -1)
        above = bool(room.keys() - {()}) or room.get((), 0) < size
    return below, above
