"""What a kernel costs, by how it is cut up: a launch, bytes, and what it computes, with all that
is computed again and again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from math import prod

from iris.ir.core import Op, Value
from iris.ir.facts import Facts, facts
from iris.ir.math import element_type
from iris.passes.graph.tiling.demand import Demand, Unfit
from iris.passes.graph.tiling.demands import Demands
from iris.passes.graph.tiling.recipes import Combining, Contraction, Load, Pointwise
from iris.passes.graph.tiling.schedule import Cut, ways
from iris.targets import Core, Target


@dataclass(frozen=True)
class Cost:
    """What a kernel costs on a target."""

    target: Target
    bytes: int  # through device memory, each tensor once
    traffic: int  # bytes that programs load and store
    flops: int  # results of arithmetic
    operations: float  # the same in terms of the time of fused multiply-adds
    programs: int

    @cached_property
    def microseconds(self) -> float:
        target, core = self.target, self.target.core
        rate = target.clock * 1e3  # cycles in a microsecond
        busy = max(1, min(target.cores, self.programs))
        memory = self.bytes / (target.bandwidth * 1e3)
        caches = self.traffic / (core.l2_bytes * rate * busy)
        arithmetic = self.operations / (core.rates["alu"] * rate * busy)
        return target.dispatch_microseconds + max(memory, caches) + arithmetic


def cut(demands: Demands, room: int, target: Target) -> Cut:
    """The cheapest way to cut up a kernel, with tiles of at most `room` bytes."""
    if not demands.outputs:
        return Cut(demands, room)
    found: list[Cut] = []
    reasons: list[Unfit] = []
    for way in ways(demands):
        try:
            found.append(Cut(way, room))
        except Unfit as reason:
            reasons.append(reason)
    if not found:
        raise reasons[0]
    if len(found) == 1:
        return found[0]
    return min(found, key=lambda c: cost_of(c, target).microseconds)


def cost_of(cut: Cut, target: Target) -> Cost:
    """What a kernel costs that is cut up so."""
    demands = cut.demands
    operations, flops, traffic = 0.0, 0, 0
    inputs: set[Value] = set()
    for demand, recipe in demands.recipes.items():
        axes = demands.dependencies[demand]
        if isinstance(recipe, Load):
            inputs.add(recipe.value)
            traffic += cut.times(axes) * _bytes(demand)
        elif isinstance(recipe, Combining):
            inner = {*recipe.over}.union(*(demands.dependencies[d] for d in recipe.demands))
            count = cut.times(inner)
            operations += count
            flops += count * (2 if isinstance(recipe, Contraction) else 1)
        elif isinstance(recipe, Pointwise):
            count = cut.times(axes)
            operations += count * _weight(type(recipe.op), target.core)
            flops += count
    written = sum(_tensor_bytes(output.demand.value) for output in demands.outputs)
    whole = sum(map(_tensor_bytes, inputs)) + written
    return Cost(target, whole, traffic + written, flops, operations, cut.programs)


@cache
def _weight(op: type[Op], core: Core) -> float:
    """How many multiply-adds take as long."""
    known: Facts = facts[op]
    rates = core.rates
    return sum(count * rates["alu"] / rates[part] for part, count in known.work.items())


def _bytes(demand: Demand) -> int:
    return demand.element.bytes


def _tensor_bytes(value: Value) -> int:
    type_ = element_type(value.type)
    return prod(type_.shape) * type_.element.bytes
