"""What each shared op means, against Python's integers and exact fractions."""

from __future__ import annotations

import decimal
import itertools
import math as python_math
import operator
import random
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

from exact import FORMATS, fraction, infinity, is_nan, rounded
from iris.ir import math, scalar
from iris.ir.control import Func
from iris.ir.core import OPS, Level, Op
from iris.ir.literal import decode
from iris.ir.math import Predicate
from iris.ir.types import DTYPES, DType, bf16, bool_, f16, f32, i8, i16, i32, i64, u8, u16, u64

FLOATS = [f16, bf16, f32]
INTEGERS = [d for d in DTYPES.values() if d.is_integer]
CONVERSIONS = (math.Cast, math.Bitcast)
floats = pytest.mark.parametrize("dtype", FLOATS, ids=str)
integers = pytest.mark.parametrize("dtype", INTEGERS, ids=str)
dtypes = pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)


def make(
    cls: type[Op], *types: DType, to: DType | None = None, by: Predicate | int | None = None
) -> Op:
    """An op on arguments of the types; `to` is what it converts to, `by` its attribute."""
    arguments = Func("f", Level.TILE, [(None, t) for t in types]).body.arguments
    extra = [to] if to is not None else []
    return cls(*([by] if by is not None else []), *arguments, *extra)


def values(dtype: DType, bits: Any) -> np.ndarray[Any, Any]:
    """Values in storage, made without the code under test."""
    bits = np.asarray(bits, np.uint64)
    if dtype is bf16:
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if dtype is bool_:
        return bits != 0
    return bits.astype(f"u{dtype.bits // 8}").view(scalar.storage(dtype))


def bits_of(dtype: DType, array: np.ndarray[Any, Any]) -> list[int]:
    """The bits of values in storage, which they must be in, as Python integers."""
    assert isinstance(array, np.ndarray)
    assert array.dtype == scalar.storage(dtype)
    if dtype is bf16:
        wide = array.view(np.uint32)
        assert not (wide & 0xFFFF).any(), "not exactly bf16"
        return [int(b) >> 16 for b in wide.reshape(-1)]
    if dtype is bool_:
        return [int(b) for b in array.reshape(-1)]
    return [int(b) for b in array.view(f"u{dtype.bits // 8}").reshape(-1)]


def run(op: Op, *columns: list[int]) -> list[int]:
    """The bits an op gives for operands given as bits."""
    operands = [values(v.type, c) for v, c in zip(op.operands, columns, strict=True)]
    return bits_of(op.results[0].type, scalar.evaluate(op, *operands))


def check(op: Op, oracle: Callable[..., int], rows: list[tuple[int, ...]]) -> None:
    """An op gives what an oracle gives, bit for bit but for which nan it is."""
    dtype = op.results[0].type
    for row, found in zip(rows, run(op, *map(list, zip(*rows, strict=True))), strict=True):
        wanted = oracle(*row)
        if found != wanted and not (
            dtype.is_float and is_nan(found, dtype) and is_nan(wanted, dtype)
        ):
            shown = [decode(b, v.type) for b, v in zip(row, op.operands, strict=True)]
            pytest.fail(
                f"{op.name} of {shown} is {decode(found, dtype)}, not {decode(wanted, dtype)}"
            )


# Integers.


@cache
def integer_pairs(dtype: DType) -> list[tuple[int, int]]:
    if dtype.bits == 8:
        return list(itertools.product(range(256), repeat=2))
    rng = random.Random(dtype.bits)
    top = 1 << dtype.bits
    edges = [
        n % top
        for e in (0, dtype.bits // 2, dtype.bits - 1, dtype.bits)
        for n in ((1 << e) - 2, (1 << e) - 1, 1 << e, (1 << e) + 1, -(1 << e) + 3)
    ] + [7, 2, top - 7]
    random_pairs = [
        (rng.getrandbits(dtype.bits), rng.getrandbits(rng.randint(1, dtype.bits)))
        for _ in range(1500)
    ]
    return [*itertools.product(edges, repeat=2), *random_pairs]


INTEGER_BINARY: dict[type[Op], Callable[[int, int], int]] = {
    math.Add: operator.add,
    math.Sub: operator.sub,
    math.Mul: operator.mul,
    math.And: operator.and_,
    math.Or: operator.or_,
    math.Xor: operator.xor,
    math.Maximum: max,
    math.Minimum: min,
    math.MaxNum: max,
    math.MinNum: min,
    math.FloorDiv: operator.floordiv,
    math.Mod: operator.mod,
}


@integers
@pytest.mark.parametrize("cls", INTEGER_BINARY, ids=lambda c: c.name)
def test_integers_are_those_of_python_wrapped(cls: type[Op], dtype: DType) -> None:
    function = INTEGER_BINARY[cls]
    divides = cls in (math.FloorDiv, math.Mod)
    rows = [(a, b) for a, b in integer_pairs(dtype) if b or not divides]
    mask = (1 << dtype.bits) - 1

    def oracle(a: int, b: int) -> int:
        return function(int(decode(a, dtype)), int(decode(b, dtype))) & mask

    check(make(cls, dtype, dtype), oracle, rows)


@integers
def test_integers_of_one_operand(dtype: DType) -> None:
    rows = [(a,) for a in dict.fromkeys(a for a, _ in integer_pairs(dtype))]
    mask = (1 << dtype.bits) - 1
    check(make(math.Neg, dtype), lambda a: -a & mask, rows)
    check(make(math.Not, dtype), lambda a: ~a & mask, rows)
    check(make(math.Abs, dtype), lambda a: abs(int(decode(a, dtype))) & mask, rows)


@integers
def test_shifts(dtype: DType) -> None:
    mask = (1 << dtype.bits) - 1
    numbers = [a for a, _ in integer_pairs(dtype)[:: 256 if dtype.bits == 8 else 9]]
    rows = list(itertools.product(numbers, range(dtype.bits)))
    check(make(math.Shl, dtype, dtype), lambda a, n: a << n & mask, rows)
    check(make(math.Shr, dtype, dtype), lambda a, n: int(decode(a, dtype)) >> n & mask, rows)


def test_logic_of_bools() -> None:
    rows = list(itertools.product((0, 1), repeat=2))
    check(make(math.And, bool_, bool_), operator.and_, rows)
    check(make(math.Or, bool_, bool_), operator.or_, rows)
    check(make(math.Xor, bool_, bool_), operator.xor, rows)
    check(make(math.Not, bool_), lambda a: 1 - a, [(0,), (1,)])


# Floats.


@cache
def special(dtype: DType) -> list[int]:
    """Zeros, nans, infinities, the ends of each range, ones, and what lies beside them."""
    precision = FORMATS[dtype][0]
    one = rounded(Fraction(1), dtype)
    least_normal = 1 << (precision - 1)
    half_way = [rounded(Fraction(n, 2), dtype) for n in (1, 3, 5, 255, 257, 4095, 33)]
    found = [0, 1, 2, 3, least_normal - 1, least_normal, least_normal + 1, one - 1, one, one + 1]
    found += [infinity(dtype, 1) - 1, infinity(dtype, 1), infinity(dtype, 1) + least_normal // 2]
    found += [
        *half_way,
        rounded(Fraction(2) ** (precision - 1), dtype),
        rounded(Fraction(3), dtype),
    ]
    return [b | sign for b in found for sign in (0, 1 << (dtype.bits - 1))]


def near(rng: random.Random, dtype: DType) -> int:
    """A finite float, more often than not of middling size."""
    if rng.random() < 0.4:
        return rng.randrange(infinity(dtype, 1)) | rng.getrandbits(1) << (dtype.bits - 1)
    size = Fraction(2) ** rng.randint(-19, -9)
    return rounded(size * rng.randint(-(2**24), 2**24), dtype)


@cache
def float_rows(dtype: DType, count: int) -> list[tuple[int, ...]]:
    rng = random.Random(count)
    rows = list(itertools.product(special(dtype), repeat=min(count, 2)))
    if count == 3:
        rows = [(*row, rng.choice(special(dtype))) for row in rows]
    return rows + [tuple(near(rng, dtype) for _ in range(count)) for _ in range(2500)]


def number(bits: int, dtype: DType) -> float:
    return float(decode(bits, dtype))


def exact(bits: int, dtype: DType) -> Fraction:
    found = fraction(bits, dtype)
    assert isinstance(found, Fraction)
    return found


def from_float(value: float, dtype: DType) -> int:
    """The bits of a Python float, rounded; what overflows is infinite."""
    if python_math.isnan(value):
        return infinity(dtype, 1) + 1
    sign = int(python_math.copysign(1, value))
    if python_math.isinf(value):
        return infinity(dtype, sign)
    return rounded(Fraction(value), dtype, sign)


def root(value: Fraction) -> Fraction:
    """The square root, or if that is not exact what lies on the same side of every float."""
    extra = 400
    scaled = value * 4**extra
    whole = python_math.isqrt(scaled.numerator // scaled.denominator)
    if whole * whole == scaled:
        return Fraction(whole, 2**extra)
    return Fraction(2 * whole + 1, 2 * 2**extra)


def divided(a: float, b: float) -> float:
    """What IEEE says where one is zero, infinite or nan."""
    if b == 0:
        sign = python_math.copysign(1, a) * python_math.copysign(1, b)
        return python_math.nan if a == 0 or a != a else sign * python_math.inf
    return a / b


ARITHMETIC: dict[type[Op], tuple[Callable[..., float], Callable[..., Fraction]]] = {
    math.Add: (operator.add, operator.add),
    math.Sub: (operator.sub, operator.sub),
    math.Mul: (operator.mul, operator.mul),
    math.Div: (divided, operator.truediv),
    math.Fma: (lambda a, b, c: a * b + c, lambda a, b, c: a * b + c),
}


def arithmetic(cls: type[Op], dtype: DType) -> Callable[..., int]:
    """Exact fractions rounded once; Python's floats say what becomes of nans and infinities,
    and the sign of a zero."""
    rough, exactly = ARITHMETIC[cls]

    def oracle(*bits: int) -> int:
        about = rough(*[number(b, dtype) for b in bits])
        special_operand = not all(python_math.isfinite(number(b, dtype)) for b in bits)
        if special_operand or not python_math.isfinite(about):
            return from_float(about, dtype)
        sign = int(python_math.copysign(1, about))
        return rounded(exactly(*[exact(b, dtype) for b in bits]), dtype, sign)

    return oracle


@floats
@pytest.mark.parametrize("cls", [math.Add, math.Sub, math.Mul, math.Div], ids=lambda c: c.name)
def test_arithmetic_rounds_once(cls: type[Op], dtype: DType) -> None:
    check(make(cls, dtype, dtype), arithmetic(cls, dtype), float_rows(dtype, 2))


@floats
def test_narrow_results_at_the_edge_of_nothing_round_once(dtype: DType) -> None:
    """Products and quotients that are subnormal, where float32 has few bits to spare."""
    rng = random.Random(5)
    low, high = FORMATS[dtype][1] - FORMATS[dtype][0], FORMATS[dtype][1] + 2
    for cls in (math.Mul, math.Div):
        rows = []
        for _ in range(1500):
            a = rounded(Fraction(rng.randint(1, 255), 2 ** rng.randint(0, 12)), dtype)
            aim = Fraction(2) ** rng.randint(low, high) * Fraction(rng.randint(1, 511), 256)
            other = aim / exact(a, dtype)
            first = rounded(other, dtype)
            if cls is math.Mul:
                rows.append((a, first))
            elif exact(first, dtype):
                rows.append((first, rounded(1 / exact(a, dtype), dtype)))
        check(make(cls, dtype, dtype), arithmetic(cls, dtype), rows)


@floats
def test_square_roots_round_once(dtype: DType) -> None:
    def oracle(a: int) -> int:
        value = number(a, dtype)
        if not value > 0 or python_math.isinf(value):
            return a if value >= 0 else from_float(python_math.nan, dtype)
        return rounded(root(exact(a, dtype)), dtype)

    step = {f16: 5, bf16: 5, f32: 1}[dtype]
    every = [(b,) for b in range(0, 1 << 16, step)] if dtype.bits == 16 else float_rows(dtype, 1)
    check(make(math.Sqrt, dtype), oracle, every)


def fused_rows(dtype: DType) -> list[tuple[int, int, int]]:
    """Sums that cancel, and sums that a tiny third operand tips off a tie."""
    rng = random.Random(11)
    precision, least, most = FORMATS[dtype]
    rows = []

    def power(low: int, high: int) -> Fraction:
        return Fraction(2) ** rng.randint(low, high)

    while len(rows) < 1500:  # the product is a tie
        split = rng.randint(2, precision - 1)
        one, other = rng.getrandbits(split) | 1, rng.getrandbits(precision + 1 - split) | 1
        if (one * other).bit_length() != precision + 1:
            continue
        a, b = one * power(least, 0), other * power(-3, 3) * rng.choice((1, -1))
        tiny = power(least - precision + 1, -2) * min(abs(a * b), 1)
        rows.append(
            (rounded(a, dtype), rounded(b, dtype), rounded(tiny * rng.choice((1, -1, 0)), dtype))
        )
    for _ in range(1500):  # the sum cancels, to the last bit or nearly
        a, b = near(rng, dtype), near(rng, dtype)
        product = exact(a, dtype) * exact(b, dtype)
        c = rounded(-product * (1 + rng.choice((0, 0, 1, -1)) * power(-precision, 0)), dtype)
        rows.append((a, b, c))
    for _ in range(500):  # the product alone would overflow, or vanish
        high = rng.random() < 0.5
        a = rounded(power(most - 1, most) * Fraction(rng.randint(1, 255), 256), dtype)
        b = rounded(power(0, 4) * Fraction(rng.randint(1, 255), 128), dtype)
        if not high:
            a, b = (rounded(power(least - 2, least // 2), dtype) for _ in range(2))
        c = rounded(-exact(a, dtype) * exact(b, dtype) * Fraction(rng.randint(1, 255), 256), dtype)
        rows.append((a, b, c))
    for _ in range(300):  # the product is just short of half a unit of the third operand
        unit = power(-8, 8)
        c = rounded(unit * rng.randrange(1 << (precision - 1), 1 << precision), dtype)
        a, b = (rounded(1 + s * Fraction(2) ** (1 - precision), dtype) for s in (1, -1))
        b = rounded(exact(b, dtype) * unit / 2 * rng.choice((1, -1)), dtype)
        rows.append((a, b, c))
    # At the border itself: the greatest number plus half a step, less a little.
    top = infinity(dtype, 1) - 1
    half = (exact(top, dtype) - exact(top - 1, dtype)) / 2
    one = rounded(Fraction(1), dtype)
    for c in (half, half * Fraction(255, 256), -half, half * 2):
        rows += [
            (top, one, rounded(c, dtype)),
            (one | 1 << (dtype.bits - 1), top, rounded(-c, dtype)),
        ]
    return rows


@floats
def test_fma_rounds_once(dtype: DType) -> None:
    oracle = arithmetic(math.Fma, dtype)
    op = make(math.Fma, dtype, dtype, dtype)
    check(op, oracle, float_rows(dtype, 3) + fused_rows(dtype))
    # The hard rows are hard: rounding the product first, or the sum in float64, is not enough.
    rows = fused_rows(dtype)
    once, twice = 0, 0
    for a, b, c in rows:
        total = exact(a, dtype) * exact(b, dtype) + (
            exact(c, dtype) if python_math.isfinite(number(c, dtype)) else 0
        )
        right = rounded(total, dtype)
        rounded_product = rounded(exact(a, dtype) * exact(b, dtype), dtype)
        if python_math.isfinite(number(rounded_product, dtype)):
            step = rounded(
                exact(rounded_product, dtype) + total - exact(a, dtype) * exact(b, dtype), dtype
            )
            once += step != right
        twice += rounded(Fraction(float(total)), dtype) != right
    assert once > 50
    assert twice > 5 or dtype is f16  # of which float64 holds nearly every sum


@floats
def test_floor_division_is_the_floor_of_the_exact_quotient(dtype: DType) -> None:
    def rows() -> list[tuple[int, int]]:
        rng = random.Random(2)
        close = []
        for _ in range(1500):  # quotients at, and just off, an integer
            b = near(rng, dtype)
            if exact(b, dtype) == 0:
                continue
            whole = rng.randint(-(2 ** rng.randint(1, 30)), 2 ** rng.randint(1, 30))
            a = rounded(exact(b, dtype) * whole, dtype)
            if a & ~(1 << (dtype.bits - 1)) < infinity(dtype, 1) - 1:
                close += [(a, b), (a + 1, b)]
        finite = [
            r
            for r in float_rows(dtype, 2)
            if all(python_math.isfinite(number(b, dtype)) for b in r) and number(r[1], dtype) != 0
        ]
        return finite + close

    def sign(a: int, b: int) -> int:
        return int(
            python_math.copysign(1, number(a, dtype)) * python_math.copysign(1, number(b, dtype))
        )

    def quotient(a: int, b: int) -> int:
        return rounded(Fraction(exact(a, dtype) // exact(b, dtype)), dtype, sign(a, b))

    def remainder(a: int, b: int) -> int:
        return rounded(
            exact(a, dtype) % exact(b, dtype), dtype, int(python_math.copysign(1, number(b, dtype)))
        )

    check(make(math.FloorDiv, dtype, dtype), quotient, rows())
    check(make(math.Mod, dtype, dtype), remainder, rows())


@floats
def test_floor_division_by_zero_and_infinity_is_that_of_numpy(dtype: DType) -> None:
    inf, nan = python_math.inf, python_math.nan
    table = [  # a, b, a // b, a % b
        (1.0, 0.0, inf, nan),
        (-1.0, 0.0, -inf, nan),
        (1.0, -0.0, -inf, nan),
        (0.0, 0.0, nan, nan),
        (1.0, inf, 0.0, 1.0),
        (-1.0, inf, -1.0, inf),
        (1.0, -inf, -1.0, -inf),
        (inf, 2.0, nan, nan),
        (inf, inf, nan, nan),
        (nan, 1.0, nan, nan),
        (1.0, nan, nan, nan),
    ]
    rows = {(from_float(a, dtype), from_float(b, dtype)): (q, r) for a, b, q, r in table}
    for index, cls in enumerate((math.FloorDiv, math.Mod)):
        check(
            make(cls, dtype, dtype),
            lambda a, b, i=index: from_float(rows[a, b][i], dtype),
            list(rows),
        )


@floats
def test_rounding_to_whole_numbers(dtype: DType) -> None:
    rows = [(b,) for b in range(0, 1 << 16, 3)] if dtype.bits == 16 else float_rows(dtype, 1)
    for cls, function in (
        (math.Floor, python_math.floor),
        (math.Ceil, python_math.ceil),
        (math.Round, round),
    ):

        def oracle(a: int, function: Callable[[Fraction], int] = function) -> int:
            if not python_math.isfinite(number(a, dtype)):
                return a
            sign = -1 if a >> (dtype.bits - 1) else 1
            return rounded(Fraction(function(exact(a, dtype))), dtype, sign)

        check(make(cls, dtype), oracle, rows)


@floats
def test_neg_and_abs_touch_only_the_sign(dtype: DType) -> None:
    sign = 1 << (dtype.bits - 1)
    rows = [(b,) for b in range(1 << 16)] if dtype.bits == 16 else float_rows(dtype, 1)
    # Bit for bit, nans too: that is why `neg (neg x)` may be replaced by `x`.
    (column,) = map(list, zip(*rows, strict=True))
    assert run(make(math.Neg, dtype), column) == [a ^ sign for a in column]
    assert run(make(math.Abs, dtype), column) == [a & ~sign for a in column]


def python_pow(a: float, b: float) -> float:
    try:
        return python_math.pow(a, b)
    except OverflowError:
        odd = b % 2 == 1
        return -python_math.inf if a < 0 and odd else python_math.inf
    except ValueError:
        if a == 0:
            return python_math.copysign(python_math.inf, a) if b % 2 == 1 else python_math.inf
        return python_math.nan


def sigmoid(x: float) -> float:
    if x != x or x < -2000:
        return x if x != x else 0.0
    with decimal.localcontext(decimal.Context(prec=60)):
        return float(1 / (1 + (-decimal.Decimal(x)).exp()))


def total(function: Callable[[float], float], poles: dict[float, float]) -> Callable[..., float]:
    """A function of `math`, extended to where that raises."""

    def extended(x: float) -> float:
        try:
            return poles[x] if x in poles else function(x)
        except OverflowError:
            return python_math.inf
        except ValueError:
            return python_math.nan

    return extended


INF = python_math.inf
TRANSCENDENTAL: dict[type[Op], Callable[..., float]] = {
    math.Exp: total(python_math.exp, {}),
    math.Exp2: total(lambda x: 2.0**x, {}),
    math.Log: total(python_math.log, {0.0: -INF}),
    math.Log2: total(python_math.log2, {0.0: -INF}),
    math.Rsqrt: lambda x: divided(1.0, total(python_math.sqrt, {})(x)),
    math.Sin: total(python_math.sin, {}),
    math.Cos: total(python_math.cos, {}),
    math.Tanh: total(python_math.tanh, {}),
    math.Erf: total(python_math.erf, {}),
    math.Sigmoid: sigmoid,
    math.Pow: python_pow,
}


def rank(bits: int, dtype: DType) -> int:
    """A place in the order of floats: neighbours are one apart."""
    sign = 1 << (dtype.bits - 1)
    return -(bits & ~sign) if bits & sign else bits


@floats
@pytest.mark.parametrize("cls", TRANSCENDENTAL, ids=lambda c: c.name)
def test_transcendentals_are_within_one_unit_of_those_of_python(
    cls: type[Op], dtype: DType
) -> None:
    count = 2 if cls is math.Pow else 1
    rows = float_rows(dtype, count)
    if count == 1 and dtype.bits == 16:
        rows = [(b,) for b in range(0, 1 << 16, 7)] + [(b,) for b in special(dtype)]
    op = make(cls, *[dtype] * count)
    exactly = 0
    for row, found in zip(rows, run(op, *map(list, zip(*rows, strict=True))), strict=True):
        wanted = from_float(TRANSCENDENTAL[cls](*[number(b, dtype) for b in row]), dtype)
        if is_nan(wanted, dtype) or is_nan(found, dtype):
            assert is_nan(wanted, dtype) == is_nan(found, dtype), row
        else:
            shown = f"{cls.name} of {[number(b, dtype) for b in row]}: {number(found, dtype)}"
            assert abs(rank(found, dtype) - rank(wanted, dtype)) <= 1, shown
        exactly += found == wanted or is_nan(wanted, dtype)
    assert exactly >= 0.999 * len(rows)


# Order.


def greater(a: float, b: float) -> bool:
    """The order of floats with -0 below +0."""
    return (a, python_math.copysign(1, a)) > (b, python_math.copysign(1, b))


@floats
@pytest.mark.parametrize(
    "cls", [math.Maximum, math.Minimum, math.MaxNum, math.MinNum], ids=lambda c: c.name
)
def test_extrema_order_zeros_and_take_or_drop_nans(cls: type[Op], dtype: DType) -> None:
    def oracle(a: int, b: int) -> int:
        one, other = number(a, dtype), number(b, dtype)
        if one != one or other != other:
            drops = cls in (math.MaxNum, math.MinNum)
            return (a if one == one else b) if drops else infinity(dtype, 1) + 1
        larger = cls in (math.Maximum, math.MaxNum)
        return a if greater(one, other) == larger else b

    check(make(cls, dtype, dtype), oracle, float_rows(dtype, 2))


COMPARE: dict[Predicate, Callable[[Any, Any], bool]] = {
    Predicate.EQ: operator.eq,
    Predicate.NE: operator.ne,
    Predicate.LT: operator.lt,
    Predicate.LE: operator.le,
    Predicate.GT: operator.gt,
    Predicate.GE: operator.ge,
}


@dtypes
@pytest.mark.parametrize("predicate", Predicate, ids=lambda p: p.value)
def test_comparisons_are_those_of_python(predicate: Predicate, dtype: DType) -> None:
    if dtype.is_float:
        rows = float_rows(dtype, 2)
    else:
        rows = integer_pairs(dtype)[::3] if dtype is not bool_ else [(0, 0), (0, 1), (1, 0), (1, 1)]
    function = COMPARE[predicate]

    def oracle(a: int, b: int) -> int:
        return int(function(decode(a, dtype), decode(b, dtype)))

    op = make(math.Compare, dtype, dtype, by=predicate)
    check(op, oracle, rows)
    swapped = make(math.Compare, dtype, dtype, by=predicate.swapped)
    check(swapped, lambda a, b: oracle(b, a), rows)


def test_a_power_is_no_root() -> None:
    """Also where one 0.5 is the exponent of all elements, whatever NumPy does then."""
    bases = np.array([-0.0, -np.inf, np.inf, 9.0, -1.0], np.float32)
    half = np.float32(0.5)
    op = make(math.Pow, f32, f32)
    for exponent in (np.full(5, half), np.broadcast_to(half, 5), np.asarray(half)):
        found = scalar.evaluate(op, bases, exponent)
        np.testing.assert_array_equal(found, [0.0, np.inf, np.inf, 3.0, np.nan])
        assert not np.signbit(found[0])


@dtypes
def test_select_copies_bits(dtype: DType) -> None:
    op = make(math.Select, bool_, dtype, dtype)
    bits = special(dtype) if dtype.is_float else [0, 1, (1 << dtype.bits) - 1]
    rows = [(c, a, b) for c in (0, 1) for a in bits for b in bits]
    found = run(op, *map(list, zip(*rows, strict=True)))
    assert found == [a if c else b for c, a, b in rows]
    one_for_all = scalar.evaluate(
        op, np.array(True), values(dtype, bits), values(dtype, bits[::-1])
    )
    assert bits_of(dtype, one_for_all) == bits


# Conversions.


@cache
def sources(dtype: DType) -> list[int]:
    """Bits worth converting."""
    if dtype is bool_:
        return [0, 1]
    if dtype.is_float:
        found = [*special(dtype), *(row[0] for row in float_rows(dtype, 1)[:1000])]
        borders = [
            s * Fraction(2) ** n + d
            for n in (0, 7, 8, 15, 16, 31, 32, 63, 64)
            for s in (1, -1)
            for d in (-1, 0, 1, Fraction(1, 2), Fraction(-1, 2))
        ]
        for border in borders:
            bits = rounded(border, dtype)
            found += [b for b in (bits - 1, bits, bits + 1) if 0 <= b < 1 << dtype.bits]
        return found
    rng = random.Random(dtype.bits)
    found = list(range(256)) if dtype.bits == 8 else [a for a, _ in integer_pairs(dtype)[:1500]]
    for precision in (8, 11, 24, 53):  # ties of each float dtype, and what is one off them
        for _ in range(200):
            length = rng.randint(precision + 1, max(precision + 1, dtype.bits))
            tie = (rng.getrandbits(precision) | 1 << (precision - 1)) * 2 + 1
            value = (tie << max(0, length - precision - 1)) + rng.choice((-1, 0, 1))
            found += [value % (1 << dtype.bits), -value % (1 << dtype.bits)]
    return found


def converted(source: DType, target: DType) -> Callable[[int], int]:
    def oracle(bits: int) -> int:
        value = decode(bits, source)
        if target is bool_:
            return int(value != 0)
        if target.is_float:
            if isinstance(value, float):
                return from_float(value, target)
            return rounded(Fraction(value), target)
        return int(value) & ((1 << target.bits) - 1)

    return oracle


@pytest.mark.parametrize("target", DTYPES.values(), ids=str)
@pytest.mark.parametrize("source", DTYPES.values(), ids=str)
def test_casts_between_all_dtypes(source: DType, target: DType) -> None:
    op = make(math.Cast, source, to=target)
    rows = [(b,) for b in sources(source)]
    if source.is_float and target.is_integer:
        column = [b for (b,) in rows]
        ((where, message),) = scalar.program_errors(op, values(source, column))
        assert message == f"a float outside the range of {target}"
        for bits, outside in zip(column, where.tolist(), strict=True):
            value = number(bits, source)
            fits = python_math.isfinite(value) and target.low <= int(value) <= target.high
            assert outside is not fits, value
        lost = [b for b, outside in zip(column, where, strict=True) if outside]
        assert set(run(op, lost)) == {0}, "the same on every machine"
        rows = [(b,) for b, outside in zip(column, where, strict=True) if not outside]
        assert 0 < len(rows) < len(column)
    else:
        assert list(scalar.program_errors(op, values(source, [0]))) == []
    check(op, converted(source, target), rows)


def test_small_integers_beside_large_ones_keep_their_value() -> None:
    """An array is not rounded as its largest element is."""
    for dtype in (i64, u64):
        numbers = np.array([1, 3, 2**53 - 1, 2**60 + 1], scalar.storage(dtype))
        found = scalar.evaluate(make(math.Cast, dtype, to=f32), numbers)
        assert found.tolist() == [1.0, 3.0, 2.0**53, 2.0**60]


SAME_WIDTH = [(a, b) for a, b in itertools.product(DTYPES.values(), repeat=2) if a.bits == b.bits]


@pytest.mark.parametrize(("source", "target"), SAME_WIDTH, ids=str)
def test_bitcasts_keep_every_bit(source: DType, target: DType) -> None:
    bits = list(range(1 << source.bits)) if source.bits <= 16 else sources(source)
    assert run(make(math.Bitcast, source, to=target), bits) == bits


@dtypes
def test_bits_and_values(dtype: DType) -> None:
    bits = list(range(1 << dtype.bits)) if dtype.bits <= 16 else sources(dtype)
    stored = scalar.from_bits(dtype, np.array(bits, np.uint64))
    assert stored.dtype == scalar.storage(dtype)
    wanted = [decode(b, dtype) for b in bits]
    np.testing.assert_array_equal(stored, np.array(wanted, stored.dtype))
    assert scalar.to_bits(dtype, stored).tolist() == bits
    assert scalar.to_bits(dtype, stored).dtype.kind == "u"


# Program errors.


@integers
def test_division_by_zero_is_an_error(dtype: DType) -> None:
    for cls in (math.FloorDiv, math.Mod):
        op = make(cls, dtype, dtype)
        zero, rest = values(dtype, [5, 0, 3]), values(dtype, [0, 0, 1])
        ((where, message),) = scalar.program_errors(op, zero, rest)
        assert where.tolist() == [True, True, False]
        assert message == "integer division by zero"
        scalar.evaluate(op, zero, rest)  # goes on with some value, and no warning


EXACT: dict[type[Op], Callable[..., int]] = {
    math.Neg: operator.neg,
    math.Abs: abs,
    math.Add: operator.add,
    math.Sub: operator.sub,
    math.Mul: operator.mul,
    math.Shl: operator.lshift,
}


def errors(op: Op, rows: list[tuple[int, ...]]) -> tuple[list[bool], set[str]]:
    """Which rows of operands, as bits, are an error, and what is said of them."""
    columns = zip(*rows, strict=True)
    operands = [values(v.type, c) for v, c in zip(op.operands, columns, strict=True)]
    wrong, said = np.zeros(len(rows), np.bool_), set()
    for where, message in scalar.program_errors(op, *operands):
        wrong |= where
        said |= {message} if where.any() else set()
    return wrong.tolist(), said


@integers
@pytest.mark.parametrize("cls", EXACT, ids=lambda cls: cls.name)
def test_what_wraps_though_it_says_that_it_does_not_is_an_error(
    cls: type[Op], dtype: DType
) -> None:
    count = len(cls.spec.fixed)
    rows = [pair[:count] for pair in integer_pairs(dtype)]
    if cls is math.Shl:
        rows = [(x, y) for x, y in rows if y < dtype.bits]
    numbers = [[int(decode(bits, dtype)) for bits in row] for row in rows]
    wraps = [not dtype.low <= EXACT[cls](*row) <= dtype.high for row in numbers]
    negative = [min(row) < 0 for row in numbers]
    op = make(cls, *[dtype] * count)
    for mark in (math.Nowrap.NONE, math.Nowrap.ADDRESS):
        op.set_attribute("nowrap", mark)
        assert errors(op, rows) == ([False] * len(rows), set())
    op.set_attribute("nowrap", math.Nowrap.FITS)
    message = f"{op.name} with nowrap=fits, of a result that does not fit {dtype}"
    assert errors(op, rows) == (wraps, {message} if any(wraps) else set())
    op.set_attribute("nowrap", math.Nowrap.NATURAL)
    wrong, said = errors(op, rows)
    assert wrong == [w or n for w, n in zip(wraps, negative, strict=True)]
    assert (f"{op.name} with nowrap=natural, of a negative number" in said) == any(negative)


@integers
@pytest.mark.parametrize("cls", [math.FloorDiv, math.Mod], ids=lambda cls: cls.name)
def test_a_negative_operand_of_natural_division_is_an_error(cls: type[Op], dtype: DType) -> None:
    rows = [(x, y) for x, y in integer_pairs(dtype) if y]
    op = make(cls, dtype, dtype)
    op.set_attribute("natural", True)
    wrong, said = errors(op, rows)
    assert wrong == [min(decode(x, dtype), decode(y, dtype)) < 0 for x, y in rows]
    message = f"{op.name} with natural=true, of a negative number"
    assert said == ({message} if dtype.is_signed else set())


@integers
def test_shifts_outside_the_width_are_an_error(dtype: DType) -> None:
    amounts = [0, 1, dtype.bits - 1, dtype.bits, (1 << (dtype.bits - 1)) - 1, (1 << dtype.bits) - 1]
    for cls in (math.Shl, math.Shr):
        op = make(cls, dtype, dtype)
        operands = values(dtype, [1] * len(amounts)), values(dtype, amounts)
        ((where, message),) = scalar.program_errors(op, *operands)
        assert where.tolist() == [False, False, False, True, True, True]
        assert message == f"shift by an amount outside 0 to {dtype.bits - 1}"
        scalar.evaluate(op, *operands)


@integers
def test_what_is_assumed_is_checked_and_changes_nothing(dtype: DType) -> None:
    op = make(math.AssumeDivisible, dtype, by=24)
    bits = [0, 24, 12, 1, (1 << dtype.bits) - 24, (1 << dtype.bits) - 1]
    x = values(dtype, bits)
    assert run(op, bits) == bits
    ((where, message),) = scalar.program_errors(op, x)
    assert where.tolist() == [int(number) % 24 != 0 for number in x.tolist()]
    assert message == "a number is not divisible by 24"
    op.operands[0].name = "n"
    ((_, message),) = scalar.program_errors(op, x)
    assert message == "%n is not divisible by 24"


def test_nothing_else_makes_errors() -> None:
    for dtype in FLOATS:
        zeros = values(dtype, [0])
        for cls in (math.FloorDiv, math.Mod, math.Div, math.Pow):
            assert list(scalar.program_errors(make(cls, dtype, dtype), zeros, zeros)) == []
    for cls in (math.Add, math.Sub, math.Mul):
        ones = values(i8, [0x7F])
        assert list(scalar.program_errors(make(cls, i8, i8), ones, ones)) == []


# Shapes.


def every_op() -> list[Op]:
    """Every shared op of one result, on every dtype it takes."""
    ops: list[Op] = []
    for cls in OPS.values():
        if not issubclass(cls, math.Elementwise):
            continue
        fields = cls.spec.fixed
        for dtype in DTYPES.values():
            types = [bool_ if f.name == "condition" else dtype for f in fields]
            if not all(t in f.constraint for f, t in zip(fields, types, strict=True)):
                continue
            if cls in CONVERSIONS:
                ops += [
                    make(cls, dtype, to=t)
                    for t in DTYPES.values()
                    if cls is math.Cast or t.bits == dtype.bits
                ]
            elif cls is math.Compare:
                ops += [make(cls, *types, by=p) for p in Predicate]
            elif cls is math.AssumeDivisible:
                ops.append(make(cls, *types, by=24))
            else:
                ops.append(make(cls, *types))
    return ops


def hostile(dtype: DType) -> list[int]:
    if dtype.is_float:
        signalling = infinity(dtype, 1) + 1
        return [*special(dtype), signalling]
    return [0, 1, dtype.high, (1 << dtype.bits) - 1, dtype.low % (1 << dtype.bits)]


def test_any_shape_and_any_strides_give_the_same_and_no_warning() -> None:
    ops = every_op()
    assert len({type(op) for op in ops}) == 39
    for op in ops:
        rng = random.Random(op.name)
        columns = [[rng.choice(hostile(v.type)) for _ in range(12)] for v in op.operands]
        arrays = [values(v.type, c) for v, c in zip(op.operands, columns, strict=True)]
        target = op.results[0].type
        wanted = bits_of(target, scalar.evaluate(op, *arrays))
        outside = [w.tolist() for w, _ in scalar.program_errors(op, *arrays)]

        def same(shape: tuple[int, ...], views: list[Any], wanted: list[int], op: Op = op) -> None:
            found = scalar.evaluate(op, *views)
            assert isinstance(found, np.ndarray)
            assert found.shape == shape, op
            have = scalar.to_bits(op.results[0].type, found)
            assert have.shape == shape
            for one, other in zip(have.reshape(-1).tolist(), wanted, strict=True):
                target = op.results[0].type
                nans = target.is_float and is_nan(one, target) and is_nan(other, target)
                assert one == other or nans, op
            for where, _ in scalar.program_errors(op, *views):
                assert np.shape(where) == shape

        same((), [a[0].reshape(()) for a in arrays], wanted[:1])
        same((1,), [a[:1] for a in arrays], wanted[:1])
        same((0,), [a[:0] for a in arrays], [])
        same((2, 0), [a[:0].reshape(2, 0) for a in arrays], [])
        same((3, 4), [a.reshape(3, 4) for a in arrays], wanted)
        same((6,), [a[::2] for a in arrays], wanted[::2])
        same((12,), [a[::-1] for a in arrays], wanted[::-1])
        transposed = np.arange(12).reshape(3, 4).T.reshape(-1).tolist()
        same((4, 3), [a.reshape(3, 4).T for a in arrays], [wanted[i] for i in transposed])
        spread = [np.broadcast_to(a[:1], 5) for a in arrays]
        same((5,), spread, wanted[:1] * 5)
        assert [w.tolist() for w, _ in scalar.program_errors(op, *arrays)] == outside


def test_rounding_a_float_of_any_width_gives_no_warning() -> None:
    wide = np.array([1e300, -1e300, 1e39, 1e-300, np.nan, np.inf, 70000.0])
    for dtype in FLOATS:
        wanted = [from_float(x, dtype) for x in wide.tolist()]
        found = bits_of(dtype, scalar.round_to(dtype, wide))
        assert [w for w in found if not is_nan(w, dtype)] == [
            w for w in wanted if not is_nan(w, dtype)
        ]


@pytest.mark.parametrize("dtype", [f16, bf16], ids=str)
def test_float64_rounds_once_at_every_tie(dtype: DType) -> None:
    """All the middles between neighbours, and what is a hair off them."""
    below = np.arange(infinity(dtype, 1), dtype=np.uint64)
    low = values(dtype, below).astype(np.float64)
    high = np.append(low[1:], 2 * low[-1] - low[-2])
    middle = (low + high) / 2
    even = np.where(below % 2 == 0, below, below + 1)
    for sign, top in ((1, 0), (-1, 0x8000)):
        for wide, wanted in (
            (middle, even),
            (np.nextafter(middle, np.inf), below + 1),
            (np.nextafter(middle, 0), below),
        ):
            found = scalar.to_bits(dtype, scalar.round_to(dtype, sign * wide))
            np.testing.assert_array_equal(found, wanted.astype(np.uint16) | np.uint16(top))


def test_widths_are_as_wide_as_they_say() -> None:
    for dtype in (i16, i32, u8, u16):
        assert scalar.storage(dtype).itemsize * 8 == dtype.bits
    assert scalar.storage(bf16) == np.float32
