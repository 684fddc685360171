"""Launches that are recorded once and replayed: `iris.record()`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from iris.errors import ArgumentError
from iris.frontend.tracing import error_here
from iris.runtime.buffer import Buffer, refuse_freed
from iris.runtime.device import ArrayArgument, Device, RecordedLaunch, Replay
from iris.runtime.recorder import RECORDER, refuse_while_recording


class ReplayedLaunch:
    """A launch of a recording: `update` changes its arguments."""

    def __init__(
        self,
        recording: Recording,
        launch: RecordedLaunch,
        buffers: Sequence[Buffer],
        again: Callable[..., None] | None,
    ):
        self.launch = launch
        self.buffers = buffers
        self.again = again  # the launch, with some arguments changed
        self._recording = recording

    def update(self, **arguments: Any) -> None:
        """Change some arguments from the next replay on: numbers, and Buffers for others of the
        same shape and dtype.

        recording.launches[0].update(factor=3.0, X=other)
        """
        if self.again is None:
            raise error_here(
                ArgumentError,
                f"{self!r} is a kernel of a function of arrays, whose arguments stay; write to the "
                "Buffers, or record the call again",
            )
        changed = Recording(None)
        with changed.taking_launches():
            self.again(**arguments)
        (new,) = changed.launches
        for old, other in zip(self.launch.arguments, new.launch.arguments, strict=True):
            if _form(old) != _form(other):
                raise error_here(
                    ArgumentError,
                    f"{self!r} was recorded with {_form(old)}, and is updated with {_form(other)}; "
                    "record it again",
                )
        self._recording.change(self, new)

    def __repr__(self) -> str:
        return f"{self.launch.program.entry.symbol}{list(self.launch.grid)}"


def _form(argument: Any) -> str:
    """What stays of an argument."""
    if isinstance(argument, ArrayArgument):
        return f"an array of {argument.dtype} of the shape {argument.shape}"
    return "a number"


class Recording:
    """Launches, in the order in which they run: `replay` runs them all."""

    def __init__(self, stream: Any):
        self.launches: list[ReplayedLaunch] = []
        self._device: Device | None = None
        self._stream = stream
        self._buffers: list[Buffer] = []
        self._replay: Replay | None = None  # once it is complete
        self._lock = threading.Lock()

    def replay(self) -> None:
        """Launch all of it.  It returns at once, as a launch does."""
        refuse_while_recording("a recording is replayed")
        if self._replay is None:
            raise error_here(
                ArgumentError, "a recording is replayed once its `with` has ended without an error"
            )
        with self._lock:
            refuse_freed(self._buffers)
            self._replay.run()

    @contextmanager
    def taking_launches(self) -> Iterator[None]:
        """While this lasts, launches of this thread are added to the recording, and do not run."""
        if RECORDER.recording is not None:
            raise error_here(ArgumentError, "a recording is begun, or updated, within another one")
        try:
            RECORDER.recording = self
            yield
        finally:
            RECORDER.recording = None

    def add(
        self,
        device: Device,
        launch: RecordedLaunch,
        buffers: Sequence[Buffer],
        again: Callable[..., None] | None = None,
    ) -> None:
        """Record a launch that was given some Buffers."""
        if self._device not in (None, device):
            raise error_here(
                ArgumentError,
                f"the recording is of launches on {self._device.name!r}, and this one is on "
                f"{device.name!r}; make a recording for each device",
            )
        self._device = device
        self.launches.append(ReplayedLaunch(self, launch, buffers, again))

    def complete(self) -> None:
        """Have the device prepare what was recorded."""
        if self._device is None:
            raise error_here(ArgumentError, "no kernel was launched within iris.record()")
        self._know_buffers()
        self._replay = self._device.record([one.launch for one in self.launches], self._stream)

    def change(self, one: ReplayedLaunch, new: ReplayedLaunch) -> None:
        """Put a launch in the place of one."""
        with self._lock:
            if self._replay is not None:
                self._replay.change(self.launches.index(one), new.launch)
            one.launch, one.buffers, one.again = new.launch, new.buffers, new.again
            self._know_buffers()

    def _know_buffers(self) -> None:
        """Know which Buffers must not have been freed when the launches run."""
        self._buffers = [*dict.fromkeys([b for one in self.launches for b in one.buffers])]


@contextmanager
def record(*, stream: Any = None) -> Iterator[Recording]:
    """Record the launches of this thread within the `with`, to be replayed for little.

    with iris.record() as recording:
        scale[grid](x, y, 2.0, n)
        add[grid](x, y, z, n)
    for _ in range(1000):
        recording.replay()
    recording.launches[0].update(factor=3.0)

    None of the launches runs before the replay, as in the capture of a CUDA graph.  They are given
    Buffers, which the recording keeps: each replay reads them anew.  Functions of
    `iris.jit` are recorded, too; each replay writes their results to the same Buffers.

    The device runs them by what it has for that: a CUDA graph, or an indirect command buffer of
    Metal.  All others launch them one after the other.
    """
    recording = Recording(stream)
    with recording.taking_launches():
        yield recording
    recording.complete()
