"""Scattered sums that programs collect in threadgroup memory, against NumPy."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import iris
from iris.compiler.array_compilation import ArrayCompilation
from iris.errors import ParseError, ProgramError, VerifyError
from iris.interp.tile import run
from iris.ir import parse, verify
from iris.runtime.device import Array
from on_metal import METAL

DEVICES = ["interp", "interp:metal", pytest.param(METAL, marks=pytest.mark.metal)]
COUNT = 40_000
RNG = np.random.default_rng(0)


@iris.jit
def added(x: Any, updates: Any, *places: Any) -> Any:
    return x.at[places].add(updates)


def indices(size: int, count: int = COUNT) -> Array:
    return RNG.integers(-size, size, count).astype(np.int32)


def whole(dtype: str, *shape: int) -> Array:
    """Numbers whose sums are exact."""
    return RNG.integers(0, 5, shape).astype(dtype)


CASES: dict[str, tuple[Array, ...]] = {
    "i32": (whole("i4", 256), whole("i4", COUNT), indices(256)),
    "u32": (whole("u4", 64), whole("u4", COUNT), indices(64)),
    "one bin": (whole("i4", 1), whole("i4", COUNT), indices(1)),
    "no power of two": (whole("i4", 37), whole("i4", COUNT), indices(37)),
    "more bins than threads": (whole("i4", 700), whole("i4", COUNT), indices(700)),
    "two axes": (whole("f4", 7, 30), whole("f4", COUNT), indices(7), indices(30)),
    "rows": (whole("f4", 9, 8), whole("f4", COUNT // 8, 8), indices(9, COUNT // 8)),
    "f16": (whole("f2", 10), whole("f2", 5000), indices(10, 5000)),
    "bytes": (whole("u1", 16), whole("u1", COUNT), indices(16)),
}


def expected(x: Array, updates: Array, *places: Array) -> Array:
    copy = x.copy()
    np.add.at(copy, places, updates)
    return copy


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", CASES)
def test_sums_are_exact(name: str, device: str) -> None:
    found = collected(*CASES[name], device=device).run(*CASES[name])
    np.testing.assert_array_equal(found, expected(*CASES[name]))


def collected(*arguments: Array, device: str | None = None) -> ArrayCompilation:
    """The function with a sum that is collected, whether that is chosen or not."""
    lowered = added.lower(*arguments, device=device)
    text = re.sub(
        r"(graph.scatter add .*?)(, collected=true)?$",
        r"\1, collected=true",
        lowered.fused,
        flags=re.M,
    )
    edited = lowered.edited(text)
    assert sum("threadgroup memory" in kernel.why for kernel in edited.kernels) == 1
    return edited


@pytest.mark.parametrize("device", DEVICES)
def test_signs_of_zeros_stay(device: str) -> None:
    x = np.array([-0.0, -0.0, 0.0, np.nan, np.inf, 1], np.float32)
    updates = np.tile(np.array([-0.0, 0.0, -0.0, 1, 1, np.nan], np.float32), 4000)
    places = np.tile(np.arange(6, dtype=np.int32), 4000)
    found = collected(x, updates, places, device=device).run(x, updates, places)
    np.testing.assert_array_equal(found, expected(x, updates, places))
    np.testing.assert_array_equal(np.signbit(found[:3]), [True, False, False])


def test_few_bins_of_many_updates_are_collected() -> None:
    @iris.jit
    def counts(places: Any) -> Any:
        return np.zeros(64, np.int32, like=places).at[places].add(1)

    many, few = indices(64, 1_000_000), indices(64, 30)
    assert "collected=true" in counts.lower(many).fused
    assert "collected=true" not in counts.lower(few).fused
    np.testing.assert_array_equal(counts(many), np.bincount(many % 64, minlength=64))


def test_a_kernel_says_how_it_adds() -> None:
    lines = collected(*CASES["two axes"]).kernels[-1].why.splitlines()
    assert [line.strip() for line in lines[-2:]] == [
        "programs add their updates up in threadgroup memory, in 210 bins",
        "adds the sums in any order, by atomics",
    ]
    few = whole("i4", 256), whole("i4", 10), indices(256, 10)
    assert added.lower(*few).kernels[-1].why.splitlines()[-1].strip() == (
        "adds each update by atomics"
    )


TILE = """
func tile @add(%X: ptr<i32>) {
  %i: tile<64xi32> = tile.arange 0
  %old: tile<64xi32> = tile.atomic add %X, %i, %i, bins=32
  return
}
"""


def test_an_offset_beyond_the_bins_is_an_error() -> None:
    with pytest.raises(ProgramError, match="outside of 32 bins"):
        run(next(iter(parse(TILE))), (1, 1, 1), [np.zeros(64, np.int32)])


def test_the_old_elements_of_a_collected_sum_are_not_known() -> None:
    used = TILE.replace("  return", "  tile.store %X, %i, %old\n  return")
    with pytest.raises(VerifyError, match="bins are for sums whose old elements nobody uses"):
        verify(parse(used))


def test_bins_are_of_32_bits() -> None:
    wide = "%v: tile<64xi64> = cast %i\n  %old: tile<64xi64> = tile.atomic add %X, %i, %v, bins=32"
    text = TILE.replace("ptr<i32>", "ptr<i64>").replace(TILE.splitlines()[3].strip(), wide)
    with pytest.raises(ParseError, match="bins are of 32 bits"):
        parse(text)
