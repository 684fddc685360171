"""Staged tiles: what is written to threadgroup memory is read back, wherever it lies there."""

from __future__ import annotations

import numpy as np
import pytest

from iris.errors import PipelineError
from iris.ir.layout.linear import LinearLayout
from iris.ir.types import DTYPES
from iris.passes.tile.layouts.access_layouts import coalesced
from iris.passes.tile.layouts.fragments import Arrangement
from laid_out_programs import LaidOut, random_data, tile_type

SHAPE = (32, 16)
LAYOUTS = {
    "rows": coalesced(SHAPE, (1, 0), 4, 2),
    "columns": coalesced(SHAPE, (0, 1), 2, 2),
    "wide": coalesced(SHAPE, (1, 0), 8, 2),
    "left": Arrangement(2, 1, 1).left(SHAPE),
    "right": Arrangement(1, 2, 1).right(SHAPE),
    "mixed": LinearLayout.of(
        SHAPE,
        register=[(1, 0), (1, 2), (4, 0)],
        lane=[(8, 1), (2, 0), (8, 0), (0, 4), (16, 0)],
        simdgroup=[(0, 8)],
    ),
}
MEMORIES = [
    "(32,16):(16,1)",
    "(32,16):(20,1)",
    "(32,16):(1,32)",
    "(32,16):(1,36)",
    "swizzle<1,3,2> (32,16):(16,1)",
    "swizzle<3,2,3> (32,16):(16,1)",
    "swizzle<2,1,3> (32,16):(16,1)",
    "swizzle<2,3,4> (32,16):(1,32)",
    "swizzle<2,0,-5> (32,16):(16,1)",
    "swizzle<2,3,3> (32,16):(32,1)",
]


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("dtype", ["f32", "f16", "i8", "bool", "i64"])
def test_a_staged_tile_is_read_in_any_layout(memory: str, dtype: str) -> None:
    element = DTYPES[dtype]
    data = random_data(element, 512, np.random.default_rng(0))
    for source in LAYOUTS.values():
        program = LaidOut(2)
        x = program.load(source, element, data)
        staged = program.emit(f"staged<32x16x{dtype}, {memory}>", f"tile.stage {x}")
        for target in LAYOUTS.values():
            type_ = tile_type(target, element)
            program.store(program.emit(type_, f"tile.unstage {staged}"), target, element)
        program.check()


@pytest.mark.parametrize(
    "memory", ["swizzle<1,3,2> (32,16):(20,1)", "swizzle<2,0,2> (32,(4,4)):(16,(4,1))"]
)
def test_a_layout_that_cannot_be_addressed_is_refused(memory: str) -> None:
    program = LaidOut(2)
    element = DTYPES["f32"]
    x = program.load(LAYOUTS["rows"], element, random_data(element, 512, np.random.default_rng(0)))
    staged = program.emit(f"staged<32x16xf32, {memory}>", f"tile.stage {x}")
    unstaged = program.emit(tile_type(LAYOUTS["rows"], element), f"tile.unstage {staged}")
    program.store(unstaged, LAYOUTS["rows"], element)
    with pytest.raises(PipelineError, match="is not lowered"):
        program.check()
