"""The words that translated kernels call, in terms of kernels by thread."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from iris.errors import ArgumentError, LanguageError, PointerError
from iris.frontend import elementary, formulas, language
from iris.frontend.cuda.places import (
    Records,
    SeenElements,
    Struct,
    as_records,
    cell,
    copied,
    copy_bytes,
    field,
    field_place,
    fill,
    moved,
    part,
    part_place,
    record,
    seen_as,
    set_field,
    structure,
    with_part,
)
from iris.frontend.language import bitcast, fma, tile_range, where
from iris.frontend.threads import memory, positions, together
from iris.frontend.threads.memory import Elements, PrivateArray
from iris.frontend.threads.types import MetalType, as_type
from iris.frontend.tracing import Tracer, current, error_here, rules_as
from iris.frontend.values import Traced, as_index, binary, cast, compare, constant, emit
from iris.ir import control, math, metal, scalar
from iris.ir.core import Region, Value
from iris.ir.kinds import ReduceKind, identity
from iris.ir.literal import encode
from iris.ir.math import Predicate, constant_bits
from iris.ir.metal import SIMDGROUP_WIDTH, Scope
from iris.ir.types import DType, Ptr, Threadgroup, bool_, i32, i64, u32, u64

__all__ = [
    "as_records",
    "cell",
    "copied",
    "copy_bytes",
    "field",
    "field_place",
    "fill",
    "part",
    "part_place",
    "record",
    "set_field",
    "structure",
    "with_part",
]

loop_range = tile_range
fused = fma


# Values.


def number(word: str, value: Any) -> Traced:
    """A literal."""
    return constant(value, as_type(word).element)


def convert(word: str, x: Any) -> Traced:
    """A value of another type."""
    return as_type(word)(x)


def select(condition: Any, x: Any, y: Any) -> Any:
    return where(condition, x, y)


def vector(word: str, *parts: Any) -> Traced:
    return as_type(word)(*parts)


def divided(x: Traced, y: Traced) -> Traced:
    """The quotient, towards zero."""
    if x.dtype.is_float:
        return binary(math.Div, x, y)
    quotient = x // y
    if not x.dtype.is_signed:
        return quotient
    is_inexact = (quotient * y != x) & ((x < 0) != (y < 0))
    return where(is_inexact, quotient + 1, quotient)


def remainder(x: Traced, y: Traced) -> Traced:
    """The remainder of that quotient, with the sign of x."""
    return x % y if not x.dtype.is_signed else x - divided(x, y) * y


def shifted_left(x: Traced, by: Traced) -> Traced:
    return binary(math.Shl, x, cast(by, x.dtype))


def shifted_right(x: Traced, by: Traced) -> Traced:
    return binary(math.Shr, x, cast(by, x.dtype))


def negated(condition: Traced) -> Traced:
    return emit(math.Not(condition.value))


def bits_as(word: str, x: Traced) -> Traced:
    return bitcast(x, as_type(word).element)


def ones_of(x: Traced) -> Traced:
    """How many bits are set."""
    x = x - ((x >> 1) & 0x55555555)
    x = (x & 0x33333333) + ((x >> 2) & 0x33333333)
    x = (x + (x >> 4)) & 0x0F0F0F0F
    return cast((x * 0x01010101) >> 24, i32)


def power(x: Traced, y: Traced) -> Traced:
    return emit(math.Pow(x.value, y.value))


UNARY: dict[str, Callable[[Any], Any]] = {
    **{name: getattr(language, name) for name in ("sqrt", "rsqrt", "exp", "exp2", "log", "log2")},
    **{name: getattr(language, name) for name in ("sin", "cos", "tanh", "erf", "floor", "ceil")},
    **{
        name: getattr(elementary, name)
        for name in (
            *("trunc", "sinh", "cosh", "asin", "acos", "atan", "asinh", "acosh", "atanh"),
            *("log10", "log1p", "expm1", "cbrt"),
        )
    },
    "tan": elementary.of_one(formulas.tan),
    "fabs": language.abs,
    "abs": language.abs,
    "rint": language.round,
}


def unary(name: str, x: Traced) -> Traced:
    return UNARY[name](x)  # type: ignore[no-any-return]


def binary_function(name: str, x: Traced, y: Traced) -> Traced:
    return getattr(elementary, name)(x, y)  # type: ignore[no-any-return]


def greatest(x: Traced, y: Traced) -> Traced:
    return language.maximum(x, y)


def least(x: Traced, y: Traced) -> Traced:
    return language.minimum(x, y)


# Where a thread is.

_POSITIONS: dict[str, Callable[[int], Any]] = {
    "threadIdx": positions._thread_in_threadgroup,
    "blockIdx": positions._threadgroup_id,
    "blockDim": positions._threadgroup_size,
    "gridDim": positions._num_threadgroups,
}


def position(name: str, axis: int) -> Traced:
    found = _POSITIONS[name](axis)
    return cast(found, u32) if isinstance(found, Traced) else constant(found, u32)


def rank() -> Traced:
    """The number of the thread in its block."""
    return cast(positions.thread_in_threadgroup(), u32)


def threads() -> Traced:
    return constant(prod(positions.threads_here().size), u32)


# Of tiles of a block: as many threads, one after the other.


def rank_in_tile(size: int) -> Traced:
    return cast(positions.lane_id() % size, u32)


def tile(size: int) -> Traced:
    return cast(positions.thread_in_threadgroup() // size, u32)


def tiles(size: int) -> Traced:
    return constant(-(-prod(positions.threads_here().size) // size), u32)


def width(size: int) -> Traced:
    return constant(size, u32)


def tile_barrier(size: int) -> None:
    warp_barrier()


def tile_ballot(size: int, condition: Traced) -> Traced:
    """A bit for each thread of the tile, the first one's lowest."""
    first = positions.lane_id() // size * size
    bits = binary(math.Shr, ballot(None, condition), cast(first, u32))
    return bits & (u32.high >> SIMDGROUP_WIDTH - size)


def tile_any(size: int, condition: Traced) -> Traced:
    return cast(tile_ballot(size, condition) != 0, i32)


def tile_all(size: int, condition: Traced) -> Traced:
    return cast(tile_ballot(size, negated(_truth(condition))) == 0, i32)


# Memory.

# Of the kernel that is traced, by the variable: CUDA has one of each, wherever it is used.
_MEMORY: WeakKeyDictionary[Tracer, dict[str, Elements]] = WeakKeyDictionary()
DYNAMIC = ""  # the variable that all `extern __shared__` ones are


def array(size: int, word: str) -> Any:
    """An array of the thread's own, of zeros."""
    type_ = as_type(word)
    if type_.width == 1:
        return memory.array(size, type_) if size > 1 else cell(convert(word, 0))
    scalars = memory.array(size * type_.width, _scalar_of(type_))
    return seen_as(scalars, type_)


def _scalar_of(type_: MetalType) -> MetalType:
    return as_type(type_.element)


def make_shared(key: str, name: str, size: int, word: str) -> None:
    """Allocate a variable that the threads of a block share."""
    if size < 1:
        raise error_here(
            ArgumentError,
            "the kernel has extern __shared__ memory: launch it with its bytes, as "
            "kernel[grid, block, bytes](...)",
        )
    made = memory.shared(size, word)
    made.base.name = name  # for those who read of its races
    bind(key, made)


def bind(key: str, memory: Elements) -> None:
    """Note where a variable is."""
    _MEMORY.setdefault(current(), {})[key] = memory


def variable(key: str, word: str) -> Any:
    """Where a variable is; dynamic memory may have several types."""
    return reinterpreted(_MEMORY[current()][key], word)


def index(x: Traced) -> Traced:
    """A number of an element: arrays have no more than 32 bits count, so that others wrap."""
    return cast(x, {u32: i32, u64: i64}.get(x.dtype, x.dtype))


def at(pointer: Any, offset: Traced | None) -> Any:
    """A pointer to an element further on."""
    if offset is None:
        return pointer
    if isinstance(pointer, Records):
        return pointer.moved(index(offset))
    if not isinstance(pointer, Elements):
        if constant_bits(offset.value) == 0:
            return pointer
        return moved(pointer, index(offset))
    return pointer + index(offset)


def volatile(pointer: Any, at: Traced) -> Any:
    """An element that other threads may change meanwhile."""
    if not isinstance(pointer, Elements):
        return pointer[at]
    if isinstance(pointer, SeenElements) or pointer.type.width > 1:
        raise error_here(PointerError, "only scalars of the array's own type can be volatile")
    load = metal.Load(
        pointer.base, pointer.number_of(at).value, volatile=True, result=pointer.type.element
    )
    return emit(load)


def either(condition: Traced, pointer: Any, other: Any) -> Any:
    """One of two pointers, into one array."""
    both = isinstance(pointer, Elements) and isinstance(other, Elements)
    if not both or pointer.base is not other.base or pointer.type is not other.type:
        raise error_here(PointerError, "a pointer leads into one array, whatever the condition")
    here, there = [
        constant(0, i32) if one.offset is None else as_index(one.offset) for one in (pointer, other)
    ]
    return pointer.at(where(condition, here, there))


def distance(pointer: Any, other: Any) -> Traced:
    """How many elements after another a pointer is, in the same memory."""
    both = isinstance(pointer, Elements) and isinstance(other, Elements)
    if not both or pointer.base is not other.base or pointer.type is not other.type:
        raise error_here(PointerError, "pointers are compared only within one array")
    here, there = [
        constant(0, i64) if one.offset is None else cast(one.offset, i64)
        for one in (pointer, other)
    ]
    return here - there


def reinterpreted(pointer: Any, word: str) -> Any:
    """A pointer to the same memory, of another type."""
    new = as_type(word)
    if isinstance(pointer, Records):
        first = pointer.number * (pointer.size // pointer.memory.type.element.bytes)
        return reinterpreted(pointer.memory.at(first), word)
    if not isinstance(pointer, Elements):
        return seen_as(pointer, new)
    old = pointer.type
    if old.name == new.name and not isinstance(pointer, SeenElements):
        return pointer
    base, offset = pointer.base, pointer.offset
    if offset is not None and new.stride * new.element.bytes != old.stride * old.element.bytes:
        pointer = pointer.at(_rescaled(offset, old, new))
    held = base.type.element
    if isinstance(base.type, Ptr) and held is not new.element:
        return seen_as(pointer, new)
    if held is not new.element:
        base = _viewed(pointer, new.element)
    return Elements(base, pointer.name, new, is_const=pointer.is_const, offset=pointer.offset)


def _viewed(pointer: Elements, element: DType) -> Any:
    whole = pointer.base.type
    assert isinstance(whole, Threadgroup)
    with rules_as(PointerError):
        part = Threadgroup(whole.bytes // element.bytes, element)
        return current().emit(metal.View(0, pointer.base, part))


def _rescaled(offset: Traced, old: MetalType, new: MetalType) -> Traced:
    """An offset in elements of another size, which must be whole."""
    size, other = old.stride * old.element.bytes, new.stride * new.element.bytes
    number = offset * size
    message = f"the pointer is not aligned to {other} bytes, as {new.name} is"
    current().insert(metal.Assert(message, (number % other == 0).value))
    return number // other


# What threads do together.


def barrier() -> None:
    """For both memories, as CUDA's."""
    together.barrier("device")


def warp_barrier(mask: Any = None) -> None:
    _all_lanes(mask)
    current().insert(metal.Barrier(Scope.SIMDGROUP))


def fence() -> None:
    """Before it and after it, for other blocks."""
    current().insert(metal.Fence())


def _all_lanes(mask: Traced | None) -> None:
    if mask is not None and _known(mask.value) != encode(u32.high, u32):
        raise error_here(
            LanguageError, "all lanes take part: the mask is 0xffffffff, known while compiling"
        )


def _known(value: Value) -> int | None:
    """The bits of a value, if it is made of constants."""
    op = value.op
    if not isinstance(op, math.Elementwise) or not isinstance(value.type, DType):
        return constant_bits(value)
    numbers = []
    for operand in op.operands:
        bits = _known(operand)
        if bits is None or not isinstance(operand.type, DType):
            return None
        numbers.append(scalar.from_bits(operand.type, np.asarray(bits)))
    return int(scalar.to_bits(value.type, scalar.evaluate(op, *numbers)))


def _segment(width: Traced | None) -> Traced | int:
    """How many lanes exchange values among each other: a number that a launch checks if tracing
    does not know it."""
    if width is None:
        return SIMDGROUP_WIDTH
    known, message = constant_bits(width.value), "the width is a power of two, up to 32"
    if known is None:
        size = cast(width, i32)
        is_right = (size >= 1) & (size < SIMDGROUP_WIDTH + 1) & ((size & (size - 1)) == 0)
        current().insert(metal.Assert(message, is_right.value))
        return size
    if known.bit_count() != 1 or known > SIMDGROUP_WIDTH:
        raise error_here(LanguageError, message)
    return known


def shuffle(
    how: str, mask: Traced | None, x: Traced, by: Traced, width: Traced | None = None
) -> Traced:
    """The value of another lane: `idx`, `up`, `down` or `xor`, within segments of a width."""
    _all_lanes(mask)
    size, me, by = _segment(width), positions.lane_id(), cast(by, i32)
    first = me - me % size
    if how == "idx":
        return together.simd_shuffle(x, first + by % size)
    if how == "xor":
        return together.simd_shuffle(x, _within(binary(math.Xor, me, by), me, first, size))
    return together.simd_shuffle(x, _within(me + by if how == "down" else me - by, me, first, size))


def from_lane(x: Any, by: int) -> Any:
    """What the lane has whose number differs in one bit; of a struct, each field."""
    if isinstance(x, Struct):
        return Struct({name: from_lane(value, by) for name, value in x.fields.items()})
    if isinstance(x, PrivateArray):
        return PrivateArray(from_lane(x.value, by))
    return together.simd_shuffle_xor(x, by)


def _within(source: Traced, me: Traced, first: Traced, size: Traced | int) -> Traced:
    """A lane of the segment, or the own one."""
    return where((source >= first) & (source < first + size), source, me)


def ballot(mask: Traced | None, condition: Traced) -> Traced:
    _all_lanes(mask)
    return together.simd_ballot(_truth(condition))


def any_lane(mask: Traced | None, condition: Traced) -> Traced:
    return cast(ballot(mask, condition) != 0, i32)


def every_lane(mask: Traced | None, condition: Traced) -> Traced:
    _all_lanes(mask)
    return cast(together.simd_all(_truth(condition)), i32)


def _truth(x: Traced) -> Traced:
    return x if x.dtype is bool_ else x != 0


_COMBINED: dict[str, Callable[[Traced, Traced], Traced]] = {
    "Add": lambda x, y: x + y,
    "Max": language.maximum,
    "Min": language.minimum,
    "And": lambda x, y: binary(math.And, x, y),
    "Or": lambda x, y: binary(math.Or, x, y),
    "Xor": lambda x, y: binary(math.Xor, x, y),
    "Exch": lambda x, y: y,
}
#: How tiles combine values, and what leaves these as they are.
REDUCTIONS: dict[str, tuple[str, Callable[[DType], float]]] = {
    "plus": ("Add", lambda dtype: 0),
    "less": ("Min", lambda dtype: identity(ReduceKind.MINIMUM, dtype)),
    "greater": ("Max", lambda dtype: identity(ReduceKind.MAXIMUM, dtype)),
    "bit_and": ("And", lambda dtype: -1 if dtype.is_signed else dtype.high),
    "bit_or": ("Or", lambda dtype: 0),
    "bit_xor": ("Xor", lambda dtype: 0),
}


def reduced(size: int, how: str, x: Traced) -> Traced:
    """What the threads of a tile make of their values together."""
    combined, neutral = REDUCTIONS[how]
    return together.reduced(x, _COMBINED[combined], neutral(x.dtype), size)


# Atomics.

ATOMICS = {
    "Add": memory.atomic_add,
    "Max": memory.atomic_max,
    "Min": memory.atomic_min,
    "And": memory.atomic_and,
    "Or": memory.atomic_or,
    "Xor": memory.atomic_xor,
    "Exch": memory.atomic_exchange,
}


def _check_memory(pointer: Any) -> None:
    if not isinstance(pointer, Elements):
        message = "atomics are of arrays and __shared__ variables, not of a thread's own"
        raise error_here(PointerError, message)


def atomic(how: str, pointer: Any, value: Traced) -> Traced:
    _check_memory(pointer)
    if how == "Sub":
        how, value = "Add", -value
    if isinstance(pointer, SeenElements):
        return _of_seen(pointer, lambda old: _COMBINED[how](old, cast(value, old.dtype)))
    return ATOMICS[how](pointer, value)


def _of_seen(pointer: SeenElements, combine: Callable[[Traced], Traced]) -> Traced:
    """Exchange an element that is seen as of another type, until no other thread interferes."""
    held, seen = _held(pointer), pointer.type.element

    def exchanged(old: Traced) -> Traced:
        return bitcast(combine(bitcast(old, seen)), held.type.element)

    target, offset = memory._place(held, "atomic")
    return bitcast(memory.retried(target, offset, exchanged), seen)


def _held(pointer: SeenElements) -> Elements:
    """The same elements, of the type that they have in memory."""
    held = pointer.base.type.element
    if held.bits != pointer.type.element.bits or pointer.type.width > 1:
        raise error_here(PointerError, f"an array of {held} has no atomics of {pointer.type.name}")
    type_ = as_type(held)
    return Elements(
        pointer.base, pointer.name, type_, is_const=pointer.is_const, offset=pointer.offset
    )


def compare_exchange(pointer: Any, expected: Traced, value: Traced) -> Traced:
    """Put a value where the expected one is; give the one that was there.  The hardware may fail
    for no reason: that is retried."""
    _check_memory(pointer)
    if isinstance(pointer, SeenElements):
        held = _held(pointer)
        words = [bitcast(x, held.type.element) for x in (expected, value)]
        return bitcast(compare_exchange(held, *words), pointer.type.element)
    target, offset = memory._place(pointer, "atomicCAS")
    types = (bool_, target.dtype)
    condition, body = Region(None, types), Region(None, types)
    with current().builder.inside(condition):
        current().insert(control.Yield([condition.arguments[0]]))
    with current().builder.inside(body):
        tried = metal.CompareExchange(target.base, offset.value, expected.value, value.value)
        current().insert(tried)
        is_equal = compare(Predicate.EQ, Traced(tried.old), expected)
        again = emit(math.And(emit(math.Not(tried.done)).value, is_equal.value))
        current().insert(control.Yield([again.value, tried.old]))
    start = (constant(True, bool_).value, expected.value)
    loop = control.While.create(start, ((),), types, (condition, body))
    return Traced(current().insert(loop).results[1])
