"""Functions of Triton's libdevice in NumPy, each with how far off it may be."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.ir.types import i32, u32
from iris.testing.plain_formulas import OF_ONE as WORDS_OF_ONE
from iris.testing.plain_formulas import Formula, near
from iris.testing.plain_tiles import Plain, Refused, alike, as_plain, counting

Array = npt.NDArray[Any]
_FAR = 9.0  # from which on a series of erfcx has all digits of f32
_NEAR = 1e-4


def _each(function: Callable[..., float]) -> Callable[..., Array]:
    """A function of Python's, element by element; nan where it has no value."""

    def guarded(*numbers: float) -> float:
        if any(map(math.isnan, numbers)):
            return math.nan
        try:
            return function(*map(float, numbers))
        except (ValueError, ZeroDivisionError):
            return math.nan

    return np.vectorize(guarded, otypes=[np.float64])


def _erfcx(x: float) -> float:
    if x < -26:
        return math.inf
    if x < _FAR:
        return math.erfc(x) * math.exp(x * x)
    inverse = 1 / (2 * x * x)
    series = 1 - inverse * (1 - 3 * inverse * (1 - 5 * inverse * (1 - 7 * inverse)))
    return series / (x * math.sqrt(math.pi))


def _erfinv(x: float) -> float:
    if abs(x) == 1:
        return x * math.inf
    if abs(x) < _NEAR:
        return x * math.sqrt(math.pi) / 2 * (1 + math.pi * x * x / 12)
    share = (1 - abs(x)) / 2  # which has more digits than what is left of 1
    return math.copysign(-NormalDist().inv_cdf(share) / math.sqrt(2), x)


def _half_turns(x: float) -> float:
    return math.remainder(x, 2)


def _sinpi(x: float) -> float:
    left = _half_turns(x)
    left = math.copysign(1 - abs(left), left) if abs(left) > 0.5 else left
    return math.copysign(math.sin(math.pi * left), left if left else x)


def _cospi(x: float) -> float:
    return math.sin(math.pi * (0.5 - abs(_half_turns(x))))


def _rounded(x: float) -> float:
    """Halves away from zero."""
    return math.copysign(math.floor(abs(x) + 0.5), x) if math.isfinite(x) else x


def _next(x: Array, y: Array) -> Array:
    return np.nextafter(x.astype(np.float32), y.astype(np.float32)).astype(np.float64)


#: Each with the units in the last place that it may be off by.
OF_ONE: Mapping[str, Formula] = {
    **{name: WORDS_OF_ONE[name] for name in ("expm1", "log1p", "log10", "cbrt", "tanh")},
    **{name: WORDS_OF_ONE[name] for name in ("asin", "acos", "atan", "sinh", "cosh")},
    **{name: WORDS_OF_ONE[name] for name in ("asinh", "acosh", "atanh")},
    "tan": (np.tan, 3),
    "exp10": (lambda x: 10.0**x, 1),
    "rcbrt": (lambda x: 1 / np.cbrt(x), 2),
    "erfc": (_each(math.erfc), 5),
    "erfcx": (_each(_erfcx), 5),
    "erfinv": (_each(_erfinv), 5),
    "normcdf": (_each(lambda x: math.erfc(-x * math.sqrt(0.5)) / 2), 5),
    "sinpi": (_each(_sinpi), 5),
    "cospi": (_each(_cospi), 5),
    "rcp_rn": (lambda x: 1 / x, 0.501),
    "round": (_each(_rounded), 0),
    "rint": (np.rint, 0),
    "trunc": (np.trunc, 0),
    "saturatef": (lambda x: np.fmin(np.fmax(x, 0), 1), 0),
    "logb": (_each(lambda x: math.frexp(x)[1] - 1 if 0 < abs(x) < math.inf else _end(x)), 0),
}
OF_TWO: Mapping[str, Formula] = {
    "hypot": (np.hypot, 3),
    "atan2": (np.arctan2, 2),
    "rhypot": (lambda x, y: 1 / np.hypot(x, y), 4),
    "fmod": (np.fmod, 0),
    "remainder": (_each(math.remainder), 0),
    "fdim": (lambda x, y: np.where(x <= y, 0.0, x - y), 0.501),
    "nextafter": (_next, 0),
    "copysign": (np.copysign, 0),
}


def _end(x: float) -> float:
    """The exponent of 0 and of infinity."""
    return math.inf if x else -math.inf


def _bits(x: Plain) -> Array:
    """Integers as what they are of 32 bits, unsigned."""
    if x.dtype not in (i32, u32):
        raise Refused("no integers of 32 bits")
    return np.asarray(x.data.astype(np.int64) & 0xFFFFFFFF)


def _of_bits(function: Callable[[int], int]) -> Any:
    def found(x: Any) -> Plain:
        value = as_plain(x)
        return Plain(np.vectorize(function, otypes=[np.int64])(_bits(value)), i32, value.counts)

    return staticmethod(found)


def _of_integers(function: Callable[[int, int, int], int]) -> Any:
    """Of two integers, in as many bits."""

    def found(a: Any, b: Any) -> Plain:
        x, y = alike(a, b)
        if not x.dtype.is_integer or x.dtype.bits < 32:
            raise Refused("no integers of 32 or 64 bits")
        pairs = [v.data.astype(object) for v in (x, y)]
        whole = np.asarray(np.vectorize(function, otypes=[object])(*pairs, x.dtype.bits), object)
        wrapped = np.asarray(whole % (1 << x.dtype.bits), np.uint64)
        return Plain(wrapped, x.dtype, counting(x, y))

    return staticmethod(found)


class Libdevice:
    """The names that a kernel of Triton finds in `libdevice`."""

    popc = _of_bits(lambda x: bin(x).count("1"))
    clz = _of_bits(lambda x: 32 - int(x).bit_length())
    ffs = _of_bits(lambda x: (int(x) & -int(x)).bit_length())
    mulhi = _of_integers(lambda a, b, bits: a * b >> bits)
    hadd = _of_integers(lambda a, b, bits: a + b >> 1)
    rhadd = _of_integers(lambda a, b, bits: a + b + 1 >> 1)


#: Functions of integers, with how many they take.
OF_INTEGERS: Mapping[str, int] = {
    **dict.fromkeys(("popc", "clz", "ffs"), 1),
    **dict.fromkeys(("mulhi", "hadd", "rhadd"), 2),
}
for _name, (_function, _ulps) in {**OF_ONE, **OF_TWO}.items():
    setattr(Libdevice, _name, near(_function, _ulps))
