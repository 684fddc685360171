"""Loop-invariant code motion."""

from __future__ import annotations

from dataclasses import dataclass

from iris.ir.core import Module, Op, Region, Resource, Value
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
    run; what reads memory stays if the loop may write it; what is convergent stays put.
    """

    name = "licm"

    def run(self, module: Module) -> dict[str, int]:
        return {"moved": sum(_visit(function.regions[0]) for function in module)}


def _visit(region: Region) -> int:
    """Inner loops first, so that what leaves one may leave the next."""
    moved = 0
    for op in region:
        for inner in op.regions:
            moved += _visit(inner)
        if op.loops:
            moved += _empty(op)
    return moved


def _empty(loop: Op) -> int:
    written = writes(effects_within(loop))
    inside = _regions(loop)
    moved = 0
    for region in loop.regions:
        sure = loop.surely_runs(region)
        for op in region:
            if _is_invariant(op, inside, written) and (sure or may_speculate(op)):
                op.detach()
                loop.insert_before(op)
                inside -= _regions(op)
                moved += 1
    return moved


def _regions(op: Op) -> set[Region]:
    """The regions of an op and of what is in it."""
    return {region for inner in op.walk() for region in inner.regions} if op.regions else set()


def _is_invariant(op: Op, inside: set[Region], written: list[Value | Resource]) -> bool:
    if op.terminator or not _is_from_outside(op, inside) or is_convergent(op):
        return False
    if op.touches_nothing and not op.regions:
        return True
    effects = effects_within(op)
    return all(
        e.access is Access.READ and not any(may_alias(e.resource, w) for w in written)
        for e in effects
    )


def _is_from_outside(op: Op, inside: set[Region]) -> bool:
    """Whether an op, with what is in it, uses only what is defined outside the loop or in it."""
    if not op.regions:
        return inside.isdisjoint([v.home for v in op.operands])
    others = inside - _regions(op)
    return all(others.isdisjoint([v.home for v in inner.operands]) for inner in op.walk())
