"""What can watch a pipeline: checks, timing, snapshots; dumps are the compiler's."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass

from iris.ir.core import Module, Value
from iris.passes.firings import Firing, Firings
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
    became: Mapping[Value, Value]  # values of the module before, and what they are in this one
    firings: Sequence[Firing]  # of rules

    @property
    def name(self) -> str:
        return "input" if self.cause is None else self.cause.name


class Snapshots(Instrument):
    """Keeps the input and the module after every pass, and the `firings` of rules in each."""

    def __init__(self, firings: Firings | None = None) -> None:
        self._firings = firings or Firings()
        self.stages: list[Snapshot] = []
        self._copies: dict[Value, Value] = {}  # of the values that passes work on, the latest

    def start(self, module: Module, pipeline: Pipeline) -> None:
        self.stages = [Snapshot(None, module.clone(), 0.0, True, {}, {}, ())]
        self._copies = _pairs(module, self.stages[0].module)

    def after(
        self, position: int, done: Pass, module: Module, seconds: float, counts: Mapping[str, int]
    ) -> None:
        last = self.stages[-1].module
        changed = module != last
        kept = module.clone() if changed else last
        copies = _pairs(module, kept)
        now = {old: copies.get(latest(v, copies)) for v, old in self._copies.items()}
        became = {old: new for old, new in now.items() if new is not None}
        fired = self._firings.take()
        self.stages.append(Snapshot(done, kept, seconds, changed, counts, became, fired))
        self._copies = copies


def _pairs(module: Module, copy: Module) -> dict[Value, Value]:
    """The values of a module, each with that of a copy."""
    return dict(zip(module.values(), copy.values(), strict=True))


def latest(value: Value, there: Container[Value]) -> Value:
    """The first of those `there` that a value became; the last that it became, if there is none."""
    seen = {value}
    while value not in there and value.became is not None and value.became not in seen:
        value = value.became
        seen.add(value)
    return value


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
