"""Launches in batches: who is told of what fails, what Ctrl-C leaves behind, and what is kept."""

from __future__ import annotations

import ctypes
import dis
import gc
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import iris
from iris.codegen import emit
from iris.compiler.compilation import entry_of
from iris.errors import DeviceError, ProgramError
from iris.runtime import queue
from iris.runtime.device import Program
from iris.runtime.devices import select
from iris.runtime.metal import Metal
from on_metal import library

pytestmark = [pytest.mark.softmetal, pytest.mark.usefixtures("nothing_old_to_collect")]


@iris.kernel
def scale(X, Out, factor, n, B: iris.constexpr = 64):
    at = iris.program_id(0) * B + iris.arange(0, B)
    iris.store(Out + at, factor * iris.load(X + at, mask=at < n), mask=at < n)


@iris.kernel
def plus(X, Out, number, n, B: iris.constexpr = 64):
    at = iris.program_id(0) * B + iris.arange(0, B)
    iris.store(Out + at, number + iris.load(X + at, mask=at < n), mask=at < n)


@iris.kernel
def check(X, Out):
    x = iris.load(X + iris.arange(0, 32))
    iris.device_assert(x < 5, "too large")
    iris.store(Out + iris.arange(0, 32), x)


@pytest.fixture
def device() -> Metal:
    found = select("softmetal")
    assert isinstance(found, Metal)
    found.synchronize()
    return found


@pytest.fixture(autouse=True)
def nothing_misused() -> Iterator[None]:
    yield
    reports = library().softmetal_reports()
    assert not reports, reports.decode()


def ones(device: Metal, count: int = 100) -> iris.Buffer:
    return iris.asarray(np.ones(count, np.float32), device=device)


def broken(device: Metal) -> Program:
    """`scale`, which writes past the end of arrays of 100 elements."""
    x = ones(device)
    function = entry_of(scale.lower(x, x, 2.0, 100, grid=1).stages[-1].module)
    source = emit(function)
    return device.compile(function, replace(source, text=source.text.replace("< p.n", "< 9999")))


def in_a_thread(work: Callable[[], Any]) -> Any:
    """What some work gives, or raises, in another thread."""
    outcome: list[Any] = []

    def guarded() -> None:
        try:
            outcome.append(work())
        except (AssertionError, iris.errors.IrisError) as error:
            outcome.append(error)

    thread = threading.Thread(target=guarded, daemon=True)
    thread.start()
    thread.join(30)
    assert outcome, "the thread waits for ever"
    if isinstance(outcome[0], Exception):
        raise outcome[0]
    return outcome[0]


# What fails.


def fail(device: Metal, x: iris.Buffer, out: iris.Buffer, stream: Any = None) -> None:
    device.launch(broken(device), (4, 1, 1), [x.argument, out.argument, 2.0, 100], stream)


def uses(out: iris.Buffer) -> list[Callable[[], object]]:
    """All ways to read a Buffer, and launches that are given it."""
    given, device = ones(out.device), out.device
    copy = np.zeros(100, np.float32)
    return [
        out.numpy,
        partial(out.peek, 0),
        partial(iris.to_numpy, out),
        partial(np.asarray, out),
        partial(np.from_dlpack, out),
        partial(device.synchronize, out.argument.memory),
        partial(device.copy_out, out.argument, copy),
        partial(scale[2], out, given, 2.0, 100),
        partial(scale[2], given, out, 2.0, 100),
        partial(scale[2], given, out, 2.0, 100, stream=iris.stream(device)),
        partial(scale[2], out, copy, 2.0, 100),
        partial(scale.prepare(given, out, 2.0, 100, grid=2)),
        partial(iris.jit(lambda x: x + 1), out),
    ]


@pytest.mark.parametrize("stream", [False, True])
def test_every_use_of_what_failed_raises_each_time(device: Metal, stream: bool) -> None:
    x, out = ones(device), ones(device)
    fail(device, x, out, device.new_stream() if stream else None)
    for use in [*uses(out), *uses(out)]:
        with pytest.raises(DeviceError, match="the kernel scale failed"):
            use()
        with pytest.raises(DeviceError, match="the kernel scale failed"):
            in_a_thread(use)
    device.synchronize()  # somebody was told
    assert (x.numpy() == 1).all()


def test_errors_raised_again_keep_nothing_alive(device: Metal) -> None:
    x, out = ones(device), ones(device)
    fail(device, x, out)

    class Held:
        pass

    def read() -> weakref.ref[Held]:
        held = Held()
        with pytest.raises(DeviceError):
            out.numpy()
        return weakref.ref(held)

    found = [read() for _ in range(3)]
    gc.collect()
    assert all(one() is None for one in found)


def test_what_is_made_of_what_failed_has_failed(device: Metal) -> None:
    """Launches that were encoded before anybody knew."""
    x = ones(device)
    for count in (3, 3 * queue.MOST_LAUNCHES):
        chain = [ones(device) for _ in range(count)]
        program = broken(device)
        device.launch(program, (4, 1, 1), [x.argument, chain[0].argument, 2.0, 100])
        for before, after in pairwise(chain):
            scale[2](before, after, 2.0, 100)
        for buffer in (chain[-1], chain[1]):
            with pytest.raises(DeviceError, match="scale failed"):
                buffer.numpy()
        assert (x.numpy() == 1).all()


def test_nobody_else_is_told(device: Metal) -> None:
    shared = ones(device)

    def failing() -> None:
        out = ones(device)
        fail(device, shared, out, device.new_stream())
        out.numpy()

    with pytest.raises(DeviceError):
        in_a_thread(failing)
    own = ones(device)
    stream = device.new_stream()
    fail(device, shared, own, stream)  # nobody has asked yet
    good = iris.empty_like(shared)
    scale[2](shared, good, 3.0, 100, stream=device.new_stream())
    assert (in_a_thread(good.numpy) == 3).all()
    assert (in_a_thread(shared.numpy) == 1).all()
    array = np.zeros(100, np.float32)
    scale[2](np.ones(100, np.float32), array, 3.0, 100, device=device)
    assert (array == 3).all()
    with pytest.raises(DeviceError):
        iris.synchronize()
    iris.synchronize()  # who asks for everything is told once
    with pytest.raises(DeviceError):
        own.numpy()


def test_an_assertion_is_that_of_its_launch(device: Metal) -> None:
    x, y = ones(device, 32), iris.asarray(np.full(32, 7, np.float32), device=device)
    outs = [iris.empty_like(x) for _ in range(3)]
    for given, out in zip((x, y, x), outs, strict=True):
        check[1](given, out)
    assert (outs[0].numpy() == 1).all() and (outs[2].numpy() == 1).all()
    for _ in range(2):
        with pytest.raises(ProgramError, match="too large"):
            outs[1].numpy()
    # A launch on arrays, beside those of others, raises what is its own.
    check[1](y, outs[2])
    good = np.zeros(32, np.float32)
    check[1](np.ones(32, np.float32), good, device=device)
    assert (good == 1).all()
    with pytest.raises(ProgramError, match="too large"):
        check[1](np.full(32, 6, np.float32), iris.empty_like(x), device=device)
    with pytest.raises(ProgramError, match="too large"):
        device.synchronize()  # that of the launch whose result nobody has read


def test_memory_written_anew_is_right_again(device: Metal) -> None:
    x, out = ones(device), ones(device)
    fail(device, x, out)
    device.copy_in(replace(out.argument, shape=(50,)), np.zeros(50, np.float32))
    with pytest.raises(DeviceError):
        out.numpy()
    device.copy_in(out.argument, np.zeros(100, np.float32))
    assert (out.numpy() == 0).all()
    # What comes from the pool is new.
    fail(device, x, out)
    with pytest.raises(DeviceError):
        out.numpy()
    block = out.argument.memory.block
    out.free()
    gc.collect()
    others = [iris.empty(100, device=device) for _ in range(20)]
    assert block in [other.argument.memory.block for other in others]
    for other in others:
        other.numpy()


# Streams that wait for each other on the GPU.


@pytest.fixture
def waits(device: Metal, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The command buffers that the host waits for."""
    found: list[Any] = []
    wait = device.messages.wait
    monkeypatch.setattr(device.messages, "wait", lambda one: found.append(one) or wait(one))
    return found


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_streams_hand_over_without_the_host(device: Metal, waits: list[Any], seed: int) -> None:
    """A chain through more streams than a batch of one waits for."""
    x = ones(device)
    streams = [device.new_stream() for _ in range(5)]
    buffers = [iris.empty_like(x) for _ in range(8)]
    device.shuffle(seed)
    try:
        for step in range(8):
            before = x if step == 0 else buffers[step - 1]
            plus[2](before, buffers[step], 1.0, 100, stream=streams[step % 5])
            plus[2](before, iris.empty_like(x), 5.0, 100, stream=streams[step % 5])  # no new wait
        assert not waits
        assert (buffers[-1].numpy() == 9).all()
        assert waits
        plus[2](buffers[-1], x, 1.0, 100, stream=streams[0])  # after all that read x
        assert (x.numpy() == 10).all()
    finally:
        device.shuffle(None)


def test_a_failure_holds_nobody_up(device: Metal, waits: list[Any]) -> None:
    """What waits for a batch that failed goes on, and fails for want of what it was given."""
    x, out, last = ones(device), ones(device), ones(device)
    one, two = device.new_stream(), device.new_stream()
    program = broken(device)
    for _ in range(3):
        device.launch(program, (4, 1, 1), [x.argument, out.argument, 2.0, 100], one)
    scale[2](out, last, 2.0, 100, stream=two)
    good = iris.empty_like(x)
    scale[2](x, good, 2.0, 100, stream=two)
    assert not waits
    assert (in_a_thread(good.numpy) == 2).all()
    with pytest.raises(DeviceError, match="the kernel scale failed"):
        last.numpy()


def test_a_signal_of_the_host_takes_none_back(
    device: Metal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch after one that failed is not done when the host looks, and done when it signals."""
    x, out, stream = ones(device), ones(device), device.new_stream()
    count = 1 << 20
    long, result = ones(device, count), ones(device, count)
    signal = device.messages.set_signaled

    def late(event: object, number: object) -> None:
        for batch in [*stream._sent]:
            if batch.buffer is not None:
                device.messages.wait(batch.buffer)
        signal(event, number)
        signalled.append(number)

    signalled: list[object] = []
    monkeypatch.setattr(device.messages, "set_signaled", late)
    monkeypatch.setattr(device.streams, "most_launches", 1)
    device.launch(broken(device), (4, 1, 1), [x.argument, out.argument, 2.0, 100], stream)
    scale[count // 64](long, result, 2.0, count, stream=stream)
    with pytest.raises(DeviceError, match="the kernel scale failed"):
        out.numpy()
    assert len(signalled) == 1
    assert (result.numpy() == 2).all()


def test_batches_have_the_events_of_those_that_are_done(device: Metal) -> None:
    x = ones(device)
    device.synchronize()
    one, two = device.new_stream(), device.new_stream()
    before = live("SMSharedEvent")
    for _ in range(20):
        for stream in (one, two):
            plus[2](x, x, 1.0, 100, stream=stream)
        device.synchronize()
    assert (x.numpy() == 41).all()
    # Each stream has one of a batch on its way, and one of a batch that another waits for.
    assert live("SMSharedEvent") - before <= 4


def test_batches_without_an_event_are_refused(device: Metal) -> None:
    x, out = ones(device), ones(device)
    queues = live("SMQueue")
    streams = [device.new_stream() for _ in range(3)]
    assert live("SMQueue") == queues + 3
    scale[2](x, out, 2.0, 100, stream=streams[0])
    library().softmetal_fail(b"newSharedEvent", 1)
    with pytest.raises(DeviceError, match="could not make a shared event"):
        out.numpy()
    assert (out.numpy() == 2).all()
    del streams
    assert live("SMQueue") == queues


def live(kind: str) -> int:
    """How many objects of a class of softmetal there are."""
    ask = library().softmetal_live_text
    ask.restype = ctypes.c_char_p
    counts = dict(map(str.split, ask().decode().splitlines()))
    return int(counts.get(kind, 0))


# Ctrl-C.

RUNTIME = str(Path(queue.__file__).parent)


class Interrupting:
    """Ctrl-C at the n-th line of the runtime that runs."""

    def __init__(self, at: int):
        self.at = at
        self.lines = 0

    def __enter__(self) -> Interrupting:
        sys.settrace(self._call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _call(self, frame: FrameType, event: str, argument: object) -> Any:
        return self._line if frame.f_code.co_filename.startswith(RUNTIME) else None

    def _line(self, frame: FrameType, event: str, argument: object) -> Any:
        if event == "line" and not self._leaves_with(frame):
            self.lines += 1
            if self.lines == self.at:
                signal.raise_signal(signal.SIGINT)
        return self._line

    @staticmethod
    def _leaves_with(frame: FrameType) -> bool:
        """Where Python calls `__exit__`, it takes no signals."""
        code = frame.f_code
        opcode = dis.opname[code.co_code[frame.f_lasti]]
        return opcode in ("POP_BLOCK", "PUSH_EXC_INFO") or (
            opcode == "LOAD_CONST" and code.co_consts[code.co_code[frame.f_lasti + 1]] is None
        )


def interrupted_everywhere(work: Callable[[], object], after: Callable[[], None]) -> int:
    """Do something with Ctrl-C at its first line, its second, until it comes to its end."""
    at = 0
    # A job in the background of a shell ignores it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        while True:
            at += 1
            try:
                with Interrupting(at) as interrupting:
                    work()
            except KeyboardInterrupt:
                pass
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
            after()
            if interrupting.lines < at:
                return at
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("way", ["direct", "prepared", "arrays", "report", "profile", "replay"])
def test_an_interrupt_at_every_line(device: Metal, way: str) -> None:
    """Launches after it are right, no lock is held, and nothing goes on."""
    x = ones(device)
    middle, out = iris.empty_like(x), iris.empty_like(x)
    few, few_out = ones(device, 32), iris.empty(32, device=device)
    arrays = np.ones(100, np.float32), np.zeros(100, np.float32)
    steps = scale.prepare(x, middle, 3.0, 100, grid=2), plus.prepare(middle, out, 4.0, 100, grid=2)

    def direct(stream: Any = None) -> None:
        scale[2](x, middle, 3.0, 100, stream=stream)
        plus[2](middle, out, 4.0, 100, stream=stream)

    def prepared() -> None:
        for step in steps:
            step()
        iris.empty(100, device=device)
        out.numpy()

    def on_arrays() -> None:
        plus[2](*arrays, 4.0, 100, device=device)

    def report() -> None:
        check[1](few, few_out)
        few_out.numpy()

    def profile() -> None:
        with iris.profile(device):
            direct()

    with iris.record() as recording:
        scale[2](x, middle, 3.0, 100)
        plus[2](middle, out, 4.0, 100)

    def replay() -> None:
        recording.launches[1].update(number=4.0)
        recording.replay()

    def after() -> None:
        if way == "replay":
            replay()
            assert (out.numpy() == 7).all()
        # The other kernel first: the one that was set before must not run in its place.
        plus[2](x, middle, 1.0, 100)
        scale[2](middle, out, 5.0, 100)
        assert (out.numpy() == 10).all()
        in_a_thread(partial(direct, device.new_stream()))
        assert (in_a_thread(out.numpy) == 7).all()
        few_out.numpy()

    works = {"direct": direct, "prepared": prepared, "arrays": on_arrays}
    work = {**works, "report": report, "profile": profile, "replay": replay}[way]
    work()
    after()
    before = int(library().softmetal_live_objects())
    lines = interrupted_everywhere(work, after)
    assert lines > 50, "nothing was interrupted"
    device.synchronize()
    gc.collect()
    assert not device.streams.busy
    # What an interrupt may lose is a pool, or an object whose pointer was on its way to Python.
    assert int(library().softmetal_live_objects()) <= before + lines // 5


# What is kept.


def test_dropped_streams_are_gone(device: Metal) -> None:
    x = ones(device)
    streams: list[weakref.ref[Any]] = []
    most = 0
    for number in range(1000):
        stream = device.new_stream()
        streams.append(weakref.ref(stream))
        scale[2](x, iris.empty_like(x), 2.0, 100, stream=stream)
        del stream
        if number % 100 == 99:
            most = max(most, sum(one() is not None for one in streams))
    assert most <= queue.MOST_STREAMS
    device.synchronize()
    assert sum(one() is not None for one in streams) == 0
    assert len(x.argument.memory.block.used) <= queue.MOST_STREAMS
    scale[2](x, x, 2.0, 100)
    assert (x.numpy() == 2).all()
