"""A matrix product with weights in int8, which each program makes floats of as it loads them.

python examples/int8_gemm.py
"""

from __future__ import annotations

import numpy as np

import iris


@iris.kernel
def int8_gemm(X, W, Scale, Out, M, N, K, GROUP: iris.constexpr, BLOCK: iris.constexpr):
    """X is (M, K); W is int8, (K, N); Scale is (K / GROUP, N): a scale for GROUP weights."""
    i = iris.program_id(0) * BLOCK
    j = iris.program_id(1) * BLOCK
    cols = j + iris.arange(0, BLOCK)
    acc = iris.zeros((BLOCK, BLOCK))
    for k in iris.tile_range(0, K, GROUP):
        scale = iris.load(Scale + k // GROUP * N + cols, mask=cols < N)
        x = iris.tile_load(X, i, k, K, (BLOCK, GROUP))
        w = iris.tile_load(W, k, j, N, (GROUP, BLOCK))
        # The product is of small whole numbers; the scale comes after it.
        acc = acc + iris.dot(x, w.to(x.dtype)) * scale
    iris.tile_store(Out, i, j, N, acc)


def quantised(w: np.ndarray, group: int) -> tuple[np.ndarray, np.ndarray]:
    """Weights as int8, and a scale for each group of rows, a power of two."""
    starts = np.arange(0, len(w), group)
    scale = np.exp2(np.ceil(np.log2(np.maximum.reduceat(abs(w), starts) / 127)))
    return np.round(w / scale.repeat(group, 0)[: len(w)]).astype(np.int8), scale.astype(np.float32)


def main() -> None:
    rng = np.random.default_rng(0)
    group, block = 32, 32
    for m, n, k in [(64, 64, 128), (30, 50, 70), (1, 3, 33)]:
        x = rng.integers(-3, 4, (m, k)).astype(np.float16)
        weights = rng.standard_normal((k, n))
        w, scale = quantised(weights, group)
        out = np.empty((m, n), np.float32)
        grid = iris.cdiv(m, block), iris.cdiv(n, block)
        int8_gemm[grid](x, w, scale, out, m, n, k, GROUP=group, BLOCK=block)

        wide = w.astype(float) * scale.repeat(group, 0)[:k]
        exact = x.astype(float) @ wide
        # Whole numbers times powers of two that are close to each other: every sum is exact.
        assert (out == exact).all()
        lost = abs(exact - x.astype(float) @ weights).max()
        print(f"{m:2} x {n:2} x {k:3}: exact; {lost:.2f} lost by storing the weights in int8")

    print("\nA kernel is specialised to the dtypes it is called with:\n")
    for dtype in (np.float16, np.float32):
        compilation = int8_gemm.lower(
            x.astype(dtype), w, scale, out, m, n, k, GROUP=group, BLOCK=block, grid=grid
        )
        for line in compilation.tile.splitlines():
            if "tile.dot" in line or " cast " in line:
                print(line.strip())
        print()


if __name__ == "__main__":
    main()
