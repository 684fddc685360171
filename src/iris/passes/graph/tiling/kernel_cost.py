"""Cost a schedule: a launch, bytes, and arithmetic, recomputation included."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from math import prod

from iris.ir.core import Op, Value
from iris.ir.facts import Facts, facts
from iris.ir.math import element_type
from iris.passes.graph.tiling.element_exprs import Aggregate, Contraction, LoadExpr, Pointwise
from iris.passes.graph.tiling.element_ref import ElementRef
from iris.passes.graph.tiling.kernel_registers import spilled
from iris.passes.graph.tiling.kernel_schedule import KernelSchedule, axes_size
from iris.targets import Core, Target

# How many bytes must be on their way to or from a core at once to keep its share of the caches
# busy: what that moves in a cycle, times the 300 cycles or so that a load takes.
BYTES_ON_THE_WAY = 16 << 10
# How many programs a core should have, so that some compute while others wait.
PROGRAMS_PER_CORE = 4


@dataclass(frozen=True)
class Cost:
    """What a kernel costs on a target."""

    target: Target
    bytes: int  # through device memory, each element once
    traffic: int  # bytes that programs load and store
    flops: int  # results of arithmetic
    operations: float  # the same in terms of the time of fused multiply-adds
    programs: int
    tile_bytes: int  # that a program loads and stores at once
    spilled: int  # values that a thread holds and its registers do not

    def among(self, programs: int) -> Cost:
        """The cost of the same work, divided among some programs."""
        return replace(self, programs=programs)

    @cached_property
    def microseconds(self) -> float:
        return self.target.dispatch_microseconds + self.running_microseconds

    @cached_property
    def running_microseconds(self) -> float:
        """What it takes once it has started."""
        target, core = self.target, self.target.core
        rate = target.clock * 1e3  # cycles in a microsecond
        busy = max(1, min(target.cores, self.programs))
        share = min(1, self.tile_bytes / BYTES_ON_THE_WAY)  # of a core
        loading = min(target.cores, max(1, self.programs) * share) or 1
        memory = self.bytes / (target.bandwidth * 1e3)
        caches = self.traffic / (core.l2_bytes * rate * loading)
        arithmetic = self.operations / (core.rates["alu"] * rate * busy)
        return max(memory, caches) + arithmetic


@lru_cache(maxsize=16)  # of the few schedules that are compared at a time
def cost_of(schedule: KernelSchedule, target: Target) -> Cost:
    """What a kernel with this schedule costs on a target."""
    elements = schedule.elements
    operations, flops, traffic, tile_bytes = 0.0, 0, 0, 0
    read: dict[Value, int] = {}  # bytes that are read of each input
    loops = loops_of(schedule)
    for ref, expr in elements.exprs.items():
        axes = elements.dependencies[ref]
        times = loops.get(ref, 1)
        if isinstance(expr, LoadExpr):
            read[expr.value] = read.get(expr.value, 0) + axes_size(axes) * _bytes(ref)
            traffic += times * schedule.evaluations(axes) * _bytes(ref)
            tile_bytes += schedule.lanes_along(axes) * _bytes(ref)
        elif isinstance(expr, Aggregate):
            inner = {*expr.over}.union(*(elements.dependencies[r] for r in expr.operands))
            count = times * schedule.evaluations(inner)
            operations += count
            flops += count * (2 if isinstance(expr, Contraction) else 1)
        elif isinstance(expr, Pointwise):
            count = times * schedule.evaluations(axes)
            operations += count * _weight(type(expr.op), target.core)
            flops += count
    stored = sum(map(_tensor_bytes, {output.ref.value for output in elements.outputs}))
    for output in elements.outputs:
        tile_bytes += schedule.lanes_along(elements.output_axes) * _bytes(output.ref)
    whole = sum([min(_tensor_bytes(v), size) for v, size in read.items()]) + stored
    return Cost(
        target,
        whole,
        traffic + stored,
        flops,
        operations,
        schedule.programs,
        tile_bytes,
        spilled(schedule, target),
    )


def loops_of(schedule: KernelSchedule) -> Mapping[ElementRef, int]:
    """In how many loops of a program, one after the other, an element is computed.

    Only elements that are computed in several loops are listed.
    """
    elements = schedule.elements
    looped = {axis for axis in elements.axes if schedule.is_looped(axis)}
    aggregates = [r for r, e in elements.aggregates.items() if not looped.isdisjoint(e.over)]
    if len(aggregates) + (not looped.isdisjoint(elements.output_axes)) < 2:
        return {}
    depths: dict[ElementRef, int] = {}  # how many loops come before
    for ref, expr in elements.exprs.items():
        depths[ref] = max([depths[r] for r in expr.refs], default=0) + (ref in aggregates)
    users: dict[ElementRef, set[object]] = {ref: {None} for ref in elements.roots()}
    for ref, expr in reversed(elements.exprs.items()):
        loops = users.setdefault(ref, set())
        if isinstance(expr, Aggregate) and ref in aggregates:
            rescaling = expr.rescaling
            base = ref if rescaling is None else rescaling.base
            loops = {base if elements.is_online(ref) else (expr.over, depths[ref])}
        for operand in expr.refs:
            users.setdefault(operand, set()).update(loops)
    along = elements.dependencies
    return {r: len(n) for r, n in users.items() if len(n) > 1 and not looped.isdisjoint(along[r])}


@cache
def _weight(op: type[Op], core: Core) -> float:
    """How many multiply-adds take as long as an op."""
    op_facts: Facts = facts[op]
    rates = core.rates
    return sum(count * rates["alu"] / rates[unit] for unit, count in op_facts.work.items())


def _bytes(ref: ElementRef) -> int:
    return ref.element.bytes


def _tensor_bytes(value: Value) -> int:
    type_ = element_type(value.type)
    return prod(type_.shape) * type_.element.bytes
