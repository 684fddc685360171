"""NumPy's ufuncs that take a formula: each is right to a few units in the last place, given that
the shared math is.

f16 and bf16 have too few bits for what goes on in between: they are computed in f32, and rounded
once.
"""

from __future__ import annotations

import math as python_math
from collections.abc import Callable
from typing import Any

from iris.frontend.arrays.array_elementwise import as_float, binary, divide, select, unary
from iris.frontend.arrays.array_values import cast, emit, spread, unify, unify_floats
from iris.frontend.arrays.protocol import ufunc
from iris.frontend.arrays.traced import TracedArray
from iris.frontend.arrays.ufuncs import copysign, isinf, signbit
from iris.ir import math
from iris.ir.types import f32

Formula = Callable[..., TracedArray]

_LN2 = python_math.log(2)
_PI = python_math.pi
_INF = float("inf")


def _in_f32(*names: str) -> Callable[[Formula], Formula]:
    """Registers a formula over f32 for floats of any dtype."""

    def register(formula: Formula) -> Formula:
        def of_one(x: Any) -> TracedArray:
            (value,) = map(as_float, unify(x))
            return cast(formula(cast(value, f32)), value.element)

        def of_two(x1: Any, x2: Any) -> TracedArray:
            a, b = unify_floats(x1, x2)
            return cast(formula(cast(a, f32), cast(b, f32)), a.element)

        ufunc(*names)(of_one if formula.__code__.co_argcount == 1 else of_two)
        return formula

    return register


def _exp(x: TracedArray) -> TracedArray:
    return unary(math.Exp, x)


def _log(x: TracedArray) -> TracedArray:
    return unary(math.Log, x)


def _sqrt(x: TracedArray) -> TracedArray:
    return unary(math.Sqrt, x)


def _abs(x: TracedArray) -> TracedArray:
    return unary(math.Abs, x)


# Exponentials and logarithms.


@_in_f32("expm1")
def expm1(x: Any) -> TracedArray:
    """Near 0, where `exp(x) - 1` has lost its bits, by the tangent of half of it."""
    half = unary(math.Tanh, x * 0.5)
    return select(_abs(x) < 0.5, 2.0 * half / (1.0 - half), _exp(x) - 1.0)


@_in_f32("log1p")
def log1p(x: Any) -> TracedArray:
    """What rounding `1 + x` has lost is made up for in the quotient."""
    u = 1.0 + x
    near = select(u == 1.0, x, _log(u) * (x / (u - 1.0)))
    return select(x == _INF, x, near)


@_in_f32("log10")
def log10(x: Any) -> TracedArray:
    return binary(math.Mul, _log(x), 1 / python_math.log(10))


@_in_f32("logaddexp")
def logaddexp(a: Any, b: Any) -> TracedArray:
    """The logarithm of the sum of two exponentials, without overflow."""
    greater = binary(math.Maximum, a, b)
    # Of equal infinities the difference is nan.
    return select(a == b, a + _LN2, greater + log1p(_exp(-_abs(a - b))))


@_in_f32("logaddexp2")
def logaddexp2(a: Any, b: Any) -> TracedArray:
    greater = binary(math.Maximum, a, b)
    rest = log1p(unary(math.Exp2, -_abs(a - b))) * (1 / _LN2)
    return select(a == b, a + 1.0, greater + rest)


@_in_f32("cbrt")
def cbrt(x: Any) -> TracedArray:
    """By way of the logarithm, made better by one step of Newton's method."""
    size = _abs(x)
    root = unary(math.Exp2, unary(math.Log2, size) * (1 / 3))
    root = root - (root - size / (root * root)) * (1 / 3)
    usual = (size > 0.0) & (size < _INF)
    return copysign(select(usual, root, size), x)


@_in_f32("hypot")
def hypot(a: Any, b: Any) -> TracedArray:
    """`sqrt(a * a + b * b)`, without overflow of the squares."""
    a, b = _abs(a), _abs(b)
    long, short = binary(math.Maximum, a, b), binary(math.Minimum, a, b)
    ratio = select(long == 0.0, 0.0, short / long)
    length = long * _sqrt(1.0 + ratio * ratio)
    return select(isinf(a) | isinf(b), _INF, length)


# Angles.


@_in_f32("deg2rad", "radians")
def deg2rad(x: Any) -> TracedArray:
    return binary(math.Mul, x, _PI / 180)


@_in_f32("rad2deg", "degrees")
def rad2deg(x: Any) -> TracedArray:
    return binary(math.Mul, x, 180 / _PI)


@_in_f32("tan")
def tan(x: Any) -> TracedArray:
    return divide(unary(math.Sin, x), unary(math.Cos, x))


def _arctan_to_1(x: TracedArray) -> TracedArray:
    """The arc tangent from 0 to 1, as `x + x^3 p(x^2)`."""
    return _odd(x, _ARCTAN)


def _arcsin_to_half(x: TracedArray) -> TracedArray:
    """The arc sine from 0 to 1/2, as `x + x^3 p(x^2)`."""
    return _odd(x, _ARCSIN)


# Nearly minimax, fitted in f64 to the relative error; the coefficient of the highest power first.
_ARCTAN = (
    -0.00179362052,
    0.010914601,
    -0.0311778381,
    0.0579575869,
    -0.0840345001,
    0.109521857,
    -0.142642417,
    0.199985483,
    -0.333332991,
)
_ARCSIN = (0.0422185867, 0.02414759, 0.0454771009, 0.0749524176, 0.166667539)


def _odd(x: TracedArray, coefficients: tuple[float, ...]) -> TracedArray:
    square = binary(math.Mul, x, x)
    total = spread(coefficients[0], f32, x.shape)
    for coefficient in coefficients[1:]:
        total = _fma(total, square, coefficient)
    return _fma(binary(math.Mul, x, square), total, x)


def _fma(a: TracedArray, b: TracedArray, c: Any) -> TracedArray:
    a, b, c = unify(a, b, c)
    return emit(math.Fma(a.value, b.value, c.value), a.weak and b.weak and c.weak)


@_in_f32("arctan")
def arctan(x: Any) -> TracedArray:
    size = _abs(x)
    steep = size > 1.0
    angle = _arctan_to_1(select(steep, 1.0 / size, size))
    return copysign(select(steep, _PI / 2 - angle, angle), x)


@_in_f32("arctan2")
def arctan2(y: Any, x: Any) -> TracedArray:
    up, across = _abs(y), _abs(x)
    long, short = binary(math.Maximum, up, across), binary(math.Minimum, up, across)
    # Of two zeros or two infinities the quotient is nan.
    ratio = select(long == 0.0, 0.0, select(short == _INF, 1.0, short / long))
    angle = _arctan_to_1(ratio)
    angle = select(up > across, _PI / 2 - angle, angle)
    return copysign(select(signbit(x), _PI - angle, angle), y)


@_in_f32("arcsin")
def arcsin(x: Any) -> TracedArray:
    size = _abs(x)
    steep = size > 0.5
    angle = _arcsin_to_half(select(steep, _sqrt((1.0 - size) * 0.5), size))
    return copysign(select(steep, _PI / 2 - 2.0 * angle, angle), x)


@_in_f32("arccos")
def arccos(x: Any) -> TracedArray:
    size = _abs(x)
    steep = size > 0.5
    angle = _arcsin_to_half(select(steep, _sqrt((1.0 - size) * 0.5), size))
    ends = select(x > 0.0, 2.0 * angle, _PI - 2.0 * angle)
    return select(steep, ends, _PI / 2 - copysign(angle, x))


# Hyperbolic functions.


@_in_f32("sinh")
def sinh(x: Any) -> TracedArray:
    size = _abs(x)
    grown = expm1(size)
    # From 80 on, half of an exponential that may itself overflow.
    half = _exp(size * 0.5)
    value = select(size < 80.0, (grown + grown / (grown + 1.0)) * 0.5, half * 0.5 * half)
    return copysign(value, x)


@_in_f32("cosh")
def cosh(x: Any) -> TracedArray:
    size = _abs(x)
    grown, half = _exp(size), _exp(size * 0.5)
    return select(size < 80.0, (grown + 1.0 / grown) * 0.5, half * 0.5 * half)


@_in_f32("arcsinh")
def arcsinh(x: Any) -> TracedArray:
    size = _abs(x)
    usual = log1p(size + size * size / (1.0 + _sqrt(size * size + 1.0)))
    return copysign(select(size < _LARGE, usual, _log(size) + _LN2), x)


@_in_f32("arccosh")
def arccosh(x: Any) -> TracedArray:
    over = x - 1.0
    # Two roots: below -1 the root of the product would be a number.
    usual = log1p(over + _sqrt(over) * _sqrt(over + 2.0))
    return select(x < _LARGE, usual, _log(x) + _LN2)


@_in_f32("arctanh")
def arctanh(x: Any) -> TracedArray:
    size = _abs(x)
    return copysign(log1p(2.0 * size / (1.0 - size)) * 0.5, x)


_LARGE = 2.0**14  # its square is 1 more or less to f32
