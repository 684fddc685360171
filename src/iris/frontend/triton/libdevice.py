"""The functions of `triton.language.extra.libdevice`, which are CUDA's, that Iris has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from iris.frontend import elementary, formulas, special_formulas
from iris.frontend.language import bitcast
from iris.frontend.triton import language, libdevice_bits
from iris.frontend.triton.arithmetic import ratio
from iris.frontend.triton.arithmetic import remainder as truncated
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
from iris.frontend.triton.libdevice_bits import *  # noqa: F403
from iris.frontend.triton.missing import refusing
from iris.frontend.triton.random import umulhi
from iris.frontend.values import Traced, as_traced, binary, cast, power, unary
from iris.ir import math
from iris.ir.types import DType, f32, i32, i64, u32

#: The functions that Iris has no formula for.
MISSING = (
    *("cyl_bessel_i0", "cyl_bessel_i1", "erfcinv", "j0", "j1", "jn", "lgamma", "normcdfinv"),
    *("tgamma", "y0", "y1", "yn"),
)

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
    "clz",
    "copysign",
    "cos",
    "cosh",
    "div_rn",
    "erf",
    "exp",
    "exp2",
    "exp10",
    "expm1",
    "fast_cosf",
    "fast_dividef",
    "fast_exp2f",
    "fast_exp10f",
    "fast_expf",
    "fast_log2f",
    "fast_log10f",
    "fast_logf",
    "fast_powf",
    "fast_sinf",
    "fast_tanf",
    "fast_tanhf",
    "fdim",
    "ffs",
    "finitef",
    "float2int_rd",
    "float2int_rn",
    "float2int_ru",
    "float2int_rz",
    "float_as_int",
    "float_as_uint",
    "floor",
    "fma",
    "fmod",
    "hypot",
    "int_as_float",
    "isinf",
    "isnan",
    "llrint",
    "llround",
    "log",
    "log1p",
    "log2",
    "log10",
    "maximum",
    "minimum",
    "nearbyint",
    "popc",
    "pow",
    "rcbrt",
    "rhypot",
    "rint",
    "round",
    "rsqrt",
    "rsqrt_rn",
    "saturatef",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "sqrt_rn",
    "tan",
    "tanh",
    "trunc",
    "uint_as_float",
    *libdevice_bits.__all__,
    *("add_rn", "cospi", "erfc", "erfcx", "erfinv", "float2uint_rn", "int2float_rn", "mul_rn"),
    *("norm3d", "norm4d", "normcdf", "rcp_rn", "rnorm3d", "rnorm4d", "sinpi", "sub_rn"),
    "umulhi",
    *MISSING,
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
cospi = word(elementary.of_one(special_formulas.cospi))
sinpi = word(elementary.of_one(special_formulas.sinpi))
erfc = word(elementary.of_one(special_formulas.erfc))
erfcx = word(elementary.of_one(special_formulas.erfcx))
erfinv = word(elementary.of_one(special_formulas.erfinv))
normcdf = word(elementary.of_one(special_formulas.normcdf))
hypot = word(elementary.of_two(formulas.hypot))
copysign = word(elementary.of_two(formulas.copysign))
fast_expf, fast_exp2f, fast_logf, fast_log2f, fast_log10f = exp, exp2, log, log2, log10
fast_sinf, fast_cosf, fast_tanf, fast_tanhf = sin, cos, tan, tanh
fast_dividef = div_rn
rsqrt_rn = rsqrt
add_rn, sub_rn, mul_rn = language.add, language.sub, language.mul
globals().update(
    {
        name: refusing(f"extra.libdevice.{name}", "Iris has no formula for it; write one in tl")
        for name in MISSING
    }
)


@word
def pow(x: Any, y: Any) -> Traced:
    """x to the y."""
    return power(as_traced(x), y)


fast_powf = pow


isnan, isinf, trunc = map(same_word, (elementary.isnan, elementary.isinf, elementary.trunc))


@word
def exp10(x: Any) -> Traced:
    """10 to the x."""
    return power(10.0, cast(x, f32))


fast_exp10f = exp10


@word
def rcbrt(x: Any) -> Traced:
    """One over the cube root."""
    return ratio(1.0, cbrt(x))


@word
def rhypot(x: Any, y: Any) -> Traced:
    """One over the hypotenuse."""
    return ratio(1.0, hypot(x, y))


@word
def rcp_rn(x: Any) -> Traced:
    """One over a number."""
    return ratio(1.0, x)


@word
def norm3d(a: Any, b: Any, c: Any) -> Traced:
    """The length of a vector, without overflow of the squares."""
    return hypot(hypot(a, b), c)


@word
def norm4d(a: Any, b: Any, c: Any, d: Any) -> Traced:
    """The length of a vector, without overflow of the squares."""
    return hypot(hypot(a, b), hypot(c, d))


@word
def rnorm3d(a: Any, b: Any, c: Any) -> Traced:
    """One over the length of a vector."""
    return ratio(1.0, norm3d(a, b, c))


@word
def rnorm4d(a: Any, b: Any, c: Any, d: Any) -> Traced:
    """One over the length of a vector."""
    return ratio(1.0, norm4d(a, b, c, d))


@word
def int2float_rn(x: Any) -> Traced:
    """An integer as a float."""
    return cast(x, f32)


@word
def fmod(x: Any, y: Any) -> Traced:
    """The remainder of x / y, with the sign of x."""
    return truncated(cast(x, f32), y)


@word
def fdim(x: Any, y: Any) -> Traced:
    """x - y, or 0 if that is less."""
    return where(cast(x, f32) <= y, 0.0, cast(x, f32) - cast(y, f32))


@word
def saturatef(x: Any) -> Traced:
    """x, or the bound of 0 and 1 that it is beyond; 0 of a nan."""
    return minimum(maximum(x, 0.0), 1.0)


@word
def signbit(x: Any) -> Traced:
    """1 where the sign is set, of -0 and of a nan, too; else 0."""
    return cast(bitcast(cast(x, f32), i32) < 0, i32)


def _bits_as(dtype: DType, name: str) -> Callable[[Any], Traced]:
    def function(x: Any) -> Traced:
        return bitcast(as_traced(x), dtype)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The bits as {dtype}."
    return word(function)


float_as_int, float_as_uint = _bits_as(i32, "float_as_int"), _bits_as(u32, "float_as_uint")
int_as_float, uint_as_float = _bits_as(f32, "int_as_float"), _bits_as(f32, "uint_as_float")


@word
def popc(x: Any) -> Traced:
    """How many bits of a 32-bit integer are set."""
    bits = bitcast(as_traced(x), u32)
    bits = bits - ((bits >> 1) & 0x55555555)
    bits = (bits & 0x33333333) + ((bits >> 2) & 0x33333333)
    bits = (bits + (bits >> 4)) & 0x0F0F0F0F
    return cast((bits * 0x01010101) >> 24, i32)


@word
def clz(x: Any) -> Traced:
    """How many bits of a 32-bit integer come before the first one that is set."""
    below: Any = bitcast(as_traced(x), u32)
    for shift in (1, 2, 4, 8, 16):
        below = below | (below >> shift)
    return binary(math.Sub, 32, popc(below))


@word
def ffs(x: Any) -> Traced:
    """The place of the lowest bit of a 32-bit integer that is set, counted from 1; 0 if none is."""
    bits: Any = bitcast(as_traced(x), i32)
    return where(bits == 0, 0, popc(bits ^ (bits - 1)))


@word
def finitef(x: Any) -> Traced:
    """Whether an element is neither infinite nor nan."""
    return elementary.isfinite(x)


@word
def round(x: Any) -> Traced:
    """The nearest integer, halves away from zero."""
    size: Any = unary(math.Abs, x)
    below: Any = unary(math.Floor, size)
    return copysign(where(size - below >= 0.5, below + 1, below), x)


def _rounded(to: Callable[[Any], Traced], dtype: DType, name: str) -> Callable[[Any], Traced]:
    def function(x: Any) -> Traced:
        return cast(to(x), dtype)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The integer that {to.__name__} gives."
    return word(function)


float2int_rn = _rounded(rint, i32, "float2int_rn")
float2int_rz = _rounded(trunc, i32, "float2int_rz")
float2int_rd = _rounded(floor, i32, "float2int_rd")
float2int_ru = _rounded(ceil, i32, "float2int_ru")
llrint = _rounded(rint, i64, "llrint")
llround = _rounded(round, i64, "llround")
float2uint_rn = _rounded(rint, u32, "float2uint_rn")
