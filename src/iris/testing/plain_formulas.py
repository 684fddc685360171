"""The words of the tile language whose results are rounded, in NumPy: functions of numbers, each
with how far off it may be, and random numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.ir.types import DType, bf16, f16, f32, u32, u64
from iris.testing.plain_tiles import Plain, Refused, alike, as_plain, common_shape, counting, spread

Array = npt.NDArray[Any]
Formula = tuple[Callable[..., Array], float]  # in f64, and the units that it may be off by
# For each dtype the digits after the first, and the exponents of the least and the greatest number
# with all digits.
_DIGITS: Mapping[DType, tuple[int, int, int]] = {
    f32: (23, -126, 127),
    f16: (10, -14, 15),
    bf16: (7, -126, 127),
}
_ROUNDED_ONCE = 0.501  # of what was computed with more digits


@dataclass(frozen=True)
class Near:
    """Floats that are known up to some error, and which of them count."""

    data: Array  # of f64
    dtype: DType
    counts: Array
    error: Array | float = 0.0

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape

    def holds(self, found: Array) -> bool:
        """Whether what was found is within the error, with the same zeros, infinities and nan;
        lanes that do not count are not looked at."""
        beyond = 2.0 ** (_DIGITS[self.dtype][2] + 1)
        expected = np.clip(self.data, -beyond, beyond)
        finite = np.clip(found.astype(np.float64), -beyond, beyond)
        is_near = np.abs(finite - expected) <= self.error
        is_near &= np.signbit(finite) == np.signbit(expected)
        is_same = np.isinf(found) & (found == self.data)
        is_same |= np.isnan(found) & np.isnan(self.data)
        special = ~np.isfinite(self.data) | (self.data == 0)
        exact = is_same | ((found == 0) & (self.data == 0) & is_near)
        return bool(np.all(np.where(special, exact, is_near)[self.counts]))


def unit(dtype: DType, numbers: Array) -> Array:
    """What the last digit of numbers stands for."""
    digits, least, greatest = _DIGITS[dtype]
    with np.errstate(all="ignore"):
        exponents = np.floor(np.log2(np.abs(numbers)))
    bounded = np.clip(np.nan_to_num(exponents, posinf=greatest), least, greatest)
    return np.asarray(2.0 ** (bounded - digits))


def rounded(x: Plain) -> Near:
    """Floats that have been rounded once, as any device does."""
    return Near(x.data.astype(np.float64), x.dtype, x.counts)


def _erf(x: Array) -> Array:
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x))


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


# Each with the units in the last place that the reference of the language grants it, or the
# interpreters need.
OF_ONE: Mapping[str, Formula] = {
    "exp": (np.exp, 1),
    "exp2": (np.exp2, 1),
    "log": (np.log, 1),
    "log2": (np.log2, 1),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 1),
    "sin": (np.sin, 1),
    "cos": (np.cos, 1),
    "tanh": (np.tanh, 1),
    "erf": (_erf, 1),
    "sigmoid": (_sigmoid, 3),
    "log1p": (np.log1p, 3),
    "expm1": (np.expm1, 5),
    "log10": (np.log10, 3),
    "cbrt": (np.cbrt, 1),
    "atan": (np.arctan, 2),
    "asin": (np.arcsin, 3),
    "acos": (np.arccos, 2),
    "sinh": (np.sinh, 5),
    "cosh": (np.cosh, 2),
    "asinh": (np.arcsinh, 3),
    "acosh": (np.arccosh, 5),
    "atanh": (np.arctanh, 4),
}
OF_TWO: Mapping[str, Formula] = {
    "hypot": (np.hypot, 3),
    "atan2": (np.arctan2, 2),
    "power": (np.power, 1),
}


def near(function: Callable[..., Array], ulps: float) -> Callable[..., Near]:
    """A word that computes in f32, and rounds to what it is given, if that is of floats."""

    def found(*operands: Any) -> Near:
        values = alike(*operands) if len(operands) > 1 else [as_plain(*operands)]
        dtype = values[0].dtype if values[0].dtype.is_float else f32
        exact = np.asarray(function(*[x.to(f32).data.astype(np.float64) for x in values]))
        error = unit(dtype, exact) * (ulps if dtype is f32 else _ROUNDED_ONCE)
        return Near(exact, dtype, counting(*values), error)

    return staticmethod(found)


# Random numbers, by the words of Python.

# By the bits of a word: what the two products are made with, and what is added to the keys.
_CONSTANTS = {
    32: (0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85),
    64: (0xD2E7470EE14C6C93, 0xCA5A826395121157, 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B),
}
_SCALE = np.float32(4.6566127342e-10)
_LEAST = 1e-7
_ERROR_OF_NORMALS = 2.0**-20  # of what an angle loses in f32, for each unit of the size


def _words(x: Plain, shape: tuple[int, ...], bits: int) -> Array:
    """Wrap integers to so many bits."""
    return np.asarray(np.broadcast_to(x.data, shape).astype(object) % (1 << bits), object)


def _integers(*given: Any) -> list[Plain]:
    values = [as_plain(x) for x in given]
    if not all(x.dtype.is_integer for x in values):
        raise Refused("no integers")
    return values


def _uniform(words: Plain) -> Array:
    """From 0 up to 1, in f32; of a negative word, what its bits are turned."""
    signed = words.data.view(np.int32)
    return np.asarray(np.where(signed < 0, ~signed, signed).astype(np.float32) * _SCALE)


class FormulaWords:
    """Names that a kernel finds in `iris`."""

    @staticmethod
    def philox(seed: Any, c0: Any, c1: Any, c2: Any, c3: Any, n_rounds: int = 10) -> Any:
        """Four random words, of the bits of the counters."""
        (key,) = _integers(seed)
        counters = alike(c0, c1, c2, c3)
        _integers(*counters)
        bits = counters[0].dtype.bits
        if bits not in _CONSTANTS:
            raise Refused("no words of 32 or 64 bits")
        shape = common_shape(key, *counters)
        x, y, z, w = (_words(c, shape, bits) for c in counters)
        a = _words(key, shape, 64)
        a, b = (a % (1 << 32), a >> 32) if bits == 32 else (a, a * 0)
        by, other, step, another = _CONSTANTS[bits]
        for _ in range(n_rounds):
            p, q = by * x, other * z
            x, y = (q >> bits) ^ y ^ a, q % (1 << bits)
            z, w = (p >> bits) ^ w ^ b, p % (1 << bits)
            a, b = (a + step) % (1 << bits), (b + another) % (1 << bits)
        counts = counting(*[spread(v, shape) for v in (key, *counters)])
        dtype = u32 if bits == 32 else u64
        return tuple([Plain(np.asarray(v, np.uint64), dtype, counts) for v in (x, y, z, w)])

    @staticmethod
    def randint4x(seed: Any, offset: Any, n_rounds: int = 10) -> Any:
        (given,) = _integers(offset)
        high = given.data.astype(object) >> 32 if given.dtype.bits == 64 else 0 * given.data
        words = given.to(u32), Plain(high % (1 << 32), u32, given.counts)
        return FormulaWords.philox(seed, *words, 0, 0, n_rounds)

    @staticmethod
    def rand4x(seed: Any, offset: Any, n_rounds: int = 10) -> Any:
        drawn = FormulaWords.randint4x(seed, offset, n_rounds)
        return tuple([Near(_uniform(x).astype(np.float64), f32, x.counts) for x in drawn])

    @staticmethod
    def randn4x(seed: Any, offset: Any, n_rounds: int = 10) -> Any:
        """By Box and Muller."""
        drawn = FormulaWords.rand4x(seed, offset, n_rounds)
        pairs = [(drawn[n], drawn[n + 1], turn) for n in (0, 2) for turn in (np.cos, np.sin)]
        normals = []
        for x, y, turn in pairs:
            size = np.sqrt(-2 * np.log(np.maximum(x.data, _LEAST)))
            found = size * turn(2 * math.pi * y.data)
            normals.append(Near(found, f32, x.counts, _ERROR_OF_NORMALS * size))
        return tuple(normals)

    @staticmethod
    def randint(*given: Any) -> Any:
        return FormulaWords.randint4x(*given)[0]

    @staticmethod
    def rand(*given: Any) -> Any:
        return FormulaWords.rand4x(*given)[0]

    @staticmethod
    def randn(*given: Any) -> Any:
        return FormulaWords.randn4x(*given)[0]


for _name, (_function, _ulps) in {**OF_ONE, **OF_TWO}.items():
    setattr(FormulaWords, _name, near(_function, _ulps))
