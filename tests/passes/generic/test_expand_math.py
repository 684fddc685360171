"""Expanding math: how far off its results are, and what it leaves alone."""

from __future__ import annotations

import math as python_math
from textwrap import dedent
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from iris.interp import tile as interp
from iris.ir import Module, math, parse, scalar, verify
from iris.ir.control import Func, Return
from iris.ir.core import Level, Op
from iris.ir.types import DType, Tile, bf16, f16, f32
from iris.passes import run as run_passes
from iris.passes.generic.expand_math import ExpandMath
from support import counts

Array = npt.NDArray[Any]


def expanded(cls: type[Op], dtype: DType, size: int) -> tuple[Op, Func]:
    """An op on tiles, and a function of what becomes of it."""
    type_ = Tile((size,), dtype)
    operands = len(cls.spec.fixed)
    func = Func("f", Level.TILE, [("x", type_), ("y", type_)][:operands], returns=(type_,))
    func.body.append(cls(*func.body.arguments))
    func.body.append(Return(func.body.last.results))
    module = Module([func])
    kept = module.clone()
    verify(module)
    ExpandMath().run(module)
    verify(module)
    assert parse(str(module)) == module
    return next(iter(next(iter(kept)).regions[0])), func


def both(cls: type[Op], dtype: DType, *operands: Array) -> tuple[Array, Array]:
    """What an op gives, and what becomes of it does."""
    size = 1 << (len(operands[0]) - 1).bit_length()
    padded = [np.concatenate([x, np.zeros(size - len(x), x.dtype)]) for x in operands]
    op, func = expanded(cls, dtype, size)
    (found,) = interp.run(func, (1, 1, 1), padded)
    return scalar.evaluate(op, *operands), found[0, : len(operands[0])]


def every(dtype: DType) -> Array:
    """All numbers of 16 bits."""
    return scalar.from_bits(dtype, np.arange(1 << 16, dtype=np.uint64))


def sample(low: float, high: float) -> Array:
    """Numbers of all sizes, dense where there is something to see, and the special ones."""
    count = counts(100_000, 1_000_000)
    rng = np.random.default_rng(0)
    tiny = np.exp2(rng.uniform(-149, 5, count // 4)) * rng.choice((-1, 1), count // 4)
    ends = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3.4e38, -3.4e38, 1e10, -1e10]
    edge = np.nextafter(np.float32(0.927734375), [0, 1, 2], dtype=np.float32)
    parts = (rng.uniform(low, high, count), tiny, ends, edge, -edge)
    return np.concatenate([np.asarray(part, np.float32) for part in parts])


def units(found: Array, right: Array) -> Array:
    """How far numbers in f32 are from the right ones, in units in the last place."""
    unit = np.spacing(np.abs(right).astype(np.float32)).astype(np.float64)
    same = (found == right) | (np.isnan(found) & np.isnan(right))
    with np.errstate(invalid="ignore"):
        return np.where(same, 0, np.abs(found - right) / unit)


def test_erf_is_within_one_unit() -> None:
    x = sample(-5, 5)
    _, found = both(math.Erf, f32, x)
    right = np.array([python_math.erf(float(number)) for number in x])
    assert units(found.astype(np.float64), right).max() < 1
    assert (np.signbit(found) == np.signbit(x))[x == 0].all()
    assert (np.abs(found[np.isinf(x)]) == 1).all()


def test_sigmoid_is_within_three_units() -> None:
    x = sample(-20, 20)
    _, found = both(math.Sigmoid, f32, x)
    with np.errstate(over="ignore"):
        right = 1 / (1 + np.exp(-x.astype(np.float64)))
    subnormal = np.abs(right) < np.finfo(np.float32).tiny
    assert units(found.astype(np.float64), right)[~subnormal].max() < 3
    assert (found[subnormal] <= np.finfo(np.float32).tiny).all()
    _, found = both(math.Sigmoid, f32, np.linspace(-110, -85, 1000, dtype=np.float32))
    assert (np.diff(found) >= 0).all()  # that exp gives infinity on the way does not show


# For how many of the 65536 numbers of f16 the result in f32 is so close to the middle of two
# that it is rounded to the other one.  Of bf16 there is none.
ROUNDED_TWICE = {math.Erf: 2, math.Sigmoid: 7}


@pytest.mark.parametrize("cls", ROUNDED_TWICE, ids=lambda cls: cls.name)
@pytest.mark.parametrize("dtype", [f16, bf16], ids=str)
def test_sixteen_bits_are_those_of_f64_rounded_once(cls: type[Op], dtype: DType) -> None:
    right, found = both(cls, dtype, every(dtype))
    assert (np.isnan(right) == np.isnan(found)).all()
    one, other = (scalar.to_bits(dtype, y).astype(np.int64) for y in (right, found))
    differ = (one != other) & ~np.isnan(right)
    if cls is math.Sigmoid:  # its subnormals may be 0
        differ &= np.abs(right) >= np.finfo(np.float32).tiny
    assert differ.sum() <= (ROUNDED_TWICE[cls] if dtype is f16 else 0)
    assert (np.abs(one - other)[differ] == 1).all()


def test_products_with_reciprocals_of_powers_of_two_are_the_quotients() -> None:
    x = every(f16)
    for exponent in range(-24, 16):
        for sign in (1, -1):
            c = sign * 2.0**exponent
            module = parse(
                f"func tile @f returns=[tile<65536xf16>](%x: tile<65536xf16>) {{\n"
                f"%c: tile<65536xf16> = constant {c!r}\n%y: tile<65536xf16> = div %x, %c\n"
                "return %y\n}\n"
            )
            (before,) = interp.run(next(iter(module)), (1, 1, 1), [x])
            assert bool(ExpandMath().run(module)) == (-14 <= exponent <= 14)
            (after,) = interp.run(next(iter(module)), (1, 1, 1), [x])
            np.testing.assert_array_equal(before, after)
            assert (np.signbit(before) == np.signbit(after))[before == 0].all()


def test_f32_and_what_is_exact_stay() -> None:
    text = """
func tile @f(%x: f32, %h: f16, %b: tile<8xbf16>, %i: i32) {
  %0: f32 = exp %x
  %1: f32 = pow %x, %0
  %2: f16 = sqrt %h
  %3: f16 = div %h, %2
  %4: tile<8xbf16> = floor %b
  %5: i32 = floordiv %i, %i
  return
}
"""
    module = parse(text)
    assert ExpandMath().run(module) == {}
    assert module == parse(text)


def test_the_example_of_the_docstring() -> None:
    before, _, after = dedent(str(ExpandMath.__doc__).partition("\n\n")[2]).partition("becomes")
    after = after.partition("\n\nIn f32")[0]
    head = "func tile @f returns=[tile<64xf16>](%x: tile<64xf16>) {\n"
    module = parse(f"{head}{before}\nreturn %y\n}}\n")
    assert run_passes(module, "expand-math") == parse(f"{head}{after}\nreturn %y\n}}\n")
