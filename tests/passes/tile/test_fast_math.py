"""Fast math: results stay within the bounds of fast math, and special values where they were."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

import iris
from iris.ir import math, tile
from iris.passes.tile.fast_math import FastMath
from iris.testing import agree, preserves, programs
from iris.tools.replay import Program
from support import counts

OPS = [math.Div, math.Exp, math.Mul, math.Neg, math.Add, tile.Dot, tile.Broadcast, tile.Reduce]


@given(programs.tile(ops=OPS, fast_math=True))
def test_results_stay_within_the_bounds(program: Program) -> None:
    preserves(FastMath(), program, rounding=True)


@settings(max_examples=counts(20, 1000))
@given(programs.tile(ops=OPS, dtypes=["f32"], fast_math=True, rounding=True))
def test_metal_ir_stays_within_the_bounds(program: Program) -> None:
    agree(program, simdgroups=(1,))


@iris.kernel
def rows(X, S, Out, N: iris.constexpr):
    i, j = iris.arange(0, N)[:, None], iris.arange(0, N)
    x = iris.load(X + i * N + j)
    s = iris.load(S + iris.arange(0, N))
    iris.store(Out + i * N + j, x / s[:, None])


@iris.kernel
def powers(X, Out, scale, N: iris.constexpr):
    i = iris.arange(0, N)
    x = iris.load(X + i)
    iris.store(Out + i, iris.exp(x * scale) + iris.exp(-x))


def test_quotients_of_infinities_zeros_and_nan_are_those_of_division() -> None:
    special = np.array([0, 1, -3, np.inf, -np.inf, np.nan, 1e-30, 1e30], np.float32)
    x = np.tile(special, (8, 1))
    out = np.empty_like(x)
    rows[1](x, special, out, N=8, fast_math=True, device="interp:metal")
    with np.errstate(all="ignore"):
        expected = x / special[:, None]
    np.testing.assert_allclose(out, expected, rtol=1e-6)


def test_powers_of_infinities_and_nan_are_those_of_exp() -> None:
    x = np.array([0, 1, -3, np.inf, -np.inf, np.nan, 88, -100], np.float32)
    out = np.empty_like(x)
    powers[1](x, out, 0.5, N=8, fast_math=True, device="interp:metal")
    with np.errstate(over="ignore"):
        expected = np.exp(x * np.float32(0.5)) + np.exp(-x)
    np.testing.assert_allclose(out, expected, rtol=1e-5)
