"""Streams of an NVIDIA GPU: which launch waits for which.

The GPU runs the launches of a stream in order.  A launch that meets one of another stream in
memory makes its stream wait for all that the other one was given so far; no launch makes the host
wait.
"""

from __future__ import annotations

import itertools
import struct
import threading
from collections import deque
from collections.abc import Callable, Collection, Sequence
from ctypes import Array, addressof, c_char
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from cuda.bindings import driver as cuda

from iris.codegen.source import REPORT_HEADER_WORDS
from iris.errors import DeviceError
from iris.runtime import reports
from iris.runtime.compiled_kernel import CompiledKernel
from iris.runtime.cuda.driver import Context, Event, Fault, call, error_text, failed
from iris.runtime.device import Grid, Timing
from iris.runtime.failure import Failures
from iris.runtime.finalizers import until_shutdown
from iris.runtime.memory import MOST_USES, Block, Memory, Use

# As many launches may be unsettled before a launch waits for the first of them.
MOST_UNSETTLED = 256
# As many kernels of a stream are named when something goes wrong in one that nobody can tell.
_MOST_NAMED = 16


class Launch(NamedTuple):
    """All that is told to the driver of a launch."""

    kernel: CompiledKernel
    grid: Grid
    blocks_along: Grid  # the same programs, as the hardware can number them
    arguments: tuple[Any, ...]  # which keep memory alive
    parameters: Any  # behind a table of their addresses
    table: int  # the address of that
    blocks: Collection[Block]
    written: Collection[Block]
    homes: tuple[Stream, ...]  # where other libraries use what it is given
    report: Memory | None

    @property
    def kernels(self) -> tuple[CompiledKernel, ...]:
        return (self.kernel,)

    def start(self, stream: Any) -> None:
        """Give it to the GPU."""
        source = self.kernel.source
        if self.report is not None:
            at = self.report.block.buffer.pointer
            call(cuda.cuMemsetD32Async, at, 0, 1, stream)
            call(cuda.cuMemsetD32Async, at + 4, reports.ROOM, 1, stream)
        x, y, z = self.blocks_along
        status = cuda.cuLaunchKernel(
            self.kernel.state,
            x,
            y,
            z,
            source.threads,
            1,
            1,
            source.threadgroup_bytes,
            stream,
            self.table,
            0,
        )[0]
        if status:
            raise failed(status, f"the kernel {source.entry} does not start")


class Launches(NamedTuple):
    """All that is told to the driver of launches that it has as a graph."""

    launchable: Any
    kernels: tuple[CompiledKernel, ...]
    keeps: tuple[Any, ...]  # alive
    blocks: Collection[Block]
    written: Collection[Block]
    homes: tuple[Stream, ...]
    report: None = None

    def start(self, stream: Any) -> None:
        """Give them to the GPU."""
        call(cuda.cuGraphLaunch, self.launchable, stream)


class Place:
    """A launch as one of its stream."""

    __slots__ = ("launch", "number", "stream")

    def __init__(self, stream: Stream, number: int, launch: Launch | Launches | None):
        self.stream = stream
        self.number = number
        self.launch = launch  # of those that are unsettled

    @property
    def is_done(self) -> bool:
        return self.stream.done >= self.number

    def wait(self) -> None:
        if not self.is_done:
            self.stream.synchronize()


class Streams(Failures):
    """Shared by the streams of a GPU: one lock, and launches to look at once they are done."""

    def __init__(self, context: Context):
        super().__init__()
        self.context = context
        self.lock = threading.RLock()
        self.numbers = itertools.count()
        self.busy: dict[Stream, None] = {}  # which have launches that may not be done, in order
        self.tell: Callable[[Timing], None] | None = None
        self.start: Event | None = None  # of the clock, once anybody asks for times
        # From the first launch on that leaves a report, or is given what failed.
        self.unsettled: deque[Place] = deque()

    def synchronize(self) -> None:
        """Wait for all launches; raise the first error that nobody was told of."""
        self.finish()
        with self.lock:
            self.raise_untold()

    def finish(self) -> None:
        """Wait for all launches, and raise no error of theirs."""
        with self.lock:
            busy = list(self.busy)
        for stream in busy:
            stream.synchronize()

    def call(self, function: Callable[..., tuple[Any, ...]], *arguments: Any) -> Any:
        """What a function of the driver gives."""
        try:
            return call(function, *arguments)
        except Fault as fault:
            raise self.explained(fault) from None

    def explained(self, fault: Fault) -> DeviceError:
        """The error for a fault, with the kernels of all streams that may not be done."""
        with self.lock:
            kernels = {k.name: k for stream in self.busy for k in stream.latest}
        names = ", ".join(kernels)
        places = [kernel.entry.location for kernel in kernels.values()]
        which = f"one of the kernels {names}" if len(kernels) > 1 else f"the kernel {names}"
        return DeviceError(
            f"{which if kernels else 'a kernel'} failed: {fault.message}; nothing more runs on "
            'this GPU in this process. Launches with device="interp" check each access, and name '
            "the line of the first that is wrong",
            locations=[(place.file, place.line) for place in places if place is not None],
        )

    def at_work(self) -> tuple[int, int]:
        """How many streams have launches that are not done, and how many launches those are."""
        with self.lock:
            return len(self.busy), sum([stream.given - stream.done for stream in self.busy])

    def settle(self) -> None:
        """Take down what launches that are done have to say; with the lock."""
        # What one was given is of launches before it, which are done, too.
        places, self.unsettled = self.unsettled, deque()
        self.unsettled.extend([place for place in places if not place.is_done])
        for place in places:
            if place.is_done and place.launch is not None:
                for line in self._conclude(place.launch):
                    print(line)
                place.launch = None

    def _conclude(self, launch: Launch | Launches) -> list[str]:
        """Mark what a launch was to write, if that or what it was given is wrong; the lines that it
        prints."""
        lines: list[str] = []
        failure = next((b.failure for b in launch.blocks if b.failure is not None), None)
        if launch.report is not None:
            words = _report(launch.report.block.buffer.pointer)
            lines, error = reports.read(launch.kernel.source, launch.grid, words)
            if error is not None and failure is None:
                failure = self.failed(error)
        if failure is not None:
            for block in launch.written:
                block.failure = failure
        return lines


class Stream:
    """Launches that run in order, concurrently with other streams."""

    def __init__(self, streams: Streams, handle: Any, *, owned: bool = True):
        self.number = next(streams.numbers)
        self.handle = handle
        self.given = self.done = 0  # launches
        self._streams = streams
        self.latest: deque[CompiledKernel] = deque(maxlen=_MOST_NAMED)
        # Which launch waits for which of another stream.
        self._awaited: deque[tuple[int, Stream, int]] = deque()
        self._destroy = cuda.cuStreamDestroy if owned else None
        # Of another library's stream, which that may end at any time: behind all launches.
        self._last: Event | None = None
        if not owned:
            with streams.context:
                self._last = Event()

    @until_shutdown
    def __del__(self) -> None:
        if self._destroy is not None:
            self._destroy(self.handle)

    def run(self, launch: Launch | Launches) -> None:
        """Give a launch to the GPU; raise what went wrong in one that was to write its memory."""
        streams = self._streams
        try:
            with streams.lock, streams.context:
                first = self._give(launch)
        except Fault as fault:
            raise streams.explained(fault) from None
        if first is not None:
            first.wait()

    def precede(self, other: Stream) -> None:
        """Let another stream wait for all that this one was given, by other libraries, too."""
        event = Event()
        event.record(self.handle)
        call(cuda.cuStreamWaitEvent, other.handle, event.handle, 0)

    def follow(self, uses: dict[int, Use]) -> None:
        """Let what the stream is given from now on wait for some launches."""
        with self._streams.lock, self._streams.context:
            for other in self._streams_of(uses):
                self._wait_for(other)

    def synchronize(self) -> None:
        """Wait for all launches; what went wrong is left to what they were to write."""
        streams = self._streams
        with streams.lock:
            given = self.given
        with streams.context:
            if self._last is None:
                (status,) = cuda.cuStreamSynchronize(self.handle)
            else:
                (status,) = cuda.cuEventSynchronize(self._last.handle)
        if status:
            raise streams.explained(Fault(error_text(status)))
        with streams.lock, streams.context:
            self._finished(given)
            streams.settle()

    # With the lock of all streams.

    def _give(self, launch: Launch | Launches) -> Place | None:
        """Give a launch to the GPU; the first launch to settle, if too many are not."""
        streams = self._streams
        for other in self._others(launch):
            self._wait_for(other)
        for home in launch.homes:
            if home is not self:
                home.precede(self)
        self.given += 1
        is_kept = launch.report is not None or bool(streams.unsettled) or streams.has_failed
        place = Place(self, self.given, launch if is_kept else None)
        for block in launch.blocks:
            block.used[self.number] = place
        for block in launch.written:
            block.written[self.number] = place
        if is_kept:
            streams.unsettled.append(place)
        streams.busy[self] = None
        if streams.tell is None or isinstance(launch, Launches):
            launch.start(self.handle)
        else:
            self._time(launch, streams.tell)
        self.latest.extend(launch.kernels)
        if self._last is not None:
            self._last.record(self.handle)
        for home in launch.homes:
            if home is not self:
                self.precede(home)
        return streams.unsettled[0] if len(streams.unsettled) > MOST_UNSETTLED else None

    def _finished(self, number: int) -> None:
        """Take down that the launches up to a number are done, and so those they waited for."""
        if number <= self.done:
            return
        self.done = number
        while self._awaited and self._awaited[0][0] <= number:
            _, other, others = self._awaited.popleft()
            other._finished(others)
        if number == self.given:
            self.latest.clear()
            self._streams.busy.pop(self, None)

    def _others(self, launch: Launch | Launches) -> dict[Stream, None]:
        """The streams with launches that must be done before one starts."""
        found: dict[Stream, None] = {}
        for block in launch.blocks:
            if block.failure is not None:
                raise block.failure.error()
            if len(block.used) > MOST_USES:
                block.forget_done()
            uses = block.used if block in launch.written else block.written
            if len(uses) > (self.number in uses):
                found.update(self._streams_of(uses))
        return found

    def _streams_of(self, uses: dict[int, Use]) -> dict[Stream, None]:
        """The other streams with some of these launches, unless the launch is done."""
        found: dict[Stream, None] = {}
        for place in uses.values():
            assert isinstance(place, Place)
            if place.stream is not self and not place.is_done:
                found[place.stream] = None
        return found

    def _wait_for(self, other: Stream) -> None:
        """Let the next launch wait for all that another stream was given."""
        event = other._last
        if event is None:
            event = Event()
            event.record(other.handle)
        call(cuda.cuStreamWaitEvent, self.handle, event.handle, 0)
        self._awaited.append((self.given + 1, other, other.given))

    def _time(self, launch: Launch, tell: Callable[[Timing], None]) -> None:
        """Run a launch alone, and tell when it ran."""
        streams = self._streams
        if streams.start is None:
            streams.start = Event(timed=True)
            streams.start.record(self.handle)
        before, after = Event(timed=True), Event(timed=True)
        before.record(self.handle)
        launch.start(self.handle)
        after.record(self.handle)
        after.wait()
        # The driver gives floats of 32 bits, which are exact enough only of short times.
        start = before.seconds_since(streams.start)
        end = start + after.seconds_since(before)
        entry, grid = launch.kernel.entry, launch.grid
        tell(Timing(entry, grid, launch.arguments, start, end, self.number))


def _report(pointer: int) -> reports.Words:
    """The part of a report that was written."""
    head = np.empty(REPORT_HEADER_WORDS, np.uint32)
    call(cuda.cuMemcpyDtoH, head.ctypes.data, pointer, head.nbytes)
    words = np.empty(len(head) + min(int(head[0]), reports.ROOM), np.uint32)
    call(cuda.cuMemcpyDtoH, words.ctypes.data, pointer, words.nbytes)
    return words


class _Layout(NamedTuple):
    """Memory for the parameters of a kernel, behind a table of their addresses."""

    memory: type[Array[c_char]]
    pack_into: Callable[..., None]
    offsets: tuple[int, ...]  # of the parameters


@lru_cache(maxsize=256)
def _layout(pointers: int, constants: int, reports: int) -> _Layout:
    sizes = [*[8] * pointers, *[constants] * bool(constants), *[8] * reports, 12]
    ends = [*itertools.accumulate(sizes, initial=8 * len(sizes))]
    packed = struct.Struct(f"<{len(sizes)}Q{pointers}Q{constants}s{reports}Q3I")
    return _Layout(c_char * packed.size, packed.pack_into, tuple(ends[:-1]))


def parameters_of(
    pointers: Sequence[int], constants: bytes, reports: Sequence[int], grid: Grid
) -> tuple[Array[c_char], int]:
    """The parameters of a kernel in memory, behind a table of their addresses; and its own."""
    layout = _layout(len(pointers), len(constants), len(reports))
    memory = layout.memory()
    start = addressof(memory)
    table = [start + offset for offset in layout.offsets]
    layout.pack_into(memory, 0, *table, *pointers, constants, *reports, *grid)
    return memory, start
