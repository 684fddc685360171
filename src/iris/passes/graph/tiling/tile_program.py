"""Lower a graph that is one kernel to a tile program (`graph-to-tile`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from iris.errors import PipelineError
from iris.ir.builder import Builder
from iris.ir.control import Func, Return
from iris.ir.core import Level, Value
from iris.ir.graph import Scatter
from iris.ir.types import Ptr
from iris.passes.graph.tiling import element_rules, emit_aggregates  # noqa: F401 -- registered by being read
from iris.passes.graph.tiling.element_graph import ElementGraph
from iris.passes.graph.tiling.element_ref import CannotFuse
from iris.passes.graph.tiling.kernel_cost import cheapest_schedule
from iris.passes.graph.tiling.plan import Plan
from iris.passes.graph.tiling.schedule import Schedule
from iris.passes.graph.tiling.tile_emitter import Emitter
from iris.targets import Target


def schedule_of(function: Func, max_tile_bytes: int, target: Target) -> Schedule:
    """The schedule of a function that is one kernel."""
    elements = ElementGraph.of(function.body.end.operands, function.body.arguments)
    return cheapest_schedule(elements, max_tile_bytes, target)


def lower_graph(function: Func, max_tile_bytes: int, target: Target) -> Func:
    """Lower a function of tensors to a tile program."""
    body = function.body
    try:
        plan = schedule_of(function, max_tile_bytes, target).plan()
        return build_tile_func(plan, body.arguments, body.end.operands, function)
    except CannotFuse as error:
        raise PipelineError(f"@{function.symbol} is not one kernel: {error}") from None


def build_tile_func(
    plan: Plan, inputs: Iterable[Value], outputs: Sequence[Value], function: Func
) -> Func:
    """Emit the tile program of a plan, with the name of a function."""
    results = [v for v in outputs if not isinstance(v.op, Scatter)]
    arrays = [*inputs, *results]
    func = Func(
        function.symbol,
        Level.TILE,
        [_pointer(v) for v in arrays],
        fast_math=function.fast_math,
        grid=plan.grid,
        location=function.location,
    )
    pointers = dict(zip(arrays, func.body.arguments, strict=True))
    builder = Builder(func.body, location=function.location)
    destinations = [v.op.x if isinstance(v.op, Scatter) else v for v in outputs]
    if plan.elements.outputs:  # empty outputs need no program
        targets = zip(plan.elements.outputs, [pointers[v] for v in destinations], strict=True)
        Emitter(plan, builder, pointers).emit_program(list(targets))
    builder.insert(Return([], location=function.location))
    return func


def _pointer(value: Value) -> tuple[str | None, Ptr]:
    return value.name, Ptr(value.type.element, noalias=True, aligned=True)
