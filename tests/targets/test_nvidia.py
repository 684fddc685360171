"""NVIDIA's GPUs: how exact 16 bits are, and how many simdgroups a core holds."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from iris.cost.occupancy import simdgroups_per_core
from iris.ir import parse
from iris.ir.control import Func
from iris.ir.scalar import from_bits, round_to, to_bits
from iris.ir.types import DType, bf16, f16
from iris.targets.nvidia import H100
from iris.testing import bounds

LEAST = 2.0**-126


def approximated(p: npt.NDArray[np.float32], off: float) -> npt.NDArray[np.float32]:
    """What one instruction makes of powers of 2 at its worst; those of whole numbers are exact."""
    p = np.where(np.abs(p) < LEAST, 0, p)
    factor = np.where(p == np.rint(p), 1, 1 + off)
    found = (np.exp2(p.astype(np.float64)) * factor).astype(np.float32)
    return np.where(found < LEAST, np.float32(0), found)


@pytest.mark.parametrize("dtype", [f16, bf16], ids=str)
@pytest.mark.parametrize("name", ["exp", "exp2"])
@np.errstate(over="ignore", under="ignore", invalid="ignore")
def test_all_exponentials_of_16_bits_are_within_the_bounds(name: str, dtype: DType) -> None:
    module = parse(f"""
    func tile @f(%X: ptr<{dtype}>, %Y: ptr<{dtype}>) {{
      %i: tile<65536xi32> = tile.arange 0
      %x: tile<65536x{dtype}> = tile.load %X, %i
      %y: tile<65536x{dtype}> = {name} %x
      tile.store %Y, %i, %y
      return
    }}
    """)
    (function,) = module
    assert isinstance(function, Func)
    x = from_bits(dtype, np.arange(1 << 16, dtype=np.uint64)).astype(np.float32)
    given, written = (to_bits(dtype, round_to(dtype, v)) for v in (x, np.zeros_like(x)))
    if dtype is f16:
        given, written = (v.astype(np.uint16).view(np.float16) for v in (given, written))
    (errors,) = bounds.run(
        function, (1, 1, 1), (given, written), target=H100, exact_math=False
    ).values()
    right = written if dtype is f16 else from_bits(dtype, written)
    factor = np.float32(1.44269504) if name == "exp" else np.float32(1)
    for off in (-(2.0**-22), 2.0**-22):
        found = round_to(dtype, approximated(x * factor, off).astype(np.float64))
        close = np.abs(found.astype(np.float64) - right.astype(np.float64)) <= errors
        assert (close | (found == right) | (np.isnan(found) & np.isnan(right))).all()
        # And they are what f64 gives, rounded once, of all but few.
        assert (found != right)[~np.isnan(right)].mean() < 1 / 256


@pytest.mark.parametrize(
    ("registers", "warps"),
    [(32, 64), (40, 48), (64, 32), (96, 20), (128, 16), (168, 12), (176, 8), (200, 8), (255, 8)],
)
def test_a_core_holds_as_many_as_nvidias_calculator_says(registers: int, warps: int) -> None:
    """Of its spreadsheet for compute capability 9.0, where nothing but registers is a limit."""
    assert simdgroups_per_core(0, 1, H100, registers) == warps
