"""Softmax of each row, in two ways: the row as one tile, and the row block by block.

Both load ragged rows with a mask and no `other=`, so masked elements do not count: in the
maximum, nor in the sum. The pass `follow-masks` sees to that; what it does is printed.

python examples/softmax.py
"""

from __future__ import annotations

import numpy as np

import iris


@iris.kernel
def softmax_one_pass(X, Out, N, BLOCK: iris.constexpr):
    """For rows that fit in one tile."""
    row = iris.program_id(0)
    cols = iris.arange(0, BLOCK)
    mask = cols < N
    x = iris.load(X + row * N + cols, mask=mask)
    e = iris.exp(x - iris.max(x))
    iris.store(Out + row * N + cols, e / iris.sum(e), mask=mask)


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


def reference(x: np.ndarray) -> np.ndarray:
    e = np.exp(x.astype(float) - x.max(1, keepdims=True).astype(float))
    return e / e.sum(1, keepdims=True)


def main() -> None:
    rng = np.random.default_rng(0)
    for rows, n in [(8, 256), (5, 300), (3, 7)]:
        x = rng.standard_normal((rows, n)).astype(np.float32)
        expected = reference(x)
        # Relative to each element, in units of a float32 rounding: x - m is off by 1, which
        # exp makes (max - min); exp itself by 4; a sum of n by n; the quotient by 1.
        bound = (np.ptp(x) + 4 + np.ptp(x) + 4 + n + 1) * 2.0**-24
        for kernel, block in [(softmax_one_pass, iris.next_power_of_2(n)), (softmax, 64)]:
            out = np.empty_like(x)
            kernel[rows](x, out, n, BLOCK=block)
            error = (abs(out - expected) / expected).max()
            assert error <= bound
            name = kernel.__name__
            print(f"{name:16} {rows} rows of {n:3}: error {error:.1e}, bound {bound:.1e}")

    compilation = softmax_one_pass.lower(x, out, n, BLOCK=8, grid=rows)
    print("\nWhat follow-masks does to the one-pass kernel:\n")
    print(compilation.diff("follow-masks"))


if __name__ == "__main__":
    main()
