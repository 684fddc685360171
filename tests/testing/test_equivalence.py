"""Two programs are held against each other; and a pass may round otherwise, within bounds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings

from iris.compiler.pipelines import METAL_PIPELINE
from iris.errors import ArgumentError
from iris.ir import Module, math, parse, tile
from iris.ir.control import Func
from iris.ir.kinds import ReduceKind
from iris.passes import Pass
from iris.passes import run as run_passes
from iris.testing import equivalent, preserves, programs
from iris.tools.replay import Program


@pytest.fixture(autouse=True)
def failures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where programs that fail are written."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path / "iris-failures"


SUM = """\
# entry: @f
# grid: 2, 1, 1
# argument %X: f32[64] seed=1 range=[-1.0, 1.0]
# argument %Y: f32[2]

func tile @f(%X: ptr<f32>, %Y: ptr<f32>) {
  %p: i32 = tile.program_id 0
  %c32: i32 = constant 32
  %start: i32 = mul %p, %c32
  %lane: tile<32xi32> = tile.arange 0
  %starts: tile<32xi32> = tile.broadcast %start
  %at: tile<32xi32> = add %starts, %lane
  %x: tile<32xf32> = tile.load %X, %at
  %y: f32 = tile.reduce sum 0 %x
  tile.store %Y, %p, %y
  return
}
"""


def replaced(old: str, new: str) -> Program:
    return Program.parse(SUM.replace(old, new))


@settings(max_examples=20)
@given(programs.tile(dtypes=["i32", "bool"]))
def test_lowered_programs_are_equivalent(program: Program) -> None:
    equivalent(program, run_passes(program.module, "cse,fold,dce"))


def test_levels_are_compared() -> None:
    program = Program.parse(SUM)
    lowered = run_passes(program.module, METAL_PIPELINE)
    equivalent(program, lowered, rounding=True)
    (function,) = lowered
    assert isinstance(function, Func)
    equivalent(program, function, rounding=True)


def test_another_grid() -> None:
    """What two programs do, one may do in a loop."""
    text = SUM.replace("grid: 2", "grid: 1").replace("  %p: i32 = tile.program_id 0\n", "")
    lines = text.splitlines()
    start = next(n for n, line in enumerate(lines) if "%c32" in line)
    head, body = lines[:start], lines[start:-2]
    loop = [
        *["  %c0: i32 = constant 0", "  %c1: i32 = constant 1", "  %c2: i32 = constant 2"],
        "  for %c0, %c2, %c1 (%p: i32) {",
        *[f"  {line}" for line in body],
        *["    yield", "  }", "  return", "}", ""],
    ]
    equivalent(Program.parse(SUM), Program.parse("\n".join([*head, *loop])))


def test_a_difference(failures: Path) -> None:
    other = replaced("reduce sum", "reduce maximum")
    with pytest.raises(AssertionError) as caught:
        equivalent(Program.parse(SUM), other)
    message = str(caught.value)
    assert message.startswith("the second program does something else: %Y[0] was ")
    assert "-  %y: f32 = tile.reduce sum 0 %x\n+  %y: f32 = tile.reduce maximum 0 %x" in message
    assert len(list(failures.iterdir())) == 2
    with pytest.raises(AssertionError, match=r"does something else: Y\[0\] is .* may be off by"):
        equivalent(Program.parse(SUM), other, rounding=True)


@pytest.mark.parametrize("rounding", [False, True])
def test_a_program_that_fails(rounding: bool) -> None:
    right, wrong = Program.parse(SUM), replaced("constant 32", "constant 64")
    with pytest.raises(AssertionError, match=r"^the second program fails: ProgramError: index 64"):
        equivalent(right, wrong, rounding=rounding)
    with pytest.raises(AssertionError, match=r"^the first program fails: ProgramError: index 64"):
        equivalent(wrong, right, rounding=rounding)


def test_functions_that_cannot_be_compared() -> None:
    program = Program.parse(SUM)
    with pytest.raises(ArgumentError, match=r"differ in type: \(ptr<f32>, ptr<f32>\) -> \(\) and"):
        equivalent(program, parse("func tile @f(%X: ptr<f32>) {\n  return\n}\n"))
    with pytest.raises(ArgumentError, match="the module has 0 functions, none called @f"):
        equivalent(program, Module([]))


# Passes that round otherwise.


@dataclass(frozen=True)
class SumByHalves(Pass):
    """Add one half of the elements to the other before they are summed."""

    name = "sum-by-halves"

    def run(self, module: Module) -> None:
        for op in module.walk():
            if isinstance(op, tile.Reduce) and op.kind is ReduceKind.SUM:
                self.halve(op)

    def halve(self, op: tile.Reduce) -> None:
        half = tile.Reshape(op.x, tile_type(op, (2, 16)))
        op.insert_before(half)
        both = tile.Reduce(op.kind, 0, half.result)
        op.insert_before(both)
        op.set_operands((both.result,))


def tile_type(op: tile.Reduce, shape: tuple[int, ...]) -> tile.Tile:
    return tile.Tile(shape, math.element_type(op.x.type).element)


def test_another_order() -> None:
    program = Program.parse(SUM)
    with pytest.raises(AssertionError, match="sum-by-halves changed what the program does"):
        preserves(SumByHalves(), program, seconds=0)
    preserves(SumByHalves(), program, rounding=True)


@settings(max_examples=20)
@given(programs.tile())
def test_expansions_are_within_bounds(program: Program) -> None:
    preserves("expand-math", program, rounding=True)


def test_a_wrong_order_is_found() -> None:
    program = replaced("seed=1 range=[-1.0, 1.0]", "seed=1")
    with pytest.raises(AssertionError, match=r"changed what the program does: Y\[0\] is .*exact"):
        preserves(SumTwice(), program, rounding=True, seconds=0)


class SumTwice(SumByHalves):
    """Add the first half of the elements to itself."""

    name = "sum-twice"

    def halve(self, op: tile.Reduce) -> None:
        twice = math.Add(op.x, op.x)
        op.insert_before(twice)
        op.set_operands((twice.result,))
