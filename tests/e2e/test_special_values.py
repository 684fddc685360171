"""Functions at the numbers where they go wrong, on every device, against NumPy in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import iris
from iris.ir.scalar import round_to
from iris.ir.types import DTYPES
from iris.targets.target import ULPS

DEVICES = ["interp", "interp:metal", pytest.param("softmetal", marks=pytest.mark.softmetal)]
INF, NAN = math.inf, math.nan
erf = np.vectorize(math.erf, otypes=[float])

NAMES = {np.float32: "f32", np.float16: "f16", ml_dtypes.bfloat16: "bf16"}

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
    "neg": (lambda x: -x, np.negative),
}
BINARY: dict[str, tuple[Any, Callable[[Any, Any], Any]]] = {
    "add": (lambda x, y: x + y, np.add),
    "sub": (lambda x, y: x - y, np.subtract),
    "mul": (lambda x, y: x * y, np.multiply),
    "div": (lambda x, y: x / y, np.divide),
    "floordiv": (lambda x, y: x // y, np.floor_divide),
    "mod": (lambda x, y: x % y, np.mod),
    "pow": (lambda x, y: x**y, np.power),
    "fma": (lambda x, y: iris.fma(x, y, x), lambda x, y: x * y + x),
    "maximum": (iris.maximum, np.fmax),
    "minimum": (iris.minimum, np.fmin),
    "lt": (lambda x, y: iris.where(x < y, x, 2), lambda x, y: np.where(x < y, x, 2)),
    "ge": (lambda x, y: iris.where(x >= y, x, 2), lambda x, y: np.where(x >= y, x, 2)),
    "eq": (lambda x, y: iris.where(x == y, x, 2), lambda x, y: np.where(x == y, x, 2)),
    "ne": (lambda x, y: iris.where(x != y, x, 2), lambda x, y: np.where(x != y, x, 2)),
}
SHIFTS: dict[str, tuple[Any, Callable[[Any, Any], Any]]] = {
    "shl": (lambda x, y: x << y, np.left_shift),
    "shr": (lambda x, y: x >> y, np.right_shift),
    "and": (lambda x, y: x & y, np.bitwise_and),
    "or": (lambda x, y: x | y, np.bitwise_or),
    "xor": (lambda x, y: x ^ y, np.bitwise_xor),
    "not": (lambda x, y: ~x, lambda x, y: ~x),
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


@iris.kernel
def shifts(X, Y, Out, B: iris.constexpr):
    at = iris.arange(0, B)
    x, y = iris.load(X + at), iris.load(Y + at)
    for i, (function, _) in enumerate(SHIFTS.values()):
        iris.store(Out + i * B + at, function(x, y))


def specials(dtype: Any) -> Any:
    """Zeros, infinities, nan, the least and the greatest, edges of domains, and huge arguments."""
    info = ml_dtypes.finfo(dtype)
    positive = [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, math.pi, 12.0, 44.5, 88.7, 89.0, 104.0]
    positive += [float(info.tiny), float(info.smallest_subnormal), float(info.max), float(info.eps)]
    positive += [min(1e30, float(info.max) / 3), min(2.0**24, float(info.max) / 2), INF]
    values = [sign * v for v in positive for sign in (1, -1)] + [NAN]
    return np.array(values + [1.0] * (64 - len(values)), dtype)


def check(name: str, ulps: float, got: Any, want: Any, dtype: Any, *operands: Any) -> None:
    """A result is as far from the truth as it may be, in units of its last place."""
    want = np.asarray(want)
    got, info = got.astype(float), ml_dtypes.finfo(dtype)
    rounded = round_to(DTYPES[NAMES[dtype]], want).astype(float)
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    with np.errstate(all="ignore"):
        size = np.maximum(np.abs(np.where(np.isinf(rounded), NAN, rounded)), float(info.tiny))
        space = np.exp2(np.floor(np.log2(size))) * float(info.eps)
        near = np.abs(got - want) <= ulps * space
        near |= (np.abs(want) < float(info.tiny)) & (got == 0)  # subnormals may be flushed
    wrong = np.flatnonzero(~(same | near))
    cases = [(*[float(x[i]) for x in operands], float(got[i]), float(want[i])) for i in wrong[:5]]
    assert not wrong.size, f"{name}: {len(wrong)} wrong, such as (operands, is, must be) {cases}"


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", list(NAMES))
def test_functions_of_one_number(dtype: Any, device: str) -> None:
    x = specials(dtype)
    out = np.zeros((len(UNARY), len(x)), dtype)
    unary[1](x, out, B=len(x), device=device)
    with np.errstate(all="ignore"):
        for (name, (_, oracle)), got in zip(UNARY.items(), out, strict=True):
            ulps = 0.5 + ULPS.get(name, 0) if dtype == np.float32 else 0.51
            check(name, ulps, got, oracle(x.astype(float)), dtype, x)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", list(NAMES))
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


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint64])
def test_shifts_by_all_that_there_are(dtype: Any, device: str) -> None:
    info = np.iinfo(dtype)
    some = np.array([info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 85], dtype)
    x, y = (v.reshape(-1) for v in np.meshgrid(some, np.arange(64, dtype=dtype) % info.bits))
    out = np.zeros((len(SHIFTS), len(x)), dtype)
    shifts[1](x, y, out, B=len(x), device=device)
    for (name, (_, oracle)), got in zip(SHIFTS.items(), out, strict=True):
        np.testing.assert_array_equal(got, oracle(x, y), err_msg=name)
