"""Renews the tables of docs/devices.md from the times of a GPU that are kept.

python docs/make_devices.py
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from marked import renewed

ROOT = Path(__file__).parent.parent
FILE = ROOT / "docs/devices.md"
RESULTS = ROOT / "benchmarks/results"
PEERS = {"torch": "torch", "compiled": "torch.compile", "triton": "Triton"}
#: Of the best peer: under the first one a figure is bold, and from the second one on it is as fast.
SLOW, AS_FAST = 0.9, 0.97
#: How far runs of one function usually differ.
USUAL_SPREAD = 0.013
#: How many of a function's sizes, the first ones, count as rows that memory limits; others: one.
FIRST_SIZES = {"softmax": 3}
#: From these on a figure of the cost model is bold.
LEAST_CORRELATION, MOST_TIMES_BEST = 0.8, 1.15

Figures = dict[str, float]


class Rate(NamedTuple):
    """What `gpu.py` measured of a function at one size."""

    function: str
    size: str
    unit: str
    figures: Figures

    @property
    def of_best(self) -> float:
        return self.figures["of best"]

    @property
    def spread(self) -> float:
        return (self.figures["most"] - self.figures["least"]) / self.figures["iris"]

    @property
    def name(self) -> str:
        return f"{self.function} {self.size}"


def kept(name: str) -> tuple[dict[str, str], dict[str, Figures]]:
    """The machine and the rows of one file of results."""
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return found["machine"], found["rows"]


def rates() -> dict[str, list[Rate]]:
    """The rows of `gpu.py`, by function."""
    by_function: dict[str, list[Rate]] = {}
    for label, figures in kept("gpu")[1].items():
        name, _, unit = label.rpartition(", ")
        function, _, size = name.rpartition(" ")
        by_function.setdefault(function, []).append(Rate(function, size, unit, figures))
    return by_function


def page() -> str:
    """The whole page, with its tables renewed."""
    parts = {
        "rates": f"{_machine('gpu')}\n\n{_rates()}\n{_summary()}\n",
        "model": f"{_machine('model')}\n\n{_model()}",
    }
    return renewed(FILE.read_text(encoding="utf-8"), parts)


def _machine(name: str) -> str:
    facts = {what: fact for what, fact in kept(name)[0].items() if what not in ("gpu", "machine")}
    gpu = kept(name)[0]["gpu"]
    return f"Measured on one {gpu}, with {', '.join([f'{k} {v}' for k, v in facts.items()])}."


def _rates() -> str:
    head = ["| | Iris | of the best | ", " | ".join(PEERS.values()), " | |"]
    rows = ["".join(head), "|---|---|---|" + "---|" * len(PEERS) + "---|"]
    for function, sizes in rates().items():
        cells = [
            f"{function} {' · '.join([rate.size for rate in sizes])}",
            " · ".join([_short(rate.figures["iris"]) for rate in sizes]),
            " · ".join([_bold(rate.of_best, rate.of_best < SLOW) for rate in sizes]),
            *[" · ".join([_rate_of(who, rate) for rate in sizes]) for who in PEERS],
            sizes[0].unit,
        ]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def _rate_of(who: str, rate: Rate) -> str:
    """Of a peer that was not there, or was wrong, there is none."""
    return _short(rate.figures[who]) if who in rate.figures else "-"


def _summary() -> str:
    """How many rows are as fast as the best peer, and how far the runs differ."""
    by_memory = list(limited_by_memory())
    slower = [rate for rate in by_memory if rate.of_best < AS_FAST]
    wide = [rate for sizes in rates().values() for rate in sizes if rate.spread >= USUAL_SPREAD]
    first = ", ".join([f"{function} at its first {n}" for function, n in FIRST_SIZES.items()])
    told = [f"{rate.name} reaches {rate.of_best:.3f}" for rate in slower]
    differ = [f"{rate.name} by {rate.spread:.1%}".replace("%", " %") for rate in wide]
    usual = f"{USUAL_SPREAD:.1%}".replace("%", " %")
    return "\n".join(
        [
            f"Bold: under {SLOW} of the best one. Of {len(by_memory)} rows that memory limits "
            f"({first}, the others at their first size), {len(by_memory) - len(slower)} reach",
            f"{AS_FAST} of the best one or more{''.join([f'; {each}' for each in told])}.",
            f"Runs of Iris differ by less than {usual}"
            f"{', but of ' if differ else ''}{' and of '.join(differ)}.",
        ]
    )


def limited_by_memory() -> Iterator[Rate]:
    """One size of each function whose bytes are counted, or its first few."""
    for function, sizes in rates().items():
        if sizes[0].unit == "TB/s":
            yield from sizes[: FIRST_SIZES.get(function, 1)]


def _model() -> str:
    columns = ["schedules", "Spearman", "one kernel", "choice", "first"]
    head = ["", *columns, "held out: schedules", *columns[1:]]
    lines = [f"| {' | '.join(head)} |".replace("|  |", "| |"), "|---|" + "---|" * 2 * len(columns)]
    rows = kept("model")[1]
    for family, figures in rows.items():
        held_out = rows.get(f"{family}, held out")
        if held_out is not None:
            cells = [family, *_of_family(figures), *_of_family(held_out)]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _of_family(figures: Mapping[str, float]) -> Iterable[str]:
    yield f"{figures['schedules']:.0f}"
    yield _bold(figures["spearman"], figures["spearman"] < LEAST_CORRELATION)
    yield f"{figures['one kernel']:.2f}"
    for which in ("choice", "first"):
        yield _bold(figures[which], figures[which] > MOST_TIMES_BEST)


def _bold(figure: float, is_bold: bool) -> str:
    return f"**{figure:.2f}**" if is_bold else f"{figure:.2f}"


def _short(rate: float) -> str:
    """Three digits."""
    return f"{rate:.{2 - (rate >= 10) - (rate >= 100)}f}"


if __name__ == "__main__":
    FILE.write_text(page(), encoding="utf-8")
