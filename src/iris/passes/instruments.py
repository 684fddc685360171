"""What can watch a pipeline: checks, timing, snapshots, dumps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from iris.errors import FileError
from iris.ir.control import Func
from iris.ir.core import Level, Module, Value
from iris.ir.text.printer import to_text
from iris.passes.firings import Firing, Firings
from iris.passes.manager import Instrument, replay_command
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


class Dump(Instrument):
    """Writes numbered files, `00-input.iris`, `01-cse.iris`, ..., in a folder per module.

    Each starts with the command that runs the rest of the pipeline from it.  `everything` writes
    after passes that changed nothing, too; `levels` keeps only what is at these levels.
    """

    def __init__(
        self, folder: Path, *, everything: bool = False, levels: Collection[Level] = tuple(Level)
    ):
        self.folder = folder
        self.everything = everything
        self.levels = levels
        self.pipeline = Pipeline()
        self.last: str | None = None

    def start(self, module: Module, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.last = None
        self._write(0, "input", module)

    def after(
        self, position: int, done: Pass, module: Module, seconds: float, counts: Mapping[str, int]
    ) -> None:
        self._write(position + 1, done.name, module)

    def _write(self, number: int, name: str, module: Module) -> None:
        functions = [f for f in module if isinstance(f, Func)]
        text = to_text(module, locations=True)
        unchanged = text == self.last
        self.last = text
        if not functions or functions[0].function_level not in self.levels:
            return
        if unchanged and not self.everything:
            return
        folder = self.folder / functions[0].symbol
        file = folder / f"{number:02}-{name}.iris"
        command = replay_command(self.pipeline.after(number), file)
        if number == len(self.pipeline) and functions[0].function_level is Level.METAL:
            command = f"iris emit {file}"
        write_dump(file, f"# {command}\n{text}", first=number == 0)


def write_dump(file: Path, text: str, *, first: bool = False) -> None:
    """Write a file of a dump, in a folder that need not be there; before the first one, what an
    earlier, longer pipeline left is removed, which would mislead."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        for old in file.parent.glob("[0-9][0-9]-*") if first else ():
            old.unlink()
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise FileError(f"cannot write the dump {file}: {error.strerror}") from None
