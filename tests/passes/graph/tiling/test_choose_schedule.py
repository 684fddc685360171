"""Tiles are small where more simdgroups hide that one waits for its results.

What chooses elements by their index is arithmetic, too.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import iris
from iris.compiler.array_compilation import ArrayCompilation


def chain(x: Any) -> Any:
    for n in range(8):
        x = np.tanh(x * 0.5 + n)
    return x


def averages(x: Any) -> Any:
    columns = [x[:, 0]]
    for column in range(1, 128):
        columns.append(0.9 * columns[-1] + 0.1 * x[:, column])
    return np.stack(columns, axis=1)


def blurred(x: Any) -> Any:
    padded = np.pad(x, 1)
    return sum(padded[i : i + 64, j : j + 64] for i in range(3) for j in range(3)) / 9


def microseconds(lowered: ArrayCompilation) -> float:
    """What the only kernel takes on an M1, by the model of lowered kernels."""
    (kernel,) = lowered.kernels
    return 1e3 * kernel.estimate.chips[0].milliseconds


@pytest.mark.parametrize(
    ("function", "shape", "axis"),
    [(chain, (128, 128), "i0i1"), (averages, (64, 128), "i0"), (blurred, (64, 64), "i0")],
)
def test_larger_tiles_take_longer(function: Any, shape: tuple[int, ...], axis: str) -> None:
    lowered = iris.jit(function).lower(np.zeros(shape, np.float32))
    chosen = microseconds(lowered)
    for times in (2, 4):
        larger = re.sub(
            rf"\b{axis}: programs (\d+)",
            lambda found, times=times: f"{axis}: programs {times * int(found[1])}",
            lowered.fused,
        )
        assert larger != lowered.fused
        assert chosen < microseconds(lowered.edited(larger))


def test_an_optimizers_step_is_one_launch() -> None:
    """Its arithmetic takes no longer than its loads, so smaller tiles would not pay."""

    def step(w: Any, b: Any, dw: Any, db: Any) -> Any:
        return w - 0.01 * dw, b - 0.01 * db

    w, b = np.zeros((64, 128), np.float32), np.zeros((128, 10), np.float32)
    assert len(iris.jit(step).kernels(w, b, w, b)) == 1
