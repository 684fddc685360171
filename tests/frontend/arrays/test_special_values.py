"""Functions of arrays at special values, against NumPy in 64 bits: zeros and their signs,
infinities, nan, the ends of domains, the largest and smallest numbers, and ties of rounding."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import iris

Array = npt.NDArray[Any]
F32 = np.finfo(np.float32)
INF = float("inf")

POSITIVE = [
    *(0.0, 1, 0.5, 1.5, 2.5, 2, 3, INF, F32.max, F32.tiny),
    *(0.1, 1e-5, 1e-10, 1e-30, 1e5, 1e10, 1e20, np.pi / 2, np.pi),
    *(1 - F32.epsneg, 1 + F32.eps, 10, 87, 88.7, 89, 104, 126, 127, 128),
    *(0.49999997, 8388607.5, 2.0**14, 2.0**14 + 1, 2.0**23 + 1, 2.0**24, 2.0**31, 2.0**63),
]
VALUES = np.array([*POSITIVE, *[-x for x in POSITIVE], float("nan")], np.float32)
OF_ONE = (
    "negative positive absolute fabs square sign isnan isinf isfinite signbit floor ceil trunc "
    "rint round fix sqrt cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh "
    "arcsin arccos arctan arcsinh arccosh arctanh deg2rad rad2deg modf reciprocal isposinf "
    "isneginf logical_not"
).split()
OF_TWO = (
    "add subtract multiply divide floor_divide remainder fmod divmod maximum minimum fmax fmin "
    "copysign heaviside hypot arctan2 logaddexp logaddexp2 power float_power equal not_equal less "
    "less_equal greater greater_equal logical_and logical_or logical_xor"
).split()
# What is rounded in 32 bits on the way there, as NumPy does it.
ROUNDED = ("floor_divide", "remainder", "fmod", "divmod")
# Which of 0.0 and -0.0 is greater, NumPy does not say.
EITHER_ZERO = ("maximum", "minimum", "fmax", "fmin")
PERIODIC = ("sin", "cos", "tan")


def by_numpy(name: str, arguments: Sequence[Array]) -> list[Array]:
    wide = [x if name in ROUNDED else x.astype(np.float64) for x in arguments]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return listed(getattr(np, name)(*wide))


def listed(results: Any) -> list[Array]:
    return [np.asarray(x) for x in (results if isinstance(results, tuple) else (results,))]


def check(names: Sequence[str], *arguments: Array) -> None:
    @iris.jit
    def every(*given: Any) -> Any:
        return [listed_of(getattr(np, name)(*given)) for name in names]

    def listed_of(results: Any) -> tuple[Any, ...]:
        return results if isinstance(results, tuple) else (results,)

    for name, results in zip(names, every(*arguments, device="interp"), strict=True):
        for found, expected in zip(results, by_numpy(name, arguments), strict=True):
            right = as_numpy(name, found, expected, arguments)
            wrong = [tuple([float(x[i]) for x in arguments]) for i in np.flatnonzero(~right)]
            assert not wrong, (
                f"{name} of {wrong[0]} is {found[~right][0]}, not {expected[~right][0]}"
            )


def as_numpy(name: str, found: Array, expected: Array, arguments: Sequence[Array]) -> Array:
    """Where a result is right to a few units in the last place; a zero has its sign."""
    got, wanted = found.astype(np.float64), expected.astype(np.float64)
    with np.errstate(all="ignore"):
        rounded = expected.astype(np.float32)
        allowed = 8 * np.spacing(np.abs(rounded)).astype(np.float64)
        if name.startswith("logaddexp"):  # of which little is left near 0
            allowed += F32.eps * np.fmax(*[abs(x.astype(np.float64)) for x in arguments])
        same = (got == rounded) | (abs(got - wanted) <= allowed)
    if name not in EITHER_ZERO:
        same &= (np.signbit(got) == np.signbit(wanted)) | (rounded != 0)
    if name in PERIODIC:  # of great numbers the period is not known well enough
        same |= abs(arguments[0]) > 1e4
    return same | (np.isnan(got) & np.isnan(wanted))


def test_functions_of_one() -> None:
    check(OF_ONE, VALUES)


@pytest.mark.parametrize("names", [OF_TWO[::2], OF_TWO[1::2]])
def test_functions_of_two(names: list[str]) -> None:
    check(names, np.repeat(VALUES, len(VALUES)), np.tile(VALUES, len(VALUES)))


def test_arccosh_is_nan_below_1() -> None:
    x = -np.geomspace(1e-30, F32.max, 1000).astype(np.float32)
    assert np.isnan(iris.jit(np.arccosh)(x, device="interp")).all()
