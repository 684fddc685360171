"""Streams: launches go to the GPU in batches, side by side where they do not meet in memory.

A batch is a command buffer with one concurrent encoder.  A launch that reads what another of the
same batch writes, or writes what another reads or writes, comes after a barrier.  Batches of a
stream follow one another; a launch that meets one of another stream waits for it before it is
encoded.

Ctrl-C may come between any two lines.  So what a launch uses is noted before it is encoded, for a
note too many does no harm; and what the encoder was told, after it was told.
"""

from __future__ import annotations

import ctypes
import itertools
import re
import threading
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple, Protocol

from iris import knobs
from iris.errors import DeviceError
from iris.runtime import reports
from iris.runtime.compiled_kernel import CompiledKernel, HasLines, locations_in
from iris.runtime.device import Grid, Timing
from iris.runtime.failure import Failure, Failures
from iris.runtime.interrupts import HoldBack
from iris.runtime.memory import MOST_USES, Block, Hazards, Memory, Use, words
from iris.runtime.messages import (
    BUFFERS,
    COMPLETED,
    CONCURRENT,
    READ,
    WRITE,
    Messages,
    Range,
    Size,
    made,
)
from iris.runtime.objc import Object, Pointer, Runtime, UInteger

# A batch is sent off when it has as many launches, or they touch as many bytes.
MOST_LAUNCHES = 40
MOST_BYTES = 40 << 20
# As many batches may be on their way before a launch waits for the first of them.
MOST_BATCHES = 8
# As many streams may have launches that are not done before another one waits for the first of
# them; that many live on at most after their users have dropped them.
MOST_STREAMS = 64
NOTHING = Size(0, 0, 0)
# How compilers and softmetal say a line of a text.
LINE = re.compile(r"(?:program_source:|\bline )(\d+)")


class Pipeline(Protocol):
    """What a failure names: a kernel, and where its lines come from."""

    @property
    def name(self) -> str: ...
    @property
    def source(self) -> HasLines: ...


class Work(Protocol):
    """What a batch is made of."""

    @property
    def pipelines(self) -> Sequence[Pipeline]: ...
    @property
    def dispatches(self) -> int: ...
    @property
    def blocks(self) -> Collection[Block]: ...
    @property
    def written(self) -> Collection[Block]: ...
    @property
    def size(self) -> int:
        """Of all blocks."""

    @property
    def waits(self) -> frozenset[Callable[[], object]]:
        """For work of other libraries on them."""

    def timing(self, start: float, end: float, stream: int) -> Timing | None:
        """What to tell of it, if it is one launch."""

    def encode(self, send: Messages, batch: Batch) -> None:
        """Tell the encoder of a batch."""


class Launch(NamedTuple):
    """All that is told to Metal of a launch."""

    pipeline: CompiledKernel
    grid: Grid
    arguments: tuple[Any, ...]  # which keep memory alive
    groups: Size
    threads: Size
    buffers: ctypes.Array[Pointer]
    offsets: ctypes.Array[UInteger]
    range: Range
    constants: bytes
    blocks: Collection[Block]
    written: Collection[Block]
    size: int  # of all blocks
    waits: frozenset[Callable[[], object]]  # for work of other libraries on them
    report: Memory | None

    dispatches: int = 1

    @property
    def pipelines(self) -> tuple[CompiledKernel, ...]:
        return (self.pipeline,)

    def timing(self, start: float, end: float, stream: int) -> Timing:
        return Timing(self.pipeline.entry, self.grid, self.arguments, start, end, stream)

    def encode(self, send: Messages, batch: Batch) -> None:
        encoder, pipeline = batch.encoder, self.pipeline
        if batch.pipeline is not pipeline:
            batch.pipeline = None
            send.set_pipeline(encoder, pipeline.state)
            batch.pipeline = pipeline
        send.set_buffers(encoder, self.buffers, self.offsets, self.range)
        if self.constants:
            index = pipeline.source.constants_buffer
            send.set_bytes(encoder, self.constants, len(self.constants), index)
        send.dispatch(encoder, self.groups, self.threads)


class Commands(NamedTuple):
    """All that is told to Metal of launches that were encoded before."""

    buffer: Object  # an indirect command buffer
    range: Range
    read: object  # an array of pointers to what they read alone
    read_count: int
    used: object  # and to the others
    used_count: int
    unready: tuple[CompiledKernel, ...]  # what the GPU must have met before
    launches: tuple[Launch, ...]
    memories: tuple[Memory, ...]  # kept alive
    blocks: Collection[Block]
    written: Collection[Block]
    size: int  # of all blocks
    waits: frozenset[Callable[[], object]]  # for work of other libraries on them

    @property
    def pipelines(self) -> tuple[CompiledKernel, ...]:
        return tuple([launch.pipeline for launch in self.launches])

    @property
    def dispatches(self) -> int:
        return len(self.launches)

    def timing(self, start: float, end: float, stream: int) -> None:
        return None

    def encode(self, send: Messages, batch: Batch) -> None:
        encoder = batch.encoder
        send.use(encoder, self.read, self.read_count, READ)
        send.use(encoder, self.used, self.used_count, READ | WRITE)
        batch.pipeline = None
        for pipeline in self.unready:
            send.set_pipeline(encoder, pipeline.state)
            send.dispatch(encoder, NOTHING, NOTHING)
        send.execute(encoder, self.buffer, self.range)


class Batch:
    """Launches that are sent off together."""

    __slots__ = (
        "buffer",
        "dispatches",
        "encoder",
        "failure",
        "failures",
        "has_reports",
        "hazards",
        "is_committed",
        "is_done",
        "is_encoded",
        "launches",
        "pipeline",
        "retired",
        "size",
        "stream",
    )

    def __init__(self, stream: Stream, buffer: Object, encoder: Object):
        # None once it is done: blocks remember it, and must not keep these.
        self.stream: Stream | None = stream
        self.buffer: Object | None = buffer
        self.encoder = encoder
        self.launches: list[Work] = []  # which keep alive what they use
        self.dispatches = 0
        self.size = 0
        self.pipeline: CompiledKernel | None = None  # the one that is set, if that is known
        # How far it has come.
        self.is_encoded = False
        self.is_committed = False
        self.retired = 0  # as many of its launches
        self.is_done = False
        self.failure: Failure | None = None  # of the batch as a whole
        self.failures: dict[int, Failure] = {}  # of launches, by their id
        self.has_reports = False
        self.hazards = Hazards()  # since the last barrier

    def wait(self) -> None:
        """Until it is done; what went wrong is left to what it was to write."""
        stream = self.stream
        if stream is not None:
            stream.finish(self)


class Streams(Failures):
    """What the streams of a device share: how it is told what to do, one lock, and what failed."""

    def __init__(self, device: str, runtime: Runtime, messages: Messages):
        super().__init__()
        self.device = device  # its name
        self.runtime = runtime
        self.messages = messages
        self.lock = threading.RLock()
        self.busy: dict[Stream, None] = {}  # which have launches that are not done, in order
        self.numbers = itertools.count()
        self.tell: Callable[[Timing], None] | None = None
        self.most_launches = MOST_LAUNCHES  # of a batch
        self.are_labelled = knobs.traces()  # streams and buffers, for traces

    def synchronize(self) -> None:
        """Wait for all launches; raise the first error that nobody was told of."""
        with self.lock:
            busy = list(self.busy)
        for stream in busy:
            stream.synchronize()
        self.raise_untold()

    def at_work(self) -> tuple[int, int]:
        """How many streams have launches that are not done, and how many launches those are."""
        with self.lock:
            return len(self.busy), sum([stream.at_work for stream in self.busy])


class Stream:
    """Launches that have the effect of running in order, concurrently with other streams."""

    def __init__(self, streams: Streams, queue: Object):
        self.number = next(streams.numbers)
        self._streams = streams
        self._queue = queue
        self._open: Batch | None = None
        self._sent: deque[Batch] = deque()

    def run(self, launch: Work) -> Batch:
        """Put a launch into a batch; raise what went wrong in one that was to write its memory."""
        streams = self._streams
        runtime = streams.runtime
        if self._open is None and len(streams.busy) >= MOST_STREAMS:
            self._wait_for_others()
        pool = runtime.push()
        try:
            while True:
                with streams.lock:
                    other = self._in_the_way(launch)
                    if other is None:
                        batch = self._encode(launch)
                        oldest = self._sent[0] if len(self._sent) > MOST_BATCHES else None
                        break
                other.wait()
        finally:
            runtime.pop(pool)
        if oldest is not None:
            oldest.wait()
        return batch

    def synchronize(self) -> None:
        """Wait for all launches; what went wrong is left to what they were to write."""
        with self._streams.lock:
            last = self._open or (self._sent[-1] if self._sent else None)
        if last is not None:
            last.wait()
        with self._streams.lock:
            self._rest()

    @property
    def at_work(self) -> int:
        """How many launches are not done, as far as anybody has waited; with the lock."""
        batches = [*self._sent, *([] if self._open is None else [self._open])]
        return sum([len(batch.launches) for batch in batches])

    def finish(self, batch: Batch) -> None:
        """Wait for a batch, and so for those before it."""
        streams = self._streams
        with streams.lock:
            if batch is self._open:
                self._send(batch)
            # Held here, too: another thread may find first that the batch is done.
            buffer = batch.buffer
        with streams.runtime.pool():
            streams.messages.wait(buffer)
            with streams.lock:
                for before in list(self._sent):
                    if batch.is_done:
                        break
                    if not before.is_done:
                        self._retire(before)

    def _wait_for_others(self) -> None:
        """Let streams rest that have had launches for longest, until there are few."""
        streams = self._streams
        with streams.lock:
            busy = [stream for stream in streams.busy if stream is not self]
        for stream in busy[: len(busy) - MOST_STREAMS + 1]:
            stream.synchronize()

    # With the lock of all streams.

    def _in_the_way(self, launch: Work) -> Use | None:
        """A batch of another stream that must be done before a launch."""
        streams = self._streams
        if streams.has_failed:
            for block in launch.blocks:
                if block.failure is not None:
                    raise block.failure.error()
        if len(streams.busy) == (self in streams.busy):
            return None  # there are no others
        for block in launch.blocks:
            used = block.used if block in launch.written else block.written
            if len(used) > 1 or (used and self.number not in used):
                for number, batch in list(used.items()):
                    if batch.is_done:
                        del used[number]
                    elif number != self.number:
                        return batch
        return None

    def _encode(self, launch: Work) -> Batch:
        send = self._streams.messages
        batch = self._open
        # What is measured is alone in its batch; one that is encoded was interrupted.
        if batch is not None and (batch.is_encoded or self._streams.tell is not None):
            self._send(batch)
            batch = None
        if batch is None:
            batch = self._begin()
        number = self.number
        written, blocks = launch.written, launch.blocks
        batch.launches.append(launch)
        batch.dispatches += launch.dispatches
        batch.size += launch.size
        if isinstance(launch, Launch) and launch.report is not None:
            batch.has_reports = True
        for block in blocks:
            block.used[number] = batch
            if len(block.used) > MOST_USES:
                block.forget_done()
        for block in written:
            block.written[number] = batch
        if batch.hazards.meet(blocks, written):
            send.barrier(batch.encoder, BUFFERS)
            batch.hazards.clear()
        batch.hazards.add(blocks, written)
        launch.encode(send, batch)
        if (
            batch.dispatches >= self._streams.most_launches
            or batch.size >= MOST_BYTES
            or self._streams.tell is not None
        ):
            self._send(batch)
        return batch

    def _begin(self) -> Batch:
        streams, messages = self._streams, self._streams.messages
        streams.busy[self] = None
        with HoldBack():  # an encoder that is dropped before it has ended is a fault
            buffer = made(messages.command_buffer(self._queue), streams.device, "a command buffer")
            encoder = made(messages.encoder(buffer, CONCURRENT), streams.device, "an encoder")
            self._open = batch = Batch(self, buffer, encoder)
        if streams.are_labelled:
            label = streams.runtime.string(f"stream {self.number}")
            messages.set_label(buffer, label)
            messages.set_label(encoder, label)
        return batch

    def _send(self, batch: Batch) -> None:
        messages = self._streams.messages
        with HoldBack():  # none of these may be told twice
            if not batch.is_encoded:
                batch.is_encoded = messages.end_encoding(batch.encoder) is None
            batch.encoder.release()
            if not batch.is_committed:
                batch.is_committed = messages.commit(batch.buffer) is None
            if batch not in self._sent:
                self._sent.append(batch)
            self._open = None

    def _retire(self, batch: Batch) -> None:
        """Take down what a batch that is done has to say."""
        streams, messages = self._streams, self._streams.messages
        if batch.failure is None and messages.status(batch.buffer) != COMPLETED:
            batch.failure = streams.failed(self._error(batch))
        is_new = batch.retired < len(batch.launches)
        if batch.failure is None and is_new and streams.tell is not None:
            times = messages.start_time(batch.buffer), messages.end_time(batch.buffer)
            timing = batch.launches[0].timing(*times, self.number)
            if timing is not None:
                streams.tell(timing)
        if batch.failure is None and not streams.has_failed and not batch.has_reports:
            batch.retired = len(batch.launches)
        while batch.retired < len(batch.launches):
            launch = batch.launches[batch.retired]
            lines = self._conclude(batch, launch)
            batch.retired += 1
            for line in lines:
                print(line)
        batch.launches.clear()
        batch.hazards.clear()
        batch.is_done = True
        batch.buffer = batch.stream = batch.pipeline = None
        self._rest()

    def _conclude(self, batch: Batch, launch: Work) -> list[str]:
        """Mark what a launch was to write, if that or what it was given is wrong; the lines that it
        prints."""
        lines: list[str] = []
        failure = batch.failure
        if isinstance(launch, Launch) and launch.report is not None:
            lines, error = reports.read(launch.pipeline.source, launch.grid, words(launch.report))
            if error is not None and failure is None:
                failure = batch.failures.get(id(launch)) or self._streams.failed(error)
                batch.failures[id(launch)] = failure
        if failure is None and self._streams.has_failed:
            given = [block.failure for block in launch.blocks if block.failure is not None]
            failure = given[0] if given else None
        if failure is not None:
            batch.failures[id(launch)] = failure
            for block in launch.written:
                block.failure = failure
        return lines

    def _rest(self) -> None:
        """Forget batches that are done; be forgotten by the others if none is left."""
        while self._sent and self._sent[0].is_done:
            self._sent.popleft()
        if not self._sent and self._open is None:
            self._streams.busy.pop(self, None)

    def _error(self, batch: Batch) -> DeviceError:
        streams = self._streams
        text = streams.runtime.error_text(streams.messages.error(batch.buffer))
        pipelines = {one.name: one for launch in batch.launches for one in launch.pipelines}
        names = ", ".join(pipelines)
        what = f"the kernel {names} failed" if len(pipelines) == 1 else f"one of {names} failed"
        # Where the text says which one, its line can be told, too.
        named = [pipeline for name, pipeline in pipelines.items() if name in text]
        places = locations_in(named[0].source, text, LINE) if len(named) == 1 else []
        return DeviceError(f"{what}: {text}", locations=places)
