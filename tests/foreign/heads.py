"""Check the head that a stand-in for MLX writes against the one that MLX itself writes.

MLX writes it where there is no Metal, too, for a function that is exported.  It tells by printing.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import iris
from foreign_libraries import mlx_text

ROOT = Path(__file__).parents[2]


@iris.kernel
def scaled(X, Out, factor, n, B: iris.constexpr):
    at = iris.program_id(0) * B + iris.arange(0, B)
    iris.store(Out + at, factor * iris.load(X + at, mask=at < n), mask=at < n)


@iris.kernel
def product(A, B, C, K, scale, M: iris.constexpr, D: iris.constexpr):
    i, j = iris.program_id(0) * M, iris.program_id(1) * M
    total = iris.zeros((M, M), iris.f32)
    for k in range(0, K, D):
        total += iris.dot(iris.tile_load(A, i, k, K, (M, D)), iris.tile_load(B, k, j, M, (D, M)))
    iris.tile_store(C, i, j, M, scale * total)


def _print_texts() -> None:
    """What MLX makes of both kernels, each after what the stand-in makes of them."""
    import mlx.core as mx

    plain = mx.fast.metal_kernel

    def loud(**made: Any) -> Any:
        kernel = plain(**made)

        def launch(*, inputs: Any, output_shapes: Any, **called: Any) -> Any:
            shapes = zip(made["input_names"], inputs, strict=True)
            given = {name: np.zeros(x.shape, str(x.dtype).split(".")[-1]) for name, x in shapes}
            out = {made["output_names"][0]: np.zeros(output_shapes[0], np.float32)}
            print(mlx_text("custom_kernel", given, out, made["source"], made["header"]))
            print("```", flush=True)  # as MLX itself puts around its own
            return kernel(
                inputs=inputs,
                output_shapes=output_shapes,
                **called,
                verbose=True,
            )

        return launch

    mx.fast.metal_kernel = loud
    x, half = np.zeros(1024, np.float32), np.zeros((32, 32), np.float16)
    first = scaled.lower(x, x.copy(), 2.5, 1024, B=256, grid=4).to_mlx()
    mx.export_function(os.devnull, lambda x: first(x, (1024,), 2.5, 1024), mx.zeros(1024))
    c = np.zeros((32, 32), np.float32)
    second = product.lower(half, half.copy(), c, 32, 0.5, M=32, D=32, grid=1).to_mlx()
    zeros = mx.zeros((32, 32), mx.float16)
    mx.export_function(os.devnull, lambda a, b: second(a, b, (32, 32), 32, 0.5), zeros, zeros)


def texts(site: Path) -> Iterator[tuple[str, str, str]]:
    """The name of each kernel, and what the stand-in and MLX itself make of it."""
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests"), str(site)])
    told = subprocess.run(
        [sys.executable, "-m", "foreign.heads"],
        env=os.environ | {"PYTHONPATH": path},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    parts = told.split("```")
    for ours, theirs in zip(parts[0::3], parts[2::3], strict=False):
        (name,) = re.findall(r"void (custom_kernel\w*)", theirs)
        yield name, ours, theirs


def is_same(ours: str, theirs: str) -> bool:
    """Whether two texts are the same but for spaces, and what MLX adds to the name."""
    first, second = [re.sub(r"custom_kernel\w*", "kernel", text).split() for text in (ours, theirs)]
    return first == second


if __name__ == "__main__":
    _print_texts()
