"""`triton.language.math`."""

__all__ = [
    *("abs", "ceil", "clamp", "cos", "div_rn", "erf", "exp", "exp2", "fdiv", "floor", "fma"),
    *("isinf", "isnan", "log", "log2", "maximum", "minimum", "pow", "rint", "round", "rsqrt"),
    *("sigmoid", "sin", "sqrt", "sqrt_rn", "tanh", "trunc"),
]
