"""Checking that a kernel fits the GPU."""

from __future__ import annotations

from dataclasses import dataclass

from iris.cost.resources import needs_of
from iris.errors import OutOfResources
from iris.ir.control import Func
from iris.ir.core import Level, Module
from iris.passes.pipeline import TargetPass


@dataclass(frozen=True)
class CheckResources(TargetPass):
    """Refuse a kernel that needs more than the GPU has for one, and say what to reduce.

        func metal @f simdgroups=4(%X: ptr<f32>) {
          %a: threadgroup<6144xf32> = metal.alloc
          %b: threadgroup<4096xf32> = metal.alloc
          ...

    is refused with

        @f needs 40960 bytes of threadgroup memory, 8192 more than there are; use smaller tiles.
        The most take
          a, threadgroup<6144xf32>: 24576 (gemm.py:12)
          b, threadgroup<4096xf32>: 16384 (gemm.py:13)

    It changes nothing.  A thread that needs more registers than it has keeps values in memory, and
    is refused only with `spills=false`.
    """

    name = "check-resources"
    level = Level.METAL
    spills: bool = True

    def run(self, module: Module) -> dict[str, int]:
        functions = [f for f in module if isinstance(f, Func)]
        needs = [needs_of(f, self.target) for f in functions]
        for function, own in zip(functions, needs, strict=True):
            if not self.spills and own.exceed(self.target.thread_registers):
                raise OutOfResources(
                    f"a thread of @{function.symbol} needs {own.registers} registers, and has "
                    f"{self.target.thread_registers}; use smaller tiles, or more simdgroups"
                )
        return {"threadgroup bytes": max((n.memory for n in needs), default=0)}
