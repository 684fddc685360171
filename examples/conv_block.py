"""A convolutional block in NumPy: convolution, bias, norm, ReLU, and what came in once more.

With a norm by statistics that are known, as of a trained network, all of it is one kernel: the
convolution is a product of matrices, one of which is read from the images where they are, and the
rest is elementwise.

With a norm by the statistics of each channel of each image, there are two: no element can be
normalised before all of its channel is there, and to make a channel again for each block of its
elements would be the convolution over and over. How often is in what is printed below.

python examples/conv_block.py
"""

from __future__ import annotations

import numpy as np

import iris
from iris import nn


@iris.jit
def block(x, w, bias, scale, shift):
    """Statistics of each channel of each image."""
    h = nn.conv2d(x, w, bias, padding="same")
    centred = h - h.mean(axis=(2, 3), keepdims=True)
    variance = np.square(centred).mean(axis=(2, 3), keepdims=True)
    h = centred / np.sqrt(variance + 1e-5) * scale[:, None, None] + shift[:, None, None]
    return x + np.maximum(h, 0)


@iris.jit
def trained_block(x, w, bias, scale, shift, mean, variance):
    """Statistics of each channel that are known."""
    h = nn.conv2d(x, w, bias, padding="same")
    factor = scale / np.sqrt(variance + 1e-5)
    h = (h - mean[:, None, None]) * factor[:, None, None] + shift[:, None, None]
    return x + np.maximum(h, 0)


def reference(x: np.ndarray, w: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """The convolution and the bias in float64: for each place in a filter a product of matrices."""
    rows, columns = x.shape[2:]
    around = np.pad(x.astype(float), ((0, 0), (0, 0), (1, 1), (1, 1)))
    total = bias[:, None, None] + np.zeros((len(x), len(w), rows, columns))
    for i in range(3):
        for j in range(3):
            part = around[:, :, i : i + rows, j : j + columns]
            total += np.einsum("oc,bcij->boij", w[:, :, i, j], part)
    return total


def main() -> None:
    rng = np.random.default_rng(0)
    for images, channels, rows, columns in [(1, 8, 9, 13), (2, 16, 12, 12)]:
        x = rng.standard_normal((images, channels, rows, columns)).astype(np.float32)
        w = (rng.standard_normal((channels, channels, 3, 3)) / channels).astype(np.float32)
        bias, scale, shift, mean = rng.standard_normal((4, channels)).astype(np.float32)
        variance = rng.uniform(0.5, 2, channels).astype(np.float32)

        h = reference(x, w, bias)
        centred = h - h.mean((2, 3), keepdims=True)
        h_own = centred / np.sqrt(h.var((2, 3), keepdims=True) + 1e-5)
        h_known = (h - mean[:, None, None]) / np.sqrt(variance + 1e-5)[:, None, None]
        for function, normed, made in [
            (block, h_own, block(x, w, bias, scale, shift)),
            (trained_block, h_known, trained_block(x, w, bias, scale, shift, mean, variance)),
        ]:
            expected = x + np.maximum(normed * scale[:, None, None] + shift[:, None, None], 0)
            error = abs(made - expected).max() / abs(expected).max()
            assert error < 1e-6
            shape = " x ".join(map(str, x.shape))
            print(f"{function.__name__:13} of {shape}: error {error:.1e} of the greatest")

    for function, arguments, kernels in [
        (trained_block, (x, w, bias, scale, shift, mean, variance), 1),
        (block, (x, w, bias, scale, shift), 2),
    ]:
        compilation = function.lower(*arguments)
        assert len(compilation.kernels) == kernels
        print(f"\nThe kernels of {function.__name__}:\n")
        for kernel in compilation.kernels:
            print(f"  {kernel!r}")
        for boundary in compilation.why:
            print(f"\n  {boundary}")
        print(f"\n{compilation.fused}")


if __name__ == "__main__":
    main()
