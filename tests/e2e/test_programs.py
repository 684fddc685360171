"""Ordinary programs against NumPy, on aligned and ragged sizes.

Data are small integers, so that results are exact whatever the order of sums; where a function is
not exact the bound is stated.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import iris

F32, F16, I32 = np.float32, np.float16, np.int32


def whole(shape: Any, dtype: Any = F32, seed: int = 0, low: int = -3, high: int = 4) -> Any:
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


# Tiles in two dimensions.


@iris.kernel
def add_row(X, Row, Out, M, N, BM: iris.constexpr, BN: iris.constexpr):
    rows = iris.program_id(0) * BM + iris.arange(0, BM)
    cols = iris.arange(0, BN)
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    offsets = rows[:, None] * N + cols[None, :]
    row = iris.load(Row + cols, mask=cols < N, other=0)
    x = iris.load(X + offsets, mask=mask)
    iris.store(Out + offsets, x + row, mask=mask)


@pytest.mark.parametrize("dtype", [F32, F16, I32])
@pytest.mark.parametrize(("m", "n"), [(16, 32), (13, 27), (1, 1)])
def test_a_row_spreads_over_a_tile(m: int, n: int, dtype: Any) -> None:
    x, row, out = whole((m, n), dtype), whole(n, dtype, 1), np.zeros((m, n), dtype)
    add_row[iris.cdiv(m, 8)](x, row, out, m, n, BM=8, BN=32)
    assert (out == x + row).all()


@iris.kernel
def copy_2d(X, Out, M, N, BM: iris.constexpr, BN: iris.constexpr):
    i, j = iris.program_id(0) * BM, iris.program_id(1) * BN
    x = iris.tile_load(X, i, j, N, (BM, BN))
    iris.tile_store(Out, i, j, N, x, (BM, BN))


@pytest.mark.parametrize("dtype", [F32, F16, I32, np.uint8, np.int64, np.bool_])
@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize(("m", "n"), [(32, 64), (33, 61), (3, 5)])
def test_copy(m: int, n: int, flat: bool, dtype: Any) -> None:
    x, out = whole((m, n), dtype, low=0), np.zeros((m, n), dtype)
    arrays = (x.ravel(), out.reshape(-1)) if flat else (x, out)
    copy_2d[iris.cdiv(m, 16), iris.cdiv(n, 32)](*arrays, m, n, BM=16, BN=32)
    assert (out == x).all()


@iris.kernel
def softmax_rows(X, Out, M, N, BM: iris.constexpr, BN: iris.constexpr):
    rows = iris.program_id(0) * BM + iris.arange(0, BM)
    cols = iris.arange(0, BN)
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    offsets = rows[:, None] * N + cols[None, :]
    x = iris.load(X + offsets, mask=mask)
    e = iris.exp(x - iris.max(x, axis=1, keepdims=True))
    iris.store(Out + offsets, e / iris.sum(e, axis=1)[:, None], mask=mask)


def softmax_of(x: Any) -> Any:
    e = np.exp(x.astype(float) - x.max(1, keepdims=True).astype(float))
    return e / e.sum(1, keepdims=True)


@pytest.mark.parametrize(("m", "n"), [(8, 32), (5, 27), (3, 1)])
def test_softmax_with_an_axis(m: int, n: int) -> None:
    x, out = whole((m, n)) - F32(300), np.zeros((m, n), F32)
    softmax_rows[iris.cdiv(m, 4)](x, out, m, n, BM=4, BN=32)
    # One rounding each of exp, the sum of up to 32, and the quotient.
    np.testing.assert_allclose(out, softmax_of(x), rtol=40 * 2.0**-24)


@iris.kernel
def dot_row_sum(A, B, Out, M, N, K, BM: iris.constexpr, BN: iris.constexpr, BK: iris.constexpr):
    acc = iris.zeros((BM, BN))
    i = iris.program_id(0) * BM
    for k in iris.tile_range(0, K, BK):
        a = iris.tile_load(A, i, k, K, (BM, BK))
        b = iris.tile_load(B, k, 0, N, (BK, BN))
        acc = iris.dot(a, b, acc)
    rows = i + iris.arange(0, BM)
    iris.store(Out + rows, iris.sum(acc, axis=1), mask=rows < M)


def test_dot_then_row_sum() -> None:
    for m, n, k in [(16, 32, 32), (13, 20, 37)]:
        a, b, out = whole((m, k)), whole((k, n), seed=1), np.zeros(m, F32)
        dot_row_sum[iris.cdiv(m, 8)](a, b, out, m, n, k, BM=8, BN=32, BK=16)
        assert (out == (a @ b).sum(1)).all()


@iris.kernel
def transposed(X, Out, M, N, B: iris.constexpr):
    i, j = iris.program_id(0) * B, iris.program_id(1) * B
    x = iris.tile_load(X, i, j, N, (B, B))
    iris.tile_store(Out, j, i, M, x.T, (B, B))


@iris.kernel
def transposed_by_offsets(X, Out, M, N, B: iris.constexpr):
    i = iris.program_id(0) * B + iris.arange(0, B)
    j = iris.program_id(1) * B + iris.arange(0, B)
    mask = (j[:, None] < N) & (i[None, :] < M)
    x = iris.load(X + i[None, :] * N + j[:, None], mask=mask)
    iris.store(Out + j[:, None] * M + i[None, :], x, mask=mask)


@pytest.mark.parametrize("kernel", [transposed, transposed_by_offsets])
def test_transpose(kernel: Any) -> None:
    for m, n in [(32, 16), (19, 33)]:
        x, out = whole((m, n)), np.zeros((n, m), F32)
        kernel[iris.cdiv(m, 16), iris.cdiv(n, 16)](x, out, m, n, B=16)
        assert (out == x.T).all()


@iris.kernel
def attention(
    Out,
    Q,
    K,
    V,
    S,
    scale,
    D: iris.constexpr,
    BQ: iris.constexpr,
    BK: iris.constexpr,
    causal: iris.constexpr,
):
    first = iris.program_id(0) * BQ
    rows = first + iris.arange(0, BQ)
    q = iris.tile_load(Q, first, 0, D, (BQ, D))
    m = iris.full((BQ,), -1e30)
    total = iris.zeros((BQ,))
    acc = iris.zeros((BQ, D))
    end = iris.minimum(S, first + BQ) if causal else S
    for start in iris.tile_range(0, end, BK):
        cols = start + iris.arange(0, BK)
        k = iris.tile_load(K, start, 0, D, (BK, D))
        v = iris.tile_load(V, start, 0, D, (BK, D))
        scores = iris.dot(q, k.T) * scale
        seen = cols[None, :] < S
        if causal:
            seen = seen & (cols[None, :] <= rows[:, None])
        scores = iris.where(seen, scores, -1e30)
        new = iris.maximum(m, iris.max(scores, axis=1))
        p = iris.exp(scores - new[:, None])
        rescale = iris.exp(m - new)
        total = total * rescale + iris.sum(p, axis=1)
        acc = acc * rescale[:, None] + iris.dot(p.to(v.dtype), v)
        m = new
    iris.tile_store(Out, first, 0, D, acc / total[:, None], (BQ, D))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [F32, F16])
@pytest.mark.parametrize("s", [64, 50])
def test_flash_attention(s: int, dtype: Any, causal: bool) -> None:
    d = 32
    rng = np.random.default_rng(3)
    q, k, v = (rng.standard_normal((s, d)).astype(dtype) for _ in range(3))
    out = np.zeros((s, d), F32)
    attention[iris.cdiv(s, 16)](out, q, k, v, s, d**-0.5, D=d, BQ=16, BK=32, causal=causal)
    scores = q.astype(float) @ k.astype(float).T * d**-0.5
    if causal:
        scores = np.where(np.tril(np.ones((s, s), bool)), scores, -np.inf)
    # p is rounded to the dtype of v, which dominates.
    eps = np.finfo(dtype).eps
    expected = softmax_of(scores) @ v.astype(float)
    np.testing.assert_allclose(out, expected, rtol=0, atol=20 * eps)


@iris.kernel
def gemm_epilogues(
    C, alpha, Bias, A, Rest, B, M, N, K, TM: iris.constexpr, TN: iris.constexpr, TK: iris.constexpr
):
    i, j = iris.program_id(1) * TM, iris.program_id(0) * TN
    acc = iris.zeros((TM, TN))
    for k in iris.tile_range(0, K, TK):
        acc = iris.dot(
            iris.tile_load(A, i, k, K, (TM, TK)), iris.tile_load(B, k, j, N, (TK, TN)), acc
        )
    cols = j + iris.arange(0, TN)
    bias = iris.load(Bias + cols, mask=cols < N, other=0.0)
    rest = iris.tile_load(Rest, i, j, N, (TM, TN))
    out = iris.minimum(iris.maximum(alpha * acc + bias + rest, -20.0), 20.0)
    iris.tile_store(C, i, j, N, out, (TM, TN))


def test_gemm_with_bias_residual_clamp_and_alpha() -> None:
    for m, n, k in [(32, 32, 32), (21, 35, 17)]:
        a, b = whole((m, k), F16), whole((k, n), F16, 1)
        bias, rest, c = whole(n, F32, 2), whole((m, n), F32, 3), np.zeros((m, n), F32)
        grid = iris.cdiv(n, 16), iris.cdiv(m, 16)
        gemm_epilogues[grid](c, 2.0, bias, a, rest, b, m, n, k, TM=16, TN=16, TK=16)
        exact = 2 * (a.astype(F32) @ b.astype(F32)) + bias + rest
        assert (c == np.clip(exact, -20, 20)).all()


@iris.kernel
def gated(X, W, V, Out, M, N, K, B: iris.constexpr):
    i, j = iris.program_id(0) * B, iris.program_id(1) * B
    gate, up = iris.zeros((B, B)), iris.zeros((B, B))
    for k in iris.tile_range(0, K, B):
        x = iris.tile_load(X, i, k, K, (B, B))
        gate = iris.dot(x, iris.tile_load(W, k, j, N, (B, B)), gate)
        up = iris.dot(x, iris.tile_load(V, k, j, N, (B, B)), up)
    iris.tile_store(Out, i, j, N, iris.where(gate > 0, gate, 0.0) * up, (B, B))


def test_two_dots_in_one_loop() -> None:
    m, n, k = 20, 24, 19
    x, w, v = whole((m, k)), whole((k, n), seed=1), whole((k, n), seed=2)
    out = np.zeros((m, n), F32)
    gated[iris.cdiv(m, 16), iris.cdiv(n, 16)](x, w, v, out, m, n, k, B=16)
    assert (out == np.maximum(x @ w, 0) * (x @ v)).all()


@iris.kernel
def batched(A, B, C, M, N, K, T: iris.constexpr):
    batch = iris.program_id(2)
    i, j = iris.program_id(0) * T, iris.program_id(1) * T
    acc = iris.zeros((T, T))
    for k in iris.tile_range(0, K, T):
        a = iris.tile_load(A + batch * M * K, i, k, K, (T, T), rows=M, cols=K)
        b = iris.tile_load(B + batch * K * N, k, j, N, (T, T), rows=K, cols=N)
        acc = iris.dot(a, b, acc)
    iris.tile_store(C + batch * M * N, i, j, N, acc, rows=M, cols=N)


def test_batched_gemm_by_pointer_offset() -> None:
    p, m, n, k = 3, 17, 21, 18
    a, b, c = whole((p, m, k)), whole((p, k, n), seed=1), np.zeros((p, m, n), F32)
    batched[iris.cdiv(m, 16), iris.cdiv(n, 16), p](a, b, c, m, n, k, T=16)
    assert (c == a @ b).all()


@iris.kernel
def mixed_dot(A, B, C, N: iris.constexpr):
    a, b = iris.tile_load(A, 0, 0, N, (N, N)), iris.tile_load(B, 0, 0, N, (N, N))
    iris.tile_store(C, 0, 0, N, iris.dot(a, b.to(a.dtype).T), (N, N))


def test_dot_with_mixed_dtypes_and_a_transposed_operand() -> None:
    a, b, c = whole((16, 16), F16), whole((16, 16), np.int8, 1), np.zeros((16, 16), F32)
    mixed_dot[1](a, b, c, N=16)
    assert (c == a.astype(F32) @ b.astype(F32).T).all()


# Gathers, atomics, scans.


@iris.kernel
def gather(Table, Index, Out, N, D, B: iris.constexpr, BD: iris.constexpr):
    at = iris.program_id(0) * B + iris.arange(0, B)
    index = iris.load(Index + at, mask=at < N)
    d = iris.arange(0, BD)
    x = iris.load(Table + index[:, None] * D + d[None, :], mask=d[None, :] < D)
    iris.store(Out + at[:, None] * D + d[None, :], x, mask=(at[:, None] < N) & (d[None, :] < D))


def test_gather_by_an_index_tile() -> None:
    table = whole((10, 13))
    index, out = whole(21, I32, 1, 0, 10), np.zeros((21, 13), F32)
    gather[iris.cdiv(21, 8)](table, index, out, 21, 13, B=8, BD=16)
    assert (out == table[index]).all()


@iris.kernel
def gather_sum(Table, Index, Out, K, B: iris.constexpr):
    lane = iris.arange(0, B)
    total = iris.zeros((B,))
    for k in range(K):
        index = iris.load(Index + k * B + lane)
        total = total + iris.load(Table + index)
    iris.store(Out + lane, total)


def test_gather_in_a_loop() -> None:
    table, index, out = whole(50), whole((7, 16), I32, 1, 0, 50), np.zeros(16, F32)
    gather_sum[1](table, index, out, 7, B=16)
    assert (out == table[index].sum(0)).all()


@iris.kernel
def histogram(X, Bins, N, B: iris.constexpr):
    at = iris.program_id(0) * B + iris.arange(0, B)
    x = iris.load(X + at, mask=at < N)
    iris.atomic_add(Bins + x, 1)


@pytest.mark.parametrize("n", [256, 1000, 1])
def test_histogram(n: int) -> None:
    x, bins = whole(n, I32, low=0, high=10), np.zeros(10, I32)
    histogram[iris.cdiv(n, 64)](x, bins, n, B=64)
    assert (bins == np.bincount(x, minlength=10)).all()


@iris.kernel
def scans(X, Rows, Cols, M: iris.constexpr, N: iris.constexpr):
    x = iris.tile_load(X, 0, 0, N, (M, N))
    iris.tile_store(Cols, 0, 0, N, iris.cumsum(x, axis=0))
    iris.tile_store(Rows, 0, 0, N, iris.cumsum(x, axis=1))


@pytest.mark.parametrize("dtype", [F32, I32])
def test_cumsum_along_each_axis(dtype: Any) -> None:
    x = whole((8, 16), dtype)
    rows, cols = np.zeros_like(x), np.zeros_like(x)
    scans[1](x, rows, cols, M=8, N=16)
    assert (rows == x.cumsum(1)).all()
    assert (cols == x.cumsum(0)).all()


@iris.kernel
def places(X, Out, N, B: iris.constexpr):
    row = iris.program_id(0)
    at = iris.arange(0, B)
    x = iris.load(X + row * N + at, mask=at < N)
    iris.store(Out + 2 * row, iris.argmax(x))
    iris.store(Out + 2 * row + 1, iris.argmin(x))


def test_argmax_with_ties_and_infinities() -> None:
    inf, nan = np.inf, np.nan
    x = np.array(
        [[1, 3, 3, 0, 0], [-inf] * 5, [inf, -inf, inf, -inf, 0], [2, nan, 9, nan, 1], [4] * 5], F32
    )
    out = np.full((5, 2), -1, I32)
    places[5](x, out, 5, B=8)
    assert (out[:, 0] == x.argmax(1)).all()
    assert (out[:, 1] == x.argmin(1)).all()


@iris.kernel
def extremes(X, Out, N, B: iris.constexpr):
    at = iris.arange(0, B)
    x = iris.load(X + at, mask=at < N)
    iris.store(Out, iris.max(x))
    iris.store(Out + 1, iris.min(x))


@pytest.mark.parametrize("dtype", [F32, F16, I32, np.int8, np.int64])
def test_max_of_negatives_and_min_of_positives_under_a_mask(dtype: Any) -> None:
    for sign in (1, -1):
        x, out = (sign * np.arange(3, 8)).astype(dtype), np.zeros(2, dtype)
        extremes[1](x, out, 5, B=8)
        assert (out == [x.max(), x.min()]).all()


# Control flow.


@iris.kernel
def branches(X, Out, N):
    i = iris.program_id(0)
    x = iris.load(X + i)
    y = x
    if x > 1 and i < N:
        y = x * 10
        if x > 2:
            y = y + 1
    elif x < -1 or i == 3:
        y = -x
    else:
        y = 0.5
    if not (x == 0):
        y = y + 100
    iris.store(Out + i, y)


def test_branches_on_runtime_scalars() -> None:
    x, out = whole(40), np.zeros(40, F32)
    branches[40](x, out, 30)
    for i, v in enumerate(x):
        y = v
        if v > 1 and i < 30:
            y = v * 10 + (1 if v > 2 else 0)
        elif v < -1 or i == 3:
            y = -v
        else:
            y = 0.5
        assert out[i] == (y + 100 if v != 0 else y)


@iris.kernel
def collatz(X, Out):
    i = iris.program_id(0)
    x = iris.load(X + i)
    steps = 0
    while x != 1:
        x = x // 2 if x % 2 == 0 else 3 * x + 1
        steps += 1
    iris.store(Out + i, steps)


def test_while_with_trip_counts_that_differ_by_program() -> None:
    x, out = np.arange(1, 40, dtype=I32), np.zeros(39, I32)
    collatz[39](x, out)
    for start, steps in zip(x, out, strict=True):
        n, count = int(start), 0
        while n != 1:
            n, count = (n // 2 if n % 2 == 0 else 3 * n + 1), count + 1
        assert steps == count


@iris.kernel
def ranges(Out, low, high, step, B: iris.constexpr):
    count, last = 0, -99
    tile = iris.zeros((B,), iris.i32)
    for i in range(low, high, step):
        count += 1
        last = i
        for j in range(i, 3):
            tile = tile + j
    iris.store(Out, count)
    iris.store(Out + 1, last)
    iris.store(Out + 2 + iris.arange(0, B), tile)


@pytest.mark.parametrize(
    ("low", "high", "step"), [(0, 7, 2), (5, -4, -3), (3, 3, 1), (4, 0, 1), (-2, 3, 1)]
)
def test_ranges_with_runtime_bounds_and_steps(low: int, high: int, step: int) -> None:
    out = np.zeros(6, I32)
    ranges[1](out, low, high, step, B=4)
    every = list(range(low, high, step))
    inner = sum(sum(range(i, 3)) for i in every)
    assert list(out) == [len(every), every[-1] if every else -99, *[inner] * 4]


@iris.kernel
def fibonacci(Out, n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    iris.store(Out, a)
    iris.store(Out + 1, b)


def test_swapped_values() -> None:
    out = np.zeros(2, I32)
    fibonacci[1](out, 10)
    assert list(out) == [55, 89]


@iris.kernel
def only_assigned(X, Out, n):
    seen = -1.0
    for i in range(n):
        x = iris.load(X + i)
        seen = x
    iris.store(Out, seen)


def test_a_carried_value_that_is_only_assigned() -> None:
    x, out = whole(9), np.zeros(1, F32)
    for n in (9, 0):
        only_assigned[1](x, out, n)
        assert out[0] == (x[8] if n else -1)


def test_a_half_precision_sum_is_carried_in_single_precision() -> None:
    @iris.kernel
    def total(X, Out, n):
        s = 0.0
        for i in range(n):
            s = s + iris.load(X + i)
        iris.store(Out, s)

    x, out = np.full(3000, 1, F16), np.zeros(1, F32)
    total[1](x, out, 3000)
    assert out[0] == 3000


@iris.kernel
def walking(X, Out, n):
    p, s = X, 0.0
    for i in range(n):
        s += iris.load(p)
        p = p + 2 if i > 2 else p + 1
    if n > 3:
        p = X + 1
    iris.store(Out, s)
    iris.store(Out + 1, iris.load(p))


def test_pointers_are_carried_and_chosen() -> None:
    x, out = whole(20), np.zeros(2, F32)
    for n in (2, 6):
        walking[1](x, out, n)
        at, s = 0, 0.0
        for i in range(n):
            s, at = s + x[at], at + (2 if i > 2 else 1)
        assert list(out) == [s, x[1 if n > 3 else at]]


# Arithmetic.


@iris.kernel
def integer_ops(A, B, Out, N: iris.constexpr):
    at = iris.arange(0, N)
    a, b = iris.load(A + at), iris.load(B + at)
    iris.store(Out + at, a // b)
    iris.store(Out + N + at, a % b)
    iris.store(Out + 2 * N + at, a + b * a)
    iris.store(Out + 3 * N + at, (a & b) | (a ^ b))


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_integer_arithmetic_wraps_and_floors(dtype: str) -> None:
    info = np.iinfo(dtype)
    rng = np.random.default_rng(5)
    a = rng.integers(info.min, info.max, 64, dtype, endpoint=True)
    b = rng.integers(info.min, info.max, 64, dtype, endpoint=True)
    b[b == 0] = 3
    out = np.zeros((4, 64), dtype)
    integer_ops[1](a, b, out, N=64)
    with np.errstate(over="ignore"):
        for got, expected in zip(out, (a // b, a % b, a + b * a, (a & b) | (a ^ b)), strict=True):
            assert (got == expected).all()


@iris.kernel
def true_division(A, B, Out, N: iris.constexpr):
    at = iris.arange(0, N)
    iris.store(Out + at, iris.load(A + at) / iris.load(B + at))


def test_integers_divide_to_floats() -> None:
    a, b, out = whole(32, I32), whole(32, I32, 1, 1, 9), np.zeros(32, F32)
    true_division[1](a, b, out, N=32)
    assert (out == a.astype(F32) / b.astype(F32)).all()


@iris.kernel
def three_dtypes(A, B, C, Out, N: iris.constexpr):
    at = iris.arange(0, N)
    iris.store(Out + at, iris.load(A + at) * iris.load(B + at) + iris.load(C + at))


def test_three_dtypes_meet() -> None:
    a, b, c = whole(16, F16), whole(16, np.uint8, 1, 0), whole(16, F32, 2)
    out = np.zeros(16, F32)
    three_dtypes[1](a, b, c, out, N=16)
    assert (out == a.astype(F32) * b + c).all()


# Shapes, grids, helpers.


@iris.kernel
def grid_3d(Out):
    x, y, z = iris.program_id(0), iris.program_id(1), iris.program_id(2)
    nx, ny = iris.num_programs(0), iris.num_programs(1)
    iris.store(Out + (z * ny + y) * nx + x, x + 10 * y + 100 * z)


def test_a_grid_of_three_dimensions() -> None:
    out = np.zeros((2, 3, 4), I32)
    grid_3d[4, 3, 2](out)
    z, y, x = np.indices((2, 3, 4))
    assert (out == x + 10 * y + 100 * z).all()


@iris.kernel
def two_sizes(X, Y, Out, A: iris.constexpr, B: iris.constexpr):
    a, b = iris.arange(0, A), iris.arange(0, B)
    outer = iris.load(X + a)[:, None] * iris.load(Y + b)[None, :]
    iris.store(Out + a[:, None] * B + b[None, :], outer)


@pytest.mark.parametrize(("a", "b"), [(1, 8), (4, 16), (2048, 1)])
def test_two_sizes_in_one_kernel(a: int, b: int) -> None:
    x, y, out = whole(a), whole(b, seed=1), np.zeros((a, b), F32)
    two_sizes[1](x, y, out, A=a, B=b)
    assert (out == np.outer(x, y)).all()


SCALE = 3


def helper(x: Any, by: float = 2.0) -> Any:
    return x * by + SCALE


@iris.kernel
def squared(x):
    if iris.sum(x) > 0:
        y = x * x
    else:
        y = -x
    return y


def test_helpers_closures_and_loops_over_constants() -> None:
    powers = (1, 2, 4)

    @iris.kernel
    def kernel(X, Out, N: iris.constexpr, deep: iris.constexpr = True):
        at = iris.arange(0, N)
        x = helper(iris.load(X + at))
        for p in powers:
            if p == 2 and deep:
                continue
            x = x + p
        total = sum_of([x, x])
        iris.store(Out + at, squared(total))

    def sum_of(xs: Any) -> Any:
        result = xs[0]
        for x in xs[1:]:
            result = result + x
        return result

    x, out = whole(16), np.zeros(16, F32)
    for deep in (True, False):
        kernel[1](x, out, N=16, deep=deep)
        y = 2 * (x * 2 + 3 + (5 if deep else 7))
        assert (out == (y * y if y.sum() > 0 else -y)).all()


@iris.kernel
def unary_set(X, Out, N: iris.constexpr):
    at = iris.arange(0, N)
    x = iris.load(X + at)
    results = (
        iris.exp(x), iris.exp2(x), iris.log(x), iris.log2(x), iris.sqrt(x), iris.rsqrt(x),
        iris.sin(x), iris.cos(x), iris.tanh(x), iris.sigmoid(x), iris.floor(x), iris.ceil(x),
        iris.abs(-x), iris.fma(x, x, x), x**3, 2.0**x, iris.round(x),
    )  # fmt: skip
    for i, result in enumerate(results):
        iris.store(Out + i * N + at, result)


def test_the_unary_set() -> None:
    x = (np.arange(1, 17) / 4).astype(F32)
    out = np.zeros((17, 16), F32)
    unary_set[1](x, out, N=16)
    w = x.astype(float)
    expected = [
        np.exp(w), np.exp2(w), np.log(w), np.log2(w), np.sqrt(w), 1 / np.sqrt(w), np.sin(w),
        np.cos(w), np.tanh(w), 1 / (1 + np.exp(-w)), np.floor(w), np.ceil(w), w, w * w + w,
        w**3, 2**w, np.rint(w),
    ]  # fmt: skip
    np.testing.assert_allclose(out, np.array(expected), rtol=2.0**-22, atol=2.0**-26)


@iris.kernel
def int8_gemm(X, W, Scale, Out, M, N, K, B: iris.constexpr):
    i, j = iris.program_id(0) * B, iris.program_id(1) * B
    cols = j + iris.arange(0, B)
    scale = iris.load(Scale + cols, mask=cols < N, other=0.0)
    acc = iris.zeros((B, B))
    for k in iris.tile_range(0, K, B):
        w = iris.tile_load(W, k, j, N, (B, B)).to(iris.f16) * scale.to(iris.f16)
        acc = iris.dot(iris.tile_load(X, i, k, K, (B, B)), w, acc)
    iris.tile_store(Out, i, j, N, acc, (B, B))


def test_dequantising_gemm() -> None:
    m, n, k = 18, 20, 33
    x, w = whole((m, k), F16), whole((k, n), np.int8, 1)
    scale, out = whole(n, F32, 2, 1, 4), np.zeros((m, n), F32)
    int8_gemm[iris.cdiv(m, 16), iris.cdiv(n, 16)](x, w, scale, out, m, n, k, B=16)
    assert (out == x.astype(F32) @ (w * scale)).all()


def test_constants_that_compare_equal_are_told_apart() -> None:
    @iris.kernel
    def half(Out, S: iris.constexpr):
        iris.store(Out, S / 2 if isinstance(S, float) else S // 2)

    out = np.zeros(1, F32)
    for value, expected in [(3, 1), (3.0, 1.5), (True, 0), (1, 0), (1.0, 0.5)]:
        half[1](out, value)
        assert out[0] == expected


def test_what_is_compiled_does_not_depend_on_addresses() -> None:
    @iris.kernel
    def two(A, B):
        iris.store(A, 5.0)
        iris.store(B, 5.0)

    memory = np.zeros(64, np.uint8)
    low, high = memory[:4], memory[32:36]
    for a, b in [(low.view(F32), high.view(I32)), (high.view(F32), low.view(I32))]:
        two[1](a, b)
        assert (a[0], b[0]) == (5.0, 5)


def test_masked_operands_of_a_division_do_not_count() -> None:
    @iris.kernel
    def quotients(X, Out, N, B: iris.constexpr):
        at = iris.arange(0, B)
        iris.store(Out, iris.sum(12 // iris.load(X + at, mask=at < N)))

    x, out = np.array([1, 2, 3], I32), np.zeros(1, I32)
    quotients[1](x, out, 3, B=4)
    assert out[0] == 22


def test_numpy_scalars_meet_tiles() -> None:
    @iris.kernel
    def scaled(X, Out, factor: iris.constexpr):
        x = iris.load(X)
        iris.store(Out, np.float32(2) * x + x * np.int64(3) + factor * x)

    x, out = np.array([2], F32), np.zeros(1, F32)
    scaled[1](x, out, np.float32(4))
    assert out[0] == 18


@iris.kernel
def integers_and(T, Out, number: iris.constexpr, B: iris.constexpr):
    i = iris.arange(0, B)
    t = iris.load(T + i)
    results = [
        t + number, number + t, t - number, t * number, t / number, t // number, t % number,
        t > number, number >= t, t == number, iris.maximum(t, number), iris.where(t > 1, t, number),
        iris.clamp(t, number, 5), iris.fma(t, number, 1.0), iris.sum(t) * number,
    ]  # fmt: skip
    for k, result in enumerate(results):
        iris.store(Out + k * B + i, iris.cast(result, "f32") + i * 0)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64"])
@pytest.mark.parametrize("make", [F32, F16, np.float64, ml_dtypes.bfloat16])
def test_a_numpy_float_beside_integers_is_as_pythons(dtype: str, make: Any) -> None:
    t = np.arange(8).astype(dtype)
    expected, out = np.empty((2, 15, 8), F32)
    integers_and[1](t, expected, 2.5, 8, device="interp")
    assert (expected[:2] == t.astype(F32) + F32(2.5)).all()
    for device in ("interp", "interp:metal"):
        integers_and[1](t, out, make(2.5), 8, device=device)
        assert (out == expected).all()


@iris.kernel
def one_after_the_other(X, Old, B: iris.constexpr):
    at = iris.arange(0, B)
    iris.atomic_add(X + at, 1)
    iris.store(Old + at, iris.atomic_exchange(X + (B - 1 - at), at))
    iris.atomic_max(X + (at ^ 32), 100)


def test_atomics_of_a_program_come_in_its_order() -> None:
    """Of other threads, which the device need not let come in any order."""
    x, old = np.zeros(256, np.int32), np.zeros(256, np.int32)
    one_after_the_other[1](x, old, B=256)
    assert (old == 1).all()
    assert (x == np.maximum(np.arange(256)[::-1], 100)).all()


# The sign of zero.


@iris.kernel
def sums_of_a_row(X, Out, N, BLOCK: iris.constexpr):
    cols = iris.arange(0, BLOCK)
    x = iris.load(X + cols, mask=cols < N)
    iris.store(Out, iris.sum(x))
    iris.store(Out + 1, iris.sum(-iris.abs(x)))
    iris.store(Out + 2 + cols, iris.cumsum(x), mask=cols < N)


@pytest.mark.parametrize("dtype", [F32, F16, ml_dtypes.bfloat16])
def test_a_masked_sum_of_negative_zeros_is_one(dtype: Any) -> None:
    for n in (5, 64):
        x, out = np.full(n, -0.0, dtype), np.ones(n + 2, dtype)
        sums_of_a_row[1](x, out, n, BLOCK=64)
        assert (out == 0).all()
        assert np.signbit(out).all()
