"""Attention whose heads are rotated: no scores in memory, whatever the size of a head."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import iris
from iris import nn
from iris.compiler.array_compilation import ArrayCompilation
from iris.runtime.device import Array

Rotation = Callable[[Any, Any, Any], Any]


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def halves(x: Any, cos: Any, sin: Any) -> Any:
    half = x.shape[-1] // 2
    one, other = x[..., :half], x[..., half:]
    return np.concatenate([one * cos - other * sin, one * sin + other * cos], -1)


def pairs(x: Any, cos: Any, sin: Any) -> Any:
    even, odd = x[..., ::2], x[..., 1::2]
    return np.stack([even * cos - odd * sin, even * sin + odd * cos], -1).reshape(x.shape)


ROTATIONS: list[Rotation] = [halves, pairs]


def attention(rotation: Rotation) -> Callable[..., Any]:
    def function(q: Any, k: Any, v: Any, cos: Any, sin: Any) -> Any:
        q, k = (rotation(x, cos, sin) for x in (q, k))
        scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
        hidden = np.where(np.tri(q.shape[-2], dtype=bool), scores, -np.inf)
        return nn.softmax(hidden) @ v

    return function


def arguments(heads: int, length: int, width: int) -> list[Array]:
    tensors = [numbers(heads, length, width, seed=n) for n in range(3)]
    return [*tensors, *[numbers(length, width // 2, seed=n) for n in (3, 4)]]


@pytest.mark.parametrize("rotation", ROTATIONS)
@pytest.mark.parametrize("width", [64, 128])
def test_no_scores_are_written(rotation: Rotation, width: int) -> None:
    arrays = arguments(8, 512, width)
    compilation = iris.jit(attention(rotation)).lower(*arrays)
    assert len(compilation.kernels) <= 3
    moved = sum(kernel.bytes for kernel in compilation.kernels)
    least = sum(x.nbytes for x in (*arrays, arrays[0]))  # and the result
    rotated = 2 * 2 * arrays[0].nbytes  # written and read
    assert moved <= 1.3 * (least + rotated)


def test_pairs_of_neighbours_touch_as_many_lines_as_halves() -> None:
    lines = []
    for rotation in (halves, pairs):
        (kernel,) = iris.jit(attention(rotation)).kernels(*arguments(8, 128, 64))
        lines.append(kernel.estimate.counts.device.lines)
    assert lines[1] <= 1.3 * lines[0]


@pytest.fixture(scope="module")
def cut() -> ArrayCompilation:
    """A function with a kernel that has no registers for what was fused, so it is cut."""
    return iris.jit(attention(pairs)).lower(*arguments(1, 32, 128))


def test_what_is_printed_is_what_is_compiled(cut: ArrayCompilation) -> None:
    assert cut.stages[-1].name == "fit"
    for kernel in cut.kernels:
        assert kernel.estimate.registers <= kernel.estimate.chips[0].chip.thread_registers
        for op in kernel.kernel.op.kernels:
            assert f"@{op.symbol} schedule=[{op.schedule}]" in cut.fused
    again = cut.edited(cut.fused)
    assert again.fused == cut.fused
    assert [kernel.msl for kernel in again.kernels] == [kernel.msl for kernel in cut.kernels]


def test_a_kernel_that_is_cut_computes_the_same(cut: ArrayCompilation) -> None:
    arrays = arguments(1, 32, 128)
    expected = attention(pairs)(*[x.astype(np.float64) for x in arrays])
    for compilation in (cut, cut.edited(cut.fused)):
        np.testing.assert_allclose(compilation.run(*arrays), expected, rtol=2e-4, atol=2e-4)
