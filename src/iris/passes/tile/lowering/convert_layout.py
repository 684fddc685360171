"""Convert layouts: move elements between threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iris.ir import math, metal, tile
from iris.ir.core import Value
from iris.ir.layout.convert import Conversion, Movement, convert
from iris.ir.layout.linear import LANE, REGISTER, SIMDGROUP, LinearLayout
from iris.ir.layout.scratch import Scratch, scratch
from iris.ir.math import element_type
from iris.ir.types import (
    Kind,
    Threadgroup,
    bf16,
    bool_,
    i16,
    i64,
    u16,
    u32,
    u64,
)
from iris.passes.metal.index_arithmetic import Number
from iris.passes.tile.lowering.context import Lowering, lower, tile_layout


@lower(tile.ConvertLayout)
def lower_convert_layout(ctx: Lowering, op: tile.ConvertLayout) -> Sequence[Value]:
    return [convert_layout(ctx, ctx[op.x], tile_layout(op.x), tile_layout(op.result))]


def convert_layout(ctx: Lowering, x: Value, source: LinearLayout, target: LinearLayout) -> Value:
    """Convert a value from one layout to another."""
    conversion = convert(source, target)
    if conversion.movement is Movement.NOTHING:
        return x
    if conversion.through_memory:
        return convert_through_memory(ctx, x, source, target)
    return _convert_by_shuffles(ctx, x, conversion)


# Between the lanes of a simdgroup.


def _convert_by_shuffles(ctx: Lowering, x: Value, conversion: Conversion) -> Value:
    """Shuffle each register from the lane that a linear map of this lane's number gives.

    The register to read there may depend on the reading lane, too; then all candidates are read,
    and one is selected.
    """
    pull = conversion.pull
    wanted, lanes = (
        ctx.value(ctx.thread_part(_images(pull, LANE, to), _images(pull, SIMDGROUP, to)))
        for to in (0, 1)
    )
    in_place = conversion.movement is Movement.REGISTERS or (
        conversion.xor and not any(_images(pull, SIMDGROUP, 1))
    )
    # Registers from lanes at one distance are shuffled together.
    distances: dict[int, list[int]] = {}
    for register in range(pull.size(REGISTER)):
        _, lane, _ = pull.apply(register=register, lane=0, simdgroup=0)
        distances.setdefault(lane, []).append(register)
    parts, order = [], []
    for distance, members in distances.items():
        sources = [pull.apply(register=r, lane=0, simdgroup=0)[0] for r in members]
        selected = x  # until the first version, which a lane keeps unless it wants another
        for version in _register_differences(pull):
            y = ctx.take(x, [s ^ version for s in sources])
            if not in_place:
                y = shuffle(ctx, y, ctx.value(ctx.xor(lanes, distance)))
            elif distance:
                y = shuffle_xor(ctx, y, distance)
            if version:
                right = ctx.compare(math.Predicate.EQ, wanted, version)
                y = ctx.b(math.Select(right, y, selected))
            selected = y
        parts.append(selected)
        order += members
    return join_registers(ctx, parts, order)


def _images(pull: LinearLayout, dim: str, coordinate: int) -> list[int]:
    return [image[coordinate] for image in pull.images(dim)]


def _register_differences(pull: LinearLayout) -> list[int]:
    """The registers that a lane may read, as differences from that of lane 0; 0 comes first."""
    differences = {0}
    for image in (*_images(pull, LANE, 0), *_images(pull, SIMDGROUP, 0)):
        differences |= {v ^ image for v in differences}
    return sorted(differences)


def join_registers(ctx: Lowering, parts: Sequence[Value], order: Sequence[int]) -> Value:
    """Join values whose registers have the numbers in `order`."""
    whole = parts[0] if len(parts) == 1 else ctx.b(metal.join(parts))
    return ctx.take(whole, sorted(range(len(order)), key=order.__getitem__))


def shuffle_xor(ctx: Lowering, x: Value, mask: int) -> Value:
    return shuffle_in_words(ctx, x, lambda v: ctx.b(metal.ShuffleXor(mask, v)))


def shuffle(ctx: Lowering, x: Value, lane: Value) -> Value:
    return shuffle_in_words(ctx, x, lambda v: ctx.b(metal.Shuffle(v, lane)))


def shuffle_in_words(ctx: Lowering, x: Value, shuffle: Callable[[Value], Value]) -> Value:
    """Shuffle a dtype that the hardware may lack, as words of 16 or 32 bits."""
    type_ = element_type(x.type)
    dtype, like = type_.element, type_.with_element
    if dtype.bits == 64:
        whole = x if dtype is u64 else ctx.b(math.Bitcast(x, like(u64)))
        half = ctx.constant(32, like(u64))
        low = shuffle(ctx.b(math.Cast(whole, like(u32))))
        high = shuffle(ctx.b(math.Cast(ctx.b(math.Shr(whole, half)), like(u32))))
        wide = ctx.b(math.Shl(ctx.b(math.Cast(high, like(u64))), half))
        both = ctx.b(math.Or(wide, ctx.b(math.Cast(low, like(u64)))))
        return ctx.b(math.Bitcast(both, like(i64))) if dtype is i64 else both
    if dtype is bf16:
        return ctx.b(math.Bitcast(shuffle(ctx.b(math.Bitcast(x, like(u16)))), type_))
    if dtype is bool_ or dtype.bits == 8:
        carrier = i16 if dtype.kind is Kind.SIGNED else u16
        return ctx.b(math.Cast(shuffle(ctx.b(math.Cast(x, like(carrier)))), type_))
    return shuffle(x)


# Through threadgroup memory.


def convert_through_memory(
    ctx: Lowering, x: Value, source: LinearLayout, target: LinearLayout
) -> Value:
    """Write elements to threadgroup memory in one layout, and read them in another."""
    dtype = x.type.element
    scratch_layout = scratch(source, target, dtype.bytes, ctx.target)
    memory = write_scratch(ctx, x, source, scratch_layout)
    return read_scratch(ctx, memory, target, scratch_layout)


def write_scratch(
    ctx: Lowering,
    x: Value,
    layout: LinearLayout,
    scratch_layout: Scratch,
    owner: int = 0,
) -> Value:
    """Allocate threadgroup memory, and write the elements of a value to it.

    Of the simdgroups with the same elements, `owner` writes.
    """
    dtype = x.type.element
    memory = ctx.b(metal.Alloc(Threadgroup(layout.num_elements, dtype)), "shared")
    # Registers with copies of elements write nothing.
    surplus = layout.free_bits()[REGISTER]
    kept = [r for r in range(layout.size(REGISTER)) if not r & surplus]
    columns = [c for b, c in enumerate(layout.columns_of(REGISTER)) if not surplus >> b & 1]
    vector = scratch_layout.vector(layout)
    images, order = _vector_first(columns, vector)
    value = ctx.take(x, [kept[r] for r in order])
    holder = ctx.holder(layout, owner)
    address = _addresses(ctx, layout, images[len(vector) :], scratch_layout)
    width = 1 << len(vector)

    def write(i: Number) -> Sequence[Value]:
        ctx.b.insert(metal.Store(memory, address(i), ctx.part(value, i, width), holder))
        return ()

    ctx.each(len(order), width, write)
    return memory


def read_scratch(
    ctx: Lowering, memory: Value, layout: LinearLayout, scratch_layout: Scratch
) -> Value:
    """Read elements from threadgroup memory in a layout."""
    vector = scratch_layout.vector(layout)
    images, order = _vector_first(layout.columns_of(REGISTER), vector)
    address = _addresses(ctx, layout, images[len(vector) :], scratch_layout)
    type_ = metal.registers(1 << len(vector), memory.type.element)

    def read(i: Number) -> Sequence[Value]:
        return [ctx.b(metal.Load(memory, address(i), result=type_))]

    registers_read = ctx.each(len(order), metal.count_of(type_), read)[0]
    return ctx.take(registers_read, sorted(range(len(order)), key=order.__getitem__))


def _addresses(
    ctx: Lowering, layout: LinearLayout, registers: Sequence[int], scratch_layout: Scratch
) -> Callable[[Number], Value]:
    """A function from the number of a register to the address of its element."""
    lanes = [scratch_layout.address(c) for c in layout.columns_of(LANE)]
    groups = [scratch_layout.address(c) for c in layout.columns_of(SIMDGROUP)]
    high = [scratch_layout.address(c) for c in registers]
    thread = ctx.thread_part(lanes, groups)
    return lambda i: ctx.value(
        ctx.xor_forms(thread, ctx.linear_form(i, high), [*lanes, *groups], high)
    )


def _vector_first(columns: Sequence[int], vector: Sequence[int]) -> tuple[list[int], list[int]]:
    """Reorder register bits so that those of a vector come first.

    Returns the columns in the new order, and for each register its number in the old one.
    """
    bits = [columns.index(v) for v in vector]
    bits += [b for b in range(len(columns)) if b not in bits]
    order = [0]
    for bit in bits:
        order += [r | 1 << bit for r in order]
    return [columns[b] for b in bits], order
