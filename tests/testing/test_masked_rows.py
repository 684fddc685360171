"""Rows that are loaded under a mask: passes keep what they do, and have something to do."""

from __future__ import annotations

import random

from hypothesis import given

from iris.ir import math, tile
from iris.ir.kinds import ReduceKind
from iris.passes import run
from iris.testing import masked_rows, preserves
from iris.testing.choices import Choices
from iris.tools.replay import Program

PASSES = "follow-masks,fold,canonicalize,cse,relax-nans"


@given(masked_rows.programs())
def test_passes_keep_what_they_do(program: Program) -> None:
    preserves(PASSES, program)


def test_some_maxima_may_drop_nan_and_others_may_not() -> None:
    rng = random.Random(0)
    relaxed = {True: 0, False: 0}
    for _ in range(100):
        module = masked_rows.made(Choices(rng.randbytes(masked_rows.BYTES))).module
        for op in run(module, PASSES).walk():
            if isinstance(op, tile.Reduce) and op.kind is not ReduceKind.SUM:
                relaxed[op.kind in (ReduceKind.MAXNUM, ReduceKind.MINNUM)] += 1
    assert min(relaxed.values()) > 9, relaxed


def test_zeros_are_those_of_many_ops() -> None:
    rng = random.Random(0)
    ops = set()
    for _ in range(200):
        module = masked_rows.made(Choices(rng.randbytes(masked_rows.BYTES))).module
        ops.update(type(op) for op in module.walk())
    assert ops >= {tile.Dot, tile.Transpose, tile.Reshape, math.Mul, math.Sqrt}
