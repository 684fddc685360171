"""Passes that are right and yet bad: programs cost more, or less is known of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from pathlib import Path

import pytest
from hypothesis import given, settings

from iris.ir import Module, math, tile
from iris.passes import Pass
from iris.testing import cheaper, fits, keeps, programs
from iris.testing.quality import blocks, cycles, narrowest_access
from iris.tools.replay import Program

GENERIC = "canonicalize,cse,fold,licm,dce"


@settings(max_examples=20)
@given(programs.tile())
def test_generic_passes_make_nothing_worse(program: Program) -> None:
    cheaper(GENERIC, program)
    for fact in (narrowest_access, blocks):
        keeps(GENERIC, fact, program)


@settings(max_examples=10)
@given(programs.graph())
def test_generic_passes_of_graphs_cost_nothing(program: Program) -> None:
    cheaper("cse,fold,dce", program)


@pytest.fixture(autouse=True)
def failures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where programs that fail are written."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


COPY = """\
# entry: @f
# grid: 4, 1, 1
# argument %X: f32[1024] seed=1
# argument %Y: f32[1024]
# argument %n: 256

func tile @f(%X: ptr<f32, aligned>, %Y: ptr<f32, aligned>, %n: i32) {
  %p: i32 = tile.program_id 0
  %n16: i32 = assume_divisible 16 %n
  %start: i32 = mul %p, %n16
  %starts: tile<256xi32> = tile.broadcast %start
  %lane: tile<256xi32> = tile.arange 0
  %at: tile<256xi32> = add %starts, %lane
  %x: tile<256xf32> = tile.load %X, %at
  %y: tile<256xf32> = add %x, %x
  tile.store %Y, %at, %y
  return
}
"""


@dataclass(frozen=True)
class Worse(Pass):
    """Does to ops what keeps their values."""

    name = "worse"
    change: Callable[[Module], object]

    def run(self, module: Module) -> None:
        self.change(module)

    def __str__(self) -> str:
        return self.name


def load_again(module: Module) -> None:
    """Loads twice what is added to itself."""
    for op in module.walk():
        if isinstance(op, math.Add) and op.lhs is op.rhs and isinstance(op.lhs.op, tile.Load):
            again = tile.Load(*op.lhs.op.operands, volatile=True)
            op.insert_before(again)
            op.set_operands((op.lhs, again.result))


def forget_divisors(module: Module) -> None:
    for op in module.walk():
        if isinstance(op, math.AssumeDivisible):
            op.result.replace_by(op.x)
            op.erase()


def mask_lanes(module: Module) -> None:
    """Starts up to 768 are themselves below 1024, but no block is recovered from that."""
    for op in module.walk():
        if isinstance(op, tile.Broadcast):
            (user,) = op.result.users
            last = math.Constant(1023, op.result.type)  # type: ignore[arg-type]
            masked = math.And(op.result, last.result)
            for new in (last, masked):
                user.insert_before(new)
            user.set_operands((masked.result, *user.operands[1:]))


def failure(check: Callable[[Pass, Program], None], change: Callable[[Module], object]) -> str:
    with pytest.raises(AssertionError) as caught:
        check(Worse(change), Program.parse(COPY))
    return str(caught.value)


def test_a_pass_that_costs() -> None:
    message = failure(lambda pass_, program: cheaper(pass_, program, seconds=0), load_again)
    assert message.startswith("worse makes the program cost more: ")
    assert "+  %0: tile<256xf32> = tile.load %X, %at" in message


def test_a_cost_of_ones_own() -> None:
    def ops(program: Program) -> float:
        return len(program.module.walk())

    def check(pass_: Pass, program: Program) -> None:
        cheaper(pass_, program, ops, seconds=0)

    message = failure(check, load_again)
    assert message.startswith("worse makes the program cost more: 11 before, 12 after\n")
    cheaper("dce", Program.parse(COPY), ops)


def test_facts_that_are_lost() -> None:
    def check(pass_: Pass, program: Program) -> None:
        keeps(pass_, narrowest_access, program, seconds=0)

    message = failure(check, forget_divisors)
    assert message.startswith("worse makes less known: narrowest_access was 4 and is 1\n")
    assert "-  %n16: i32 = assume_divisible 16 %n" in message


def test_blocks_that_are_lost() -> None:
    def check(pass_: Pass, program: Program) -> None:
        keeps(pass_, blocks, program, seconds=0)

    message = failure(check, mask_lanes)
    assert message.startswith("worse makes less known: blocks was 0 and is -2\n")


def test_the_failure_is_small() -> None:
    message = failure(lambda pass_, program: cheaper(pass_, program), load_again)
    assert len(message.splitlines()) < 40


def test_what_programs_cost() -> None:
    program = Program.parse(COPY)
    more = Program.parse(COPY.replace("grid: 4", "grid: 8"))
    assert 0 < cycles(program) == cycles(more) / 2
    assert cycles(Program.parse(COPY.replace("f32", "i64").replace(STORE, ATOMIC))) == inf


STORE = "tile.store %Y, %at, %y"
ATOMIC = "%z: tile<256xi64> = tile.atomic add %Y, %at, %y"


KEPT = """\
# entry: @f
# grid: 1, 1, 1
# argument %X: f32[12288] seed=1
# argument %Y: f32[4096] seed=2
# argument %O: f32[4096]
# argument %k: 3

func tile @f(%X: ptr<f32>, %Y: ptr<f32>, %O: ptr<f32>, %k: i32) {
  %o: i32 = constant 0
  %u: i32 = constant 1
  %w: i32 = constant 64
  %y: tile<64x64xf32> = tile.load_tile %Y, offsets=[%o, %o], strides=[%w, %u], bounds=[%w, %w]
  %zero: tile<64x64xf32> = constant 0.0
  %n: i32 = mul %k, %w
  %sum: tile<64x64xf32> = for %o, %n, %w (%i: i32, %old: tile<64x64xf32> = %zero) {
    %x: tile<64x64xf32> = tile.load_tile %X, offsets=[%i, %o], strides=[%w, %u], bounds=[%n, %w]
    %z: tile<64x64xf32> = exp %x
    %new: tile<64x64xf32> = tile.dot %z, %y, acc=%old
    yield %new
  }
  tile.store_tile %O, %sum, offsets=[%o, %o], strides=[%w, %u], bounds=[%w, %w]
  return
}
"""


def test_a_pass_that_takes_too_much_room(monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program.parse(KEPT)
    fits(program)
    monkeypatch.setattr("iris.passes.tile.stage_dots._Staging._bytes", lambda *_: 0)
    with pytest.raises(AssertionError, match="stage-dots took more threadgroup memory"):
        fits(program, seconds=0)


AROUND = """\
# entry: @program
# grid: 1, 1, 1
# argument %factor0: f16[1]
# argument %size_2: 0
# argument %out8: f32[1]

func tile @program(%factor0: ptr<f16, aligned>, %size_2: i32, %out8: ptr<f32, aligned>) {
  %c0_0: tile<256x32xf16> = constant 0.0
  %c0_1: tile<32x32xf32> = constant 0.0
  %c0: tile<32x256xi32> = constant 0
  %0: tile<32x32xf32> = for %size_2, %size_2, %size_2 (%1: i32, %2: tile<32x32xf32> = %c0_1) {
    %3: tile<32x256xf16> = tile.load %factor0, %c0
    %4: tile<32x32xf32> = tile.dot %3, %c0_0
    yield %4
  }
  %c0_2: tile<32x8xi32> = constant 0
  %c0_3: tile<32x8xf32> = constant 0.0
  %5: tile<32x8xf32> = tile.dot %0, %c0_3
  tile.store %out8, %c0_2, %5
  return
}
"""


def test_what_is_staged_around_a_loop_takes_room_in_it() -> None:
    fits(Program.parse(AROUND))


@given(programs.tile(ops=[tile.Dot], max_ops=4))
def test_products_fit(program: Program) -> None:
    fits(program)
