"""What can watch a pipeline: checks, timing, snapshots; dumps are the compiler's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from iris.ir.core import Module
from iris.passes.manager import Instrument
from iris.passes.pipeline import Pass, Pipeline


class Check(Instrument):
    """Runs a check, such as `iris.ir.verify`, on the input and after every pass."""

    def __init__(self, check: Callable[[Module], None]):
        self.check = check

    def start(self, module: Module, pipeline: Pipeline) -> None:
        self.check(module)

    def after(
        self, position: int, done: Pass, module: Module, seconds: float, counts: Mapping[str, int]
    ) -> None:
        self.check(module)


@dataclass(frozen=True)
class Snapshot:
    """The module after a pass (or the input, of which no pass is the cause)."""

    cause: Pass | None
    module: Module
    seconds: float
    changed: bool
    counts: Mapping[str, int]

    @property
    def name(self) -> str:
        return "input" if self.cause is None else self.cause.name


class Snapshots(Instrument):
    """Keeps the input and the module after every pass."""

    def __init__(self) -> None:
        self.stages: list[Snapshot] = []

    def start(self, module: Module, pipeline: Pipeline) -> None:
        self.stages = [Snapshot(None, module.clone(), 0.0, True, {})]

    def after(
        self, position: int, done: Pass, module: Module, seconds: float, counts: Mapping[str, int]
    ) -> None:
        last = self.stages[-1].module
        changed = module != last
        kept = module.clone() if changed else last
        self.stages.append(Snapshot(done, kept, seconds, changed, counts))


class Timing(Instrument):
    """Collects the time of each pass, and what it counted; `str` gives a table."""

    def __init__(self) -> None:
        self.rows: list[tuple[Pass, float, Mapping[str, int]]] = []

    def after(
        self, position: int, done: Pass, module: Module, seconds: float, counts: Mapping[str, int]
    ) -> None:
        self.rows.append((done, seconds, counts))

    def __str__(self) -> str:
        names = [str(done) for done, _, _ in self.rows]
        width = max([len(name) for name in names] + [5])
        lines = []
        for name, (_, seconds, counts) in zip(names, self.rows, strict=True):
            what = ", ".join(f"{key} {count}" for key, count in sorted(counts.items()))
            lines.append(f"{name:{width}}  {seconds * 1e3:8.3f} ms  {what}".rstrip())
        total = sum(seconds for _, seconds, _ in self.rows)
        lines.append(f"{'total':{width}}  {total * 1e3:8.3f} ms")
        return "\n".join(lines)
