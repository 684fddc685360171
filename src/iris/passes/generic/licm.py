"""Loop-invariant code motion."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from iris.ir.core import Module, Op, Resource, Value
from iris.ir.declare import Access
from iris.ir.effects import effects_within, is_convergent, may_alias, may_speculate, writes
from iris.passes.pipeline import Pass


@dataclass(frozen=True)
class LoopInvariantCodeMotion(Pass):
    """Move ops that compute the same in every iteration out of a loop.

        %s: f32 = for %c0, %n, %c1 (%i: i32, %a: f32 = %zero) {
          %k: f32 = mul %x, %x
          %b: f32 = add %a, %k
          yield %b
        }

    becomes

        %k: f32 = mul %x, %x
        %s: f32 = for %c0, %n, %c1 (%i: i32, %a: f32 = %zero) {
          %b: f32 = add %a, %k
          yield %b
        }

    What may not be speculated (a load, an integer division) leaves only a region that is sure to
    run; reads of memory stay if the loop may write it; convergent ops stay put.
    """

    name = "licm"

    def run(self, module: Module) -> dict[str, int]:
        # Inner loops first, so that what leaves one may leave the next.
        loops = reversed([op for op in module.walk() if op.loops])
        return {"moved": sum([_Loop(op).empty() for op in loops])}


class _Loop:
    """A loop that ops are moved out of."""

    def __init__(self, op: Op):
        self.op = op

    @cached_property
    def written(self) -> list[Value | Resource]:
        """What the loop writes: no op that does is moved, so it stays the same."""
        return writes(effects_within(self.op))

    def empty(self) -> int:
        moved = 0
        for region in self.op.regions:
            sure = self.op.surely_runs(region)
            staying = set(region.arguments)
            for op in region:
                if self.is_invariant(op, staying) and (sure or may_speculate(op)):
                    op.detach()
                    self.op.insert_before(op)
                    moved += 1
                else:
                    staying.update(op.results)
        return moved

    def is_invariant(self, op: Op, staying: set[Value]) -> bool:
        """Whether an op may be moved, but not these values."""
        if not staying.isdisjoint(op.operands) or op.terminator:
            return False
        if (op.regions and _uses(op, staying)) or is_convergent(op):
            return False
        for access, resource in effects_within(op):
            if access is not Access.READ or any(may_alias(resource, w) for w in self.written):
                return False
        return True


def _uses(op: Op, values: set[Value]) -> bool:
    """Whether an op, or one in it, has some of these values as operands."""
    return not all(values.isdisjoint(inner.operands) for inner in op.walk())
