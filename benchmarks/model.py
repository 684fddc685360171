"""How well the cost model ranks schedules: what it predicts, beside the times of a GPU.

Each kernel is compiled by the schedule that the compiler chooses and by others, drawn at random
around it.  For each family: Spearman's correlation of predicted and measured times over all its
kernels and schedules; the median of that over schedules of one kernel, where the times differ; and
how much longer the compiler's choice takes than the best schedule, for the worst of its kernels.

With `--short` nothing is timed: the kernels are small, and an interpreter shows that all schedules
compute the same.
"""

from __future__ import annotations

import random
import re
import statistics
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import gpu
import iris
import report
from iris.compiler.array_compilation import ArrayCompilation
from iris.compiler.compilation import target_of
from iris.errors import IrisError
from iris.runtime.devices import select
from iris.testing import do_bench

SCHEDULES = 12  # of a kernel
MOST_DRAWN = 60  # to find as many: some are illegal, or do not fit
# The rows of `gpu.py` by family, with sizes that `gpu.py` does not time.
FAMILIES: dict[str, list[tuple[str, list[tuple[int, ...]]]]] = {
    "elementwise": [("add", [(1 << 24,), (5_000_000,)]), ("gelu", [(3_000_000,), (1 << 23,)])],
    "softmax": [("softmax", [(6000, 1000), (3000, 6000), (1000, 20000)])],
    "norms": [("layernorm", [(6000, 2048), (2000, 10000)]), ("rmsnorm f16", [(8000, 1500)])],
    "reductions": [
        ("row sum", [(8000, 3000)]),
        ("column sum", [(5000, 3000)]),
        ("argmax", [(4000, 8000)]),
        ("cross-entropy", [(2000, 10000)]),
    ],
    "scans": [("cumsum", [(8000, 2000), (3000, 9000)])],
    "transposes": [("transpose", [(4000, 6000), (3000, 3000)])],
    "products f16": [("matmul f16", [(1024,), (3072,)])],
    "products f32": [("matmul f32", [(1024,), (2048,)])],
    "attention": [("attention f16", [(16, 2048, 64), (48, 1024, 64)])],
}
AXIS = re.compile(r"(\w+: \w+ )(\d+)( of (\d+))")
SIMDGROUPS = re.compile(r"(simdgroups: )(\d+)")


def main() -> None:
    device = "interp" if report.SHORT else "cuda"
    if not report.SHORT and dict(iris.devices())["cuda"] is not None:
        sys.exit(f"the device cuda is not here: {dict(iris.devices())['cuda']}")
    only = [word for word in sys.argv[1:] if not word.startswith("-")]
    rows: dict[str, dict[str, float]] = {}
    for family, kernels in report.some(FAMILIES, "softmax", "products f32").items():
        if only and family not in only:
            continue
        found = [
            of_kernel(name, size, device)
            for name, sizes in kernels
            for size in ([gpu.ROWS[name].small] if report.SHORT else sizes)
        ]
        rows[family] = {
            "schedules": float(sum(len(times) for times in found)),
            "spearman": spearman([pair for times in found for pair in times]),
            "of one kernel": statistics.median([spearman(times) for times in found]),
            "choice": max([times[0][1] / min(took for _, took in times) for times in found]),
        }
        print(family, rows[family], flush=True)
    report.write("model", rows)


def of_kernel(name: str, size: Sequence[int], device: str) -> list[tuple[float, float]]:
    """What each schedule of a function would take and what it takes; the compiler's own first."""
    row = gpu.ROWS[name]
    given = [iris.asarray(array, device=device) for array in row.make(*size)]
    own = iris.jit(row.function).lower(*given, device=device)
    expected = to_numpy(own.run(*given))
    times = []
    for compilation in [own, *others(own)]:
        if not gpu.close(to_numpy(compilation.run(*given)), expected, row.tolerance):
            sys.exit(f"{name}: wrong with {schedules_of(compilation)}")
        predicted = sum([milliseconds(kernel, device) for kernel in compilation.kernels])
        taken = predicted
        if not report.SHORT:

            def launch(way: ArrayCompilation = compilation) -> None:
                way.run(*given)

            taken = do_bench(launch, device=device, warmup=5, rep=20)
        times.append((predicted, taken))
        print(f"{name} {tuple(size)} {schedules_of(compilation)}: {predicted:.4f} {taken:.4f}")
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


def spearman(times: Sequence[tuple[float, float]]) -> float:
    """The correlation of the ranks of predicted and measured times; times that are equal share the
    middle of their ranks."""
    columns = np.array(times).T
    ranks = [(x[:, None] > x).sum(1) + (x[:, None] == x).sum(1) / 2 for x in columns]
    if any(np.ptp(rank) == 0 for rank in ranks):
        return float("nan")
    return float(np.corrcoef(ranks)[0, 1])


if __name__ == "__main__":
    main()
