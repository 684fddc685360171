"""Tiles are small where more simdgroups hide that one waits for its results."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

import iris
from iris.compiler.array_compilation import ArrayCompilation


def chain(x: Any) -> Any:
    for n in range(8):
        x = np.tanh(x * 0.5 + n)
    return x


def microseconds(lowered: ArrayCompilation) -> float:
    """What the only kernel takes on an M1, by the model of lowered kernels."""
    (kernel,) = lowered.kernels
    return 1e3 * kernel.estimate.chips[0].milliseconds


def test_larger_tiles_take_longer() -> None:
    lowered = iris.jit(chain).lower(np.zeros((128, 128), np.float32))
    chosen = microseconds(lowered)
    for times in (2, 4):
        larger = re.sub(
            r"programs (\d+)",
            lambda found, times=times: f"programs {times * int(found[1])}",
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
