"""Put the ops of kernels into regions, and inline them again."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from iris.errors import PipelineError
from iris.ir import graph
from iris.ir.axis_schedule import WrittenSchedule
from iris.ir.builder import Builder
from iris.ir.control import Func, Yield
from iris.ir.core import Op, Value
from iris.ir.math import Elementwise, element_type
from iris.passes.graph.tiling.element_graph import ElementGraph
from iris.passes.graph.tiling.kernel_cost import Cost
from iris.passes.graph.tiling.kernel_schedule import KernelSchedule


@dataclass(eq=False)
class Candidate:
    """A possible kernel: its outputs, all of one shape, its schedule and its cost."""

    outputs: tuple[Value, ...]
    inputs: tuple[Value, ...]
    ops: tuple[Op, ...]
    structure: Hashable  # equal kernels have equal ones
    _schedule: KernelSchedule | WrittenSchedule  # read when it is needed
    cost: Cost
    rounded_sums: tuple[Value, ...]  # whose value depends on the order

    @property
    def schedule(self) -> KernelSchedule:
        if isinstance(self._schedule, WrittenSchedule):
            elements = ElementGraph.of(self.outputs, self.inputs)
            self._schedule = KernelSchedule.read(elements, self._schedule)
        return self._schedule

    @cached_property
    def recomputes(self) -> bool:
        """Whether it computes more elements than its ops have; what it reduces counts as that."""
        types = [element_type(op.result.type) for op in self.ops if isinstance(op, Elementwise)]
        return self.cost.flops > sum([prod(type_.shape) for type_ in types])

    def reschedule(self, schedule: KernelSchedule | WrittenSchedule) -> None:
        """Give it another schedule."""
        self._schedule = schedule


def write_kernels(function: Func, launches: Iterable[Sequence[Candidate]]) -> None:
    """Put the ops of each kernel into a region, and the kernels of a launch into another one; a
    launch follows those that it reads from."""
    body = function.body
    old = set(body)
    end = body.last
    names: dict[str, int] = {}
    mapping: dict[Value, Value] = {}
    for kernels in launches:
        regions = [_kernel_region(function, kernel, names, mapping) for kernel in kernels]
        launched: graph.Kernel | graph.Launch = regions[0]
        if len(regions) > 1:
            launched = _launch_region(regions, names)
        launched.location = regions[0].location
        Builder(body, end).insert(launched)
        outputs = [v for kernel in kernels for v in kernel.outputs]
        for value, result in zip(outputs, launched.results, strict=True):
            result.name = value.name
            mapping[value] = result
    _reshape_results(function, mapping)
    _erase_dead(function, old)


def _kernel_region(
    function: Func, kernel: Candidate, names: dict[str, int], mapping: Mapping[Value, Value]
) -> graph.Kernel:
    """Copies of the ops of a kernel, in a region."""
    types = [v.type for v in kernel.outputs]
    symbol = _unique(_kernel_symbol(function, kernel), names)
    region = graph.Kernel(symbol, types, schedule=kernel.schedule.written)
    region.location = kernel.ops[-1].location if kernel.ops else function.location
    inner = dict(mapping)
    for op in kernel.ops:
        region.body.append(op.clone(inner))
    region.body.append(Yield([inner.get(v, v) for v in kernel.outputs]))
    for value, result in zip(kernel.outputs, region.results, strict=True):
        result.name = value.name
    return region


def _launch_region(kernels: Sequence[graph.Kernel], names: dict[str, int]) -> graph.Launch:
    """Kernels that run side by side, in a region."""
    first, *others = kernels
    symbol = _unique(f"{first.symbol}_and_{len(others)}_more", names)
    results = [v for kernel in kernels for v in kernel.results]
    launch = graph.Launch(symbol, [v.type for v in results])
    for kernel in kernels:
        launch.body.append(kernel)
    launch.body.append(Yield(results))
    return launch


def _reshape_results(function: Func, mapping: Mapping[Value, Value]) -> None:
    """Reshape results after the kernels, where a result has another shape than the output."""
    end = function.body.end
    results = []
    for value in end.operands:
        chain = []
        while value not in mapping:
            chain.append(value.producer)
            value = value.producer.operands[0]
        value = mapping[value]
        for op in reversed(chain):
            copy = op.clone({op.operands[0]: value})
            end.insert_before(copy)
            value = copy.results[0]
        results.append(value)
    end.set_operands(tuple(results))


def _kernel_symbol(function: Func, kernel: Candidate) -> str:
    """A name for a kernel: that of its function and of its last output."""
    value = kernel.outputs[-1]
    suffix = value.name or (value.op.name.split(".")[-1] if value.op else "copy")
    return f"{function.symbol}_{suffix}"


def _unique(name: str, names: dict[str, int]) -> str:
    """A name that was not given before."""
    names[name] = names.get(name, 0) + 1
    return name if names[name] == 1 else f"{name}_{names[name]}"


def is_scheduled(function: Func) -> bool:
    """Whether a function's kernels are chosen: each has a schedule, and all ops stand in them.

    To choose again would lose a schedule that somebody wrote, so a function is refused that
    computes something beside kernels with schedules.
    """
    launches = graph.launches_in(function.body)
    kernels = [kernel for launch in launches for kernel in launch.kernels]
    scheduled = [kernel for kernel in kernels if kernel.schedule is not None]
    if not scheduled:
        return False
    others = [kernel for kernel in kernels if kernel.schedule is None]
    placed = graph.Kernel | graph.Launch | graph.Reshape
    for op in (*others, *function.body):
        if op in others or not (op.terminator or isinstance(op, placed)):
            raise PipelineError(
                f"@{function.symbol} has kernels with schedules, such as @{scheduled[0].symbol}, "
                f"but {op!r} is not in one; put it into a kernel, or remove the schedules"
            )
    return True


def inline_kernels(function: Func) -> None:
    """Inline the kernels that a function has."""
    for launch in graph.launches_in(function.body):
        if isinstance(launch, graph.Launch):
            for kernel in launch.kernels:
                _inline(kernel)
        _inline(launch)


def _inline(op: graph.Kernel | graph.Launch) -> None:
    """Put the ops of a region in its place."""
    for inner in list(op.body):
        if not inner.terminator:
            inner.detach()
            op.insert_before(inner)
    end = op.body.end
    for result, value in zip(op.results, end.operands, strict=True):
        result.replace_by(value)
    end.erase()
    op.erase()


def _erase_dead(function: Func, old: set[Op]) -> None:
    """Erase the ops that kernels have copies of."""
    for op in reversed(list(function.body)):
        if op in old and not any(v.users for v in op.results) and not op.terminator:
            op.erase()
