"""Kernels return the same by any schedule that programs can follow; others are errors."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iris.errors import ParseError, PipelineError, VerifyError
from iris.ir import parse, verify
from iris.passes import run
from iris.testing import fuses, programs
from iris.testing.choices import Choices
from iris.testing.kernel_schedules import scheduled
from iris.tools.replay import Program

DATA = st.binary(min_size=48, max_size=48)


@given(programs.graph(portable=True), DATA)
def test_any_schedule_gives_the_same(program: Program, data: bytes) -> None:
    fuses(scheduled(program, Choices(data)))


@given(programs.graph(portable=True), DATA)
def test_any_schedule_gives_the_same_in_metal_ir(program: Program, data: bytes) -> None:
    fuses(scheduled(program, Choices(data)), "interp:metal")


@given(programs.graph(), DATA)
def test_schedules_parse_back(program: Program, data: bytes) -> None:
    module = scheduled(program, Choices(data)).module
    again = parse(str(module))
    verify(again)
    assert str(again) == str(module)
    assert again == module
    assert run(again, "fuse,schedule") == module


KERNEL = """
func graph @norm returns=[tensor<64x1000xf32>](%x: tensor<64x1000xf32>) {
  %y: tensor<64x1000xf32> = graph.kernel @norm schedule=[SCHEDULE] {
    %sum: tensor<64xf32> = graph.reduce sum [1] %x
    %column: tensor<64x1xf32> = graph.reshape %sum
    %sums: tensor<64x1000xf32> = graph.broadcast %column
    %y_1: tensor<64x1000xf32> = div %x, %sums
    yield %y_1
  }
  return %y
}
"""
AXES = "i0 of 64, i1 of 1000, or i0 of 64, i1 of 1000, r0 of 1000"


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (
            "i0: programs 4 of 64, j: loop 8 of 1000",
            f"j: there is no such axis; its axes are {AXES}",
        ),
        (
            "i0: programs 4 of 64",
            f"i1: the schedule does not say how to go over it; its axes are {AXES}",
        ),
        ("i0: programs 4 of 63, i1: loop 8 of 1000", "i0: it has 64 elements, not 63"),
        ("i0: programs 4 of 64, i1: programs 8 of 1000", "i1: it is reduced or scanned, so every"),
        (
            "i0: programs 4 of 64, i1: loop 8 of 1000, r0: programs 8 of 1000",
            "r0: no output has this axis, so every program loops over all of it",
        ),
        (
            "i0: programs 3 of 64, i1: loop 8 of 1000",
            "i0: a block has a power of two of elements, not 3",
        ),
        ("i0: programs 128 of 64, i1: loop 8 of 1000", "i0: a block of 128 is too large for 64"),
        ("i0: loop 4 of 64, i0: loop 8 of 1000", "i0 is listed twice"),
    ],
)
def test_an_illegal_schedule_is_an_error_that_names_the_axis(schedule: str, message: str) -> None:
    with pytest.raises((PipelineError, VerifyError, ParseError), match=re.escape(message)):
        run(parse(KERNEL.replace("SCHEDULE", schedule)), "graph-to-tile")


def test_a_tile_has_three_dimensions() -> None:
    text = """
func graph @power returns=[tensor<4x4x4x4xf32>](%x: tensor<4x4x4x4xf32>) {
  %y: tensor<4x4x4x4xf32> = graph.kernel @power schedule=[SCHEDULE] {
    %t: tensor<4x4x4x4xf32> = graph.transpose [3, 2, 1, 0] %x
    yield %t
  }
  return %y
}
"""
    axes = [f"i{n}: programs 2 of 4" for n in range(4)]
    with pytest.raises(PipelineError, match="i0, i1, i2, i3: one tile would have all of these"):
        run(parse(text.replace("SCHEDULE", ", ".join(axes))), "graph-to-tile")
    axes[2] = "i2: programs 1 of 4"
    run(parse(text.replace("SCHEDULE", ", ".join(axes))), "graph-to-tile")
