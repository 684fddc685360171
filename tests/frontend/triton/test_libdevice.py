"""Functions of libdevice against Python's own in f64, and against NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import iris.triton as triton
import iris.triton.language as tl
from iris.errors import LanguageError
from iris.frontend.triton.libdevice import MISSING
from iris.triton.language.extra import libdevice

N = 256
LEVELS = ["interp", pytest.param("softmetal", marks=pytest.mark.softmetal)]
pytestmark = pytest.mark.parametrize("device", LEVELS)


@triton.jit
def applied(xs, out_ptr, FUNCTION: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    operands = ()
    for k in tl.static_range(len(xs)):
        operands += (tl.load(xs[k] + at),)
    tl.store(out_ptr + at, FUNCTION(*operands))


def found(function: Any, *xs: np.ndarray, dtype: Any = np.float32, device: str) -> np.ndarray:
    out = np.empty(N, dtype)
    with np.errstate(all="ignore"):
        applied[(1,)](xs, out, FUNCTION=function, N=N, device=device)
    return out


def floats(*special: float) -> np.ndarray:
    """Of all sizes, with some that are given."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal(N) * 10.0 ** rng.uniform(-37, 37, N)
    x[: len(special)] = special
    return x.astype(np.float32)


def integers(dtype: Any, seed: int) -> np.ndarray:
    info = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(info.min, info.max, N, dtype, endpoint=True)


def inverse_of_erf(x: float) -> float:
    """By bisection."""
    low, high = 0.0, 7.0
    for _ in range(100):
        middle = (low + high) / 2
        below = math.erf(middle) < x if x < 0.5 else math.erfc(middle) > 1 - x
        low, high = (middle, high) if below else (low, middle)
    return low


@pytest.mark.parametrize(
    ("name", "exact", "low", "high"),
    [
        ("erfc", math.erfc, -6, 9),
        ("erfcx", lambda v: math.erfc(v) * math.exp(v * v), -9, 9),
        ("normcdf", lambda v: math.erfc(-v * math.sqrt(0.5)) / 2, -12, 6),
        ("erfinv", lambda v: math.copysign(inverse_of_erf(abs(v)), v), -1 + 2**-24, 1 - 2**-24),
        ("sinpi", lambda v: math.sin(math.pi * (v - 2 * round(v / 2))), -0.5, 0.5),
        ("cospi", lambda v: math.sin(math.pi * (0.5 - abs(v - 2 * round(v / 2)))), 5.5, 6.5),
    ],
)
def test_special_functions(
    name: str, exact: Callable[[float], float], low: float, high: float, device: str
) -> None:
    x = np.linspace(low, high, N).astype(np.float32)
    x = np.clip(x, np.float32(-1 + 2**-24), np.float32(1 - 2**-24)) if name == "erfinv" else x
    x[: N // 4] = np.where(np.abs(x[: N // 4]) < 1, x[: N // 4] * 1e-3, x[: N // 4])
    expected = np.array([exact(float(v)) for v in x])
    normal = np.abs(expected) > 2.0**-126
    given = found(getattr(libdevice, name), x, device=device)
    ulps = np.spacing(np.abs(expected[normal]).astype(np.float32)).astype(float)
    assert (np.abs(given[normal] - expected[normal]) / ulps).max() <= 5


def test_special_functions_at_their_ends(device: str) -> None:
    x = np.zeros(N, np.float32)
    x[:3] = np.inf, -np.inf, np.nan
    for name, ends in (("erfc", (0, 2)), ("erfcx", (0, np.inf)), ("normcdf", (1, 0))):
        given = found(getattr(libdevice, name), x, device=device)[:3]
        np.testing.assert_array_equal(given, [*ends, np.nan])
    x[:4] = -10.5, -100000.3, -1e10, -1e30
    np.testing.assert_array_equal(found(libdevice.erfcx, x, device=device)[:4], np.inf)
    x[:6] = 0.0, -0.0, 2.0, -2.0, -4e9, 3e38
    given = found(libdevice.sinpi, x, device=device)[:6]
    np.testing.assert_array_equal(given, 0)
    np.testing.assert_array_equal(np.signbit(given), np.signbit(x[:6]))


def test_the_remainder_by_nan_or_of_infinity_is_nan(device: str) -> None:
    x, y = np.full(N, 3, np.float32), np.full(N, np.nan, np.float32)
    assert np.isnan(found(libdevice.remainder, x, y, device=device)).all()
    y[:] = 3e38
    y[:4] = np.inf, -np.inf, 2, 0
    x[:] = -np.inf
    assert np.isnan(found(libdevice.remainder, x, y, device=device)).all()
    x[:4] = 1, -1, 2, np.nan
    given = found(libdevice.erfinv, x, device=device)[:4]
    np.testing.assert_array_equal(given, [np.inf, -np.inf, np.nan, np.nan])


def test_parts_of_floats(device: str) -> None:
    x = floats(0, -0.0, np.inf, -np.inf, np.nan)
    y = (x * np.random.default_rng(2).uniform(-2, 2, N)).astype(np.float32)
    y[:8] = 1, 1, 1, 1, 1, 0, np.inf, x[7]
    given = found(libdevice.nextafter, x, y, device=device)
    np.testing.assert_array_equal(given.view(np.int32)[5:], np.nextafter(x, y).view(np.int32)[5:])
    np.testing.assert_array_equal(given, np.nextafter(x, y))
    exponents = found(libdevice.ilogb, x, dtype=np.int32, device=device)
    np.testing.assert_array_equal(exponents[5:], np.frexp(x[5:])[1] - 1)
    least, most = -(2**31), 2**31 - 1
    assert list(exponents[:5]) == [least, least, most, most, least]
    given = found(libdevice.logb, x, device=device)
    np.testing.assert_array_equal(given[:5], [-np.inf, -np.inf, np.inf, np.inf, np.nan])
    np.testing.assert_array_equal(given[5:], exponents[5:])


def test_scaling_rounds_once(device: str) -> None:
    x = np.random.default_rng(3).standard_normal(N).astype(np.float32)
    x[:3] = np.inf, np.nan, 0
    n = np.random.default_rng(4).integers(-300, 300, N).astype(np.int32)
    given = found(libdevice.ldexp, x, n, device=device)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(given, np.ldexp(x, n))


def test_remainders_are_of_the_nearest_multiple(device: str) -> None:
    x, y = floats(5, -5, 3, 1, np.inf, 1, 6), floats(2, 2, 2, 0, 1, np.inf, -4)
    y[16:] = x[16:] * np.random.default_rng(5).uniform(-2, 2, N - 16)
    exact = [
        math.remainder(float(a), float(b)) if np.isfinite(a) and b else math.nan
        for a, b in zip(x, y, strict=True)
    ]
    given = found(libdevice.remainder, x, y, device=device)
    np.testing.assert_array_equal(given, np.array(exact, np.float32))


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.uint64])
def test_high_halves_and_means_of_integers(dtype: Any, device: str) -> None:
    a, b = integers(dtype, 6), integers(dtype, 7)
    pairs = [(int(x), int(y)) for x, y in zip(a, b, strict=True)]
    for function, exact in (
        (libdevice.mulhi, lambda x, y: x * y >> np.iinfo(dtype).bits),
        (libdevice.hadd, lambda x, y: x + y >> 1),
        (libdevice.rhadd, lambda x, y: x + y + 1 >> 1),
    ):
        given = found(function, a, b, dtype=dtype, device=device)
        np.testing.assert_array_equal(given, np.array([exact(x, y) for x, y in pairs], dtype))


def test_integers_of_24_bits_and_bytes(device: str) -> None:
    a, b, c = (integers(np.int32, seed) for seed in (8, 9, 10))
    small_a, small_b = ((v.astype(np.int64) << 40) >> 40 for v in (a, b))
    given = found(libdevice.mul24, a, b, dtype=np.int32, device=device)
    np.testing.assert_array_equal(given, (small_a * small_b).astype(np.int32))
    distance = np.abs(a.astype(np.int64) - b) + (c.astype(np.int64) & 0xFFFF)
    given = found(libdevice.sad, a, b, c & 0xFFFF, dtype=np.uint32, device=device)
    np.testing.assert_array_equal(given, distance.astype(np.uint32))
    both = np.stack([a, b], 1).view(np.uint8)
    picked = [
        [row[(int(s) >> 4 * k) & 7] for k in range(4)] for row, s in zip(both, c, strict=True)
    ]
    given = found(libdevice.byte_perm, a, b, c, dtype=np.int32, device=device)
    np.testing.assert_array_equal(given, np.array(picked, np.uint8).view(np.int32)[:, 0])


def test_rounding_keeps_the_sign_of_zero(device: str) -> None:
    x = floats(-0.0, 0.0, -0.25, 0.25, -0.5, 0.5, -2.5, 2.5, -np.inf)
    given = found(libdevice.round, x, device=device)
    expected = np.copysign(np.floor(np.abs(x.astype(float)) + 0.5), x).astype(np.float32)
    np.testing.assert_array_equal(given.view(np.int32), expected.view(np.int32))


def test_lengths(device: str) -> None:
    rng = np.random.default_rng(11)
    a, b, c, d = (rng.standard_normal(N).astype(np.float32) for _ in range(4))
    a[0], b[0], c[0], d[0] = 1e30, 2e30, -2e30, 4e30
    w, x, y, z = (v.astype(float) for v in (a, b, c, d))
    three, four = np.sqrt(w**2 + x**2 + y**2), np.sqrt(w**2 + x**2 + y**2 + z**2)
    for function, operands, exact in (
        (libdevice.norm3d, (a, b, c), three),
        (libdevice.norm4d, (a, b, c, d), four),
        (libdevice.rnorm3d, (a, b, c), 1 / three),
        (libdevice.rnorm4d, (a, b, c, d), 1 / four),
        (libdevice.rcp_rn, (a,), 1 / w),
    ):
        given = found(function, *operands, device=device)
        np.testing.assert_allclose(given, exact, rtol=5 * 2.0**-23)


@pytest.mark.parametrize("name", MISSING)
def test_what_has_no_formula_is_refused_by_name(name: str, device: str) -> None:
    x = np.ones(N, np.float32)
    with pytest.raises(LanguageError, match=rf"tl\.extra\.libdevice\.{name} is not supported"):
        found(getattr(libdevice, name), x, device=device)
