"""How to make arrays at which things go wrong."""

from __future__ import annotations

from iris.ir.types import DType
from iris.testing.choices import Choices
from iris.testing.draft import special_array
from iris.tools.replay import Array

SEEDS = 256


def recipe(dtype: DType, shape: tuple[int, ...], choices: Choices) -> Array:
    """How to make such an array, as an argument of a program."""
    seed, style = choices.below(SEEDS), choices.below(5)
    if style == 0:
        return Array(dtype, shape, seed)
    if style == 1:
        return Array(dtype, shape, seed, (-4.0, 4.0) if dtype.is_float else (dtype.low, dtype.high))
    return special_array(dtype, shape, seed, choices)
