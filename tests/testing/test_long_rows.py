"""Random programs of one long row, and that many of them spill a part of it."""

from __future__ import annotations

from hypothesis import given, settings

from iris.compiler.options import Options
from iris.ir.core import Level
from iris.passes import run
from iris.targets.nvidia import H200
from iris.testing import long_rows
from iris.testing.choices import Choices
from iris.testing.properties import PROPERTIES
from iris.tools.replay import Program
from support import counts


@settings(max_examples=counts(10, 1000), deadline=None)
@given(long_rows.programs())
def test_a_row_in_two_memories_is_what_it_was_in_one(program: Program) -> None:
    PROPERTIES["long-rows"].holds([program], 5.0)


def test_many_of_them_spill() -> None:
    lowering = Options(num_simdgroups=long_rows.SIMDGROUPS).pipeline(Level.METAL, H200)
    spilled = 0
    for number in range(40):
        program = long_rows.made(Choices(bytes([number * 7 % 256] * long_rows.BYTES)))
        (function,) = run(program.module, lowering)
        spilled += function.resident_programs == 2
    assert spilled >= 8
