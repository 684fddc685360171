"""Float8 is stored, and converted as the formats say."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import iris
import iris.triton as triton
import iris.triton.language as tl
from iris.errors import DTypeError

#: Of each dtype: the bits of its mantissa, its bias, the greatest finite code, and NumPy's dtype.
FORMATS = {
    tl.float8e4nv: (3, 7, 0x7E, ml_dtypes.float8_e4m3fn),
    tl.float8e5: (2, 15, 0x7B, ml_dtypes.float8_e5m2),
}
dtypes = pytest.mark.parametrize("dtype", FORMATS)
DEVICES = ("interp", "interp:metal", "softmetal")


def numbers(dtype: Any) -> np.ndarray:
    """The number of each code, by the definition of the format."""
    mantissa, bias, greatest, _ = FORMATS[dtype]
    found = np.empty(256)
    for code in range(256):
        size, low = code & 0x7F, code & ((1 << mantissa) - 1)
        exponent = size >> mantissa
        if size > greatest:
            value = np.inf if low == 0 else np.nan
        elif exponent == 0:
            value = low * 2.0 ** (1 - bias - mantissa)
        else:
            value = (1 + low / (1 << mantissa)) * 2.0 ** (exponent - bias)
        found[code] = -value if code & 0x80 else value
    return found


def nearest(x: np.ndarray, dtype: Any) -> np.ndarray:
    """The code nearest to each number, of two the even one; the greatest for what is beyond it."""
    greatest = FORMATS[dtype][2]
    sizes = numbers(dtype)[: greatest + 1]
    bounded = np.minimum(np.abs(x.astype(np.float64)), sizes[-1])
    apart = np.abs(bounded[:, None] - sizes[None, :])
    ties = apart == apart.min(axis=1, keepdims=True)
    odd = np.arange(greatest + 1) & 1
    return np.argmax(ties * (2 - odd), axis=1) | (np.signbit(x) << 7)


@triton.jit
def decodes(x_ptr, out_ptr, half_ptr, DTYPE: tl.constexpr):
    at = tl.arange(0, 256)
    x = tl.load(x_ptr + at).to(DTYPE, bitcast=True)
    tl.static_assert(x.dtype == DTYPE and x.dtype.is_fp8() and x.dtype.primitive_bitwidth == 8)
    tl.store(out_ptr + at, x.to(tl.float32))
    tl.store(half_ptr + at, x.to(tl.float16))


@triton.jit
def encodes(x_ptr, out_ptr, DTYPE: tl.constexpr):
    at = tl.program_id(0) * 256 + tl.arange(0, 256)
    tl.store(out_ptr + at, tl.load(x_ptr + at).to(DTYPE).to(tl.uint8, bitcast=True))


@dtypes
def test_each_code_is_the_number_that_its_format_says(dtype: Any) -> None:
    codes, expected = np.arange(256, dtype=np.uint8), numbers(dtype)
    for device in DEVICES:
        out, half = np.empty(256, np.float32), np.empty(256, np.float16)
        decodes[(1,)](codes, out, half, DTYPE=dtype, device=device)
        np.testing.assert_array_equal(out, expected)
        np.testing.assert_array_equal(half, expected)
        kept = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(out)[kept], np.signbit(expected)[kept])


@dtypes
def test_numbers_become_the_nearest_code(dtype: Any) -> None:
    finite = np.unique(numbers(dtype)[np.isfinite(numbers(dtype))]).astype(np.float32)
    ties = (finite[1:] + finite[:-1]) / 2  # which f32 holds
    beside = [np.nextafter(ties, np.float32(to)) for to in (np.inf, -np.inf)]
    most = finite[-1]
    ends = [np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-30, 3e38, most * 1.01, most * 1.07, -most * 2]
    x = np.concatenate([finite, ties, *beside, ends]).astype(np.float32)
    x = np.resize(x, -(-x.size // 256) * 256)
    for device in DEVICES:
        out = np.empty(x.size, np.uint8)
        encodes[(x.size // 256,)](x, out, DTYPE=dtype, device=device)
        np.testing.assert_array_equal(out, nearest(x, dtype))
    nans, out = np.full(256, np.nan, np.float32), np.empty(256, np.uint8)
    encodes[(1,)](nans, out, DTYPE=dtype, device="interp")
    assert np.isnan(numbers(dtype)[out]).all()


@triton.jit
def totals(x_ptr, out_ptr, same_ptr, n):
    at = tl.arange(0, 16)
    total = tl.zeros([16], tl.float32)
    x = tl.load(x_ptr + at, mask=at < n, other=1.5)
    for k in range(1, 4):  # carries the tile
        total += x.to(tl.float32)
        x = tl.load(x_ptr + k * 16 + at)
    tl.static_assert(x_ptr.dtype.element_ty == x.dtype)
    tl.store(out_ptr + at, total)
    tl.store(same_ptr + at, x)


@triton.jit
def product(a_ptr, b_ptr, out_ptr):
    i = tl.arange(0, 16)
    at = i[:, None] * 16 + i[None, :]
    block = tl.make_block_ptr(b_ptr, (16, 16), (16, 1), (0, 0), (16, 16), (1, 0))
    b = tl.load(block, boundary_check=(0, 1))
    tl.store(out_ptr + at, tl.dot(tl.load(a_ptr + at), tl.trans(b)))


@dtypes
def test_arrays_hold_codes(dtype: Any) -> None:
    kind, rng = FORMATS[dtype][3], np.random.default_rng(0)
    x = rng.integers(-8, 9, 64).astype(kind)
    rows = x.astype(np.float32).reshape(4, 16)
    first = np.where(np.arange(16) < 5, rows[0], 1.5)
    for device in DEVICES[:2]:
        out, same = np.empty(16, np.float32), np.empty(16, kind)
        totals[(1,)](x, out, same, 5, device=device)
        np.testing.assert_array_equal(out, first + rows[1] + rows[2])
        assert same.tobytes() == x[48:].tobytes()
        a, b = (rng.integers(-2, 3, (16, 16)).astype(kind) for _ in range(2))
        multiplied = np.empty((16, 16), np.uint8)
        product[(1,)](a, b, triton.reinterpret(multiplied, dtype), device=device)
        exact = a.astype(np.float32) @ b.astype(np.float32).T
        np.testing.assert_array_equal(multiplied.ravel(), nearest(exact.ravel(), dtype))


@triton.jit
def adds(x_ptr):
    x = tl.load(x_ptr + tl.arange(0, 16))
    tl.store(x_ptr + tl.arange(0, 16), x + x)


@triton.jit
def adds_at_once(x_ptr):
    tl.atomic_add(x_ptr + tl.arange(0, 16), 1)


@iris.kernel
def loads(X):
    iris.load(X + iris.arange(0, 16))


@triton.jit
def asks_a_helper(x_ptr):
    loads(x_ptr)


@pytest.mark.parametrize(
    "kernel, says",
    [
        (adds, "fp8e5 is stored and converted; compute with x.to"),
        (adds_at_once, "atomic_add is not for fp8e5"),
        (asks_a_helper, "x_ptr is float8_e5m2, which iris.triton alone has"),
        (loads, "float8_e5m2"),
    ],
)
def test_what_is_computed_with_is_refused(kernel: Any, says: str) -> None:
    with pytest.raises(DTypeError, match=says):
        kernel[(1,)](np.zeros(16, ml_dtypes.float8_e5m2))
