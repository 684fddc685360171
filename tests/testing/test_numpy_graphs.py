"""Graphs against NumPy's own functions: the oracle, and what it holds of random graphs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings

from iris.interp import graph as interp
from iris.ir import graph, math
from iris.ir.core import OPS, Level, Module, Op
from iris.ir.graph import GraphOp
from iris.ir.math import element_type
from iris.passes import Pass, Pipeline
from iris.testing import fuses, matches_numpy, programs
from iris.testing.numpy_graphs import Expected, graph_error
from iris.testing.numpy_ops import numpy_function
from iris.tools.replay import Program
from support import counts
from wild import inexact

HOLDERS = (graph.Kernel, graph.Launch)  # of other ops
GRAPH_OPS = [cls for cls in OPS.values() if issubclass(cls, GraphOp) and cls not in HOLDERS]
MATH_OPS = [cls for cls in OPS.values() if issubclass(cls, math.Elementwise | math.Constant)]


@pytest.mark.parametrize("cls", [*GRAPH_OPS, *MATH_OPS], ids=lambda cls: cls.name)
def test_every_op_is_in_the_table(cls: type[Op]) -> None:
    # A rule of its own: one of a base class would be what the oracle is to judge.
    assert cls is math.Bitcast or numpy_function.owner(cls) is cls
    assert issubclass(cls, GraphOp) == (graph_error.get(cls) is not None) or cls is graph.Iota


@settings(max_examples=counts(50, 5000))
@given(programs.graph())
def test_the_interpreter_does_what_numpy_does(program: Program) -> None:
    matches_numpy(program)


@settings(max_examples=counts(30, 5000))
@given(programs.graph().map(inexact))
def test_passes_keep_within_bounds_what_is_not_exact(program: Program) -> None:
    matches_numpy(program, "canonicalize,fold,cse,simplify,cse,dce,expand-scatter,fuse")


@settings(max_examples=counts(30, 5000))
@given(programs.graph(portable=True).map(inexact))
def test_kernels_do_within_bounds_what_numpy_does(program: Program) -> None:
    fuses(program)


SUMS = """
# argument %x: f32[4, 64] seed=1 range=[-1.0, 1.0]

func graph @sums returns=[tensor<4xf32>, tensor<4x64xf32>, tensor<4x4xf32>](%x: tensor<4x64xf32>) {
  %s: tensor<4xf32> = graph.reduce sum [1] %x
  %c: tensor<4x64xf32> = graph.scan sum 1 %x
  %t: tensor<64x4xf32> = graph.transpose [1, 0] %x
  %p: tensor<4x4xf32> = graph.matmul %x, %t
  return %s, %c, %p
}
"""


def test_a_sum_may_be_off_by_its_roundings_and_no_more() -> None:
    program = Program.parse(SUMS)
    expected = Expected.of(program)
    x = program.make_arguments()[0].astype(np.float64)
    # Each of 63 additions rounds to 24 bits, and the order is anybody's.
    most = 64 * 2.0**-24 * np.abs(x).sum(1)
    assert np.all(expected.results[0].errors > 0) and np.all(expected.results[0].errors < most)
    assert np.all(expected.results[1].errors[:, 0] == 0)
    returned = program.run(program.make_arguments())
    expected.compare(returned)
    for index in range(3):
        wrong = [r.copy() for r in returned]
        wrong[index][0, ...] += np.float32(2 * most[0])
        with pytest.raises(AssertionError, match=rf"returned\[{index}\]\[0"):
            expected.compare(wrong)


WHOLE_SUM = """
# entry: @whole
func graph @whole returns=[tensor<f32>]() {
  %x: tensor<10000xf32> = graph.iota 0
  %s: tensor<f32> = graph.reduce sum [0] %x
  return %s
}
"""


def test_a_sum_of_whole_numbers_that_is_too_large_to_be_exact() -> None:
    program = Program.parse(WHOLE_SUM)
    matches_numpy(program)
    (result,) = Expected.of(program).results
    assert result.errors.shape == ()
    assert result.errors > 0


SLICE = """
# argument %x: f32[4, 3] seed=1

func graph @part returns=[tensor<2x3xf32>](%x: tensor<4x3xf32>) {
  %y: tensor<2x3xf32> = graph.slice [3, 0] [-2, 1] %x
  return %y
}
"""


def test_it_sees_an_interpreter_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program.parse(SLICE)
    matches_numpy(program)
    monkeypatch.setattr(interp, "_range", lambda start, step, count: slice(0, count))
    with pytest.raises(AssertionError, match=r"^the interpreter does otherwise than NumPy"):
        matches_numpy(program)


@dataclass(frozen=True)
class Backwards(Pass):
    """Takes slices from their other end."""

    name = "backwards"
    level = Level.GRAPH

    def run(self, module: Module) -> None:
        for op in module.walk():
            if isinstance(op, graph.Slice):
                sizes = element_type(op.result.type).shape
                pairs = zip(op.starts, op.steps, sizes, strict=True)
                starts = tuple([start + step * (size - 1) for start, step, size in pairs])
                new = graph.Slice(starts, tuple([-n for n in op.steps]), op.x, op.result.type)
                op.insert_before(new)
                op.result.replace_by(new.result)
                op.erase()


def test_it_names_the_pass_that_is_wrong() -> None:
    pipeline = Pipeline((*Pipeline.parse("cse"), Backwards(), *Pipeline.parse("dce")))
    with pytest.raises(AssertionError, match=r"^backwards changed what the program does"):
        matches_numpy(Program.parse(SLICE), pipeline)
