"""Indices of arrays, for the tests of indexing and of changing what is at them."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from hypothesis import strategies as st


def is_places(part: Any) -> bool:
    """Whether a part of an index is an array of integers."""
    return isinstance(part, np.ndarray) and part.dtype.kind == "i"


def places_of(key: Any) -> list[Any]:
    parts = key if isinstance(key, tuple) else (key,)
    return [part for part in parts if is_places(part)]


def with_places(key: Any, places: Any) -> tuple[Any, ...]:
    """An index with other arrays for its arrays."""
    parts, left = key if isinstance(key, tuple) else (key,), iter(places)
    return tuple([next(left) if is_places(part) else part for part in parts])


@st.composite
def keys(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """A shape, and any index for an array of it."""
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    together = draw(st.sampled_from([(), (2,), (1, 3), (0,)]))
    key: list[Any] = []
    dots = draw(st.integers(0, len(shape)))
    for axis, size in enumerate(shape[: draw(st.integers(0, len(shape)))]):
        if axis == dots:
            key.append(...)
            break
        while draw(st.integers(0, 5)) == 0:
            key.append(None)
        bound = st.none() | st.integers(-5, 5)
        step = st.none() | st.sampled_from([1, 2, -1, -3])
        at = st.integers(-size, size - 1)
        count = prod(together)
        places = st.lists(at, min_size=count, max_size=count).map(
            lambda found: np.array(found, np.int64).reshape(together)
        )
        key.append(draw(st.builds(slice, bound, bound, step) | at | places))
    return shape, tuple(key)
