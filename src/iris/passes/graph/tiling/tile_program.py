"""Lower a graph that is one kernel to a tile program (`graph-to-tile`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from iris.errors import PipelineError
from iris.ir.builder import Builder
from iris.ir.control import Func, Return
from iris.ir.core import Level, Value
from iris.ir.graph import Kernel, Scatter
from iris.ir.math import element_type
from iris.ir.types import Ptr
from iris.passes.graph.tiling import emit_aggregates  # noqa: F401 -- registered by being read
from iris.passes.graph.tiling.choose_schedule import cheapest_schedule
from iris.passes.graph.tiling.element_graph import ElementGraph
from iris.passes.graph.tiling.element_ref import CannotFuse
from iris.passes.graph.tiling.kernel_schedule import KernelSchedule
from iris.passes.graph.tiling.plan import Plan
from iris.passes.graph.tiling.refine_schedule import refined
from iris.passes.graph.tiling.tile_emitter import Emitter
from iris.targets import Target


def schedule_of(kernel: Kernel) -> KernelSchedule:
    """The schedule that a kernel has."""
    if kernel.schedule is None:
        raise PipelineError(f"@{kernel.symbol} has no schedule; the pass `schedule` chooses one")
    try:
        return KernelSchedule.read(elements_of(kernel), kernel.schedule)
    except CannotFuse as error:
        raise PipelineError(f"@{kernel.symbol} cannot run by its schedule: {error}") from None


def chosen_schedule(kernel: Kernel, max_tile_bytes: int, target: Target) -> KernelSchedule:
    """The cheapest schedule for a kernel."""
    try:
        schedule = cheapest_schedule(elements_of(kernel), max_tile_bytes, target)
    except CannotFuse as error:
        raise PipelineError(f"@{kernel.symbol} is not one kernel: {error}") from None
    return refined(schedule, max_tile_bytes, target)


def elements_of(kernel: Kernel) -> ElementGraph:
    """The elements that a kernel computes."""
    written = kernel.body.end.operands
    shapes = dict.fromkeys(f"{element_type(v.type).shape}" for v in written)
    if len(shapes) != 1:
        raise CannotFuse(
            f"its results have the shapes {', '.join(shapes)}" if shapes else "it has no results"
        )
    return ElementGraph.of(written, kernel.inputs)


def lower_kernel(kernel: Kernel, function: Func) -> Func:
    """Lower a function that is one kernel to a tile program."""
    schedule, written = schedule_of(kernel), kernel.body.end.operands
    for value, result in zip(written, kernel.results, strict=True):
        value.name = result.name
    try:
        func = build_tile_func(schedule.plan(), function.body.arguments, written, function)
    except CannotFuse as error:
        raise PipelineError(f"@{kernel.symbol} cannot run by its schedule: {error}") from None
    func.set_simdgroups(schedule.simdgroups)
    return func


def build_tile_func(
    plan: Plan, inputs: Iterable[Value], outputs: Sequence[Value], function: Func
) -> Func:
    """Emit the tile program of a plan, with the name of a function."""
    read = list(inputs)
    results = [v for v in outputs if not isinstance(v.op, Scatter)]
    func = Func(
        function.symbol,
        Level.TILE,
        [_pointer(v) for v in (*read, *results)],
        fast_math=function.fast_math,
        grid=plan.grid,
        location=function.location,
    )
    arguments = func.body.arguments
    pointers = dict(zip(read, arguments, strict=False))
    # By position: a kernel may write what it reads, or one value twice.
    own = iter(arguments[len(read) :])
    written_to = [pointers[v.op.x] if isinstance(v.op, Scatter) else next(own) for v in outputs]
    builder = Builder(func.body, location=function.location)
    if plan.elements.outputs:  # empty outputs need no program
        parts = len(plan.elements.outputs) // len(written_to)
        pointers_of_parts = [pointer for pointer in written_to for _ in range(parts)]
        targets = list(zip(plan.elements.outputs, pointers_of_parts, strict=True))
        Emitter(plan, builder, pointers).emit_program(targets)
    builder.insert(Return([], location=function.location))
    return func


def _pointer(value: Value) -> tuple[str | None, Ptr]:
    return value.name, Ptr(value.type.element, noalias=True, aligned=True)
