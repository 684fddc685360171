"""How to make arrays at which things go wrong."""

from __future__ import annotations

import numpy as np

from iris.ir.literal import encode
from iris.ir.types import DType
from iris.testing.choices import Choices
from iris.testing.draft import odd_numbers, special_numbers
from iris.tools.replay import Array

SEEDS = 256


def recipe(dtype: DType, shape: tuple[int, ...], choices: Choices) -> Array:
    """How to make such an array, as an argument of a program."""
    seed, style = choices.below(SEEDS), choices.below(5)
    if style == 0:
        return Array(dtype, shape, seed)
    if style == 1:
        return Array(dtype, shape, seed, (-4.0, 4.0) if dtype.is_float else (dtype.low, dtype.high))
    numbers = odd_numbers(dtype) if style == 2 else special_numbers(dtype)
    if style == 4:
        numbers = [choices.of(numbers) for _ in range(1 + choices.below(3))]
    # In an order of its own, so that equal ones are at all distances.
    order = np.random.default_rng(seed).integers(0, len(numbers), max(1, int(np.prod(shape))))
    return Array(dtype, shape, data=tuple([encode(numbers[n], dtype) for n in order.tolist()]))
