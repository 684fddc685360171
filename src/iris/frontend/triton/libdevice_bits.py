"""Functions of libdevice that take numbers apart, or compute with the bits of integers."""

from __future__ import annotations

from typing import Any

from iris.frontend.elementary import copysign
from iris.frontend.language import bitcast
from iris.frontend.triton.arithmetic import remainder as truncated
from iris.frontend.triton.language import abs, maximum, minimum, where, word
from iris.frontend.triton.random import umulhi
from iris.frontend.values import Traced, as_traced, cast, unify
from iris.ir.types import f32, i32, u32, u64

__all__ = [
    *("byte_perm", "hadd", "ilogb", "ldexp", "logb", "mul24", "mulhi", "nextafter", "remainder"),
    *("rhadd", "sad", "scalbn"),
]

_GREATEST = 2.0**127 * (2 - 2.0**-23)
_INF = float("inf")
_SUBNORMALS_RAISED = 25  # to this power of two they are normal


def _power_of_two(n: Any) -> Any:
    """2 to an integer from -126 to 127."""
    return bitcast((n + 127) << 23, f32)


@word
def ldexp(x: Any, n: Any) -> Any:
    """x times 2 to the n, rounded once."""
    found: Any = cast(x, f32)
    left: Any = cast(n, i32)
    for _ in range(2):  # to where one more product is exact, or rounds alone
        up, down = left > 127, left < -126
        by = where(up, 127, where(down, 24 - 126, 0))
        found, left = found * _power_of_two(by), left - by
    return found * _power_of_two(minimum(maximum(left, -126), 127))


scalbn = ldexp


def _exponent(x: Traced) -> Any:
    """The exponent of a number that is neither 0 nor infinite."""
    size: Any = abs(x)
    is_small = size < 2.0**-126
    normal = where(is_small, size * 2.0**_SUBNORMALS_RAISED, size)
    found = (bitcast(normal, i32) >> 23) - 127
    return where(is_small, found - _SUBNORMALS_RAISED, found)


@word
def ilogb(x: Any) -> Any:
    """The exponent of a number: the greatest integer of infinity, the least of 0 and nan."""
    number: Any = cast(x, f32)
    finite = where(number == 0, i32.low, _exponent(number))
    return where(abs(number) == _INF, i32.high, where(number != number, i32.low, finite))


@word
def logb(x: Any) -> Any:
    """The exponent of a number, as a float."""
    number: Any = cast(x, f32)
    finite = where(number == 0, -_INF, cast(_exponent(number), f32))
    return where(abs(number) < _INF, finite, abs(number))


@word
def nextafter(x: Any, y: Any) -> Any:
    """The next f32 after x on the way to y."""
    numbers: Any = [cast(v, f32) for v in unify(x, y)]
    start, end = numbers
    bits: Any = bitcast(start, i32)
    grows: Any = (start < end) == (start > 0)
    stepped = bitcast(where(grows, bits + 1, bits - 1), f32)
    moved = where(start == 0, copysign(2.0**-149, end), stepped)
    return where((start != start) | (end != end), start + end, where(start == end, end, moved))


@word
def remainder(x: Any, y: Any) -> Any:
    """x less the multiple of y that is nearest to it, of two the even one."""
    number, by = [cast(v, f32) for v in unify(x, y)]
    size: Any = abs(by)
    left: Any = abs(number)
    left = where(size <= _GREATEST / 2, truncated(left, size + size), left)
    less = left - size
    nearer = where(less - size >= -less, less - size, less)
    found = where(less > -left, nearer, left) * copysign(1.0, number)
    return where((abs(number) < _INF) & (by == by), found, float("nan"))


@word
def mulhi(x: Any, y: Any) -> Any:
    """The high half of the product of two integers."""
    a, b = unify(x, y)
    if not a.dtype.is_signed:
        return umulhi(a, b)
    unsigned = a.dtype.unsigned
    high: Any = bitcast(umulhi(bitcast(a, unsigned), bitcast(b, unsigned)), a.dtype)
    return high - where(a < 0, b, 0) - where(b < 0, a, 0)


@word
def mul24(x: Any, y: Any) -> Any:
    """The low 32 bits of the product of two integers of 24 bits."""
    operands: Any = unify(x, y)
    a, b = ((v << 8) >> 8 for v in operands)
    return a * b


@word
def hadd(x: Any, y: Any) -> Any:
    """Half the sum of two integers, rounded down."""
    operands: Any = unify(x, y)
    a, b = operands
    return (a & b) + ((a ^ b) >> 1)


@word
def rhadd(x: Any, y: Any) -> Any:
    """Half the sum of two integers, rounded up."""
    operands: Any = unify(x, y)
    a, b = operands
    return (a | b) - ((a ^ b) >> 1)


@word
def sad(x: Any, y: Any, z: Any) -> Any:
    """How far two integers are apart, plus another one."""
    a, b = unify(x, y)
    return cast(maximum(a, b) - minimum(a, b), u32) + cast(z, u32)


@word
def byte_perm(x: Any, y: Any, s: Any) -> Any:
    """Four bytes of eight, by the lower three bits of each digit of s in base 16."""
    words: Any = [cast(bitcast(as_traced(v), u32), u64) for v in (x, y, s)]
    low, high, which = words
    both = low | (high << 32)
    found: Any = None
    for at in range(4):
        byte = ((both >> (((which >> (4 * at)) & 7) * 8)) & 0xFF) << (8 * at)
        found = byte if found is None else found | byte
    return cast(cast(found, u32), i32)
