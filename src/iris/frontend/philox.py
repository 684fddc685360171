"""Random numbers of a seed and an offset, by Philox: the same on every device, in any order.

Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (2011).  The numbers are Triton's.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import pi
from typing import Any

from iris.errors import ArgumentError, DTypeError
from iris.frontend.language import bitcast, cos, log, maximum, sin, sqrt, umulhi, where
from iris.frontend.tracing import error_here, word
from iris.frontend.values import Operand, Traced, as_traced, cast, unify
from iris.ir.types import f32, i32, u32, u64

# By the bits of a word: what the two products are made with, and what is added to the keys.
_CONSTANTS = {
    32: ((0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85)),
    64: ((0xD2E7470EE14C6C93, 0xCA5A826395121157), (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)),
}
_ROUNDS = 10
# Of the greatest word of 31 bits a float below 1.
_SCALE = 4.6566127342e-10
_LEAST = 1.0e-7  # of which the logarithm is taken

Words = tuple[Traced, Traced, Traced, Traced]


@word
def philox(
    seed: Operand, c0: Operand, c1: Operand, c2: Operand, c3: Operand, n_rounds: int = _ROUNDS
) -> Words:
    """Four random words, of the bits of the counters, for each counter of four words."""
    if isinstance(n_rounds, bool) or not isinstance(n_rounds, int):
        raise error_here(ArgumentError, f"n_rounds is an int, not {n_rounds!r}")
    counters = unify(c0, c1, c2, c3)
    dtype = counters[0].dtype
    if not dtype.is_integer or dtype.bits not in _CONSTANTS:
        raise error_here(DTypeError, f"counters are integers of 32 or 64 bits, not {dtype}")
    unsigned = u32 if dtype.bits == 32 else u64
    key: Any = cast(seed, u64)
    keys: Sequence[Any] = (key, cast(0, u64))
    if unsigned is u32:
        keys = cast(key, u32), cast(key >> 32, u32)
    return rounds([cast(c, unsigned) for c in counters], keys, n_rounds)


def rounds(words: Sequence[Any], keys: Sequence[Any], n_rounds: int) -> Words:
    """What becomes of a counter of four words by two keys."""
    (a, b), steps = _CONSTANTS[words[0].dtype.bits]
    for _ in range(n_rounds):
        x, y, z, w = words
        words = umulhi(z, b) ^ y ^ keys[0], z * b, umulhi(x, a) ^ w ^ keys[1], x * a
        keys = [k + step for k, step in zip(keys, steps, strict=True)]
    x, y, z, w = words
    return x, y, z, w


@word
def randint4x(seed: Operand, offset: Operand, n_rounds: int = _ROUNDS) -> Words:
    """Four random u32 for each offset."""
    counter: Any = as_traced(offset)
    low = cast(counter, u32)
    high = cast(counter >> 32, u32) if counter.dtype.bits == 64 else 0
    return philox(seed, low, high, 0, 0, n_rounds)


@word
def randint(seed: Operand, offset: Operand, n_rounds: int = _ROUNDS) -> Traced:
    """A random u32 for each offset."""
    return randint4x(seed, offset, n_rounds)[0]


@word
def rand4x(seed: Operand, offset: Operand, n_rounds: int = _ROUNDS) -> Words:
    """Four random f32 from 0 up to 1 for each offset."""
    x, y, z, w = randint4x(seed, offset, n_rounds)
    return uniform(x), uniform(y), uniform(z), uniform(w)


@word
def rand(seed: Operand, offset: Operand, n_rounds: int = _ROUNDS) -> Traced:
    """A random f32 from 0 up to 1 for each offset."""
    return uniform(randint(seed, offset, n_rounds))


@word
def randn4x(seed: Operand, offset: Operand, n_rounds: int = _ROUNDS) -> Words:
    """Four random f32 for each offset, normally distributed."""
    x, y, z, w = rand4x(seed, offset, n_rounds)
    return *normals(x, y), *normals(z, w)


@word
def randn(seed: Operand, offset: Operand, n_rounds: int = _ROUNDS) -> Traced:
    """A random f32 for each offset, normally distributed."""
    x, y, _, _ = rand4x(seed, offset, n_rounds)
    return normals(x, y)[0]


def uniform(x: Traced) -> Traced:
    """An f32 from 0 up to 1, of a u32."""
    signed: Any = bitcast(x, i32)
    folded: Any = where(signed < 0, ~signed, signed)
    return cast(folded * _SCALE, f32)


def normals(x: Any, y: Any) -> tuple[Traced, Traced]:
    """Two independent numbers, normally distributed, of two uniform ones, by Box and Muller."""
    size: Any = sqrt(log(maximum(x, _LEAST)) * -2.0)
    angle = y * (2 * pi)
    return size * cos(angle), size * sin(angle)
