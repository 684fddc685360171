"""From a graph that one kernel computes to a tile program."""

from __future__ import annotations

from dataclasses import dataclass

from iris.errors import PassError
from iris.ir.builder import Builder
from iris.ir.control import Func, Return
from iris.ir.core import Level, Module, Value
from iris.ir.graph import Scatter
from iris.ir.math import element_type
from iris.ir.types import Ptr
from iris.passes.pipeline import Pass
from iris.passes.tiling.demand import Demands, Unfit
from iris.passes.tiling.emit import Emitter
from iris.passes.tiling.schedule import Cut, cut


@dataclass(frozen=True)
class GraphToTile(Pass):
    """Make a tile program of a function of tensors, which then is one kernel.

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
    written in place.  Every element of a result is made of the
    elements that it depends on (`passes/tiling`): a view is another index, a reduction a loop or a
    tile of all that it is over, a product of matrices a loop around `tile.dot`.
    """

    name = "graph-to-tile"
    level = Level.GRAPH

    def run(self, module: Module) -> None:
        for function in list(module):
            if isinstance(function, Func):
                try:
                    function.insert_before(tiled(function))
                except Unfit as error:
                    raise PassError(f"@{function.symbol} is not one kernel: {error}") from None
                function.erase()


def cut_up(function: Func) -> Cut:
    """How a function is cut up that is one kernel."""
    return cut(Demands.of(function.body.end.operands, function.body.arguments))


def tiled(function: Func) -> Func:
    """The tile program of a function."""
    body, plan = function.body, cut_up(function).plan()
    results = [v for v in body.end.operands if not isinstance(v.op, Scatter)]
    made = Func(
        function.symbol,
        Level.TILE,
        [*map(_pointer, body.arguments), *map(_pointer, results)],
        fast_math=function.fast_math,
        grid=plan.grid,
        location=function.location,
    )
    pointers = dict(zip((*body.arguments, *results), made.body.arguments, strict=True))
    builder = Builder(made.body, location=function.location)
    into = [v.op.x if isinstance(v.op, Scatter) else v for v in body.end.operands]
    if plan.demands.outputs:  # what has no elements needs no program
        targets = zip(plan.demands.outputs, [pointers[v] for v in into], strict=True)
        Emitter(plan, builder, pointers).program(list(targets))
    builder.insert(Return([], location=function.location))
    return made


def _pointer(value: Value) -> tuple[str | None, Ptr]:
    return value.name, Ptr(element_type(value.type).element, noalias=True, aligned=True)
