"""The tile program of a graph that is one kernel (`graph-to-tile`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from iris.errors import PipelineError
from iris.ir.builder import Builder
from iris.ir.control import Func, Return
from iris.ir.core import Level, Value
from iris.ir.graph import Scatter
from iris.ir.math import element_type
from iris.ir.types import Ptr
from iris.passes.graph.tiling import combining, rules  # noqa: F401 -- registered by being read
from iris.passes.graph.tiling.cost import cut
from iris.passes.graph.tiling.demand import Unfit
from iris.passes.graph.tiling.demands import Demands
from iris.passes.graph.tiling.emit import Emitter
from iris.passes.graph.tiling.plan import Plan
from iris.passes.graph.tiling.schedule import Cut
from iris.targets import Target


def cut_up(function: Func, room: int, target: Target) -> Cut:
    """How a function is cut up that is one kernel."""
    demands = Demands.of(function.body.end.operands, function.body.arguments)
    return cut(demands, room, target)


def tiled(function: Func, room: int, target: Target) -> Func:
    """The tile program of a function, of tiles of so many bytes."""
    body = function.body
    try:
        plan = cut_up(function, room, target).plan()
        return written(plan, body.arguments, body.end.operands, function)
    except Unfit as error:
        raise PipelineError(f"@{function.symbol} is not one kernel: {error}") from None


def written(plan: Plan, inputs: Iterable[Value], outputs: Sequence[Value], function: Func) -> Func:
    """The tile program of what makes outputs of inputs, with the name of a function."""
    results = [v for v in outputs if not isinstance(v.op, Scatter)]
    arrays = [*inputs, *results]
    made = Func(
        function.symbol,
        Level.TILE,
        [_pointer(v) for v in arrays],
        fast_math=function.fast_math,
        grid=plan.grid,
        location=function.location,
    )
    pointers = dict(zip(arrays, made.body.arguments, strict=True))
    builder = Builder(made.body, location=function.location)
    into = [v.op.x if isinstance(v.op, Scatter) else v for v in outputs]
    if plan.demands.outputs:  # what has no elements needs no program
        targets = zip(plan.demands.outputs, [pointers[v] for v in into], strict=True)
        Emitter(plan, builder, pointers).program(list(targets))
    builder.insert(Return([], location=function.location))
    return made


def _pointer(value: Value) -> tuple[str | None, Ptr]:
    return value.name, Ptr(element_type(value.type).element, noalias=True, aligned=True)
