"""Lower a graph that is one kernel to a tile program."""

from __future__ import annotations

from dataclasses import dataclass

from iris.ir.control import Func
from iris.ir.core import Level, Module
from iris.passes.pipeline import TargetPass

MAX_TILE_BYTES = 16 << 10


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

    Results are written to arguments of their own; a scatter writes in place.  An element of a
    result becomes an expression of other elements (`tiling`): a view changes indices, a reduction
    becomes a loop or a tile over its axis, and a matrix product a loop around `tile.dot`.  No tile
    takes more than `max_tile_bytes`.
    """

    name = "graph-to-tile"
    level = Level.GRAPH
    max_tile_bytes: int = MAX_TILE_BYTES

    def run(self, module: Module) -> None:
        from iris.passes.graph.tiling.tile_program import lower_graph  # opened when first used

        for function in list(module):
            if isinstance(function, Func):
                function.insert_before(lower_graph(function, self.max_tile_bytes, self.target))
                function.erase()
