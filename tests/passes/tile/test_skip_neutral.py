"""Loops over random masks return the same to the bit when neutral iterations are skipped."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from iris.interp import tile
from iris.ir import Module, parse, verify
from iris.ir.control import Func
from iris.passes import run
from iris.passes.tile.skip_neutral import SkipNeutral
from masked_loops import some_program

Array = npt.NDArray[Any]


def some_numbers(rng: random.Random, *shape: int, special: float) -> Array:
    x = np.random.default_rng(rng.randrange(2**30)).standard_normal(shape).astype(np.float32)
    x[rng.randrange(shape[0]) :: 5] *= 40
    for number in (np.inf, -np.inf, np.nan, 0.0, -0.0):
        if rng.random() < special:
            x[rng.randrange(shape[0]), rng.randrange(shape[1]) :: 7] = number
    return x


def results(module: Module, arguments: list[Any]) -> list[Array]:
    (function,) = module
    assert isinstance(function, Func)
    with np.errstate(all="ignore"):
        return [np.asarray(x) for x in tile.run(function, (5, 1, 1), arguments)]


@pytest.mark.parametrize("seed", range(8))
def test_random_masks(seed: int) -> None:
    rng = random.Random(seed)
    tightened = 0
    for _ in range(60):
        text = some_program(rng)
        before = parse(text)
        after = run(before, "cse,licm")
        tightened += SkipNeutral().run(after)["loops"]
        verify(after)
        # Of a bound that is computed less is known: a condition may be new to it once.
        again = run(after, "skip-neutral")
        assert not SkipNeutral().run(again)["loops"], f"it skips them again and again\n{text}"
        # A product with what is gone may come out as a number; no other does.
        special = 0.0 if "= exp" in text else 0.2
        s, v = some_numbers(rng, 40, 40, special=0.3), some_numbers(rng, 40, 4, special=special)
        arguments = [s, v, rng.choice((40, 40, 37, 0)), rng.randint(-5, 45)]
        for one, other in zip(results(before, arguments), results(after, arguments), strict=True):
            np.testing.assert_array_equal(one, other, text)
            same = np.isnan(one) | (np.signbit(one) == np.signbit(other))
            assert same.all(), text
    assert tightened >= 5


# What may overflow.

COUNT = """
func tile @f returns=[tile<8xf32>](%a: i32, %b: i32) {
  %zero: tile<8xf32> = constant 0.0
  %one: tile<8xf32> = constant 1.0
  %c0: i32 = constant 0
  %c1: i32 = constant 1
  BEFORE
  %y: tile<8xf32> = for BOUNDS (%k: i32, %y_1: tile<8xf32> = %zero) {
    WITHIN
    %left: tile<8xi32> = tile.broadcast %l
    %right: tile<8xi32> = tile.broadcast %r
    %seen: tile<8xbool> = compare PREDICATE %left, %right
    %x: tile<8xf32> = select %seen, %one, %zero
    %y_2: tile<8xf32> = add %y_1, %x
    yield %y_2
  }
  return %y
}
"""
LOWER_OVERFLOWS = (
    """%lower: i32 = add %a, %b
  %upper: i32 = constant -2147483000
  %step: i32 = constant 100
  %r: i32 = constant LIMIT""",
    "%lower, %upper, %step",
)
CASES = {
    "lower bound": (*LOWER_OVERFLOWS, "%l: i32 = add %k, %c0", "ge", -(2**31) + 200),
    "compared, from the lower bound on": (
        *LOWER_OVERFLOWS,
        "%far: i32 = constant -500\n%l: i32 = add %k, %far",
        "ge",
        0,
    ),
    "numbers for a bound": (
        "%upper: i32 = constant 3\n%half: i32 = constant LIMIT\n%all: i32 = constant 1073741824",
        "%c0, %upper, %c1",
        "%l: i32 = mul %k, %half\n%r: i32 = sub %all, %l",
        "le",
        2**29,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_overflow(case: str) -> None:
    before, bounds, within, predicate, limit = CASES[case]
    text = COUNT.replace("BEFORE", before).replace("BOUNDS", bounds).replace("WITHIN", within)
    text = text.replace("PREDICATE", predicate).replace("LIMIT", str(limit))
    assert_same(text, [2**31 - 1, 101])


def test_index_that_counts_down() -> None:
    text = """
func tile @f returns=[tile<8xf32>]() {
  %zero: tile<8xf32> = constant 0.0
  %one: tile<8xf32> = constant 1.0
  %c0: i32 = constant 0
  %c1: i32 = constant 1
  %c10: i32 = constant 10
  %c16: i32 = constant 16
  %down: i32 = constant -1000000000
  %last: i32 = constant -2147483648
  %near: i32 = constant 1200000000
  %y: tile<8xf32> = for %c10, %last, %down (%i: i32, %y_1: tile<8xf32> = %zero) {
    %z: tile<8xf32> = for %c0, %c16, %c1 (%k: i32, %z_1: tile<8xf32> = %y_1) {
      %far: i32 = sub %i, %near
      %right: tile<8xi32> = tile.broadcast %far
      %left: tile<8xi32> = tile.broadcast %k
      %seen: tile<8xbool> = compare le %left, %right
      %x: tile<8xf32> = select %seen, %one, %zero
      %z_2: tile<8xf32> = add %z_1, %x
      yield %z_2
    }
    yield %z
  }
  return %y
}
"""
    assert_same(text, [])


# What is wrongly taken for neutral.

CARRIED = """
func tile @f returns=[tile<8xf32>, tile<8xf32>](%S: ptr<f32>, %n: i32, %end: i32) {
  %c0: i32 = constant 0
  %c1: i32 = constant 1
  %c4: i32 = constant 4
  %c40: i32 = constant 40
  %half: tile<8xf32> = constant 0.5
  %zero: tile<8xf32> = constant 0.0
  %lowest: tile<8xf32> = constant -inf
  %none: tile<8x4xf32> = constant -inf
  %zeros: tile<8x4xf32> = constant 0.0
  %keys: tile<4xi32> = tile.arange 0
  %ends: tile<8x4xi32> = tile.broadcast %end
  %m: tile<8xf32>, %l: tile<8xf32> = for %c0, %n, %c4 (\
%k: i32, %m_1: tile<8xf32> = %lowest, %l_1: tile<8xf32> = %zero) {
    %s: tile<8x4xf32> = tile.load_tile %S, offsets=[%c0, %k], strides=[%c40, %c1], \
bounds=[%c40, %c40]
    %k_1: tile<4xi32> = tile.broadcast %k
    %k_2: tile<4xi32> = add %k_1, %keys
    %k_3: tile<1x4xi32> = tile.expand_dims 0 %k_2
    %at: tile<8x4xi32> = tile.broadcast %k_3
    %seen: tile<8x4xbool> = compare lt %at, %ends
    %x: tile<8x4xf32> = select %seen, %s, %none
    %block: tile<8xf32> = tile.reduce maximum 1 %x
    BODY
    yield %m_2, %l_2
  }
  return %m, %l
}
"""


def test_maxima_with_and_without_a_mask_differ() -> None:
    body = """
    %m_2: tile<8xf32> = maximum %m_1, %block
    %other: tile<8xf32> = tile.reduce maximum 1 %s
    %d: tile<8xf32> = sub %other, %block
    %d_1: tile<8x1xf32> = tile.expand_dims 1 %d
    %d_2: tile<8x4xf32> = tile.broadcast %d_1
    %d_3: tile<8x4xf32> = select %seen, %d_2, %zeros
    %added: tile<8xf32> = tile.reduce sum 1 %d_3
    %kept: tile<8xf32> = mul %l_1, %half
    %l_2: tile<8xf32> = add %kept, %added
"""
    s = some_numbers(random.Random(0), 40, 40, special=0.0)
    assert_same(CARRIED.replace("BODY", body), [s, 40, 6])


def test_nan_that_hides_an_infinity() -> None:
    body = """
    %m_2: tile<8xf32> = maxnum %m_1, %block
    %is_lowest: tile<8xbool> = compare eq %m_2, %lowest
    %finite: tile<8xf32> = select %is_lowest, %zero, %m_2
    %change: tile<8xf32> = sub %m_1, %finite
    %factor: tile<8xf32> = exp %change
    %finite_1: tile<8x1xf32> = tile.expand_dims 1 %finite
    %finite_2: tile<8x4xf32> = tile.broadcast %finite_1
    %less: tile<8x4xf32> = sub %x, %finite_2
    %e: tile<8x4xf32> = exp %less
    %is_nan: tile<8xf32> = sub %finite, %finite
    %most: tile<8xf32> = tile.reduce maxnum 1 %e
    %added: tile<8xf32> = add %most, %is_nan
    %kept: tile<8xf32> = mul %l_1, %factor
    %l_2: tile<8xf32> = add %kept, %added
"""
    s = np.full((40, 40), -np.inf, np.float32)
    s[:, :2] = np.nan, np.inf
    assert_same(CARRIED.replace("BODY", body), [s, 40, 4])


def test_weight_times_what_is_surely_infinite() -> None:
    body = """
    %m_2: tile<8xf32> = maximum %m_1, %block
    %e: tile<8x4xf32> = exp %x
    %terms: tile<8x4xf32> = mul %e, %x
    %added: tile<8xf32> = tile.reduce sum 1 %terms
    %l_2: tile<8xf32> = add %l_1, %added
"""
    s = some_numbers(random.Random(0), 40, 40, special=0.0)
    assert_same(CARRIED.replace("BODY", body), [s, 40, 4])


def assert_same(text: str, arguments: list[Any]) -> None:
    before = parse(text)
    after = run(before, "cse,licm,skip-neutral")
    for one, other in zip(results(before, arguments), results(after, arguments), strict=True):
        np.testing.assert_array_equal(one, other)
