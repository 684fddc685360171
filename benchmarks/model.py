"""How well the cost model ranks schedules: what it predicts, beside the times of a GPU.

Each kernel is compiled by the schedule that the compiler chooses and by others, drawn at random
around it.  For each family: Spearman's correlation of predicted and measured times over all its
kernels and schedules; the median of that over schedules of one kernel, where the times differ; how
much longer the compiler's choice takes than the best schedule, for the worst of its kernels; and
the same of the schedule that the model ranks first.  Kernels that are held out come apart: nothing
in the model was found with their times.

    python benchmarks/model.py                                   all
    python benchmarks/model.py --held-out softmax norms          what is held out of two families
    python benchmarks/model.py results/model_rows.json           what is not in that file yet
    python benchmarks/model.py --print results/model_rows.json   the table of it, without a GPU

Kernels are compiled by as many processes as there are cores, and timed by one at a time: by the
events of CUDA, schedule by schedule in turns, as in `gpu.py`, with the caches flushed, and the GPU
kept waiting until all has been launched.  `results/model_rows.json` has the times of each kernel as
soon as there are any.  `results/model.json` is kept: the figures of a run of all families.

With `--short` nothing is timed: the kernels are small, and an interpreter shows that all schedules
compute the same.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import re
import statistics
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import AbstractContextManager
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
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
Size = tuple[int, ...]
Families = dict[str, list[tuple[str, list[Size]]]]
Kernel = tuple[str, Size]
# The rows of `gpu.py` by family, with sizes that `gpu.py` does not time.
FAMILIES: Families = {
    "elementwise": [
        (
            "add",
            [(1 << 24,), (5_000_000,), (12_000_000,), (40_000_000,), (9_000_000,), (30_000_000,)],
        ),
        (
            "gelu",
            [(3_000_000,), (1 << 23,), (6_000_000,), (1 << 25,), (4_500_000,), (15_000_000,)],
        ),
        ("rope f16", [(32, 2048, 128), (16, 3072, 128), (40, 1024, 64)]),
    ],
    "softmax": [
        (
            "softmax",
            [
                *[(6000, 1000), (3000, 6000), (1000, 20000), (12000, 700), (2500, 4000)],
                *[(600, 16000), (9000, 900), (4500, 2500), (1800, 7000), (800, 12000)],
            ],
        )
    ],
    "norms": [
        (
            "layernorm",
            [
                *[(6000, 2048), (2000, 10000), (10000, 1200), (3000, 5000)],
                *[(7000, 1600), (1200, 14000)],
            ],
        ),
        ("rmsnorm f16", [(8000, 1500), (5000, 3000), (1500, 12000), (12000, 1000)]),
        ("normalise, gelu, residual", [(4000, 3000)]),
    ],
    "reductions": [
        ("row sum", [(8000, 3000), (20000, 1000)]),
        ("column sum", [(5000, 3000), (3000, 8000)]),
        ("argmax", [(4000, 8000), (10000, 2500)]),
        ("cross-entropy", [(2000, 10000), (3000, 16000), (8000, 4000)]),
    ],
    "scans": [
        (
            "cumsum",
            [
                *[(8000, 2000), (3000, 9000), (20000, 600), (6000, 4000), (1500, 16000)],
                *[(14000, 1100), (2200, 11000), (4500, 5500)],
            ],
        )
    ],
    "transposes": [("transpose", [(4000, 6000), (3000, 3000), (2000, 5000), (7000, 3000)])],
    "products f16": [("matmul f16", [(1024,), (1536,), (2560,), (3072,)])],
    "products f32": [
        ("matmul f32", [(1024,), (1536,), (2048,), (2560,), (1280,), (1792,), (2304,)]),
    ],
    "attention": [
        ("attention f16", [(16, 2048, 64), (48, 1024, 64), (24, 1024, 128), (8, 4096, 64)])
    ],
}
HELD_OUT: Families = {
    "elementwise": [
        ("add", [(7_000_000,), (22_000_000,)]),
        ("gelu", [(10_500_000,), (24_000_000,)]),
        ("rope f16", [(24, 2560, 128), (48, 1536, 64)]),
    ],
    "softmax": [
        ("softmax", [(11000, 600), (5000, 1800), (2200, 5500), (1200, 14000), (400, 24000)])
    ],
    "norms": [
        ("layernorm", [(4000, 3500), (1300, 9000)]),
        ("rmsnorm f16", [(2500, 7000), (6500, 2200)]),
        ("normalise, gelu, residual", [(9000, 1500), (2000, 6500)]),
    ],
    "reductions": [
        ("row sum", [(12000, 1800)]),
        ("column sum", [(7000, 2200)]),
        ("argmax", [(6000, 5000)]),
        ("cross-entropy", [(1500, 24000), (5000, 6000)]),
    ],
    "scans": [
        ("cumsum", [(16000, 800), (10000, 1500), (7000, 3000), (2600, 7500), (1800, 13000)]),
    ],
    "transposes": [("transpose", [(1500, 4500), (6500, 2800), (5000, 9000)])],
    "products f16": [("matmul f16", [(1280,), (2304,)])],
    "products f32": [
        ("matmul f32", [(1152,), (1408,), (1664,), (1920,), (2176,), (2816,), (3328,)])
    ],
    "attention": [("attention f16", [(12, 2048, 128), (32, 1536, 64), (20, 2560, 64)])],
}
AXIS = re.compile(r"(\w+: \w+ )(\d+)( of (\d+))")
SIMDGROUPS = re.compile(r"(simdgroups: )(\d+)")


def main() -> None:
    words = [word for word in sys.argv[1:] if not word.startswith("-")]
    files = [Path(word) for word in words if word.endswith(".json")]
    names = {word for word in words if not word.endswith(".json")}
    families = families_of(names)
    found = {kernel: times for path in files for kernel, times in read(path).items()}
    failed = []
    is_timed = "--print" not in sys.argv
    if is_timed:
        wanted = dict.fromkeys([kernel for kernels in families.values() for kernel in kernels])
        for kernel, times in measured([kernel for kernel in wanted if kernel not in found]):
            if times:
                found[kernel] = times
                show(times)
                write(found)
            else:
                failed.append(kernel)
    timed = {name: [found[k] for k in kernels if k in found] for name, kernels in families.items()}
    rows = {name: figures(times) for name, times in timed.items() if times}
    if not is_timed or names or "--held-out" in sys.argv:
        report.show(rows)  # what is kept is of a whole run
    else:
        report.write("model", rows, versions_here())
    if failed:
        sys.exit(f"not timed: {failed}")


def versions_here() -> dict[str, str]:
    """What is kept of the GPU and the software, where there is one."""
    if report.SHORT:
        return {}
    import torch

    return gpu.versions(torch)


def families_of(names: Collection[str]) -> dict[str, list[Kernel]]:
    """The kernels of the families that are asked for, or of all."""
    kinds = {"": FAMILIES, ", held out": HELD_OUT}
    if "--held-out" in sys.argv:
        del kinds[""]
    return {
        family + kind: [
            (name, size)
            for name, sizes in rows
            for size in ([gpu.ROWS[name].small] if report.SHORT else sizes)
        ]
        for kind, families in kinds.items()
        for family, rows in report.some(families, "softmax", "products f32").items()
        if family in names or not names
    }


def read(path: Path) -> dict[Kernel, list[Time]]:
    """The times that an earlier run wrote, by kernel; of the compiler's own schedule first."""
    found: dict[Kernel, list[Time]] = {}
    for row in json.loads(path.read_text()):
        time = Time(**{**row, "size": tuple(row["size"])})
        found.setdefault((time.kernel, time.size), []).append(time)
    return found


def show(times: Sequence[Time]) -> None:
    for time in times:
        what = f"{time.kernel} {time.size} {time.schedule}"
        print(f"{what}: {time.predicted:.4f} {time.measured:.4f}", flush=True)


def write(found: dict[Kernel, list[Time]]) -> None:
    """Write all times so far; a run that is cut short leaves a file that is whole."""
    if report.SHORT:
        return
    rows = [time._asdict() for times in found.values() for time in times]
    report.RESULTS.mkdir(exist_ok=True)
    begun = report.RESULTS / "model_rows.begun"
    begun.write_text(json.dumps(rows, indent=1) + "\n")
    begun.replace(report.RESULTS / "model_rows.json")


def measured(kernels: Iterable[Kernel]) -> Iterator[tuple[Kernel, list[Time]]]:
    """The times of each kernel, in the order in which they come; none of one that is wrong."""
    if not report.SHORT:
        if find_spec("torch") is None:
            sys.exit("install torch to time kernels; or run with --short")
        if (missing := dict(iris.devices())["cuda"]) is not None:
            sys.exit(f"the device cuda is not here: {missing}")
    # Processes that are forked cannot use a GPU that was open before.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch"])
    with context.Manager() as manager, ProcessPoolExecutor(os.cpu_count(), context) as pool:
        turn = manager.Lock()
        kernel_of = {pool.submit(of_kernel, *kernel, turn): kernel for kernel in kernels}
        for done in as_completed(kernel_of):
            error = done.exception()
            if error is not None:
                print(f"{kernel_of[done]}: {type(error).__name__}: {error}", flush=True)
            yield kernel_of[done], [] if error is not None else done.result()


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


@cache
def clock() -> gpu.Clock | None:
    """That of the GPU, which this opens; None where nothing is timed."""
    if report.SHORT:
        return None
    import torch

    select("cuda")
    return gpu.Clock(torch)


def of_kernel(name: str, size: Size, turn: AbstractContextManager[Any]) -> list[Time]:
    """The time of each schedule of a function; of the compiler's own first.  The GPU is used in
    turn."""
    row = gpu.ROWS[name]
    arrays = row.make(*size)
    with turn:
        on = clock()
        device = "interp" if on is None else "cuda"
        given = [
            iris.asarray(array, device=device) if on is None else on.torch.from_numpy(array).cuda()
            for array in arrays
        ]
    own = iris.jit(row.function).lower(*given, device=device)
    ways = [own, *others(own, device)]
    predicted = [sum([milliseconds(kernel, device) for kernel in way.kernels]) for way in ways]
    schedules = list(map(schedules_of, ways))
    with turn:
        expected = results_of(own, given, on)
        for way in ways[1:]:
            if not gpu.close(results_of(way, given, on), expected, row.tolerance):
                raise RuntimeError(f"{name}: wrong with {schedules_of(way)}")
        taken = predicted
        if on is not None:
            calls = [partial(way.run, *given) for way in ways]
            turns = [[on.once(call) for call in calls] for _ in range(TURNS)]
            taken = [1e3 * statistics.median(times) for times in zip(*turns, strict=True)]
    both = zip(schedules, predicted, taken, strict=True)
    return [Time(name, size, *each) for each in both]


def results_of(way: ArrayCompilation, given: Sequence[Any], on: gpu.Clock | None) -> Any:
    """The results, where they can be compared fast."""
    found = way.run(*given)
    results = found if isinstance(found, tuple) else (found,)
    return tuple(map(iris.to_numpy if on is None else on.torch.from_dlpack, results))


def others(own: ArrayCompilation, device: str) -> Iterator[ArrayCompilation]:
    """The same function with other schedules, which its target has room for; compiled."""
    draw = random.Random(0)
    seen = {own.fused}
    own._program.compiled(select(device))
    for _ in range(MOST_DRAWN):
        text = SIMDGROUPS.sub(lambda m: m[1] + str(scaled(int(m[2]), 64, draw)), own.fused)
        text = AXIS.sub(lambda m: m[1] + str(scaled(int(m[2]), 2 * int(m[4]), draw)) + m[3], text)
        if text in seen:
            continue
        seen.add(text)
        try:
            compilation = own.edited(text)
            assert compilation.kernels[0].estimate
            compilation._program.compiled(select(device))
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
