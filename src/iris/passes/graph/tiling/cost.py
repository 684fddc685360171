"""What a kernel costs, by how it is cut up: a launch, bytes, and what it computes, with all that
is computed again and again.

The figures are those of the smallest chip; only their proportions decide anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

from iris.ir import math
from iris.ir.core import Op, Value
from iris.ir.math import element_type
from iris.passes.graph.tiling.demand import Demand, Unfit
from iris.passes.graph.tiling.demands import Demands
from iris.passes.graph.tiling.recipes import Combining, Contraction, Load, Pointwise
from iris.passes.graph.tiling.schedule import Cut, ways
from iris.targets.apple import CHIPS, DISPATCH_MICROSECONDS

CHIP = CHIPS[0]


@dataclass(frozen=True)
class Cost:
    """What a kernel costs."""

    bytes: int  # through device memory, each tensor once
    traffic: int  # bytes that programs load and store
    flops: int  # results of arithmetic
    operations: float  # the same in terms of the time of fused multiply-adds
    programs: int

    @cached_property
    def microseconds(self) -> float:
        rate = CHIP.clock * 1e3  # cycles in a microsecond
        busy = max(1, min(CHIP.cores, self.programs))
        memory = self.bytes / (CHIP.bandwidth * 1e3)
        caches = self.traffic / (CHIP.core.l2_bytes * rate * busy)
        arithmetic = self.operations / (CHIP.core.rates["alu"] * rate * busy)
        return DISPATCH_MICROSECONDS + max(memory, caches) + arithmetic


def cut(demands: Demands, room: int) -> Cut:
    """The cheapest way to cut up what a kernel demands, with tiles of so many bytes."""
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
    return found[0] if len(found) == 1 else min(found, key=lambda c: cost_of(c).microseconds)


def cost_of(cut: Cut) -> Cost:
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
            operations += count * _weight(recipe.op)
            flops += count
    written = sum(_tensor_bytes(output.demand.value) for output in demands.outputs)
    whole = sum(map(_tensor_bytes, inputs)) + written
    return Cost(whole, traffic + written, flops, operations, cut.programs)


def _weight(op: Op) -> float:
    """How many multiply-adds take as long."""
    return _WEIGHTS.get(type(op), 1)


_RATES = CHIP.core.rates
_SLOW = _RATES["alu"] / _RATES["exp2"]
_WEIGHTS: dict[type[Op], float] = {
    **dict.fromkeys((math.Exp, math.Exp2, math.Log, math.Log2), _SLOW),
    **dict.fromkeys((math.Div, math.Rsqrt, math.Sqrt), _RATES["alu"] / _RATES["recip"]),
    **dict.fromkeys((math.Sin, math.Cos), _RATES["alu"] / _RATES["sin"]),
    **dict.fromkeys((math.Tanh, math.Sigmoid, math.Pow, math.Erf), 3 * _SLOW),
    **dict.fromkeys((math.FloorDiv, math.Mod), 8),
    math.Constant: 0,
}


def _bytes(demand: Demand) -> int:
    return demand.element.bytes


def _tensor_bytes(value: Value) -> int:
    type_ = element_type(value.type)
    return prod(type_.shape) * type_.element.bytes
