"""Divide a graph into kernels."""

from __future__ import annotations

from dataclasses import dataclass

from iris.ir.control import Func
from iris.ir.core import Level, Module
from iris.passes.pipeline import TargetPass


@dataclass(frozen=True)
class Fuse(TargetPass):
    """Split a graph into kernels: put the ops of each into a region of its own.

        %difference: tensor<64x1000xf32> = sub %x, %y
        %square: tensor<64x1000xf32> = mul %difference, %difference
        %sum: tensor<64xf32> = graph.reduce sum [1] %square
        return %sum

    becomes

        %sum: tensor<64xf32> = graph.kernel @sum_of_squares_sum schedule=[...] {
          %difference: tensor<64x1000xf32> = sub %x, %y
          %square: tensor<64x1000xf32> = mul %difference, %difference
          %sum_1: tensor<64xf32> = graph.reduce sum [1] %square
          yield %sum_1
        }
        return %sum

    At first every result except views is stored.  Then, one after another, it stops storing
    each result that is cheaper to recompute in its consumers.  Kernels with results of one shape
    that share inputs are merged, and others that need nothing of each other run side by side, in
    one launch.  Costs are launches, bytes and arithmetic
    (`tiling/kernel_cost`), of the schedule that the kernel gets.  Views (`reshape`, `transpose`,
    `gather`, ...) are free.  A function stays as it is if all that it computes stands in kernels
    with schedules.
    """

    name = "fuse"
    level = Level.GRAPH

    def run(self, module: Module) -> dict[str, int]:
        from iris.passes.graph.tiling.fusion import Fusion  # opened when first used
        from iris.passes.graph.tiling.kernel_regions import (
            inline_kernels,
            is_scheduled,
            write_kernels,
        )

        kernels = 0
        for function in module:
            if isinstance(function, Func) and not is_scheduled(function):
                inline_kernels(function)
                fusion = Fusion(function, self.target)
                write_kernels(function, [launch.kernels for launch in fusion.launches])
                kernels += len(fusion.launches)
        return {"kernels": kernels}
