"""Simple extrema: comparisons with constants are exact, and no order left open is ever shown."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given

from iris.interp import metal as interpreter
from iris.ir import math, parse, verify
from iris.ir.control import Func
from iris.ir.core import Module
from iris.passes import run
from iris.passes.metal.simplify_extrema import SimplifyExtrema
from iris.testing import preserves, programs
from iris.tools.replay import Program

NUMBERS = ("0.0", "-0.0", "1.0", "-1.0", "inf", "-inf", "nan", "1e-45", "-1e-45")
NAMES = ("maxnum", "minnum", "maximum", "minimum")
EXTREMA = (math.MaxNum, math.MinNum, math.Maximum, math.Minimum)


def with_constant(name: str, constant: str) -> Module:
    return parse(
        f"""
        func metal @f simdgroups=1(%X: ptr<f32>, %Y: ptr<f32>) {{
          %lane: i32 = metal.lane
          %c: f32 = constant {constant}
          %x: f32 = metal.load %X, %lane
          %y: f32 = {name} %x, %c
          metal.store %Y, %lane, %y
          return
        }}
        """
    )


def bits_of(module: Module) -> list[int]:
    """What a function stores, for each of the numbers."""
    (function,) = module
    assert isinstance(function, Func)
    x, y = np.zeros(32, np.float32), np.zeros(32, np.float32)
    x[: len(NUMBERS)] = [float(number) for number in NUMBERS]
    interpreter.run(function, (1, 1, 1), [x, y])
    return [int(bits) for bits in y.view(np.uint32)]


@pytest.mark.parametrize(("name", "constant"), [*product(NAMES, NUMBERS)])
def test_a_comparison_with_a_constant_gives_the_same_bits(name: str, constant: str) -> None:
    module = with_constant(name, constant)
    done = run(module, "simplify-extrema")
    assert ("nsz" in str(done) or "select" in str(done)) == (constant != "nan")
    verify(done)
    assert bits_of(done) == bits_of(module)


@given(programs.metal(dtypes=["f32"]))
def test_either_zero_gives_the_same_results(program: Program) -> None:
    """Where an extremum may give either zero, the interpreter gives the one that it would not."""
    preserves(SimplifyExtrema(), program)


@given(programs.metal(ops=[*EXTREMA, math.Exp, math.Compare, math.Abs], dtypes=["f32", "f16"]))
def test_programs_of_extrema_stay_the_same(program: Program) -> None:
    preserves(SimplifyExtrema(), program)


def test_a_wrong_zero_is_seen() -> None:
    """What the other tests rest on."""
    module = with_constant("maximum", "0.0")
    before = bits_of(module)
    (op,) = [op for op in module.walk() if isinstance(op, math.Extremum)]
    op.attributes = (True,)
    assert bits_of(module) != before
