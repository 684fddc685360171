"""Expanding math: what Metal has not, or not in every dtype, in terms of what it has."""

from __future__ import annotations

import math as python_math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from iris.ir import math
from iris.ir.core import Module, Op, Value
from iris.ir.math import Constant, Predicate, element_type
from iris.ir.rewriter import Rewriter, Rules
from iris.ir.types import bf16, f16, f32
from iris.passes.pipeline import Pass


@dataclass(frozen=True)
class ExpandMath(Pass):
    """Expand `erf` and `sigmoid` to arithmetic and `exp`, of f32 where they are of f16 or bf16, and
    multiply instead of dividing by powers of 2.

        %y: tile<64xf16> = sigmoid %x

    becomes

        %0: tile<64xf32> = cast %x
        %1: tile<64xf32> = neg %0
        %2: tile<64xf32> = exp %1
        %c1_0: tile<64xf32> = constant 1.0
        %3: tile<64xf32> = add %2, %c1_0
        %4: tile<64xf32> = div %c1_0, %3
        %y: tile<64xf16> = cast %4

    In f32, and with an `exp` that is right to half a unit in the last place, `erf` is within 1 unit
    of the right value, and `sigmoid` within 3 where it is not subnormal.
    """

    name = "expand-math"

    def run(self, module: Module) -> Counter[str]:
        return rules.apply(module)


#: The greatest exponent of a power of 2 whose reciprocal is a normal number.
_EXPONENTS = {f16: 14, bf16: 126, f32: 126}

rules = Rules()
Emit = Callable[[Op], Value]


def _insert_before(op: Op, rewriter: Rewriter) -> Emit:
    """What puts new ops before an op, and gives their result."""
    return lambda new: rewriter.insert(new, op).results[0]


@rules(math.Sigmoid, math.Erf)
def compute_in_f32(op: Op, rewriter: Rewriter) -> None:
    """Computed in f32, and rounded once."""
    type_ = element_type(op.results[0].type)
    if type_.element is f32:
        return
    emit, wide = _insert_before(op, rewriter), type_.with_element(f32)
    operands = [emit(math.Cast(value, wide)) for value in op.operands]
    rewriter.replace(op, math.Cast(emit(type(op)(*operands)), type_))


@rules(math.Div)
def divide_by_power_of_two(op: math.Div, rewriter: Rewriter) -> None:
    """Multiplied by the reciprocal, which gives the same bits as neither of them is subnormal."""
    divisor = op.rhs.op
    if not isinstance(divisor, Constant):
        return
    number, type_ = float(divisor.value), element_type(op.rhs.type)
    size, exponent = python_math.frexp(number)
    if abs(size) == 0.5 and abs(exponent - 1) <= _EXPONENTS[type_.element]:
        reciprocal = _insert_before(op, rewriter)(Constant(1 / number, type_))
        rewriter.replace(op, math.Mul(op.lhs, reciprocal))


@rules(math.Sigmoid)
def expand_sigmoid(op: math.Sigmoid, rewriter: Rewriter) -> None:
    """`1 / (1 + exp(-x))`, where an `exp` that is infinite is right, too."""
    type_ = element_type(op.x.type)
    if type_.element is not f32:
        return
    emit = _insert_before(op, rewriter)
    power = emit(math.Exp(emit(math.Neg(op.x))))
    one = emit(Constant(1.0, type_))
    rewriter.replace(op, math.Div(one, emit(math.Add(power, one))))


# Up to EDGE, erf(x) = x + x p(x^2); beyond, 1 - exp(-|x| + |x| q(|x|)), with the sign of x.
# Minimax polynomials for f32, by N. Juffa; the coefficient of the highest power first.
ERF_EDGE = 0.927734375
ERF_NEAR = (
    -5.96761703e-4,
    4.99119423e-3,
    -2.67681349e-2,
    1.12819925e-1,
    -3.76125336e-1,
    1.28379166e-1,
)
ERF_FAR = (
    -1.72853470e-5,
    3.83197126e-4,
    -3.88396438e-3,
    2.42546219e-2,
    -1.06777877e-1,
    -6.34846687e-1,
    -1.28717512e-1,
)


@rules(math.Erf)
def expand_erf(op: math.Erf, rewriter: Rewriter) -> None:
    """Two polynomials.  A nan or zero is on the side that keeps it as it is, and the other one is
    right up to infinity."""
    x, type_ = op.x, element_type(op.x.type)
    if type_.element is not f32:
        return
    emit = _insert_before(op, rewriter)

    def number(value: float) -> Value:
        return emit(Constant(value, type_))

    def polynomial(x: Value, coefficients: tuple[float, ...]) -> Value:
        total = number(coefficients[0])
        for coefficient in coefficients[1:]:
            total = emit(math.Fma(total, x, number(coefficient)))
        return total

    size = emit(math.Abs(x))
    near = emit(math.Fma(polynomial(emit(math.Mul(x, x)), ERF_NEAR), x, x))
    exponent = emit(math.Fma(polynomial(size, ERF_FAR), size, emit(math.Neg(size))))
    far = emit(math.Sub(number(1.0), emit(math.Exp(exponent))))
    negative = emit(math.Compare(Predicate.LT, x, number(0.0)))
    far = emit(math.Select(negative, emit(math.Neg(far)), far))
    beyond = emit(math.Compare(Predicate.GT, size, number(ERF_EDGE)))
    rewriter.replace(op, math.Select(beyond, far, near))
