"""Count values in bins: programs add to the same elements, so they do it by atomics.

python examples/histogram.py
"""

from __future__ import annotations

import numpy as np

import iris


@iris.kernel
def histogram(X, Bins, low, width, N, BINS: iris.constexpr, BLOCK: iris.constexpr):
    i = iris.program_id(0) * BLOCK + iris.arange(0, BLOCK)
    x = iris.load(X + i, mask=i < N)
    place = iris.floor((x - low) / width).to(iris.i32)
    inside = (place >= 0) & (place < BINS)
    # `x` is masked beyond N, so `place` is, and so is this: nothing is counted there.
    iris.atomic_add(Bins + place, 1, mask=inside)


@iris.kernel
def extremes(X, Out, N, BLOCK: iris.constexpr):
    """The least and the greatest element: one atomic per program, not one per element."""
    i = iris.program_id(0) * BLOCK + iris.arange(0, BLOCK)
    x = iris.load(X + i, mask=i < N)
    iris.atomic_min(Out, iris.min(x))
    iris.atomic_max(Out + 1, iris.max(x))


def main() -> None:
    rng = np.random.default_rng(0)
    bins, block = 20, 256
    for n in (4096, 3000, 1):
        # Multiples of 1/8 and a width of 1/2: the bin of each is exact.
        x = (rng.normal(0, 16, n).round() / 8).astype(np.float32)
        counts = np.zeros(bins, np.int32)
        grid = iris.cdiv(n, block)
        histogram[grid](x, counts, -5.0, 0.5, n, BINS=bins, BLOCK=block)
        places = np.floor((x + 5) / 0.5).astype(int)
        inside = places[(places >= 0) & (places < bins)]
        assert (counts == np.bincount(inside, minlength=bins)).all()

        eighths = (8 * x).astype(np.int32)
        ends = np.array([2**31 - 1, -(2**31)], np.int32)
        extremes[grid](eighths, ends, n, BLOCK=block)
        assert (ends == [eighths.min(), eighths.max()]).all()
        low, high = ends / 8
        print(f"{n:4} elements from {low} to {high}: {counts.sum()} in the bins, equal to NumPy")
        if n == 3000:
            for left, count in zip(np.arange(-5, 5, 0.5), counts, strict=True):
                print(f"  {left:4} {'#' * (count // 10)}")

    compilation = histogram.lower(x, counts, -5.0, 0.5, n, BINS=bins, BLOCK=8, grid=1)
    print("\nHow follow-masks keeps what is beyond N out of the bins:\n")
    print(compilation.diff("follow-masks"))


if __name__ == "__main__":
    main()
