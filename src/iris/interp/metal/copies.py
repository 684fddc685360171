"""Copies to threadgroup memory that go on while the threads that began them do other things.

The elements are there at once, but noted as in flight, so that whoever touches them is reported.
They are written, as others see it, when the threads that began the copy have waited for it.  If the
array that they are from has others by then, the copy might have brought these: that is reported,
too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.interp.metal.access import lanes, note, reach, shape_of
from iris.interp.metal.begun import Begun, finish_begun
from iris.interp.metal.counters import Counters
from iris.interp.metal.frame import Frame
from iris.interp.metal.loadstore import count_access
from iris.interp.metal.memory import Device, Shared
from iris.interp.metal.rules import counting, interpretation
from iris.interp.metal.shadow import Use
from iris.interp.metal.threads import check_simdgroups
from iris.ir import metal

Array = npt.NDArray[Any]


@interpretation(metal.Copy)
def copy(
    frame: Frame,
    op: metal.Copy,
    memory: Shared,
    offset: Array,
    source: Device,
    source_offset: Array,
    mask: Array | None = None,
) -> Sequence[Array]:
    to = reach(frame, op, memory, offset, op.count, None)
    assert to is not None, "what is reached by all threads is reached"
    found = reach(frame, op, source, source_offset, op.count, mask)
    x: Array = np.zeros((1,) * to[0].ndim, source.flat.dtype)
    if found is not None:
        index, active = found
        places = source.places(index, frame.rows)
        note(frame, op, source, Use.READ, places, active)
        x = source.flat.take(places)
        x = x if active is None else np.where(active, x, np.zeros((), x.dtype))
    if op.count == 1:
        to = _with_axis(to)
        found = found and _with_axis(found)
        x = x if x.ndim == to[0].ndim else x[..., None]
    index, active = to
    places = memory.places(index, frame.rows)
    note(frame, op, memory, Use.WRITE, places, active)
    shape = np.broadcast_shapes(shape_of(frame, index, active), x.shape)
    where, values = lanes(shape, active, places, x)
    memory.flat[where] = values
    frame.chunk.begun.append(Begun(frame, op, memory, places, active, source, found, x))
    if frame.launch.implied_waits:
        return []
    if memory.arena.in_flight is None:
        memory.arena.in_flight = np.zeros(memory.arena.shadow.size, np.bool_)
    for units in memory.units(where):
        memory.arena.in_flight[units] = True
    return []


def _with_axis(places: tuple[Array, Array | None]) -> tuple[Array, Array | None]:
    """Of one element each, as of several."""
    index, active = places
    return index[..., None], None if active is None else active[..., None]


@interpretation(metal.WaitCopies)
def wait_copies(frame: Frame, op: metal.WaitCopies) -> Sequence[Array]:
    check_simdgroups(frame, op)
    begun = frame.chunk.begun
    if any(copy.meets(frame) and not copy.is_inside(frame) for copy in begun):
        begun[:] = [piece for copy in begun for piece in copy.pieces()]
    finish_begun(frame, op.latest)
    return []


@counting(metal.Copy)
def count_copy(
    counters: Counters,
    frame: Frame,
    op: metal.Copy,
    memory: Shared,
    offset: Array,
    source: Device,
    source_offset: Array,
    mask: Array | None = None,
) -> None:
    count_access(counters, frame, op, source, source_offset, op.count, mask, True)
    count_access(counters, frame, op, memory, offset, op.count, None, False)
