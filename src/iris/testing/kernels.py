# mypy: ignore-errors
"""Kernels to try devices with."""

from __future__ import annotations

import iris


@iris.kernel
def add(X, Y, Out, n, B: iris.constexpr):
    at = iris.program_id(0) * B + iris.arange(0, B)
    some = at < n
    iris.store(Out + at, iris.load(X + at, mask=some) + iris.load(Y + at, mask=some), mask=some)


@iris.kernel
def copy(X, Out, n, B: iris.constexpr):
    at = iris.program_id(0) * B + iris.arange(0, B)
    iris.store(Out + at, iris.load(X + at, mask=at < n), mask=at < n)


@iris.kernel
def scale(X, factor):
    at = iris.program_id(0) * 32 + iris.arange(0, 32)
    iris.store(X + at, iris.load(X + at) * factor)


@iris.kernel
def mix(X, Y, Out, term):
    at = iris.program_id(0) * 32 + iris.arange(0, 32)
    iris.store(Out + at, (3 * iris.load(X + at) + 5 * iris.load(Y + at) + term + at) & 1023)


@iris.kernel
def where_am_i(Out):
    x, y, z = iris.program_id(0), iris.program_id(1), iris.program_id(2)
    number = x + iris.num_programs(0) * (y + iris.num_programs(1) * z)
    iris.store(Out + number, x + 10 * y + 100 * z)


@iris.kernel
def row_sum(X, Out, n, B: iris.constexpr):
    row, at = iris.program_id(0), iris.arange(0, B)
    iris.store(Out + row, iris.sum(iris.load(X + row * n + at, mask=at < n, other=0), axis=0))


@iris.kernel
def product(X, Y, Out, N: iris.constexpr):
    at = iris.arange(0, N)[:, None] * N + iris.arange(0, N)[None, :]
    iris.store(Out + at, iris.dot(iris.load(X + at), iris.load(Y + at)))


@iris.kernel
def count(X, Out):
    at = iris.program_id(0) * 32 + iris.arange(0, 32)
    iris.atomic_add(Out + iris.load(X + at), 1)


@iris.kernel
def first_two(X, Y, Out):
    iris.store(X, 5.0)
    iris.store(Out, iris.load(Y))


@iris.kernel
def scalars(Out, a, b, c, d):
    iris.store(Out, a + b + d)
    iris.store(Out + 1, iris.where(c, 1.0, 2.0))


@iris.kernel
def say(n):
    iris.device_print("number", iris.program_id(0) + n)


@iris.kernel
def insist(Out, limit):
    iris.device_assert(iris.program_id(0) < limit, "too many programs")
    iris.store(Out + iris.program_id(0), 1)


@iris.kernel
def softmax(X, Out, n, B: iris.constexpr):
    row, at = iris.program_id(0), iris.arange(0, B)
    x = iris.load(X + row * n + at, mask=at < n)
    e = iris.exp(x - iris.max(x))
    iris.store(Out + row * n + at, e / iris.sum(e), mask=at < n)


@iris.kernel
def running_sum(X, Out, n, B: iris.constexpr):
    row, at = iris.program_id(0), iris.arange(0, B)
    x = iris.load(X + row * n + at, mask=at < n, other=0)
    iris.store(Out + row * n + at, iris.cumsum(x, axis=0), mask=at < n)


@iris.kernel
def matmul(X, Y, Out, M, N, K, BM: iris.constexpr, BN: iris.constexpr, BK: iris.constexpr):
    i, j = iris.program_id(0) * BM, iris.program_id(1) * BN
    total = iris.zeros((BM, BN))
    for k in iris.tile_range(0, K, BK):
        x = iris.tile_load(X, i, k, K, (BM, BK), rows=M, cols=K)
        y = iris.tile_load(Y, k, j, N, (BK, BN), rows=K, cols=N)
        total += iris.dot(x, y)
    iris.tile_store(Out, i, j, N, total, (BM, BN), rows=M, cols=N)


@iris.kernel
def attention(Q, K, V, Out, S, scale, D: iris.constexpr, B: iris.constexpr):
    first, rows = iris.program_id(0) * B, iris.arange(0, B)
    q = iris.tile_load(Q, first, 0, D, (B, D), rows=S, cols=D)
    top, total, out = iris.full((B,), -1e30), iris.zeros((B,)), iris.zeros((B, D))
    for start in iris.tile_range(0, S, B):
        k = iris.tile_load(K, start, 0, D, (B, D), rows=S, cols=D)
        v = iris.tile_load(V, start, 0, D, (B, D), rows=S, cols=D)
        scores = iris.where((start + rows < S)[None, :], iris.dot(q, k.T) * scale, -1e30)
        higher = iris.maximum(top, iris.max(scores, axis=1))
        p = iris.exp(scores - higher[:, None])
        rescale = iris.exp(top - higher)
        total = total * rescale + iris.sum(p, axis=1)
        out = out * rescale[:, None] + iris.dot(p.to(v.dtype), v)
        top = higher
    iris.tile_store(Out, first, 0, D, out / total[:, None], (B, D), rows=S, cols=D)
