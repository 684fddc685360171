"""Lower a graph that is one launch to a tile program."""

from __future__ import annotations

from dataclasses import dataclass

from iris.errors import PipelineError
from iris.ir import graph
from iris.ir.control import Func
from iris.ir.core import Level, Module
from iris.passes.pipeline import Pass


@dataclass(frozen=True)
class GraphToTile(Pass):
    """Lower a function that is one launch to a tile program, by the schedules of its kernels.

        func graph @scale returns=[tensor<64x1000xf32>](%x: tensor<64x1000xf32>) {
          %y: tensor<64x1000xf32> = graph.kernel @scale schedule=[i0i1: programs 1024 of 64000] {
            %y_1: tensor<64x1000xf32> = mul %x, %x
            yield %y_1
          }
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
    becomes a loop or a tile over its axis, and a matrix product a loop around `tile.dot`.

    A `graph.launch` numbers the programs of its kernels in a row: first all programs of the first
    kernel, then the second's, and so on.  Each program branches on its number.
    """

    name = "graph-to-tile"
    level = Level.GRAPH

    def run(self, module: Module) -> None:
        # opened when first used
        from iris.passes.graph.tiling.overwritten import check_overwritten
        from iris.passes.graph.tiling.tile_program import lower_launch

        for function in list(module):
            if isinstance(function, Func):
                check_overwritten(function)
                function.insert_before(lower_launch(_only_launch(function), function))
                function.erase()


def _only_launch(function: Func) -> graph.Kernel | graph.Launch:
    """What writes all that a function returns."""
    launches = graph.launches_in(function.body)
    if not launches:
        raise PipelineError(
            f"@{function.symbol} has no kernel; `schedule` makes it one, and `fuse` several"
        )
    if len(launches) > 1:
        names = ", ".join(f"@{launch.symbol}" for launch in launches)
        raise PipelineError(f"@{function.symbol} has {len(launches)} kernels, not one: {names}")
    (launch,) = launches
    if tuple(launch.results) != function.body.end.operands:
        raise PipelineError(f"@{function.symbol} returns other values than @{launch.symbol} writes")
    for value in launch.inputs:
        if value.op is not None:
            raise PipelineError(f"@{launch.symbol} reads {value!r}, which is not an argument")
    return launch
