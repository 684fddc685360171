"""Copies that go on while the threads that began them do other things, until these wait for them.

Where waits are implied, a source must stay as it is for as long as a wait may be put off: to the
next barrier or loop, or to the end of a loop around the copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.interp.metal.access import lanes, note, shape_of
from iris.interp.metal.frame import Frame
from iris.interp.metal.memory import Device, Shared
from iris.interp.metal.shadow import Use
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
    values: Array  # that were there
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
                places, values = of(self.places), of(self.values)
                yield replace(
                    self, frame=frame, places=places, active=active, found=found, values=values
                )

    def finish(self) -> None:
        """Note that the elements are there."""
        in_flight = self.memory.in_flight
        if in_flight is not None:
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
        changed = now != self.values.view(_BITS[self.source.itemsize])
        for some in (loads, self.active):
            changed = changed if some is None else changed & some
        if changed.any():
            why = f"of {self.source.name} is written before the copy of it is waited for"
            self.frame.fail(self.op, changed, why, memory=self.source, index=index)


def finish_begun(frame: Frame, latest: int = 0) -> None:
    """Wait for the copies of some threads, but for those begun since the `latest` waits."""
    begun = frame.chunk.begun
    for copy in [copy for copy in begun if copy.is_inside(frame)]:
        copy.waits += 1
        if copy.waits > latest:
            begun.remove(copy)
            copy.finish()


def wait_if_implied(frame: Frame) -> None:
    """Where waits are implied: what may not be put off any more."""
    if frame.launch.implied_waits and frame.chunk.begun:
        finish_begun(frame)
