"""Scans of traced arrays, against NumPy in 64 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from iris.errors import ArgumentError
from tracing_arrays import DTYPES, REDUCING, SHAPES, agrees, compute, numbers, same, trace


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("function", [np.cumsum, np.cumprod])
def test_scans(function: Any, shape: tuple[int, ...]) -> None:
    x = numbers(shape)
    for axis in (None, *range(-len(shape), len(shape))):
        agrees(lambda x, a=axis: function(x, axis=a), x, dtype=np.float32)


@pytest.mark.parametrize("function", REDUCING, ids=lambda f: f.__name__)
def test_methods_of_ufuncs(function: np.ufunc) -> None:
    for dtype in DTYPES:
        x = numbers((3, 4), dtype)
        agrees(function.accumulate, x)
        agrees(lambda x: function.accumulate(x, axis=-1), x)


def test_without_nans() -> None:
    x = numbers((3, 4))
    x[1, 2] = x[2, 0] = np.nan
    for function in (np.nancumsum, np.nancumprod):
        for axis in (None, 0, 1):
            agrees(lambda x, f=function, a=axis: f(x, axis=a), x)


@pytest.mark.skipif(not hasattr(np, "cumulative_sum"), reason="it came with NumPy 2.1")
def test_with_the_initial_value() -> None:
    x = numbers((3, 4))
    for name in ("cumulative_sum", "cumulative_prod"):
        function: Any = getattr(np, name)
        agrees(lambda x, f=function: f(x, axis=1), x)
        agrees(lambda x, f=function: f(x, axis=0, include_initial=True), x)
        agrees(lambda x, f=function: f(x[0], include_initial=True), x)
        same(compute(lambda x, f=function: f(x, axis=0, dtype=np.float16), x), function(x, axis=0))
    with pytest.raises(ArgumentError, match="give one of them"):
        trace(lambda x: np.cumulative_sum(x), x)
