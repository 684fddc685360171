"""The tile interpreter beside Triton's, on the same programs in one run, in milliseconds.

Blocks of 64.  Triton's column needs `triton` and `torch` (a CPU build will do); without them only
ours is measured.  NumPy's time for the matrix products alone is shown apart: both interpreters
spend that.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"

import numpy as np

import iris
import report

BLOCK = 64


@iris.kernel
def softmax(X, Out, N, BLOCK: iris.constexpr):
    row = iris.program_id(0)
    cols = iris.arange(0, BLOCK)
    mask = cols < N
    x = iris.load(X + row * N + cols, mask=mask)
    e = iris.exp(x - iris.max(x))
    iris.store(Out + row * N + cols, e / iris.sum(e), mask=mask)


@iris.kernel
def gemm(A, B, C, M, N, K, T: iris.constexpr):
    i, j = iris.program_id(0) * T, iris.program_id(1) * T
    acc = iris.zeros((T, T))
    for k in iris.tile_range(0, K, T):
        a = iris.tile_load(A, i, k, K, (T, T))
        b = iris.tile_load(B, k, j, N, (T, T))
        acc = iris.dot(a, b, acc)
    iris.tile_store(C, i, j, N, acc)


@iris.kernel
def attention(Q, K, V, Out, S, scale, D: iris.constexpr, T: iris.constexpr):
    first = iris.program_id(0) * T
    q = iris.tile_load(Q, first, 0, D, (T, D))
    m = iris.full((T,), -1e30)
    total = iris.zeros((T,))
    acc = iris.zeros((T, D))
    for start in iris.tile_range(0, S, T):
        k = iris.tile_load(K, start, 0, D, (T, D))
        v = iris.tile_load(V, start, 0, D, (T, D))
        scores = iris.dot(q, k.T) * scale
        new = iris.maximum(m, iris.max(scores, axis=1))
        p = iris.exp(scores - new[:, None])
        rescale = iris.exp(m - new)
        total = total * rescale + iris.sum(p, axis=1)
        acc = acc * rescale[:, None] + iris.dot(p, v)
        m = new
    iris.tile_store(Out, first, 0, D, acc / total[:, None])


def ours(sizes: dict[str, Any]) -> dict[str, Callable[[], object]]:
    x, a, q = sizes["x"], sizes["a"], sizes["q"]
    rows, n = x.shape
    m, s, d = len(a), len(q), q.shape[1]
    tiles = iris.cdiv(m, BLOCK)
    return {
        "softmax": lambda: softmax[rows](x, np.empty_like(x), n, BLOCK=n),
        "gemm": lambda: gemm[tiles, tiles](a, a, np.empty_like(a), m, m, m, T=BLOCK),
        "attention": lambda: attention[iris.cdiv(s, BLOCK)](
            q, q, q, np.empty_like(q), s, d**-0.5, D=d, T=BLOCK
        ),
    }


def products(sizes: dict[str, Any]) -> dict[str, Callable[[], object]]:
    """The matrix products alone, block by block, as the programs make them."""
    a, q = sizes["a"], sizes["q"]
    rows = [a[i : i + BLOCK] for i in range(0, len(a), BLOCK)]
    keys = [q[i : i + BLOCK] for i in range(0, len(q), BLOCK)]

    def blocks_of_gemm() -> None:
        for x in rows:
            for j in range(0, len(a), BLOCK):
                for k in range(0, len(a), BLOCK):
                    x[:, k : k + BLOCK] @ a[k : k + BLOCK, j : j + BLOCK]

    def blocks_of_attention() -> None:
        for x in keys:
            for k in keys:
                (x @ k.T) @ k

    return {"gemm": blocks_of_gemm, "attention": blocks_of_attention}


def main() -> None:
    rng = np.random.default_rng(0)
    sizes = {
        "x": rng.standard_normal((256, 64)).astype(np.float32),
        "a": rng.standard_normal((256, 256)).astype(np.float32),
        "q": rng.standard_normal((512, 64)).astype(np.float32),
    }
    theirs: dict[str, Callable[[], object]] = {}
    if importlib.util.find_spec("triton") and importlib.util.find_spec("torch"):
        import triton_kernels

        theirs = triton_kernels.calls(sizes, BLOCK)
    rows: dict[str, dict[str, float]] = {}
    apart = products(sizes)
    for name, call in ours(sizes).items():
        call()  # compiles
        row = report.spread(report.measure(lambda _, call=call: call(), repeat=10), 1e-3)
        if name in apart:
            seconds = report.measure(lambda _, call=apart[name]: call(), repeat=10)
            row["numpy"] = report.spread(seconds, 1e-3)["median"]
        if name in theirs:
            theirs[name]()
            seconds = report.measure(lambda _, call=theirs[name]: call(), repeat=3)
            row["triton"] = report.spread(seconds, 1e-3)["median"]
            row["ratio"] = row["triton"] / row["median"]
        rows[name] = row
    print("milliseconds" + ("" if theirs else " (triton and torch are not installed)"))
    report.write("interp", rows)


if __name__ == "__main__":
    main()
