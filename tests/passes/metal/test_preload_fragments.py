"""Loading fragments a step ahead: products stay what they are, and where nothing may move."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from counting import count
from iris.compiler.options import Options
from iris.ir import tile
from iris.ir.core import Level
from iris.passes import run
from iris.passes.metal.preload_fragments import PreloadFragments
from iris.targets import DEFAULT
from iris.testing import preserves, programs
from iris.testing.levels import agree, without_limits
from iris.tools.replay import Program
from matrix_programs import gemm
from support import counts

HEAD = """
# entry: @f
# grid: 1, 1, 1
# argument %A: f16[512] seed=1 range=[-4, 4]
# argument %C: f32[64]
"""
BODY = """
func metal @f simdgroups=1(%A: ptr<f16>, %C: ptr<f32>) {{
  %lane: i32 = metal.lane
  %zero: regs<2xf32> = constant 0.0
  %lo: i32 = constant {lower}
  %hi: i32 = constant {upper}
  %step: i32 = constant {step}
  %c0: i32 = constant 0
  %c2: i32 = constant 2
  %c64: i32 = constant 64
  %c: regs<2xf32>, %total: i32 = for %lo, %hi, %step (%k: i32,
      %acc: regs<2xf32> = %zero, %n: i32 = %c0) {{
    %row: i32 = mul %k, %c64
    %column: i32 = mul %lane, %c2
    %at: i32 = add %row, %column
    %a: regs<2xf16> = metal.load %A, %at
    %sum: regs<2xf32> = metal.mma %a, %a, %acc
    %more: i32 = add %n, %k
    yield %sum, %more
  }}
  %t: f32 = cast %total
  %ts: regs<2xf32> = metal.splat %t
  %y: regs<2xf32> = add %c, %ts
  %column_1: i32 = mul %lane, %c2
  metal.store %C, %column_1, %y
  return
}}
"""


def program(lower: int, upper: int, step: int) -> Program:
    return Program.parse(HEAD + BODY.format(lower=lower, upper=upper, step=step))


@pytest.mark.parametrize(
    "bounds", [(0, 2, 1), (0, 8, 1), (1, 8, 3), (1, 7, 3), (7, -1, -1), (7, 0, -3)], ids=str
)
def test_steps_of_any_length(bounds: tuple[int, int, int]) -> None:
    made = program(*bounds)
    assert run(made.module, "preload-fragments") != made.module
    preserves("preload-fragments", made)


@pytest.mark.parametrize("bounds", [(0, 0, 1), (0, 1, 1), (3, 7, 4)], ids=str)
def test_a_single_step_has_nothing_to_load_ahead(bounds: tuple[int, int, int]) -> None:
    made = program(*bounds)
    assert run(made.module, "preload-fragments") == made.module


def test_only_where_there_are_registers() -> None:
    module = program(0, 8, 1).module
    few = PreloadFragments(replace(DEFAULT, name="few", thread_registers=4))
    changed = module.clone()
    assert few.run(changed) == {"loops": 0}
    assert changed == module
    assert PreloadFragments().run(changed) == {"loops": 1}


def test_what_else_is_in_the_loop_is_done_once_for_each_step() -> None:
    """Counted in a whole product: what is loaded, multiplied and waited for is the same."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (64, 64)).astype(np.float16) for _ in range(2))
    out = np.zeros((64, 64), np.float32)
    named = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32, "num_simdgroups": 2}
    counters = []
    for preload in (False, True):
        counters.append(count(gemm, (2, 2), a, b, out, 64, 64, 64, preload=preload, **named))
        np.testing.assert_array_equal(out, a.astype(np.float32) @ b)
        out[...] = 0
    one, other = counters
    assert one.mmas == other.mmas > 0
    assert one.barriers == other.barriers
    assert one.threadgroup_loads == other.threadgroup_loads
    stages = gemm.lower(a, b, out, 64, 64, 64, grid=(2, 2), preload=True, **named)
    assert stages.diff("preload-fragments")


def test_products_of_tiles_do_the_same() -> None:
    """With all that a launch may ask for besides."""
    options = Options(num_simdgroups=2, num_stages=3, swizzle=2, serpentine=True, preload=True)
    moved = 0

    @settings(max_examples=counts(30, 200), deadline=None)
    @given(programs.tile(ops=[tile.Dot, tile.Store], max_ops=8))
    def check(made: Program) -> None:
        nonlocal moved
        pipeline = without_limits(options.pipeline(Level.METAL))
        agree(made, pipeline=pipeline, simdgroups=(0,))
        moved += "serpentine" in str(run(made.module, pipeline))

    check()
    assert moved > counts(3, 20)
