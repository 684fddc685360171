"""Add two vectors: the smallest kernel, its Tile IR, and a launch.

python examples/vector_add.py
"""

from __future__ import annotations

import numpy as np

import iris


@iris.kernel
def vector_add(X, Y, Out, N, BLOCK: iris.constexpr):
    i = iris.program_id(0) * BLOCK + iris.arange(0, BLOCK)
    inside = i < N
    x = iris.load(X + i, mask=inside)
    y = iris.load(Y + i, mask=inside)
    iris.store(Out + i, x + y, mask=inside)


def main() -> None:
    rng = np.random.default_rng(0)
    for n in (1024, 1000, 1):
        x, y = rng.standard_normal((2, n), np.float32)
        out = np.empty_like(x)
        vector_add[iris.cdiv(n, 256)](x, y, out, n, BLOCK=256)
        # Each sum is rounded once, here and in NumPy: the results are the same.
        assert (out == x + y).all()
        print(f"{n:5} elements, {iris.cdiv(n, 256)} programs of 256: equal to NumPy")

    # `lower` stops before running. It gives a Compilation, which prints as Metal and can be run.
    compilation = vector_add.lower(x, y, out, n, BLOCK=256, grid=1)
    print(f"\nThe kernel for float32 arrays and BLOCK=256, in Metal:\n\n{compilation}")
    out[:] = 0
    compilation.run(x, y, out, n, BLOCK=256)
    assert (out == x + y).all()


if __name__ == "__main__":
    main()
