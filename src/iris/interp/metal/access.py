"""An access to memory: where it goes, whether it may, and the note that is made of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.errors import ProgramError, RaceError, RaceKind
from iris.interp.metal.describe import locations, thread_text
from iris.interp.metal.frame import Frame, lift
from iris.interp.metal.memory import ALIGNMENT, Device, Memory
from iris.interp.metal.shadow import Conflict, Stamps, Use
from iris.interp.quick import all_of, any_of, spread
from iris.ir.core import Op
from iris.ir.metal import Scope

Array = npt.NDArray[Any]


def reach(
    frame: Frame, op: Op, memory: Memory, offset: Array, count: int, mask: Array | None
) -> tuple[Array, Array | None] | None:
    """The indices of the `count` elements that each thread accesses, checked, on an axis of their
    own if there are several; and which threads do, if not all.

    Where a thread does not, the indices are in bounds all the same; None if there are none.
    """
    active = frame.enabled(mask, offset.ndim)
    last = memory.size - count
    if memory.gaps is not None or int(offset.min()) < 0 or int(offset.max()) > last:
        outside = memory.outside(offset, count)
        bad = outside if active is None else outside & active
        if any_of(bad):
            what = f"is outside {memory.name}, {memory.extent}"
            if count > 1:
                what = f"and the {count - 1} after it are not all in {memory.name}, {memory.extent}"
            frame.fail(op, bad, what, memory=memory, index=offset)
        if last < 0:
            return None
        offset = np.where(outside, 0, offset)
    index = offset.astype(np.intp, copy=False)
    if count == 1:
        return index, active
    _check_alignment(frame, op, memory, index, count, active)
    index = index[..., None] + np.arange(count)
    return index, None if active is None else active[..., None]


def _check_alignment(
    frame: Frame, op: Op, memory: Memory, index: Array, count: int, active: Array | None
) -> None:
    odd = index % count != 0
    bad = odd if active is None else odd & active
    if any_of(bad):
        what = f"is misaligned: {count} elements of {memory.name} are accessed at a time"
        frame.fail(op, bad, what, memory=memory, index=index)
    wanted = min(ALIGNMENT, count * memory.itemsize)
    if memory.address % wanted:
        bad = np.ones(index.shape, np.bool_) if active is None else active
        if any_of(bad):
            what = f"is misaligned: {memory.name} does not start at a multiple of {wanted} bytes"
            frame.fail(op, bad, what, memory=memory, index=index)


def lanes(shape: tuple[int, ...], active: Array | None, *values: Array) -> list[Array]:
    """Values of a shape: the elements that are active, in a row, or if all are, all."""
    wide = [spread(x, shape) for x in values]
    if active is None:
        return wide
    where = spread(active, shape)
    return [x[where] for x in wide]


def shape_of(frame: Frame, index: Array, active: Array | None) -> tuple[int, ...]:
    """The shape of accesses, all programs and threads apart."""
    rest = index.shape[2:] if active is None else np.broadcast_shapes(index.shape, active.shape)[2:]
    return (*frame.size, *rest)


def note(
    frame: Frame,
    op: Op,
    memory: Memory,
    use: Use,
    places: Array,
    active: Array | None,
    stored: Array | None = None,
) -> None:
    """Notes accesses, and reports it if others are in their way, or nothing is there to read.

    Threads of a program may store equal values to one element at once.  So may its simdgroups by
    turns, by one op.
    """
    shadow = memory.shadow
    if shadow is None:
        return
    shape = shape_of(frame, places, active)
    values = repeats = None
    if stored is not None:
        shape = np.broadcast_shapes(shape, stored.shape)
        values = partial(_bits, shape, active, stored)
    own = _stamps(frame, op)
    stamps = memory.stamps(frame.chunk.barriers, use, own, frame.rows, frame.threads)
    stamps = stamps.changed(lambda x: lift(x, len(shape)))
    since = memory.fresh_since(frame.rows, frame.threads) if use is not Use.WRITE else None
    if since is not None:
        since = lift(since, len(shape))
    if active is not None:
        (places,) = lanes(shape, active, places)
        chosen = active
        stamps = stamps.changed(lambda x: _some(shape, chosen, x))
        since = None if since is None else _some(shape, active, since)
    else:
        places = spread(places, shape)
    if values is not None and frame.launch.chance is not None:
        repeats = partial(_repeats, frame, op, memory, places, values)
    in_flight = memory.in_flight
    for units in memory.units(places):
        if in_flight is not None and in_flight[units].any():
            where = int(in_flight[units].argmax())
            _report(frame, op, memory, places, stamps, where, "is still being copied to")
        if since is not None:
            written = shadow.written_since(units, since)
            if not all_of(written):
                where = int(written.argmin())
                why = "is read before anything is written there"
                _report(frame, op, memory, places, stamps, where, why)
        conflict = shadow.touch(use, units, stamps, values, repeats)
        if conflict is not None:
            _report_race(frame, op, memory, use, places, stamps, conflict)


def find(frame: Frame, op: Op, memory: Memory, places: Array, active: Array | None) -> None:
    """Notes that threads read, by atomic ops or volatile loads, what others may have left."""
    clock = frame.chunk.barriers.clock
    if clock is None or not isinstance(memory, Device):
        return
    for thread, place in _each(frame, places, active):
        frame.chunk.asked = op, memory, memory.index_at(place)
        if memory.shadow is not None:
            clock.find(thread, (memory.shadow, memory.start + place * memory.width))


def leave(frame: Frame, memory: Memory, places: Array, active: Array | None, wrote: Array) -> None:
    """Notes that threads have written by atomic ops, where that is so."""
    clock = frame.chunk.barriers.clock
    if clock is None or not isinstance(memory, Device) or memory.shadow is None:
        return
    for (thread, place), did in zip(_each(frame, places, active), wrote.tolist(), strict=True):
        if did:
            clock.leave(thread, (memory.shadow, memory.start + place * memory.width))


def _each(frame: Frame, places: Array, active: Array | None) -> Iterator[tuple[int, int]]:
    """The threads that access something, each with the place where."""
    shape = shape_of(frame, places, active)
    threads = lift(frame.threads[None], len(shape))
    threads, places = (x.reshape(-1) for x in lanes(shape, active, threads, places))
    return zip(threads.tolist(), places.tolist(), strict=True)


def _bits(shape: tuple[int, ...], active: Array | None, stored: Array) -> Array:
    """The bits of stored values, as their places are noted."""
    (values,) = lanes(shape, active, stored)
    return np.ascontiguousarray(values).view(f"u{values.itemsize}")


def _repeats(
    frame: Frame, op: Op, memory: Memory, places: Array, values: Callable[[], Array], noted: Array
) -> Array:
    """Which stamps are of the same op, where its threads store what is there."""
    numbering = frame.launch.numbering
    of_op = [stamp > 0 and numbering.access_of(stamp)[0] is op for stamp in noted.ravel().tolist()]
    there = memory.read(places)
    are_equal: Array = there.view(f"u{there.itemsize}") == values()
    repeated: Array = np.reshape(of_op, noted.shape) & are_equal
    return repeated


def _stamps(frame: Frame, op: Op) -> Array:
    """The stamp of an access by each of the programs and threads."""
    launch = frame.launch
    if launch.implied_barriers:
        frame.chunk.barriers.passed(Scope.DEVICE, frame.rows)
    numbering = launch.numbering
    now = numbering.now()
    numbering.log.append(op)
    programs = (frame.rows + frame.chunk.start) << numbering.thread_bits
    return np.asarray(now + programs[:, None] + frame.threads)


def _some(shape: tuple[int, ...], active: Array, x: Array) -> Array:
    return x.reshape(-1) if x.size == 1 else lanes(shape, active, x)[0]


def _own(places: Array, stamps: Stamps, where: int) -> int:
    return int(np.broadcast_to(stamps.own, places.shape).reshape(-1)[where])


def _report(
    frame: Frame, op: Op, memory: Memory, places: Array, stamps: Stamps, where: int, why: str
) -> None:
    numbering, at = frame.launch.numbering, memory.index_at(int(places.reshape(-1)[where]))
    _, number, thread = numbering.access_of(_own(places, stamps, where))
    program = numbering.program(number)
    raise ProgramError(
        f"element {at} of {memory.name} {why}, in program {program}, {thread_text(thread)}",
        program=program,
        thread=thread,
        array=memory.name,
        index=at,
        locations=locations(op),
    )


def _report_race(
    frame: Frame,
    op: Op,
    memory: Memory,
    use: Use,
    places: Array,
    stamps: Stamps,
    conflict: Conflict,
) -> None:
    numbering = frame.launch.numbering
    at = memory.index_at(int(places.reshape(-1)[conflict.where]))
    _, number, thread = numbering.access_of(_own(places, stamps, conflict.where))
    earlier, other_number, other_thread = numbering.access_of(conflict.stamp)
    through = earlier.operands[0].name
    program, other = numbering.program(number), numbering.program(other_number)
    by = f"program {other}, {thread_text(other_thread)}"
    between, why = "programs", ""
    if number == other_number:
        by = thread_text(other_thread)
        between, why = "threads", ", and no barrier between them orders that"
        if earlier is op and conflict.stamp >> numbering.stamp_bits == len(numbering.log):
            between, why = "one op", ", both at once"
    raise RaceError(
        f"race: program {program}, {thread_text(thread)} {use.value} element {at} of "
        f"{memory.name}, which {by} {conflict.earlier.value}"
        + (f" as an element of {through}" if through not in (None, memory.name) else "")
        + why,
        kind=RaceKind(between, memory.kind, frozenset((use.value, conflict.earlier.value))),
        program=program,
        thread=thread,
        array=memory.name,
        index=at,
        locations=locations(op, earlier),
    )
