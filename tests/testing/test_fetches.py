"""Random programs that load elements to store them where all threads find them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import Phase, given, settings

from iris.errors import ProgramError
from iris.ir import metal
from iris.passes import Pipeline, run
from iris.passes.metal.async_copies import AsyncCopies
from iris.passes.metal.spread_copies import SpreadCopies
from iris.targets.nvidia import H200
from iris.testing import fetches
from iris.testing.faults import stage_options
from iris.testing.properties import PROPERTIES
from iris.testing.turns import DropBarriers
from iris.tools.replay import Program
from support import counts


@settings(max_examples=counts(15, 2000), deadline=None)
@given(fetches.programs())
def test_copies_bring_what_loads_and_stores_do(program: Program) -> None:
    PROPERTIES["copies"].holds([program], 5.0)


def test_most_of_them_have_something_to_copy() -> None:
    drawn: list[Program] = []

    @settings(max_examples=150, phases=[Phase.generate], database=None, deadline=None)
    @given(fetches.programs())
    def draw(program: Program) -> None:
        drawn.append(program)

    draw()
    found: Counter[str] = Counter()
    copying = Pipeline((DropBarriers(), AsyncCopies(H200)))
    for program in drawn:
        module = run(program.module, copying)
        copies = [op for op in module.walk() if isinstance(op, metal.Copy)]
        found["copies"] += bool(copies)
        found["masked"] += any(op.mask is not None for op in copies)
        found.update({op.parent_op.name for op in copies if op.parent_op is not None})
        found["spread"] += SpreadCopies().run(module)["copies"] > 0
    assert found["copies"] > len(drawn) // 2
    for kind in ("masked", "if", "for", "metal.foreach"):
        assert found[kind] > len(drawn) // 20, kind
    assert found["spread"]


WRITTEN = """
# grid: 1, 1, 1
# argument %X: i32[32] seed=1
# argument %Y: i32[32]

func metal @main simdgroups=1(%X: ptr<i32, aligned>, %Y: ptr<i32, noalias>) {
  %at: i32 = metal.lane
  %zero: i32 = constant 0
  %shared: threadgroup<32xi32> = metal.alloc
  metal.copy 1 %shared, %at, %X, %at
  metal.store %X, %at, %zero
  metal.wait_copies 0
  %x: i32 = metal.load %shared, %at
  metal.store %Y, %at, %x
  return
}
"""


def test_what_is_copied_must_not_be_written_before_the_wait() -> None:
    program = Program.parse(WRITTEN)
    with pytest.raises(ProgramError, match=r"index \d+ of X is written before the copy"):
        program.run(program.make_arguments())


def test_where_waits_are_yet_to_come_copies_are_done_at_once() -> None:
    lines = WRITTEN.splitlines()
    left_out = "  metal.wait_copies 0", "  metal.store %X, %at, %zero"
    program = Program.parse("\n".join([line for line in lines if line not in left_out]))
    rest = Pipeline.parse("wait-for-copies")
    arguments = program.make_arguments()
    program.run(arguments, **stage_options(program, rest))
    np.testing.assert_array_equal(arguments[1], arguments[0])
    with pytest.raises(ProgramError, match="is still being copied to"):
        program.run(program.make_arguments(), **stage_options(program, Pipeline()))
