"""Moving elements between threads: conversions of layout."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iris.ir import math, metal, tile
from iris.ir.core import Value
from iris.ir.layout.convert import Conversion, Movement, convert
from iris.ir.layout.linear import LANE, REGISTER, SIMDGROUP, LinearLayout
from iris.ir.layout.scratch import Scratch, scratch
from iris.ir.math import element_type
from iris.ir.types import (
    DType,
    Kind,
    Registers,
    Threadgroup,
    bf16,
    bool_,
    i16,
    i64,
    u16,
    u32,
    u64,
)
from iris.passes.metal.numbers import Number
from iris.passes.tile.lowering.context import Lowering, lower, tile_layout


@lower(tile.ConvertLayout)
def convert_layout(at: Lowering, op: tile.ConvertLayout) -> Sequence[Value]:
    return [move(at, at[op.x], tile_layout(op.x), tile_layout(op.result))]


def move(at: Lowering, x: Value, source: LinearLayout, target: LinearLayout) -> Value:
    """A value held in one layout, in another."""
    conversion = convert(source, target)
    if conversion.movement is Movement.NOTHING:
        return x
    if conversion.through_memory:
        return through_memory(at, x, source, target)
    return _between_lanes(at, x, conversion)


# Between the lanes of a simdgroup.


def _between_lanes(at: Lowering, x: Value, conversion: Conversion) -> Value:
    """Each register is read from a lane that is this lane's number under a linear map, and there
    from a register that depends on the reading lane, too: all that it may be are read, and the
    right one selected."""
    pull = conversion.pull
    wanted, lanes = (
        at.value(at.thread_part(_images(pull, LANE, to), _images(pull, SIMDGROUP, to)))
        for to in (0, 1)
    )
    in_place = conversion.movement is Movement.REGISTERS or (
        conversion.xor and not any(_images(pull, SIMDGROUP, 1))
    )
    # Registers that are read from lanes at the same distance are read together.
    distances: dict[int, list[int]] = {}
    for register in range(pull.size(REGISTER)):
        _, lane, _ = pull.apply(register=register, lane=0, simdgroup=0)
        distances.setdefault(lane, []).append(register)
    parts, order = [], []
    for distance, members in distances.items():
        sources = [pull.apply(register=r, lane=0, simdgroup=0)[0] for r in members]
        found: Value | None = None
        for version in _versions(pull):
            y = at.take(x, [s ^ version for s in sources])
            if not in_place:
                y = shuffle(at, y, at.value(at.xor(lanes, distance)))
            elif distance:
                y = shuffle_xor(at, y, distance)
            if found is not None:
                right = at.compare(math.Predicate.EQ, wanted, version)
                y = at.b(math.Select(right, y, found))
            found = y
        assert found is not None
        parts.append(found)
        order += members
    return joined(at, parts, order)


def _images(pull: LinearLayout, dim: str, coordinate: int) -> list[int]:
    return [image[coordinate] for image in dict(pull.bases)[dim]]


def _versions(pull: LinearLayout) -> list[int]:
    """The registers, as differences, that a lane may want in the place of the first one's."""
    found = {0}
    for image in (*_images(pull, LANE, 0), *_images(pull, SIMDGROUP, 0)):
        found |= {v ^ image for v in found}
    return sorted(found)


def joined(at: Lowering, parts: Sequence[Value], order: Sequence[int]) -> Value:
    """Values that together have the registers numbered in `order`, as one."""
    whole = parts[0] if len(parts) == 1 else at.b(metal.Join(parts))
    return at.take(whole, sorted(range(len(order)), key=order.__getitem__))


def shuffle_xor(at: Lowering, x: Value, mask: int) -> Value:
    return exchange(at, x, lambda v: at.b(metal.ShuffleXor(mask, v)))


def shuffle(at: Lowering, x: Value, lane: Value) -> Value:
    return exchange(at, x, lambda v: at.b(metal.Shuffle(v, lane)))


def exchange(at: Lowering, x: Value, shuffle: Callable[[Value], Value]) -> Value:
    """What shuffling gives, of a dtype that the hardware may not shuffle: it does those of 16 and
    32 bits."""
    type_ = element_type(x.type)
    dtype = type_.element

    def like(other: DType) -> Registers | DType:
        changed = type_.with_element(other)
        assert isinstance(changed, (Registers, DType))
        return changed

    if dtype.bits == 64:
        whole = x if dtype is u64 else at.b(math.Bitcast(x, like(u64)))
        half = at.constant(32, like(u64))
        low = shuffle(at.b(math.Cast(whole, like(u32))))
        high = shuffle(at.b(math.Cast(at.b(math.Shr(whole, half)), like(u32))))
        wide = at.b(math.Shl(at.b(math.Cast(high, like(u64))), half))
        both = at.b(math.Or(wide, at.b(math.Cast(low, like(u64)))))
        return at.b(math.Bitcast(both, like(i64))) if dtype is i64 else both
    if dtype is bf16:
        return at.b(math.Bitcast(shuffle(at.b(math.Bitcast(x, like(u16)))), type_))
    if dtype is bool_ or dtype.bits == 8:
        carrier = i16 if dtype.kind is Kind.SIGNED else u16
        return at.b(math.Cast(shuffle(at.b(math.Cast(x, like(carrier)))), type_))
    return shuffle(x)


# Through threadgroup memory.


def through_memory(at: Lowering, x: Value, source: LinearLayout, target: LinearLayout) -> Value:
    """Write the elements to threadgroup memory in one layout, and read them in another."""
    dtype = element_type(x.type).element
    place = scratch(source, target, dtype.bytes, at.target)
    memory = write_out(at, x, source, place)
    return read_in(at, memory, target, place)


def write_out(at: Lowering, x: Value, layout: LinearLayout, place: Scratch) -> Value:
    """New threadgroup memory, in which the elements of a value are."""
    dtype = element_type(x.type).element
    memory = at.b(metal.Alloc(Threadgroup(layout.num_elements, dtype)), "shared")
    # Registers of no element of their own write nothing.
    surplus = layout.free_bits()[REGISTER]
    kept = [r for r in range(layout.size(REGISTER)) if not r & surplus]
    columns = [c for b, c in enumerate(layout.columns_of(REGISTER)) if not surplus >> b & 1]
    vector = place.vector(layout)
    images, order = _vector_first(columns, vector)
    value = at.take(x, [kept[r] for r in order])
    holder = at.holder(layout)
    address = _addresses(at, layout, images[len(vector) :], place)
    width = 1 << len(vector)

    def write(i: Number) -> Sequence[Value]:
        at.b.insert(metal.Store(memory, address(i), at.part(value, i, width), holder))
        return ()

    at.each(len(order), width, write)
    return memory


def read_in(at: Lowering, memory: Value, layout: LinearLayout, place: Scratch) -> Value:
    """The elements that threadgroup memory holds, in a layout."""
    assert isinstance(memory.type, Threadgroup)
    vector = place.vector(layout)
    images, order = _vector_first(layout.columns_of(REGISTER), vector)
    address = _addresses(at, layout, images[len(vector) :], place)
    type_ = metal.registers(1 << len(vector), memory.type.element)

    def read(i: Number) -> Sequence[Value]:
        return [at.b(metal.Load(memory, address(i), result=type_))]

    found = at.each(len(order), metal.count_of(type_), read)[0]
    return at.take(found, sorted(range(len(order)), key=order.__getitem__))


def _addresses(
    at: Lowering, layout: LinearLayout, registers: Sequence[int], place: Scratch
) -> Callable[[Number], Value]:
    """Where the elements are that a thread has, by the number of a register."""
    lanes = [place.address(c) for c in layout.columns_of(LANE)]
    groups = [place.address(c) for c in layout.columns_of(SIMDGROUP)]
    high = [place.address(c) for c in registers]
    thread = at.thread_part(lanes, groups)
    return lambda i: at.value(at.join(thread, at.form(i, high), [*lanes, *groups], high))


def _vector_first(columns: Sequence[int], vector: Sequence[int]) -> tuple[list[int], list[int]]:
    """The columns of register bits with those of a vector first; and for each register numbered
    so, its number in the old order."""
    bits = [columns.index(v) for v in vector]
    bits += [b for b in range(len(columns)) if b not in bits]
    order = [0]
    for bit in bits:
        order += [r | 1 << bit for r in order]
    return [columns[b] for b in bits], order
