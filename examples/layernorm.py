"""Layer normalisation of each row, with weight and bias.

python examples/layernorm.py
"""

from __future__ import annotations

import numpy as np

import iris


@iris.kernel
def layernorm(X, Weight, Bias, Out, N, eps, BLOCK: iris.constexpr):
    row = iris.program_id(0)
    cols = iris.arange(0, BLOCK)
    mask = cols < N
    x = iris.load(X + row * N + cols, mask=mask)
    mean = iris.sum(x) / N
    centred = x - mean  # in a masked lane, too: it does not count in the next sum
    variance = iris.sum(centred * centred) / N
    weight = iris.load(Weight + cols, mask=mask)
    bias = iris.load(Bias + cols, mask=mask)
    y = centred * iris.rsqrt(variance + eps) * weight + bias
    iris.store(Out + row * N + cols, y, mask=mask)


def main() -> None:
    rng = np.random.default_rng(0)
    eps = 1e-5
    for rows, n in [(8, 512), (5, 300), (3, 1)]:
        x = rng.standard_normal((rows, n)).astype(np.float32)
        weight, bias = rng.standard_normal((2, n)).astype(np.float32)
        out = np.empty_like(x)
        block = iris.next_power_of_2(n)
        layernorm[rows](x, weight, bias, out, n, eps, BLOCK=block)

        wide = x.astype(float)
        mean = wide.mean(1, keepdims=True)
        r = 1 / np.sqrt(wide.var(1, keepdims=True) + eps)
        z = (wide - mean) * r
        expected = z * weight + bias
        # In units of a float32 rounding: the mean is off by n of the mean of |x|, the variance
        # by n + 5 of itself and so its root by half of that; each other step by 1 or 2.
        size = abs(z) + abs(wide).mean(1, keepdims=True) * r
        bound = (n + 10) * 2.0**-24 * (size * abs(weight) + abs(bias))
        error = abs(out - expected)
        assert (error <= bound).all()
        print(f"{rows} rows of {n:3}: error {error.max():.1e}, bound {bound.max():.1e}")

    # What each pass did: `stages` holds the IR after every one.
    print("\nThe stages of this kernel:\n")
    for stage in layernorm.lower(x, weight, bias, out, n, eps, BLOCK=block, grid=rows).stages:
        ops = len(stage.text.splitlines())
        what = "" if stage.changed else "  no change"
        print(f"  {stage.name:20} {stage.level.value:6} {ops:3} lines{what}")


if __name__ == "__main__":
    main()
