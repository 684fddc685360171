"""Fast math keeps nan and infinity, so masks, neutral elements and tests for nan hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import iris

F32 = np.float32
N = 300


@iris.kernel
def softmax(X, Out, N, BLOCK: iris.constexpr):
    row = iris.program_id(0)
    cols = iris.arange(0, BLOCK)
    x = iris.load(X + row * N + cols, mask=cols < N)
    e = iris.exp(x - iris.max(x))
    iris.store(Out + row * N + cols, e / iris.sum(e), mask=cols < N)


@iris.kernel
def softmax_with_infinity(X, Out, N, BLOCK: iris.constexpr):
    row = iris.program_id(0)
    cols = iris.arange(0, BLOCK)
    x = iris.load(X + row * N + cols, mask=cols < N, other=-float("inf"))
    x = iris.where(cols % 2 == 0, x, -float("inf"))
    e = iris.exp(x - iris.max(x))
    iris.store(Out + row * N + cols, e / iris.sum(e), mask=cols < N)


@iris.kernel
def extremes(X, Out, Places, N, BLOCK: iris.constexpr):
    row = iris.program_id(0)
    cols = iris.arange(0, BLOCK)
    x = iris.load(X + row * N + cols, mask=cols < N)
    iris.store(Out + 4 * row, iris.max(x))
    iris.store(Out + 4 * row + 1, iris.min(x))
    iris.store(Out + 4 * row + 2, iris.max(iris.where(x < 0, x, -float("inf"))))
    iris.store(Out + 4 * row + 3, iris.min(iris.where(x > 100, x, float("inf"))))
    iris.store(Places + 2 * row, iris.argmax(x))
    iris.store(Places + 2 * row + 1, iris.argmin(x))


@iris.kernel
def tell_apart(X, Out, BLOCK: iris.constexpr):
    x = iris.load(X + iris.arange(0, BLOCK))
    infinite = iris.abs(x) == float("inf")
    iris.store(Out + iris.arange(0, BLOCK), iris.where(x != x, 1, iris.where(infinite, 2, 0)))


@iris.kernel
def plain_functions(X, Out, BLOCK: iris.constexpr):
    at = iris.arange(0, BLOCK)
    x = iris.load(X + at)
    iris.store(Out + at, iris.tanh(x))
    iris.store(Out + BLOCK + at, x**3.0)
    iris.store(Out + 2 * BLOCK + at, x % 3.0)
    iris.store(Out + 3 * BLOCK + at, iris.exp(x))


@pytest.fixture(
    params=["interp", "interp:metal", pytest.param("softmetal", marks=[pytest.mark.softmetal])]
)
def device(request: Any) -> str:
    return str(request.param)


def rows(seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(0, 3, (4, N)).astype(F32)


def test_softmax_of_ragged_rows(device: str) -> None:
    x, out = rows(), np.zeros((4, N), F32)
    softmax[4](x, out, N, BLOCK=512, fast_math=True, device=device)
    e = np.exp(x.astype(float) - x.max(1, keepdims=True))
    np.testing.assert_allclose(out, e / e.sum(1, keepdims=True), rtol=2e-5)


def test_masks_of_infinity(device: str) -> None:
    x, out = rows(), np.zeros((4, N), F32)
    softmax_with_infinity[4](x, out, N, BLOCK=512, fast_math=True, device=device)
    kept = np.where(np.arange(N) % 2 == 0, x.astype(float), -np.inf)
    e = np.exp(kept - kept.max(1, keepdims=True))
    np.testing.assert_allclose(out, e / e.sum(1, keepdims=True), rtol=2e-5)


def test_extremes_of_ragged_rows(device: str) -> None:
    x, out, places = rows(), np.zeros((4, 4), F32), np.zeros((4, 2), np.int32)
    extremes[4](x, out, places, N, BLOCK=512, fast_math=True, device=device)
    negative = np.where(x < 0, x, -np.inf).max(1)
    want = np.stack([x.max(1), x.min(1), negative, np.full(4, np.inf)], 1)
    np.testing.assert_array_equal(out, want)
    np.testing.assert_array_equal(places, np.stack([x.argmax(1), x.argmin(1)], 1))


def test_nan_and_infinity_are_told_apart(device: str) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 1], F32)
    out = np.full(4, -1, np.int32)
    tell_apart[1](x, out, BLOCK=4, fast_math=True, device=device)
    assert out.tolist() == [1, 2, 2, 0]


def test_functions_have_values_wherever_they_have_without_fast_math(device: str) -> None:
    x = np.array([-60, -2, 0.5, 50], F32)
    out = np.zeros((4, 4), F32)
    plain_functions[1](x, out, BLOCK=4, fast_math=True, device=device)
    wide = x.astype(float)
    want = np.stack([np.tanh(wide), wide**3, wide % 3, np.exp(wide)])
    np.testing.assert_allclose(out, want.astype(F32), rtol=2e-5)


@pytest.mark.parametrize("function", ["tanh", "pow", "fmod"])
def test_what_is_undefined_in_fast_math_is_precise(function: str) -> None:
    compilation = plain_functions.lower(
        np.zeros(4, F32), np.zeros((4, 4), F32), BLOCK=4, grid=1, fast_math=True
    )
    assert f"precise::{function}(" in compilation.msl
    assert "fast::exp(" in compilation.msl
