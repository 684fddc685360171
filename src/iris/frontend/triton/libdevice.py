"""The functions of `triton.language.extra.libdevice`, which are CUDA's, that Iris has."""

from __future__ import annotations

from typing import Any

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
    sin,
    sqrt,
    sqrt_rn,
    where,
    word,
)
from iris.frontend.values import Traced, as_traced, compare, power, unary
from iris.ir import math
from iris.ir.math import Predicate

__all__ = [
    "abs",
    "ceil",
    "cos",
    "div_rn",
    "erf",
    "exp",
    "exp2",
    "fast_cosf",
    "fast_dividef",
    "fast_exp2f",
    "fast_expf",
    "fast_log2f",
    "fast_logf",
    "fast_powf",
    "fast_sinf",
    "fast_tanhf",
    "floor",
    "fma",
    "isinf",
    "isnan",
    "log",
    "log2",
    "maximum",
    "minimum",
    "nearbyint",
    "pow",
    "rint",
    "round",
    "rsqrt",
    "sin",
    "sqrt",
    "sqrt_rn",
    "tanh",
    "trunc",
]

tanh = language._unary(math.Tanh, "tanh")
rint = language._unary(math.Round, "rint")
nearbyint = rint
fast_expf, fast_exp2f, fast_logf, fast_log2f = exp, exp2, log, log2
fast_sinf, fast_cosf, fast_tanhf = sin, cos, tanh
fast_dividef = div_rn


@word
def pow(x: Any, y: Any) -> Traced:
    """x to the y."""
    return power(as_traced(x), y)


fast_powf = pow


@word
def isnan(x: Any) -> Any:
    """Whether an element is no number."""
    return x != x


@word
def isinf(x: Any) -> Any:
    """Whether an element is infinite."""
    return compare(Predicate.EQ, unary(math.Abs, x), float("inf"))


@word
def trunc(x: Any) -> Traced:
    """The integer next to an element, towards zero."""
    return where(x < 0, unary(math.Ceil, x), unary(math.Floor, x))


@word
def round(x: Any) -> Traced:
    """The nearest integer, halves away from zero."""
    size: Any = unary(math.Abs, x)
    below: Any = unary(math.Floor, size)
    nearest: Any = where(size - below >= 0.5, below + 1, below)
    return where(x < 0, -nearest, nearest)
