"""NumPy's histogram: how many elements lie between edges that are known."""

from __future__ import annotations

from typing import Any

import numpy as np

from iris.errors import ArgumentError, ShapeError
from iris.frontend.arrays.array_elementwise import binary, compare, divide, select
from iris.frontend.arrays.array_reductions import sum
from iris.frontend.arrays.array_values import operand, shape_of, traced
from iris.frontend.arrays.protocol import implements
from iris.frontend.arrays.shapes import as_int, flat, with_axes
from iris.frontend.arrays.traced import TracedArray
from iris.frontend.tracing import error_here
from iris.ir import math
from iris.ir.math import Predicate


@implements("histogram")
def histogram(
    a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> tuple[TracedArray, TracedArray]:
    """Each bin counts the elements from its edge to below the next one; the last has both edges."""
    x = flat(traced(a))
    edges = _edges(x, bins, range)
    low, high = traced(edges[:-1]), traced(edges[1:])
    columns = with_axes(x, [0])
    inside = binary(
        math.And,
        compare(Predicate.GE, columns, with_axes(low, [1])),
        compare(Predicate.LT, columns, with_axes(high, [1])),
    )
    last = np.arange(len(edges) - 1) == len(edges) - 2
    at_end = compare(Predicate.EQ, columns, with_axes(high, [1]))
    inside = binary(math.Or, inside, binary(math.And, at_end, with_axes(traced(last), [1])))
    if weights is None:
        found = sum(inside, 1)
    else:
        shares = traced(weights)
        if shares.shape != traced(a).shape:
            raise error_here(ShapeError, f"weights of {shares} do not go with {traced(a)}")
        found = sum(select(inside, with_axes(flat(shares), [0]), 0), 1)
    if density:
        found = divide(divide(found, np.diff(edges)), sum(found))
    return found, traced(edges)


def _edges(x: TracedArray, bins: Any, range: Any) -> Any:
    """The edges of bins, which go up."""
    given = bins if isinstance(bins, str) else operand(bins)
    if isinstance(given, (str, TracedArray)):
        raise error_here(
            ArgumentError, "the bins of np.histogram are a number or edges, known while tracing"
        )
    if shape_of(given):
        edges = np.asarray(given)
        if edges.ndim != 1 or len(edges) < 2 or (np.diff(edges) < 0).any():
            raise error_here(ShapeError, "the edges of bins are two or more that go up")
        return edges
    count = as_int(bins, "the number of bins")
    if count < 1:
        raise error_here(ShapeError, f"np.histogram has at least one bin, not {count}")
    if range is None:
        raise error_here(
            ArgumentError,
            "the edges of np.histogram depend on the data; give range=(low, high), or the edges",
        )
    low, high = range
    if any(isinstance(end, TracedArray) for end in range) or not low <= high:
        raise error_here(
            ArgumentError,
            "the range of np.histogram is two numbers, known while tracing, that go up",
        )
    # In the dtype of NumPy's own edges: they are what elements are compared with.
    dtype = x.dtype if x.element.is_float else np.dtype(np.float64)
    return np.histogram_bin_edges(np.zeros(0, dtype), count, (low, high))
