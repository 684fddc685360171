"""Launches that are bound once, and encoded on other memory each time.

What a launch needs besides its memory stays: pipeline, grid, constants, barriers.  The buffers of
all launches are told to Metal from one piece of memory, which is written in place.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from ctypes import sizeof
from typing import NamedTuple

from iris.runtime.compiled_kernel import CompiledKernel, MemoryNumbers
from iris.runtime.device import Device, LaunchTemplate, Place, RecordedLaunch
from iris.runtime.memory import Block, barriers_among
from iris.runtime.messages import BUFFERS, Messages
from iris.runtime.objc import Pointer, UInteger
from iris.runtime.queue import MOST_LAUNCHES, Batch, Launch, Stream, Streams


class EncodedTemplate(LaunchTemplate):
    """Launches that go to a stream together."""

    def __init__(
        self,
        device: Device,
        launches: Sequence[RecordedLaunch],
        streams: Streams,
        bind: Callable[..., Launch],
        start: Callable[[Group, Stream], object],
        usual: Stream,
    ):
        super().__init__(device, launches)
        self._streams = streams
        self._bind = bind  # a recorded launch
        self._start = start
        self._usual = usual
        self._parts: list[_Part] = []  # once they have run

    def run(self, places: Sequence[Place], stream: Stream | None = None) -> None:
        if self._streams.tell is not None:  # each is timed
            super().run(places, stream)
            return
        if not self._parts:
            self._parts = self._bound(places)
        for part in self._parts:
            self._start(part.on(places), stream or self._usual)

    def _bound(self, places: Sequence[Place]) -> list[_Part]:
        """The launches in parts of at most a batch, for the GPU to begin while others are
        encoded."""
        launches = [self._bind(*launch) for launch in self.on(places)]
        starts = range(0, len(launches), MOST_LAUNCHES)
        return [
            _Part(launches[n:][:MOST_LAUNCHES], self.launches[n:][:MOST_LAUNCHES]) for n in starts
        ]


class _Part:
    """Launches, and which memory is the buffers of each."""

    def __init__(self, launches: Sequence[Launch], recorded: Sequence[RecordedLaunch]):
        self._numbers = MemoryNumbers.of(recorded)
        self._buffers = [n for own in self._numbers.of_launches for n in own]
        count = len(self._buffers)
        # All pointers, then all offsets; each launch has a part of both.
        self._pointers, self._offsets = (Pointer * count)(), (UInteger * count)()
        steps, at = [], 0
        for launch, is_after in zip(launches, barriers_among(launches), strict=True):
            size = launch.range.length
            step = launch._replace(
                buffers=(Pointer * size).from_buffer(self._pointers, at),
                offsets=(UInteger * size).from_buffer(self._offsets, at),
                # Of the first run, which must not live on.
                arguments=(),
                blocks=(),
                written=(),
                waits=frozenset(),
            )
            steps.append((is_after, step))
            at += size * sizeof(Pointer)
        self.steps = tuple(steps)
        self.pipelines = tuple([launch.pipeline for launch in launches])

    def on(self, places: Sequence[Place]) -> Group:
        used = [places[n] for n in self._numbers.used]
        blocks = [memory.block for memory, _ in used]
        return Group(
            self,
            tuple(places),
            blocks,
            [places[n][0].block for n in self._numbers.written],
            sum([block.size for block in blocks]),
            frozenset([block.home for block in blocks if block.home is not None]),
        )

    def tell_buffers(self, places: Sequence[Place]) -> None:
        """Write where the memory of all launches is, for Metal to read."""
        pointers = [memory.block.buffer.pointer for memory, _ in places]
        self._pointers[:] = [pointers[n] for n in self._buffers]
        self._offsets[:] = [places[n][1] for n in self._buffers]


class Group(NamedTuple):
    """Launches of a template on some memory."""

    part: _Part
    places: tuple[Place, ...]  # which keep memory alive
    blocks: Collection[Block]
    written: Collection[Block]
    size: int  # of all blocks
    waits: frozenset[Callable[[], object]]  # for work of other libraries on them

    @property
    def pipelines(self) -> tuple[CompiledKernel, ...]:
        return self.part.pipelines

    @property
    def measured(self) -> None:  # several
        return None

    @property
    def dispatches(self) -> int:
        return len(self.part.steps)

    def encode(self, send: Messages, batch: Batch) -> None:
        self.part.tell_buffers(self.places)
        for is_after, step in self.part.steps:
            if is_after:
                send.barrier(batch.encoder, BUFFERS)
            step.encode(send, batch)
