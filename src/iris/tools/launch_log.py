"""What a script has launched so far, as `iris top` shows it; see `launch_events`."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from iris.compiler.compilation import entry_of
from iris.compiler.profile import Ran, Totals, Works, save_trace, table
from iris.errors import IrisError
from iris.ir.control import Func
from iris.ir.text.parser import parse
from iris.runtime.device import Usage
from iris.targets import find

Event = dict[str, Any]


class _Kernel(NamedTuple):
    device: str
    target: str
    name: str
    entry: Func | str  # its name: nobody can count what it does


class LaunchLog:
    """Takes messages, from any thread; `keeps_all` keeps every launch for a trace."""

    def __init__(self, *, keeps_all: bool = False):
        self.lock = threading.Lock()
        self.totals: dict[str, dict[str, Totals]] = {}  # by device and kernel
        self.usage: dict[str, Usage] = {}  # of each device that has some, the last
        self.most_bytes: dict[str, int] = {}  # that were in use at a time
        self.hits = self.misses = self.compiled = 0
        self.compile_seconds = 0.0
        self.uncounted: dict[str, str] = {}  # kernels that nobody can count, and why
        self._keeps_all = keeps_all
        self._works = Works()
        self._kernels: dict[int, _Kernel] = {}
        self._behind: dict[str, float] = {}  # device clocks, at least, behind the host's
        self._launches: list[tuple[str, Ran]] = []
        self._others: list[Event] = []  # of the trace, in seconds of the host

    def take(self, line: str) -> None:
        """Take a message."""
        for kind, *event in json.loads(line):
            with self.lock:
                getattr(self, f"_take_{kind}")(*event)

    def _take_kernel(
        self, number: int, device: str, target: str, name: str, text: str | None
    ) -> None:
        entry: Func | str = name
        if text is None:
            self.uncounted[name] = "it came as Metal text"
        else:
            try:
                entry = entry_of(parse(text))
            except IrisError as error:  # it has ops that only the script knows
                self.uncounted[name] = str(error)
        self._kernels[number] = _Kernel(device, target, name, entry)

    def _take_launch(
        self,
        number: int,
        grid: list[int],
        values: list[Any],
        start: float,
        end: float,
        stream: int,
        told: float,
    ) -> None:
        device, target, name, entry = self._kernels[number]
        x, y, z = grid
        total = self.totals.setdefault(device, {}).setdefault(name, Totals())
        shapes = [tuple(v) if isinstance(v, list) else v for v in values]
        ran = self._works.ran(find(target), entry, (x, y, z), shapes, start, end, stream)
        total.add(ran)
        self._behind[device] = min(told - end, self._behind.get(device, told - end))
        if self._keeps_all:
            self._launches.append((device, ran))

    def _take_compile(self, name: str, start: float, end: float) -> None:
        self.compiled += 1
        self.compile_seconds += end - start
        self._keep({"name": name, "ph": "X", "ts": start, "dur": end - start, "tid": "compile"})

    def _take_state(
        self, now: float, hits: int, misses: int, usages: dict[str, list[int] | None]
    ) -> None:
        self.hits, self.misses = hits, misses
        for device, figures in usages.items():
            if figures is None:
                continue
            usage = self.usage[device] = Usage(*figures)
            self.most_bytes[device] = max(usage.bytes, self.most_bytes.get(device, 0))
            memory = {"in use": usage.bytes, "kept": usage.kept_bytes}
            launches = {"not done": usage.launches}
            for name, args in (("memory", memory), ("launches", launches)):
                self._keep({"name": f"{name} of {device}", "ph": "C", "ts": now, "args": args})

    def _keep(self, event: Event) -> None:
        if self._keeps_all:
            self._others.append({**event, "pid": "host"})

    # What it says.

    def table(self) -> str:
        """A table for each device, and what else there is to say."""
        with self.lock:
            return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        for device, totals in self.totals.items():
            yield f"on {device}"
            yield table(totals)
        if not self.totals:
            yield "nothing was launched"
        for name, why in self.uncounted.items():
            yield f"{name} is not counted: {why}"
        yield (
            f"{self.misses} compiled, in {self.compile_seconds:.3f} s; {self.hits} launches of "
            "what was compiled before"
        )
        for device, usage in self.usage.items():
            most, kept = self.most_bytes[device] / 1e6, usage.kept_bytes / 1e6
            yield f"memory of {device}: at most {most:.3f} MB in use, {kept:.3f} MB in the pool"
            asked = usage.cache_hits + usage.cache_misses
            yield f"cache of {device} on disk: {usage.cache_hits} of {asked} texts were there"

    def save_trace(self, path: str | Path) -> None:
        """Write all that was kept as a trace that https://ui.perfetto.dev opens."""
        with self.lock:
            starts = [event["ts"] for event in self._others]
            starts += [ran.start + self._behind[device] for device, ran in self._launches]
            first = min(starts, default=0.0)
            events = [
                ran.event(device, first - self._behind[device]) for device, ran in self._launches
            ]
            for event in self._others:
                times = {"ts": (event["ts"] - first) * 1e6}
                if "dur" in event:
                    times["dur"] = event["dur"] * 1e6
                events.append({**event, **times})
        save_trace(path, events)
