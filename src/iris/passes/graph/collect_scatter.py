"""Add scattered updates up in threadgroup memory, where that saves updates of device memory."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from iris.ir import graph
from iris.ir.core import Level, Module
from iris.ir.graph import ScatterKind
from iris.ir.kinds import COLLECTED_BITS
from iris.ir.math import Constant, element_type
from iris.passes.pipeline import TargetPass

# Of threadgroup memory, so that several programs of a core have room.
PART = 1 / 2


@dataclass(frozen=True)
class CollectScatter(TargetPass):
    """Collect the scattered sums for which that costs less: of many updates to few elements.

        %y: tensor<256xi32> = graph.scatter add [0] %x, %ones, %i

    becomes

        %y: tensor<256xi32> = graph.scatter add [0] collected=true %x, %ones, %i

    Each program then adds up its updates in threadgroup memory, and adds each sum to memory.
    """

    name = "collect-scatter"
    level = Level.GRAPH

    def run(self, module: Module) -> dict[str, int]:
        sums = [op for op in module.walk() if isinstance(op, graph.Scatter) and self._may(op)]
        for op in sums:
            apart = self._microseconds(op)
            op.set_attribute("collected", True)
            if self._microseconds(op) >= apart:
                op.set_attribute("collected", False)
        return {"collected": sum(op.collected for op in sums)}

    def _may(self, op: graph.Scatter) -> bool:
        """Whether the elements fit threadgroup memory, and threads can add to them there."""
        x = element_type(op.x.type)
        return (
            op.kind is ScatterKind.ADD
            and x.element.bits == COLLECTED_BITS
            and prod(x.shape) * x.element.bytes <= PART * self.target.threadgroup_bytes
        )

    def _microseconds(self, op: graph.Scatter) -> float:
        from iris.passes.graph.tiling.choose_schedule import cheapest_schedule  # when first used
        from iris.passes.graph.tiling.element_graph import ElementGraph
        from iris.passes.graph.tiling.kernel_cost import cost_of
        from iris.passes.graph.tiling.tile_limits import MAX_TILE_BYTES

        read = [v for v in op.operands if v is op.x or not isinstance(v.op, Constant)]
        elements = ElementGraph.of(op.results, read)
        schedule = cheapest_schedule(elements, MAX_TILE_BYTES, self.target)
        return cost_of(schedule, self.target).microseconds
