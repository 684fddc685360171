"""A transformer's block in NumPy: norm, causal attention of several heads, norm, a perceptron.

What five kernels make of it, as printed below:

- the first norm and the product that makes queries, keys and values: the norm of a row goes with
  the rows of the product that need it;
- the scores of the places that a query may see, their softmax and what it finds among the values.
  Taking queries, keys and values apart, and their heads, is no work: the products read them where
  they are. The scores of a block of queries stay in registers;
- the product over all heads, which reads them next to each other, and the sum with what came in;
- the second norm, the first product of the perceptron, and GELU;
- the second product, and the sum with what was there before the norm.

What keeps them apart is always the same: a product needs each row of its left matrix for every
block of columns, so that a product which is made there would be made again and again.

python examples/transformer_block.py
"""

from __future__ import annotations

import math

import numpy as np

import iris
from iris import nn


@iris.jit(static_argnames="heads")
def block(x, p, heads):
    batch, places, size = x.shape
    h = nn.layer_norm(x, p["norm1"], p["shift1"])
    qkv = (h @ p["qkv"]).reshape(batch, places, 3, heads, size // heads)
    q, k, v = np.moveaxis(qkv, 2, 0).swapaxes(2, 3)  # batch, heads, places, features
    found = nn.attention(q, k, v, causal=True).swapaxes(1, 2).reshape(x.shape)
    x = x + found @ p["out"]
    h = nn.layer_norm(x, p["norm2"], p["shift2"])
    return x + nn.gelu(h @ p["up"] + p["up_bias"]) @ p["down"] + p["down_bias"]


def reference(batch: np.ndarray, p: dict[str, np.ndarray], heads: int) -> np.ndarray:
    """The same in float64, head by head."""

    def norm(x: np.ndarray, number: int) -> np.ndarray:
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
        return x * p[f"norm{number}"] + p[f"shift{number}"]

    results = []
    for x in batch.astype(float):
        q, k, v = np.split(norm(x, 1) @ p["qkv"], 3, axis=1)
        found = []
        for i in range(heads):
            of_head = slice(i * len(q[0]) // heads, (i + 1) * len(q[0]) // heads)
            scores = q[:, of_head] @ k[:, of_head].T / math.sqrt(len(q[0]) // heads)
            scores[np.triu_indices(len(x), 1)] = -np.inf
            shares = np.exp(scores)
            found.append(shares / shares.sum(1, keepdims=True) @ v[:, of_head])
        x = x + np.hstack(found) @ p["out"]
        h = norm(x, 2) @ p["up"] + p["up_bias"]
        h = h * 0.5 * (1 + np.vectorize(math.erf)(h * math.sqrt(0.5)))
        results.append(x + h @ p["down"] + p["down_bias"])
    return np.array(results)


def parameters(size: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    shapes = {
        "norm1": (size,),
        "shift1": (size,),
        "qkv": (size, 3 * size),
        "out": (size, size),
        "norm2": (size,),
        "shift2": (size,),
        "up": (size, 4 * size),
        "up_bias": (4 * size,),
        "down": (4 * size, size),
        "down_bias": (size,),
    }
    return {
        name: (rng.standard_normal(shape) / math.sqrt(shape[0])).astype(np.float32)
        for name, shape in shapes.items()
    }


def main() -> None:
    rng = np.random.default_rng(0)
    heads = 4
    for batch, places, size in [(2, 32, 64), (1, 27, 48)]:
        p = parameters(size, rng)
        x = rng.standard_normal((batch, places, size)).astype(np.float32)
        expected = reference(x, p, heads)
        error = abs(block(x, p, heads) - expected).max() / abs(expected).max()
        assert error < 1e-6
        print(f"{batch} x {places} x {size}: error {error:.1e} of the greatest")

    compilation = block.lower(x, p, heads)
    assert len(compilation.kernels) == 5
    print("\nThe kernels:\n")
    for kernel in compilation.kernels:
        print(f"  {kernel!r}")
    print("\nWhat goes through memory between them, and why:\n")
    for boundary in compilation.why:
        print(f"  {boundary}")
    print(
        f"\nThe kernel of the scores, the softmax and the values:\n\n{compilation.kernels[1].graph}"
    )


if __name__ == "__main__":
    main()
