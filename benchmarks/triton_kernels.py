"""The programs of interp.py and compile.py in Triton."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl


@triton.jit
def softmax(X, Out, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    x = tl.load(X + row * N + cols, mask=mask, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(Out + row * N + cols, e / tl.sum(e, axis=0), mask=mask)


@triton.jit
def gemm(A, B, C, M, N, K, T: tl.constexpr):
    rows = tl.program_id(0) * T + tl.arange(0, T)
    cols = tl.program_id(1) * T + tl.arange(0, T)
    acc = tl.zeros((T, T), dtype=tl.float32)
    for k in range(0, K, T):
        ks = k + tl.arange(0, T)
        a_mask = (rows[:, None] < M) & (ks[None, :] < K)
        b_mask = (ks[:, None] < K) & (cols[None, :] < N)
        a = tl.load(A + rows[:, None] * K + ks[None, :], mask=a_mask, other=0.0)
        b = tl.load(B + ks[:, None] * N + cols[None, :], mask=b_mask, other=0.0)
        acc = tl.dot(a, b, acc)
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    tl.store(C + rows[:, None] * N + cols[None, :], acc, mask=mask)


@triton.jit
def attention(Q, K, V, Out, S, scale, D: tl.constexpr, T: tl.constexpr):
    rows = tl.program_id(0) * T + tl.arange(0, T)
    d = tl.arange(0, D)
    q = tl.load(Q + rows[:, None] * D + d[None, :], mask=rows[:, None] < S, other=0.0)
    m = tl.full((T,), -1e30, dtype=tl.float32)
    total = tl.zeros((T,), dtype=tl.float32)
    acc = tl.zeros((T, D), dtype=tl.float32)
    for start in range(0, S, T):
        cols = start + tl.arange(0, T)
        k = tl.load(K + cols[:, None] * D + d[None, :], mask=cols[:, None] < S, other=0.0)
        v = tl.load(V + cols[:, None] * D + d[None, :], mask=cols[:, None] < S, other=0.0)
        scores = tl.dot(q, tl.trans(k)) * scale
        new = tl.maximum(m, tl.max(scores, axis=1))
        p = tl.exp(scores - new[:, None])
        rescale = tl.exp(m - new)
        total = total * rescale + tl.sum(p, axis=1)
        acc = acc * rescale[:, None] + tl.dot(p, v)
        m = new
    tl.store(Out + rows[:, None] * D + d[None, :], acc / total[:, None], mask=rows[:, None] < S)


@triton.jit
def add(X, Y, Out, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < N
    tl.store(Out + i, tl.load(X + i, mask=inside) + tl.load(Y + i, mask=inside), mask=inside)


@triton.jit
def softmax_loops(X, Out, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    m = tl.full((BLOCK,), -1e38, dtype=tl.float32)
    for i in range(0, N, BLOCK):
        cols = i + tl.arange(0, BLOCK)
        m = tl.maximum(m, tl.load(X + row * N + cols, mask=cols < N, other=-1e38))
    largest = tl.max(m, axis=0)
    s = tl.zeros((BLOCK,), dtype=tl.float32)
    for i in range(0, N, BLOCK):
        cols = i + tl.arange(0, BLOCK)
        x = tl.load(X + row * N + cols, mask=cols < N, other=-float("inf"))
        s += tl.exp(x - largest)
    total = tl.sum(s, axis=0)
    for i in range(0, N, BLOCK):
        cols = i + tl.arange(0, BLOCK)
        mask = cols < N
        x = tl.load(X + row * N + cols, mask=mask)
        tl.store(Out + row * N + cols, tl.exp(x - largest) / total, mask=mask)


@triton.jit
def layernorm(X, Weight, Bias, Out, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    x = tl.load(X + row * N + cols, mask=mask, other=0.0)
    centred = tl.where(mask, x - tl.sum(x, axis=0) / N, 0.0)
    variance = tl.sum(centred * centred, axis=0) / N
    weight = tl.load(Weight + cols, mask=mask)
    bias = tl.load(Bias + cols, mask=mask)
    y = centred * tl.rsqrt(variance + eps) * weight + bias
    tl.store(Out + row * N + cols, y, mask=mask)


@triton.jit
def transpose(X, Out, M, N, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    x = tl.load(X + rows[:, None] * N + cols[None, :], mask=mask)
    mirrored = (cols[:, None] < N) & (rows[None, :] < M)
    tl.store(Out + cols[:, None] * M + rows[None, :], tl.trans(x), mask=mirrored)


@triton.jit
def histogram(X, Bins, low, width, N, BINS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < N
    x = tl.load(X + i, mask=inside, other=0.0)
    place = tl.floor((x - low) / width).to(tl.int32)
    tl.atomic_add(Bins + place, 1, mask=inside & (place >= 0) & (place < BINS))


@triton.jit
def argmax(X, Out, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(X + row * N + cols, mask=cols < N, other=-float("inf"))
    tl.store(Out + row, tl.argmax(x, axis=0))


@triton.jit
def matmul(A, B, C, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        ks = k + tl.arange(0, BLOCK_K)
        a_mask = (rows[:, None] < M) & (ks[None, :] < K)
        b_mask = (ks[:, None] < K) & (cols[None, :] < N)
        a = tl.load(A + rows[:, None] * K + ks[None, :], mask=a_mask, other=0.0)
        b = tl.load(B + ks[:, None] * N + cols[None, :], mask=b_mask, other=0.0)
        acc = tl.dot(a, b, acc)
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    tl.store(C + rows[:, None] * N + cols[None, :], acc, mask=mask)


@triton.jit
def flash_attention(Q, K, V, Out, S, scale, D: tl.constexpr, T: tl.constexpr):
    rows = tl.program_id(0) * T + tl.arange(0, T)
    d = tl.arange(0, D)
    q = tl.load(Q + rows[:, None] * D + d[None, :], mask=rows[:, None] < S, other=0.0)
    m = tl.full((T,), -1e30, dtype=tl.float32)
    total = tl.zeros((T,), dtype=tl.float32)
    acc = tl.zeros((T, D), dtype=tl.float32)
    for start in range(0, S, T):
        cols = start + tl.arange(0, T)
        k = tl.load(K + cols[:, None] * D + d[None, :], mask=cols[:, None] < S, other=0.0)
        v = tl.load(V + cols[:, None] * D + d[None, :], mask=cols[:, None] < S, other=0.0)
        scores = tl.dot(q, tl.trans(k)) * scale
        scores = tl.where(cols[None, :] < S, scores, -1e30)
        new = tl.maximum(m, tl.max(scores, axis=1))
        p = tl.exp(scores - new[:, None])
        rescale = tl.exp(m - new)
        total = total * rescale + tl.sum(p, axis=1)
        acc = acc * rescale[:, None] + tl.dot(p.to(v.dtype), v)
        m = new
    tl.store(Out + rows[:, None] * D + d[None, :], acc / total[:, None], mask=rows[:, None] < S)


def calls(sizes: dict[str, Any], block: int) -> dict[str, Callable[[], object]]:
    x, a, q = (torch.from_numpy(sizes[n]) for n in "xaq")
    rows, n = x.shape
    m, (s, d) = len(a), q.shape
    tiles = triton.cdiv(m, block)
    return {
        "softmax": lambda: softmax[(rows,)](x, torch.empty_like(x), n, BLOCK=n),
        "gemm": lambda: gemm[(tiles, tiles)](a, a, torch.empty_like(a), m, m, m, T=block),
        "attention": lambda: attention[(triton.cdiv(s, block),)](
            q, q, q, torch.empty_like(q), s, d**-0.5, D=d, T=block
        ),
    }
