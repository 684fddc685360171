"""Saying which quotients have their divisor in common with others."""

from __future__ import annotations

from dataclasses import dataclass

from iris.ir import math
from iris.ir.control import Func
from iris.ir.core import Level, Module, Op, Value
from iris.ir.metal import Splat, count_of
from iris.ir.types import f32
from iris.passes.pipeline import Pass


@dataclass(frozen=True)
class MarkDivisors(Pass):
    """Say which divisors are the same for several quotients, or known.

        %row: regs<1x4xf32> = metal.splat %total
        metal.foreach 4 (%i: i32) {
          %part: regs<1x4xf32> = metal.slice %x, %i
          %y: regs<1x4xf32> = div %part, %row
          %z: regs<1x4xf32> = div %row, %part
          ...
        }

    becomes

        %row: regs<1x4xf32> = metal.splat %total
        metal.foreach 4 (%i: i32) {
          %part: regs<1x4xf32> = metal.slice %x, %i
          %y: regs<1x4xf32> = div %part, %row, invariant=true
          %z: regs<1x4xf32> = div %row, %part
          ...
        }

    A quotient that is rounded correctly takes a dozen instructions and a branch.  Where a GPU has
    fast arithmetic of f64, it is the product with a reciprocal in f64, which many quotients share.
    With fast math a quotient need not be rounded correctly.
    """

    name = "mark-divisors"
    level = Level.METAL

    def run(self, module: Module) -> dict[str, int]:
        functions = [f for f in module if isinstance(f, Func) and not f.fast_math]
        quotients = [op for f in functions for op in f.walk() if isinstance(op, math.Div)]
        for op in quotients:
            op.set_attribute("invariant", op.result.type.element is f32 and _is_shared(op))
        return {"marked": sum([op.invariant for op in quotients])}


def _is_shared(op: math.Div) -> bool:
    """Whether a divisor is a constant, that of several elements, or older than the loop around
    it."""
    if isinstance(op.rhs.op, Splat):
        return count_of(op.rhs.type) > 1 or _is_older(op.rhs.op.x, op)
    return isinstance(op.rhs.op, math.Constant) or _is_older(op.rhs, op)


def _is_older(value: Value, user: Op) -> bool:
    """Whether a value is there before the innermost loop around an op."""
    loop = user.parent_op
    while loop is not None and not loop.loops:
        loop = loop.parent_op
    return loop is not None and not value.is_inside(loop)
