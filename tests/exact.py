"""Rounding done with fractions: what a dtype's arithmetic ought to give, knowing nothing of
NumPy or of how Iris computes it."""

from __future__ import annotations

from fractions import Fraction

from iris.ir.types import DType, bf16, f16, f32

# Bits of the significand, with the leading one; the exponents of the least and greatest binades.
FORMATS = {f16: (11, -14, 15), bf16: (8, -126, 127), f32: (24, -126, 127)}


def _parts(dtype: DType) -> tuple[int, int, int]:
    precision, least, _ = FORMATS[dtype]
    return precision, least, dtype.bits - precision


def fraction(bits: int, dtype: DType) -> Fraction | str:
    """What the bits of a float stand for: a fraction, or "inf", "-inf" or "nan"."""
    precision, least, exponent_bits = _parts(dtype)
    sign = -1 if bits >> (dtype.bits - 1) else 1
    biased = bits >> (precision - 1) & ((1 << exponent_bits) - 1)
    low = bits & ((1 << (precision - 1)) - 1)
    if biased == (1 << exponent_bits) - 1:
        return "nan" if low else ("inf" if sign > 0 else "-inf")
    if biased:
        low |= 1 << (precision - 1)
    scale = max(biased, 1) - 1 + least - (precision - 1)
    return Fraction(*over_power(Fraction(sign * low), -scale))


def over_power(value: Fraction, exponent: int) -> tuple[int, int]:
    """A fraction over a power of two: numerator and denominator, which may have common factors.
    Fractions look for these in every step, which takes most of the time."""
    return value.numerator << max(-exponent, 0), value.denominator << max(exponent, 0)


def infinity(dtype: DType, sign: int) -> int:
    precision, _, exponent_bits = _parts(dtype)
    bits = ((1 << exponent_bits) - 1) << (precision - 1)
    return bits | (1 << (dtype.bits - 1) if sign < 0 else 0)


def rounded(value: Fraction, dtype: DType, zero_sign: int = 1) -> int:
    """The bits of the float nearest to a fraction, ties to even; beyond the greatest, infinity.
    `zero_sign` is the sign of a value that is exactly zero."""
    precision, least, _ = _parts(dtype)
    sign = zero_sign if value == 0 else (1 if value > 0 else -1)
    value = abs(value)
    # The binade: 2 ** exponent <= value < 2 ** (exponent + 1), but no lower than the least.
    exponent = value.numerator.bit_length() - value.denominator.bit_length() if value else least
    above, below = over_power(value, exponent)
    if value and above < below:
        exponent -= 1
    exponent = max(exponent, least)
    above, below = over_power(value, exponent - (precision - 1))
    whole, rest = divmod(above, below)
    if 2 * rest > below or (2 * rest == below and whole & 1):
        whole += 1
    # A carry out of the significand moves into the exponent by itself.
    bits = ((exponent - least) << (precision - 1)) + whole
    bits = min(bits, infinity(dtype, 1))
    return bits | (1 << (dtype.bits - 1) if sign < 0 else 0)


def is_nan(bits: int, dtype: DType) -> bool:
    return fraction(bits, dtype) == "nan"
