"""Runs a script, and tells another process what it launches: `python -m iris.tools.launch_events`.

A launch costs the script little: what is known of it is put aside, and a thread writes it to a pipe
ten times a second.  Kernels go there as text, once, so that the other process counts what launches
did.  A message is a line of JSON, a list of events:

    ["kernel", number, device, target, name, text; none if it came as Metal text]
    ["launch", number, grid, arguments, start, end, stream, when it was told]
    ["compile", name, start, end]
    ["state", now, launches of what was compiled before, first launches, {device: usage}]

Times are in seconds of `time.perf_counter`, but start and end of a launch by the device's clock.
"""

from __future__ import annotations

import atexit
import itertools
import json
import os
import sys
import threading
import time
from collections import deque
from contextlib import ExitStack
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

from iris.compiler import compile_times, recording
from iris.compiler.profile import passed
from iris.ir.control import Func
from iris.ir.core import Module
from iris.ir.text.printer import to_text
from iris.runtime import devices
from iris.runtime.device import Device, Timing
from iris.tools.script import run_script

PERIOD = 0.1  # seconds between two messages


class Sender:
    """Collects what happens in this process, and writes it to a file."""

    def __init__(self, file: int):
        self._file = open(file, "w", encoding="utf-8")  # noqa: SIM115
        self._process = os.getpid()
        self._events: deque[tuple[Any, ...]] = deque()
        self._devices: list[Device] = []
        self._timed = ExitStack()
        self._kernels: dict[Func | str, int] = {}
        self._numbers = itertools.count()
        self._compiled: WeakValueDictionary[int, Any] = WeakValueDictionary()
        self._hits = self._misses = 0
        self._lock = threading.Lock()  # for those two
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._send_often, daemon=True)

    def start(self) -> None:
        """Listen from now on, to the end of the process."""
        # After the launches at the end are done: what is registered first is called last.
        atexit.register(self._end)
        devices.WATCHERS.append(self._opened)
        recording.RECORDERS.append(self._launched)
        compile_times.LISTENERS.append(self._was_compiled)
        self._thread.start()

    # Called by the script's threads.

    def _add(self, *event: Any) -> None:
        if os.getpid() == self._process:  # a child that was forked off has no thread to send
            self._events.append(event)

    def _opened(self, device: Device) -> None:
        self._devices.append(device)
        self._timed.enter_context(device.timed(partial(self._ran, device)))

    def _ran(self, device: Device, timing: Timing) -> None:
        entry = timing.entry
        number = self._kernels.get(entry)
        if number is None:
            number = self._kernels[entry] = next(self._numbers)
            text = None if isinstance(entry, str) else to_text(Module([entry.clone({})]))
            self._add("kernel", number, device.name, device.target.name, timing.kernel, text)
        launch = timing.grid, passed(timing), timing.start, timing.end, timing.stream
        self._add("launch", number, *launch, time.perf_counter())

    def _launched(self, compiled: object, lower: object) -> None:
        with self._lock:
            if id(compiled) in self._compiled:
                self._hits += 1
            else:
                self._compiled[id(compiled)] = compiled
                self._misses += 1

    def _was_compiled(self, name: str, start: float, end: float) -> None:
        self._add("compile", name, start, end)

    # Called by its own thread, and at the end.

    def _send_often(self) -> None:
        while not self._is_over.wait(PERIOD):
            self._send()

    def _send(self) -> None:
        events = [self._events.popleft() for _ in range(len(self._events))]
        usages = {device.name: device.usage() for device in self._devices}
        events.append(("state", time.perf_counter(), self._hits, self._misses, usages))
        try:
            print(json.dumps(events, default=_plain), file=self._file, flush=True)
        except OSError:  # nobody reads it any more
            self._is_over.set()

    def _end(self) -> None:
        if os.getpid() == self._process:
            self._is_over.set()
            self._thread.join()
            try:
                self._timed.close()  # which waits, and raises what nobody was told of
            finally:
                self._send()


def _plain(x: Any) -> Any:
    """A number of NumPy's as one of Python's."""
    return x.item()


if __name__ == "__main__":
    _, file, script, *arguments = sys.argv
    os.set_inheritable(int(file), False)
    Sender(int(file)).start()
    run_script(script, arguments)
