"""NumPy's functions that put arrays together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from iris.errors import ArgumentError, ShapeError
from iris.frontend.arrays import shapes
from iris.frontend.arrays.array_values import asked_dtype, common_dtype, in_dtype, strong, traced
from iris.frontend.arrays.protocol import implements
from iris.frontend.arrays.rearranging import atleast_1d, atleast_2d, atleast_3d
from iris.frontend.arrays.shapes import as_axis, concat, flat, with_axes
from iris.frontend.arrays.traced import TracedArray
from iris.frontend.tracing import error_here


def _in_one_dtype(arrays: Any, dtype: Any = None, casting: Any = "same_kind") -> list[TracedArray]:
    """Arrays in the dtype in which they meet, or in another."""
    if isinstance(arrays, TracedArray):
        arrays = list(arrays)
    given = [strong(x) for x in arrays]
    if not given:
        raise error_here(ArgumentError, "there are no arrays to put together")
    common = common_dtype(given) if dtype is None else asked_dtype(dtype, given, casting)
    return [in_dtype(x, common) for x in given]


@implements("concatenate", "concat")
def concatenate(
    arrays: Any, axis: Any = 0, out: None = None, *, dtype: Any = None, casting: str = "same_kind"
) -> TracedArray:
    parts = _in_one_dtype(arrays, dtype, casting)
    if axis is None:
        return concat([flat(x) for x in parts], 0)
    return _joined(parts, axis)


def _joined(parts: Sequence[TracedArray], axis: Any) -> TracedArray:
    if any(part.ndim != parts[0].ndim or not part.ndim for part in parts):
        found = " and ".join(dict.fromkeys(str(part.shape) for part in parts))
        raise error_here(
            ShapeError, f"arrays that are put together have as many axes, 1 or more, not {found}"
        )
    return concat(parts, as_axis(axis, parts[0].ndim))


@implements("stack")
def stack(
    arrays: Any, axis: Any = 0, out: None = None, *, dtype: Any = None, casting: str = "same_kind"
) -> TracedArray:
    parts = _in_one_dtype(arrays, dtype, casting)
    for part in parts:
        if part.shape != parts[0].shape:
            raise error_here(
                ShapeError, f"arrays of the shapes {parts[0].shape} and {part.shape} do not stack"
            )
    at = as_axis(axis, parts[0].ndim + 1)
    return concat([with_axes(part, [at]) for part in parts], at)


@implements("vstack", "row_stack")
def vstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> TracedArray:
    return _joined([atleast_2d(x) for x in _in_one_dtype(tup, dtype, casting)], 0)


@implements("hstack")
def hstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> TracedArray:
    parts = [atleast_1d(x) for x in _in_one_dtype(tup, dtype, casting)]
    return _joined(parts, 0 if parts[0].ndim == 1 else 1)


@implements("dstack")
def dstack(tup: Any) -> TracedArray:
    return _joined([atleast_3d(x) for x in _in_one_dtype(tup)], 2)


@implements("column_stack")
def column_stack(tup: Any) -> TracedArray:
    parts = _in_one_dtype(tup)
    return _joined([x if x.ndim > 1 else shapes.reshape(x, (-1, 1)) for x in parts], 1)


@implements("append")
def append(arr: Any, values: Any, axis: Any = None) -> TracedArray:
    return concatenate([arr, values], axis)


@implements("block")
def block(arrays: Any) -> TracedArray:
    depth, rank = _depth(arrays), 0
    leaves: list[TracedArray] = []
    _collect(arrays, leaves)
    rank = max(depth, *[x.ndim for x in leaves])
    return _block(arrays, rank, rank - depth)


def _depth(arrays: Any) -> int:
    if not isinstance(arrays, list):
        return 0
    if not arrays:
        raise error_here(ArgumentError, "there are no arrays to put together")
    depths = {_depth(x) for x in arrays}
    if len(depths) > 1:
        raise error_here(ArgumentError, "the lists of np.block are not all equally deep")
    return 1 + depths.pop()


def _collect(arrays: Any, leaves: list[TracedArray]) -> None:
    if isinstance(arrays, list):
        for x in arrays:
            _collect(x, leaves)
    else:
        leaves.append(traced(arrays))


def _block(arrays: Any, rank: int, axis: int) -> TracedArray:
    if not isinstance(arrays, list):
        x = traced(arrays)
        return with_axes(x, range(rank - x.ndim))
    return concatenate([_block(x, rank, axis + 1) for x in arrays], axis)
