"""Kernels with schedules become smaller: their schedules follow."""

from __future__ import annotations

import pytest

from iris.ir import graph
from iris.ir.axis_schedule import Place
from iris.testing.fusing import fuses
from iris.testing.reduce import reduce
from iris.testing.report import Failure
from iris.tools.replay import Program

VARIANCE = """\
# entry: @variance
# argument %x: f32[5, 35] seed=3

func graph @variance returns=[tensor<5x35xf32>](%x: tensor<5x35xf32>) {
  %0: tensor<5x35xf32> = graph.kernel @variance schedule=[i0: programs 1 of 5, i1: loop 8 of 35, r0: online 8 of 35, simdgroups: 1] {
    %1: tensor<5xf32> = graph.reduce sum [1] %x
    %c35_0: tensor<5xf32> = constant 35.0
    %2: tensor<5xf32> = div %1, %c35_0
    %3: tensor<5x1xf32> = graph.reshape %2
    %4: tensor<5x35xf32> = graph.broadcast %3
    %5: tensor<5x35xf32> = sub %x, %4
    %6: tensor<5x35xf32> = mul %5, %5
    %7: tensor<5xf32> = graph.reduce sum [1] %6
    %8: tensor<5x1xf32> = graph.reshape %7
    %9: tensor<5x35xf32> = graph.broadcast %8
    %10: tensor<5x35xf32> = div %x, %9
    yield %10
  }
  return %0
}
"""  # noqa: E501

TWO_SHAPES = """\
# argument %x: f32[4, 8] seed=1

func graph @both returns=[tensor<4xf32>, tensor<4x8xf32>](%x: tensor<4x8xf32>) {
  %s: tensor<4xf32>, %y: tensor<4x8xf32> = graph.kernel @both schedule=[i0: programs 4 of 4] {
    %0: tensor<4xf32> = graph.reduce maximum [1] %x
    %1: tensor<4x8xf32> = neg %x
    yield %0, %1
  }
  return %s, %y
}
"""


def test_what_no_loop_is_about_goes_with_its_axes() -> None:
    def fails(candidate: Program) -> bool:
        """As a bug of the sum of squares of an online loop would show."""
        try:
            fuses(candidate, seconds=0)
        except Failure:  # its schedule cannot be followed
            return False
        kernels = [op for op in candidate.module.walk() if isinstance(op, graph.Kernel)]
        schedules = [kernel.schedule for kernel in kernels if kernel.schedule is not None]
        places = [axis.place for schedule in schedules for axis in schedule.axes]
        names = [op.name for kernel in kernels for op in kernel.body]
        return Place.ONLINE in places and names.count("graph.reduce") == 2 and "mul" in names

    program = Program.parse(VARIANCE)
    assert fails(program)
    small = reduce(program, fails)
    (kernel,) = [op for op in small.module.walk() if isinstance(op, graph.Kernel)]
    names = [op.name for op in kernel.body]
    assert names[-2:] == ["graph.reduce", "yield"]
    assert names.count("graph.broadcast") == 1
    assert kernel.schedule is not None
    # The mean is over 35 elements.
    assert {axis.axis: axis.size for axis in kernel.schedule.axes} == {"r0": 35}


def test_a_kernel_that_no_schedule_fits_becomes_smaller_as_it_is() -> None:
    with pytest.raises(Failure, match=r"its results have the shapes \(1,\), \(1, 1\)"):
        fuses(Program.parse(TWO_SHAPES))
