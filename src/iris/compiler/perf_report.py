"""Tables of figures for several sizes and several functions: `triton.testing.perf_report`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Benchmark:
    """What to measure: each row has other sizes, each column another value of `line_arg`. What
    says how a plot looks is accepted, and nothing is plotted."""

    x_names: Sequence[str]
    x_vals: Sequence[Any]
    line_arg: str
    line_vals: Sequence[Any]
    line_names: Sequence[str]
    plot_name: str
    args: Mapping[str, Any] = field(default_factory=dict)
    xlabel: str = ""
    ylabel: str = ""
    x_log: bool = False
    y_log: bool = False
    color: Any = None
    styles: Any = None


@dataclass(frozen=True)
class Report:
    """A function that measures, and what to measure with it."""

    function: Callable[..., Any]
    benchmarks: Sequence[Benchmark]

    def run(
        self,
        show_plots: bool = False,
        print_data: bool = False,
        save_path: str = "",
        return_df: bool = False,
        **named: Any,
    ) -> list[list[tuple[Any, ...]]]:
        """Measure, and give the rows of each table; print them if asked to."""
        tables = [self._rows(one, named) for one in self.benchmarks]
        if print_data:
            for one, rows in zip(self.benchmarks, tables, strict=True):
                print(f"{one.plot_name}:")
                heads = [*one.x_names, *one.line_names]
                for row in ([*heads], *[[f"{x:g}" for x in row] for row in rows]):
                    print("  ".join(x.rjust(len(h)) for x, h in zip(row, heads, strict=True)))
        return tables

    def _rows(self, one: Benchmark, named: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        rows = []
        for x in one.x_vals:
            sizes = x if isinstance(x, (tuple, list)) else [x] * len(one.x_names)
            given = dict(zip(one.x_names, sizes, strict=True)) | dict(one.args) | dict(named)
            measured = [self.function(**given, **{one.line_arg: v}) for v in one.line_vals]
            # Of a middle, a least and a greatest figure the first is shown.
            rows.append((*sizes, *[m[0] if isinstance(m, tuple) else m for m in measured]))
        return rows


def perf_report(
    benchmarks: Benchmark | Sequence[Benchmark],
) -> Callable[[Callable[..., Any]], Report]:
    """Make a report of a function that measures."""
    several = (benchmarks,) if isinstance(benchmarks, Benchmark) else benchmarks
    return lambda function: Report(function, several)
