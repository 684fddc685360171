"""Products of matrices, per dtype of the result."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.ir import scalar
from iris.ir.types import DType

Array = npt.NDArray[Any]


def product(dtype: DType, a: Array, b: Array) -> Array:
    """The product of matrices, one for each index of the axes before the last two: of floats in
    float32, of integers in the storage of a dtype, wrapping."""
    if not dtype.is_float:
        return _integers(scalar.storage(dtype), a, b)
    # NumPy multiplies a matrix by its own transpose in another order than by a copy of that.
    one, other = (np.ascontiguousarray(x, np.float32) for x in (a, b))
    with np.errstate(all="ignore"):
        single = np.matmul(one, other)
    return np.asarray(single)


def _integers(storage: np.dtype[Any], a: Array, b: Array) -> Array:
    """NumPy is fast with floats only, so they are used where they are exact."""
    greatest = [max(-int(x.min(initial=0)), int(x.max(initial=0))) for x in (a, b)]
    if prod(greatest) * a.shape[-1] < 2**53:
        exact = np.matmul(a.astype(np.float64), b.astype(np.float64))
        return np.asarray(exact.astype(np.int64).astype(storage))
    return np.asarray(np.matmul(a.astype(storage), b.astype(storage)))
