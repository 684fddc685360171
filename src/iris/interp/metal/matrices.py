"""The simdgroups' matrices: a lane has two elements of each 8x8 fragment."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.interp.metal.access import note, reach
from iris.interp.metal.counters import Counters
from iris.interp.metal.frame import Frame
from iris.interp.metal.loadstore import count_access
from iris.interp.metal.memory import Memory
from iris.interp.metal.rules import counting, interpretation
from iris.interp.metal.shadow import Use
from iris.interp.metal.threads import check_simdgroups
from iris.interp.quick import spread
from iris.ir import metal, scalar
from iris.ir.layout.linear import APPLE_FRAGMENT, FRAGMENT_ROWS
from iris.ir.metal import FRAGMENT_SIZE, SIMDGROUP_WIDTH, count_of

Array = npt.NDArray[Any]

# Which element of a fragment, by its row-major number, each lane has as its first and second.
_ELEMENTS = APPLE_FRAGMENT.table().reshape(2, SIMDGROUP_WIDTH).T.reshape(-1)
_HOLDERS = np.argsort(_ELEMENTS)
# Which lane says where each row of each fragment is, and for which fragment a lane does.
_GIVERS = np.argsort(FRAGMENT_ROWS.table().reshape(-1)).reshape(FRAGMENT_ROWS.shape)
_GIVEN, _ = FRAGMENT_ROWS.apply(lane=np.arange(SIMDGROUP_WIDTH))


@interpretation(metal.Mma)
def mma(frame: Frame, op: metal.Mma, a: Array, b: Array, acc: Array) -> Sequence[Array]:
    check_simdgroups(frame, op)
    for x in (a, b) if op.tf32 else ():
        if scalar.beyond_tf32(x).any():
            frame.fail(op, scalar.beyond_tf32(x), "an operand is no number of tf32")
    left, right, total = (
        _matrices(frame, x, count_of(v.type) // 2)
        for v, x in zip(op.operands, (a, b, acc), strict=True)
    )
    if op.tensors:
        left, right, total = map(_tensors, (left, right, total))
        return [_registers(frame, _fragments(_sum(total, left, right)))]
    if op.transposed:
        right = right.swapaxes(-2, -1)
    for step in range(op.depth):
        rows = left[..., [op.place_in_a(i, step) for i in range(op.rows)], :, :]
        columns = right[..., [op.place_in_b(step, i) for i in range(op.columns)], :, :]
        total = _sum(total, rows, columns)
    return [_registers(frame, total)]


@interpretation(metal.MmaShared)
def mma_shared(
    frame: Frame,
    op: metal.MmaShared,
    a: Memory,
    a_start: Array,
    b: Memory,
    b_start: Array,
    acc: Array,
) -> Sequence[Array]:
    check_simdgroups(frame, op)
    rows, columns, depth = op.shape
    left = _factor(frame, op, a, a_start, (rows, depth), op.strides[0])
    right = _factor(frame, op, b, b_start, (depth, columns), op.strides[1])
    total = _tensors(_matrices(frame, acc, count_of(op.acc.type) // 2))
    with np.errstate(all="ignore"):
        product: Array = np.matmul(left, right)
    size = 2 * FRAGMENT_SIZE
    product = product.reshape(*product.shape[:-2], rows // size, size, columns // size, size)
    product = np.moveaxis(product, -2, -3)
    product = product.reshape(*product.shape[:-4], -1, size, size)
    return [_registers(frame, _fragments(total + product))]


def _factor(
    frame: Frame,
    op: metal.MmaShared,
    memory: Memory,
    start: Array,
    shape: tuple[int, int],
    stride: int,
) -> Array:
    """Read the factor of each simdgroup from memory; each lane reads a part of it."""
    own = np.arange(shape[0] * shape[1]).reshape(SIMDGROUP_WIDTH, -1)
    offsets = np.tile(own // shape[1] * stride + own % shape[1], (frame.simdgroups, 1))
    starts = spread(start, (start.shape[0], len(offsets), *start.shape[2:]))
    by_lane = starts.reshape(start.shape[0], frame.simdgroups, SIMDGROUP_WIDTH, *start.shape[2:])
    differs = (by_lane != by_lane[:, :, :1]).reshape(starts.shape)
    if differs.any():
        frame.fail(op, differs, "lanes of a simdgroup say that a factor starts at several places")
    offsets = offsets.reshape(1, len(offsets), *[1] * (start.ndim - 2), -1)
    reached = reach(frame, op, memory, starts[..., None].astype(np.int64) + offsets, 1, None)
    assert reached is not None, "a factor is of some elements"
    index, active = reached
    places = memory.places(index, frame.rows)
    note(frame, op, memory, Use.READ, places, active)
    values = memory.read(places).astype(np.float32, copy=False)
    if op.tf32:
        beyond = np.asarray(scalar.beyond_tf32(values).any(axis=-1))
        if beyond.any():
            frame.fail(op, beyond, "an operand is no number of tf32")
    lead = values.shape[2:-1]
    apart = values.reshape(values.shape[0], frame.simdgroups, SIMDGROUP_WIDTH, *lead, -1)
    matrix: Array = np.moveaxis(apart, 2, -2).reshape(
        values.shape[0], frame.simdgroups, *lead, *shape
    )
    return matrix


def _sum(total: Array, left: Array, right: Array) -> Array:
    """Add the products of all matrices of a column with all of a row, row by row."""
    rows, columns, size = left.shape[-3], right.shape[-3], left.shape[-1]
    # One product of all rows with all columns, not one for each fragment.
    tall = left.reshape(*left.shape[:-3], rows * size, size)
    wide: Array = right.swapaxes(-3, -2)
    wide = wide.reshape(*wide.shape[:-3], size, columns * size)
    with np.errstate(all="ignore"):
        # What is the same in all programs is there once.
        product: Array = np.matmul(tall, wide)
        product = product.reshape(*product.shape[:-2], rows, size, columns, size)
        product = np.moveaxis(product, -2, -3)
        return total + product.reshape(*product.shape[:-4], rows * columns, size, size)


def _tensors(x: Array) -> Array:
    """The 16x16 matrices that fours of fragments make: of those beside each other each gives two
    columns by turns."""
    lead = x.shape[:-3]
    apart: Array = x.reshape(*lead, -1, 2, 2, 8, 4, 2)  # below, beside; rows, pairs of columns
    return np.moveaxis(apart, -4, -2).reshape(*lead, -1, 16, 16)


def _fragments(x: Array) -> Array:
    """The fragments of such matrices."""
    lead = x.shape[:-3]
    apart = x.reshape(*lead, -1, 2, 8, 4, 2, 2)
    return np.moveaxis(apart, -2, -4).reshape(*lead, -1, 8, 8)


@interpretation(metal.LoadRows)
def load_rows(frame: Frame, op: metal.LoadRows, memory: Memory, offset: Array) -> Sequence[Array]:
    check_simdgroups(frame, op)
    count = metal.fragments_of(op.result)
    givers = _rows_given(frame, offset, count)
    reached = reach(frame, op, memory, offset, FRAGMENT_SIZE, givers)
    if reached is None:
        return [np.zeros((1,) * frame.rank(op.result.type), scalar.storage(memory.dtype))]
    starts = _by_fragment(frame, reached[0][..., 0])[..., :count, :]
    row, column = _ELEMENTS // FRAGMENT_SIZE, _ELEMENTS % FRAGMENT_SIZE
    if op.transposed:
        row, column = column, row
    index = _of_threads(starts[..., row] + column)
    places = memory.places(index, frame.rows)
    note(frame, op, memory, Use.READ, places, frame.enabled(None, index.ndim))
    return [memory.read(places)]


def _rows_given(frame: Frame, offset: Array, count: int) -> Array | None:
    """Which threads say where a row is, if not all."""
    if count == len(_GIVERS):
        return None
    gives = np.tile(count > _GIVEN, frame.simdgroups)
    return gives.reshape(1, -1, *[1] * (offset.ndim - 2))


def _by_fragment(frame: Frame, x: Array) -> Array:
    """What threads have for the rows of fragments: rows, simdgroups, loops, fragments, 8."""
    lead = x.shape[2:]
    whole = np.broadcast_to(x, (x.shape[0], frame.simdgroups * SIMDGROUP_WIDTH, *lead))
    apart = whole.reshape(x.shape[0], frame.simdgroups, SIMDGROUP_WIDTH, *lead)
    return np.moveaxis(apart, 2, -1)[..., _GIVERS]


def _matrices(frame: Frame, x: Array, count: int) -> Array:
    """The fragments that simdgroups have: rows, simdgroups, loops, fragments, 8, 8."""
    lead = x.shape[2:-1]
    threads = frame.simdgroups * SIMDGROUP_WIDTH
    whole = spread(x, (x.shape[0], threads, *lead, 2 * count))
    apart = whole.reshape(x.shape[0], frame.simdgroups, SIMDGROUP_WIDTH, *lead, count, 2)
    lanes = np.moveaxis(apart, 2, -2)
    flat = lanes.reshape(*lanes.shape[:-2], 64).astype(np.float32, copy=False)
    return flat[..., _HOLDERS].reshape(*flat.shape[:-1], 8, 8)


def _registers(frame: Frame, x: Array) -> Array:
    """What threads have of such fragments."""
    return _of_threads(x.reshape(*x.shape[:-2], 64)[..., _ELEMENTS])


def _of_threads(flat: Array) -> Array:
    """What threads have of fragments whose elements are in the order of lanes."""
    lanes = np.moveaxis(flat.reshape(*flat.shape[:-1], SIMDGROUP_WIDTH, 2), -2, 2)
    threads = lanes.shape[1] * SIMDGROUP_WIDTH
    return lanes.reshape(lanes.shape[0], threads, *lanes.shape[3:-2], 2 * lanes.shape[-2])


@counting(metal.LoadRows)
def count_load_rows(
    counters: Counters, frame: Frame, op: metal.LoadRows, memory: Memory, offset: Array
) -> None:
    givers = _rows_given(frame, offset, metal.fragments_of(op.result))
    count_access(counters, frame, op, memory, offset, FRAGMENT_SIZE, givers, True)


@counting(metal.MmaShared)
def count_mma_shared(
    counters: Counters, frame: Frame, op: metal.MmaShared, *operands: object
) -> None:
    fragments = prod(op.shape) // FRAGMENT_SIZE**3
    counters.mmas += frame.threads_running() // SIMDGROUP_WIDTH * fragments


@counting(metal.Mma)
def count_mma(counters: Counters, frame: Frame, op: metal.Mma, *operands: Array) -> None:
    fragments = op.rows * op.columns * op.depth
    counters.mmas += frame.threads_running() // SIMDGROUP_WIDTH * fragments
