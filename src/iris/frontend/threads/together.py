"""What the threads of a simdgroup and of a threadgroup do together."""

from __future__ import annotations

from collections.abc import Callable

from iris.errors import ArgumentError, DTypeError
from iris.frontend.language import maximum, minimum, where
from iris.frontend.threads.positions import lane_id, threads_here
from iris.frontend.threads.words import word
from iris.frontend.tracing import current, error_here
from iris.frontend.values import Operand, Traced, as_index, as_traced, cast, constant, emit
from iris.ir import math, metal
from iris.ir.core import Op
from iris.ir.kinds import ReduceKind, identity
from iris.ir.metal import SIMDGROUP_WIDTH, Scope
from iris.ir.types import bf16, bool_, f32, u32


def _existing(x: Operand, otherwise: float) -> Traced:
    """A value, or another one in threads that are not of the grid."""
    value, exists = as_traced(x), current().exists
    return value if exists is None else where(exists, value, constant(otherwise, value.dtype))


@word
def barrier(scope: str = "threadgroup") -> None:
    """Wait for the other threads of the threadgroup, so that each sees what the others wrote to its
    shared memory; with `"device"`, to arrays, too; with `"simdgroup"`, only within simdgroups."""
    scopes = [s.value for s in Scope]
    if scope not in scopes:
        raise error_here(
            ArgumentError, f"a barrier is for one of {', '.join(scopes)}: not {scope!r}"
        )
    threads_here()
    current().insert(metal.Barrier(Scope(scope)))


# Values that lanes give each other.


def _exchange(x: Operand, op: Callable[[Traced], Op]) -> Traced:
    """What another lane has of a value, which goes as one of 32 bits where lanes exchange those."""
    threads_here()
    value = as_traced(x)
    if value.dtype.bits > 32:
        raise error_here(DTypeError, f"lanes exchange values of up to 32 bits, not {value.dtype}")
    carrier = {bool_: u32, bf16: f32}.get(value.dtype, value.dtype)
    return cast(emit(op(cast(value, carrier))), value.dtype)


@word
def simd_shuffle(x: Operand, lane: Operand) -> Traced:
    """The value that a lane of the simdgroup holds; each lane says for itself which."""
    return _shuffled(_existing(x, 0), lane)


def _shuffled(x: Traced, lane: Operand) -> Traced:
    index = as_index(lane)
    return _exchange(x, lambda v: metal.Shuffle(v.value, index.value))


@word
def simd_shuffle_xor(x: Operand, mask: int) -> Traced:
    """The value of the lane whose number is this lane's number xor a mask."""
    _check_number("simd_shuffle_xor", "mask", mask, 1)
    return _shuffled_xor(_existing(x, 0), mask)


def _shuffled_xor(x: Traced, mask: int) -> Traced:
    return _exchange(x, lambda v: metal.ShuffleXor(mask, v.value))


@word
def simd_shuffle_up(x: Operand, delta: Operand) -> Traced:
    """The value of the lane numbered `delta` lower; the lowest lanes keep their own."""
    return _shuffled_up(_existing(x, 0), delta)


def _shuffled_up(x: Traced, delta: Operand) -> Traced:
    lane = lane_id()
    source = lane - delta
    return _shuffled(x, where(source < 0, lane, source))


@word
def simd_shuffle_down(x: Operand, delta: Operand) -> Traced:
    """The value of the lane numbered `delta` higher; the highest lanes keep their own."""
    lane = lane_id()
    source = lane + delta
    return simd_shuffle(x, where(source >= SIMDGROUP_WIDTH, lane, source))


@word
def simd_broadcast(x: Operand, lane: int) -> Traced:
    """The value that one lane holds, the same for all."""
    _check_number("simd_broadcast", "lane", lane, 0)
    return _exchange(_existing(x, 0), lambda v: metal.Broadcast(lane, v.value))


def _check_number(use: str, what: str, number: object, least: int) -> None:
    whole = isinstance(number, int) and not isinstance(number, bool)
    if not whole or not least <= number < SIMDGROUP_WIDTH:  # type: ignore[operator]
        raise error_here(
            ArgumentError,
            f"the {what} of metal.{use} is a number from {least} to {SIMDGROUP_WIDTH - 1}, known "
            f"while tracing, not {number!r}",
        )


def reduced(
    x: Operand,
    combine: Callable[[Traced, Traced], Traced],
    neutral: float,
    width: int = SIMDGROUP_WIDTH,
) -> Traced:
    """What lanes in a row make of their values together, the same for all of these."""
    total, mask = _existing(x, neutral), 1
    while mask < width:
        total = combine(total, _shuffled_xor(total, mask))
        mask *= 2
    return total


@word
def simd_sum(x: Operand) -> Traced:
    """The sum of the lanes' values, the same for all of the simdgroup."""
    return reduced(x, lambda a, b: a + b, 0)


@word
def simd_product(x: Operand) -> Traced:
    """The product of the lanes' values."""
    return reduced(x, lambda a, b: a * b, 1)


@word
def simd_max(x: Operand) -> Traced:
    """The greatest of the lanes' values."""
    value = as_traced(x)
    return reduced(value, maximum, identity(ReduceKind.MAXIMUM, value.dtype))


@word
def simd_min(x: Operand) -> Traced:
    """The least of the lanes' values."""
    value = as_traced(x)
    return reduced(value, minimum, identity(ReduceKind.MINIMUM, value.dtype))


@word
def simd_prefix_inclusive_sum(x: Operand) -> Traced:
    """The sum of the values of this lane and the lower ones."""
    total, delta, lane = _existing(x, 0), 1, lane_id()
    while delta < SIMDGROUP_WIDTH:
        total = where(lane >= delta, total + _shuffled_up(total, delta), total)
        delta *= 2
    return total


@word
def simd_prefix_exclusive_sum(x: Operand) -> Traced:
    """The sum of the values of the lower lanes."""
    shifted = _shuffled_up(simd_prefix_inclusive_sum(x), 1)
    return where(lane_id() == 0, 0, shifted)


@word
def simd_ballot(condition: Operand) -> Traced:
    """A `uint` with a bit for each lane: set where the condition holds."""
    bit = emit(math.Shl(cast(1, u32).value, cast(lane_id(), u32).value))
    return reduced(where(condition, bit, 0), lambda a, b: a | b, 0)


@word
def simd_any(condition: Operand) -> Traced:
    """Whether the condition holds in some lane."""
    return simd_ballot(condition) != 0


@word
def simd_all(condition: Operand) -> Traced:
    """Whether the condition holds in each lane."""
    return simd_ballot(where(condition, False, True)) == 0
