"""What launches cost: their times on a device, beside the work that their kernels do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from iris.compiler.compilation import TILE_PIPELINE, Options, entry_of
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

    @property
    def seconds(self) -> float:
        return self.end - self.start


@dataclass
class Profile:
    """The launches within a `with iris.profile()`, in the order in which they were done.

    `print(profile)` shows a line for each kernel, and `profile.save(path)` writes a trace that
    https://ui.perfetto.dev opens.
    """

    device: str
    launches: list[Ran] = field(default_factory=list)

    def __str__(self) -> str:
        head = (
            *("kernel", "launches", "total ms", "mean ms", "predicted", "occupancy"),
            *("MB", "GB/s", "Mflop", "Gflop/s"),
        )
        by_kernel: dict[str, list[Ran]] = {}
        for ran in self.launches:
            by_kernel.setdefault(ran.kernel, []).append(ran)
        longest_first = sorted(by_kernel.items(), key=lambda item: -sum(r.seconds for r in item[1]))
        rows = [head, *[_row(name, launches) for name, launches in longest_first]]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])])
            for row in rows
        ]
        return "\n".join([f"on {self.device}", *lines])

    def save(self, path: str | Path) -> None:
        """Write a trace in the format of Chrome's, which Perfetto reads."""
        first = min([ran.start for ran in self.launches], default=0.0)
        events = [
            {
                "name": ran.kernel,
                "ph": "X",
                "ts": (ran.start - first) * 1e6,
                "dur": ran.seconds * 1e6,
                "pid": self.device,
                "tid": "launches",
                "args": {
                    "grid": list(ran.grid),
                    "bytes": ran.bytes,
                    "flops": ran.flops,
                    "occupancy": ran.occupancy,
                    "predicted ms": ran.predicted * 1e3,
                },
            }
            for ran in self.launches
        ]
        Path(path).write_text(json.dumps({"traceEvents": events}, indent=1) + "\n")


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
    timings: list[tuple[Timing, Sizes]] = []
    on.time_launches(lambda timing: timings.append((timing, _sizes(timing))))
    try:
        yield measured
        on.synchronize()
    finally:
        on.time_launches(None)
        works: dict[tuple[Func, str], tuple[int, int, int, float]] = {}
        for timing, sizes in timings:
            key = timing.entry, repr(sizes)
            if key not in works:
                works[key] = _work(timing.entry, sizes, on.target)
            measured.launches.append(
                Ran(timing.entry.symbol, timing.grid, timing.start, timing.end, *works[key])
            )


def _row(name: str, launches: list[Ran]) -> tuple[str, ...]:
    seconds = sum(ran.seconds for ran in launches)
    moved, flops = sum(ran.bytes for ran in launches), sum(ran.flops for ran in launches)
    per_second = 0 if seconds == 0 else 1 / seconds
    return (
        name,
        str(len(launches)),
        f"{seconds * 1e3:.3f}",
        f"{seconds * 1e3 / len(launches):.4f}",
        f"{sum(ran.predicted for ran in launches) * 1e3 / len(launches):.4f}",
        str(max(ran.occupancy for ran in launches)),
        f"{moved / 1e6:.3f}",
        f"{moved * per_second / 1e9:.2f}",
        f"{flops / 1e6:.3f}",
        f"{flops * per_second / 1e9:.2f}",
    )


def _sizes(timing: Timing) -> Sizes:
    """What the counts depend on, of the arguments of a launch."""
    names = [parameter.name or "" for parameter in timing.entry.body.arguments]
    values = [v.shape if isinstance(v, ArrayArgument) else v for v in timing.arguments]
    return Sizes.of(timing.grid, dict(zip(names, values, strict=True)))


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
