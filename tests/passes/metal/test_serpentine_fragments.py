"""Products of fragments in serpentine order: the order itself, and that no bit changes."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given

from iris.errors import ParseError
from iris.ir import parse
from iris.testing import preserves, programs
from iris.tools.replay import Program
from matrix_programs import gemm

NAMED = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 16, "num_simdgroups": 1}


def product() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((32, 32)).astype(np.float32) for _ in range(2))
    return a, b, np.zeros((32, 32), np.float32)


def test_neighbours_share_a_fragment() -> None:
    text = gemm.lower(*product(), 32, 32, 32, grid=(1, 1), serpentine=True, **NAMED).msl
    found = re.search(
        r"< (\d+); \+\+i\) { int turn = (.*?); simdgroup_multiply_accumulate\((.*?)\);",
        " ".join(text.split()),
    )
    assert found is not None
    assert found[3] == "acc[turn], left[turn / 4], right[turn % 4], acc[turn]"
    turn = found[2].replace("/", "//")
    order = [eval(turn, {}, {"i": i}) for i in range(int(found[1]))]
    assert sorted(order) == list(range(16))
    places = [divmod(n, 4) for n in order]
    assert all((a == c) != (b == d) for (a, b), (c, d) in pairwise(places))


@pytest.mark.parametrize("device", ["interp:metal", "softmetal"])
def test_no_bit_changes(device: str) -> None:
    a, b, out = product()
    gemm[1, 1](a, b, out, 32, 32, 32, device=device, **NAMED)
    other = np.zeros_like(out)
    gemm[1, 1](a, b, other, 32, 32, 32, device=device, serpentine=True, **NAMED)
    assert out.tobytes() == other.tobytes()


@given(programs.metal())
def test_programs_do_the_same(program: Program) -> None:
    preserves("serpentine-fragments", program)


def test_columns_that_cannot_be_counted_backwards() -> None:
    text = """
    func metal @f simdgroups=1(%a: regs<4xf16>, %b: regs<6xf16>, %c: regs<12xf32>) {
      %d: regs<12xf32> = metal.mma %a, %b, %c, serpentine=true
      return
    }
    """
    with pytest.raises(ParseError, match="no power of two of columns to go back over"):
        parse(text)
