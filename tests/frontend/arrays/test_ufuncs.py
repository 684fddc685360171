"""NumPy's ufuncs on traced arrays, against NumPy in 64 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from iris.targets.target import ULPS
from tracing_arrays import BF16, DTYPES, FLOATS, INTEGERS, agrees, compute, numbers, same, widened

Array = npt.NDArray[Any]
ARITHMETIC = (np.add, np.subtract, np.multiply, np.maximum, np.minimum, np.fmax, np.fmin)
COMPARISONS = (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)


def special(dtype: Any) -> Array:
    """Numbers that a dtype has, the extreme ones among them."""
    dtype = np.dtype(dtype)
    if dtype == np.bool_:
        return np.array([False, True])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        listed = [info.min, info.min + 1, 0, 1, 2, 3, 7, info.max - 1, info.max]
        return np.array([*listed, *([-1, -2, -5] if info.min else [])], dtype)
    inf = float("inf")
    listed = [0.0, -0.0, 1, -1, 0.5, -2.5, 1.5, 3, -7.25, 1e-3, 200.0, inf, -inf, float("nan")]
    random = np.random.default_rng(0).normal(0, 3, 20)
    return np.array([*listed, *random]).astype(dtype)


def pairs(dtype: Any) -> tuple[Array, Array]:
    x = special(dtype)
    return np.repeat(x, len(x)), np.tile(x, len(x))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("function", ARITHMETIC, ids=lambda f: f.__name__)
def test_arithmetic(function: np.ufunc, dtype: Any) -> None:
    if function is np.subtract and dtype == np.bool_:
        return
    agrees(function, *pairs(dtype), dtype=dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("function", COMPARISONS, ids=lambda f: f.__name__)
def test_comparisons(function: np.ufunc, dtype: Any) -> None:
    agrees(function, *pairs(dtype), dtype=np.bool_)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("function", [np.logical_and, np.logical_or, np.logical_xor])
def test_logic(function: np.ufunc, dtype: Any) -> None:
    agrees(function, *pairs(dtype), dtype=np.bool_)
    agrees(np.logical_not, special(dtype), dtype=np.bool_)


@pytest.mark.parametrize("dtype", [np.dtype("?"), *INTEGERS], ids=str)
def test_bits(dtype: Any) -> None:
    for function in (np.bitwise_and, np.bitwise_or, np.bitwise_xor):
        agrees(function, *pairs(dtype), dtype=dtype)
    same(compute(np.invert, special(dtype)), np.invert(special(dtype)), dtype=dtype)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_shifts(dtype: Any) -> None:
    x, width = special(dtype), dtype.itemsize * 8
    by = np.arange(len(x)).astype(dtype) % dtype.type(width)
    same(compute(np.left_shift, x, by), np.left_shift(x, by), dtype=dtype)
    same(compute(np.right_shift, x, by), np.right_shift(x, by), dtype=dtype)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_shifts_by_more_than_the_width(dtype: Any) -> None:
    """All bits are shifted out, on every device."""
    x, width = special(dtype), dtype.itemsize * 8
    least = 0 if dtype.kind == "u" else -2
    by = np.resize(np.array([width - 1, width, width + 1, least, 100, 3]), len(x)).astype(dtype)
    for function in (np.left_shift, np.right_shift):
        same(compute(function, x, by), function(x, by), dtype=dtype)
        same(compute(lambda x: function(x, width), x), function(x, width), dtype=dtype)  # noqa: B023


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_division_of_integers(dtype: Any) -> None:
    x, y = pairs(dtype)
    x, y = x[y != 0], y[y != 0]
    for function in (np.floor_divide, np.remainder, np.fmod, np.divmod):
        agrees(function, x, y, dtype=dtype)
    agrees(np.divide, x, y, dtype=np.float32, ulps=1.5)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_division_of_floats(dtype: Any) -> None:
    x, y = pairs(dtype)
    agrees(np.divide, x, y, dtype=dtype)
    # The remainder of f64 is that of the narrower dtypes, but for where it is rounded.
    for function in (np.floor_divide, np.remainder, np.fmod):
        agrees(function, x, y, dtype=dtype, ulps=0 if function is np.fmod else 1)
    found = compute(np.divmod, x, y)
    same(found[0], compute(np.floor_divide, x, y))
    same(found[1], compute(np.remainder, x, y))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_signs(dtype: Any) -> None:
    x = special(dtype)
    agrees(np.absolute, x, dtype=dtype)
    agrees(np.square, x, dtype=np.int8 if dtype == np.bool_ else dtype)
    agrees(np.fabs, x, dtype=dtype if dtype in FLOATS else np.float32)
    if dtype != np.bool_:
        agrees(np.positive, x, dtype=dtype, oracle=lambda x: x)
        agrees(np.negative, x, dtype=dtype)
        agrees(np.sign, x, dtype=dtype)
    if dtype in FLOATS:
        for function in (np.copysign, np.heaviside):
            agrees(function, *pairs(dtype), dtype=dtype)
        agrees(np.reciprocal, x, dtype=dtype)


def test_zeros_have_signs() -> None:
    zeros = np.array([0.0, -0.0, -0.5], np.float32)
    for function in (np.negative, np.absolute, np.sign, np.trunc, np.ceil, np.rint, np.sqrt):
        x = zeros[:2] if function is np.sqrt else zeros
        np.testing.assert_array_equal(np.signbit(compute(function, x)), np.signbit(function(x)))
    for function in (np.arctan, np.sinh, np.log1p, np.expm1, np.cbrt, np.arcsin, np.arctanh):
        found = np.signbit(compute(function, zeros[:2]))
        np.testing.assert_array_equal(found, [False, True])
    found = compute(np.maximum, zeros[:2], zeros[1::-1])
    np.testing.assert_array_equal(np.signbit(found), [False, False])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_kinds_of_numbers(dtype: Any) -> None:
    for function in (np.isnan, np.isinf, np.isfinite):
        agrees(function, special(dtype), dtype=np.bool_)
    agrees(np.signbit, special(dtype), dtype=np.bool_, oracle=lambda x: np.signbit(x * 1.0))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_whole_numbers(dtype: Any) -> None:
    x = special(dtype)
    for function in (np.floor, np.ceil, np.trunc):
        agrees(function, x, dtype=dtype, oracle=function if dtype in FLOATS else lambda x: x)
    agrees(np.rint, x, dtype=dtype if dtype in FLOATS else np.float32)
    if dtype in FLOATS:
        agrees(np.modf, x, dtype=dtype)


# How far, and over which numbers.
FUNCTIONS: dict[np.ufunc, tuple[float, float, float]] = {
    np.exp: (1, -90, 90),
    np.exp2: (1, -130, 130),
    np.log: (1, 0, 1e6),
    np.log2: (1, 0, 1e6),
    np.sqrt: (1, 0, 1e6),
    np.sin: (1, -100, 100),
    np.cos: (1, -100, 100),
    np.tanh: (1, -10, 10),
    np.expm1: (4, -20, 90),
    np.log1p: (3, -1, 1e5),
    np.log10: (3, 0, 1e6),
    np.cbrt: (2, -1e6, 1e6),
    np.tan: (3, -20, 20),
    np.arctan: (2, -50, 50),
    np.arcsin: (3, -1, 1),
    np.arccos: (3, -1, 1),
    np.sinh: (5, -91, 91),
    np.cosh: (5, -91, 91),
    np.arcsinh: (5, -1e6, 1e6),
    np.arccosh: (5, 1, 1e6),
    np.arctanh: (5, -1, 1),
    np.deg2rad: (2, -1e3, 1e3),
    np.rad2deg: (2, -1e3, 1e3),
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_functions_of_one_number(function: np.ufunc, dtype: Any) -> None:
    ulps, low, high = FUNCTIONS[function]
    random = np.random.default_rng(0)
    even = random.uniform(low, high, 1000)
    near_zero = random.choice([-1, 1], 1000) * np.exp(random.uniform(-30, 1, 1000))
    x = np.concatenate([special(dtype), even, near_zero, [low, high, 2.0**-24]])
    with np.errstate(over="ignore"):
        x = x.astype(dtype)
    if dtype == np.float32:
        agrees(function, x, dtype=dtype, ulps=ulps, on_metal=ULPS.get(function.__name__, 0))
    else:
        agrees(function, x, dtype=dtype, ulps=0.501)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_functions_of_integers_give_f32(function: np.ufunc) -> None:
    for dtype in (np.dtype("?"), *INTEGERS):
        x = np.ones(2, dtype)
        agrees(function, x, dtype=np.float32, ulps=5, oracle=lambda x: function(x * 1.0))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(
    "function", [np.hypot, np.logaddexp, np.logaddexp2, np.arctan2], ids=lambda f: f.__name__
)
def test_functions_of_two_numbers(function: np.ufunc, dtype: Any) -> None:
    random = np.random.default_rng(1)
    a, b = random.normal(0, 5, (2, 1000))
    x, y = pairs(dtype)
    x, y = np.append(x, a.astype(dtype)), np.append(y, b.astype(dtype))
    # Of a logarithm near 0 little is left, whatever the way to it.
    near = 2e-7 if "log" in function.__name__ and dtype == np.float32 else None
    agrees(function, x, y, dtype=dtype, ulps=4 if dtype == np.float32 else 0.501, near=near)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_powers_of_floats(dtype: Any) -> None:
    random = np.random.default_rng(2)
    x = np.append(special(dtype), random.normal(0, 2, 200).astype(dtype))
    for exponent in (0, 1, 2, 3, 4, 5, -1, -2, -0.5, 2.0, 3.0, 2.5):
        ulps = 2 if dtype == np.float32 else 1.6
        agrees(lambda x, n=exponent: np.power(x, n), x, dtype=dtype, ulps=ulps)
    agrees(np.power, *pairs(dtype), dtype=dtype, ulps=1)
    agrees(np.float_power, *pairs(dtype), dtype=np.float32, ulps=1)
    positive = np.abs(x[1:])
    agrees(lambda x: x**0.5, positive, dtype=dtype, ulps=1)
    agrees(lambda x: x**-1, x, dtype=dtype, ulps=1)
    agrees(lambda x: 2.0**x, np.clip(x, -9, 9).astype(dtype), dtype=dtype, ulps=1)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_powers_of_integers(dtype: Any) -> None:
    x = special(dtype)
    for exponent in (0, 1, 2, 3, 7):
        same(compute(lambda x, n=exponent: x**n, x), x**exponent, dtype=dtype)
    agrees(lambda x: x**2.0, numbers((9,), dtype), dtype=np.float32)


# Dtypes that meet.


def test_promotion_is_that_of_numpy_but_for_float64() -> None:
    def dtype(a: str, b: str) -> str:
        found = compute(np.add, np.ones(3, a), np.ones(3, b)).dtype
        return str(found)

    assert dtype("i1", "i4") == "int32"
    assert dtype("i4", "u4") == "int64"
    assert dtype("u1", "i1") == "int16"
    assert dtype("u1", "i2") == "int16"
    assert dtype("i8", "f4") == "float32"
    assert dtype("i8", "f2") == "float16"
    assert dtype("f2", "f4") == "float32"
    assert dtype("?", "i1") == "int8"
    assert dtype("?", "f2") == "float16"
    assert compute(np.add, np.ones(3, BF16), np.ones(3, "f2")).dtype == np.float32
    assert compute(np.add, np.ones(3, BF16), np.ones(3, "i8")).dtype == BF16


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_numbers_of_python_are_weak(dtype: Any) -> None:
    x = numbers((4,), dtype)
    wide = np.float32 if dtype not in FLOATS else dtype
    assert compute(lambda x: x + 1, x).dtype == (np.int32 if dtype == np.bool_ else dtype)
    assert compute(lambda x: 1.5 * x, x).dtype == wide
    assert compute(lambda x: x * np.float64(1.5), x).dtype == wide
    assert compute(lambda x: np.array(1.5) * x, x).dtype == wide
    assert compute(lambda x: x | True if x.dtype.kind in "b" else x + True, x).dtype == dtype
    # Those that are arguments, too, and what is made of them.
    assert compute(lambda x, n: x * n, x, 1.5).dtype == wide
    assert compute(lambda x, n: x * (n + 1) / 2, x, 3).dtype == wide
    assert compute(lambda x, n: x + n, x, 3).dtype == (np.int32 if dtype == np.bool_ else dtype)
    # But not the scalars of NumPy that say their width.
    if dtype.itemsize < 4:
        assert compute(lambda x: x + np.float32(1), x).dtype == np.float32
        if dtype not in FLOATS:
            assert compute(lambda x: x + np.int32(1), x).dtype == np.int32


def test_numbers_among_themselves() -> None:
    assert compute(lambda n: n + 1, 2).dtype == np.int32
    assert compute(lambda n: n + 1.5, 2).dtype == np.float32
    assert compute(lambda n: n / 2, 2).dtype == np.float32
    assert compute(lambda n: n + 1, 2**40).dtype == np.int64
    assert compute(lambda n: n, True).dtype == np.bool_
    x = np.ones(3, np.float16)
    assert compute(lambda x, n: x * (n / 3), x, 2).dtype == np.float16


@pytest.mark.parametrize("function", COMPARISONS, ids=lambda f: f.__name__)
def test_integers_of_any_dtypes_are_compared_as_the_numbers_they_are(function: np.ufunc) -> None:
    for a in INTEGERS:
        for b in INTEGERS:
            x, y = special(a), special(b)
            x, y = np.repeat(x, len(y)), np.tile(y, len(x))
            expected = function(x.astype(object), y.astype(object)).astype(bool)
            same(compute(function, x, y), expected)


@pytest.mark.parametrize("function", COMPARISONS, ids=lambda f: f.__name__)
def test_integers_are_compared_with_numbers_out_of_their_range(function: np.ufunc) -> None:
    for dtype in INTEGERS:
        x = special(dtype)
        for number in (300, -1, 2**31, 2**40, -(2**63), 2**64 - 1):
            expected = function(x.astype(object), number).astype(bool)
            same(compute(lambda x, n=number: function(x, n), x), expected)
            expected = function(number, x.astype(object)).astype(bool)
            same(compute(lambda x, n=number: function(n, x), x), expected)
    x = np.array([0, 5, 255], np.uint8)
    for number in (-1, 300):
        expected = function(x.astype(int), number)
        same(compute(lambda x, n: function(x, n), x, number), expected)


def test_broadcasting() -> None:
    for a, b in (((3, 1), (4,)), ((), (2, 3)), ((2, 1, 3), (4, 1)), ((0,), (1,)), ((5, 0), (1, 1))):
        agrees(np.add, numbers(a), numbers(b, seed=1), dtype=np.float32)
        agrees(np.less, numbers(a, "i4"), numbers(b, "i8", seed=1), dtype=np.bool_)


def test_a_dtype_may_be_asked_for() -> None:
    x = numbers((4,), np.float16)
    found = compute(lambda x: np.multiply(x, x, dtype=np.float32), x)
    same(found, x.astype(float) ** 2, dtype=np.float32)
    assert compute(lambda x: np.exp(x, dtype=np.float32), x).dtype == np.float32
    assert compute(lambda x: np.add(x, 1, dtype=np.float16), x.astype(np.int32)).dtype == np.float16


def test_operators() -> None:
    x, y = numbers((5,), np.int32) + 6, numbers((5,), np.int32, 1) + 6
    operators = [
        lambda x, y: x + y - x * y,
        lambda x, y: (x // y, x % y, x / y),
        lambda x, y: divmod(x, y),
        lambda x, y: divmod(7, y),
        lambda x, y: (x & y, x | y, x ^ y, ~x),
        lambda x, y: (x << 2, x >> 1, 1 << (y % 8)),
        lambda x, y: (-x, +x, abs(x - y)),
        lambda x, y: (3 + x, 3 - x, 3 * x, 100 // x, 100 % x, 3 / x, 3 & x, 3 | x, 3 ^ x),
        lambda x, y: (x < y, x <= y, x > y, x >= y, x == y, x != y),
        lambda x, y: (3 < x, 3 <= x, 3 > x, 3 >= x, 3 == x, 3 != x),
        lambda x, y: x @ y,
    ]
    for operator in operators:
        agrees(operator, x, y, ulps=1)


def test_in_place_operators_give_the_name_to_another_array() -> None:
    def function(x: Any, y: Any) -> Any:
        before = x.copy()
        x += y
        x *= 2
        x -= 1.5
        return before, x

    x, y = numbers((3, 4)), numbers((4,), seed=1)
    before, after = compute(function, x, y)
    same(before, x)
    same(after, (x + y) * 2 - 1.5)
    half = x.astype(np.float16)

    def keeps(x: Any, y: Any) -> Any:
        x += y
        return x

    assert compute(keeps, half, y).dtype == np.float16


def test_in_place_operators_on_numbers() -> None:
    def function(n: Any, x: Any) -> Any:
        total, first, share = x.sum(), x[0, 0], n
        total += x
        first *= n
        share /= 2
        n += x
        return total, first, share, n

    x = numbers((3, 4), np.int32)
    found = compute(function, 3, x)
    same(found, (x.sum() + x, x[0, 0] * 3, 1.5, x + 3))


def test_concrete_arrays_on_either_side() -> None:
    x = numbers((3, 4), np.float32)
    table = np.array([[1.5], [2.0], [7.0]])
    for function in (
        lambda x: x + table,
        lambda x: table - x,
        lambda x: np.maximum(table, x),
        lambda x: x < table,
        lambda x: np.arange(4) * x,
        lambda x: np.add([1.0, 2.0, 3.0, 5.0], x),
    ):
        agrees(function, x)


def test_outer() -> None:
    x, y = numbers((3,), np.int32), numbers((2, 2), np.int32, 1)
    for function in (np.add, np.multiply, np.subtract, np.maximum, np.less, np.logical_and):
        same(compute(function.outer, x, y), function.outer(x, y))


def test_numbers_do_not_give_way_in_an_outer() -> None:
    x = np.array([3, 200], np.uint8)
    for function in (np.add, np.maximum, np.less):
        same(compute(lambda x, f=function: f.outer(x, 300), x), function.outer(x, 300))


def test_roots_in_an_outer() -> None:
    """The root of -0.0 has its sign, which a power of it has not."""
    x = np.array([4, -0.0, 2], np.float32)
    found = compute(lambda x: np.power.outer(x, 0.5), x)
    same(found, np.sqrt(x))
    assert np.signbit(found).tolist() == [False, True, False]


def test_wide_arguments_are_only_what_the_oracle_has() -> None:
    assert widened(np.ones(2, np.float16)).dtype == np.float64
