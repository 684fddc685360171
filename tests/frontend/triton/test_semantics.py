"""Kernels written in Triton's language mean what Triton has them mean, where that differs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import iris
import iris.triton as triton
import iris.triton.language as tl
from iris.errors import (
    ArgumentError,
    ControlFlowError,
    DTypeError,
    LanguageError,
    PointerError,
    ShapeError,
)
from iris.triton.language.extra import libdevice
from iris.triton.tools.tensor_descriptor import TensorDescriptor

N = 16


@triton.jit
def of_two(x_ptr, y_ptr, out_ptr, FUNCTION: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out_ptr + at, FUNCTION(tl.load(x_ptr + at), tl.load(y_ptr + at)))


def apply(function: Callable[..., Any], x: Any, y: Any, dtype: Any) -> np.ndarray:
    out = np.zeros(N, dtype)
    of_two[(1,)](np.resize(x, N), np.resize(y, N), out, FUNCTION=function, N=N)
    return out


@triton.jit
def quotient(x, y):
    return x // y


@triton.jit
def remainder(x, y):
    return x % y


@triton.jit
def ratio(x, y):
    return (x / y).dtype.primitive_bitwidth


@triton.jit
def greater(x, y):
    return max(x, y)


@iris.kernel
def floor_quotient(x: Any, y: Any) -> Any:
    return x // y


@triton.jit
def both(x, y):
    return x // y * 1000 + floor_quotient(x, y)


ENDS = np.array([-(2**31), 2**31 - 1, -7, -1, 0, 1, 7, 40], np.int32)
DIVISORS = np.array([3, -3, 7, 2, -2, 1, -(2**31), 5, 4], np.int32)


def test_division_truncates() -> None:
    x, y = np.resize(ENDS, N), np.resize(DIVISORS, N)
    expected = np.trunc(x.astype(float) / y).astype(np.int32)
    np.testing.assert_array_equal(apply(quotient, x, y, np.int32), expected)
    left = (x.astype(np.int64) - expected.astype(np.int64) * y).astype(np.int32)
    np.testing.assert_array_equal(apply(remainder, x, y, np.int32), left)


def test_division_of_unsigned_integers_and_the_rest_of_floats() -> None:
    x = np.array([2**32 - 1, 7], np.uint32)
    np.testing.assert_array_equal(apply(quotient, x, np.uint32(2), np.uint32), np.resize(x // 2, N))
    f = np.array([5.5, -5.5, 1.25, -0.5, -0.0, 0.0, -4.0], np.float32)
    rest = apply(remainder, f, np.float32(2), np.float32)
    assert rest.tobytes() == np.resize(np.fmod(f, np.float32(2)), N).tobytes()


def test_a_helper_of_each_language_keeps_its_own_division() -> None:
    got = apply(both, np.int32(-7), np.int32(2), np.int32)
    assert (got == -3 * 1000 - 4).all()


@pytest.mark.parametrize("function", [quotient, remainder])
def test_signed_and_unsigned_are_not_divided(function: Any) -> None:
    with pytest.raises(DTypeError, match="one signed and one not"):
        apply(function, np.int32(1), np.uint32(1), np.int32)


def test_halves_are_divided_in_f32() -> None:
    assert (apply(ratio, np.float16(1), np.float16(3), np.int32) == 32).all()


def test_the_greater_of_a_number_and_a_nan_is_the_number() -> None:
    got = apply(greater, np.float32("nan"), np.float32(-1), np.float32)
    assert (got == -1).all()


@triton.jit
def reductions(x_ptr, bytes_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x, small = tl.load(x_ptr + at), tl.load(bytes_ptr + at)
    best, place = tl.max(x, 0, return_indices=True)
    tl.store(out_ptr + 0, tl.sum(small))
    tl.store(out_ptr + 1, tl.max(x))
    tl.store(out_ptr + 2, best)
    tl.store(out_ptr + 3, place)
    tl.store(out_ptr + 4, tl.sum(small > 100))
    tl.store(out_ptr + 5, x.min(axis=0))
    tl.static_assert(tl.sum(small).dtype == tl.uint32)
    tl.static_assert(tl.max(x.to(tl.float16)).dtype == tl.float32)
    tl.static_assert(tl.max(x[None, :], 1, keep_dims=True).shape == (1, 1))


def test_reductions() -> None:
    x = np.arange(N, dtype=np.float32)
    x[3] = 99
    small, out = np.full(N, 200, np.uint8), np.zeros(6, np.float32)
    reductions[(1,)](x, small, out, N=N)
    assert list(out) == [200 * N, 99, 99, 3, N, 0]


@triton.jit
def plus(a, b):
    return a + b


@triton.jit
def lexicographic(x, i, y, j):
    first = (x > y) | ((x == y) & (i < j))
    return tl.where(first, x, y), tl.where(first, i, j)


@triton.jit
def bounded(x):
    if x > 1:
        x = 1
    return x


@triton.jit
def sum_and_difference(a, b):
    return a + b, a - b


@triton.jit
def combined(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    best, place = tl.reduce((x, at), 0, lexicographic)
    tl.store(out_ptr + at, tl.associative_scan(x, 0, plus, reverse=True))
    tl.store(out_ptr + N + at, x.cumsum(0, reverse=True))
    tl.store(out_ptr + 2 * N + at, tl.sort(tl.flip(x), descending=True))
    a, b = tl.split(tl.join(x, at.to(tl.float32)))
    tl.store(out_ptr + 3 * N + at, a * b)
    tl.store(out_ptr + 4 * N, best)
    tl.store(out_ptr + 4 * N + 1, place + tl.xor_sum(at, 0) + at.reduce_or(0))
    tl.store(out_ptr + 5 * N + at, tl.gather(x, at ^ 1, axis=0) + x.gather(N - 1 - at, 0))
    counts = tl.histogram(x.to(tl.int32), N) * 10 + x.to(tl.int8).histogram(N, mask=at)
    sums, less = tl.map_elementwise(sum_and_difference, x, 2)
    tl.store(out_ptr + 6 * N + at, counts)
    tl.store(out_ptr + 7 * N + at, sums * less)
    tl.store(out_ptr + 8 * N + at, tl.max(x, at) - tl.min(x, at))
    few = x > 1 and x < 5 and at < 4
    tl.store(out_ptr + 9 * N + at, few or x == 9)


def test_functions_combine() -> None:
    x = np.array([3, 1, 4, 1, 5, 9, 2, 9], np.float32)
    out = np.zeros((10, 8), np.float32)
    combined[(1,)](x, out, N=8)
    sums = x[::-1].cumsum()[::-1]
    rows = [sums, sums, np.sort(x)[::-1], x * np.arange(8), [9, 5 + 0 + 7, 0, 0, 0, 0, 0, 0]]
    rows.append(x[np.arange(8) ^ 1] + x[::-1])
    whole = x.astype(int)
    inside, first = (np.bincount(w[w < 8], minlength=8) for w in (whole, whole[1:]))
    rows += [inside * 10 + first, x * x - 4, np.abs(x - np.arange(8))]
    rows.append((x > 1) & (x < 5) & (np.arange(8) < 4) | (x == 9))
    np.testing.assert_array_equal(out, rows)


@triton.jit
def squared(x_ptr, out_ptr, N: tl.constexpr, K: tl.constexpr):
    best = tl.topk(tl.load(x_ptr + tl.arange(0, N)), K)
    tl.store(out_ptr + tl.arange(0, K), (best * best).to(tl.int32))


def test_the_greatest_of_some_have_32_bits() -> None:
    """As maxima of small integers have; where none is left out, there is no maximum."""
    x, some, every = (
        np.array([70, -9, 3, 77], np.int8),
        np.zeros(2, np.int32),
        np.zeros(4, np.int32),
    )
    squared[(1,)](x, some, N=4, K=2)
    assert list(some) == [77 * 77, 70 * 70]
    squared[(1,)](x, every, N=4, K=4)
    np.testing.assert_array_equal(every, np.sort(x)[::-1] * np.sort(x)[::-1])


@triton.jit
def masked(x_ptr, out_ptr, n, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x + 1)


def test_what_a_mask_leaves_out_is_zero() -> None:
    x, out = np.full(N, 5, np.float32), np.zeros(N, np.float32)
    masked[(1,)](x, out, 3, N=N)
    assert list(out) == [6] * 3 + [1] * (N - 3)


@triton.jit
def questions(x_ptr, none_ptr, how, n, num_warps: tl.constexpr, N: tl.constexpr):
    """What Triton's code asks of dtypes, types and constants while it is traced."""
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.static_assert(x_ptr.dtype.is_ptr() and x_ptr.dtype.element_ty == tl.float32)
    tl.static_assert(x_ptr.type.scalar.element_ty is tl.float32)
    tl.static_assert(x.type.is_block() and x.type.scalar.is_fp32() and not x.dtype.is_int())
    tl.static_assert(tl.int1.primitive_bitwidth == 1 and tl.uint8.is_int_unsigned())
    tl.static_assert(none_ptr is None and how == "fast" and num_warps == 2)
    total = tl.float32(0)
    count = 0
    for i in range(n):
        total += i
        count += i.to(tl.int64).to(tl.int32)
    tl.store(x_ptr + tl.arange(0, N), x + total + count.to(tl.float32))


def test_questions() -> None:
    x = np.zeros(N, np.float32)
    questions[(1,)](x, None, "fast", 4, N=N, num_warps=2)
    assert (x == 12).all()


@triton.jit
def spread(x_ptr, out_ptr, row, col, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * row + tl.arange(0, N)[None, :] * col
    tl.store(out_ptr + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], tl.load(x_ptr + at))


def test_strides_are_the_callers() -> None:
    x, out = np.arange(32, dtype=np.float32).reshape(8, 4), np.zeros((4, 8), np.float32)
    spread[(1,)](x.T, out, 1, 4, M=4, N=8)
    assert (out == x.T).all()


@triton.jit
def blocks(
    x_ptr, out_ptr, rows, cols, CHECK: tl.constexpr, PAD: tl.constexpr, B: tl.constexpr
):  # fmt: skip
    i, j = tl.program_id(0) * B, tl.program_id(1) * B
    x = tl.make_block_ptr(x_ptr, (rows, cols), (cols, 1), (i, j), (B, B), (1, 0))
    y = tl.make_block_ptr(out_ptr, (cols, rows), (1, cols), (j, i), (B, B), (0, 1))
    back = tl.advance(tl.advance(x, (B, -B)), (-B, B))
    tl.store(y, tl.load(back, boundary_check=CHECK, padding_option=PAD).T, boundary_check=(0, 1))


@pytest.mark.parametrize(
    ("shape", "check"), [((5, 7), (0, 1)), ((8, 7), (1,)), ((5, 8), (0,)), ((8, 8), ())]
)
@pytest.mark.parametrize("padding", ["", "nan"])
def test_blocks(shape: tuple[int, int], check: tuple[int, ...], padding: str) -> None:
    x = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape)
    out = np.zeros_like(x)
    blocks[(2, 2)](x, out, *shape, CHECK=check, PAD=padding, B=4)
    assert (out == x).all()


@triton.jit
def starts_before(x_ptr, out_ptr, row, first):
    x = tl.make_block_ptr(x_ptr, (8, 5), (5, 1), (row, first), (4, 2), (1, 0))
    y = tl.make_block_ptr(out_ptr + 3, (4, 2), (2, 1), (0, first), (4, 2), (1, 0))
    tl.store(y, tl.load(x, boundary_check=(0,), padding_option="zero"), boundary_check=(0,))


@pytest.mark.parametrize("device", ["interp", "interp:metal"])
@pytest.mark.parametrize("first", [-3, -1, 0, 2])
def test_a_block_may_start_before_an_axis_that_is_not_checked(device: str, first: int) -> None:
    x, out = np.arange(1, 41, dtype=np.int32), np.full(16, -7, np.int32)
    starts_before[(1,)](x, out, 5, first, device=device)
    at = 5 * np.arange(5, 9)[:, None] + first + np.arange(2)
    expected = np.where(np.arange(5, 9)[:, None] < 8, x.take(at, mode="clip"), 0)
    np.testing.assert_array_equal(out[3 + first :][:8], expected.ravel())
    assert (out == -7).sum() == 8


@triton.jit
def described(x_ptr, out_ptr, rows, cols, B: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [rows, cols], [cols, 1], [B, B])
    y = tl.make_tensor_descriptor(out_ptr, [rows, cols], [cols, 1], [B, B])
    y.store([0, B], x.load([0, B]) + x.load([-B, 0]))


def test_descriptors_check_every_axis() -> None:
    x, out = np.ones((3, 6), np.float32), np.zeros((3, 6), np.float32)
    described[(1,)](x, out, 3, 6, B=4)
    assert out.sum() == 6 and (out[:, 4:] == 1).all()


@triton.jit
def rows_of(x_ptr, rows_ptr, out_ptr, counts_ptr, pads_ptr, rows, cols, column, PAD: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [rows, cols], [cols, 1], [1, 4], padding_option=PAD)
    out = tl.make_tensor_descriptor(out_ptr, [rows, cols], [cols, 1], [1, 4])
    counts = tl.make_tensor_descriptor(counts_ptr, [rows, cols], [cols, 1], [4, 4])
    which = tl.load(rows_ptr + tl.arange(0, 8))
    found = x.gather(which, column)
    out.scatter(tl.where(found == found, found, -1), which, column)
    tl.store(pads_ptr, tl.sum((found != found).to(tl.int32)))
    for i in range(2):
        counts.atomic_add([4 * i, column], tl.full((4, 4), 1, tl.int32))
        counts.atomic_max([2, 0], tl.full((4, 4), 7, tl.int32))
        counts.atomic_xor([0, 0], tl.full((4, 4), 2, tl.int32))


@pytest.mark.parametrize("device", ["interp", "interp:metal"])
@pytest.mark.parametrize("padding", ["zero", "nan"])
def test_descriptors_take_rows_by_index_and_atomics(device: str, padding: str) -> None:
    x = np.arange(1, 43, dtype=np.float32).reshape(6, 7)
    which = np.array([4, 0, 5, 1, 9, -1, 3, 2], np.int32)
    out, counts, pads = np.zeros_like(x), np.zeros((6, 7), np.int32), np.zeros(1, np.int32)
    rows_of[(1,)](x, which, out, counts, pads, 6, 7, 5, PAD=padding, device=device)
    assert pads[0] == (6 * 2 + 2 * 4 if padding == "nan" else 0)
    expected = np.zeros_like(x)
    expected[:, 5:] = x[:, 5:]
    np.testing.assert_array_equal(out, expected)
    expected = np.zeros((6, 7), np.int32)
    for i in range(2):
        expected[4 * i : 4 * i + 4, 5:] += 1
        expected[2:, :4] = np.maximum(expected[2:, :4], 7)
        expected[:4, :4] ^= 2
    np.testing.assert_array_equal(counts, expected)


@triton.jit
def refused(x_ptr, WORD: tl.constexpr):
    tl.store(x_ptr, WORD(x_ptr))


@triton.jit
def ands_numbers(x_ptr):
    return tl.arange(0, 2) and tl.arange(0, 2)


@triton.jit
def logical(x_ptr, out_ptr, n, B: tl.constexpr):
    at = tl.arange(0, B)
    inside = at < n
    some = tl.load(x_ptr + at, mask=inside, other=1).to(tl.int1)
    first = tl.load(x_ptr) != 0
    tl.store(out_ptr + at, not some, inside and not first)
    tl.store(out_ptr + B + at, n > 2 and some)
    tl.store(out_ptr + 2 * B + at, first or some)
    tl.store(out_ptr + 3 * B + at, n > 2 and tl.load(x_ptr + at, mask=inside, other=0) > 0)
    tl.store(out_ptr + 4 * B + at, n > 9 or first or (some and at > 1))


@pytest.mark.parametrize("device", ["interp", "interp:metal"])
def test_logical_operators_take_tiles_and_scalars(device: str) -> None:
    x, out = np.array([0, 1, 0, 1, 1], np.int32), np.full((5, 8), 9, np.int32)
    logical[(1,)](x, out, 5, B=8, device=device)
    at, some = np.arange(8), np.append(x, [1, 1, 1])
    np.testing.assert_array_equal(out[0], np.where(at < 5, 1 - some, 9))
    np.testing.assert_array_equal(out[1], some)
    np.testing.assert_array_equal(out[2], some)
    np.testing.assert_array_equal(out[3], np.append(x, [0, 0, 0]))
    np.testing.assert_array_equal(out[4], some * (at > 1))


def wrong_pointer(x: Any) -> Any:
    return tl.load(x.to(tl.pointer_type(tl.int32)))


@triton.jit
def optional(x_ptr, start_ptr, out_ptr, n):
    first = 0
    if start_ptr:
        first = tl.load(start_ptr)
    if not start_ptr or n > 1:
        first += 1
    tl.store(out_ptr, tl.load(x_ptr + first) if x_ptr and n else 0)


@pytest.mark.parametrize(("start", "n", "expected"), [(None, 1, 1), (2, 1, 2), (2, 2, 3)])
def test_a_pointer_is_true_where_it_is_given(start: int | None, n: int, expected: int) -> None:
    x, out = np.arange(4, dtype=np.int32), np.zeros(1, np.int32)
    optional[(1,)](x, None if start is None else np.array([start], np.int32), out, n)
    assert out[0] == expected


def from_a_table(x: Any) -> Any:
    table = tl.full((4,), 0, tl.uint64)
    return tl.load(tl.sum(table).to(tl.pointer_type(tl.float32)))


@pytest.mark.parametrize(
    ("word", "kind", "message"),
    [
        (tl.inline_asm_elementwise, LanguageError, "tl.inline_asm_elementwise is not supported"),
        (lambda x: tl.extra.cuda.smid(), LanguageError, "tl.extra.cuda.smid is not supported: no"),
        (lambda x: tl.load(x, cache_modifier=".xx"), ArgumentError, "cache_modifier is one of"),
        (lambda x: tl.load(x, evict=1), ArgumentError, r"write tl\.load\(pointer, mask="),
        (wrong_pointer, PointerError, "cannot become"),
        (from_a_table, PointerError, "a traced u64 cannot become a pointer, .* pass the arrays as"),
        (ands_numbers, DTypeError, "and is for bools"),
        (lambda x: tl.permute(tl.zeros((2, 4), tl.int8), 0, 3), ShapeError, "not 3"),
        (lambda x: tl.trans(tl.zeros((2, 4), tl.int8), 1, 2), ShapeError, "not 2"),
        (lambda x: tl.expand_dims(tl.arange(0, 4), 7), ShapeError, "from -2 to 1, not 7"),
        (lambda x: tl.expand_dims(tl.arange(0, 4), (0, -3)), ShapeError, "are not all different"),
        (lambda x: tl.squeeze(tl.zeros((1, 4), tl.int8), 5), ShapeError, "not 5"),
        (lambda x: tl.trans(2.5, 0, 1), ShapeError, "not 0"),
        (lambda x: tl.map_elementwise(plus, 1, 2, pack=2), LanguageError, "pack is for another"),
        (
            lambda x: tl.map_elementwise(bounded, tl.arange(0, 2)),
            ControlFlowError,
            "a condition is a s",
        ),
    ],
)
def test_what_is_refused(word: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        refused[(1,)](np.zeros(1, np.float32), WORD=word)


@triton.jit
def of_libdevice(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    found = (
        *(tl.math.log1p(x), libdevice.expm1(x), libdevice.atan2(x, -x), libdevice.tan(x)),
        *(libdevice.pow(x, 2.5), libdevice.fast_log10f(x), libdevice.hypot(x, 2.0)),
        *(libdevice.copysign(x, -1.0), libdevice.trunc(-x), libdevice.finitef(x / (x - 0.5))),
    )
    for k in tl.static_range(10):
        tl.store(out_ptr + k * N + at, found[k])


def test_libdevice() -> None:
    x, out = np.linspace(0.25, 4, N, dtype=np.float32), np.empty((10, N), np.float32)
    of_libdevice[(1,)](x, out, N=N)
    w = x.astype(float)
    expected = [
        *(np.log1p(w), np.expm1(w), np.arctan2(w, -w), np.tan(w), w**2.5, np.log10(w)),
        *(np.hypot(w, 2), -w, np.trunc(-w), w != 0.5),
    ]
    np.testing.assert_allclose(out, expected, rtol=5 * 2.0**-23, atol=1e-9)


@triton.jit
def more_of_libdevice(x_ptr, i_ptr, out_ptr, int_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x, i = tl.load(x_ptr + at), tl.load(i_ptr + at)
    found = (
        *(libdevice.exp10(x), libdevice.fmod(x, 0.75), libdevice.fdim(x, 0.5)),
        *(libdevice.saturatef(x), libdevice.rhypot(x, 2.0), libdevice.rcbrt(x)),
    )
    for k in tl.static_range(6):
        tl.store(out_ptr + k * N + at, found[k])
    counted = (
        *(libdevice.popc(i), libdevice.clz(i), libdevice.ffs(i), libdevice.signbit(x)),
        *(libdevice.float2int_rn(x), libdevice.float2int_rz(x), libdevice.float2int_rd(x)),
        *(libdevice.float2int_ru(x), libdevice.llrint(x), libdevice.llround(x)),
        libdevice.float_as_int(libdevice.uint_as_float(i.to(tl.uint32, bitcast=True))),
    )
    for k in tl.static_range(11):
        tl.store(int_ptr + k * N + at, counted[k])


@pytest.mark.parametrize("device", ["interp", "interp:metal"])
def test_more_of_libdevice(device: str) -> None:
    x = np.linspace(-4, 4, N, dtype=np.float32)
    x[0] = -0.0
    i = np.random.default_rng(0).integers(-(1 << 31), 1 << 31, N).astype(np.int32)
    i >>= np.arange(N, dtype=np.int32)
    i[1] = 0
    out, counted = np.empty((6, N), np.float32), np.empty((11, N), np.int64)
    with np.errstate(divide="ignore"):
        more_of_libdevice[(1,)](x, i, out, counted, N=N, device=device)
        w = x.astype(float)
        expected = [
            *(10**w, np.fmod(w, 0.75), np.maximum(w - 0.5, 0), np.clip(w, 0, 1)),
            *(1 / np.hypot(w, 2), 1 / np.cbrt(w)),
        ]
    np.testing.assert_allclose(out, expected, rtol=2e-6, atol=1e-7)
    bits = [format(k & 0xFFFFFFFF, "032b") for k in i.tolist()]
    halves = np.copysign(np.floor(np.abs(w) + 0.5), w)
    np.testing.assert_array_equal(
        counted,
        [
            *([b.count("1") for b in bits], [len(b) - len(b.lstrip("0")) for b in bits]),
            [b[::-1].find("1") + 1 for b in bits],
            *(np.signbit(x), np.rint(w), np.trunc(w), np.floor(w), np.ceil(w), np.rint(w), halves),
            i,
        ],
    )


@triton.jit
def of_tuples(xs, others, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    (first, stride), name, scale = others
    total = tl.load(first + at * stride) * scale
    for i in tl.static_range(len(xs)):
        total += tl.load(xs[i] + at)
    tl.store(out_ptr + at, total)
    tl.store(xs[0] + at, total)
    if name == "twice":
        tl.store(out_ptr + at, 2 * total)


@pytest.mark.parametrize("device", ["interp", "interp:metal"])
def test_arguments_may_be_tuples_of_arrays(device: str) -> None:
    one, two = np.arange(N, dtype=np.float32), np.ones(2 * N, np.float32)
    for count, name, factor in ((2, "once", 1), (3, "twice", 2), (2, "twice", 2)):
        xs, out, grids = [one.copy() for _ in range(count)], np.empty_like(one), []

        def grid(given: dict[str, Any], grids: list[Any] = grids) -> tuple[int]:
            grids.append(len(given["xs"]))
            return (1,)

        of_tuples[grid](tuple(xs), ((two, 2), name, 0.5), out, N=N, device=device)
        total = count * one + 0.5
        assert (out == factor * total).all() and grids == [count]
        assert (xs[0] == total).all() and (xs[1] == one).all()


@triton.jit
def names_alike(x, x_0):
    tl.store(x[0], tl.load(x_0))


def test_items_of_tuples_have_names_of_their_own() -> None:
    x, y = np.zeros(1, np.float32), np.ones(1, np.float32)
    names_alike[(1,)]((x,), x_0=y)
    assert x == 1
    assert "x_0_" in str(names_alike.lower(x=(x,), x_0=y, grid=1).tile)


class Matrix(NamedTuple):
    data: Any
    stride: int
    half: Any = None


@triton.jit
def of_named_tuples(a, others, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    first, second = others
    total = tl.load(a.data + at * a.stride) + tl.load(second.data + at * second.stride)
    if first.half is not None:
        total += tl.load(first.half + at)
    tl.store(out_ptr + at, total)


@pytest.mark.parametrize("device", ["interp", "interp:metal"])
def test_arguments_may_be_named_tuples(device: str) -> None:
    x, y = np.arange(32, dtype=np.float32), 100 + np.arange(32, dtype=np.float32)
    z, out = np.ones(16, np.float16), np.empty(16, np.float32)
    matrices = Matrix(x, 2), (Matrix(y, 1, z), Matrix(y, 1))
    of_named_tuples[(1,)](*matrices, out, N=16, device=device)
    np.testing.assert_array_equal(out, x[::2] + y[:16] + 1)


@triton.jit
def of_descriptors(a, b, out, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        total += tl.dot(a.load([row, k]), b.load([column, k]).T, input_precision="ieee")
    out.store([row, column], total)


@pytest.mark.parametrize("device", ["interp", "interp:metal"])
def test_descriptors_may_be_made_before_a_launch(device: str) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (size, 24)).astype(np.float32) for size in (20, 13))
    out = np.zeros((20, 13), np.float32)
    described = [
        TensorDescriptor(x, list(x.shape), [x.shape[1], 1], block)
        for x, block in ((a, [16, 16]), (b, [8, 16]), (out, [16, 8]))
    ]
    of_descriptors[(2, 2)](*described, 24, BM=16, BN=8, BK=16, device=device)
    np.testing.assert_array_equal(out, a @ b.T)
    with pytest.raises(ShapeError, match="block_shape of a descriptor differ in length"):
        TensorDescriptor(a, [20, 24], [24, 1], [16])


@triton.jit
def blocks_by_branch(a_ptr, b_ptr, out_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    pid = tl.program_id(0)
    if pid == 0:
        block = tl.make_block_ptr(a_ptr, (M, N), (N, 1), (0, 2), (BM, BN), (1, 0))
    else:
        block = tl.make_block_ptr(b_ptr, (M, N), (N, 1), (4, 0), (BM, BN), (1, 0))
    total = tl.zeros((BM, BN), tl.float32)
    for _ in range(2):
        total += tl.load(block, boundary_check=(0, 1), padding_option="zero")
        block = tl.advance(block, (0, BN))
    tl.store(block, total * 0 - 1, boundary_check=(0, 1))
    at = (pid * BM + tl.arange(0, BM)[:, None]) * BN + tl.arange(0, BN)[None, :]
    tl.store(out_ptr + at, total)


@pytest.mark.parametrize("device", ["interp", "interp:metal"])
def test_a_branch_may_choose_a_block(device: str) -> None:
    a, b = (np.arange(70, dtype=np.float32).reshape(7, 10) + k for k in (0, 100))
    padded = [np.pad(x, ((0, 8), (0, 8))) for x in (a, b)]
    first, second = padded[0][:8, 2:], padded[1][4:12]
    out = np.zeros((2, 8, 4), np.float32)
    blocks_by_branch[(2,)](a, b, out, 7, 10, BM=8, BN=4, device=device)
    np.testing.assert_array_equal(out, [x[:, :4] + x[:, 4:8] for x in (first, second)])
    padded[1][4:7, 8:10] = -1  # the last block of the other one is outside
    np.testing.assert_array_equal(a, padded[0][:7, :10])
    np.testing.assert_array_equal(b, padded[1][:7, :10])


@triton.constexpr_function
def half_of(number: int) -> int:
    return number // 2


@triton.jit
def of_constants(out_ptr, N: tl.constexpr):
    tl.store(out_ptr + tl.arange(0, half_of(N)), half_of(-3))


def test_functions_of_constants_run_while_tracing() -> None:
    out = np.zeros(8, np.int32)
    of_constants[(1,)](out, N=8)
    assert list(out) == [-2] * 4 + [0] * 4


def test_packages_catch_errors_by_triton_s_names() -> None:
    out = np.zeros(8, np.int32)
    for kind in (triton.TritonError, triton.CompilationError, triton.compiler.CompilationError):
        with pytest.raises(kind):
            of_constants[(1,)](out, N=7)
    assert issubclass(triton.runtime.errors.OutOfResources, triton.TritonError)


class Counting(triton.KernelInterface):
    def __init__(self, kernel: Any):
        self.kernel, self.launches = kernel, 0

    def run(self, *arguments: Any, **named: Any) -> None:
        self.launches += 1
        self.kernel.run(*arguments, **named)


def test_packages_derive_what_launches() -> None:
    counting, out = Counting(of_constants), np.zeros(8, np.int32)
    counting[(1,)](out, N=8)
    assert counting.launches == 1 and out[0] == -2
