"""A matrix product whose epilogue adds a bias and applies GELU, in one kernel.

python examples/gemm_bias_gelu.py
"""

from __future__ import annotations

import math

import numpy as np

import iris


def gelu(x):
    """A helper is an ordinary function: it is traced where it is called."""
    return 0.5 * x * (1.0 + iris.erf(x * math.sqrt(0.5)))


@iris.kernel
def gemm_bias_gelu(
    A,
    B,
    Bias,
    C,
    M,
    N,
    K,
    scale,
    BLOCK_M: iris.constexpr,
    BLOCK_N: iris.constexpr,
    BLOCK_K: iris.constexpr,
):
    pid_m = iris.program_id(0)
    pid_n = iris.program_id(1)
    acc = iris.zeros((BLOCK_M, BLOCK_N), dtype="f32")
    for k in iris.tile_range(0, K, BLOCK_K):
        a = iris.tile_load(A, pid_m * BLOCK_M, k, K, (BLOCK_M, BLOCK_K))
        b = iris.tile_load(B, k, pid_n * BLOCK_N, N, (BLOCK_K, BLOCK_N))
        acc = iris.dot(a, b, acc)
    cols = pid_n * BLOCK_N + iris.arange(0, BLOCK_N)
    bias = iris.load(Bias + cols, mask=cols < N)
    c = gelu(acc * scale + bias)
    iris.tile_store(C, pid_m * BLOCK_M, pid_n * BLOCK_N, N, c, (BLOCK_M, BLOCK_N))


def main() -> None:
    rng = np.random.default_rng(0)
    blocks = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 16}
    scale = 1 / 16
    for m, n, k in [(64, 64, 64), (50, 70, 33), (1, 5, 100)]:
        a = rng.integers(-2, 3, (m, k)).astype(np.float16)
        b = rng.integers(-2, 3, (k, n)).astype(np.float16)
        bias = rng.integers(-1, 2, n).astype(np.float32)
        c = np.empty((m, n), np.float32)
        grid = iris.cdiv(m, 32), iris.cdiv(n, 32)
        gemm_bias_gelu[grid](a, b, bias, c, m, n, k, scale, **blocks)

        # Up to here all is exact: small integers, and a scale that is a power of two.
        x = (a.astype(float) @ b.astype(float)) * scale + bias
        expected = 0.5 * x * (1 + np.vectorize(math.erf)(x * math.sqrt(0.5)))
        # In units of a float32 rounding of |x|: the argument of erf and erf itself 1 each, the
        # sum 1, the products 1 each.
        bound = 8 * 2.0**-24 * abs(x)
        error = abs(c - expected)
        assert (error <= bound).all()
        print(f"{m:2} x {n:2} x {k:3}: error {error.max():.1e}, bound {bound.max():.1e}")

    compilation = gemm_bias_gelu.lower(a, b, bias, c, m, n, k, scale, **blocks, grid=grid)
    print("\nThe loop, as it is in the Tile IR, and what erf is applied to:\n")
    for line in compilation.tile.splitlines():
        if any(word in line for word in (" for ", "load_tile", "dot", "yield", " erf ")):
            print(line)


if __name__ == "__main__":
    main()
