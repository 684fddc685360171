"""Choose schedules for the kernels of a graph."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace

from iris.ir import graph
from iris.ir.control import Func, Return, Yield
from iris.ir.core import Level, Module
from iris.passes.graph.tiling.tile_limits import MAX_TILE_BYTES
from iris.passes.pipeline import TargetPass


@dataclass(frozen=True)
class Schedule(TargetPass):
    """Choose a schedule for each kernel that has none: how it goes over its axes.

        func graph @square returns=[tensor<64x1000xf32>](%x: tensor<64x1000xf32>) {
          %y: tensor<64x1000xf32> = graph.kernel @square {
            %y_1: tensor<64x1000xf32> = mul %x, %x
            yield %y_1
          }
          return %y
        }

    becomes

        func graph @square returns=[tensor<64x1000xf32>](%x: tensor<64x1000xf32>) {
          %y: tensor<64x1000xf32> = graph.kernel @square schedule=[i0i1: programs 1024 of 64000] {
            %y_1: tensor<64x1000xf32> = mul %x, %x
            yield %y_1
          }
          return %y
        }

    It takes the cheapest one with tiles of at most `max_tile_bytes`, as `fuse` does.  A function
    without kernels becomes one kernel.  `explain` prints the schedules that were considered for
    each kernel, with what each costs, to standard error.
    """

    name = "schedule"
    level = Level.GRAPH
    max_tile_bytes: int = MAX_TILE_BYTES
    explain: bool = False

    def run(self, module: Module) -> None:
        from iris.passes.graph.tiling.tile_program import chosen_schedule  # opened when first used

        for function in module:
            if isinstance(function, Func):
                kernels = [op for op in function.walk() if isinstance(op, graph.Kernel)]
                if not kernels and function.body.end.operands:
                    kernels.append(_whole(function))
                for kernel in kernels:
                    if kernel.schedule is None:
                        chosen = chosen_schedule(kernel, self.max_tile_bytes, self.target)
                        kernel.set_attribute("schedule", chosen.written)
                    if self.explain:
                        self._explain(kernel)
                for launch in graph.launches_in(function.body):
                    _agree(launch, function)

    def _explain(self, kernel: graph.Kernel) -> None:
        from iris.passes.graph.tiling.explain_schedule import explanation  # opened when first used

        print(explanation(kernel, self.max_tile_bytes, self.target), file=sys.stderr)


def _agree(launch: graph.Kernel | graph.Launch, function: Func) -> None:
    """Give all kernels of a launch the same number of simdgroups: the greatest of theirs that
    computes no part of a matrix product twice."""
    schedules = [kernel.schedule for kernel in launch.kernels if kernel.schedule is not None]
    if len({schedule.simdgroups for schedule in schedules}) < 2:
        return
    from iris.passes.graph.tiling.tile_program import most_of_launch  # opened when first used

    most = most_of_launch(launch, function)
    count = min(most, max(schedule.simdgroups for schedule in schedules))
    for kernel, schedule in zip(launch.kernels, schedules, strict=True):
        kernel.set_attribute("schedule", replace(schedule, simdgroups=count))


def _whole(function: Func) -> graph.Kernel:
    """Put all ops of a function into one kernel."""
    end = function.body.end
    results = end.operands
    kernel = graph.Kernel(function.symbol, [v.type for v in results])
    kernel.location = function.location
    for op in list(function.body):
        op.detach()
        if op is not end:
            kernel.body.append(op)
    kernel.body.append(Yield(results, location=end.location))
    end.erase()
    function.body.append(kernel)
    function.body.append(Return(kernel.results, location=end.location))
    for result, value in zip(kernel.results, results, strict=True):
        result.name = value.name
    return kernel
