"""The elements of arrays, as failures show them."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from iris.ir.literal import text
from iris.ir.types import DType

Array = npt.NDArray[Any]

NEIGHBOURS = 2  # elements that are shown on either side


def around(dtype: DType, before: Array, after: Array, at: int) -> str:
    """The elements around one of two arrays of bits, in a line.

    around(f32, was, now, 7)    # "elements 5 to 9 were 0.0, 1.0, 2.0, 3.0, 4.0 and are ..."
    """
    first, end = max(0, at - NEIGHBOURS), min(before.size, at + NEIGHBOURS + 1)
    was, now = (
        ", ".join(text(int(b), dtype) for b in bits.reshape(-1)[first:end])
        for bits in (before, after)
    )
    if end - first == 1:
        return f"element {first} was {was} and is {now}"
    return f"elements {first} to {end - 1} were {was} and are {now}"
