"""What launches cost: their times on a device, beside the work that their kernels do."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from iris.compiler.compilation import entry_of
from iris.compiler.options import Options
from iris.compiler.pipelines import TILE_PIPELINE
from iris.cost.sample import Sizes
from iris.ir.control import Func
from iris.ir.core import Level, Module
from iris.passes import run
from iris.runtime.device import ArrayArgument, Device, Timing
from iris.runtime.devices import select
from iris.targets import Target
from iris.targets.apple import ON_CPU

_MMA_FLOPS = 2 * 8**3


@dataclass(frozen=True)
class Ran:
    """A launch: when it ran, in seconds of the device's clock, and what the cost model says."""

    kernel: str
    grid: tuple[int, int, int]
    start: float
    end: float
    bytes: int  # loaded from and stored to device memory
    flops: int
    occupancy: int  # simdgroups that a core of the target holds at once
    predicted: float  # seconds
    stream: int = 0
    is_counted: bool = True  # nobody counts what kernels that are text do

    @property
    def seconds(self) -> float:
        return self.end - self.start

    def event(self, device: str, start: float) -> dict[str, Any]:
        """As a trace has it, which starts at a time of the device's clock."""
        work = {
            "bytes": self.bytes,
            "flops": self.flops,
            "occupancy": self.occupancy,
            "predicted ms": self.predicted * 1e3,
        }
        return {
            "name": self.kernel,
            "ph": "X",
            "ts": (self.start - start) * 1e6,
            "dur": self.seconds * 1e6,
            "pid": device,
            "tid": f"stream {self.stream}",
            "args": {"grid": list(self.grid), **(work if self.is_counted else {})},
        }


@dataclass
class Totals:
    """Launches of a kernel taken together."""

    launches: int = 0
    seconds: float = 0.0
    bytes: int = 0
    flops: int = 0
    occupancy: int = 0  # the most
    predicted: float = 0.0
    is_counted: bool = True  # whether anybody knows what they did

    def add(self, ran: Ran) -> None:
        self.launches += 1
        self.is_counted = self.is_counted and ran.is_counted
        self.seconds += ran.seconds
        self.bytes += ran.bytes
        self.flops += ran.flops
        self.occupancy = max(self.occupancy, ran.occupancy)
        self.predicted += ran.predicted
        self.is_counted &= ran.is_counted

    def figures(self) -> tuple[str, ...]:
        """What a table shows of them; see `FIGURES`."""
        each = 1e3 / max(self.launches, 1)
        times = str(self.launches), f"{self.seconds * 1e3:.3f}", f"{self.seconds * each:.4f}"
        if not self.is_counted:
            return *times, *["?"] * (len(FIGURES) - len(times))
        per_second = 0 if self.seconds == 0 else 1 / self.seconds
        return (
            *times,
            f"{self.predicted * each:.4f}",
            str(self.occupancy),
            f"{self.bytes / 1e6:.3f}",
            f"{self.bytes * per_second / 1e9:.2f}",
            f"{self.flops / 1e6:.3f}",
            f"{self.flops * per_second / 1e9:.2f}",
        )


FIGURES = (
    *("launches", "total ms", "mean ms", "predicted", "occupancy"),
    *("MB", "GB/s", "Mflop", "Gflop/s"),
)


def table(by_kernel: Mapping[str, Totals]) -> str:
    """A line for each kernel, those that took longest first."""
    longest_first = sorted(by_kernel.items(), key=lambda item: -item[1].seconds)
    rows = [("kernel", *FIGURES), *[(name, *total.figures()) for name, total in longest_first]]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows]
    )


def save_trace(path: str | Path, events: Iterable[Mapping[str, Any]]) -> None:
    """Write a trace in the format of Chrome's, which Perfetto reads."""
    lines = ",\n".join(map(json.dumps, events))
    Path(path).write_text(f'{{"traceEvents": [\n{lines}\n]}}\n', encoding="utf-8")


@dataclass
class Profile:
    """The launches within a `with iris.profile()`, in the order in which they were done.

    `print(profile)` shows a line for each kernel, and `profile.save(path)` writes a trace that
    https://ui.perfetto.dev opens.
    """

    device: str
    launches: list[Ran] = field(default_factory=list)

    def __str__(self) -> str:
        by_kernel: dict[str, Totals] = {}
        for ran in self.launches:
            by_kernel.setdefault(ran.kernel, Totals()).add(ran)
        return f"on {self.device}\n{table(by_kernel)}"

    def save(self, path: str | Path) -> None:
        """Write a trace in the format of Chrome's, which Perfetto reads."""
        first = min([ran.start for ran in self.launches], default=0.0)
        save_trace(path, [ran.event(self.device, first) for ran in self.launches])


@contextmanager
def profile(device: str | Device | None = None) -> Iterator[Profile]:
    """Measure every launch on a device until the end of the `with`.

    with iris.profile() as measured:
        softmax[rows](x, out, columns, BLOCK=1024)
    print(measured)

    Each launch is sent off alone, so that its time is its own: the sum is more than it takes
    without being measured.
    """
    on = select(device)
    measured = Profile(on.name)
    timings: list[tuple[Timing, tuple[Any, ...]]] = []
    try:
        with on.timed(lambda timing: timings.append((timing, passed(timing)))):
            yield measured
    finally:
        works = Works()
        measured.launches += [
            works.ran(on.target, t.entry, t.grid, values, t.start, t.end, t.stream)
            for t, values in timings
        ]


def passed(timing: Timing) -> tuple[Any, ...]:
    """The arguments of a launch without their memory: of arrays the shapes."""
    return tuple([v.shape if isinstance(v, ArrayArgument) else v for v in timing.arguments])


class Works:
    """What launches did, counted once for all of the same sizes."""

    def __init__(self) -> None:
        self._known: dict[tuple[Func, str], tuple[int, int, int, float]] = {}

    def ran(
        self,
        target: Target,
        entry: Func | str,
        grid: tuple[int, int, int],
        values: Sequence[Any],
        start: float,
        end: float,
        stream: int,
    ) -> Ran:
        """A launch with what it did."""
        if isinstance(entry, str):
            return Ran(entry, grid, start, end, 0, 0, 0, 0.0, stream, is_counted=False)
        names = [parameter.name or "" for parameter in entry.body.arguments]
        sizes = Sizes.of(grid, dict(zip(names, values, strict=True)))
        key = entry, repr(sizes)
        if key not in self._known:
            self._known[key] = _work(entry, sizes, target)
        return Ran(entry.symbol, grid, start, end, *self._known[key], stream)


def _work(entry: Func, sizes: Sizes, target: Target) -> tuple[int, int, int, float]:
    """The bytes and flops of a launch, the simdgroups that a core holds, and seconds."""
    if entry.function_level is not Level.METAL:
        # It runs already, whatever Metal promises.
        lowering = Options().pipeline(Level.METAL, ON_CPU).after(len(TILE_PIPELINE))
        entry = entry_of(run(Module([entry.clone({})]), lowering))
    from iris.cost.estimate import estimate  # opened when first used

    found = estimate(entry, sizes, target)
    counts, programs = found.counts, sizes.programs
    flops = counts.flops + counts.mmas * _MMA_FLOPS
    here = [on for on in found.chips if on.chip == target]  # none, where there is no room for it
    occupancy, seconds = (here[0].simdgroups, here[0].milliseconds / 1e3) if here else (0, 0.0)
    return counts.device.bytes * programs, flops * programs, occupancy, seconds
