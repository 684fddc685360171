"""`iris.asarray`, which means something else while a function of arrays is traced."""

from __future__ import annotations

import sys
from typing import Any

import numpy.typing as npt

from iris.errors import ArgumentError
from iris.frontend.plain import check_unmasked
from iris.runtime import buffer
from iris.runtime.device import Device


def asarray(
    array: npt.ArrayLike, *, persistent: bool = False, device: str | Device | None = None
) -> Any:
    """A Buffer with the elements of an array.

    It shares the memory of a NumPy array that starts and ends where pages do, where the device can
    do that; another array is copied.  With `persistent` it always is, to memory of its own that is
    not of the pool: for what is kept for long, such as weights.

    Within a function that `iris.jit` traces it is what the function computes with, so that
    `iris.asarray(table)[index]` looks up places that are computed in a table that is known.
    """
    # Until that room is opened, nothing of it is traced.
    arrays = sys.modules.get("iris.frontend.arrays")
    if arrays is not None and arrays.is_tracing():
        return arrays.as_traced_constant(array)
    check_unmasked("the array", array, ArgumentError)
    return buffer.asarray(array, persistent=persistent, device=device)
