"""The levels agree, and the comparison says where they do not."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import wild
from iris.ir import math, metal, tile
from iris.ir.core import Module
from iris.ir.types import DTYPES
from iris.passes import Pass, run
from iris.passes.tile.layouts.fragments import is_of_fragments, is_of_tensors
from iris.targets import DEFAULT, Target
from iris.targets.apple import M5_TENSORS, M5_TENSORS_IN_MEMORY
from iris.targets.nvidia import H200
from iris.testing import programs
from iris.testing.levels import (
    LOWERING,
    Agreement,
    Disagreement,
    agree,
    compare,
    with_simdgroups,
)
from iris.tools.replay import Program
from support import counts

INF, NAN = np.inf, np.nan
# How each program is run: of many programs each in one way, which in turn is any of these.
WAYS = counts([((1, 4), (0, 1))], [((n,), (seed,)) for n in (1, 2, 4, 8) for seed in range(5)])
CHANGES = [
    pytest.param(lambda program: program, id="as is"),
    pytest.param(wild.inexact, id="inexact"),
]


def has_matrices(program: Program) -> bool:
    """Whether some product in a program is one of the hardware's matrices."""
    return any(
        isinstance(op, tile.Dot) and is_of_fragments(op, DEFAULT) for op in program.module.walk()
    )


def has_tensors(program: Program) -> bool:
    """Whether some product in a program is one of tensors, on GPUs that multiply these."""
    ops = program.module.walk()
    return any(isinstance(op, tile.Dot) and is_of_tensors(op, M5_TENSORS) for op in ops)


@pytest.mark.parametrize("change", CHANGES)
@settings(max_examples=counts(30, 5000))
@given(programs.tile(masked=True), st.sampled_from(WAYS))
def test_the_levels_agree(change: Any, program: Program, way: Any) -> None:
    simdgroups, interleavings = way
    agree(change(program), simdgroups=simdgroups, interleavings=interleavings)


@pytest.mark.parametrize("change", CHANGES)
@settings(max_examples=counts(15, 5000), suppress_health_check=[HealthCheck.filter_too_much])
@given(programs.tile(masked=True).filter(has_matrices), st.sampled_from(WAYS))
def test_the_levels_agree_on_matrices(change: Any, program: Program, way: Any) -> None:
    simdgroups, interleavings = way
    agree(change(program), simdgroups=simdgroups, interleavings=interleavings)


def test_the_levels_agree_where_a_gpu_multiplies_and_copies_otherwise() -> None:
    """In products of 16 terms, of fragments loaded by rows, and with copies that go on."""
    met: Counter[str] = Counter()

    @settings(max_examples=counts(15, 5000), suppress_health_check=[HealthCheck.filter_too_much])
    @given(programs.tile(masked=True).filter(has_matrices), st.sampled_from(WAYS))
    def check(program: Program, way: Any) -> None:
        simdgroups, interleavings = way
        lower = LOWERING.on(H200)
        agree(program, simdgroups=simdgroups, interleavings=interleavings, pipeline=lower)
        lowered = run(program.module, with_simdgroups(lower, simdgroups[-1]))
        met.update({op.name for op in lowered.walk()})
        met["deep"] += any(isinstance(op, metal.Mma) and op.depth > 1 for op in lowered.walk())

    check()
    print(met)
    assert min(met[name] for name in ("deep", "metal.load_rows", "metal.copy")) > 0


@pytest.mark.parametrize("target", [M5_TENSORS, M5_TENSORS_IN_MEMORY], ids=str)
def test_the_levels_agree_where_a_gpu_multiplies_tensors(target: Target) -> None:
    lower, met = LOWERING.on(target), 0
    in_memory = target is M5_TENSORS_IN_MEMORY

    @settings(max_examples=counts(12, 5000), suppress_health_check=[HealthCheck.filter_too_much])
    @given(programs.tile(masked=True).filter(has_tensors), st.sampled_from(WAYS))
    def check(program: Program, way: Any) -> None:
        nonlocal met
        simdgroups, interleavings = way
        agree(program, simdgroups=simdgroups, interleavings=interleavings, pipeline=lower)
        lowered = run(program.module, with_simdgroups(lower, simdgroups[0]))
        ops = lowered.walk()
        of_registers = any(isinstance(op, metal.Mma) and op.tensors for op in ops)
        met += any(isinstance(op, metal.MmaShared) for op in ops) if in_memory else of_registers

    check()
    print(met)
    assert met > 0


SOFTMAX = """
# grid: 3
# argument %X: f32[192] seed=1 range=[-4.0, 4.0]
# argument %Y: f32[192]

func tile @softmax(%X: ptr<f32>, %Y: ptr<f32>) {
  %row: i32 = tile.program_id 0
  %n: i32 = constant 64
  %start: i32 = mul %row, %n
  %starts: tile<64xi32> = tile.broadcast %start
  %lanes: tile<64xi32> = tile.arange 0
  %at: tile<64xi32> = add %starts, %lanes
  %x: tile<64xf32> = tile.load %X, %at
  %m: f32 = tile.reduce maxnum 0 %x
  %top: tile<64xf32> = tile.broadcast %m
  %d: tile<64xf32> = sub %x, %top
  %e: tile<64xf32> = exp %d
  %s: f32 = tile.reduce sum 0 %e
  %total: tile<64xf32> = tile.broadcast %s
  %y: tile<64xf32> = div %e, %total
  tile.store %Y, %at, %y
  return
}
"""


@dataclass(frozen=True)
class Off(Pass):
    """Makes sums a little greater than they are."""

    name = "off-by-little"
    level = tile.TileOp.level

    def run(self, module: Module) -> None:
        for op in module.walk():
            if isinstance(op, math.Div):
                more = math.Constant(1 + 2.0**-14, op.result.type)  # type: ignore[arg-type]
                op.insert_before(more)
                scaled = math.Mul(op.rhs, more.result)
                op.insert_before(scaled)
                op.set_operands((op.lhs, scaled.result))


def test_agreement_is_counted() -> None:
    counted = agree(Program.parse(SOFTMAX), simdgroups=(1, 2), interleavings=(5,))
    # One simdgroup runs in lockstep only, two by turns as well.
    assert counted == Agreement(bounded=3 * 192)
    assert str(counted) == "576 elements: 0 exact, 576 bounded, 0 undetermined (0.00%)"


def test_a_disagreement_names_what_differs() -> None:
    program = Program.parse(SOFTMAX)
    lowering = f"{Off.name},choose-simdgroups,assign-layouts,lower-to-metal,insert-barriers"
    with pytest.raises(Disagreement) as caught:
        agree(program, pipeline=lowering, seconds=0)
    message = str(caught.value)
    assert "Y[0] is " in message and "off by" in message
    assert "choose-simdgroups{count=1}" in message and "in lockstep" in message
    assert "func tile @softmax" in message
    assert message.startswith("off-by-little changed what the program does, in lockstep: Y[0] is ")
    assert "+++ after off-by-little" in message


def differs(dtype: str, was: Any, now: Any, bound: float = 0.0) -> bool:
    storage = {"f32": np.float32, "bf16": np.uint16, "i8": np.int8, "bool": np.bool_}[dtype]
    one, other = np.array([was], storage), np.array([now], storage)
    try:
        compare("x", DTYPES[dtype], one, np.array([bound]), other)
    except Disagreement:
        return True
    return False


def test_what_is_the_same() -> None:
    assert not differs("f32", 1.5, 1.5)
    assert not differs("f32", NAN, -NAN)
    assert differs("f32", 0.0, -0.0)
    assert differs("f32", 1.0, 1 + 2.0**-23)
    assert differs("f32", 1.0, NAN, 10.0)
    assert differs("f32", INF, 1.0, 10.0)
    assert not differs("f32", 1.0, 1.5, 0.5)
    assert differs("f32", 1.0, 1.5, 0.49)
    assert not differs("f32", 1.0, NAN, INF)
    assert not differs("f32", 0.0, -0.0, 5e-324)
    assert not differs("bf16", 0x7FC0, 0xFFC1)
    assert differs("bf16", 0x3F80, 0x3F81, 2.0**-8)
    assert not differs("bf16", 0x3F80, 0x3F81, 2.0**-7)
    assert differs("i8", 1, 2)
    assert not differs("i8", 1, 2, INF)
    assert differs("bool", False, True)


RACING = """
# grid: 2
# argument %X: f32[1]

func tile @racing(%X: ptr<f32>) {
  %c0: i32 = constant 0
  %p: i32 = tile.program_id 0
  %x: f32 = cast %p
  tile.store %X, %c0, %x
  return
}
"""


@dataclass(frozen=True)
class Far(Pass):
    """Moves the first store far away."""

    name = "far-away"
    level = tile.TileOp.level

    def run(self, module: Module) -> None:
        store = next(op for op in module.walk() if isinstance(op, tile.Store))
        far = math.Constant(1 << 20, store.offset.type)  # type: ignore[arg-type]
        store.insert_before(far)
        moved = math.Add(store.offset, far.result)
        store.insert_before(moved)
        store.set_operands((store.base, moved.result, *store.operands[2:]))


def test_whatever_fails_shows_the_program() -> None:
    with pytest.raises(Disagreement, match="the program fails: RaceError: race") as caught:
        agree(Program.parse(RACING))
    assert "func tile @racing" in str(caught.value)
    lowering = f"{Far.name},choose-simdgroups,assign-layouts,lower-to-metal,insert-barriers"
    with pytest.raises(Disagreement, match=r"made a program that fails, in lockstep") as caught:
        agree(Program.parse(SOFTMAX), pipeline=lowering)
    assert "func tile @softmax" in str(caught.value) and "iris run" in str(caught.value)
