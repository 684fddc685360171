"""Renumbering programs: each runs once whatever the grid, and consecutive ones share rows."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import iris
from iris.errors import ArgumentError, PipelineError
from iris.interp import metal as interpreter
from iris.ir import parse
from iris.ir.control import Func
from iris.passes import run
from iris.testing import preserves, programs
from iris.tools.replay import Program

# Each lane counts.
COUNT = """
func metal @count simdgroups=1(%X: ptr<i32>) {
  %c1: i32 = constant 1
  %x: i32 = metal.threadgroup_id 0
  %y: i32 = metal.threadgroup_id 1
  %z: i32 = metal.threadgroup_id 2
  %width: i32 = metal.num_threadgroups 0
  %height: i32 = metal.num_threadgroups 1
  %0: i32 = mul %z, %height
  %1: i32 = add %0, %y
  %2: i32 = mul %1, %width
  %at: i32 = add %2, %x
  %old: i32 = metal.atomic add %X, %at, %c1
  return
}
"""
# The same at one place of any grid, however large.
PLACE = """
func metal @place simdgroups=1(%Out: ptr<i32>, %x: i32, %y: i32, %width: i32, %height: i32) {
  %row: i32 = metal.threadgroup_id 1
  %column: i32 = metal.threadgroup_id 0
  %c0: i32 = constant 0
  %c1: i32 = constant 1
  %lane: i32 = metal.lane
  %first: bool = compare eq %lane, %c0
  metal.store %Out, %c0, %column, mask=%first
  metal.store %Out, %c1, %row, mask=%first
  return
}
"""
LARGEST = 2**31 - 1


@pytest.mark.parametrize("group", [2, 4, 8])
def test_every_program_runs_once(group: int) -> None:
    (function,) = run(parse(COUNT), f"block-swizzle{{group={group}}}")
    assert isinstance(function, Func)
    for width, height, depth in product((1, 2, 3, 7, 8, 9), (1, 2, 3, 4, 7, 9), (1, 2)):
        counts = np.zeros(width * height * depth, np.int32)
        interpreter.run(function, (width, height, depth), [counts])
        assert (counts == 32).all(), (width, height, depth)


@st.composite
def places(draw: st.DrawFn) -> tuple[int, int, int, int]:
    sizes = st.one_of(st.integers(1, 40), st.integers(LARGEST - 40, LARGEST))
    width, height = draw(sizes), draw(sizes)
    near = [st.integers(max(0, n - 40), n - 1) | st.integers(0, n - 1) for n in (width, height)]
    return draw(near[0]), draw(near[1]), width, height


@given(places(), st.sampled_from((2, 4, 32)))
def test_nothing_overflows(place: tuple[int, int, int, int], group: int) -> None:
    """Computed with integers of any size: a whole group of rows is numbered column by column."""
    text = str(run(parse(PLACE), f"block-swizzle{{group={group}}}"))
    for axis, (number, size) in enumerate((("%x", "%width"), ("%y", "%height"))):
        for name, value in (("threadgroup_id", number), ("num_threadgroups", size)):
            found = re.search(rf"(%\d+): i32 = metal.{name} {axis}\n", text)
            assert found is not None
            text = re.sub(rf"{found[1]}(?!\d)", value, text.replace(f"  {found[0]}", ""))
    (function,) = parse(text)
    assert isinstance(function, Func)
    out = np.zeros(2, np.int32)
    interpreter.run(function, (1, 1, 1), [out, *place])
    x, y, width, height = place
    first = y // group * group
    number = (y - first) * width + x
    whole = first + group <= height
    assert tuple(out) == ((number // group, first + number % group) if whole else (x, y))


@given(programs.metal())
def test_programs_do_the_same(program: Program) -> None:
    preserves("block-swizzle{group=2}", program)


@pytest.mark.parametrize("group", [0, 1, 3, 64])
def test_a_group_that_is_no_power_of_two(group: int) -> None:
    with pytest.raises(PipelineError, match="group is a power of two from 2 to 32"):
        run(parse(COUNT), f"block-swizzle{{group={group}}}")


@iris.kernel
def number(Out, N):
    row, column = iris.program_id(1), iris.program_id(0)
    iris.store(Out + row * N + column, row * 100 + column)


@pytest.mark.parametrize("device", ["interp:metal", "softmetal"])
def test_a_launch_asks_for_it(device: str) -> None:
    out = np.zeros((5, 7), np.int32)
    number[7, 5](out, 7, swizzle=2, device=device)
    np.testing.assert_array_equal(out, np.arange(5)[:, None] * 100 + np.arange(7))
    passes = [stage.name for stage in number.lower(out, 7, grid=(7, 5), swizzle=2).stages]
    assert "block-swizzle" in passes
    with pytest.raises(ArgumentError, match="swizzle is a power of two from 2 to 32, not 3"):
        number[7, 5](out, 7, swizzle=3, device=device)
