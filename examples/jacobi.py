"""Jacobi's method for the heat in a plate, in NumPy: each element becomes the mean of its four
neighbours and what heats it; beyond the edge it is 0.

What is padded and cut out again is no work, only where to look and whether that is inside. So a
step is one kernel. Two or three steps are one as well: each element of the first is made again for
each of its neighbours, which costs less than a launch and a round trip through memory. With more
steps in it a kernel would become too long, as is printed below.

python examples/jacobi.py
"""

from __future__ import annotations

import numpy as np

import iris


@iris.jit(static_argnames="steps")
def relax(u, heat, steps):
    for _ in range(steps):  # an ordinary loop, while the function is traced
        around = np.pad(u, 1)
        up, down = around[:-2, 1:-1], around[2:, 1:-1]
        left, right = around[1:-1, :-2], around[1:-1, 2:]
        u = (up + down + left + right + heat) * 0.25
    return u


def reference(u: np.ndarray, heat: np.ndarray, steps: int) -> np.ndarray:
    """The same in float64, as a product with a matrix for rows and one for columns."""
    rows, columns = (np.eye(n, k=1) + np.eye(n, k=-1) for n in u.shape)
    for _ in range(steps):
        u = (rows @ u + u @ columns + heat) / 4
    return u


def main() -> None:
    rng = np.random.default_rng(0)
    steps = 6
    for shape in [(64, 64), (37, 50), (1, 9)]:
        heat = rng.random(shape, np.float32)
        # A Buffer goes from call to call without leaving the device.
        u = iris.asarray(np.zeros(shape, np.float32))
        kept = iris.asarray(heat)
        for _ in range(3):
            u = relax(u, kept, steps)
        expected = reference(np.zeros(shape), heat, 3 * steps)
        error = abs(u.numpy() - expected).max() / expected.max()
        assert error < 1e-6
        print(f"{3 * steps} steps of {shape[0]} x {shape[1]}: error {error:.1e} of the greatest")

    u = heat = np.zeros((64, 64), np.float32)
    for steps in (1, 2, 6):
        compilation = relax.lower(u, heat, steps)
        assert len(compilation.kernels) <= iris.cdiv(steps, 2)
        print(f"\nThe kernels for steps={steps}:\n")
        for kernel in compilation.kernels:
            print(f"  {kernel!r}")
        for boundary in compilation.why:
            print(f"\n  {boundary}")
    print(f"\nTwo steps as a graph:\n\n{relax.lower(u, heat, 2).fused}")


if __name__ == "__main__":
    main()
