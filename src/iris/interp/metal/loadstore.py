"""Loads and stores, and the memory of the threadgroup."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.interp.metal.access import find, lanes, note, reach, shape_of
from iris.interp.metal.counters import Counters
from iris.interp.metal.frame import Frame
from iris.interp.metal.memory import Device, Memory, Shared
from iris.interp.metal.rules import counting, interpretation
from iris.interp.metal.shadow import Use
from iris.ir import metal, scalar
from iris.ir.core import Op
from iris.ir.types import Threadgroup

Array = npt.NDArray[Any]


@interpretation(metal.Extent)
def extent(frame: Frame, op: metal.Extent, array: Device) -> Sequence[Array]:
    shape = array.array.shape
    if op.axis >= len(shape):
        frame.fail(
            op,
            np.ones((1, 1), np.bool_),
            f"{array.name} has no axis {op.axis}: it is an array of {len(shape)} dimensions",
            memory=array,
        )
    return [np.full((1,) * frame.rank(op.result.type), shape[op.axis], np.int32)]


@interpretation(metal.Alloc)
def allocate(frame: Frame, op: metal.Alloc) -> Sequence[Shared]:
    return [frame.chunk.allocate(op, frame.rows, frame.threads)]


@interpretation(metal.View)
def view(frame: Frame, op: metal.View, whole: Shared) -> Sequence[Shared]:
    name = op.result.name or whole.name
    return [Shared(name, op.result.type_as(Threadgroup), whole.arena, whole.first + op.start)]


@interpretation(metal.Load)
def load(
    frame: Frame,
    op: metal.Load,
    memory: Memory,
    offset: Array,
    mask: Array | None = None,
    other: Array | None = None,
) -> Sequence[Array]:
    count = metal.count_of(op.result.type)
    reached = reach(frame, op, memory, offset, count, mask)
    rank = frame.rank(op.result.type)
    if other is None:
        other = np.zeros((1,) * rank, scalar.storage(memory.dtype))
    if reached is None:
        return [other]
    index, active = reached
    if index.ndim < rank:  # one element, as an array of one
        index, active = index[..., None], None if active is None else active[..., None]
    places = memory.places(index, frame.rows)
    if op.volatile:
        find(frame, op, memory, places, active)
    note(frame, op, memory, Use.ATOMIC_READ if op.volatile else Use.READ, places, active)
    found = memory.read(places)
    return [found if active is None else np.where(active, found, other)]


@interpretation(metal.Store)
def store(
    frame: Frame,
    op: metal.Store,
    memory: Memory,
    offset: Array,
    x: Array,
    mask: Array | None = None,
) -> Sequence[Array]:
    reached = reach(frame, op, memory, offset, metal.count_of(op.value.type), mask)
    if reached is None:
        return []
    index, active = reached
    if index.ndim < x.ndim:
        index, active = index[..., None], None if active is None else active[..., None]
    places = memory.places(index, frame.rows)
    note(frame, op, memory, Use.WRITE, places, active, x)
    shape = np.broadcast_shapes(shape_of(frame, index, active), x.shape)
    memory.write(*lanes(shape, active, places, x))
    return []


# What is counted.


@counting(metal.Load)
def count_load(
    counters: Counters,
    frame: Frame,
    op: metal.Load,
    memory: Memory,
    offset: Array,
    mask: Array | None = None,
    other: Array | None = None,
) -> None:
    count_access(counters, frame, op, memory, offset, metal.count_of(op.result.type), mask, True)


@counting(metal.Store)
def count_store(
    counters: Counters,
    frame: Frame,
    op: metal.Store,
    memory: Memory,
    offset: Array,
    x: Array,
    mask: Array | None = None,
) -> None:
    count_access(counters, frame, op, memory, offset, metal.count_of(op.value.type), mask, False)


def count_access(
    counters: Counters,
    frame: Frame,
    op: Op,
    memory: Memory,
    offset: Array,
    count: int,
    mask: Array | None,
    loads: bool,
) -> None:
    """Count an access of each thread to some neighbours."""
    active = frame.enabled(mask, offset.ndim)
    shape = (*frame.size, *frame.axes)
    first = np.broadcast_to(offset.astype(np.int64) * memory.itemsize, shape)
    if active is not None:
        first = np.where(active, first, -1)
    # A row for each instruction of a simdgroup.
    first = np.moveaxis(first.reshape(shape[0], -1, metal.SIMDGROUP_WIDTH, *shape[2:]), 2, -1)
    memory.count(counters, first.reshape(-1, metal.SIMDGROUP_WIDTH), count, loads)
