"""The Mandelbrot set in NumPy: in how many rounds of `z = z * z + c` z leaves a circle.

A function of arrays has no loop of its own: a Python `for` runs while it is traced, and what it
does is in the graph as often as it goes round. All rounds of a call are one kernel, since they are
elementwise; z is carried from call to call in Buffers, which stay on the device. So a call has only
as many rounds as pay: its kernel loads z and stores it once for all of them, and takes the longer
to compile the more there are.

The points c are no arrays in memory: `np.arange` of known numbers is a `graph.iota`, the place
itself, and what is shown is chosen by numbers, so that to move and to zoom needs no other kernel.

python examples/mandelbrot.py
"""

from __future__ import annotations

import numpy as np

import iris

ROUNDS = 8  # of a call
LIMIT = 4.0  # the square of the circle's radius


@iris.jit
def advance(x, y, count, centre, step):
    """Where each z is some rounds later, if it has not left, and in how many it had not."""
    rows, columns = count.shape
    a = centre[0] + (np.arange(columns) - columns // 2) * step
    b = centre[1] + (np.arange(rows) - rows // 2)[:, None] * step
    for _ in range(ROUNDS):
        inside = x * x + y * y <= LIMIT
        count = count + inside
        x, y = np.where(inside, x * x - y * y + a, x), np.where(inside, 2 * x * y + b, y)
    return x, y, count


def mandelbrot(
    shape: tuple[int, int], centre: tuple[float, float], step: float, calls: int
) -> np.ndarray:
    zeros = np.zeros(shape, np.float32)
    x, y, count = (iris.asarray(a) for a in (zeros, zeros, zeros.astype(np.int32)))
    for _ in range(calls):
        x, y, count = advance(x, y, count, centre, step)
    return count.numpy()


def reference(
    shape: tuple[int, int], centre: tuple[float, float], step: float, rounds: int
) -> tuple[np.ndarray, np.ndarray]:
    """The counts in float64, and where float32 is sure to count the same."""
    rows, columns = shape
    a = centre[0] + (np.arange(columns) - columns // 2) * step
    b = centre[1] + (np.arange(rows) - rows // 2) * step
    c = a + 1j * b[:, None]
    unit = 2.0**-22  # a few roundings of numbers near 1
    z, count = np.zeros_like(c), np.zeros(shape, int)
    off, sure = np.zeros(shape), np.ones(shape, bool)
    for _ in range(rounds):
        size = abs(z)
        inside = size**2 <= LIMIT
        sure &= (off < 1) & (abs(size**2 - LIMIT) > 2 * size * off + off**2 + 8 * unit)
        # A square is off by twice as much as what is squared, as many times as that is large.
        more = 2 * size * off + off**2 + unit * (1 + size**2 + abs(c))
        off = np.minimum(np.where(inside, more, off), 1)
        z, count = np.where(inside, z * z + c, z), count + inside
    return count, sure


def main() -> None:
    calls = 5
    for shape, centre, step in [((24, 64), (-0.6, 0.0), 0.05), ((17, 30), (-0.75, 0.1), 0.01)]:
        count = mandelbrot(shape, centre, step, calls)
        expected, sure = reference(shape, centre, step, calls * ROUNDS)
        assert (count == expected)[sure].all()
        assert sure.mean() > 0.9
        print(f"{shape[1]} x {shape[0]}: equal at all {sure.sum()} points that are sure")
    count = mandelbrot((24, 64), (-0.6, 0.0), 0.05, calls)
    for line in count:
        print("".join(" .:-=+*%#"[min(8, n // 2)] if n < calls * ROUNDS else "@" for n in line))

    zeros = np.zeros((24, 64), np.float32)
    compilation = advance.lower(zeros, zeros, zeros.astype(np.int32), (-0.6, 0.0), 0.05)
    print("\nThe kernel of a call:\n")
    for kernel in compilation.kernels:
        print(f"  {kernel!r}")
    print(f"\nIts first lines:\n\n{''.join(compilation.fused.splitlines(keepends=True)[:30])}")


if __name__ == "__main__":
    main()
