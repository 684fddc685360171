"""Computing the greater and the lesser of floats as the hardware does."""

from __future__ import annotations

from dataclasses import dataclass
from math import copysign, isnan

from iris.analysis.zero_signs import shown_zero_signs
from iris.ir import math
from iris.ir.builder import Builder
from iris.ir.control import Func
from iris.ir.core import Level, Module, Value
from iris.ir.math import Compare, Constant, Predicate, Select
from iris.passes.pipeline import Pass

_GREATEST = (math.MaxNum, math.Maximum)
_KEEPS_NAN = (math.Maximum, math.Minimum)


@dataclass(frozen=True)
class SimplifyExtrema(Pass):
    """Leave the order of -0 and 0 open where it never shows, and compare with constants.

        %m: f32 = maxnum %x, %y
        %d: f32 = sub %x, %m
        %e: f32 = exp %d
        %r: f32 = maximum %e, %c0_0

    becomes

        %m: f32 = maxnum %x, %y, nsz=true
        %d: f32 = sub %x, %m
        %e: f32 = exp %d
        %0: bool = compare le %e, %c0_0
        %r: f32 = select %0, %c0_0, %e

    The maximum of the hardware takes either zero, and drops nan.  The order of zeros, where it
    counts, takes several operations more.  It never counts with fast math, nor beside a constant
    that is no zero.  See `analysis.zero_signs` for where else it does not.

    A maximum or minimum with a constant is a choice by one comparison, which settles zeros and nan:
    of 0 and a zero it takes the constant.  Where the hardware's does as well, it is left alone.
    """

    name = "simplify-extrema"
    level = Level.METAL

    def run(self, module: Module) -> dict[str, int]:
        relaxed = compared = 0
        for function in module:
            if not isinstance(function, Func):
                continue
            extrema = [op for op in function.walk() if isinstance(op, math.Extremum)]
            extrema = [op for op in extrema if not op.nsz and op.result.type.element.is_float]
            if not extrema:
                continue
            results = [op.result for op in extrema]
            shown = set() if function.fast_math else shown_zero_signs(results)
            for op in extrema:
                if op.result not in shown or _is_nonzero(op.lhs) or _is_nonzero(op.rhs):
                    op.attributes = (True,)
                    relaxed += 1
                if (constant := _number(op.rhs)) is not None and _is_cheaper(op):
                    _compare(op, constant)
                    compared += 1
        return {"relaxed": relaxed, "compared": compared}


def _number(value: Value) -> float | None:
    """The constant that a value is, unless it is nan."""
    if not isinstance(value.op, Constant) or isnan(value.op.value):
        return None
    return float(value.op.value)


def _is_nonzero(value: Value) -> bool:
    number = _number(value)
    return number is not None and number != 0


def _is_cheaper(op: math.Extremum) -> bool:
    """Whether a comparison costs less than the op."""
    return isinstance(op, _KEEPS_NAN) or not op.nsz


def _compare(op: math.Extremum, constant: float) -> None:
    """Choose between the operand and the constant, on the right, by one comparison.

    It fails for nan.  If both are zeros, the constant is taken where no other zero can win.
    """
    x, c = op.operands
    greatest = isinstance(op, _GREATEST)
    constant_wins = (copysign(1, constant) > 0) == greatest
    if isinstance(op, _KEEPS_NAN):
        predicate = Predicate.LE if constant_wins else Predicate.LT
        choices = c, x
    else:
        predicate = Predicate.GT if constant_wins else Predicate.GE
        choices = x, c
    b = Builder.before_op(op)
    condition = b(Compare(predicate if greatest else predicate.swapped, x, c))
    choice = b(Select(condition, *choices))
    choice.name = op.result.name
    op.result.replace_by(choice)
    op.erase()
