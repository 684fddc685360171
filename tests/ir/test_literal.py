"""Numbers as bits, values and text, against exact fractions."""

from __future__ import annotations

import contextlib
import math
import random
import re
import struct
from collections.abc import Iterable
from fractions import Fraction
from functools import cache

import pytest

from exact import FORMATS, fraction, infinity, is_nan, rounded
from iris.errors import VerifyError
from iris.ir import parse
from iris.ir.literal import Number, decode, encode, text
from iris.ir.math import Constant
from iris.ir.types import DTYPES, DType, bf16, bool_, f16, f32, i8, i32, i64, u8, u64

FLOATS = [f16, bf16, f32]
WHOLE = [d for d in DTYPES.values() if not d.is_float]


@cache
def patterns(dtype: DType) -> list[int]:
    """All bit patterns of a narrow dtype; of a wide one those at the edges, and random ones."""
    if dtype.bits <= 16:
        return list(range(1 << dtype.bits))
    rng = random.Random(dtype.bits)
    edges = [(1 << dtype.bits) - 1 - n for n in range(40)] + list(range(40))
    for bit in range(dtype.bits):
        edges += [((1 << bit) + n) % (1 << dtype.bits) for n in (-2, -1, 0, 1, 2)]
    if dtype is f32:
        for special in (0x7F800000, 0x7FC00000, 0x7F7FFFFF, 0x00800000, 0x3F800000, 0x00000000):
            edges += [
                (special + n) ^ sign
                for n in range(-3, 4)
                if special + n >= 0
                for sign in (0, 1 << 31)
            ]
        # Powers of two, and one off: the gaps to their neighbours differ.
        edges += [(e << 23) + n for e in range(1, 255) for n in (-1, 0, 1)]
    return edges + [rng.getrandbits(dtype.bits) for _ in range(3000)]


def same(dtype: DType, one: int, other: int) -> bool:
    return one == other or (dtype.is_float and is_nan(one, dtype) and is_nan(other, dtype))


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_decoding_is_exact_and_encoding_undoes_it(dtype: DType) -> None:
    for bits in patterns(dtype):
        value = decode(bits, dtype)
        if not dtype.is_float:
            assert type(value) is (bool if dtype is bool_ else int)
            assert dtype.low <= value <= dtype.high
            assert (value - bits) % (1 << dtype.bits) == 0
        else:
            exactly = fraction(bits, dtype)
            assert str(value) == exactly if isinstance(exactly, str) else value == exactly
            if value == 0:
                assert math.copysign(1, value) == (-1 if bits else 1)
        assert same(dtype, encode(value, dtype), bits)


def parsed(texts: Iterable[str], dtype: DType) -> list[int]:
    """The bits of constants, as the parser reads them."""
    body = "\n".join(f"  %v{n}: {dtype} = constant {t}" for n, t in enumerate(texts))
    (function,) = parse(f"func tile @f() {{\n{body}\n  return\n}}\n")
    return [op.bits for op in function.regions[0] if isinstance(op, Constant)]


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_text_parses_back_to_the_same_bits(dtype: DType) -> None:
    bits = patterns(dtype)
    # Of 65,536 integers every 7th will do: their text is Python's.
    bits = bits if dtype.is_float else bits[:: 1 if len(bits) < 20_000 else 7]
    texts = [text(b, dtype) for b in bits]
    assert parsed(texts, dtype) == bits
    shape = r"-?\d+(\.\d+(e[+-]\d+)?|e[+-]\d+)|-?inf|nan(\(\d+\))?"
    for t in texts:
        assert re.fullmatch(shape if dtype.is_float else r"-?\d+|true|false", t), t


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_text_has_no_digit_too_many(dtype: DType) -> None:
    """The value rounded to a digit fewer means other bits, or nothing."""
    for bits in patterns(dtype)[::3]:
        value = decode(bits, dtype)
        if not math.isfinite(value) or value == 0:
            continue
        digits = text(bits, dtype).lstrip("-").partition("e")[0].replace(".", "").strip("0")
        assert len(digits) <= {f16: 5, bf16: 4, f32: 9}[dtype]
        if len(digits) > 1:
            shorter = float(f"{value:.{len(digits) - 1}g}")
            with contextlib.suppress(OverflowError):
                assert encode(shorter, dtype) != bits


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (0.1, f32, "0.1"),
        (0.1, f16, "0.1"),
        (0.1, bf16, "0.1"),
        (1.0, f32, "1.0"),
        (-0.0, f16, "-0.0"),
        (65504, f16, "65500.0"),
        (1e38, f32, "1e+38"),
        (2**-149, f32, "1e-45"),
        (math.inf, bf16, "inf"),
        (-math.inf, f16, "-inf"),
        (math.nan, f32, "nan"),
        (-128, i8, "-128"),
        (2**64 - 1, u64, "18446744073709551615"),
        (True, bool_, "true"),
        (0, bool_, "false"),
    ],
)
def test_text_is_what_one_would_write(value: Number, dtype: DType, expected: str) -> None:
    assert text(encode(value, dtype), dtype) == expected


def test_a_nan_tells_its_bits_unless_it_is_the_usual_one() -> None:
    usual = {f16: 0x7E00, bf16: 0x7FC0, f32: 0x7FC00000}
    for dtype, bits in usual.items():
        assert encode(math.nan, dtype) == bits
        assert text(bits, dtype) == "nan"
        assert text(bits + 1, dtype) == f"nan({bits + 1})"


@pytest.mark.parametrize("payload", [0x7FFFFFFFFFFFFFFF, 0x7FF0000000000001, 0xFFF8000000000001])
def test_any_nan_of_python_stays_a_nan(payload: int) -> None:
    (value,) = struct.unpack("<d", struct.pack("<Q", payload))
    for dtype in FLOATS:
        assert is_nan(encode(value, dtype), dtype)


# Rounding.


@cache
def hard_numbers(dtype: DType) -> list[Fraction]:
    """Numbers at, and on either side of, each kind of boundary between two floats."""
    rng = random.Random(7)
    top = infinity(dtype, 1)
    bits = [0, 1, 2, top - 1, top - 2, 1 << (FORMATS[dtype][0] - 1)]
    bits += [rng.randrange(top) for _ in range(400)]
    bits += [rng.randrange(1 << FORMATS[dtype][0]) for _ in range(200)]  # the subnormals
    found = []
    for low in bits:
        below = fraction(low, dtype)
        above = fraction(low + 1, dtype)
        assert isinstance(below, Fraction)
        if isinstance(above, str):  # the middle to where the next float would be
            step = below - fraction(low - 1, dtype)  # type: ignore[operator]
            above = below + step
        middle = (below + above) / 2
        for near in (below, middle):
            found += [near, *(near + (above - below) * off for off in _OFF)]
    return [f * sign for f in found for sign in (1, -1)]


# From far to so close that rounding to float32 on the way would land on the boundary.
_OFF = [s * Fraction(2) ** -n for n in (2, 5, 9, 14, 17, 20, 25, 28) for s in (1, -1)]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_floats_round_once_to_the_nearest_even(dtype: DType) -> None:
    tried = ties = overflows = 0
    for exactly in hard_numbers(dtype):
        value = float(exactly)
        if value != exactly:  # not a Python float
            continue
        tried += 1
        expected = rounded(exactly, dtype, -1 if math.copysign(1, value) < 0 else 1)
        if expected in (infinity(dtype, 1), infinity(dtype, -1)):
            overflows += 1
            with pytest.raises(OverflowError, match=f"does not fit {dtype}"):
                encode(value, dtype)
        else:
            assert encode(value, dtype) == expected, value
            ties += _is_tie(exactly, dtype)
    assert tried > 10_000
    assert ties > 100
    assert overflows > 5


def _is_tie(exactly: Fraction, dtype: DType) -> bool:
    back = fraction(rounded(exactly, dtype), dtype)
    assert isinstance(back, Fraction)
    mirrored = 2 * exactly - back
    return mirrored != back and fraction(rounded(mirrored, dtype), dtype) == mirrored


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_integers_round_once_however_long_they_are(dtype: DType) -> None:
    rng = random.Random(3)
    precision, _, most = FORMATS[dtype]
    checked = 0
    for _ in range(3000):
        length = rng.randint(precision, most + 1)
        number = rng.getrandbits(precision) | 1 << (precision - 1)
        tie = number * 2 + 1  # halfway between two floats
        shift = max(0, length - precision - 1)
        value = rng.choice((1, -1)) * ((tie << shift) + rng.choice((-1, 0, 1)))
        expected = rounded(Fraction(value), dtype)
        if expected in (infinity(dtype, 1), infinity(dtype, -1)):
            with pytest.raises(OverflowError):
                encode(value, dtype)
        else:
            assert encode(value, dtype) == expected, value
            checked += 1
    assert checked > 2500


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("sign", [1, -1])
def test_the_greatest_number_is_the_last_that_fits(dtype: DType, sign: int) -> None:
    greatest = decode(infinity(dtype, sign) - 1, dtype)
    next_up = abs(greatest) - abs(decode(infinity(dtype, sign) - 2, dtype))
    limit = sign * (abs(greatest) + next_up / 2)  # as far from 2**most as from the greatest
    assert encode(math.nextafter(limit, 0), dtype) == infinity(dtype, sign) - 1
    assert encode(int(greatest), dtype) == infinity(dtype, sign) - 1
    for value in (limit, int(limit), sign * 1e300, sign * 10**400, sign * 10**6000):
        with pytest.raises(OverflowError, match=f"does not fit {dtype}"):
            encode(value, dtype)
    assert encode(sign * math.inf, dtype) == infinity(dtype, sign)


@pytest.mark.parametrize("dtype", WHOLE, ids=str)
def test_what_is_no_integer_in_range_does_not_fit(dtype: DType) -> None:
    unfit = [dtype.low - 1, dtype.high + 1, 0.5, -1e-300, math.nan, math.inf, -math.inf, 1e300]
    unfit += [10**6000, float(dtype.high + 1) * 2]
    for value in unfit:
        with pytest.raises(OverflowError, match=f"does not fit {dtype}, which holds"):
            encode(value, dtype)
    for value in (dtype.low, dtype.high, 0, 1, False, True, 1.0, -0.0):
        assert decode(encode(value, dtype), dtype) == value


def test_a_float_beside_the_border_of_64_bits() -> None:
    assert decode(encode(2.0**63, u64), u64) == 2**63
    assert decode(encode(-(2.0**63), i64), i64) == -(2**63)
    for value, dtype in ((2.0**63, i64), (2.0**64, u64), (-1.0, u8), (2, bool_), (-1, bool_)):
        with pytest.raises(OverflowError):
            encode(value, dtype)


def test_a_constant_that_does_not_fit_is_the_users_mistake() -> None:
    with pytest.raises(VerifyError, match=r"constant: 2\.5 does not fit i32, which holds"):
        Constant(2.5, i32)
    with pytest.raises(VerifyError, match=r"constant: an integer of 19932 bits does not fit f16"):
        Constant(10**6000, f16)
    assert Constant(True, f32).value == 1.0
