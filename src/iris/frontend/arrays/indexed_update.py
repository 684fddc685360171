"""`x.at[index].set(values)` and `.add(values)`: copies of an array with some elements changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NoReturn

import numpy as np

from iris.errors import DTypeError, LanguageError
from iris.frontend.arrays.array_elementwise import binary, select
from iris.frontend.arrays.array_values import (
    Operand,
    dtype_of,
    emit,
    is_weak,
    operand,
    reshaped,
    shape_of,
    spread,
)
from iris.frontend.arrays.indexing import Index, common_places, parse
from iris.frontend.arrays.shapes import cut, pad, take_places, transpose
from iris.frontend.arrays.traced import TracedArray
from iris.frontend.tracing import error_here
from iris.ir import graph, math
from iris.ir.graph import ScatterKind
from iris.ir.types import bool_

_INSTEAD = {
    "get": "; x[index] is what is there",
    **{
        name: f"; where no index repeats, x.at[index].set({made}) does it"
        for names, made in (
            (("max", "maximum"), "np.maximum(x[index], values)"),
            (("min", "minimum"), "np.minimum(x[index], values)"),
            (("mul", "multiply"), "x[index] * values"),
            (("div", "divide"), "x[index] / values"),
            (("power",), "x[index] ** values"),
            (("apply",), "function(x[index])"),
        )
        for name in names
    },
    **dict.fromkeys(("sub", "subtract"), "; .add(-values) subtracts"),
}


class AtIndexer:
    """`x.at`, which takes an index."""

    __slots__ = ("x",)

    def __init__(self, x: TracedArray):
        self.x = x

    def __getitem__(self, key: Any) -> IndexedUpdate:
        operand(self.x)
        return IndexedUpdate(self.x, parse(self.x.shape, key))

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise error_here(LanguageError, f"x.at takes an index first: x.at[index].{name}(...)")

    def __setitem__(self, key: Any, value: Any) -> None:
        raise error_here(
            LanguageError, "write x = x.at[index].set(values); no array changes while tracing"
        )


class IndexedUpdate:
    """An array and an index, to be updated."""

    __slots__ = ("index", "x")

    def __init__(self, x: TracedArray, index: Index):
        self.x = x
        self.index = index

    def __getattr__(self, name: str) -> NoReturn:
        """Raise an error that names an alternative."""
        if name.startswith("__"):
            raise AttributeError(name)
        instead = _INSTEAD.get(name, "")
        raise error_here(
            LanguageError, f"x.at[index] has .set(values) and .add(values), not .{name}{instead}"
        )

    def set(self, values: Any) -> TracedArray:
        """The array with other values at the places. Of those given for one place the last stays,
        as in NumPy, where the places are known; places that are computed are different ones."""
        updates = self._updates(values)
        if not _is_block(self.index):
            index, last = _last_of_each(self.x, self.index, updates)
            return _scattered(self.x, index, last, ScatterKind.SET)
        block = _block(self.x, self.index, updates)
        if block.shape == self.x.shape:
            return block.copied()
        inside = spread(True, bool_, block.shape)
        widths = _around(self.x, self.index)
        return select(pad(inside, widths, False), pad(block, widths, 0), self.x)

    def add(self, values: Any) -> TracedArray:
        """The array with values added at the places, as often as a place is named."""
        updates = self._updates(values)
        if not _is_block(self.index):
            return _scattered(self.x, self.index, updates, ScatterKind.ADD)
        # Of all floats only -0 leaves every number as it is.
        nothing = -0.0 if self.x.element.is_float else 0
        block = _block(self.x, self.index, updates)
        return binary(math.Add, self.x, pad(block, _around(self.x, self.index), nothing))

    def _updates(self, values: Any) -> TracedArray:
        """Values over the shape of what is at the places."""
        given, dtype = operand(values), self.x.element
        own = dtype_of(given)
        loses = (own.is_float and not dtype.is_float) or (own is not bool_ and dtype is bool_)
        if loses and not (is_weak(given) and isinstance(given, (bool, int))):
            raise error_here(
                DTypeError, f"{own} does not go into an array of {dtype}; use astype first"
            )
        return spread(_without_leading_ones(given, len(self.index.shape)), dtype, self.index.shape)


def _without_leading_ones(x: Operand, rank: int) -> Operand:
    """As NumPy has it for what is assigned: axes of size 1 more than there are places do not
    matter."""
    shape = shape_of(x)
    if len(shape) <= rank or set(shape[: len(shape) - rank]) != {1}:
        return x
    rest = shape[len(shape) - rank :]
    return reshaped(x, rest) if isinstance(x, TracedArray) else np.reshape(np.asarray(x), rest)


def _last_of_each(x: TracedArray, index: Index, updates: TracedArray) -> tuple[Index, TracedArray]:
    """Different places, if they are known, and the last update of each."""
    known = [p for p in index.places.values() if isinstance(p, np.ndarray)]
    if len(known) < len(index.places):
        return index, updates
    sizes = [x.shape[axis] for axis in index.places]
    flat = np.ravel_multi_index(np.broadcast_arrays(*known), sizes).ravel()[::-1]
    _, where = np.unique(flat, return_index=True)
    if where.size == flat.size:
        return index, updates
    kept = np.sort(flat.size - 1 - where)
    places = [np.broadcast_to(p, index.block_shape).ravel()[kept] for p in known]
    after = index.block + len(index.block_shape)
    together = (*updates.shape[: index.block], flat.size, *updates.shape[after:])
    last = take_places(reshaped(updates, together), kept, index.block)
    return replace(index, places=dict(zip(index.places, places, strict=True))), last


def _is_block(index: Index) -> bool:
    """Whether the places stand together: they are then told from the others by where they are."""
    steps = zip(index.steps, index.sizes, strict=True)
    return not index.places and all(abs(step) == 1 or size < 2 for step, size in steps)


def _block(x: TracedArray, index: Index, updates: TracedArray) -> TracedArray:
    """The updates with the axes of the array, none of them going backwards."""
    made = reshaped(updates, tuple(index.sizes))
    backwards = [step < 0 and size > 1 for step, size in zip(index.steps, index.sizes, strict=True)]
    starts = [n - 1 if back else 0 for n, back in zip(index.sizes, backwards, strict=True)]
    return cut(made, starts, [-1 if back else 1 for back in backwards], index.sizes)


def _around(x: TracedArray, index: Index) -> list[tuple[int, int]]:
    """How many elements there are before and after the places, along each axis."""
    widths = []
    for n, start, step, size in zip(x.shape, index.starts, index.steps, index.sizes, strict=True):
        low = (min(start, start + step * (size - 1))) if size else 0
        widths.append((low, n - size - low))
    return widths


def _scattered(
    x: TracedArray, index: Index, updates: TracedArray, kind: ScatterKind
) -> TracedArray:
    """Changed by places along every axis that is not taken whole."""
    places: dict[int, Operand] = dict(index.places)
    for axis in index.numbers:
        places[axis] = np.array(index.starts[axis])
    # A slice is places along one more axis of their own.
    partly = [
        axis
        for axis in index.layout
        if axis is not None and (index.sizes[axis], index.steps[axis]) != (x.shape[axis], 1)
    ]
    block = index.block_shape
    for nth, axis in enumerate(partly):
        count = np.arange(index.sizes[axis])
        along = index.starts[axis] + index.steps[axis] * count
        places[axis] = along.reshape(-1, *(1,) * (len(partly) - nth - 1))
    for axis, found in index.places.items():
        shape = shape_of(found) + (1,) * len(partly)
        reshape_to = reshaped(found, shape) if isinstance(found, TracedArray) else None
        places[axis] = np.reshape(np.asarray(found), shape) if reshape_to is None else reshape_to
    shape = (*block, *[index.sizes[axis] for axis in partly])
    axes = sorted(places)
    looked_up = common_places([places[axis] for axis in axes], shape)
    ordered = _in_order(index, updates, partly)
    values = [p.value for p in looked_up]
    if kind is ScatterKind.ADD and x.element is bool_:
        raise error_here(DTypeError, ".add is for numbers, not bool")
    return emit(graph.Scatter(kind, tuple(axes), x.value, ordered.value, values))


def _in_order(index: Index, updates: TracedArray, partly: list[int]) -> TracedArray:
    """The updates with the axes of the places first, then those taken whole."""
    rank = len(index.block_shape)
    labels: list[int | None] = list(index.layout)
    labels[index.block : index.block] = [-1 - i for i in range(rank)]
    kept = [(label, n) for label, n in zip(labels, updates.shape, strict=True) if label is not None]
    made = reshaped(updates, tuple([n for _, n in kept]))
    known = [label for label, _ in kept]
    whole = [label for label in known if label >= 0 and label not in partly]
    order = [*[-1 - i for i in range(rank)], *partly, *whole]
    return transpose(made, [known.index(label) for label in order])
