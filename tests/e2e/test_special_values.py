"""Functions at the numbers where they go wrong, on every device, against NumPy in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import iris
from iris.ir.scalar import round_to
from iris.ir.types import DTYPES
from iris.target import ULPS

DEVICES = ["interp", "interp:metal", pytest.param("softmetal", marks=pytest.mark.softmetal)]
INF, NAN = math.inf, math.nan
erf = np.vectorize(math.erf, otypes=[float])

UNARY: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "exp": (iris.exp, np.exp),
    "exp2": (iris.exp2, np.exp2),
    "log": (iris.log, np.log),
    "log2": (iris.log2, np.log2),
    "sqrt": (iris.sqrt, np.sqrt),
    "rsqrt": (iris.rsqrt, lambda x: 1 / np.sqrt(x)),
    "sin": (iris.sin, np.sin),
    "cos": (iris.cos, np.cos),
    "tanh": (iris.tanh, np.tanh),
    "erf": (iris.erf, erf),
    "sigmoid": (iris.sigmoid, lambda x: 1 / (1 + np.exp(-x))),
    "floor": (iris.floor, np.floor),
    "ceil": (iris.ceil, np.ceil),
    "round": (iris.round, np.round),
    "abs": (iris.abs, np.abs),
}
BINARY: dict[str, tuple[Any, Callable[[Any, Any], Any]]] = {
    "add": (lambda x, y: x + y, np.add),
    "sub": (lambda x, y: x - y, np.subtract),
    "mul": (lambda x, y: x * y, np.multiply),
    "div": (lambda x, y: x / y, np.divide),
    "floordiv": (lambda x, y: x // y, np.floor_divide),
    "mod": (lambda x, y: x % y, np.mod),
    "pow": (lambda x, y: x**y, np.power),
    "maximum": (iris.maximum, np.fmax),
    "minimum": (iris.minimum, np.fmin),
}
OF_INTEGERS: dict[str, tuple[Any, Callable[[Any, Any], Any]]] = {
    "add": (lambda x, y: x + y, np.add),
    "sub": (lambda x, y: x - y, np.subtract),
    "mul": (lambda x, y: x * y, np.multiply),
    "floordiv": (lambda x, y: x // y, np.floor_divide),
    "mod": (lambda x, y: x % y, np.mod),
    "maximum": (iris.maximum, np.maximum),
    "minimum": (iris.minimum, np.minimum),
}


@iris.kernel
def unary(X, Out, B: iris.constexpr):
    at = iris.arange(0, B)
    x = iris.load(X + at)
    for i, (function, _) in enumerate(UNARY.values()):
        iris.store(Out + i * B + at, function(x))


@iris.kernel
def binary(X, Y, Out, B: iris.constexpr):
    at = iris.arange(0, B)
    x, y = iris.load(X + at), iris.load(Y + at)
    for i, (function, _) in enumerate(BINARY.values()):
        iris.store(Out + i * B + at, function(x, y))


@iris.kernel
def of_integers(X, Y, Out, B: iris.constexpr):
    at = iris.arange(0, B)
    x, y = iris.load(X + at), iris.load(Y + at)
    for i, (function, _) in enumerate(OF_INTEGERS.values()):
        iris.store(Out + i * B + at, function(x, y))


def specials(dtype: Any) -> Any:
    """Zeros, infinities, nan, the least and the greatest, edges of domains, and huge arguments."""
    info = np.finfo(dtype)
    positive = [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, math.pi, 12.0, 44.5, 88.7, 89.0, 104.0]
    positive += [float(info.tiny), float(info.smallest_subnormal), float(info.max), float(info.eps)]
    positive += [min(1e30, float(info.max) / 3), min(2.0**24, float(info.max) / 2), INF]
    values = [sign * v for v in positive for sign in (1, -1)] + [NAN]
    return np.array(values + [1.0] * (64 - len(values)), dtype)


def check(name: str, ulps: float, got: Any, want: Any, dtype: Any, *operands: Any) -> None:
    """A result is as far from the truth as it may be, in units of its last place."""
    want = np.asarray(want)
    rounded = round_to(DTYPES[{2: "f16", 4: "f32"}[np.dtype(dtype).itemsize]], want)
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    with np.errstate(all="ignore"):
        space = np.spacing(np.abs(rounded)).astype(float)
        near = np.abs(got.astype(float) - want) <= ulps * space
        near |= (np.abs(want) < np.finfo(dtype).tiny) & (got == 0)  # subnormals may be flushed
    wrong = np.flatnonzero(~(same | near))
    cases = [(*[float(x[i]) for x in operands], float(got[i]), float(want[i])) for i in wrong[:5]]
    assert not wrong.size, f"{name}: {len(wrong)} wrong, such as (operands, is, must be) {cases}"


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_functions_of_one_number(dtype: Any, device: str) -> None:
    x = specials(dtype)
    out = np.zeros((len(UNARY), len(x)), dtype)
    unary[1](x, out, B=len(x), device=device)
    with np.errstate(all="ignore"):
        for (name, (_, oracle)), got in zip(UNARY.items(), out, strict=True):
            ulps = 0.5 + ULPS.get(name, 0) if dtype == np.float32 else 0.51
            check(name, ulps, got, oracle(x.astype(float)), dtype, x)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_functions_of_two_numbers(dtype: Any, device: str) -> None:
    some = specials(dtype)[:41]
    x, y = (v.reshape(-1) for v in np.meshgrid(some, some))
    pad = 2048 - len(x)
    x, y = np.pad(x, (0, pad), constant_values=1), np.pad(y, (0, pad), constant_values=1)
    out = np.zeros((len(BINARY), len(x)), dtype)
    binary[1](x, y, out, B=len(x), device=device)
    with np.errstate(all="ignore"):
        for (name, (_, oracle)), got in zip(BINARY.items(), out, strict=True):
            ulps = 0.5 + ULPS.get(name, 0) if dtype == np.float32 else 0.51
            check(name, ulps, got, oracle(x.astype(float), y.astype(float)), dtype, x, y)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint16, np.uint32])
def test_integers_at_the_ends_of_their_range(dtype: Any, device: str) -> None:
    info = np.iinfo(dtype)
    some = np.array([info.min, info.min + 1, info.max, info.max - 1, 1, 2, 7, 64], dtype)
    if info.min:
        some = np.concatenate([some, -some[4:]])
    x, y = (v.reshape(-1) for v in np.meshgrid(np.append(some, dtype(0)), some[some != 0]))
    pad = 256 - len(x)
    x, y = np.pad(x, (0, pad), constant_values=1), np.pad(y, (0, pad), constant_values=1)
    out = np.zeros((len(OF_INTEGERS), len(x)), dtype)
    of_integers[1](x, y, out, B=len(x), device=device)
    with np.errstate(all="ignore"):
        for (name, (_, oracle)), got in zip(OF_INTEGERS.items(), out, strict=True):
            np.testing.assert_array_equal(got, oracle(x, y), err_msg=name)
