"""The two programs that the language promises to run as written, and the rule that a masked
element does not count."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import iris


@iris.kernel
def gemm(
    A, B, C, M, N, K, BLOCK_M: iris.constexpr, BLOCK_N: iris.constexpr, BLOCK_K: iris.constexpr
):
    pid_m = iris.program_id(0)
    pid_n = iris.program_id(1)
    acc = iris.zeros((BLOCK_M, BLOCK_N), dtype="f32")
    for k in iris.tile_range(0, K, BLOCK_K):
        a = iris.tile_load(A, pid_m * BLOCK_M, k, K, (BLOCK_M, BLOCK_K))
        b = iris.tile_load(B, k, pid_n * BLOCK_N, N, (BLOCK_K, BLOCK_N))
        acc = iris.dot(a, b, acc)
    iris.tile_store(C, pid_m * BLOCK_M, pid_n * BLOCK_N, N, acc, (BLOCK_M, BLOCK_N))


@iris.kernel
def softmax(X, Out, N, BLOCK: iris.constexpr):
    row = iris.program_id(0)
    m = -1e38
    for i in iris.tile_range(0, N, BLOCK):
        cols = i + iris.arange(0, BLOCK)
        mask = cols < N
        x = iris.load(X + row * N + cols, mask=mask)
        m = iris.maximum(m, x)
    m = iris.max(m)
    s = 0.0
    for i in iris.tile_range(0, N, BLOCK):
        cols = i + iris.arange(0, BLOCK)
        mask = cols < N
        x = iris.load(X + row * N + cols, mask=mask)
        s = s + iris.exp(x - m)
    s = iris.sum(s)
    for i in iris.tile_range(0, N, BLOCK):
        cols = i + iris.arange(0, BLOCK)
        mask = cols < N
        x = iris.load(X + row * N + cols, mask=mask)
        iris.store(Out + row * N + cols, iris.exp(x - m) / s, mask=mask)


@iris.kernel
def softmax_one_pass(X, Out, N, BLOCK: iris.constexpr):
    row = iris.program_id(0)
    cols = iris.arange(0, BLOCK)
    mask = cols < N
    x = iris.load(X + row * N + cols, mask=mask)
    e = iris.exp(x - iris.max(x))
    iris.store(Out + row * N + cols, e / iris.sum(e), mask=mask)


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(("m", "n", "k"), [(64, 64, 64), (50, 37, 41), (1, 1, 1), (33, 65, 3)])
def test_gemm(m: int, n: int, k: int, dtype: Any, flat: bool) -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(-3, 4, (m, k)).astype(dtype)
    b = rng.integers(-3, 4, (k, n)).astype(dtype)
    c = np.zeros((m, n), np.float32)
    arrays = [x.reshape(-1) if flat else x for x in (a, b, c)]
    grid = iris.cdiv(m, 32), iris.cdiv(n, 32)
    gemm[grid](*arrays, m, n, k, BLOCK_M=32, BLOCK_N=32, BLOCK_K=16)
    assert (c == a.astype(np.float32) @ b.astype(np.float32)).all()


@pytest.mark.parametrize("kernel", [softmax, softmax_one_pass])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("shift", [0, -300, 80])
@pytest.mark.parametrize("n", [128, 100, 65, 1])
def test_softmax(n: int, shift: float, dtype: Any, kernel: Any) -> None:
    rng = np.random.default_rng(n)
    x = (rng.standard_normal((4, n)) * 3 + shift).astype(dtype)
    out = np.zeros_like(x)
    kernel[4](x, out, n, BLOCK=128 if kernel is softmax_one_pass else 32)
    wide = x.astype(float)
    e = np.exp(wide - wide.max(1, keepdims=True))
    # Differences are rounded to the dtype, at most a unit in the place of the largest, and exp
    # passes that on; the sum adds a rounding per element in single precision.
    eps = float(np.finfo(dtype).eps)
    largest = float(np.abs(wide - wide.max(1, keepdims=True)).max())
    bound = (largest + 4) * eps + n * 2.0**-24
    np.testing.assert_allclose(out, e / e.sum(1, keepdims=True), rtol=bound, atol=2.0**-24)


def test_argmax_where_every_real_value_is_minus_infinity() -> None:
    @iris.kernel
    def place(X, Out, first, N, B: iris.constexpr):
        at = iris.arange(0, B)
        x = iris.load(X + at, mask=(at >= first) & (at < N))
        iris.store(Out, iris.argmax(x))

    x, out = np.full(8, -np.inf, np.float32), np.zeros(1, np.int32)
    for first in range(5):
        place[1](x, out, first, 5, B=8)
        assert out[0] == first


def test_what_is_chosen_by_where_counts_where_it_is_valid() -> None:
    @iris.kernel
    def total(X, Out, N, B: iris.constexpr):
        at = iris.arange(0, B)
        mask = at < N
        x = iris.load(X + at, mask=mask)
        iris.store(Out, iris.sum(iris.where(mask, x, 5)))
        iris.store(Out + 1, iris.sum(x + 1))

    x, out = np.arange(8, dtype=np.float32), np.zeros(2, np.float32)
    total[1](x, out, 5, B=8)
    assert list(out) == [10 + 3 * 5, 10 + 5]


def test_a_prefetched_tile_feeds_a_dot() -> None:
    @iris.kernel
    def product(A, B, C, N, K, T: iris.constexpr):
        lane = iris.arange(0, T)
        acc = iris.zeros((T, T))
        cur = iris.load(A + lane[:, None] * K + lane[None, :], mask=lane[None, :] < K)
        for k in iris.tile_range(0, K, T):
            next_k = k + T + lane
            nxt = iris.load(A + lane[:, None] * K + next_k[None, :], mask=next_k[None, :] < K)
            here = k + lane
            b = iris.load(B + here[:, None] * N + lane[None, :], mask=here[:, None] < K)
            acc = iris.dot(cur, b, acc)
            cur = nxt
        iris.store(C + lane[:, None] * N + lane[None, :], acc)

    rng = np.random.default_rng(1)
    for k in (8, 13, 16, 20):
        a = rng.integers(-3, 4, (8, k)).astype(np.float32)
        b = rng.integers(-3, 4, (k, 8)).astype(np.float32)
        c = np.zeros((8, 8), np.float32)
        product[1](a, b, c, 8, k, T=8)
        assert (c == a @ b).all(), k


def test_keys_masked_on_their_kept_axis() -> None:
    @iris.kernel
    def attention(Q, K, V, Out, S, D: iris.constexpr, B: iris.constexpr):
        d, rows = iris.arange(0, D), iris.arange(0, B)
        q = iris.load(Q + rows[:, None] * D + d[None, :], mask=rows[:, None] < S)
        k = iris.load(K + rows[:, None] * D + d[None, :], mask=rows[:, None] < S)
        v = iris.load(V + rows[:, None] * D + d[None, :], mask=rows[:, None] < S)
        scores = iris.dot(q, k.T)
        e = iris.exp(scores - iris.max(scores, axis=1, keepdims=True))
        out = iris.dot(e / iris.sum(e, axis=1, keepdims=True), v)
        iris.store(Out + rows[:, None] * D + d[None, :], out)

    rng = np.random.default_rng(2)
    for s in (16, 11, 1):
        q, k, v = (rng.standard_normal((s, 8)).astype(np.float32) for _ in range(3))
        out = np.zeros((s, 8), np.float32)
        attention[1](q, k, v, out, s, D=8, B=16)
        scores = q.astype(float) @ k.T.astype(float)
        e = np.exp(scores - scores.max(1, keepdims=True))
        expected = e / e.sum(1, keepdims=True) @ v
        np.testing.assert_allclose(out, expected, rtol=0, atol=1e-5)


def test_a_mask_follows_a_reshape() -> None:
    @iris.kernel
    def halves(X, Out, N, B: iris.constexpr):
        at = iris.arange(0, B)
        x = iris.load(X + at, mask=at < N)
        y = iris.reshape(x, (2, B // 2))
        iris.store(Out + iris.arange(0, 2), iris.sum(y, axis=1))

    x, out = np.arange(8, dtype=np.float32), np.zeros(2, np.float32)
    halves[1](x, out, 5, B=8)
    assert list(out) == [6, 4]


def test_masks_go_through_reductions_of_all_elements() -> None:
    @iris.kernel
    def losses(X, Out, Found, M, N, BM: iris.constexpr, BN: iris.constexpr):
        rows, cols = iris.arange(0, BM), iris.arange(0, BN)
        there = (rows[:, None] < M) & (cols[None, :] < N)
        x = iris.load(X + rows[:, None] * N + cols[None, :], mask=there)
        mean = iris.sum(x) / (M * N)
        results = [
            mean, iris.sum((x - mean) * (x - mean)), iris.max(x), iris.min(x),
            iris.prod(iris.where(x > 2, 2.0, 1.0)), iris.sum(iris.reshape(x, (BN, BM))[:, :, None]),
        ]  # fmt: skip
        for k, result in enumerate(results):
            iris.store(Out + k, result)
        for k, place in enumerate([iris.argmax(x), iris.argmin(x)]):
            iris.store(Found + k, place)
        for k, truth in enumerate([iris.any(x > 8), iris.all(x > 0), iris.any(x == 0)]):
            iris.store(Found + 2 + k, truth)

    x = np.random.default_rng(0).permutation(15).astype(np.float32).reshape(3, 5) + 1
    out, found = np.zeros(6, np.float32), np.zeros(5, np.int32)
    losses[1](x, out, found, 3, 5, BM=4, BN=8)
    assert list(out) == [8, ((x - 8) ** 2).sum(), 15, 1, 2.0**13, x.sum()]
    at = [int(np.ravel_multi_index(np.argwhere(x == v)[0], (4, 8))) for v in (15, 1)]
    assert list(found) == [*at, 1, 1, 0]
