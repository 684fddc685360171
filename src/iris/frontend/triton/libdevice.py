"""The functions of `triton.language.extra.libdevice`, which are CUDA's, that Iris has."""

from __future__ import annotations

from typing import Any

from iris.frontend import elementary, formulas
from iris.frontend.triton import language
from iris.frontend.triton.language import (
    abs,
    ceil,
    cos,
    div_rn,
    erf,
    exp,
    exp2,
    floor,
    fma,
    log,
    log2,
    maximum,
    minimum,
    rsqrt,
    same_word,
    sin,
    sqrt,
    sqrt_rn,
    where,
    word,
)
from iris.frontend.values import Traced, as_traced, power, unary
from iris.ir import math

__all__ = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cbrt",
    "ceil",
    "copysign",
    "cos",
    "cosh",
    "div_rn",
    "erf",
    "exp",
    "exp2",
    "expm1",
    "fast_cosf",
    "fast_dividef",
    "fast_exp2f",
    "fast_expf",
    "fast_log2f",
    "fast_log10f",
    "fast_logf",
    "fast_powf",
    "fast_sinf",
    "fast_tanf",
    "fast_tanhf",
    "finitef",
    "floor",
    "fma",
    "hypot",
    "isinf",
    "isnan",
    "log",
    "log1p",
    "log2",
    "log10",
    "maximum",
    "minimum",
    "nearbyint",
    "pow",
    "rint",
    "round",
    "rsqrt",
    "rsqrt_rn",
    "sin",
    "sinh",
    "sqrt",
    "sqrt_rn",
    "tan",
    "tanh",
    "trunc",
]

tanh = language._unary(math.Tanh, "tanh")
rint = language._unary(math.Round, "rint")
nearbyint = rint
expm1 = word(elementary.of_one(formulas.expm1))
log1p = word(elementary.of_one(formulas.log1p))
log10 = word(elementary.of_one(formulas.log10))
cbrt = word(elementary.of_one(formulas.cbrt))
tan = word(elementary.of_one(formulas.tan))
asin = word(elementary.of_one(formulas.asin))
acos = word(elementary.of_one(formulas.acos))
atan = word(elementary.of_one(formulas.atan))
sinh = word(elementary.of_one(formulas.sinh))
cosh = word(elementary.of_one(formulas.cosh))
asinh = word(elementary.of_one(formulas.asinh))
acosh = word(elementary.of_one(formulas.acosh))
atanh = word(elementary.of_one(formulas.atanh))
atan2 = word(elementary.of_two(formulas.atan2))
hypot = word(elementary.of_two(formulas.hypot))
copysign = word(elementary.of_two(formulas.copysign))
fast_expf, fast_exp2f, fast_logf, fast_log2f, fast_log10f = exp, exp2, log, log2, log10
fast_sinf, fast_cosf, fast_tanf, fast_tanhf = sin, cos, tan, tanh
fast_dividef = div_rn
rsqrt_rn = rsqrt


@word
def pow(x: Any, y: Any) -> Traced:
    """x to the y."""
    return power(as_traced(x), y)


fast_powf = pow


isnan, isinf, trunc = map(same_word, (elementary.isnan, elementary.isinf, elementary.trunc))


@word
def finitef(x: Any) -> Traced:
    """Whether an element is neither infinite nor nan."""
    return elementary.isfinite(x)


@word
def round(x: Any) -> Traced:
    """The nearest integer, halves away from zero."""
    size: Any = unary(math.Abs, x)
    below: Any = unary(math.Floor, size)
    nearest: Any = where(size - below >= 0.5, below + 1, below)
    return where(x < 0, -nearest, nearest)
