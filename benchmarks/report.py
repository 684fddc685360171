"""What every benchmark prints and writes: a table, and JSON beside it.

With `--short` a benchmark only shows that it works: each thing is done once, of many cases some
are tried, and no JSON is written.
"""

from __future__ import annotations

import json
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

import numpy as np

import iris

RESULTS = Path(__file__).parent / "results"
SHORT = "--short" in sys.argv[1:]

Case = TypeVar("Case")


def times(usual: int) -> int:
    """How often to do what is done so often."""
    return 1 if SHORT else usual


def some(cases: dict[str, Case], *short: str) -> dict[str, Case]:
    """The cases to try: all, or those of a short run."""
    return {name: cases[name] for name in short} if SHORT else cases


def measure(
    run: Callable[[object], object], setup: Callable[[], object] = lambda: None, repeat: int = 20
) -> list[float]:
    """Seconds of each of `repeat` runs, each with what a fresh set-up gave."""
    seconds = []
    for _ in range(times(repeat)):
        given = setup()
        start = time.perf_counter()
        run(given)
        seconds.append(time.perf_counter() - start)
    return seconds


def spread(seconds: list[float], unit: float) -> dict[str, float]:
    """Median, least and most, in a unit."""
    return {
        "median": statistics.median(seconds) / unit,
        "least": min(seconds) / unit,
        "most": max(seconds) / unit,
    }


def show(rows: Mapping[str, Mapping[str, float]]) -> None:
    """Print rows as a table."""
    columns = list(dict.fromkeys(key for row in rows.values() for key in row))
    width = max(map(len, rows))
    print(" " * width, *(f"{c:>10}" for c in columns))
    for label, row in rows.items():
        cells = (f"{row[c]:10.2f}" if c in row else " " * 10 for c in columns)
        print(f"{label:{width}}", *cells)


def write(
    name: str,
    rows: Mapping[str, Mapping[str, float]],
    device: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Print rows as a table and write them to results/NAME.json, with the machine that they are of
    and what is told of its device."""
    show(rows)
    if SHORT:
        return
    RESULTS.mkdir(exist_ok=True)
    machine = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "numpy": np.__version__,
        "iris": iris.__version__,
        **device,
    }
    text = json.dumps({"machine": machine, "rows": rows}, indent=2)
    (RESULTS / f"{name}.json").write_text(text + "\n")
