"""Functions that are a formula of the shared math, in f32, for the tiles of programs, for arrays,
and for the scalars and vectors of threads.

Each is right to a few units in the last place, given that the shared math is.
"""

from __future__ import annotations

import math as python_math
from collections.abc import Callable, Sequence
from typing import Any

from iris.ir import math
from iris.ir.core import Op, Value
from iris.ir.math import Constant, Predicate, element_type
from iris.ir.types import i32

_LN2 = python_math.log(2)
_PI = python_math.pi
_INF = float("inf")
_LARGE = 2.0**14  # its square is 1 more or less to f32


class Term:
    """A value in a formula: operators on it put ops in place, by a function that is given.

    Operands have one shape; a Python number takes the type of what it meets.
    """

    __slots__ = ("_emit", "value")

    def __init__(self, value: Value, emit: Callable[[Op], Value]):
        self.value = value
        self._emit = emit

    def apply(self, make: Callable[..., Op], *operands: Any) -> Term:
        """Put an op in place; its operands are terms, and numbers of this one's type."""
        return Term(self._emit(make(*[self._operand(x) for x in operands])), self._emit)

    def _operand(self, x: Any) -> Value:
        if isinstance(x, Term):
            return x.value
        return self._emit(Constant(x, element_type(self.value.type)))

    def __add__(self, other: Any) -> Term:
        return self.apply(math.Add, self, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Term:
        return self.apply(math.Sub, self, other)

    def __rsub__(self, other: Any) -> Term:
        return self.apply(math.Sub, other, self)

    def __mul__(self, other: Any) -> Term:
        return self.apply(math.Mul, self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Term:
        return self.apply(math.Div, self, other)

    def __rtruediv__(self, other: Any) -> Term:
        return self.apply(math.Div, other, self)

    def __neg__(self) -> Term:
        return self.apply(math.Neg, self)

    def __and__(self, other: Term) -> Term:
        return self.apply(math.And, self, other)

    def __or__(self, other: Term) -> Term:
        return self.apply(math.Or, self, other)

    def __gt__(self, other: Any) -> Term:
        return self._compared(Predicate.GT, other)

    def __lt__(self, other: Any) -> Term:
        return self._compared(Predicate.LT, other)

    def equals(self, other: Any) -> Term:
        return self._compared(Predicate.EQ, other)

    def _compared(self, predicate: Predicate, other: Any) -> Term:
        return self.apply(lambda a, b: math.Compare(predicate, a, b), self, other)

    def of(self, kind: type[math.Unary]) -> Term:
        """A function of the shared math."""
        return self.apply(kind, self)

    def greater(self, other: Any) -> Term:
        """The greater of two; nan if either is."""
        return self.apply(math.Maximum, self, other)

    def lesser(self, other: Any) -> Term:
        """The lesser of two; nan if either is."""
        return self.apply(math.Minimum, self, other)

    def times_plus(self, factor: Any, added: Any) -> Term:
        """`self * factor + added`, rounded once."""
        return self.apply(math.Fma, self, factor, added)


def _where(condition: Term, on_true: Any, on_false: Any) -> Term:
    """Element by element, one or the other; one of them may be a number."""
    like = on_true if isinstance(on_true, Term) else on_false
    return like.apply(math.Select, condition, on_true, on_false)


def _is_negative(x: Term) -> Term:
    """Whether the sign is set, of -0 and of a nan, too."""
    type_ = element_type(x.value.type).with_element(i32)
    return x.apply(lambda value: math.Bitcast(value, type_), x) < 0


def _exp(x: Term) -> Term:
    return x.of(math.Exp)


def _log(x: Term) -> Term:
    return x.of(math.Log)


def _sqrt(x: Term) -> Term:
    return x.of(math.Sqrt)


def _abs(x: Term) -> Term:
    return x.of(math.Abs)


def copysign(x: Term, sign: Term) -> Term:
    """The size of one with the sign of another."""
    size = _abs(x)
    return _where(_is_negative(sign), -size, size)


# Exponentials and logarithms.


def expm1(x: Term) -> Term:
    """`exp(x) - 1`, near 0 to as many digits."""
    # Where the difference has lost its bits, by the tangent of half of it.
    half = (x * 0.5).of(math.Tanh)
    return _where(_abs(x) < 0.5, 2.0 * half / (1.0 - half), _exp(x) - 1.0)


def log1p(x: Term) -> Term:
    """`log(1 + x)`, near 0 to as many digits."""
    # What rounding `1 + x` has lost is made up for in the quotient.
    u = 1.0 + x
    near = _where(u.equals(1.0), x, _log(u) * (x / (u - 1.0)))
    return _where(x.equals(_INF), x, near)


def log10(x: Term) -> Term:
    """The logarithm to base 10."""
    return _log(x) * (1 / python_math.log(10))


def logaddexp(a: Term, b: Term) -> Term:
    """The logarithm of the sum of two exponentials, without overflow."""
    # Of equal infinities the difference is nan.
    return _where(a.equals(b), a + _LN2, a.greater(b) + log1p(_exp(-_abs(a - b))))


def logaddexp2(a: Term, b: Term) -> Term:
    """The logarithm to base 2 of the sum of two powers of 2, without overflow."""
    rest = log1p((-_abs(a - b)).of(math.Exp2)) * (1 / _LN2)
    return _where(a.equals(b), a + 1.0, a.greater(b) + rest)


def cbrt(x: Term) -> Term:
    """The cube root, with the sign of its operand."""
    # By way of the logarithm, made better by one step of Newton's method.
    size = _abs(x)
    root = (size.of(math.Log2) * (1 / 3)).of(math.Exp2)
    root = root - (root - size / (root * root)) * (1 / 3)
    return copysign(_where((size > 0.0) & (size < _INF), root, size), x)


def hypot(a: Term, b: Term) -> Term:
    """`sqrt(a * a + b * b)`, without overflow of the squares."""
    a, b = _abs(a), _abs(b)
    long, short = a.greater(b), a.lesser(b)
    length = long * _sqrt(1.0 + _square(_where(long.equals(0.0), 0.0, short / long)))
    return _where(a.equals(_INF) | b.equals(_INF), _INF, length)


def _square(x: Term) -> Term:
    return x * x


# Angles.


def radians(x: Term) -> Term:
    """Degrees as radians."""
    return x * (_PI / 180)


def degrees(x: Term) -> Term:
    """Radians as degrees."""
    return x * (180 / _PI)


def tan(x: Term) -> Term:
    """The tangent."""
    return x.of(math.Sin) / x.of(math.Cos)


# The arc tangent from 0 to 1 and the arc sine from 0 to 1/2, as `x + x^3 p(x^2)`.
# Nearly minimax, fitted in f64 to the relative error; the coefficient of the highest power first.
_ATAN = (
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
_ASIN = (0.0422185867, 0.02414759, 0.0454771009, 0.0749524176, 0.166667539)


def _odd(x: Term, coefficients: Sequence[float]) -> Term:
    """`x + x^3 p(x^2)`."""
    square = _square(x)
    total = square.times_plus(coefficients[0], coefficients[1])
    for coefficient in coefficients[2:]:
        total = total.times_plus(square, coefficient)
    return (x * square).times_plus(total, x)


def atan(x: Term) -> Term:
    """The arc tangent."""
    size = _abs(x)
    steep = size > 1.0
    angle = _odd(_where(steep, 1.0 / size, size), _ATAN)
    return copysign(_where(steep, _PI / 2 - angle, angle), x)


def atan2(y: Term, x: Term) -> Term:
    """The angle of the point (x, y), from -pi to pi."""
    up, across = _abs(y), _abs(x)
    long, short = up.greater(across), up.lesser(across)
    # Of two zeros or two infinities the quotient is nan.
    ratio = _where(long.equals(0.0), 0.0, _where(short.equals(_INF), 1.0, short / long))
    angle = _odd(ratio, _ATAN)
    angle = _where(up > across, _PI / 2 - angle, angle)
    return copysign(_where(_is_negative(x), _PI - angle, angle), y)


def asin(x: Term) -> Term:
    """The arc sine; nan beyond 1."""
    size = _abs(x)
    steep = size > 0.5
    angle = _odd(_where(steep, _sqrt((1.0 - size) * 0.5), size), _ASIN)
    return copysign(_where(steep, _PI / 2 - 2.0 * angle, angle), x)


def acos(x: Term) -> Term:
    """The arc cosine; nan beyond 1."""
    size = _abs(x)
    steep = size > 0.5
    angle = _odd(_where(steep, _sqrt((1.0 - size) * 0.5), size), _ASIN)
    ends = _where(x > 0.0, 2.0 * angle, _PI - 2.0 * angle)
    return _where(steep, ends, _PI / 2 - copysign(angle, x))


# Hyperbolic functions.


def sinh(x: Term) -> Term:
    """The hyperbolic sine."""
    size = _abs(x)
    grown = expm1(size)
    # From 80 on, half of an exponential that may itself overflow.
    half = _exp(size * 0.5)
    value = _where(size < 80.0, (grown + grown / (grown + 1.0)) * 0.5, half * 0.5 * half)
    return copysign(value, x)


def cosh(x: Term) -> Term:
    """The hyperbolic cosine."""
    size = _abs(x)
    grown, half = _exp(size), _exp(size * 0.5)
    return _where(size < 80.0, (grown + 1.0 / grown) * 0.5, half * 0.5 * half)


def asinh(x: Term) -> Term:
    """The number that has a hyperbolic sine."""
    size = _abs(x)
    usual = log1p(size + size * size / (1.0 + _sqrt(size * size + 1.0)))
    return copysign(_where(size < _LARGE, usual, _log(size) + _LN2), x)


def acosh(x: Term) -> Term:
    """The number from 0 on that has a hyperbolic cosine; nan below 1."""
    over = x - 1.0
    # Two roots: below -1 the root of the product would be a number.
    usual = log1p(over + _sqrt(over) * _sqrt(over + 2.0))
    return _where(x < _LARGE, usual, _log(x) + _LN2)


def atanh(x: Term) -> Term:
    """The number that has a hyperbolic tangent; nan beyond 1."""
    size = _abs(x)
    return copysign(log1p(2.0 * size / (1.0 - size)) * 0.5, x)
