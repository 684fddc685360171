"""The words of the tile language that are functions of one or two numbers and take a formula.

f16 and bf16 have too few bits for what goes on in between: they are computed in f32, and rounded
once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from iris.frontend import formulas
from iris.frontend.formulas import Term
from iris.frontend.language import where
from iris.frontend.tracing import current, word
from iris.frontend.values import Operand, Traced, as_traced, cast, compare, unary, unify
from iris.ir import math
from iris.ir.math import Predicate
from iris.ir.types import f32

_INF = float("inf")


def of_one(formula: Callable[[Term], Term]) -> Callable[[Operand], Traced]:
    """A formula in f32 as a function of any numbers; floats keep their dtype."""

    @wraps(formula)
    def function(x: Operand, /) -> Traced:
        return _in_f32(formula, as_traced(x))

    return function


def of_two(formula: Callable[[Term, Term], Term]) -> Callable[[Operand, Operand], Traced]:
    """A formula in f32 as a function of any two numbers; floats keep their dtype."""

    @wraps(formula)
    def function(a: Operand, b: Operand, /) -> Traced:
        return _in_f32(formula, *unify(a, b))

    return function


def _in_f32(formula: Callable[..., Term], *operands: Traced) -> Traced:
    found = formula(*[Term(cast(x, f32).value, current().emit) for x in operands])
    dtype = operands[0].dtype
    return cast(Traced(found.value), dtype if dtype.is_float else f32)


log1p = word(of_one(formulas.log1p))
expm1 = word(of_one(formulas.expm1))
log10 = word(of_one(formulas.log10))
cbrt = word(of_one(formulas.cbrt))
atan = word(of_one(formulas.atan))
asin = word(of_one(formulas.asin))
acos = word(of_one(formulas.acos))
sinh = word(of_one(formulas.sinh))
cosh = word(of_one(formulas.cosh))
asinh = word(of_one(formulas.asinh))
acosh = word(of_one(formulas.acosh))
atanh = word(of_one(formulas.atanh))
atan2 = word(of_two(formulas.atan2))
hypot = word(of_two(formulas.hypot))
copysign = word(of_two(formulas.copysign))


@word
def trunc(x: Operand) -> Traced:
    """The next integer towards zero."""
    traced = as_traced(x)
    if not traced.dtype.is_float:
        return traced
    negative = compare(Predicate.LT, traced, 0)
    return where(negative, unary(math.Ceil, traced), unary(math.Floor, traced))


@word
def isnan(x: Operand) -> Traced:
    """Whether an element is no number."""
    return compare(Predicate.NE, x, x)


@word
def isinf(x: Operand) -> Traced:
    """Whether an element is infinite."""
    return compare(Predicate.EQ, unary(math.Abs, x), _INF)


@word
def isfinite(x: Operand) -> Traced:
    """Whether an element is neither infinite nor nan."""
    return compare(Predicate.LT, unary(math.Abs, x), _INF)
