"""Streams: launches go to the GPU in batches, side by side where they do not meet in memory.

A batch is a command buffer with one concurrent encoder.  A launch that reads what another of the
same batch writes, or writes what another reads or writes, comes after a barrier.  Batches of a
stream follow one another; a launch that meets one of another stream waits for it before it is
encoded.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from iris.errors import DeviceError, IrisError
from iris.runtime.device import Grid, Timing
from iris.runtime.memory import Block, Memory
from iris.runtime.messages import BUFFERS, COMPLETED, CONCURRENT, Range, Size
from iris.runtime.objc import Object

if TYPE_CHECKING:
    from iris.runtime.metal import Metal, Pipeline

# A batch is sent off when it has as many launches, or they touch as many bytes.
MOST_LAUNCHES = 40
MOST_BYTES = 40 << 20
# As many batches may be on their way before a launch waits for the first of them.
MOST_BATCHES = 8


class Launch(NamedTuple):
    """All that is told to Metal of a launch."""

    pipeline: Pipeline
    grid: Grid
    arguments: tuple[Any, ...]
    groups: Size
    threads: Size
    buffers: object  # an array of pointers
    offsets: object  # an array of integers
    range: Range
    constants: bytes
    memories: tuple[Memory, ...]  # kept alive
    blocks: frozenset[Block]
    written: frozenset[Block]
    size: int  # of all blocks
    report: Memory | None


class Batch:
    """Launches that are sent off together."""

    __slots__ = (
        "buffer",
        "encoder",
        "is_done",
        "launches",
        "pipeline",
        "read",
        "size",
        "stream",
        "written",
    )

    def __init__(self, stream: Stream, buffer: Object, encoder: Object):
        self.stream = stream
        self.buffer: Object | None = buffer  # None once it is done
        self.encoder = encoder
        self.launches: list[Launch] = []  # which keep alive what they use
        self.size = 0
        self.pipeline: Pipeline | None = None  # the one that is set
        self.is_done = False
        # Since the last barrier.
        self.read: set[Block] = set()
        self.written: set[Block] = set()

    def wait(self) -> None:
        """Until it is done; what went wrong is left to its stream."""
        if not self.is_done:
            self.stream.finish(self)


class Stream:
    """Launches that do what they would one after the other, beside those of other streams."""

    def __init__(self, device: Metal, queue: Object):
        self.device = device
        self._queue = queue
        self._open: Batch | None = None
        self._sent: deque[Batch] = deque()
        self.errors: list[IrisError] = []

    def run(self, launch: Launch) -> None:
        """Put a launch into a batch."""
        device = self.device
        runtime = device.runtime
        pool = runtime.push()
        try:
            while True:
                with device.lock:
                    other = self._in_the_way(launch)
                    if other is None:
                        self._encode(launch)
                        oldest = self._sent[0] if len(self._sent) > MOST_BATCHES else None
                        break
                other.wait()
        finally:
            runtime.pop(pool)
        if oldest is not None:
            oldest.wait()

    def synchronize(self) -> None:
        """Wait for all launches; what went wrong is left to be raised."""
        with self.device.lock:
            last = self._open or (self._sent[-1] if self._sent else None)
        if last is not None:
            last.wait()

    def raise_errors(self) -> None:
        """Raise the first of what went wrong since this was asked last."""
        with self.device.lock:
            errors, self.errors = self.errors, []
            self._rest()
        if errors:
            raise errors[0]

    def finish(self, batch: Batch) -> None:
        """Wait for a batch, and so for those before it."""
        device = self.device
        with device.lock:
            if batch is self._open:
                self._send()
            # Held here, too: another thread may find first that the batch is done.
            buffer = batch.buffer
        with device.runtime.pool():
            device.messages.wait(buffer)
            with device.lock:
                while not batch.is_done:
                    self._retire(self._sent.popleft())

    # With the device's lock.

    def _in_the_way(self, launch: Launch) -> Batch | None:
        """A batch of another stream that must be done before a launch."""
        for block in launch.blocks:
            used = block.used if block in launch.written else block.written
            if len(used) > 1 or (used and self not in used):
                for stream, batch in list(used.items()):
                    if batch.is_done:
                        # Errors that nobody was told of are found by who reads the memory.
                        if not stream.errors:
                            del used[stream]
                    elif stream is not self:
                        return batch
        return None

    def _encode(self, launch: Launch) -> None:
        send = self.device.messages
        batch = self._open or self._begin()
        encoder = batch.encoder
        written, blocks = launch.written, launch.blocks
        if not (batch.written.isdisjoint(blocks) and batch.read.isdisjoint(written)):
            send.barrier(encoder, BUFFERS)
            batch.written.clear()
            batch.read.clear()
        batch.written |= written
        batch.read |= blocks
        if batch.pipeline is not launch.pipeline:
            batch.pipeline = launch.pipeline
            send.set_pipeline(encoder, launch.pipeline.state)
        send.set_buffers(encoder, launch.buffers, launch.offsets, launch.range)
        if launch.constants:
            send.set_bytes(
                encoder, launch.constants, len(launch.constants), launch.pipeline.constants_index
            )
        send.dispatch(encoder, launch.groups, launch.threads)
        for block in blocks:
            block.used[self] = batch
        for block in written:
            block.written[self] = batch
        batch.launches.append(launch)
        batch.size += launch.size
        if (
            len(batch.launches) >= MOST_LAUNCHES
            or batch.size >= MOST_BYTES
            or self.device.tell is not None
        ):
            self._send()

    def _begin(self) -> Batch:
        device = self.device
        buffer = device.made(device.messages.command_buffer(self._queue), "a command buffer")
        encoder = device.made(device.messages.encoder(buffer, CONCURRENT), "an encoder")
        self._open = Batch(self, buffer, encoder)
        device.busy.add(self)
        return self._open

    def _send(self) -> None:
        batch, self._open = self._open, None
        assert batch is not None
        messages = self.device.messages
        messages.end_encoding(batch.encoder)
        batch.encoder.release()
        messages.commit(batch.buffer)
        self._sent.append(batch)

    def _retire(self, batch: Batch) -> None:
        """Take down what a batch that is done has to say."""
        device = self.device
        if device.messages.status(batch.buffer) != COMPLETED:
            self.errors.append(self._error(batch))
        elif device.tell is not None:
            device.tell(self._timing(batch))
        for launch in batch.launches:
            if launch.report is not None:
                self.errors += device.report(launch)
        batch.buffer = None
        batch.is_done = True
        batch.launches.clear()
        batch.read.clear()
        batch.written.clear()
        self._rest()

    def _rest(self) -> None:
        """Be forgotten by the device, if nothing is left to do or to tell."""
        if not self._sent and self._open is None and not self.errors:
            self.device.busy.discard(self)

    def _timing(self, batch: Batch) -> Timing:
        """Of the only launch of a batch."""
        messages = self.device.messages
        launch = batch.launches[0]
        start, end = messages.start_time(batch.buffer), messages.end_time(batch.buffer)
        return Timing(launch.pipeline.entry, launch.grid, launch.arguments, start, end)

    def _error(self, batch: Batch) -> DeviceError:
        device = self.device
        text = device.runtime.error_text(device.messages.error(batch.buffer))
        pipelines = {launch.pipeline.name: launch.pipeline for launch in batch.launches}
        names = ", ".join(pipelines)
        what = f"the kernel {names} failed" if len(pipelines) == 1 else f"one of {names} failed"
        # Where the text says which one, its line can be told, too.
        named = [pipeline for name, pipeline in pipelines.items() if name in text]
        places = named[0].locations(text) if len(named) == 1 else []
        return DeviceError(f"{what}: {text}", locations=places)
