"""How well the cost model ranks schedules: what it predicts, beside the times of a GPU.

Each kernel is compiled by the schedule that the compiler chooses and by others, drawn at random
around it.  For each family: Spearman's correlation of predicted and measured times over all its
kernels and schedules; the median of that over schedules of one kernel, where the times differ; how
much longer the compiler's choice takes than the best schedule, for the worst of its kernels; and
the same of the schedule that the model ranks first.  Kernels that are held out come apart: nothing
in the model was found with their times.  `results/model_rows.json` has each time.

Schedules of a kernel are timed in turns, by the events of CUDA, as in `gpu.py`: caches are flushed,
and the GPU is kept waiting until all has been launched.

With `--short` nothing is timed: the kernels are small, and an interpreter shows that all schedules
compute the same.
"""

from __future__ import annotations

import json
import random
import re
import statistics
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import gpu
import iris
import report
from iris.compiler.array_compilation import ArrayCompilation
from iris.compiler.compilation import target_of
from iris.errors import IrisError
from iris.runtime.devices import select

SCHEDULES = 7  # of a kernel, beside the compiler's own
TURNS = 15
MOST_DRAWN = 60  # to find as many: some are illegal, or do not fit
Families = dict[str, list[tuple[str, list[tuple[int, ...]]]]]
# The rows of `gpu.py` by family, with sizes that `gpu.py` does not time.
FAMILIES: Families = {
    "elementwise": [
        ("add", [(1 << 24,), (5_000_000,), (12_000_000,), (40_000_000,)]),
        ("gelu", [(3_000_000,), (1 << 23,), (6_000_000,), (1 << 25,)]),
        ("rope f16", [(32, 2048, 128)]),
    ],
    "softmax": [
        (
            "softmax",
            [(6000, 1000), (3000, 6000), (1000, 20000), (12000, 700), (2500, 4000), (600, 16000)],
        )
    ],
    "norms": [
        ("layernorm", [(6000, 2048), (2000, 10000), (10000, 1200), (3000, 5000)]),
        ("rmsnorm f16", [(8000, 1500), (5000, 3000), (1500, 12000)]),
        ("normalise, gelu, residual", [(4000, 3000)]),
    ],
    "reductions": [
        ("row sum", [(8000, 3000), (20000, 1000)]),
        ("column sum", [(5000, 3000), (3000, 8000)]),
        ("argmax", [(4000, 8000), (10000, 2500)]),
        ("cross-entropy", [(2000, 10000), (3000, 16000), (8000, 4000)]),
    ],
    "scans": [("cumsum", [(8000, 2000), (3000, 9000), (20000, 600), (6000, 4000), (1500, 16000)])],
    "transposes": [("transpose", [(4000, 6000), (3000, 3000), (2000, 5000), (7000, 3000)])],
    "products f16": [("matmul f16", [(1024,), (1536,), (2560,), (3072,)])],
    "products f32": [("matmul f32", [(1024,), (1536,), (2048,), (2560,)])],
    "attention": [
        ("attention f16", [(16, 2048, 64), (48, 1024, 64), (24, 1024, 128), (8, 4096, 64)])
    ],
}
HELD_OUT: Families = {
    "elementwise": [
        ("add", [(9_000_000,), (30_000_000,)]),
        ("gelu", [(4_500_000,), (15_000_000,)]),
        ("rope f16", [(16, 3072, 128), (40, 1024, 64)]),
    ],
    "softmax": [("softmax", [(9000, 900), (4500, 2500), (1800, 7000), (800, 12000)])],
    "norms": [
        ("layernorm", [(7000, 1600), (1200, 14000)]),
        ("rmsnorm f16", [(12000, 1000), (2500, 7000)]),
        ("normalise, gelu, residual", [(9000, 1500), (2000, 6500)]),
    ],
    "reductions": [
        ("row sum", [(12000, 1800)]),
        ("column sum", [(7000, 2200)]),
        ("argmax", [(6000, 5000)]),
        ("cross-entropy", [(1500, 24000), (5000, 6000)]),
    ],
    "scans": [("cumsum", [(14000, 1100), (2200, 11000)])],
    "transposes": [("transpose", [(1500, 4500), (6500, 2800), (5000, 9000)])],
    "products f16": [("matmul f16", [(1280,), (2304,)])],
    "products f32": [("matmul f32", [(1280,), (1792,)])],
    "attention": [("attention f16", [(12, 2048, 128), (32, 1536, 64)])],
}
AXIS = re.compile(r"(\w+: \w+ )(\d+)( of (\d+))")
SIMDGROUPS = re.compile(r"(simdgroups: )(\d+)")


def main() -> None:
    clock, device = None, "interp"
    if not report.SHORT:
        try:
            import torch
        except ImportError:
            sys.exit("install torch to time kernels; or run with --short")
        if dict(iris.devices())["cuda"] is not None:
            sys.exit(f"the device cuda is not here: {dict(iris.devices())['cuda']}")
        clock, device = gpu.Clock(torch), "cuda"
    only = [word for word in sys.argv[1:] if not word.startswith("-")]
    rows: dict[str, dict[str, float]] = {}
    times: list[Time] = []
    for kind, families in (("", FAMILIES), (", held out", HELD_OUT)):
        for family, kernels in report.some(families, "softmax", "products f32").items():
            if only and family not in only:
                continue
            found = [
                of_kernel(name, size, device, clock)
                for name, sizes in kernels
                for size in ([gpu.ROWS[name].small] if report.SHORT else sizes)
            ]
            rows[family + kind] = figures(found)
            times += [time for of_one in found for time in of_one]
            print(family + kind, rows[family + kind], flush=True)
    report.write("model", rows)
    if not report.SHORT:
        text = json.dumps([time._asdict() for time in times], indent=1)
        (report.RESULTS / "model_rows.json").write_text(text + "\n")


class Time(NamedTuple):
    """What a schedule of a kernel would take, and what it takes, in milliseconds."""

    kernel: str
    size: tuple[int, ...]
    schedule: str
    predicted: float
    measured: float


def figures(found: Sequence[Sequence[Time]]) -> dict[str, float]:
    """What is printed of a family, given the times of each kernel."""
    best = [min([time.measured for time in times]) for times in found]
    own = [times[0].measured for times in found]
    first = [min(times, key=lambda time: time.predicted).measured for times in found]
    return {
        "schedules": float(sum(map(len, found))),
        "spearman": spearman([time for times in found for time in times]),
        "one kernel": statistics.median(map(spearman, found)),
        "choice": max([a / b for a, b in zip(own, best, strict=True)]),
        "first": max([a / b for a, b in zip(first, best, strict=True)]),
    }


def of_kernel(
    name: str, size: Sequence[int], device: str, clock: gpu.Clock | None
) -> Sequence[Time]:
    """The time of each schedule of a function; of the compiler's own first."""
    row = gpu.ROWS[name]
    given: list[Any] = [
        iris.asarray(array, device=device)
        if clock is None
        else clock.torch.from_numpy(array).cuda()
        for array in row.make(*size)
    ]
    own = iris.jit(row.function).lower(*given, device=device)
    expected = to_numpy(own.run(*given))
    ways = [own]
    for way in others(own):
        if not gpu.close(to_numpy(way.run(*given)), expected, row.tolerance):
            sys.exit(f"{name}: wrong with {schedules_of(way)}")
        ways.append(way)
    predicted = [sum([milliseconds(kernel, device) for kernel in way.kernels]) for way in ways]
    measured = predicted
    if clock is not None:
        calls = [partial(way.run, *given) for way in ways]
        turns = [[clock.once(call) for call in calls] for _ in range(TURNS)]
        measured = [1e3 * statistics.median(times) for times in zip(*turns, strict=True)]
    schedules = map(schedules_of, ways)
    both = zip(schedules, predicted, measured, strict=True)
    times = [Time(name, tuple(size), *each) for each in both]
    for time in times:
        print(f"{name} {time.size} {time.schedule}: {time.predicted:.4f} {time.measured:.4f}")
    return times


def others(own: ArrayCompilation) -> Iterator[ArrayCompilation]:
    """The same function with other schedules, which its target has room for."""
    draw = random.Random(0)
    seen = {own.fused}
    for _ in range(MOST_DRAWN):
        text = SIMDGROUPS.sub(lambda m: m[1] + str(scaled(int(m[2]), 64, draw)), own.fused)
        text = AXIS.sub(lambda m: m[1] + str(scaled(int(m[2]), 2 * int(m[4]), draw)) + m[3], text)
        if text in seen:
            continue
        seen.add(text)
        try:
            compilation = own.edited(text)
            assert compilation.kernels[0].estimate
        except IrisError:
            continue
        yield compilation
        if len(seen) > SCHEDULES:
            return


def scaled(count: int, most: int, draw: random.Random) -> int:
    """A count, or half or twice as many, if that is less than `most`."""
    wanted = int(count * draw.choice((0.5, 1, 1, 2)))
    return wanted if 1 <= wanted < most else count


def schedules_of(compilation: ArrayCompilation) -> str:
    return "; ".join(re.findall(r"schedule=\[(.*?)\]", compilation.fused))


def milliseconds(kernel: Any, device: str) -> float:
    """What a kernel would take on the target that it is compiled for."""
    target = target_of(select(device))
    return next(on.milliseconds for on in kernel.estimate.chips if on.chip == target)


def to_numpy(result: Any) -> Any:
    return tuple(map(iris.to_numpy, result)) if isinstance(result, tuple) else iris.to_numpy(result)


def spearman(times: Sequence[Time]) -> float:
    """The correlation of the ranks of predicted and measured times; times that are equal share the
    middle of their ranks."""
    columns = np.array([(time.predicted, time.measured) for time in times]).T
    ranks = [(x[:, None] > x).sum(1) + (x[:, None] == x).sum(1) / 2 for x in columns]
    if any(np.ptp(rank) == 0 for rank in ranks):
        return float("nan")
    return float(np.corrcoef(ranks)[0, 1])


if __name__ == "__main__":
    main()
