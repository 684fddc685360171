"""The tile program of a graph that is one kernel (`graph-to-tile`)."""

from __future__ import annotations

from iris.errors import PassError
from iris.ir.builder import Builder
from iris.ir.control import Func, Return
from iris.ir.core import Level, Value
from iris.ir.graph import Scatter
from iris.ir.math import element_type
from iris.ir.types import Ptr
from iris.passes.tiling import combining  # noqa: F401 -- registers how it is emitted
from iris.passes.tiling.demand import Demands, Unfit
from iris.passes.tiling.emit import Emitter
from iris.passes.tiling.plan import Plan
from iris.passes.tiling.schedule import Cut, cut


def cut_up(function: Func, room: int) -> Cut:
    """How a function is cut up that is one kernel."""
    return cut(Demands.of(function.body.end.operands, function.body.arguments), room)


def tiled(function: Func, room: int) -> Func:
    """The tile program of a function, of tiles of so many bytes."""
    try:
        return _emitted(function, cut_up(function, room).plan())
    except Unfit as error:
        raise PassError(f"@{function.symbol} is not one kernel: {error}") from None


def _emitted(function: Func, plan: Plan) -> Func:
    body = function.body
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
