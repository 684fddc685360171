"""A multilayer perceptron in NumPy, as few kernels: one for each layer.

A layer is a product of matrices, and what follows it element by element goes on in the kernel that
makes the product: bias and ReLU after the first two, log-softmax, whose rows of 10 fit a program,
after the last. What a layer makes is written to memory, once: the next product needs each row of
it for every block of columns, and would make all of it again for each.

python examples/mlp.py
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

import iris
from iris import nn


@iris.jit
def mlp(x, layers):
    *hidden, last = layers  # a list of dicts: arguments are trees of arrays
    for layer in hidden:
        x = np.maximum(x @ layer["w"] + layer["b"], 0)
    return nn.log_softmax(x @ last["w"] + last["b"])


def reference(x: np.ndarray, layers: list[dict[str, np.ndarray]]) -> np.ndarray:
    """The same in float64."""
    x = x.astype(float)
    for layer in layers[:-1]:
        x = np.maximum(x @ layer["w"] + layer["b"], 0)
    x = x @ layers[-1]["w"] + layers[-1]["b"]
    return x - np.log(np.exp(x).sum(1, keepdims=True))


def main() -> None:
    rng = np.random.default_rng(0)
    sizes = [72, 128, 100, 10]
    layers = []
    for n, m in pairwise(sizes):
        w = rng.standard_normal((n, m)) / np.sqrt(n)
        layers.append({"w": w.astype(np.float32), "b": rng.random(m).astype(np.float32)})
    for batch in (64, 33, 1):
        x = rng.standard_normal((batch, sizes[0])).astype(np.float32)
        expected = reference(x, layers)
        error = abs(mlp(x, layers) - expected).max() / abs(expected).max()
        assert error < 1e-6  # float32 has 6e-8, and sums of 128 lose some of that
        print(f"{batch:2} rows: error {error:.1e} of the greatest")

    # Weights that are Buffers stay on the device; then the result is a Buffer, too.
    kept = [{name: iris.asarray(array) for name, array in layer.items()} for layer in layers]
    assert isinstance(mlp(x, kept), iris.Buffer)

    compilation = mlp.lower(rng.random((64, 72), np.float32), layers)
    print("\nThe kernels for 64 rows:\n")
    for kernel in compilation.kernels:
        print(f"  {kernel!r}")
    print("\nWhat goes through memory between them, and why:\n")
    for boundary in compilation.why:
        print(f"  {boundary}")
    print(f"\nThe last of them computes\n\n{compilation.kernels[-1].graph}")


if __name__ == "__main__":
    main()
