"""Axes and shapes, and the ops that move elements, on traced arrays."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.errors import ArgumentError, IndexingError, ShapeError
from iris.frontend.arrays.array_values import emit, over_shape, reshaped, view
from iris.frontend.arrays.constants import constant, constant_array
from iris.frontend.arrays.trace import current
from iris.frontend.arrays.traced import TracedArray
from iris.frontend.tracing import error_here, rules_as
from iris.ir import graph
from iris.ir.types import Tensor, f32, i32

# Rather than by so many slices put together, elements are taken by their places.
MOST_SLICES = 8


# What the user gives.


def as_int(x: Any, what: str) -> int:
    """An integer that is known while tracing."""
    if not isinstance(x, bool) and hasattr(x, "__index__"):
        return operator.index(x)
    raise error_here(ArgumentError, f"{what} is an int, not {x!r}")


def as_shape(shape: Any) -> tuple[int, ...]:
    """A shape, given as sizes or as one."""
    made = tuple([as_int(size, "a size") for size in sizes_in(shape)])
    with rules_as(ShapeError):
        Tensor(made, f32)
    return made


def sizes_in(shape: Any) -> list[Any]:
    """The sizes of a shape, which is a sequence of them or one."""
    if isinstance(shape, np.ndarray):
        return shape.ravel().tolist()  # type: ignore[no-any-return]
    is_sequence = isinstance(shape, Sequence) and not isinstance(shape, (str, bytes))
    return list(shape) if is_sequence else [shape]


def as_axis(axis: Any, rank: int) -> int:
    """An axis from 0 on, where the user may count from the end."""
    at = as_int(axis, "an axis")
    if not -rank <= at < rank:
        axes = f"axes {-rank} to {rank - 1}" if rank else "no axes"
        raise error_here(IndexingError, f"there is no axis {at}: there are {axes}")
    return at % rank


def as_axes(axes: Any, rank: int) -> tuple[int, ...]:
    """Different axes, in the order given; None for all."""
    if axes is None:
        return tuple(range(rank))
    given = axes if isinstance(axes, (tuple, list)) else (axes,)
    made = tuple([as_axis(axis, rank) for axis in given])
    if len(set(made)) < len(made):
        raise error_here(ShapeError, f"an axis is given twice in {axes}")
    return made


# Shapes.


def reshape(x: TracedArray, shape: Any) -> TracedArray:
    """The same elements, in row-major order; a size of -1 follows from the others."""
    sizes = sizes_in(shape)
    wanted = [as_int(size, "a size") for size in sizes]
    if wanted.count(-1) == 1:
        known = -prod(wanted)
        if known and x.size % known == 0:
            wanted[wanted.index(-1)] = x.size // known
    if prod(wanted) != x.size or min(wanted, default=0) < 0:
        raise error_here(
            ShapeError, f"the {x.size} elements of {x} do not fit the shape {tuple(sizes)}"
        )
    return reshaped(x, tuple(wanted))


def flat(x: TracedArray) -> TracedArray:
    """All elements along one axis."""
    return reshaped(x, (x.size,))


def with_axes(x: TracedArray, axes: Sequence[int]) -> TracedArray:
    """Insert axes of size 1, to have the axes of the result."""
    sizes = iter(x.shape)
    rank = x.ndim + len(axes)
    return reshaped(x, tuple([1 if i in axes else next(sizes) for i in range(rank)]))


def without_axes(x: TracedArray, axes: Sequence[int]) -> TracedArray:
    """With axes of size 1 left out."""
    return reshaped(x, tuple([size for i, size in enumerate(x.shape) if i not in axes]))


def transpose(x: TracedArray, order: Sequence[int]) -> TracedArray:
    """The axes in another order: axis i of the result is axis `order[i]`."""
    if list(order) == list(range(x.ndim)):
        return x
    return view(x, graph.Transpose(tuple(order), x.value))


def move_axes(x: TracedArray, source: Sequence[int], destination: Sequence[int]) -> TracedArray:
    """Some axes elsewhere, the others in their order."""
    order = [axis for axis in range(x.ndim) if axis not in source]
    for to, axis in sorted(zip(destination, source, strict=True)):
        order.insert(to, axis)
    return transpose(x, order)


# Parts.


def cut(
    x: TracedArray, starts: Sequence[int], steps: Sequence[int], shape: Sequence[int]
) -> TracedArray:
    """Along each axis a number of elements from a start on, by a step."""
    if tuple(shape) == x.shape and all(
        step == 1 or size < 2 for step, size in zip(steps, shape, strict=True)
    ):
        return x
    starts = [start if size else 0 for start, size in zip(starts, shape, strict=True)]
    steps = [step if size > 1 else 1 for step, size in zip(steps, shape, strict=True)]
    type_ = Tensor(tuple(shape), x.element)
    return view(x, graph.Slice(tuple(starts), tuple(steps), x.value, type_))


def cut_axis(x: TracedArray, axis: int, start: int, size: int, step: int = 1) -> TracedArray:
    """Elements along one axis, all along the others."""
    starts, steps, shape = [0] * x.ndim, [1] * x.ndim, list(x.shape)
    starts[axis], steps[axis], shape[axis] = start, step, size
    return cut(x, starts, steps, shape)


def concat(parts: Sequence[TracedArray], axis: int) -> TracedArray:
    """Arrays of one dtype one after another."""
    if len(parts) == 1:
        return parts[0]
    with rules_as(ShapeError):
        return emit(graph.Concat(axis, [x.value for x in parts]))


def pad(
    x: TracedArray, widths: Sequence[tuple[int, int]], value: TracedArray | float
) -> TracedArray:
    """With a value before and after, along each axis."""
    if not any(map(any, widths)):
        return x
    filler = value.value if isinstance(value, TracedArray) else constant(value, x.element)
    sizes = [size + sum(width) for size, width in zip(x.shape, widths, strict=True)]
    with rules_as(ShapeError):
        type_ = Tensor(tuple(sizes), x.element)
    return emit(graph.Pad(tuple([low for low, _ in widths]), x.value, filler, type_))


# Places.


def iota(shape: tuple[int, ...], axis: int, dtype: Any = i32) -> TracedArray:
    """The place along an axis, in every element."""
    return emit(graph.Iota(axis, Tensor(shape, dtype)))


def gather(x: TracedArray, axes: Sequence[int], places: Sequence[TracedArray]) -> TracedArray:
    """Elements at places along some axes, which come first in the result."""
    return emit(graph.Gather(tuple(axes), x.value, [p.value for p in places]))


def take_places(x: TracedArray, places: npt.NDArray[Any], axis: int) -> TracedArray:
    """Elements along an axis at places that are known, in one row: slices put together, where
    they are few."""
    runs = _runs(places)
    if len(runs) <= MOST_SLICES:
        return concat([_run(x, axis, *run) for run in runs], axis)
    index = TracedArray(constant_array(places, i32), current())
    return move_axes(gather(x, [axis], [index]), [0], [axis])


def _runs(places: npt.NDArray[Any]) -> list[tuple[int, int, int]]:
    """Places as runs of even steps: start, step, count."""
    runs: list[tuple[int, int, int]] = []
    for place in places.tolist():
        if runs:
            start, step, count = runs[-1]
            if count == 1 or place == start + step * count:
                runs[-1] = start, place - start if count == 1 else step, count + 1
                continue
        runs.append((place, 1, 1))
        if len(runs) > MOST_SLICES:
            break
    return runs or [(0, 1, 0)]


def _run(x: TracedArray, axis: int, start: int, step: int, count: int) -> TracedArray:
    if step:
        return cut_axis(x, axis, start, count, step)
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    return over_shape(cut_axis(x, axis, start, 1), shape)
