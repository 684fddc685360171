"""Relaxed nans: rows of numbers, infinities and nan have the results they had."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given

from iris.interp import tile as interp
from iris.ir import parse, tile, verify
from iris.ir.control import Func
from iris.ir.core import Module
from iris.ir.kinds import ReduceKind
from iris.passes import run
from iris.passes.tile.relax_nans import RelaxNans
from iris.testing import preserves, programs
from iris.tools.replay import Program

SPECIAL = (np.nan, np.inf, -np.inf, 0.0, 1.0)
QUOTIENT = "%t: tile<4xf32> = tile.broadcast %s\n%y: tile<4xf32> = div %e, %t"
LOGARITHM = """
%l: f32 = log %s
%t: tile<4xf32> = tile.broadcast %l
%y: tile<4xf32> = sub %d, %t
"""


def softmax(kind: str, masked: bool, end: str) -> Module:
    return parse(
        f"""
        func tile @f returns=[tile<4xf32>](%x: tile<4xf32>) {{
          %at: tile<4xi32> = tile.arange 0
          %c3: tile<4xi32> = constant 3
          %in: tile<4xbool> = compare lt %at, %c3
          %least: tile<4xf32> = constant 5.0
          %none: tile<4xf32> = constant 0.0
          %part: tile<4xf32> = select %in, %x, %least
          %m: f32 = tile.reduce {kind} 0 {"%part" if masked else "%x"}
          %ms: tile<4xf32> = tile.broadcast %m
          %d: tile<4xf32> = sub %x, %ms
          %e: tile<4xf32> = exp %d
          %some: tile<4xf32> = select %in, %e, %none
          %s: f32 = tile.reduce sum 0 {"%some" if masked else "%e"}
          {end}
          return %y
        }}
        """
    )


def results(module: Module) -> list[np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
    (function,) = module
    assert isinstance(function, Func)
    rows = [np.array(row, np.float32) for row in product(SPECIAL, repeat=4)]
    with np.errstate(all="ignore"):
        return [interp.run(function, (1, 1, 1), [row])[0] for row in rows]


@pytest.mark.parametrize("kind", ["maximum", "minimum"])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("end", [QUOTIENT, LOGARITHM], ids=["softmax", "log-softmax"])
def test_each_row_has_the_results_it_had(kind: str, masked: bool, end: str) -> None:
    module = softmax(kind, masked, end)
    done = run(module, "relax-nans")
    verify(done)
    kinds = {op.kind for op in done.walk() if isinstance(op, tile.Reduce)}
    assert not kinds.isdisjoint({ReduceKind.MAXNUM, ReduceKind.MINNUM})
    for before, after in zip(results(module), results(done), strict=True):
        np.testing.assert_array_equal(before, after)


@given(programs.tile(ops=[tile.Reduce], dtypes=["f32"]))
def test_programs_stay_the_same(program: Program) -> None:
    preserves(RelaxNans(), program)
