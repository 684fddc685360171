"""Where a thread is, and what the threads of a simdgroup or a threadgroup do together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.interp.metal.begun import wait_if_implied
from iris.interp.metal.counters import Counters
from iris.interp.metal.frame import Flow, Frame, Wait, lift
from iris.interp.metal.rules import counting, interpretation
from iris.ir import metal
from iris.ir.core import Op
from iris.ir.math import element_type
from iris.ir.metal import SIMDGROUP_WIDTH, Scope

Array = npt.NDArray[Any]


def _of_threads(frame: Frame, x: Array) -> Array:
    return lift(x.astype(np.int32)[None], 2 + len(frame.axes))


@interpretation(metal.Lane)
def lane(frame: Frame, op: metal.Lane) -> Sequence[Array]:
    return [_of_threads(frame, frame.threads % SIMDGROUP_WIDTH)]


@interpretation(metal.Simdgroup)
def simdgroup(frame: Frame, op: metal.Simdgroup) -> Sequence[Array]:
    numbers = frame.threads // SIMDGROUP_WIDTH
    return [_of_threads(frame, numbers[:1] if frame.simdgroups == 1 else numbers)]


@interpretation(metal.ThreadgroupId)
def threadgroup_id(frame: Frame, op: metal.ThreadgroupId) -> Sequence[Array]:
    x, y, _ = frame.launch.numbering.grid
    size = frame.launch.numbering.grid[op.axis]
    number = (frame.rows + frame.chunk.start) // (1, x, x * y)[op.axis] % size
    if size == 1:
        number = number[:1]
    return [lift(number.astype(np.int32), 2 + len(frame.axes))]


@interpretation(metal.NumThreadgroups)
def num_threadgroups(frame: Frame, op: metal.NumThreadgroups) -> Sequence[Array]:
    return [np.full((1,) * (2 + len(frame.axes)), frame.launch.numbering.grid[op.axis], np.int32)]


# Barriers.


@interpretation(metal.Barrier)
def barrier(frame: Frame, op: metal.Barrier) -> Flow:
    wait_if_implied(frame)
    if op.scope is Scope.SIMDGROUP:
        check_simdgroups(frame, op)
        groups = frame.per_simdgroup()
        shape = (len(frame.rows), frame.simdgroups)
        there = np.ones(shape, np.bool_) if groups is None else groups.any(axis=-1)
        rows, simdgroups = np.nonzero(there)
        numbers = frame.threads[::SIMDGROUP_WIDTH] // SIMDGROUP_WIDTH
        frame.chunk.barriers.passed(op.scope, frame.rows[rows], numbers[simdgroups])
        if frame.launch.counters is not None:
            frame.launch.counters.barriers[op.scope.value] += len(rows)
        return []
    if frame.active is not None:
        # In each row of a frame some thread is active, so the others are missing.
        _report_missing(frame, op, ~frame.active, "threadgroup")
    yield Wait(frame, op, op.scope)
    return []


@interpretation(metal.Fence)
def fence(frame: Frame, op: metal.Fence) -> Sequence[Array]:
    frame.chunk.barriers.fence(frame.threads)
    return []


def check_simdgroups(frame: Frame, op: Op) -> None:
    """Reports a simdgroup only some of whose lanes do something that all have to."""
    groups = frame.per_simdgroup()
    if groups is None:
        return
    missing = ~groups & groups.any(axis=-1, keepdims=True)
    if missing.any():
        _report_missing(frame, op, missing.reshape(len(groups), -1), "simdgroup")


def _report_missing(frame: Frame, op: Op, missing: Array, who: str) -> None:
    unmasked = Frame(frame.launch, frame.chunk, frame.rows, frame.threads)
    what = f"{op.name} {op.scope.value}" if isinstance(op, metal.Barrier) else op.name
    unmasked.fail(op, missing, f"{what} is not reached by all threads of the {who}: one is missing")


# Values that lanes give each other.


def _from_threads(frame: Frame, op: Op, x: Array, lanes: Array) -> Sequence[Array]:
    """What each thread gets that takes the value of a lane of its simdgroup."""
    check_simdgroups(frame, op)
    if x.shape[1] == 1:
        return [x]
    first = np.arange(len(frame.threads)) // SIMDGROUP_WIDTH * SIMDGROUP_WIDTH
    return [x[:, first + lanes]]


@interpretation(metal.ShuffleXor)
def shuffle_xor(frame: Frame, op: metal.ShuffleXor, x: Array) -> Sequence[Array]:
    return _from_threads(frame, op, x, (frame.threads % SIMDGROUP_WIDTH) ^ op.mask)


@interpretation(metal.Broadcast)
def broadcast(frame: Frame, op: metal.Broadcast, x: Array) -> Sequence[Array]:
    return _from_threads(frame, op, x, np.full(len(frame.threads), op.lane))


@interpretation(metal.Shuffle)
def shuffle(frame: Frame, op: metal.Shuffle, x: Array, lane: Array) -> Sequence[Array]:
    check_simdgroups(frame, op)
    bad = (lane < 0) | (lane >= SIMDGROUP_WIDTH)
    frame.check(op, bad, f"metal.shuffle from a lane outside 0 to {SIMDGROUP_WIDTH - 1}")
    if x.shape[1] == 1:
        return [x]
    first = np.arange(len(frame.threads)) // SIMDGROUP_WIDTH * SIMDGROUP_WIDTH
    places = lift(first[None], lane.ndim) + np.where(bad, 0, lane).astype(np.intp)
    return [np.take_along_axis(x, lift(places, x.ndim), axis=1)]


@counting(metal.ShuffleXor, metal.Broadcast, metal.Shuffle)
def count_shuffle(counters: Counters, frame: Frame, op: Op, *operands: Array) -> None:
    elements = int(np.prod(element_type(op.results[0].type).shape, dtype=int))
    kind = op.name.removeprefix("metal.")
    counters.shuffles[kind] += frame.threads_running() // SIMDGROUP_WIDTH * elements
