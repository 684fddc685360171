"""Marks of arithmetic: the interpreter reports what wraps, the verifier what makes more than
addresses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from iris.analysis.ranges import Ranges
from iris.compiler.pipelines import METAL_PIPELINE
from iris.errors import ParseError, ProgramError, VerifyError
from iris.interp import metal as interpreter
from iris.ir import math, parse, verify
from iris.ir.core import Module
from iris.ir.math import Nowrap
from iris.ir.types import DTYPES
from iris.passes import run
from iris.passes.metal.mark_nowrap import MarkNowrap
from iris.testing import preserves, programs
from iris.tools.replay import Program

INTEGERS = [name for name, dtype in DTYPES.items() if dtype.is_integer]


@given(programs.metal(dtypes=INTEGERS))
def test_the_marks_of_thread_programs_hold(program: Program) -> None:
    preserves(MarkNowrap(), program)


def test_the_marks_come_last() -> None:
    assert isinstance(METAL_PIPELINE.passes[-1], MarkNowrap)


def marked(function: str) -> Module:
    module = run(parse(function), "mark-nowrap")
    verify(module)
    return module


SUM = """
func metal @f simdgroups=1(%X: ptr<i32>) {
  %lane: i32 = metal.lane
  %c1: i32 = constant 1
  %x: i32 = metal.load %X, %lane
  %one: i32 = add %x, %c1
  %two: i32 = mul %one, %x
  @use
  return
}
"""


def reasons(use: str) -> list[Nowrap]:
    module = marked(SUM.replace("@use", use))
    return [op.nowrap for op in module.walk() if isinstance(op, math.Wrapping)][:2]


@pytest.mark.parametrize(
    "use",
    [
        "metal.store %X, %two, %x",
        "%y: i32 = metal.load %X, %two",
        "%old: i32 = metal.atomic add %X, %two, %x",
        "%y: i32 = metal.atomic_load %X, %two",
        "%old: i32, %done: bool = metal.compare_exchange %X, %two, %x, %x",
        "%three: i32 = neg %two\nmetal.store %X, %three, %x",
    ],
)
def test_what_makes_addresses_only(use: str) -> None:
    assert reasons(use) == [Nowrap.ADDRESS, Nowrap.ADDRESS]
    assert reasons(f"{use}\nmetal.store %X, %lane, %one") == [Nowrap.NONE, Nowrap.ADDRESS]


@pytest.mark.parametrize(
    "use",
    [
        "metal.store %X, %lane, %two",
        "metal.store %X, %two, %two",
        "%wide: i64 = cast %two\nmetal.store %X, %wide, %x",
        "%three: i32 = floordiv %two, %c1\nmetal.store %X, %three, %x",
        "%three: i32 = shl %two, %c1\nmetal.store %X, %three, %x",
        "%three: i32 = abs %two\nmetal.store %X, %three, %x",
        "%three: i32 = maxnum %two, %c1\nmetal.store %X, %three, %x",
    ],
)
def test_what_makes_more_than_addresses(use: str) -> None:
    assert reasons(use) == [Nowrap.NONE, Nowrap.NONE]
    claimed = parse(SUM.replace("%x, %c1", "%x, %c1, nowrap=address").replace("@use", use))
    with pytest.raises(VerifyError, match="more than addresses is made of it; mark-nowrap finds"):
        verify(claimed)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("%y: f32 = add %x, %x, nowrap=fits", "only integers wrap"),
        ("%y: f32 = neg %x, nowrap=address", "only integers wrap"),
        ("%y: f32 = mod %x, %x, natural=true", "only integers are natural"),
    ],
)
def test_floats_have_no_marks(line: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        parse(f"func metal @f simdgroups=1(%x: f32) {{\n{line}\nreturn\n}}")


def test_ranges_that_show_too_much_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the other tests rest on."""
    module = parse(SUM.replace("@use", "metal.store %X, %lane, %two"))
    x = np.full(32, 2**31 - 1, np.int32)
    (function,) = run(module, "mark-nowrap")
    interpreter.run(function, (1, 1, 1), [x.copy()])
    monkeypatch.setattr(Ranges, "fits", lambda self, op: True)
    (function,) = run(module, "mark-nowrap")
    with pytest.raises(ProgramError, match="nowrap=fits, of a result that does not fit i32"):
        interpreter.run(function, (1, 1, 1), [x])
