"""Convolution, which NumPy has not: of traced arrays, and of NumPy's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.errors import ArgumentError, ShapeError
from iris.frontend.arrays.array_products import finished, multiplicands
from iris.frontend.arrays.array_values import emit
from iris.frontend.arrays.shapes import as_int
from iris.frontend.arrays.traced import TracedArray
from iris.frontend.tracing import error_here
from iris.ir import graph

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class ConvolutionWindow:
    """How filters go over images, down and across."""

    strides: tuple[int, int]
    padding: tuple[int, int, int, int]  # zeros above, below, left and right
    dilation: tuple[int, int]
    groups: int

    @staticmethod
    def of(
        images: tuple[int, ...],
        filters: tuple[int, ...],
        stride: Any,
        padding: Any,
        dilation: Any,
        groups: Any,
    ) -> ConvolutionWindow:
        """What the user says of it, for images and filters of some shapes."""
        if len(images) != 4 or len(filters) != 4:
            raise error_here(
                ShapeError, f"images and filters have four axes each, not {images} and {filters}"
            )
        parts = as_int(groups, "groups")
        if parts < 1 or filters[1] * parts != images[1] or filters[0] % parts:
            raise error_here(
                ShapeError,
                f"images {images} and filters {filters} do not go together in {parts} groups",
            )
        strides, spaced = _pair(stride, "stride"), _pair(dilation, "dilation")
        if min(*strides, *spaced) < 1:
            raise error_here(ArgumentError, "stride and dilation are 1 or more")
        reach = [by * (size - 1) + 1 for by, size in zip(spaced, filters[2:], strict=True)]
        zeros = _padding(padding, images[2:], reach, strides)
        if min(zeros) < 0:
            raise error_here(ArgumentError, "padding is not negative")
        return ConvolutionWindow(strides, zeros, spaced, parts)


def _pair(given: Any, what: str) -> tuple[int, int]:
    """A number for rows and one for columns, or before and after."""
    both = given if isinstance(given, (tuple, list)) else (given, given)
    if len(both) != 2:
        raise error_here(ArgumentError, f"{what} is one int, or two, not {given!r}")
    return as_int(both[0], what), as_int(both[1], what)


def _padding(
    padding: Any, sizes: tuple[int, ...], reach: list[int], strides: tuple[int, int]
) -> tuple[int, int, int, int]:
    if padding == "same":
        found: list[int] = []
        for size, needs, stride in zip(sizes, reach, strides, strict=True):
            missing = max(0, (-(-size // stride) - 1) * stride + needs - size)
            found += [missing // 2, missing - missing // 2]
        above, below, left, right = found
        return above, below, left, right
    if isinstance(padding, str) and padding != "valid":
        raise error_here(ArgumentError, f'padding is numbers, "same" or "valid", not {padding!r}')
    both = 0 if padding == "valid" else padding
    both = both if isinstance(both, (tuple, list)) else (both, both)
    if len(both) != 2:
        raise error_here(ArgumentError, f"padding is for rows and columns, not {padding!r}")
    return (*_pair(both[0], "padding"), *_pair(both[1], "padding"))


def traced_convolution(x: TracedArray, w: TracedArray, window: ConvolutionWindow) -> TracedArray:
    """Images under filters, as an op."""
    (images, filters), common = multiplicands(x, w)
    op = graph.Conv2d(
        window.strides,
        window.padding,
        window.dilation,
        window.groups,
        images.value,
        filters.value,
    )
    return finished(emit(op), common)


def convolution(x: Array, w: Array, window: ConvolutionWindow) -> Array:
    """Images under filters, one place of the filters after another."""
    above, below, left, right = window.padding
    padded = np.pad(x, ((0, 0), (0, 0), (above, below), (left, right)))
    batch, channels, *space = padded.shape
    spans = zip(space, w.shape[2:], window.dilation, window.strides, strict=True)
    sizes = [max(0, (n - by * (k - 1) - 1) // step + 1) for n, k, by, step in spans]
    grouped = padded.reshape(batch, window.groups, channels // window.groups, *space)
    filters = w.reshape(window.groups, w.shape[0] // window.groups, *w.shape[1:])
    made: Any = 0
    for place in np.ndindex(*w.shape[2:]):
        rows, columns = (
            slice(by * i, by * i + step * size, step)
            for i, by, step, size in zip(place, window.dilation, window.strides, sizes, strict=True)
        )
        seen = grouped[..., rows, columns]
        made = made + np.einsum("bgchw,goc->bgohw", seen, filters[..., place[0], place[1]])
    return np.asarray(made).reshape(batch, w.shape[0], *sizes)
