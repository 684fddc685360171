"""Special functions in f32, as formulas of the ops that every level has."""

from __future__ import annotations

import math as python_math
from collections.abc import Sequence

from iris.frontend.formulas import Term, _abs, _exp, _log, _sqrt, _where, copysign
from iris.ir import math

_INF = float("inf")
_ROOT_OF_HALF, _ITS_REST = 0.707106769, 1.21016175e-8  # in f32, and what that leaves

# Of erfc(x) exp(x^2) in t = 1 / (1 + x / 2), the highest power first.
_SCALED_TAIL = (
    *(0.042352643, -0.230857909, 0.486179441, -0.446978122, 0.127089933, -0.0572326779),
    *(0.0930006355, 0.175376818, 0.246880591, 0.282093853, 0.282094806),
)
# Of the inverse of erf over its operand x, in w = -log(1 - x^2) about 2.5, and beyond 5 in its
# square root about 3.15: the highest power first, fitted to values in f64.
_INVERSE_NEAR = (
    *(2.79895556e-08, 3.43073424e-07, -3.52223651e-06, -4.38963434e-06, 0.000218577377),
    *(-0.0012537298, -0.00417767884, 0.246640742, 1.50140941),
)
_INVERSE_FAR_CENTRE = 3.143033988749895
_INVERSE_FAR = (
    *(-0.000175494992, -0.000111135021, 0.00130425207, -0.00252459408, 0.00354289985),
    *(-0.00500407955, 0.00677230489, 1.00396585, 2.97642326),
)


def _polynomial(x: Term, coefficients: Sequence[float]) -> Term:
    """By Horner's rule."""
    highest, second, *rest = coefficients
    found = x.times_plus(highest, second)
    for coefficient in rest:
        found = found.times_plus(x, coefficient)
    return found


def _scaled_tail(x: Term) -> Term:
    """`erfc(x) exp(x^2)` from 0 on."""
    t = 1.0 / (1.0 + 0.5 * x)
    return _polynomial(t, _SCALED_TAIL) * t


def erfc(x: Term) -> Term:
    """One less the error function, to as many digits far from 0."""
    size = _abs(x).lesser(11.0)
    square = size * size
    tail = _scaled_tail(size) * _exp(-square) * (1.0 - size.times_plus(size, -square))
    return _where(x < 0.0, 2.0 - tail, tail)


def erfcx(x: Term) -> Term:
    """`erfc(x) exp(x^2)`."""
    tail = _scaled_tail(_abs(x))
    near = x.greater(-10.0)  # where it is infinite, as it is beyond
    square = near * near
    below = 2.0 * _exp(square) * (1.0 + near.times_plus(near, -square)) - tail
    return _where(x < 0.0, below, tail)


def normcdf(x: Term) -> Term:
    """The share of a normal distribution up to a number."""
    near = x.lesser(15.0).greater(-15.0)
    z = -_ROOT_OF_HALF * near
    rest = near.times_plus(-_ROOT_OF_HALF, -z) - _ITS_REST * near
    tail = 0.5 * erfc(z)
    return _where(z > 1.0, tail * (1.0 - 2.0 * z * rest), tail)


def erfinv(x: Term) -> Term:
    """The number that has an error function; nan beyond 1."""
    w = -_log((1.0 - x) * (1.0 + x))
    near = _polynomial(w - 2.5, _INVERSE_NEAR)
    far = _polynomial(_sqrt(w) - _INVERSE_FAR_CENTRE, _INVERSE_FAR)
    found = _where(w < 5.0, near, far) * x
    return _where(_abs(x).equals(1.0), x * _INF, found)


def _of_a_turn(x: Term) -> Term:
    """What is left of a number of half turns, from -1 to 1."""
    return x - 2.0 * (0.5 * x).of(math.Round)


def sinpi(x: Term) -> Term:
    """The sine of a number of half turns."""
    left = _of_a_turn(x)
    near = _where(_abs(left) > 0.5, copysign(1.0 - _abs(left), left), left)
    # Of whole turns nothing is left but the sign.
    near = _where(left.equals(0.0), copysign(near, x), near)
    return (near * python_math.pi).of(math.Sin)


def cospi(x: Term) -> Term:
    """The cosine of a number of half turns."""
    return ((0.5 - _abs(_of_a_turn(x))) * python_math.pi).of(math.Sin)
