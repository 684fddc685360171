"""Choose the schedules of a function's kernels by comparing them: `iris.jit(tune=True)`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import replace
from typing import Any

from iris.compiler.array_compilation import KernelCompilation
from iris.compiler.candidates import Report, report_of
from iris.compiler.compilation import entry_of, target_of
from iris.compiler.graph_kernels import GraphKernel, kernels_of
from iris.compiler.graph_program import GraphProgram, to_argument
from iris.compiler.trial import KernelTrial, read
from iris.ir.axis_schedule import MAX_SIMDGROUPS, WrittenSchedule
from iris.ir.core import Module, Value
from iris.ir.graph import Kernel, storage_root
from iris.ir.math import element_type
from iris.ir.text.parser import parse
from iris.ir.text.printer import to_text
from iris.passes.graph.tiling.choose_schedule import considered
from iris.passes.graph.tiling.element_ref import CannotFuse
from iris.passes.graph.tiling.refine_schedule import refined
from iris.passes.graph.tiling.tile_limits import MAX_TILE_BYTES
from iris.passes.graph.tiling.tile_program import elements_of, schedule_of
from iris.runtime.device import Array, Device
from iris.targets import Target


def tuned(
    program: GraphProgram,
    device: Device,
    arguments: Sequence[Any],
    *,
    reorder: bool,
    executor: Executor | None,
) -> tuple[GraphProgram, list[Report]]:
    """The program with the fastest schedule for each kernel, and how they compare.

    The kernels run one after another, so that each is tried on what it will be given.
    """
    function, target = program.function, target_of(device)
    parameters = function.body.arguments
    given = zip(parameters, [*arguments, *program.constants], strict=True)
    arrays = {v: read(to_argument(v, x, device), device) for v, x in given}
    chosen: dict[GraphKernel, ScheduledKernel] = {}
    reports = []
    for kernel, first in zip(program.kernels, program.equal, strict=True):
        inputs = [_of(arrays, v) for v in kernel.inputs]
        if first not in chosen:
            candidates = [ScheduledKernel(t, c, inputs) for c, t in _texts(kernel, target)]
            words = [candidate.text for candidate in candidates]
            report = report_of(
                candidates, device, "", reorder=reorder, executor=executor, words=words
            )
            reports.append(report)
            chosen[first] = candidates[report.chosen]
        results = ScheduledKernel(chosen[first].text, "", inputs).trial(device).arrays()
        arrays.update(zip(kernel.outputs, results, strict=True))
    copy = Module([function.clone({})])
    own = kernels_of(entry_of(copy))
    for kernel, first in zip(own, program.equal, strict=True):
        _set_schedules(kernel, [k.schedule for k in chosen[first].kernel.op.kernels])
    return GraphProgram(copy, program.constants, keep_schedules=True), reports


def _texts(kernel: GraphKernel, target: Target) -> Iterator[tuple[str, str]]:
    """The schedules to compare, the one that the kernel has first, and the kernel with each."""
    for schedules in dict.fromkeys(_choices(kernel, target)):
        copy = kernel.module.clone()
        (own,) = kernels_of(entry_of(copy))
        _set_schedules(own, schedules)
        yield "; ".join(map(str, schedules)), to_text(copy, locations=True)


def _set_schedules(kernel: GraphKernel, schedules: Sequence[WrittenSchedule | None]) -> None:
    for op, schedule in zip(kernel.op.kernels, schedules, strict=True):
        op.set_attribute("schedule", schedule)


def _choices(kernel: GraphKernel, target: Target) -> Iterator[tuple[WrittenSchedule, ...]]:
    """Schedules for all kernels of a launch: at most one has other blocks than its own, and all
    have as many simdgroups."""
    choices = [list(_schedules(op, target)) for op in kernel.op.kernels]
    own = [schedules[0] for schedules in choices]
    for position, schedules in enumerate(choices):
        for schedule in schedules:
            chosen = (*own[:position], schedule, *own[position + 1 :])
            yield tuple([replace(one, simdgroups=schedule.simdgroups) for one in chosen])


def _schedules(kernel: Kernel, target: Target) -> Iterator[WrittenSchedule]:
    """The schedule of a kernel, those with half or twice as many lanes along one axis or half or
    twice as many simdgroups, and those that were considered before."""
    own = schedule_of(kernel)
    yield own.written
    for axis, count in own.lanes.items():
        for other in (count * 2, count // 2):
            if 1 <= other < 2 * axis.size:
                with suppress(CannotFuse):
                    yield own.with_blocks({axis: other}, own.simdgroups).written
    for simdgroups in (own.simdgroups * 2, own.simdgroups // 2):
        if 1 <= simdgroups <= MAX_SIMDGROUPS:
            yield own.with_blocks({}, simdgroups).written
    for found in considered(elements_of(kernel), MAX_TILE_BYTES, target):
        if not isinstance(found, CannotFuse):
            yield refined(found, MAX_TILE_BYTES, target).written


class ScheduledKernel:
    """A kernel by one of its schedules, and the arrays that it reads."""

    def __init__(self, text: str, config: str, arrays: Sequence[Array]):
        self.text = text
        self.config = config
        self.arrays = arrays
        (self.kernel,) = kernels_of(entry_of(parse(text)), keep_schedules=True)
        self.name = self.kernel.name

    def __reduce__(self) -> tuple[Any, ...]:
        return ScheduledKernel, (self.text, self.config, self.arrays)

    def lower(self, device: Device) -> KernelCompilation:
        return KernelCompilation(self.kernel, device)

    def trial(self, device: Device) -> KernelTrial:
        return KernelTrial(self.kernel, self.arrays, device)


def _of(arrays: dict[Value, Array], value: Value) -> Array:
    """The array of a tensor, which may be a view of another one."""
    return arrays[storage_root(value)].reshape(element_type(value.type).shape)
