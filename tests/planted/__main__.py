"""Plants bugs one at a time, and tabulates what finds each.

    python -m planted                           # all of them: `make planted`
    python -m planted cse/ pipelining/ --seeds 5
    python -m planted --seeds 5 --notes found.jsonl     # goes on where the last run stopped
    python -m planted --seeds 5 --notes found.jsonl --again     # what an older compiler left, too
    python -m planted cse/ --notes found.jsonl --again     # with one seed: finds with others stay
    python -m planted --oracles agree,texts --examples 100 --seconds 20

A bug is looked for with the oracles of its level, in turn, until one fails that does not fail
without the bug; one that survives these with every seed is looked for with all others.  What exits
otherwise than it should, or not in time, has failed, too.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from math import inf
from pathlib import Path
from statistics import median
from typing import NamedTuple

from planted import Bug, bugs, known
from planted.garden import PACKAGE, Garden
from planted.oracles import ORACLES, ORDER, REST, Result
from support import ROOT

LINE = 80  # characters of what was said
LARGE = 10  # ops, over which a program is compared with the smallest one known
GRACE = 30  # seconds beyond those that an oracle has, before it is taken to hang


class Limits(NamedTuple):
    examples: int
    seconds: float
    reduced: float


def hunt(package: Path, oracle: str, seed: int, limits: Limits) -> Result:
    """What an oracle says of the package in a folder."""
    options = [f"--{name}={value}" for name, value in limits._asdict().items()]
    path = os.pathsep.join([str(package), str(ROOT / "tests")])
    try:
        done = subprocess.run(
            [sys.executable, "-m", "planted.oracles", oracle, f"--seed={seed}", *options],
            env={**os.environ, "PYTHONPATH": path, "IRIS_SOFTMETAL_TIMEOUT": "1"},
            capture_output=True,
            text=True,
            timeout=limits.seconds + limits.reduced + GRACE,
        )
    except subprocess.TimeoutExpired:
        return Result(True, 0, limits.seconds + GRACE, "it does not end")
    if done.returncode:
        last = (done.stderr.strip() or "nothing").splitlines()[-1]
        return Result(True, 0, 0, f"it exits with {done.returncode}: {last}")
    result = Result(*json.loads(done.stdout.splitlines()[-1]))
    return result._replace(message=result.message.partition("\n")[0][:LINE])


@dataclass
class Alarm:
    """What hunts in the unchanged compiler found, with one oracle and seed."""

    clean: int = 0  # the most examples that a hunt tried
    fails: float = inf  # the number of the first example that failed

    def before(self, oracle: str, seed: int, examples: int) -> bool:
        """Whether an oracle fails on the unchanged compiler within a number of examples.

        Several bugs may ask at once: hunting twice is shorter than waiting for each other.
        """
        if examples > self.clean and self.fails == inf:
            result = hunt(PACKAGE.parent, oracle, seed, Limits(examples, 600, 0))
            self.clean = max(self.clean, examples)
            self.fails = min(self.fails, result.examples if result.found else inf)
        return self.fails <= examples


ALARMS: defaultdict[tuple[str, int], Alarm] = defaultdict(Alarm)


class Find(NamedTuple):
    """What became of a bug, for one seed: which oracle found it, if any did."""

    oracle: str
    result: Result


def search(
    garden: Garden,
    oracles: Sequence[str],
    limits: Limits,
    seeds: Sequence[int],
    bug: Bug,
    likely: Sequence[str],
) -> list[Find]:
    """For each seed, the find of the first oracle of the bug's level that finds it.

    They are asked in the order given, those that found it with another seed first.  Only what none
    of these finds is looked for with the other oracles, with the first seed.
    """
    with garden.planted(bug) as package:

        def first(names: Sequence[str], seed: int) -> Find:
            here = limits if seed == seeds[0] else limits._replace(reduced=0)
            for oracle in [name for name in names if name in oracles]:
                result = hunt(package, oracle, seed, here)
                if result.found and not ALARMS[oracle, seed].before(oracle, seed, result.examples):
                    return Find(oracle, result)
            return Find("", Result(False, 0, 0, ""))

        finds: list[Find] = []
        for seed in seeds:
            before = {find.oracle for find in finds}
            finds.append(first(sorted(likely, key=lambda o: o not in before), seed))
        if not any(find.oracle for find in finds):
            finds[0] = first(REST[bug.level], seeds[0])
    return finds


def digest() -> str:
    """What tells one state of the compiler from another."""
    files = sorted(PACKAGE.rglob("*.py"))
    return sha256(b"".join([file.read_bytes() for file in files])).hexdigest()[:12]


class Notes:
    """What has been found so far, in a file, so that a run goes on where the last one stopped."""

    def __init__(self, path: Path | None):
        self.path = path
        self.compiler = digest()
        self.known: dict[str, list[Find]] = {}
        self.compilers: dict[str, str] = {}  # the oldest one of each row
        if path is not None and path.exists():
            for line in path.read_text().splitlines():
                bug, finds, compiler = json.loads(line)
                self.known[bug] = [Find(oracle, Result(*result)) for oracle, result in finds]
                self.compilers[bug] = compiler

    @property
    def older(self) -> set[str]:
        """The bugs that were planted in another state of the compiler."""
        return {bug for bug, compiler in self.compilers.items() if compiler != self.compiler}

    def likely(self, bug: Bug) -> list[str]:
        """The oracles of a bug's level: first what found it, then what found most of its room."""
        own = {find.oracle for find in self.known.get(str(bug), ())}
        near = Counter(
            find.oracle
            for name, finds in self.known.items()
            if name.startswith(f"{bug.room}/")
            for find in finds
        )
        return sorted(ORDER[bug.level], key=lambda o: (o not in own, -near[o]))

    def add(self, bug: Bug, finds: list[Find]) -> None:
        """Keeps what became of a bug; finds with other seeds than were looked at stay."""
        kept = self.known.get(str(bug), [])[len(finds) :]
        compiler = self.compilers[str(bug)] if kept else self.compiler
        self.known[str(bug)] = [*finds, *kept]
        self.compilers[str(bug)] = compiler
        if self.path is not None:
            with self.path.open("a") as file:
                print(json.dumps([str(bug), self.known[str(bug)], compiler]), file=file)


def row(bug: Bug, finds: Sequence[Find]) -> str:
    """A line of the table, which ends with what was said first.  The first find is reduced."""
    found = [find for find in finds if find.oracle]
    names = ",".join(dict.fromkeys(find.oracle for find in found))
    counts = [find.result.examples for find in found]
    seconds = [find.result.seconds for find in found]
    line = f"{bug!s:52} {len(found)}/{len(finds)} {names or 'nothing':14}"
    if found:
        line += f" {median(counts):6g} {max(counts):6} {median(seconds):6.1f} {max(seconds):6.1f}"
        ops = finds[0].result.ops
        causes = ",".join(dict.fromkeys(find.result.cause for find in found))
        line += f" {ops:4g} {causes:24}  {found[0].result.message}"
    return line.rstrip()


def summary(bugs: Sequence[Bug], all_finds: Sequence[Sequence[Find]], limits: Limits) -> str:
    """What the table says in all.  Programs of Python and scripts of launches have no ops."""
    found = [
        (bug, find.result)
        for bug, finds in zip(bugs, all_finds, strict=True)
        for find in finds
        if find.oracle
    ]
    looked = sum(map(len, all_finds))
    quick = [r for _, r in found if r.seconds <= limits.seconds]
    sizes = {
        str(bug): first.result.ops
        for bug, (first, *_) in zip(bugs, all_finds, strict=True)
        if first.result.ops
    }
    named = [r for _, r in found if r.cause]
    lines = [
        f"{len(found)} of {looked} found, {len(quick)} of them within {limits.examples} examples "
        f"and {limits.seconds:g} seconds of an oracle",
        f"{len(named)} name a pass or a part of the compiler",
    ]
    if sizes:
        large = [bug for bug, size in sizes.items() if size > LARGE]
        least = {bug: known.smallest(bug) if bug in known.names() else 0 for bug in large}
        larger = sum(sizes[bug] > least[bug] + 2 for bug in large)
        lines.append(
            f"{len(sizes)} are shown as programs of {median(sizes.values()):g} ops (median) and at "
            f"most {max(sizes.values())}; {len(large)} of over {LARGE}, {larger} of these of over "
            "two more than the smallest program known"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m planted")
    parser.add_argument("wanted", nargs="*", help="bugs, by how room/name begins; default: all")
    parser.add_argument("--list", choices=("bugs", "unseen"), default="bugs", help="which bugs")
    parser.add_argument("--oracles", default=",".join(ORACLES))
    parser.add_argument("--examples", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument(
        "--reduced", type=float, default=15, help="seconds to reduce the first seed's find"
    )
    parser.add_argument("--seeds", type=int, default=1, help="how many (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="the first (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--notes", type=Path, help="a file of what has been found so far")
    parser.add_argument(
        "--again", action="store_true", help="also look for what was looked for in older compilers"
    )
    given = parser.parse_args()
    garden, limits = Garden(), Limits(given.examples, given.seconds, given.reduced)
    chosen = [b for b in bugs(given.list) if str(b).startswith(tuple(given.wanted) or "")]
    seeds = range(given.seed, given.seed + given.seeds)
    notes = Notes(given.notes)
    one = partial(search, garden, given.oracles.split(","), limits, seeds)
    done = notes.known.keys() - (notes.older if given.again else ())
    print(f"{'bug':52} found by{'examples':>22}{'seconds':>14}{'ops':>5} guilty")
    with ThreadPoolExecutor(given.jobs) as pool:
        pending = {pool.submit(one, b, notes.likely(b)): b for b in chosen if str(b) not in done}
        for future in as_completed(pending):
            notes.add(pending[future], future.result())
    all_finds = [notes.known[str(bug)] for bug in chosen]
    for bug, finds in zip(chosen, all_finds, strict=True):
        print(row(bug, finds))
    survivors = sum(not any(find.oracle for find in finds) for finds in all_finds)
    older = sum(str(bug) in notes.older for bug in chosen)
    print(f"{survivors} of {len(chosen)} bugs survive; the compiler was another for {older} rows")
    print(summary(chosen, all_finds, limits))
    sys.exit(survivors > 0)


if __name__ == "__main__":
    main()
