"""Copies to threadgroup memory that go on while the threads that began them do other things.

The elements are there at once, but noted as in flight, so that whoever touches them is reported.
They are written, as others see it, when the threads that began the copy have waited for it.  If the
array that they are from has others by then, the copy might have brought these: that is reported,
too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.interp.metal.access import lanes, note, reach, shape_of
from iris.interp.metal.counters import Counters
from iris.interp.metal.frame import Frame
from iris.interp.metal.loadstore import count_access
from iris.interp.metal.memory import Device, Shared
from iris.interp.metal.rules import counting, interpretation
from iris.interp.metal.shadow import Use
from iris.interp.metal.threads import check_simdgroups
from iris.ir import metal
from iris.ir.metal import SIMDGROUP_WIDTH

Array = npt.NDArray[Any]
_BITS = {n: np.dtype(f"u{n}") for n in (1, 2, 4, 8)}


@dataclass(eq=False)
class Begun:
    """A copy that threads have begun, and how often they have waited since."""

    frame: Frame
    op: metal.Copy
    memory: Shared
    places: Array
    active: Array | None
    source: Device
    found: tuple[Array, Array | None] | None  # where in the source, and which threads load there
    waits: int = 0

    def is_inside(self, frame: Frame) -> bool:
        """Whether all of its threads are in a frame."""
        inside: np.bool_ = (
            np.isin(self.frame.rows, frame.rows).all()
            and np.isin(self.frame.threads, frame.threads).all()
        )
        return bool(inside)

    def meets(self, frame: Frame) -> bool:
        """Whether some are."""
        meets: np.bool_ = (
            np.isin(self.frame.rows, frame.rows).any()
            and np.isin(self.frame.threads, frame.threads).any()
        )
        return bool(meets)

    def pieces(self) -> Iterator[Begun]:
        """The copy, one simdgroup of one program at a time."""
        outer = self.frame
        shape = (*outer.size, *self.places.shape[2:])
        for row in range(shape[0]):
            for start in range(0, shape[1], SIMDGROUP_WIDTH):
                part = np.s_[row : row + 1, start : start + SIMDGROUP_WIDTH]

                def of(x: Array, part: tuple[slice, ...] = part) -> Array:
                    return np.asarray(np.broadcast_to(x, shape)[part])

                frame = Frame(
                    outer.launch, outer.chunk, outer.rows[part[0]], outer.threads[part[1]]
                )
                active = None if self.active is None else of(self.active)
                found = self.found
                if found is not None:
                    index, loads = found
                    found = of(index), None if loads is None else of(loads)
                yield replace(self, frame=frame, places=of(self.places), active=active, found=found)

    def finish(self) -> None:
        """Note that the elements are there."""
        in_flight = self.memory.in_flight
        assert in_flight is not None, "the copy is in flight"
        shape = shape_of(self.frame, self.places, self.active)
        (places,) = lanes(shape, self.active, self.places)
        for units in self.memory.units(places):
            in_flight[units] = False
        note(self.frame, self.op, self.memory, Use.WRITE, self.places, self.active)
        self._check_source()

    def _check_source(self) -> None:
        """Report what the source has no more."""
        if self.found is None:
            return
        index, loads = self.found
        now = self.source.flat.take(index).view(_BITS[self.source.itemsize])
        then = self.memory.flat.take(self.places).view(_BITS[self.source.itemsize])
        changed = now != then
        for some in (loads, self.active):
            changed = changed if some is None else changed & some
        if changed.any():
            why = f"of {self.source.name} is written before the copy of it is waited for"
            self.frame.fail(self.op, changed, why, memory=self.source, index=index)


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
    where, x = lanes(shape, active, places, x)
    memory.flat[where] = x
    if frame.launch.implied_waits:
        return []
    if memory.arena.in_flight is None:
        memory.arena.in_flight = np.zeros(memory.arena.shadow.size, np.bool_)
    for units in memory.units(where):
        memory.arena.in_flight[units] = True
    frame.chunk.begun.append(Begun(frame, op, memory, places, active, source, found))
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
    for copy in [copy for copy in begun if copy.is_inside(frame)]:
        copy.waits += 1
        if copy.waits > op.latest:
            begun.remove(copy)
            copy.finish()
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
