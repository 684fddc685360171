"""Inserting barriers."""

from __future__ import annotations

from dataclasses import dataclass

from iris.analysis.ordering import barriers
from iris.analysis.windows import Windows
from iris.errors import PipelineError
from iris.ir import metal
from iris.ir.control import Func
from iris.ir.core import Level, Module
from iris.ir.uniformity import Uniformity, diverging
from iris.passes.pipeline import Pass


@dataclass(frozen=True)
class InsertBarriers(Pass):
    """Order conflicting accesses of different threads to memory, by few barriers.

        for %c0, %n, %c1 (%k: i32) {
          %x: f32 = metal.load %X, %k
          metal.store %shared, %mine, %x
          %y: f32 = metal.load %shared, %other
          metal.store %Y, %k, %y
          yield
        }

    becomes

        for %c0, %n, %c1 (%k: i32) {
          %x: f32 = metal.load %X, %k
          metal.barrier threadgroup
          metal.store %shared, %mine, %x
          metal.barrier threadgroup
          %y: f32 = metal.load %shared, %other
          metal.store %Y, %k, %y
          yield
        }

    where the first is for what the round before has loaded.  `ordering` says what conflicts, and
    where a barrier goes.  One of `device` scope orders accesses to arguments; for the memory of
    the threadgroup `simdgroup` is enough where there is one simdgroup only.  Barriers that are
    there already count.

    Where a barrier would have to stand under a condition that may differ between threads, the
    module is refused: `uniform-conditions` is to run before.
    """

    name = "insert-barriers"
    level = Level.METAL

    def run(self, module: Module) -> dict[str, int]:
        return {"barriers": sum(_insert(f) for f in module if isinstance(f, Func))}


def _insert(function: Func) -> int:
    windows = Windows(function)
    missing = barriers(function, windows)
    under_control = [op for op in missing if op.parent is not function.body]
    levels = windows.levels if under_control else {}
    for op in under_control:
        for guard, value in diverging(op, Uniformity.THREADGROUP, levels):
            raise PipelineError(
                f"a barrier must come before {op.name}, but it stands in the {guard.name}, whose "
                f"{value!r} may differ between threads; run uniform-conditions first",
                op.location,
            )
    for op, scope in missing.items():
        op.insert_before(metal.Barrier(scope, location=op.location))
    return len(missing)
