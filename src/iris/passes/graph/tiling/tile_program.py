"""Lower a graph that is one launch to a tile program (`graph-to-tile`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from iris.errors import PipelineError
from iris.ir import tile
from iris.ir.builder import Builder
from iris.ir.control import Func, If, Return, Yield
from iris.ir.core import Level, Value
from iris.ir.graph import Kernel, Launch, Scatter
from iris.ir.math import Compare, Constant, Predicate, Sub, element_type
from iris.ir.types import Ptr, i32
from iris.passes.graph.tiling import emit_aggregates  # noqa: F401 -- registered by being read
from iris.passes.graph.tiling.choose_schedule import cheapest_schedule
from iris.passes.graph.tiling.element_graph import ElementGraph, OutputStore
from iris.passes.graph.tiling.element_ref import CannotFuse
from iris.passes.graph.tiling.kernel_schedule import KernelSchedule
from iris.passes.graph.tiling.plan import Plan
from iris.passes.graph.tiling.refine_schedule import refined
from iris.passes.graph.tiling.tile_emitter import Emitter
from iris.passes.tile.layouts.choose_simdgroups import most_simdgroups
from iris.targets import Target


def schedule_of(kernel: Kernel) -> KernelSchedule:
    """The schedule that a kernel has."""
    if kernel.schedule is None:
        raise PipelineError(f"@{kernel.symbol} has no schedule; the pass `schedule` chooses one")
    try:
        return KernelSchedule.read(elements_of(kernel), kernel.schedule)
    except CannotFuse as error:
        raise _cannot_run(kernel, error) from None


def _cannot_run(op: Kernel | Launch, error: CannotFuse) -> PipelineError:
    """The error for a schedule that cannot be followed, with the user's line."""
    return PipelineError(f"@{op.symbol} cannot run by its schedule: {error}", op.location)


def chosen_schedule(kernel: Kernel, max_tile_bytes: int, target: Target) -> KernelSchedule:
    """The cheapest schedule for a kernel."""
    try:
        schedule = cheapest_schedule(elements_of(kernel), max_tile_bytes, target)
    except CannotFuse as error:
        raise PipelineError(f"@{kernel.symbol} is not one kernel: {error}") from None
    return refined(schedule, max_tile_bytes, target)


def elements_of(kernel: Kernel) -> ElementGraph:
    """The elements that a kernel computes."""
    written = kernel.written
    shapes = dict.fromkeys(f"{element_type(v.type).shape}" for v in written)
    if len(shapes) != 1:
        raise CannotFuse(
            f"its results have the shapes {', '.join(shapes)}" if shapes else "it has no results"
        )
    return ElementGraph.of(written, kernel.inputs)


def lower_launch(launch: Kernel | Launch, function: Func) -> Func:
    """Lower a function that is one launch to a tile program."""
    for value, result in zip(launch.written, launch.results, strict=True):
        value.name = result.name
    schedules = [schedule_of(kernel) for kernel in launch.kernels]
    parts = [Part(s.plan(), k.written) for s, k in zip(schedules, launch.kernels, strict=True)]
    try:
        func = build_tile_func(parts, function.body.arguments, function)
        func.set_simdgroups(_simdgroups(schedules))
    except CannotFuse as error:
        raise _cannot_run(launch, error) from None
    return func


def _simdgroups(schedules: Sequence[KernelSchedule]) -> int:
    """How many simdgroups run each program of a launch; 0, if the schedules do not say so."""
    counts = {schedule.simdgroups for schedule in schedules}
    if len(counts) > 1:
        raise CannotFuse(f"its kernels have other numbers of simdgroups: {sorted(counts)}")
    return counts.pop()


def most_of_launch(launch: Kernel | Launch, function: Func) -> int:
    """How many simdgroups can run a launch without computing a part of a matrix product twice."""
    programs = [
        build_tile_func([Part(schedule_of(k).plan(), k.written)], k.inputs, function)
        for k in launch.kernels
    ]
    return min(map(most_simdgroups, programs))


class Part(NamedTuple):
    """What some programs of a launch do: the plan of a kernel, and the tensors that it writes."""

    plan: Plan
    outputs: Sequence[Value]


#: The elements that a program stores, each with the pointer to its tensor.
Stores: TypeAlias = list[tuple[OutputStore, Value]]


def grid_of(plans: Sequence[Plan]) -> tuple[int, int, int]:
    """The grid of a launch: that of its kernel, or the programs of all kernels in a row."""
    run = [plan for plan in plans if plan.program_count]
    if len(run) < 2:
        return (*run, *plans)[0].grid
    return sum([plan.program_count for plan in run]), 1, 1


def build_tile_func(parts: Sequence[Part], inputs: Iterable[Value], function: Func) -> Func:
    """Emit the tile program of a launch, with the name of a function."""
    read = list(inputs)
    outputs = [v for part in parts for v in part.outputs]
    results = [v for v in outputs if not isinstance(v.op, Scatter)]
    func = Func(
        function.symbol,
        Level.TILE,
        [_pointer(v) for v in (*read, *results)],
        fast_math=function.fast_math,
        grid=grid_of([part.plan for part in parts]),
        location=function.location,
    )
    arguments = func.body.arguments
    pointers = dict(zip(read, arguments, strict=False))
    # By position: a kernel may write what it reads, or one value twice.
    own = iter(arguments[len(read) :])
    written_to = [pointers[v.op.x] if isinstance(v.op, Scatter) else next(own) for v in outputs]
    builder = Builder(func.body, location=function.location)
    left = iter(written_to)
    emitted = [(plan, _stores(plan, [next(left) for _ in written])) for plan, written in parts]
    running = [(plan, stores) for plan, stores in emitted if plan.program_count]
    if len(running) == 1:
        ((plan, stores),) = running
        Emitter(plan, builder, pointers).emit_program(stores)
    elif running:
        _emit_side_by_side(running, 0, builder(tile.ProgramId(0)), builder, pointers)
    builder.insert(Return([], location=function.location))
    return func


def _stores(plan: Plan, pointers: Sequence[Value]) -> Stores:
    """The elements that a plan stores, each with the pointer to its tensor."""
    parts = len(plan.elements.outputs) // len(pointers)
    pointers_of_parts = [pointer for pointer in pointers for _ in range(parts)]
    return list(zip(plan.elements.outputs, pointers_of_parts, strict=True))


def _emit_side_by_side(
    running: Sequence[tuple[Plan, Stores]],
    start: int,
    number: Value,
    builder: Builder,
    pointers: Mapping[Value, Value],
) -> None:
    """Emit plans whose programs are one after the other, from the number `start` on."""
    if len(running) == 1:
        ((plan, stores),) = running
        own = builder(Sub(number, builder(Constant(start, i32)))) if start else number
        Emitter(plan, builder, pointers, own).emit_program(stores)
        return
    middle = len(running) // 2
    first, others = running[:middle], running[middle:]
    end = start + sum([plan.program_count for plan, _ in first])
    is_first = builder(Compare(Predicate.LT, number, builder(Constant(end, i32))))
    branch = builder.insert(If(is_first))
    for region, plans, begin in (
        (branch.then, first, start),
        (branch.otherwise, others, end),
    ):
        with builder.inside(region):
            _emit_side_by_side(plans, begin, number, builder, pointers)
            builder.insert(Yield([]))


def _pointer(value: Value) -> tuple[str | None, Ptr]:
    return value.name, Ptr(value.type.element, noalias=True, aligned=True)
