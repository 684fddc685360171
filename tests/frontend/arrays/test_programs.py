"""Whole programs as a user writes them: traced, they give what NumPy gives in 64 bits."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from iris import nn
from tracing_arrays import agrees, compute, numbers, reals, same


def mlp(x: Any, layers: Any) -> Any:
    *hidden, (w, b) = layers
    for weight, bias in hidden:
        x = np.maximum(x @ weight + bias, 0)
    return nn.log_softmax(x @ w + b)


def test_mlp() -> None:
    sizes = [7, 16, 16, 5]
    layers = [
        (reals((n, m), seed=n) / np.float32(4), reals((m,), seed=m)) for n, m in pairwise(sizes)
    ]
    wide = [(w.astype(float), b.astype(float)) for w, b in layers]
    x = reals((6, 7))
    same(compute(mlp, x, layers), mlp(x.astype(float), wide), near=2e-6)


def transformer_block(x: Any, p: Any, heads: int) -> Any:
    batch, places, width = x.shape
    h = nn.layer_norm(x, p["norm1"])
    q, k, v = (
        part.reshape(batch, places, heads, width // heads).transpose(0, 2, 1, 3)
        for part in np.split(h @ p["qkv"], 3, axis=-1)
    )
    found = nn.attention(q, k, v, causal=True).transpose(0, 2, 1, 3).reshape(x.shape)
    x = x + found @ p["out"]
    return x + nn.gelu(nn.rms_norm(x, p["norm2"]) @ p["up"]) @ p["down"]


def test_transformer_block() -> None:
    width = 12
    shapes = {
        "norm1": (width,),
        "qkv": (width, 3 * width),
        "out": (width, width),
        "norm2": (width,),
        "up": (width, 4 * width),
        "down": (4 * width, width),
    }
    p = {name: reals(shape) / np.float32(4) for name, shape in shapes.items()}
    x = reals((2, 5, width))
    found = compute(transformer_block, x, p, heads=3)
    wide = {name: w.astype(float) for name, w in p.items()}
    same(found, transformer_block(x.astype(float), wide, 3), near=2e-6)


def k_means_step(points: Any, centres: Any) -> Any:
    apart = points[:, None, :] - centres[None, :, :]
    nearest = np.argmin(np.sum(apart**2, axis=-1), axis=1)
    members = nn.one_hot(nearest, centres.shape[0])
    counts = members.sum(axis=0)
    means = members.T @ points / np.maximum(counts, 1)[:, None]
    return nearest, np.where(counts[:, None] > 0, means, centres)


def k_means_by_scattering(points: Any, centres: Any) -> Any:
    nearest = np.argmin(np.linalg.norm(points[:, None] - centres, axis=-1), axis=1)
    sums = np.zeros_like(centres).at[nearest].add(points)
    counts = np.zeros(len(centres), np.int32, like=points).at[nearest].add(1)
    return sums / np.maximum(counts, 1)[:, None]


def test_k_means() -> None:
    points, centres = reals((50, 3)), reals((4, 3), seed=1)
    agrees(k_means_step, points, centres, near=1e-6)
    _, means = k_means_step(points, centres)
    nearest = compute(lambda p, c: k_means_step(p, c)[0], points, centres)
    found = compute(k_means_by_scattering, points, centres)
    members = np.isin(np.arange(4), nearest)
    same(found[members], means[members], near=1e-6)


def jacobi(u: Any, source: Any, rounds: int = 3) -> Any:
    for _ in range(rounds):
        inner = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
        u = np.pad(inner - source[1:-1, 1:-1], 1)
    return u


def jacobi_in_place(u: Any, source: Any) -> Any:
    inner = (slice(1, -1), slice(1, -1))
    for _ in range(3):
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        u = u.at[inner].set(0.25 * around - source[inner])
    return u


def test_jacobi() -> None:
    u, source = np.pad(reals((8, 9)), 1), reals((10, 11), seed=1)
    agrees(jacobi, u, source, near=1e-6)
    same(compute(jacobi_in_place, u, source), jacobi(u.astype(float), source), near=1e-6)


def black_scholes(spot: Any, strike: Any, years: Any, rate: Any, volatility: Any) -> Any:
    def below(x: Any) -> Any:
        return 0.5 * (1.0 + nn.erf(x / np.sqrt(2)))

    spread = volatility * np.sqrt(years)
    d1 = (np.log(spot / strike) + (rate + volatility**2 / 2) * years) / spread
    discounted = strike * np.exp(-rate * years)
    call = spot * below(d1) - discounted * below(d1 - spread)
    return call, call - spot + discounted


def test_black_scholes() -> None:
    random = np.random.default_rng(0)
    spot, strike, years = (random.uniform(*ends, 100) for ends in ((80, 120), (80, 120), (0.1, 2)))
    arguments = [x.astype(np.float32) for x in (spot, strike, years)]
    found = compute(black_scholes, *arguments, 0.03, 0.2)
    same(found, black_scholes(*[x.astype(float) for x in arguments], 0.03, 0.2), near=1e-6)


def mandelbrot(width: int, height: int, rounds: int, like: Any) -> Any:
    x, y = np.meshgrid(np.linspace(-2, 0.5, width), np.linspace(-1.25, 1.25, height))
    a, b = np.zeros_like(like), np.zeros_like(like)
    steps = np.zeros_like(like, dtype=np.int32)
    for _ in range(rounds):
        a, b = a * a - b * b + x, 2 * a * b + y
        inside = a * a + b * b <= 4.0
        a, b = np.where(inside, a, 3.0), np.where(inside, b, 0.0)
        steps = steps + inside
    return steps


def test_mandelbrot() -> None:
    like = np.zeros((16, 20), np.float32)
    found = compute(lambda like: mandelbrot(20, 16, 12, like), like)
    expected = mandelbrot(20, 16, 12, like.astype(float))
    # Where the border is passed depends on the last bit.
    assert (found == expected).mean() > 0.98


def conv_block(x: Any, p: Any) -> Any:
    h = nn.conv2d(x, p["w1"], p["b1"], padding="same")
    mean, var = h.mean(axis=(0, 2, 3), keepdims=True), h.var(axis=(0, 2, 3), keepdims=True)
    h = nn.relu((h - mean) / np.sqrt(var + 1e-5))
    h = nn.conv2d(h, p["w2"], stride=2, padding=1, groups=2)
    pooled = h.reshape(*h.shape[:2], -1).max(axis=-1)
    return pooled @ p["head"]


def test_conv_block() -> None:
    shapes = {"w1": (4, 3, 3, 3), "b1": (4,), "w2": (6, 2, 3, 3), "head": (6, 5)}
    p = {name: reals(shape) for name, shape in shapes.items()}
    x = reals((2, 3, 8, 8))
    wide = {name: w.astype(float) for name, w in p.items()}
    same(compute(conv_block, x, p), conv_block(x.astype(float), wide), near=4e-6)


def sum_of_squares(x: Any) -> Any:
    return (x**2).sum()


PLAIN: list[Callable[..., Any]] = [
    lambda x: (x - x.mean(axis=0)) / (x.std(axis=0) + 1e-6),
    lambda x: np.exp(x - x.max(axis=1, keepdims=True)).sum(axis=1),
    lambda x: np.einsum("ij,kj->ik", x, x) / np.sqrt(x.shape[1]),
    lambda x: np.sqrt(((x[:, None] - x[None]) ** 2).sum(-1)),
    lambda x: np.where(np.tril(np.ones((4, 4), bool)), x @ x.T, -np.inf),
    lambda x: np.cumsum(x, axis=0)[:, ::-1] * np.arange(x.shape[1]),
    lambda x: np.stack([sum_of_squares(row) for row in x]),
    lambda x: np.concatenate([x[1:], x[:1]]) - np.roll(x, -1, axis=0),
    lambda x: np.clip(np.round(x * 127 / np.abs(x).max()), -128, 127).astype(np.int8),
    lambda x: np.linalg.norm(x, axis=1) > np.median([1.0, 2.0, 3.0]),
    lambda x: x[np.argsort([3, 1, 2, 0])].T.reshape(-1)[::2],
    lambda x: np.select([x < -1, x > 1], [-1, 1], x) ** 3,
    lambda x: np.polynomial.polynomial.polyval(0.5, [1, 2, 3]) * x,
    lambda x: x.T @ np.linspace(0, 1, 4) + np.array([1, 2, 3]),
]


@pytest.mark.parametrize("function", PLAIN, ids=range(len(PLAIN)))
def test_lines_that_users_write(function: Callable[..., Any]) -> None:
    agrees(function, reals((4, 3)), near=1e-6, ulps=4)


def test_numbers_of_a_dtype_stay_of_it() -> None:
    def function(x: Any, rate: Any) -> Any:
        y = x * rate + 0.5
        y = nn.silu(y) / np.sqrt(x.shape[-1])
        return y - y.mean(axis=-1, keepdims=True) * 2

    for dtype in (np.float16, np.float32):
        assert compute(function, numbers((3, 4), dtype), 0.1).dtype == dtype
