"""Loops and branches, which threads may take together or not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.interp.metal.begun import wait_if_implied
from iris.interp.metal.frame import Flow, Frame, Part, join, lift, take
from iris.interp.metal.memory import Memory
from iris.interp.metal.rules import interpretation
from iris.interp.quick import all_of, any_of
from iris.interp.watch import Turn
from iris.ir import metal, scalar
from iris.ir.control import For, If, While
from iris.ir.core import Value
from iris.ir.declare import Access
from iris.ir.effects import effects_within, may_alias
from iris.ir.math import element_type
from iris.ir.types import Threadgroup

Array = npt.NDArray[Any]


@interpretation(If)
def branch(frame: Frame, op: If, condition: Array) -> Flow:
    taken, other = condition, ~condition
    if frame.active is not None:
        taken, other = taken & frame.active, other & frame.active
    if not any_of(other):
        return (yield from frame.run(op.then, ()))
    if not any_of(taken):
        return (yield from frame.run(op.otherwise, ()))
    parts = []
    for region, active in ((op.then, taken), (op.otherwise, other)):
        kept = _rows(frame, active)
        inner = frame.only(kept, active[kept] if len(active) > 1 else active)
        values = yield from inner.run(region, ())
        parts.append(Part(kept, inner.active, values))
    return join(frame, parts)


def _rows(frame: Frame, active: Array) -> Array:
    """The rows in which any thread is active."""
    return np.flatnonzero(np.broadcast_to(active.any(axis=1), len(frame.rows)))


@interpretation(For)
def count(frame: Frame, op: For, lower: Array, upper: Array, step: Array, *carried: Any) -> Flow:
    for where, message in scalar.program_errors(op, lower, upper, step):
        frame.check(op, where, message)
    # With wrapping all this is right for u64 too.
    stride = np.where(step == 0, step.dtype.type(1), step)  # of inactive threads
    trips = scalar.trips(lower, upper, stride)
    done = 0

    def again(inner: Frame, kept: Array, values: Sequence[Any]) -> Flow:
        yield from ()
        return [np.asarray(take(trips, kept) > done)]

    def once(inner: Frame, kept: Array, values: Sequence[Any]) -> Flow:
        nonlocal done
        first, by = (take(x, kept).astype(np.int64) for x in (lower, stride))
        index = (first + done * by).astype(lower.dtype)
        done += 1
        return (yield from inner.run(op.body, (index, *values)))

    found = yield from loop(frame, carried, again, once)
    for result, value in zip(op.results, found, strict=True):
        if value is None and result.users:
            raise op.invalid(f"threads leave it with different memories as {result!r}")
    return found


@interpretation(While)
def repeat(frame: Frame, op: While, *carried: Any) -> Flow:
    run = object()

    def again(inner: Frame, kept: Array, values: Sequence[Any]) -> Flow:
        found = yield from inner.run(op.condition, values)
        if op in frame.launch.waiting:
            yield Turn(run, values, bool(found[0].any()))
        return found

    return (
        yield from loop(
            frame,
            carried,
            again,
            lambda inner, kept, values: inner.run(op.body, values),
        )
    )


Round = Callable[[Frame, Array, Sequence[Any]], Flow]


def loop(frame: Frame, carried: Sequence[Any], again: Round, once: Round) -> Flow:
    """Runs a loop for as long as some threads go on.  A program all whose threads are done leaves;
    a thread that is done before others of its program is no longer active.

    Memory that is carried is the same for all that are in the same round; what it is for those
    that left in different ones is None.
    """
    wait_if_implied(frame)
    inner, kept = frame, np.arange(len(frame.rows))
    left: list[Part] = []
    parted = False  # whether threads of one program were done at different times
    while True:
        (more,) = yield from again(inner, kept, carried)
        active = inner.active
        if active is not None:
            more = more & active
        if not all_of(more if active is None else more == active):
            staying = _rows(inner, more)
            if len(staying) < len(kept):
                leaving = np.delete(np.arange(len(kept)), staying)
                left.append(Part(kept[leaving], None, [take(x, leaving) for x in carried]))
                if not len(staying):
                    wait_if_implied(frame)
                    found = join(frame, left)
                    return [None if parted and isinstance(x, Memory) else x for x in found]
                kept = kept[staying]
                carried = [take(x, staying) for x in carried]
                more = take(more, staying)
            inner = frame.only(kept, more)
        new = yield from once(inner, kept, carried)
        if inner is not frame and inner.active is not None:
            parted, mask = True, inner.active
            carried = [
                x if isinstance(x, Memory) else np.where(lift(mask, x.ndim), x, old)
                for x, old in zip(new, carried, strict=True)
            ]
        else:
            carried = new


# The loop whose rounds are independent.


@interpretation(metal.Foreach)
def foreach(frame: Frame, op: metal.Foreach) -> Flow:
    together = frame.launch.together.get(op)
    if together is None:
        together = frame.launch.together[op] = _together(op)
    if not together:
        return (yield from _one_by_one(frame, op))
    axis = 2 + len(frame.axes)
    inner = frame.rounds(op.count)
    numbers = np.arange(op.count, dtype=np.int32).reshape(*[1] * axis, -1)
    values = yield from inner.run(op.body, (numbers,))
    found = []
    for result, carried, x in zip(op.results, op.body.end.operands, values, strict=True):
        if element_type(carried.type).shape:
            width = metal.count_of(carried.type)
            if x.shape[-2:] == (1, 1):
                x = x[..., 0]
            else:
                whole = np.broadcast_to(x, (*x.shape[:-2], op.count, width))
                x = whole.reshape(*x.shape[:-2], op.count * width)
        found.append(x if element_type(result.type).shape else x[..., 0])
    return found


def _one_by_one(frame: Frame, op: metal.Foreach) -> Flow:
    rounds = []
    for number in range(op.count):
        index = np.full((1,) * (2 + len(frame.axes)), number, np.int32)
        rounds.append((yield from frame.run(op.body, (index,))))
    found = []
    for result, carried, parts in zip(
        op.results, op.body.end.operands, zip(*rounds, strict=True), strict=True
    ):
        type_ = element_type(carried.type)
        columns = [x if type_.shape else x[..., None] for x in parts]
        lead = np.broadcast_shapes(*[x.shape[:-1] for x in columns])
        wide = (*lead, metal.count_of(type_))
        whole = np.concatenate([np.broadcast_to(x, wide) for x in columns], axis=-1)
        found.append(whole if element_type(result.type).shape else whole[..., 0])
    return found


_FLOWS = (If, For, While)
_IN_ORDER = (metal.Barrier, metal.WaitCopies, metal.Print, metal.Atomic, metal.CompareExchange)


def _together(op: metal.Foreach) -> bool:
    """Whether the rounds of a loop can run all at once: if they neither part, nor wait, nor meet
    in memory.  Those that do run one after the other."""
    if any(isinstance(inner, (*_FLOWS, *_IN_ORDER)) for inner in op.walk()):
        return False
    accesses = [
        (e.access, e.resource)
        for e in effects_within(op)
        if isinstance(e.resource, Value) and e.access is not Access.ALLOCATE
    ]
    return not any(
        (one.writes or other.writes) and _overlap(a, b)
        for (one, a), (other, b) in combinations(accesses, 2)
    )


def _overlap(a: Value, b: Value) -> bool:
    """Whether two names of memory may be of the same: as `may_alias`, that knows less of views."""
    root_a, start_a = _root(a)
    root_b, start_b = _root(b)
    if root_a is not root_b:
        return may_alias(root_a, root_b)
    if not (isinstance(a.type, Threadgroup) and isinstance(b.type, Threadgroup)):
        return True
    return start_a < start_b + b.type.bytes and start_b < start_a + a.type.bytes


def _root(memory: Value) -> tuple[Value, int]:
    """The allocation or argument that memory is part of, and from which byte on."""
    start = 0
    while isinstance(memory.op, metal.View):
        start += memory.op.start
        memory = memory.op.x
    return memory, start
