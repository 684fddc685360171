"""Streams: launches go to the GPU in batches, side by side where they do not meet in memory.

A batch is a command buffer with one concurrent encoder.  A launch that reads what another of the
same batch writes, or writes what another reads or writes, comes after a barrier.  Batches of a
stream follow one another; a launch that meets one of another stream begins a batch that waits for
that on the GPU, by an event.

A batch that fails signals nothing, so the host does it once it knows: what waits would wait for
ever.  Events that the host can signal are shared ones.
[https://developer.apple.com/documentation/metal/about-synchronization-events]
A batch has an event for itself until it is done.  Of an event that the next batch signals, too, the
host would set back the number that this comes to in the meantime.

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
from iris.errors import DeviceError, OutOfTimeError
from iris.ir.control import Func
from iris.runtime import reports
from iris.runtime.compiled_kernel import CompiledKernel, HasLines, locations_in
from iris.runtime.device import Grid, Timing
from iris.runtime.failure import Failure, Failures
from iris.runtime.interrupts import HoldBack
from iris.runtime.memory import MOST_USES, Block, Hazards, Memory, words
from iris.runtime.messages import (
    BUFFERS,
    COMPLETED,
    CONCURRENT,
    READ,
    TIMEOUT,
    WRITE,
    Messages,
    Range,
    Size,
    made,
)
from iris.runtime.objc import Object, Pointer, Runtime, UInteger
from iris.runtime.timestamps import Timestamps

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


class Measured(NamedTuple):
    """A launch, for who is told of its time."""

    entry: Func | str  # of a kernel that is text, its name
    grid: Grid
    arguments: tuple[Any, ...]


class Work(Protocol):
    """What a batch is made of."""

    @property
    def pipelines(self) -> Sequence[Pipeline]: ...
    @property
    def measured(self) -> Measured | None:
        """What its time is told of, if it is one launch."""

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

    @property
    def measured(self) -> Measured:
        return Measured(self.pipeline.entry, self.grid, self.arguments)

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
    used: object  # an array of pointers to all their buffers
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
    def measured(self) -> None:  # several
        return None

    @property
    def dispatches(self) -> int:
        return len(self.launches)

    def encode(self, send: Messages, batch: Batch) -> None:
        encoder = batch.encoder
        # For each block, which stream waits for which is known here: one message does for all.
        send.use(encoder, self.used, len(self.blocks), READ | WRITE)
        batch.pipeline = None
        for pipeline in self.unready:
            send.set_pipeline(encoder, pipeline.state)
            send.dispatch(encoder, NOTHING, NOTHING)
        send.execute(encoder, self.buffer, self.range)


class Event:
    """Comes to a number when its batch is done, and to the next one for the next batch."""

    __slots__ = ("number", "object")

    def __init__(self, object: Object):
        self.object = object
        self.number = 0


class Batch:
    """Launches that are sent off together."""

    __slots__ = (
        "after",
        "buffer",
        "dispatches",
        "encoder",
        "event",
        "failure",
        "failures",
        "has_reports",
        "hazards",
        "is_committed",
        "is_done",
        "is_encoded",
        "launches",
        "number",
        "pipeline",
        "retired",
        "sample",
        "signal",
        "size",
        "stream",
    )

    def __init__(
        self, stream: Stream, number: int, buffer: Object, encoder: Object, after: list[Batch]
    ):
        # None once it is done: blocks remember it, and must not keep these.
        self.stream: Stream | None = stream
        self.number = number  # in the order in which they begin
        self.after = after  # what must be done before it
        self.signal = 0  # counts the signalling batches of its stream; 0: it does not signal
        self.event: Event | None = None  # that tells it
        self.sample: int | None = None  # the number of its timestamps
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
        self.numbers = itertools.count()  # of streams
        self.begun = itertools.count()  # batches
        self.are_several = False  # or nobody waits for an event
        self.tell: Callable[[Timing], None] | None = None
        self.timestamps: Timestamps | None = None  # of timed launches, if the GPU has counters
        self.most_launches = MOST_LAUNCHES  # of a batch
        self.are_labelled = knobs.traces()  # streams and buffers, for traces

    def synchronize(self) -> None:
        """Wait for all launches; raise the first error that nobody was told of."""
        self.finish()
        self.raise_untold()

    def finish(self) -> None:
        """Wait for all launches, and raise nothing."""
        with self.lock:
            busy = list(self.busy)
        for stream in busy:
            stream.synchronize()

    def at_work(self) -> tuple[int, int]:
        """How many streams have launches that are not done, and how many launches those are."""
        with self.lock:
            return len(self.busy), sum([stream.at_work for stream in self.busy])


class Stream:
    """Launches that have the effect of running in order, concurrently with other streams."""

    def __init__(self, streams: Streams, queue: Object, new_event: Callable[[], Object]):
        self.number = next(streams.numbers)
        self._streams = streams
        self._queue = queue
        self._new_event = new_event
        self._events: list[Event] = []  # that no batch has
        self._signalled = 0  # as many batches are told
        self._waited: dict[int, int] = {}  # for batches of streams, by the numbers of these
        streams.are_several |= self.number > 0
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
                    others = self._in_the_way(launch)
                    silent = self._silent(others) if others else None
                    if silent is None:
                        batch = self._encode(launch, others)
                        oldest = self._sent[0] if len(self._sent) > MOST_BATCHES else None
                        break
                silent.wait()
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
        """Wait for a batch, and for those before it: each that fails lets the next ones go on."""
        streams = self._streams
        with streams.lock:
            if batch is self._open:
                self._send(batch)
            in_order = _with_all_before(batch)
        with streams.runtime.pool():
            for one in in_order:
                # Held here, too: another thread may find first that the batch is done.
                buffer, stream = one.buffer, one.stream
                if buffer is None or stream is None:
                    continue
                streams.messages.wait(buffer)
                with streams.lock:
                    if not one.is_done:
                        stream._retire(one)

    def _wait_for_others(self) -> None:
        """Let streams rest that have had launches for longest, until there are few."""
        streams = self._streams
        with streams.lock:
            busy = [stream for stream in streams.busy if stream is not self]
        for stream in busy[: len(busy) - MOST_STREAMS + 1]:
            stream.synchronize()

    # With the lock of all streams.

    def _in_the_way(self, launch: Work) -> list[Batch]:
        """Batches of other streams that must be done before a launch."""
        streams = self._streams
        if streams.has_failed:
            for block in launch.blocks:
                if block.failure is not None:
                    raise block.failure.error()
        found: dict[Batch, None] = {}
        if len(streams.busy) == (self in streams.busy):
            return []  # there are no others
        for block in launch.blocks:
            used = block.used if block in launch.written else block.written
            if len(used) > 1 or (used and self.number not in used):
                for number, batch in list(used.items()):
                    if batch.is_done:
                        del used[number]
                    elif number != self.number and isinstance(batch, Batch):
                        found[batch] = None
        return [batch for batch in found if not self._has_waited_for(batch)]

    def _has_waited_for(self, batch: Batch) -> bool:
        """Whether a batch of this stream has; those after it come after that, too."""
        stream = batch.stream
        return stream is None or 0 < batch.signal <= self._waited.get(stream.number, 0)

    def _silent(self, others: Sequence[Batch]) -> Batch | None:
        """The first of some batches whose end no event tells; all of them are sent off."""
        for batch in others:
            stream = batch.stream
            if stream is not None and batch is stream._open:
                stream._send(batch)
        return next((batch for batch in others if not batch.signal), None)

    def _encode(self, launch: Work, others: list[Batch]) -> Batch:
        send = self._streams.messages
        batch = self._open
        # What is measured is alone in its batch; one that is encoded was interrupted.
        if batch is not None and (batch.is_encoded or others or self._streams.tell is not None):
            self._send(batch)
            batch = None
        if batch is None:
            batch = self._begin(others)
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

    def _begin(self, others: list[Batch]) -> Batch:
        """Begin a batch that waits for batches of other streams."""
        streams, messages = self._streams, self._streams.messages
        streams.busy[self] = None
        with HoldBack():  # an encoder that is dropped before it has ended is a fault
            buffer = made(messages.command_buffer(self._queue), streams.device, "a command buffer")
            for other in others:
                if other.stream is not None and other.event is not None:
                    event = other.event
                    messages.wait_for_event(buffer, event.object, event.number)
                    self._waited[other.stream.number] = other.signal
            given, sample = self._new_encoder(buffer)
            encoder = made(given, streams.device, "an encoder")
            number = next(streams.begun)
            self._open = batch = Batch(self, number, buffer, encoder, [*self._sent][-1:] + others)
            batch.sample = sample
        if streams.are_labelled:
            label = streams.runtime.string(f"stream {self.number}")
            messages.set_label(buffer, label)
            messages.set_label(encoder, label)
        return batch

    def _new_encoder(self, buffer: Object) -> tuple[Object | None, int | None]:
        """An encoder of a command buffer, and what the GPU's timestamps know it by."""
        streams = self._streams
        if streams.tell is None or streams.timestamps is None:
            return streams.messages.encoder(buffer, CONCURRENT), None
        return streams.timestamps.encoder(buffer)

    def _send(self, batch: Batch) -> None:
        messages = self._streams.messages
        with HoldBack():  # none of these may be told twice
            if not batch.is_encoded:
                batch.is_encoded = messages.end_encoding(batch.encoder) is None
            batch.encoder.release()
            if not batch.is_committed:
                if self._streams.are_several:
                    batch.event = event = self._free_event()
                    batch.signal = self._signalled = self._signalled + 1
                    messages.signal_event(batch.buffer, event.object, event.number)
                batch.is_committed = messages.commit(batch.buffer) is None
            if batch not in self._sent:
                self._sent.append(batch)
            self._open = None

    def _free_event(self) -> Event:
        event = self._events.pop() if self._events else Event(self._new_event())
        event.number += 1
        return event

    def _retire(self, batch: Batch) -> None:
        """Take down what a batch that is done has to say."""
        streams, messages = self._streams, self._streams.messages
        has_failed = messages.status(batch.buffer) != COMPLETED
        event = batch.event
        if event is not None:
            if has_failed:
                messages.set_signaled(event.object, event.number)
            batch.event = None
            self._events.append(event)
        if batch.failure is None and has_failed:
            batch.failure = streams.failed(self._error(batch))
        is_new = batch.retired < len(batch.launches)
        if batch.failure is None and is_new and streams.tell is not None:
            first = batch.launches[0].measured
            if first is not None:
                streams.tell(self._timing(batch, first))
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
        batch.after.clear()
        batch.is_done = True
        batch.buffer = batch.stream = batch.pipeline = None
        self._rest()

    def _conclude(self, batch: Batch, launch: Work) -> list[str]:
        """Mark what a launch was to write, if that or what it was given is wrong; the lines that it
        prints."""
        lines: list[str] = []
        failure = batch.failure
        if failure is None and self._streams.has_failed:
            # Its own error may be for want of what it was given.
            given = [block.failure for block in launch.blocks if block.failure is not None]
            failure = given[0] if given else None
        if isinstance(launch, Launch) and launch.report is not None:
            lines, error = reports.read(launch.pipeline.source, launch.grid, words(launch.report))
            if error is not None and failure is None:
                failure = batch.failures.get(id(launch)) or self._streams.failed(error)
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
            self._waited.clear()
            self._streams.busy.pop(self, None)

    def _timing(self, batch: Batch, launch: Measured) -> Timing:
        """Of the only launch of a batch."""
        streams, messages = self._streams, self._streams.messages
        times = None
        if batch.sample is not None and streams.timestamps is not None:
            times = streams.timestamps.read(batch.sample)
        if times is None:
            times = messages.start_time(batch.buffer), messages.end_time(batch.buffer)
        start, end = times
        return Timing(*launch, start, end, self.number)

    def _error(self, batch: Batch) -> DeviceError:
        streams = self._streams
        error = streams.messages.error(batch.buffer)
        text = streams.runtime.error_text(error)
        pipelines = {one.name: one for launch in batch.launches for one in launch.pipelines}
        names = ", ".join(pipelines)
        what = f"the kernel {names} failed" if len(pipelines) == 1 else f"one of {names} failed"
        # Where the text says which one, its line can be told, too.
        named = [pipeline for name, pipeline in pipelines.items() if name in text]
        places = locations_in(named[0].source, text, LINE) if len(named) == 1 else []
        is_late = streams.runtime.error_code(error) == TIMEOUT
        kind = OutOfTimeError if is_late else DeviceError
        return kind(f"{what}: {text}", locations=places)


def _with_all_before(batch: Batch) -> list[Batch]:
    """A batch and those that it comes after, of all streams, as they began."""
    found: set[Batch] = set()
    left = [batch]
    while left:
        one = left.pop()
        if one not in found and not one.is_done:
            found.add(one)
            left += one.after
    return sorted(found, key=lambda one: one.number)
