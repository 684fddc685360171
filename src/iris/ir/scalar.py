"""What each shared op means, per dtype, in NumPy: the one definition that folding and every
interpreter use.

Values are NumPy arrays in the `storage` of their dtype.  bf16, which NumPy has not, is kept as
float32 values that are exactly bf16.  Each op rounds to its own dtype once: the exact ones
(`add`, `div`, `sqrt`, ...) in float32, which is wide enough that rounding again to f16 or bf16
gives the right answer; the others from float64.

Nothing here warns: what NumPy would warn of has a value, or is a program error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.ir import math
from iris.ir.control import For, count_of
from iris.ir.core import Facet, Op
from iris.ir.facts import numpy_of
from iris.ir.math import Nowrap, Predicate, element_type
from iris.ir.types import DTYPES, DType, Kind, bf16

Array = npt.NDArray[Any]
Rule = Callable[..., Array]

meaning = Facet("meaning")
trap = Facet("program error")


def storage(dtype: DType) -> np.dtype[Any]:
    """The NumPy dtype that holds values of a dtype."""
    return _STORAGE[dtype]


def evaluate(op: Op, *operands: Array) -> Array:
    """The value of a shared math op, from the values of its operands."""
    with np.errstate(all="ignore"):
        return evaluate_unwarned(op, *operands)


def evaluate_unwarned(op: Op, *operands: Array) -> Array:
    """The same where NumPy ignores all floating-point errors: telling it so for each op takes as
    long as many an op."""
    rule: Rule = meaning[type(op)]
    return np.asarray(rule(op, *operands))  # of 0-d arrays NumPy makes its scalars


def program_errors(op: Op, *operands: Array) -> Iterator[tuple[Array, str]]:
    """For each error the op can make, where it makes it and what it is."""
    rule = trap.get(type(op))
    if rule is not None:
        yield from rule(op, *operands)


@np.errstate(all="ignore")
def round_to(dtype: DType, wide: Array) -> Array:
    """Float values, rounded once to a float dtype, ties to even."""
    if dtype is bf16:
        return _round_bf16(wide)
    return wide.astype(_STORAGE[dtype])


def to_bits(dtype: DType, values: Array) -> Array:
    """The bit patterns of values in storage, as unsigned integers."""
    if dtype is bf16:
        return np.asarray(values.view(np.uint32) >> np.uint32(16), np.uint16)
    if dtype.kind is Kind.BOOL:
        return values.astype(np.uint8)
    return values.view(f"u{dtype.bits // 8}")


def from_bits(dtype: DType, bits: Array) -> Array:
    """The values in storage that bit patterns stand for."""
    if dtype is bf16:
        return np.asarray(bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if dtype.kind is Kind.BOOL:
        return bits.astype(np.bool_)
    return bits.astype(f"u{dtype.bits // 8}").view(_STORAGE[dtype])


_KINDS = {Kind.BOOL: "?", Kind.SIGNED: "i", Kind.UNSIGNED: "u", Kind.FLOAT: "f"}
_STORAGE: dict[DType, np.dtype[Any]] = {
    dtype: np.dtype(_KINDS[dtype.kind] + (str(dtype.bits // 8) if dtype.bits > 1 else ""))
    for dtype in DTYPES.values()
} | {bf16: np.dtype("f4")}


def _round_bf16(wide: Array) -> Array:
    single = np.asarray(wide, np.float32)
    bits = single.view(np.uint32).astype(np.int64)
    if wide.dtype == np.float64:
        # Rounding twice goes wrong only where the first landed on a tie of the second.
        tie = (bits & 0xFFFF) == 0x8000
        short, long = np.abs(single.astype(np.float64)), np.abs(wide)
        bits = bits + (tie & (short < long)) - (tie & (short > long))
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    rounded = np.where(np.isnan(single), (bits & 0xFFFF0000) | 0x400000, rounded)
    return np.asarray(rounded.astype(np.uint32)).view(np.float32)


def _dtype(op: Op, operand: int = 0) -> DType:
    return element_type(op.operands[operand].type).element


@meaning(math.Neg, math.Abs, math.Not, math.Floor, math.Ceil, math.Round)
def _exact(op: Op, x: Array) -> Array:
    """NumPy's result is exact in the storage dtype."""
    return numpy_of(type(op))(x)


@meaning(math.Add, math.Sub, math.Mul, math.Div, math.Mod, math.Sqrt)
@meaning(math.And, math.Or, math.Xor, math.Shl, math.Shr)
def _arithmetic(op: Op, *operands: Array) -> Array:
    """NumPy rounds once to its dtype; it does so to f16 too, by way of float32."""
    found = numpy_of(type(op))(*operands)
    return _round_bf16(found) if _dtype(op) is bf16 else found


@meaning(math.Transcendental)
def _transcendental(op: Op, *operands: Array) -> Array:
    """Computed in float64 and rounded once."""
    return round_to(_dtype(op), in_float64(type(op), *operands))


def in_float64(cls: type[Op], *operands: Array) -> Array:
    """A function of floats before it is rounded."""
    return np.asarray(numpy_of(cls)(*[x.astype(np.float64) for x in operands]))


@meaning(math.FloorDiv)
def _floor_divide(op: Op, lhs: Array, rhs: Array) -> Array:
    dtype = _dtype(op)
    if not dtype.is_float:
        return np.asarray(np.floor_divide(lhs, rhs))
    # NumPy's quotient is off by one where it has no bits to spare, which in float64 it has.
    return round_to(dtype, np.floor_divide(lhs.astype(np.float64), rhs.astype(np.float64)))


@meaning(math.Maximum, math.Minimum, math.MaxNum, math.MinNum)
def _extremum(op: Op, lhs: Array, rhs: Array) -> Array:
    found = numpy_of(type(op))(lhs, rhs)
    if not _dtype(op).is_float:
        return found
    # Of two zeros NumPy gives either one; -0 is less than +0.  Where either may be the result, take
    # the wrong one, to show what needs their order.
    greater = isinstance(op, (math.Maximum, math.MaxNum)) is not op.attributes[0]
    zeros = np.where(np.signbit(lhs) == greater, rhs, lhs)
    return np.where((lhs == 0) & (rhs == 0), zeros, found)


@meaning(math.AssumeDivisible)
def _identity(op: Op, x: Array) -> Array:
    return x


@meaning(math.Fma)
def _fma(op: Op, a: Array, b: Array, c: Array) -> Array:
    # The product is exact in float64.  The sum is rounded to odd there: one bit that says
    # "inexact" keeps the second rounding right.
    product = a.astype(np.float64) * b.astype(np.float64)
    addend = c.astype(np.float64)
    total = product + addend
    back = total - product
    lost = (product - (total - back)) + (addend - back)
    bits = total.view(np.int64)
    inexact = np.isfinite(total) & (lost != 0) & ((bits & 1) == 0)
    toward_zero = np.signbit(lost) != np.signbit(total)
    odd = np.where(inexact, np.where(toward_zero, bits - 1, bits + 1), bits).view(np.float64)
    return round_to(_dtype(op), odd)


_COMPARE: dict[Predicate, Callable[[Array, Array], Array]] = {
    Predicate.EQ: np.equal,
    Predicate.NE: np.not_equal,
    Predicate.LT: np.less,
    Predicate.LE: np.less_equal,
    Predicate.GT: np.greater,
    Predicate.GE: np.greater_equal,
}


@meaning(math.Compare)
def _compare(op: math.Compare, lhs: Array, rhs: Array) -> Array:
    return np.asarray(_COMPARE[op.predicate](lhs, rhs))


@meaning(math.Select)
def _select(op: Op, condition: Array, on_true: Array, on_false: Array) -> Array:
    return np.where(condition, on_true, on_false)


@meaning(math.Cast)
def _cast(op: Op, x: Array) -> Array:
    source, target = _dtype(op), element_type(op.results[0].type).element
    if target.kind is Kind.BOOL:
        return np.asarray(x != 0)
    if target.is_float:
        return round_to(target, x if source.is_float else _wide_integer(x))
    if source.is_float:
        x = np.where(_fits(x, target), x, x.dtype.type(0))
    return x.astype(_STORAGE[target])


def _wide_integer(x: Array) -> Array:
    """Integers as float64, rounded to odd where it has too few bits, so that rounding once more
    is right."""
    wide = x.astype(np.float64)
    if x.dtype.itemsize < 8:
        return wide
    low, last = x.dtype.type(0x7FF), x.dtype.type(0x800)
    odd = np.where(x & low != 0, x & ~low | last, x)
    return np.where(np.abs(wide) < 2**53, wide, odd.astype(np.float64))


@np.errstate(all="ignore")
def _fits(x: Array, target: DType) -> Array:
    """Where floats, their fraction dropped, are in the range of an integer dtype."""
    wide = np.trunc(x.astype(np.float64))
    # high + 1 is a power of two, which float64 has exactly.
    return np.asarray((wide >= target.low) & (wide < float(target.high + 1)))


def beyond_tf32(x: Array) -> Array:
    """Whether numbers of f32 have more bits than tf32 has; nan has not."""
    bits: Array = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return np.asarray((bits & 0x1FFF != 0) & ~np.isnan(x))


@meaning(math.Bitcast)
def _bitcast(op: Op, x: Array) -> Array:
    source, target = _dtype(op), element_type(op.results[0].type).element
    return from_bits(target, to_bits(source, x))


@trap(math.Wrapping)
def _wraps(op: math.Wrapping, *operands: Array) -> Iterator[tuple[Array, str]]:
    if op.nowrap in (Nowrap.FITS, Nowrap.NATURAL):
        says = f"{op.name} with nowrap={op.nowrap.value}"
        yield _does_not_fit(op, *operands), f"{says}, of a result that does not fit {_dtype(op)}"
        if op.nowrap is Nowrap.NATURAL:
            yield _is_negative(*operands), f"{says}, of a negative number"


def _does_not_fit(op: Op, *operands: Array) -> Array:
    """Where the result of integers is out of range, computed with more bits."""
    dtype = _dtype(op)
    if dtype.bits < 64:
        exact = numpy_of(type(op))(*[x.astype(np.int64) for x in operands])
        return np.asarray(exact.astype(_STORAGE[dtype]) != exact)
    exact = numpy_of(type(op))(*[x.astype(object) for x in operands])
    return np.asarray((exact < dtype.low) | (exact > dtype.high), np.bool_)


def _is_negative(*operands: Array) -> Array:
    return np.asarray(reduce(np.logical_or, [x < 0 for x in operands]))


@trap(math.Division)
def _divides_by_zero(op: math.Division, lhs: Array, rhs: Array) -> Iterator[tuple[Array, str]]:
    if _dtype(op).is_integer:
        yield rhs == 0, "integer division by zero"
    if op.natural:
        yield _is_negative(lhs, rhs), f"{op.name} with natural=true, of a negative number"


@trap(For)
def _steps_wrong(op: For, lower: Array, upper: Array, step: Array) -> Iterator[tuple[Array, str]]:
    yield step == 0, "a for loop with a step of zero"
    if op.nowrap:
        end, dtype = _past_the_end(lower, upper, step), _dtype(op)
        outside = np.asarray((end < dtype.low) | (end > dtype.high), np.bool_)
        yield outside, "a for loop with nowrap=true whose last step wraps"


_counts = np.frompyfunc(count_of, 3, 1)


def trips(lower: Array, upper: Array, step: Array) -> npt.NDArray[np.int64]:
    """How often loops run; one that runs longer than 63 bits count never ends."""
    return np.asarray(np.minimum(_counts(lower, upper, step), 2**63 - 1), np.int64)


_past_the_end = np.frompyfunc(
    lambda lower, upper, step: lower + step * count_of(lower, upper, step or 1), 3, 1
)


@trap(math.Shr)
def _shifts_too_far(op: Op, value: Array, amount: Array) -> Iterator[tuple[Array, str]]:
    width = _dtype(op).bits
    outside = (amount < 0) | (amount >= width)
    yield outside, f"shift by an amount outside 0 to {width - 1}"


@trap(math.Shl)
def _loses_bits(op: math.Shl, value: Array, amount: Array) -> Iterator[tuple[Array, str]]:
    yield from _shifts_too_far(op, value, amount)
    yield from _wraps(op, value, np.clip(amount, 0, _dtype(op).bits - 1))


@trap(math.AssumeDivisible)
def _is_not_divisible(op: math.AssumeDivisible, x: Array) -> Iterator[tuple[Array, str]]:
    what = f"%{op.x.name}" if op.x.name else "a number"
    yield x % x.dtype.type(op.divisor) != 0, f"{what} is not divisible by {op.divisor}"


@trap(math.Cast)
def _cast_out_of_range(op: Op, x: Array) -> Iterator[tuple[Array, str]]:
    target = element_type(op.results[0].type).element
    if _dtype(op).is_float and target.is_integer:
        yield ~_fits(x, target), f"a float outside the range of {target}"
