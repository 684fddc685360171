"""What a launch costs Python: an empty kernel on softmetal, launched directly and prepared, and a
recording of 100 launches.

The time is split into messages to Metal's objects, measured by sending the same ones again without
Iris, and what is left: our own code. Bars: a prepared launch sends at most 5 messages and takes
5 us of our own code, a direct one 15 us.

A replay takes 20 us from Python: our own code, and what ctypes takes for each message, which is
measured by sending the same ones to nil. What softmetal does in them is left out: Metal is another.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

import iris
import report
from iris.runtime.devices import select
from iris.runtime.messages import CONCURRENT
from iris.runtime.metal import Metal
from iris.runtime.objc import Object
from iris.runtime.queue import MOST_BATCHES
from iris.softmetal import build

LAUNCHES = report.times(4000)
ROUNDS = report.times(9)


@iris.kernel
def empty(X, Y, n, B: iris.constexpr):
    iris.store(X + iris.arange(0, B), 1.0, mask=iris.arange(0, B) < n)


def per_call(call: Callable[[], object], times: int = LAUNCHES) -> float:
    """Microseconds of one of many calls, not those in which this thread waits for kernels."""
    start = time.thread_time()
    for _ in range(times):
        call()
    return (time.thread_time() - start) / times * 1e6


def messages_of(call: Callable[[], object], sent: Callable[[], int]) -> float:
    """How many messages a call sends, on average over many: those of a batch are shared."""
    before = sent()
    for _ in range(LAUNCHES):
        call()
    return (sent() - before) / LAUNCHES


def resend(device: Metal, launch: Callable[[], object]) -> Callable[[], list[float]]:
    """A function that sends what Iris sends for a launch, and tells how long each took."""
    captured = []
    stream = device._queue
    run, stream.run = stream.run, captured.append
    launch()
    stream.run = run
    (what,) = captured
    send = device.messages

    def measure() -> list[float]:
        with device.runtime.pool():
            buffer = send.command_buffer(stream._queue)
            encoder = send.encoder(buffer, CONCURRENT)
            index, size = what.pipeline.source.constants_buffer or 0, len(what.constants)
            seconds = [
                per_call(lambda: send.set_pipeline(encoder, what.pipeline.state)),
                per_call(lambda: send.set_buffers(encoder, what.buffers, what.offsets, what.range)),
                per_call(lambda: send.set_bytes(encoder, what.constants, size, index)),
                per_call(lambda: send.barrier(encoder, 1)),
                per_call(lambda: send.dispatch(encoder, what.groups, what.threads)),
            ]
            send.end_encoding(encoder)
            send.commit(buffer)
            send.wait(buffer)
        # Calling a function from Python takes time, too: count the message alone.
        nothing = per_call(lambda: None)
        return [s - nothing for s in seconds]

    return measure


def recording_of_100(device: Metal) -> Any:
    x, *others = [iris.asarray(np.zeros(32, np.float32), device=device) for _ in range(4)]
    with iris.record() as recording:
        for n in range(100):
            empty[1](x, others[n % 3], 0, B=32)
    recording.replay()
    device.synchronize()
    return recording


def resend_replay(device: Metal, recording: Any, queue: Object | None) -> Callable[[], None]:
    """What sends the messages of a replay alone; all of them go to nil if its queue is nil."""
    send, commands = device.messages, recording._replay._commands

    def again() -> None:
        pool = device.runtime.push()
        buffer = send.command_buffer(queue)
        encoder = send.encoder(buffer, CONCURRENT)
        commands.encode(send, SimpleNamespace(encoder=encoder, pipeline=None))
        send.end_encoding(encoder)
        if encoder is not None:
            encoder.release()
        send.commit(buffer)
        device.runtime.pop(pool)

    return again


def replay_rows(device: Metal, sent: Callable[[], int]) -> dict[str, dict[str, float]]:
    """Times of a replay, in runs of as many replays as can be started before one waits."""
    recording = recording_of_100(device)
    messages = resend_replay(device, recording, device._queue._queue)
    to_nil = resend_replay(device, recording, None)
    totals, sends, crossings = [], [], []
    for _ in range(40 * ROUNDS):
        for what, costs in ((recording.replay, totals), (messages, sends), (to_nil, crossings)):
            costs.append(per_call(what, MOST_BATCHES))
            device.synchronize()
    softmetals = [send - nothing for send, nothing in zip(sends, crossings, strict=True)]
    ours = [total - softmetal for total, softmetal in zip(totals, softmetals, strict=True)]
    before = sent()
    recording.replay()
    count = float(sent() - before)
    device.synchronize()
    return {
        "replay, total": report.spread(totals, 1),
        "replay, softmetal": report.spread(softmetals, 1),
        "replay, from Python": report.spread(ours, 1),
        "replay, how many": {"median": count, "least": count, "most": count},
    }


def main() -> None:
    device = select("softmetal")
    assert isinstance(device, Metal)
    counter = ctypes.CDLL(str(build.library()))["softmetal_messages"]
    counter.restype = ctypes.c_ulong
    x = iris.asarray(np.zeros(32, np.float32), device=device)
    y = iris.empty_like(x)
    prepared = empty.prepare(x, y, 0, grid=1, B=32)

    def direct() -> None:
        empty[1](x, y, 0, B=32)

    direct()
    device.synchronize()
    measure = resend(device, direct)
    rows: dict[str, dict[str, float]] = {}
    for name, launch in (("direct", direct), ("prepared", prepared)):
        totals, sends = [], []
        for _ in range(ROUNDS):
            totals.append(per_call(launch))
            device.synchronize()
            sends.append(sum(measure()))
        rows[f"{name}, total"] = report.spread(totals, 1)
        rows[f"{name}, messages"] = report.spread(sends, 1)
        own = [total - send for total, send in zip(totals, sends, strict=True)]
        rows[f"{name}, our code"] = report.spread(own, 1)
        count = messages_of(launch, counter)
        device.synchronize()
        rows[f"{name}, how many"] = {"median": count, "least": count, "most": count}
    rows |= replay_rows(device, counter)
    print("microseconds of Python per launch, or replay of 100; of messages, also how many")
    report.write("dispatch", rows)


if __name__ == "__main__":
    main()
