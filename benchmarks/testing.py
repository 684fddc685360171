"""How many random programs a second the testing kit checks, with two cores and with one.

    python benchmarks/testing.py [--short]

Programs are those that `programs.tile()` and `programs.graph()` draw by default: what is counted
includes drawing them.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

from hypothesis import strategies as st

from iris.testing import agree, preserves, programs
from iris.testing.hunt import hunt
from iris.testing.properties import Property
from report import SHORT, spread, times, write

BATCH = 1 if SHORT else 100
CORES = 2
REPEAT = 5


def each(check: Callable[[Any], object], drawn: Sequence[Any], seconds: float) -> None:
    for program in drawn:
        check(program)


def property_of(
    draw: Callable[[], st.SearchStrategy[Any]], check: Callable[[Any], object]
) -> Property:
    return Property("measured", "", draw, partial(each, check))


CASES = {
    "preserves, tile": property_of(programs.tile, partial(preserves, "cse")),
    "preserves, graph": property_of(programs.graph, partial(preserves, "cse")),
    "agree, tile": property_of(programs.tile, agree),
}


def rates(pool: ProcessPoolExecutor, cores: int, case: Property, seed: int) -> float:
    """Programs a second, all cores together."""
    start = time.perf_counter()
    seeds = range(seed, seed + cores)
    jobs = [pool.submit(hunt, case, number, BATCH, watched=False) for number in seeds]
    done = sum(job.result().examples for job in jobs)
    return done / (time.perf_counter() - start)


def main() -> None:
    rows = {}
    with ProcessPoolExecutor(CORES, multiprocessing.get_context("spawn")) as pool:
        for name, case in CASES.items():
            rates(pool, CORES, case, 0)  # which imports everything
            for cores in (1, CORES):
                found = [rates(pool, cores, case, 10 + n * CORES) for n in range(times(REPEAT))]
                rows[f"{name}, {cores} cores [programs/s]"] = spread(found, 1.0)
    write("testing", rows)


if __name__ == "__main__":
    main()
