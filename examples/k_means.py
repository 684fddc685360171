"""k-means in NumPy: points go to the nearest centre, centres to the mean of their points.

A step is two kernels. The first makes the nearest centre of each point: the differences of all
points from all centres are never in memory, nor are the distances. The second makes the sums of
the points of each centre as a product of matrices, the left of which says which point belongs to
which centre: its elements are compared where the product needs them, and it is not in memory
either. Between the two is what the caller asks for as well, the number of the centre of each point.

Adding up the points by `.at[nearest].add(points)` would do, too: what it adds to is in memory
before, and is read after, so that this makes more kernels, which is shown last.

python examples/k_means.py
"""

from __future__ import annotations

import numpy as np

import iris
from iris import nn


@iris.jit
def step(points, centres):
    """The centres moved, and the number of the centre of each point."""
    nearest = np.square(points[:, None] - centres).sum(axis=2).argmin(axis=1)
    belongs = nn.one_hot(nearest, len(centres))
    count = belongs.sum(axis=0)[:, None]
    mean = belongs.T @ points / np.maximum(count, 1)
    return np.where(count > 0, mean, centres), nearest


@iris.jit
def step_by_scatter(points, centres):
    nearest = np.square(points[:, None] - centres).sum(axis=2).argmin(axis=1)
    count = np.zeros_like(centres, shape=len(centres)).at[nearest].add(1)[:, None]
    mean = np.zeros_like(centres).at[nearest].add(points) / np.maximum(count, 1)
    return np.where(count > 0, mean, centres), nearest


def reference(points: np.ndarray, centres: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A step in float64, centre by centre."""
    distances = [((points - centre) ** 2).sum(axis=1) for centre in centres]
    nearest = np.argmin(distances, axis=0)
    groups = [points[nearest == i] for i in range(len(centres))]
    return np.array(
        [g.mean(0) if len(g) else c for g, c in zip(groups, centres, strict=True)]
    ), nearest


def main() -> None:
    rng = np.random.default_rng(0)
    for groups, size, each in [(5, 3, 40), (4, 2, 100)]:
        middles = 6.0 * np.stack([np.roll(np.arange(groups), i) for i in range(size)], axis=1)
        points = (middles[:, None] + rng.standard_normal((groups, each, size))).reshape(-1, size)
        points = points.astype(np.float32)
        # Buffers stay on the device from step to step. The first centres are all of one group.
        on_device, centres = iris.asarray(points), iris.asarray(points[:groups])
        expected = points[:groups].astype(float)
        before, steps = None, 0
        while before is None or (expected != before).any():
            before, steps = expected, steps + 1
            centres, nearest = step(on_device, centres)
            expected, expected_nearest = reference(points.astype(float), expected)
            assert (nearest.numpy() == expected_nearest).all()
            error = abs(centres.numpy() - expected).max() / abs(points).max()
            assert error < 1e-6
        print(f"{len(points)} points: the centres stay after {steps} steps, error {error:.1e}")

    by_scatter, nearest = step_by_scatter(points, centres.numpy())
    assert (nearest == expected_nearest).all()
    assert abs(by_scatter - expected).max() < 1e-6 * abs(points).max()

    for function in (step, step_by_scatter):
        compilation = function.lower(on_device, centres)
        print(f"\nThe kernels of {function.__name__}:\n")
        for kernel in compilation.kernels:
            print(f"  {kernel!r}")
        print()
        for boundary in compilation.why:
            print(f"  {boundary}")
    print(f"\nThe fused graph of step:\n\n{step.lower(on_device, centres).fused}")


if __name__ == "__main__":
    main()
