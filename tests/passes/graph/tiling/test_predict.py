"""What is counted of a schedule: lines that loads need, held against the addresses of its lanes."""

from __future__ import annotations

import numpy as np
import pytest

from iris.compiler.compilation import entry_of
from iris.cost.counts import Counts
from iris.ir import graph
from iris.ir.text.parser import parse
from iris.passes.graph.tiling.predict import _access
from iris.passes.graph.tiling.tile_program import schedule_of
from iris.targets import DEFAULT

KERNEL = """
func graph @f returns=[tensor<64x64xf32>](%x: tensor<64x640xf32>) {
  %y: tensor<64x64xf32> = graph.kernel @f schedule=[i0: programs 1 of 64, i1: programs 64 of 64] {
VIEWS
    %y_1: tensor<64x64xf32> = neg %v
    yield %y_1
  }
  return %y
}
"""
T = "tensor<64x64xf32>"
SLICE = "graph.slice [0, 0] [1, STEP] %x"
VIEWS = {
    "neighbours": ([f"%v: {T} = {SLICE.replace('STEP', '1')}"], np.arange(64)),
    "every second": ([f"%v: {T} = {SLICE.replace('STEP', '2')}"], 2 * np.arange(64)),
    "every eighth": ([f"%v: {T} = {SLICE.replace('STEP', '8')}"], 8 * np.arange(64)),
    "each twice": (
        [
            "%a: tensor<64x32xf32> = graph.slice [0, 0] [1, 1] %x",
            "%b: tensor<64x32x1xf32> = graph.reshape %a",
            "%c: tensor<64x32x2xf32> = graph.broadcast %b",
            f"%v: {T} = graph.reshape %c",
        ],
        np.arange(64) // 2,
    ),
    "every second, each twice": (
        [
            "%a: tensor<64x32xf32> = graph.slice [0, 0] [1, 2] %x",
            "%b: tensor<64x32x1xf32> = graph.reshape %a",
            "%c: tensor<64x32x2xf32> = graph.broadcast %b",
            f"%v: {T} = graph.reshape %c",
        ],
        np.arange(64) // 2 * 2,
    ),
    "columns of blocks": (
        [
            "%a: tensor<64x64xf32> = graph.slice [0, 0] [1, 1] %x",
            "%b: tensor<64x16x4xf32> = graph.reshape %a",
            "%c: tensor<64x4x16xf32> = graph.transpose [0, 2, 1] %b",
            f"%v: {T} = graph.reshape %c",
        ],
        np.arange(64) % 16 * 4 + np.arange(64) // 16,
    ),
}


@pytest.mark.parametrize("name", VIEWS)
def test_lines_of_a_load(name: str) -> None:
    views, columns = VIEWS[name]
    text = KERNEL.replace("VIEWS", "\n".join([f"    {view}" for view in views]))
    (kernel,) = graph.launches_in(entry_of(parse(text)).body)
    schedule = schedule_of(kernel.kernels[0])
    ((ref, load),) = schedule.elements.loads.items()
    counts = Counts()
    along = schedule.elements.dependencies[ref]
    _access(counts, schedule, ref, load.offset, along, 1, DEFAULT)
    lines = len({*(4 * columns // DEFAULT.line_bytes)})
    assert counts.device.loaded == 4 * 64
    assert counts.device.lines == lines
