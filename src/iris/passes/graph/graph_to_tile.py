"""From a graph that one kernel computes to a tile program."""

from __future__ import annotations

from dataclasses import dataclass

from iris.ir.control import Func
from iris.ir.core import Level, Module
from iris.passes.pipeline import TargetPass

ROOM = 16 << 10


@dataclass(frozen=True)
class GraphToTile(TargetPass):
    """Lower a function of tensors, which becomes one kernel, to a tile program.

        func graph @scale returns=[tensor<64x1000xf32>](%x: tensor<64x1000xf32>) {
          %y: tensor<64x1000xf32> = mul %x, %x
          return %y
        }

    becomes

        func tile @scale grid=[63, 1, 1](%x: ptr<f32, noalias, aligned>,
                                         %y: ptr<f32, noalias, aligned>) {
          %i: i32 = tile.program_id 0
          ...
          %x_1: tile<1024xf32> = tile.load %x, %at, mask=%inside, other=%zero
          %y_1: tile<1024xf32> = mul %x_1, %x_1
          tile.store %y, %at, %y_1, mask=%inside
          return
        }

    What it returns is written to arguments of its own, but for what is scattered to, which is
    written in place.  Every element of a result is made of the elements that it depends on
    (`tiling`): a view is another index, a reduction a loop or a tile of all that it is over, and a
    product of matrices a loop around `tile.dot`.  No tile takes more than `room` bytes.
    """

    name = "graph-to-tile"
    level = Level.GRAPH
    room: int = ROOM

    def run(self, module: Module) -> None:
        from iris.passes.graph.tiling.program import tiled  # opened when first used

        for function in list(module):
            if isinstance(function, Func):
                function.insert_before(tiled(function, self.room, self.target))
                function.erase()
