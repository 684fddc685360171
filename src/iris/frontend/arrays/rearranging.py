"""NumPy's functions that give the same elements in another shape or order."""

from __future__ import annotations

from typing import Any

import numpy as np

from iris.errors import ArgumentError, IndexingError, ShapeError
from iris.frontend.arrays import shapes
from iris.frontend.arrays.array_values import over_shape, reshaped, traced
from iris.frontend.arrays.protocol import implements
from iris.frontend.arrays.shapes import (
    as_axes,
    as_axis,
    as_int,
    as_shape,
    cut,
    cut_axis,
    flat,
    move_axes,
    take_places,
    with_axes,
    without_axes,
)
from iris.frontend.arrays.traced import TracedArray
from iris.frontend.tracing import error_here
from iris.frontend.values import broadcast_shapes


def _is_by_columns(order: Any) -> bool:
    """Whether elements go in Fortran's order."""
    if order in ("A", "K"):
        raise error_here(
            ArgumentError,
            f"order={order!r} depends on how an array lies in memory, which is not known while the "
            "function is traced; write 'C' or 'F'",
        )
    if order not in (None, "C", "F"):
        raise error_here(ArgumentError, f"an order is 'C' or 'F', not {order!r}")
    return bool(order == "F")


# Shapes.


@implements("reshape")
def reshape(a: Any, shape: Any, order: Any = "C", *, copy: Any = None) -> TracedArray:
    x = traced(a).copied() if copy else traced(a)
    if not _is_by_columns(order):
        return shapes.reshape(x, shape)
    return transpose(shapes.reshape(transpose(x), shapes.sizes_in(shape)[::-1]))


@implements("ravel")
def ravel(a: Any, order: Any = "C") -> TracedArray:
    return flat(transpose(a) if _is_by_columns(order) else traced(a))


@implements("expand_dims")
def expand_dims(a: Any, axis: Any) -> TracedArray:
    x = traced(a)
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    return with_axes(x, as_axes(axis, x.ndim + count))


@implements("squeeze")
def squeeze(a: Any, axis: Any = None) -> TracedArray:
    x = traced(a)
    if axis is None:
        return without_axes(x, [i for i, size in enumerate(x.shape) if size == 1])
    axes = as_axes(axis, x.ndim)
    for i in axes:
        if x.shape[i] != 1:
            raise error_here(ShapeError, f"axis {i} of {x} is not of size 1")
    return without_axes(x, axes)


@implements("broadcast_to")
def broadcast_to(array: Any, shape: Any, subok: bool = False) -> TracedArray:
    return over_shape(traced(array), as_shape(shape))


@implements("broadcast_arrays")
def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[TracedArray, ...]:
    given = [traced(x) for x in args]
    shape = broadcast_shapes(*[x.shape for x in given])
    return tuple([over_shape(x, shape) for x in given])


def _at_least(x: Any, rank: int) -> TracedArray:
    value = traced(x)
    if rank == 3 and value.ndim == 2:
        return with_axes(value, [2])
    if rank == 3 and value.ndim == 1:
        return with_axes(value, [0, 2])
    return with_axes(value, range(max(0, rank - value.ndim)))


@implements("atleast_1d")
def atleast_1d(*arys: Any) -> Any:
    return _one_or_all([_at_least(x, 1) for x in arys])


@implements("atleast_2d")
def atleast_2d(*arys: Any) -> Any:
    return _one_or_all([_at_least(x, 2) for x in arys])


@implements("atleast_3d")
def atleast_3d(*arys: Any) -> Any:
    return _one_or_all([_at_least(x, 3) for x in arys])


def _one_or_all(made: list[TracedArray]) -> Any:
    return made[0] if len(made) == 1 else tuple(made)


# Orders of axes.


@implements("transpose", "permute_dims")
def transpose(a: Any, axes: Any = None) -> TracedArray:
    x = traced(a)
    order = as_axes(axes, x.ndim)[:: -1 if axes is None else 1]
    if len(order) != x.ndim:
        raise error_here(ShapeError, f"{x} has {x.ndim} axes, not {len(order)}")
    return shapes.transpose(x, order)


@implements("swapaxes")
def swapaxes(a: Any, axis1: Any, axis2: Any) -> TracedArray:
    x = traced(a)
    one, other = as_axis(axis1, x.ndim), as_axis(axis2, x.ndim)
    order = list(range(x.ndim))
    order[one], order[other] = other, one
    return shapes.transpose(x, order)


@implements("matrix_transpose", "linalg.matrix_transpose")
def matrix_transpose(x: Any) -> TracedArray:
    value = traced(x)
    if value.ndim < 2:
        raise error_here(ShapeError, f"{value} is no matrix")
    return swapaxes(value, -1, -2)


@implements("moveaxis")
def moveaxis(a: Any, source: Any, destination: Any) -> TracedArray:
    x = traced(a)
    away, to = as_axes(source, x.ndim), as_axes(destination, x.ndim)
    if len(away) != len(to):
        raise error_here(ShapeError, f"{len(away)} axes do not go to {len(to)} places")
    return move_axes(x, away, to)


@implements("rollaxis")
def rollaxis(a: Any, axis: Any, start: Any = 0) -> TracedArray:
    x = traced(a)
    away, to = as_axis(axis, x.ndim), as_int(start, "start")
    if to != x.ndim:  # which is behind the last axis
        to = as_axis(to, x.ndim)
    return move_axes(x, [away], [to - 1 if away < to else to])


# Turned, and moved along.


@implements("flip")
def flip(m: Any, axis: Any = None) -> TracedArray:
    x = traced(m)
    axes = as_axes(axis, x.ndim)
    steps = [-1 if i in axes else 1 for i in range(x.ndim)]
    starts = [size - 1 if i in axes else 0 for i, size in enumerate(x.shape)]
    if all(x.shape[i] < 2 for i in axes):
        return x
    return cut(x, starts, steps, x.shape)


@implements("flipud")
def flipud(m: Any) -> TracedArray:
    return flip(m, 0)


@implements("fliplr")
def fliplr(m: Any) -> TracedArray:
    return flip(m, 1)


@implements("rot90")
def rot90(m: Any, k: Any = 1, axes: Any = (0, 1)) -> TracedArray:
    x = traced(m)
    one, other = as_axes(axes, x.ndim)
    turns = as_int(k, "k") % 4
    if turns == 0:
        return x
    if turns == 2:
        return flip(x, (one, other))
    if turns == 1:
        return swapaxes(flip(x, other), one, other)
    return flip(swapaxes(x, one, other), other)


@implements("roll")
def roll(a: Any, shift: Any, axis: Any = None) -> TracedArray:
    x = traced(a)
    if axis is None:
        by = sum(_ints(shift, "a shift"))
        return reshaped(_rolled(flat(x), by, 0), x.shape)
    axes = [as_axis(i, x.ndim) for i in _ints(axis, "an axis")]
    shifts = _ints(shift, "a shift")
    if len(axes) != len(shifts) and 1 not in (len(axes), len(shifts)):
        raise error_here(ShapeError, f"{len(shifts)} shifts do not go with {len(axes)} axes")
    for by, at in np.broadcast(shifts, axes):
        x = _rolled(x, int(by), int(at))
    return x


def _ints(x: Any, what: str) -> list[int]:
    return [as_int(n, what) for n in (x if isinstance(x, (tuple, list)) else (x,))]


def _rolled(x: TracedArray, by: int, axis: int) -> TracedArray:
    size = x.shape[axis]
    if not size or by % size == 0:
        return x
    return take_places(x, (np.arange(size) - by) % size, axis)


# Repeated.


@implements("tile")
def tile(A: Any, reps: Any) -> TracedArray:
    x, counts = traced(A), _ints(reps, "a number of times")
    rank = max(x.ndim, len(counts))
    x = with_axes(x, range(rank - x.ndim))
    counts = [1] * (rank - len(counts)) + counts
    apart = reshaped(x, tuple([n for size in x.shape for n in (1, size)]))
    over = tuple([n for pair in zip(counts, x.shape, strict=True) for n in pair])
    sizes = [count * size for count, size in zip(counts, x.shape, strict=True)]
    return reshaped(over_shape(apart, as_shape(over)), tuple(sizes))


@implements("repeat")
def repeat(a: Any, repeats: Any, axis: Any = None) -> TracedArray:
    x = flat(traced(a)) if axis is None else traced(a)
    at = 0 if axis is None else as_axis(axis, x.ndim)
    if isinstance(repeats, TracedArray):
        raise error_here(ShapeError, "repeats must be known while tracing, to know the shape")
    counts = np.asarray(repeats)
    if not counts.size:  # which NumPy takes for floats
        counts = counts.astype(np.intp)
    if counts.size == 1:
        times = as_shape(int(counts.reshape(())))[0]
        apart = with_axes(x, [at + 1])
        over = (*x.shape[: at + 1], times, *x.shape[at + 1 :])
        sizes = (*x.shape[:at], x.shape[at] * times, *x.shape[at + 1 :])
        return reshaped(over_shape(apart, over), sizes)
    if counts.shape != (x.shape[at],):
        raise error_here(
            ShapeError, f"{x.shape[at]} elements are not repeated {counts.size} different times"
        )
    return take_places(x, np.repeat(np.arange(x.shape[at]), counts), at)


@implements("delete")
def delete(arr: Any, obj: Any, axis: Any = None) -> TracedArray:
    x = flat(traced(arr)) if axis is None else traced(arr)
    at = 0 if axis is None else as_axis(axis, x.ndim)
    if isinstance(obj, TracedArray):
        raise error_here(ShapeError, "the indices must be known while tracing, to know the shape")
    try:
        kept = np.delete(np.arange(x.shape[at]), obj)
    except IndexError as error:
        raise error_here(IndexingError, f"np.delete: {error}") from None
    except ValueError as error:
        raise error_here(ShapeError, f"np.delete: {error}") from None
    return take_places(x, kept, at)


# Taken apart.


@implements("array_split")
def array_split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> list[TracedArray]:
    x = traced(ary)
    at = as_axis(axis, x.ndim)
    size = x.shape[at]
    if isinstance(indices_or_sections, (tuple, list, np.ndarray)):
        bounds = [slice(0, int(i)).indices(size)[1] for i in indices_or_sections]
        starts = [0, *[slice(int(i), None).indices(size)[0] for i in indices_or_sections]]
        ends = [*bounds, size]
    else:
        count = as_int(indices_or_sections, "a number of parts")
        if count < 1:
            raise error_here(ShapeError, f"an array is split into 1 or more parts, not {count}")
        each, more = divmod(size, count)
        ends = np.cumsum([each + (i < more) for i in range(count)]).tolist()
        starts = [0, *ends[:-1]]
    return [
        cut_axis(x, at, start, max(0, end - start)) for start, end in zip(starts, ends, strict=True)
    ]


@implements("split")
def split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> list[TracedArray]:
    x = traced(ary)
    if not isinstance(indices_or_sections, (tuple, list, np.ndarray)):
        count = as_int(indices_or_sections, "a number of parts")
        if count < 1 or x.shape[as_axis(axis, x.ndim)] % count:
            raise error_here(
                ShapeError, f"axis {axis} of {x} does not split into {count} equal parts"
            )
    return array_split(x, indices_or_sections, axis)


@implements("vsplit")
def vsplit(ary: Any, indices_or_sections: Any) -> list[TracedArray]:
    return split(ary, indices_or_sections, 0)


@implements("hsplit")
def hsplit(ary: Any, indices_or_sections: Any) -> list[TracedArray]:
    x = traced(ary)
    return split(x, indices_or_sections, 1 if x.ndim > 1 else 0)


@implements("dsplit")
def dsplit(ary: Any, indices_or_sections: Any) -> list[TracedArray]:
    return split(ary, indices_or_sections, 2)


@implements("unstack")
def unstack(x: Any, /, *, axis: Any = 0) -> tuple[TracedArray, ...]:
    value = traced(x)
    at = as_axis(axis, value.ndim)
    parts = [cut_axis(value, at, i, 1) for i in range(value.shape[at])]
    return tuple([without_axes(part, [at]) for part in parts])


# Diagonals, of which the elements are evenly spaced in row-major order.


@implements("diagonal")
def diagonal(a: Any, offset: Any = 0, axis1: Any = 0, axis2: Any = 1) -> TracedArray:
    x = traced(a)
    one, other = as_axes((axis1, axis2), x.ndim)
    x = move_axes(x, [one, other], [x.ndim - 2, x.ndim - 1])
    *rest, rows, columns = x.shape
    by = as_int(offset, "offset")
    count = max(0, min(rows, columns - by) if by >= 0 else min(rows + by, columns))
    together = reshaped(x, (*rest, rows * columns))
    start = by if by >= 0 else -by * columns
    return cut_axis(together, len(rest), start if count else 0, count, columns + 1)
