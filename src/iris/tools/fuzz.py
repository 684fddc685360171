"""`iris fuzz`: random programs, until something is wrong with one.

    iris fuzz                                   Iris itself, for a minute
    iris fuzz --passes "fold,cse"               that passes keep what programs do
    iris --import mine fuzz --passes my-pass    a pass of your own, in mine.py
    iris fuzz --device softmetal                what a device does with texts and launches
    iris fuzz --level graph --seconds 600       only programs of a level
    iris fuzz --examples 5000 --jobs 8          5000 programs, in 8 processes
    iris fuzz --corpus finds                    goes on where it stopped, and writes there

A failing program is reduced, and written to a file of the corpus with the command that replays it.
Finds that one pass is guilty of are one. What has lately led into rules of passes and
parts of the emitter that nothing had led into before is drawn more often.

The exit status is 0 if nothing was found, 1 if something was, and 2 for wrong usage.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iris.errors import IrisError, SettingError
from iris.ir.core import OPS
from iris.passes import Pipeline
from iris.runtime.devices import select

if TYPE_CHECKING:
    from iris.testing.hunt import Find, Hunted
    from iris.testing.properties import Property

BATCH = 20  # examples
SECONDS = 60.0
STATE = "fuzz.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--level",
        action="append",
        choices=("python", "graph", "tile", "metal", "launches"),
        help="draw programs of this level only; may be given again",
    )
    parser.add_argument(
        "--property", action="append", metavar="NAME", help="look at this only; may be given again"
    )
    parser.add_argument(
        "--passes", metavar="PIPELINE", help="check that these passes change no result"
    )
    parser.add_argument("--device", help="where texts are to run, too")
    parser.add_argument("--seconds", type=float, help=f"for how long (default: {SECONDS:g})")
    parser.add_argument("--examples", type=int, help="how many examples (default: no limit)")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the first batch (default: 0)")
    parser.add_argument(
        "--corpus",
        type=Path,
        default=Path("iris-fuzz"),
        metavar="FOLDER",
        help="where finds go, and how far it came (default: %(default)s)",
    )


def run_command(options: argparse.Namespace) -> int:
    if options.seconds is None and options.examples is None:
        options.seconds = SECONDS
    campaign = Campaign(chosen(options), options.corpus, options.seed)
    said = campaign.start()
    if said:
        print(said)
    # What is drawn ends at once or, where a bug is in its text, never.
    os.environ.setdefault("IRIS_SOFTMETAL_TIMEOUT", "2")
    end = None if options.seconds is None else time.monotonic() + options.seconds
    tell = _Line() if sys.stderr.isatty() else _quiet
    try:
        campaign.run(
            partial(
                ProcessPoolExecutor,
                options.jobs,
                multiprocessing.get_context("spawn"),  # as everywhere: some have no other way
                initializer=_import_all,
                initargs=(options.modules,),
            ),
            workers=options.jobs,
            examples=options.examples,
            end=end,
            tell=tell,
        )
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    print("\n".join(campaign.summary()))
    return 1 if campaign.finds else 0


def _import_all(modules: Sequence[str]) -> None:
    """In each process, what `iris --import` names."""
    for module in modules:
        import_module(module)


def chosen(options: argparse.Namespace) -> list[Property]:
    """The properties that are asked for."""
    try:
        from iris.testing.properties import PROPERTIES, of_passes, of_text
    except ModuleNotFoundError as error:
        raise IrisError(f'{error}; pip install "iris-metal[testing]"') from None
    found = of_passes(options.passes) if options.passes else list(PROPERTIES.values())
    if options.device and options.passes:
        raise SettingError("--passes and --device are not for one run: devices run no passes")
    if options.device:
        found = of_text(options.device, select(options.device).accepts)
    found = _wanted("level", options.level, found, lambda p: p.level)
    return _wanted("property", options.property, found, lambda p: p.name)


def _wanted(
    what: str,
    wanted: Sequence[str] | None,
    properties: Sequence[Property],
    of: Callable[[Property], str],
) -> list[Property]:
    """Those properties that an option names, or all."""
    there = sorted({of(p) for p in properties})
    unknown = sorted({*(wanted or ())} - {*there})
    if unknown:
        raise SettingError(f"there is no {what} {unknown[0]}; there are {', '.join(there)}")
    return [p for p in properties if wanted is None or of(p) in wanted]


@dataclass
class Tally:
    """How far a property has come."""

    batches: int = 0
    examples: int = 0
    seconds: float = 0.0
    fresh: float = 0.0  # how many rules nothing had led into before, lately


@dataclass
class Campaign:
    """Batches of examples of several properties, and what came of them.

        campaign = Campaign(list(PROPERTIES.values()), Path("finds"))
        campaign.run(lambda: client.get_executor(), workers=8, examples=1000)

    Any executor of `concurrent.futures` will do.
    """

    properties: Sequence[Property]
    corpus: Path
    seed: int = 0
    tallies: dict[str, Tally] = field(default_factory=dict)
    ops: set[str] = field(default_factory=set)
    rules: set[str] = field(default_factory=set)
    finds: dict[str, Find] = field(default_factory=dict)
    again: int = 0  # finds of a cause that is known
    paths: list[Path] = field(default_factory=list)

    def start(self) -> str:
        """Goes on where a run with the same corpus and seed has stopped; says so."""
        self.tallies = {p.name: Tally() for p in self.properties}
        try:
            before = json.loads((self.corpus / STATE).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return ""
        except (OSError, ValueError) as error:
            raise SettingError(f"{self.corpus / STATE} cannot be read: {error}") from None
        for name, batches in before.get(str(self.seed), {}).items():
            if name in self.tallies:
                self.tallies[name].batches = batches
        done = sum(tally.batches for tally in self.tallies.values()) * BATCH
        return f"going on after {done} examples, see {self.corpus / STATE}" if done else ""

    def run(
        self,
        make_executor: Callable[[], Executor],
        *,
        workers: int,
        examples: int | None = None,
        end: float | None = None,
        tell: Callable[[Campaign], object] = lambda campaign: None,
    ) -> None:
        """Run batches until a number of examples is reached, or until a time."""
        from iris.testing.hunt import hunt

        if not self.tallies:
            self.start()
        executor = make_executor()
        pending: dict[Future[Hunted], tuple[Property, int]] = {}
        asked = 0
        try:
            while True:
                more = end is None or time.monotonic() < end
                while (
                    more and len(pending) < 2 * workers and (examples is None or asked < examples)
                ):
                    property = self._next()
                    tally = self.tallies[property.name]
                    count = BATCH if examples is None else min(BATCH, examples - asked)
                    left = 1e9 if end is None else end - time.monotonic()
                    seed, known = self.seed + tally.batches, frozenset(self.finds)
                    job = executor.submit(hunt, property, seed, count, seconds=left, known=known)
                    pending[job] = property, seed
                    tally.batches += 1
                    asked += count
                if not pending:
                    return
                done, _ = wait(pending, timeout=1, return_when=FIRST_COMPLETED)
                for job in done:
                    property, seed = pending.pop(job)
                    try:
                        self._take(property, seed, job.result())
                    except BrokenProcessPool:
                        self._lost([(property, seed), *pending.values()])
                        pending.clear()
                        executor = make_executor()
                        break
                tell(self)
        finally:
            for job in pending:
                job.cancel()
            executor.shutdown(wait=False)
            self._save()

    def _next(self) -> Property:
        """What has had the least time, for what it has lately led to."""

        def cost(property: Property) -> float:
            tally = self.tallies[property.name]
            waiting = tally.batches * BATCH - tally.examples  # those that are under way
            return (1 + tally.seconds + waiting * 0.05) / (1 + tally.fresh / 100)

        return min(self.properties, key=cost)

    def _take(self, property: Property, seed: int, hunted: Hunted) -> None:
        tally = self.tallies[property.name]
        tally.examples += hunted.examples
        tally.seconds += hunted.seconds
        tally.fresh = tally.fresh / 2 + len(hunted.rules - self.rules)
        self.ops |= hunted.ops
        self.rules |= hunted.rules
        if hunted.find is not None:
            self._keep(property, seed, hunted.find)

    def _keep(self, property: Property, seed: int, find: Find) -> None:
        """Writes down what is found for the first time."""
        if find.cause in self.finds:
            self.again += 1
            return
        self.finds[find.cause] = find
        name = re.sub(r"[^a-z0-9-]+", "-", find.cause.lower()).strip("-")
        path = self.corpus / f"{name}.{'iris' if find.program else 'txt'}"
        head = [f"# found by: {_command(property, seed)}"]
        body = find.message
        if find.program:
            head.append(f"# replay: {_replay(find, path)}")
            head += [f"# {line}".rstrip() for line in find.message.splitlines()[:1]]
            body = find.program
        self.corpus.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join([*head, body, ""]), encoding="utf-8")
        self.paths.append(path)

    def _lost(self, running: Iterable[tuple[Property, int]]) -> None:
        """A process has ended that should not: one of what was running did it."""
        from iris.testing.hunt import Find

        running = list(running)
        lines = [_command(property, seed) for property, seed in running]
        message = "\n".join(["a process ended; one of these should show why:", *lines])
        property, seed = running[0]
        self._keep(property, seed, Find(f"{property.name} crash", message))

    def _save(self) -> None:
        """Writes down how far it came, for the next run."""
        path = self.corpus / STATE
        known: dict[str, Any] = {}
        if path.exists():
            known = json.loads(path.read_text(encoding="utf-8"))
        known.setdefault(str(self.seed), {}).update({n: t.batches for n, t in self.tallies.items()})
        self.corpus.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(known, indent=2) + "\n", encoding="utf-8")

    @property
    def examples(self) -> int:
        return sum(tally.examples for tally in self.tallies.values())

    def status(self) -> str:
        """How far it has come, in a line."""
        seen = len(self.ops & {*OPS})
        return (
            f"{self.examples} examples, {seen} of {len(OPS)} ops, {len(self.rules)} rules, "
            f"{len(self.finds)} found"
        )

    def summary(self) -> list[str]:
        lines = [f"{'property':16} {'examples':>8} {'a second':>9}"]
        for name, tally in self.tallies.items():
            rate = tally.examples / tally.seconds if tally.seconds else 0.0
            lines.append(f"{name:16} {tally.examples:8} {rate:9.1f}")
        lines.append(self.status())
        for path, find in zip(self.paths, self.finds.values(), strict=True):
            first = find.message.splitlines()[0] if find.message else ""
            lines.append(f"{path}: {first}")
        if self.again:
            lines.append(f"{self.again} more of the same causes")
        return lines


def _command(property: Property, seed: int) -> str:
    """What looks at one batch again."""
    parts = ["iris fuzz", property.options, f"--property {property.name}", f"--seed {seed}"]
    return " ".join([part for part in parts if part] + [f"--examples {BATCH} --jobs 1"])


def _replay(find: Find, path: Path) -> str:
    """What shows a find once more."""
    from iris.testing.report import modules_of

    passes = Pipeline.parse(find.pipeline) if find.pipeline else Pipeline()
    parts = ["iris", *[f"--import {name}" for name in modules_of(passes)], "bisect"]
    return " ".join([*parts, *([f'--passes "{passes}"'] if find.pipeline else []), str(path)])


class _Line:
    """A line that is always up to date."""

    def __init__(self) -> None:
        self.start = time.monotonic()

    def __call__(self, campaign: Campaign) -> None:
        rate = campaign.examples / max(time.monotonic() - self.start, 0.1)
        print(f"\r{campaign.status()}, {rate:.0f}/s   ", end="", file=sys.stderr, flush=True)


def _quiet(campaign: Campaign) -> None:
    """Nothing: there is no terminal."""
