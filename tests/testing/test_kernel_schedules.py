"""Kernels return the same by any schedule that programs can follow; others are errors."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iris.compiler.graph_program import GraphProgram
from iris.errors import OutOfResources, ParseError, PipelineError, VerifyError
from iris.ir import Level, parse, verify
from iris.ir.axis_schedule import WrittenSchedule
from iris.passes import run
from iris.passes.graph.tiling.kernel_schedule import KernelSchedule
from iris.passes.graph.tiling.plan import Plan
from iris.targets import DEFAULT
from iris.testing import fuses, programs
from iris.testing.choices import Choices
from iris.testing.kernel_schedules import check_edit, scheduled
from iris.testing.report import Failure
from iris.tools.replay import Program

DATA = st.binary(min_size=48, max_size=48)
GRAPHS = st.one_of(programs.graph(portable=True), programs.graph(portable=True, rounding=True))


@given(GRAPHS, DATA)
def test_any_schedule_gives_the_same(program: Program, data: bytes) -> None:
    program = scheduled(program, Choices(data))
    for device in ("interp", "interp:metal"):
        fuses(program, device)


def test_a_program_without_an_end_of_its_blocks_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = KernelSchedule.plan

    def without_ends(schedule: KernelSchedule) -> Plan:
        return replace(plan(schedule), ends={})

    head = "# argument %x: f32[64, 1000] seed=1\n"
    schedule = "i0: programs 4 of 64, i1: loop 64 of 1000"
    program = Program.parse(head + KERNEL.replace("SCHEDULE", schedule))
    fuses(program)
    monkeypatch.setattr(KernelSchedule, "plan", without_ends)
    with pytest.raises(Failure, match="the kernels"):
        fuses(program, seconds=1)


@pytest.mark.softmetal
def test_a_schedule_that_a_device_has_no_room_for_is_no_failure() -> None:
    head = "# argument %x: f32[64, 1000] seed=1\n"
    schedule = "i0: programs 64 of 64, i1: loop 1024 of 1000, simdgroups: 1"
    program = Program.parse(head + KERNEL.replace("SCHEDULE", schedule))
    (kernel,) = GraphProgram.of(program.module, DEFAULT).kernels
    with pytest.raises(OutOfResources):
        kernel.lowered(Level.METAL, DEFAULT)
    fuses(program, "softmetal", seconds=1)


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
        (
            "i0: programs 4 of 64, i1: loop 8 of 1000, simdgroups: 3",
            "simdgroups: 3 is no power of two",
        ),
        ("i0: programs 4 of 64, i1: loop 8 of 1000, simdgroups: 64", "1 to 32"),
        (
            "simdgroups: 2, i0: programs 4 of 64, i1: loop 8 of 1000",
            "the number of simdgroups ends a schedule",
        ),
    ],
)
def test_an_illegal_schedule_is_an_error_that_names_the_axis(schedule: str, message: str) -> None:
    with pytest.raises((PipelineError, VerifyError, ParseError), match=re.escape(message)):
        run(parse(KERNEL.replace("SCHEDULE", schedule)), "graph-to-tile")


SQUARES = """
# argument %x: f32[5, 7] seed=1

func graph @squares returns=[tensor<5xf32>](%x: tensor<5x7xf32>) {
  %y: tensor<5xf32> = graph.kernel @squares schedule=[SCHEDULE] {
    %sum: tensor<5xf32> = graph.reduce maximum [1] %x
    %column: tensor<5x1xf32> = graph.reshape %sum
    %most: tensor<5x7xf32> = graph.broadcast %column
    %less: tensor<5x7xf32> = sub %x, %most
    %e: tensor<5x7xf32> = exp %less
    %y_1: tensor<5xf32> = graph.reduce sum [1] %e
    yield %y_1
  }
  return %y
}
"""


def test_an_axis_that_cannot_be_online_is_named_and_not_one_that_is() -> None:
    text = SQUARES.replace("SCHEDULE", "i0: online 4 of 5, r0: online 8 of 7")
    with pytest.raises(PipelineError, match="i0: no sum depends on a maximum or a mean along it"):
        run(parse(text), "graph-to-tile")
    fuses(Program.parse(SQUARES.replace("SCHEDULE", "i0: programs 4 of 5, r0: online 8 of 7")))


@given(GRAPHS, DATA)
def test_an_edited_schedule_is_right_or_an_error_that_names_the_axis(
    program: Program, data: bytes
) -> None:
    choices = Choices(data)
    check_edit(scheduled(program, choices), choices, seconds=5)


def test_an_edit_of_which_nothing_is_said_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program.parse(SQUARES.replace("SCHEDULE", "i0: programs 4 of 5, r0: online 8 of 7"))
    monkeypatch.setattr(WrittenSchedule, "mistake", None)
    with pytest.raises(AssertionError, match="nothing is said of"):
        check_edit(program, Choices(bytes([0, 1, 8])), seconds=1)


def test_a_schedule_says_how_many_simdgroups_run_a_program() -> None:
    schedule = "i0: programs 4 of 64, i1: loop 64 of 1000, simdgroups: 2"
    text = KERNEL.replace("SCHEDULE", schedule)
    for pipeline in ("graph-to-tile", "graph-to-tile,choose-simdgroups"):
        assert "simdgroups=2" in str(run(parse(text), pipeline))
    fuses(Program.parse(f"# argument %x: f32[64, 1000] seed=1\n{text}"), "interp:metal")


SCANS = """
func graph @scans returns=[tensor<64x40xi32>](%x: tensor<64x40xi32>) {
  %z: tensor<64x40xi32> = graph.kernel @scans schedule=[SCHEDULE] {
    %y: tensor<64x40xi32> = graph.scan sum 0 %x
    %z_1: tensor<64x40xi32> = graph.scan sum AXIS %y
    yield %z_1
  }
  return %z
}
"""


def test_the_loop_over_a_scanned_axis_is_the_innermost() -> None:
    text = SCANS.replace("AXIS", "0").replace("SCHEDULE", "i0: loop 4 of 64, i1: loop 8 of 40")
    fuses(Program.parse(f"# argument %x: i32[64, 40] seed=1\n{text}"))


def test_scans_along_two_axes_in_blocks_are_an_error() -> None:
    text = SCANS.replace("AXIS", "1").replace("SCHEDULE", "i0: loop 4 of 64, i1: loop 8 of 40")
    with pytest.raises(PipelineError, match="i0, i1: a scan along one of these needs all blocks"):
        run(parse(text), "graph-to-tile")


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
