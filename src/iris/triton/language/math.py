"""`triton.language.math`."""

from iris.frontend.triton.language import (
    abs,
    ceil,
    clamp,
    cos,
    div_rn,
    erf,
    exp,
    exp2,
    fdiv,
    floor,
    fma,
    log,
    log2,
    maximum,
    minimum,
    rsqrt,
    sigmoid,
    sin,
    sqrt,
    sqrt_rn,
)
from iris.frontend.triton.libdevice import isinf, isnan, pow, rint, round, tanh, trunc

__all__ = [
    *("abs", "ceil", "clamp", "cos", "div_rn", "erf", "exp", "exp2", "fdiv", "floor", "fma"),
    *("isinf", "isnan", "log", "log2", "maximum", "minimum", "pow", "rint", "round", "rsqrt"),
    *("sigmoid", "sin", "sqrt", "sqrt_rn", "tanh", "trunc"),
]
