"""Transpose a matrix tile by tile: each program reads one block and writes it to its mirror place.

python examples/transpose.py
"""

from __future__ import annotations

import numpy as np

import iris


@iris.kernel
def transpose(X, Out, M, N, BLOCK: iris.constexpr):
    i = iris.program_id(0) * BLOCK
    j = iris.program_id(1) * BLOCK
    x = iris.tile_load(X, i, j, N, (BLOCK, BLOCK))
    iris.tile_store(Out, j, i, M, x.T)


def main() -> None:
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.float16, np.int8):
        for m, n in [(64, 128), (50, 33), (1, 70)]:
            x = rng.integers(-100, 100, (m, n)).astype(dtype)
            out = np.empty((n, m), dtype)
            transpose[iris.cdiv(m, 32), iris.cdiv(n, 32)](x, out, m, n, BLOCK=32)
            assert (out == x.T).all()  # nothing is computed: the elements are the same
            print(f"{x.dtype.name:8} {m:2} x {n:3}: equal to NumPy")

    # The arrays are two-dimensional, so tile_load knows their bounds: the sizes of the array
    # are passed with each launch.
    compilation = transpose.lower(x, out, m, n, BLOCK=32, grid=(1, 3))
    print(f"\nThe kernel for int8, in Metal:\n\n{compilation}")


if __name__ == "__main__":
    main()
