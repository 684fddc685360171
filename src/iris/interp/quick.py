"""Questions to small arrays, without the Python code that NumPy's own methods run for each.

The interpreters ask them several times for every op, and most arrays have few elements.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def any_of(mask: Array) -> bool:
    return bool(mask) if mask.size == 1 else bool(np.count_nonzero(mask))


def all_of(mask: Array) -> bool:
    return bool(mask) if mask.size == 1 else int(np.count_nonzero(mask)) == mask.size


def spread(x: Array, shape: tuple[int, ...]) -> Array:
    """An array of a shape, to be read: itself, if it has that shape."""
    if x.shape == shape:
        return x
    wide = np.empty(shape, x.dtype)
    wide[...] = x
    return wide
