"""Running sums of a long vector, at two levels: within blocks, then over the blocks.

Programs may not wait for each other, so what one needs of another takes another launch.

python examples/prefix_sum.py
"""

from __future__ import annotations

import numpy as np

import iris


@iris.kernel
def sum_blocks(X, Out, Totals, N, BLOCK: iris.constexpr):
    """The running sums within each block, and the sum of each block."""
    block = iris.program_id(0)
    i = block * BLOCK + iris.arange(0, BLOCK)
    x = iris.load(X + i, mask=i < N)
    iris.store(Out + i, iris.cumsum(x), mask=i < N)
    iris.store(Totals + block, iris.sum(x))


@iris.kernel
def sum_totals(Totals, COUNT, SIZE: iris.constexpr):
    """The sums of all blocks before each one, in place."""
    i = iris.arange(0, SIZE)
    x = iris.load(Totals + i, mask=i < COUNT)
    iris.store(Totals + i, iris.cumsum(x) - x, mask=i < COUNT)


@iris.kernel
def add_totals(Out, Totals, N, BLOCK: iris.constexpr):
    block = iris.program_id(0)
    i = block * BLOCK + iris.arange(0, BLOCK)
    x = iris.load(Out + i, mask=i < N)
    iris.store(Out + i, x + iris.load(Totals + block), mask=i < N)


def prefix_sum(x: np.ndarray, block: int = 256) -> np.ndarray:
    n = len(x)
    out = np.empty_like(x)
    blocks = iris.cdiv(n, block)
    totals = np.empty(blocks, x.dtype)
    sum_blocks[blocks](x, out, totals, n, BLOCK=block)
    sum_totals[1](totals, blocks, SIZE=iris.next_power_of_2(blocks))
    add_totals[blocks](out, totals, n, BLOCK=block)
    return out


def main() -> None:
    rng = np.random.default_rng(0)
    for dtype in (np.int32, np.float32, np.int64):
        for n in (4096, 10_001, 1):
            x = rng.integers(-100, 100, n).astype(dtype)
            out = prefix_sum(x)
            # Whole numbers below 2**24, so floats are exact in any order, too.
            assert (out == x.cumsum()).all()
            print(f"{x.dtype.name:7} {n:5} elements: the last sum is {out[-1]:.0f}, as in NumPy")

    totals = np.empty(1, x.dtype)
    print("\nThe time of each pass, in milliseconds:\n")
    for stage in sum_blocks.lower(x, out, totals, n, BLOCK=256, grid=1).stages[1:]:
        print(f"  {stage.name:14} {1000 * stage.seconds:.2f}")


if __name__ == "__main__":
    main()
