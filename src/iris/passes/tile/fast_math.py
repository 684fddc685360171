"""Using what fast math allows."""

from __future__ import annotations

import math as python_math
from collections import Counter
from dataclasses import dataclass

from iris.ir import math, tile
from iris.ir.control import Func
from iris.ir.core import Module, Op, Value
from iris.ir.math import Constant, element_type
from iris.ir.rewriter import Rewriter, Rules
from iris.ir.types import f32
from iris.passes.pipeline import Pass

_LOG2_E = python_math.log2(python_math.e)
_MOST = 2.0**127  # half the range of f32


@dataclass(frozen=True)
class FastMath(Pass):
    """In functions with `fast_math`, divide once a row, take powers of 2, and add to products.

        %1: tile<32x64xf32> = tile.dot %a, %b
        %2: tile<32x64xf32> = add %acc, %1
        %3: tile<32x64xf32> = tile.broadcast %row
        %y: tile<32x64xf32> = div %2, %3
        %4: tile<32xf32> = mul %x, %c2_0
        %z: tile<32xf32> = exp %4

    becomes

        %0: tile<32x64xf32> = tile.dot %a, %b, acc=%acc
        %c1_0: tile<32x1xf32> = constant 1.0
        %1: tile<32x1xf32> = div %c1_0, %row
        %2: tile<32x64xf32> = tile.broadcast %1
        %y: tile<32x64xf32> = mul %0, %2
        %c2_88539: tile<32xf32> = constant 2.88539
        %3: tile<32xf32> = mul %x, %c2_88539
        %z: tile<32xf32> = exp2 %3

    A sum with a product of integers is one product in any function.
    """

    name = "fast-math"
    level = tile.TileOp.level

    def run(self, module: Module) -> Counter[str]:
        return rules.apply(module)


rules = Rules()


def _is_fast(op: Op) -> bool:
    """Whether the function around an op has fast math."""
    while op.parent_op is not None:
        op = op.parent_op
    return isinstance(op, Func) and op.fast_math


@rules(math.Add)
def add_to_product(op: math.Add, rewriter: Rewriter) -> None:
    """`x + dot(a, b)` is `dot(a, b, x)`, which needs no registers for the product alone."""
    if op.result.type.element.is_float and not _is_fast(op):
        return
    for product, other in (op.operands, op.operands[::-1]):
        dot = product.op
        if isinstance(dot, tile.Dot) and _is_only_added(dot, op) and other.type is product.type:
            rewriter.replace(op, tile.Dot(dot.a, dot.b, other, tf32=dot.tf32))
            rewriter.erase(dot)
            return


def _is_only_added(dot: tile.Dot, to: math.Add) -> bool:
    """Whether a product is added in its region, to what is not itself, and to nothing else."""
    is_product = dot.acc is None or (isinstance(dot.acc.op, Constant) and dot.acc.op.value == 0)
    return (
        is_product
        and dot.parent is to.parent
        and to.operands.count(dot.result) == 1 == len(dot.result.users)
    )


@rules(math.Div)
def multiply_by_reciprocal(op: math.Div, rewriter: Rewriter) -> None:
    """The quotients by a value that is broadcast: one division, of f32."""
    spread = op.rhs.op
    if op.result.type.element is not f32 or not isinstance(spread, tile.Broadcast):
        return
    if not _is_fast(op):
        return
    one = rewriter.insert(Constant(1.0, element_type(spread.x.type)), op).results[0]
    reciprocal = rewriter.insert(math.Div(one, spread.x), op).results[0]
    factor = rewriter.insert(tile.Broadcast(reciprocal, spread.result.type), op).results[0]
    rewriter.replace(op, math.Mul(op.lhs, factor))


@rules(math.Exp)
def take_power_of_two(op: math.Exp, rewriter: Rewriter) -> None:
    """`exp(x * c)` is `exp2(x * (c * log2(e)))`, and `exp(-x)` is `exp2(x * -log2(e))`."""
    inner = op.x.op
    if op.result.type.element is not f32 or len(op.x.users) != 1 or not _is_fast(op):
        return
    if isinstance(inner, math.Neg):
        factor: Value | None = _constant(-_LOG2_E, op.x, op, rewriter)
    elif isinstance(inner, math.Mul):
        factor = _times_log2_e(inner.rhs, op, rewriter)
    else:
        return
    if factor is not None:
        product = rewriter.insert(math.Mul(inner.operands[0], factor), op).results[0]
        rewriter.replace(op, math.Exp2(product))
        rewriter.erase(inner)


def _times_log2_e(factor: Value, op: Op, rewriter: Rewriter) -> Value | None:
    """A factor times log2(e), unless that would be computed for each element, or overflow."""
    made = factor.op
    if isinstance(made, Constant):
        number = float(made.value) * _LOG2_E
        return _constant(number, factor, op, rewriter) if abs(number) < _MOST else None
    if not isinstance(made, tile.Broadcast):
        return None
    log2_e = _constant(_LOG2_E, made.x, op, rewriter)
    product = rewriter.insert(math.Mul(made.x, log2_e), op).results[0]
    return rewriter.insert(tile.Broadcast(product, factor.type), op).results[0]


def _constant(number: float, like: Value, op: Op, rewriter: Rewriter) -> Value:
    return rewriter.insert(Constant(number, element_type(like.type)), op).results[0]
