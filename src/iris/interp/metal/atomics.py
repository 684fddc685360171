"""Atomic accesses: of many threads at once, as if one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.interp.metal.access import find, lanes, leave, note, reach
from iris.interp.metal.counters import Counters
from iris.interp.metal.frame import Frame
from iris.interp.metal.memory import Memory
from iris.interp.metal.rules import counting, interpretation
from iris.interp.metal.shadow import Use
from iris.ir import metal, scalar
from iris.ir.core import Op
from iris.ir.kinds import AtomicKind

Array = npt.NDArray[Any]

#: How often `compare_exchange` fails for no reason, where threads run by turns: once in so many.
_SPURIOUS = 8

_UFUNCS: dict[AtomicKind, np.ufunc] = {
    AtomicKind.ADD: np.add,
    AtomicKind.AND: np.bitwise_and,
    AtomicKind.OR: np.bitwise_or,
    AtomicKind.XOR: np.bitwise_xor,
    AtomicKind.MAX: np.maximum,
    AtomicKind.MIN: np.minimum,
}


@interpretation(metal.AtomicLoad)
def atomic_load(
    frame: Frame, op: metal.AtomicLoad, memory: Memory, offset: Array
) -> Sequence[Array]:
    reached = reach(frame, op, memory, offset, 1, None)
    if reached is None:
        return [np.zeros(offset.shape, scalar.storage(memory.dtype))]
    index, active = reached
    places = memory.places(index, frame.rows)
    find(frame, op, memory, places, active)
    note(frame, op, memory, Use.ATOMIC_READ, places, active)
    return [memory.read(places)]


@interpretation(metal.Atomic)
def atomic(
    frame: Frame, op: metal.Atomic, memory: Memory, offset: Array, x: Array
) -> Sequence[Array]:
    def update(places: Array, new: Array) -> list[Array]:
        return [_update(op.kind, memory, places, new)]

    return _atomically(frame, op, memory, offset, update, x)


@interpretation(metal.CompareExchange)
def compare_exchange(
    frame: Frame, op: metal.CompareExchange, memory: Memory, offset: Array, *values: Array
) -> Sequence[Array]:
    chance = frame.launch.chance

    def update(places: Array, expected: Array, new: Array) -> list[Array]:
        if chance is None:
            able = np.ones(places.shape, np.bool_)
        else:
            able = chance.integers(_SPURIOUS, size=places.shape) != 0
        return _compare_exchange(memory, places, expected, new, able)

    return _atomically(frame, op, memory, offset, update, *values)


def _atomically(
    frame: Frame,
    op: Op,
    memory: Memory,
    offset: Array,
    update: Callable[..., list[Array]],
    *values: Array,
) -> Sequence[Array]:
    """Updates an element for each thread, in order."""
    reached = reach(frame, op, memory, offset, 1, None)
    shape = (*frame.size, *frame.axes)
    results = [np.zeros(shape, scalar.storage(v.type.element)) for v in op.results]
    if reached is None:
        return results
    index, active = reached
    places = memory.places(index, frame.rows)
    find(frame, op, memory, places, active)
    note(frame, op, memory, Use.ATOMIC, places, active)
    where = np.broadcast_to(True if active is None else active, shape)
    ordered = [x.reshape(-1) for x in lanes(shape, active, places, *values)]
    found = update(*ordered)
    for result, x in zip(results, found, strict=True):
        result[where] = x
    wrote = found[1] if len(found) > 1 else np.ones(len(found[0]), np.bool_)
    leave(frame, memory, places, active, wrote)
    return results


def _update(kind: AtomicKind, memory: Memory, places: Array, values: Array) -> Array:
    """Updates one element per thread; gives the old elements."""
    old = np.empty_like(values)
    for turns in _in_turn(places):
        at = places[turns[0]]
        running = np.concatenate([memory.read(at)[None], values[turns]])
        if kind is not AtomicKind.EXCHANGE:
            running = _UFUNCS[kind].accumulate(running, axis=0, dtype=running.dtype)
        old[turns] = running[:-1]
        memory.write(at, running[-1])
    return old


def _compare_exchange(
    memory: Memory, places: Array, expected: Array, values: Array, able: Array
) -> list[Array]:
    """Writes where the bits are the expected ones; gives the old elements and where it wrote."""
    old, done = np.empty_like(values), np.zeros(values.shape, np.bool_)
    wanted = scalar.to_bits(memory.dtype, expected)
    for turns in _in_turn(places):
        for turn in turns:
            found = memory.read(places[turn])
            same = (scalar.to_bits(memory.dtype, found) == wanted[turn]) & able[turn]
            old[turn], done[turn] = found, same
            memory.write(places[turn][same], values[turn][same])
    return [old, done]


def _in_turn(places: Array) -> Iterator[Array]:
    """Arrays of threads: those in a column have one place, an earlier thread first, and no two
    columns have the same.  There is one array for each number of threads that meet in a place, so
    few."""
    order = np.argsort(places, kind="stable")
    ranked = places[order]
    first = np.ones(places.size, np.bool_)
    first[1:] = ranked[1:] != ranked[:-1]
    starts = np.flatnonzero(first)
    counts = np.diff(starts, append=places.size)
    for count in np.unique(counts):
        yield order[starts[counts == count] + np.arange(count)[:, None]]


@counting(metal.AtomicLoad, metal.Atomic, metal.CompareExchange)
def count_atomic(
    counters: Counters, frame: Frame, op: Op, memory: Memory, *operands: Array
) -> None:
    counters.atomics[memory.kind] += frame.threads_running()
