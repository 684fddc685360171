"""Words that take a formula, against NumPy in 64 bits: everywhere within the ulps that
docs/language.md states, and at the special values as NumPy has them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import iris
from iris.errors import ArgumentError

Array = npt.NDArray[Any]
B = 1024
OF_ONE = "log1p expm1 log10 cbrt atan asin acos sinh cosh asinh acosh atanh trunc".split()
OF_TWO = ("atan2", "hypot", "copysign")
TESTS = ("isnan", "isinf", "isfinite")
SPECIAL = [
    *(0.0, 1, 0.5, 2, 80, 88.7, 89.4, 89.5, 104, np.inf, np.nan, 2**-149, 1.1754942e-38),
    *(1.1754944e-38, 3.4028235e38, 1 - 2**-24, 1 + 2**-23, 2.0**14, 2.0**23 + 1, 2.0**24),
]
PAGE = (Path(__file__).parents[2] / "docs/language.md").read_text()
ULPS = {name: int(n) for name, n in re.findall(r"`iris\.(\w+)(?:\([^`]*\))?` (\d)", PAGE)}


@iris.kernel
def functions(X, Y, Out, Tests, N: iris.constexpr, BLOCK: iris.constexpr):
    at = iris.program_id(0) * BLOCK + iris.arange(0, BLOCK)
    x, y = iris.load(X + at), iris.load(Y + at)
    for k, name in enumerate(OF_ONE):
        iris.store(Out + k * N + at, getattr(iris, name)(x))
    for k, name in enumerate(OF_TWO):
        iris.store(Out + (len(OF_ONE) + k) * N + at, getattr(iris, name)(x, y))
    for k, name in enumerate(TESTS):
        iris.store(Tests + k * N + at, getattr(iris, name)(x))


def operands(size: int) -> tuple[Array, Array]:
    """Bits of any numbers, numbers near 0, near 1 and up to it, and special ones."""
    random = np.random.default_rng(0)

    def some() -> Array:
        bits = random.integers(0, 2**32, size, np.uint32).view(np.float32)
        signs = random.choice([-1, 1], size)
        near_0 = signs * np.exp(random.uniform(-20, 5, size))
        near_1 = 1 + signs * np.exp(random.uniform(-17, 0, size))
        return np.concatenate([bits, near_0, near_1, random.uniform(-1, 1, size)])

    listed = np.array([*SPECIAL, *[-x for x in SPECIAL]])
    pairs = np.repeat(listed, len(listed)), np.tile(listed, len(listed))
    x, y = (np.concatenate([pair, some()]) for pair in pairs)
    full = -(-len(x) // B) * B
    return np.resize(x, full).astype(np.float32), np.resize(y, full).astype(np.float32)


def of_numpy(name: str, *arguments: Array) -> Array:
    """What NumPy has, which writes `arc` for `a`."""
    name = name if hasattr(np, name) and not name.startswith("a") else "arc" + name[1:]
    found: Array = getattr(np, name)(*[x.astype(np.float64) for x in arguments])
    return found


def distance(found: Array, expected: Array) -> Array:
    """How far from each other, in units in the last place; of another kind or sign, infinite."""
    rounded = expected.astype(found.dtype).astype(np.float64)
    exact = found.astype(np.float64)
    unit = np.spacing(np.abs(expected.astype(found.dtype))).astype(np.float64)
    error = np.abs(exact - expected) / unit
    same = ((exact == rounded) & np.isinf(exact)) | (np.isnan(exact) & np.isnan(expected))
    zeros = (exact == 0) & (rounded == 0) & (np.signbit(exact) != np.signbit(expected))
    return np.where(same, 0, np.where(zeros | ~np.isfinite(error), np.inf, error))


def check(dtype: Any, device: str, size: int) -> None:
    with np.errstate(all="ignore"):
        x, y = (values.astype(dtype) for values in operands(size))
        out = np.empty((len(OF_ONE) + len(OF_TWO), len(x)), dtype)
        tests = np.empty((len(TESTS), len(x)), np.bool_)
        functions[len(x) // B](x, y, out, tests, N=len(x), BLOCK=B, device=device)
        for name, found in zip((*OF_ONE, *OF_TWO), out, strict=True):
            expected = of_numpy(name, *((x, y) if name in OF_TWO else (x,)))
            error = distance(found, expected)
            worst = int(error.argmax())
            allowed = ULPS.get(name, 0) if dtype is np.float32 else 0.501
            assert error[worst] <= allowed, (name, x[worst], y[worst], found[worst])
        for name, found in zip(TESTS, tests, strict=True):
            assert (found == of_numpy(name, x)).all()


def test_every_bound_is_stated() -> None:
    assert {*OF_ONE, *OF_TWO} - ULPS.keys() == {"trunc", "copysign"}


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_within_the_stated_ulps(dtype: Any) -> None:
    check(dtype, "interp", 4000)


def test_compiled() -> None:
    check(np.float32, "interp:metal", 100)


@iris.kernel
def of_integers(X, Out, BLOCK: iris.constexpr):
    x = iris.load(X + iris.arange(0, BLOCK))
    found = [iris.asinh(x), iris.hypot(x, 2 * x), iris.log1p(1.0)]
    for k, value in enumerate([*found, iris.trunc(x), iris.isfinite(x), iris.isnan(x)]):
        iris.store(Out + k * BLOCK + iris.arange(0, BLOCK), value.to(iris.f32))


def test_integers_give_f32() -> None:
    x, out = np.array([-3, 0, 1, 7], np.int32), np.empty((6, 4), np.float32)
    of_integers[1](x, out, BLOCK=4)
    expected = [np.arcsinh(x), np.hypot(x, 2 * x), np.log1p(np.ones(4)), x, x == x, x != x]
    np.testing.assert_allclose(out, expected, rtol=4 * 2.0**-24)


@iris.kernel
def too_few(X):
    iris.store(X, iris.atan2(iris.load(X)))


def test_a_wrong_call() -> None:
    with pytest.raises(ArgumentError, match=r"write iris\.atan2\(y, x\)"):
        too_few[1](np.zeros(1, np.float32))
