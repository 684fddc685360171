"""Plants bugs one at a time, and tabulates what finds each.

    python -m planted                           # all of them: `make planted`
    python -m planted cse/ pipelining/ --seeds 5
    python -m planted --oracles agree,texts --examples 100 --seconds 20

A bug is looked for with the oracles of its level, in turn, and then with all others, until one
fails that does not fail without the bug.  What exits otherwise than it should, or not in time, has
failed, too.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from math import inf
from pathlib import Path
from statistics import median
from typing import NamedTuple

from planted import Bug, bugs
from planted.garden import PACKAGE, Garden
from planted.oracles import ORACLES, ORDER, REST, Result
from support import ROOT

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
    return Result(*json.loads(done.stdout.splitlines()[-1]))


@cache
def false_alarm(oracle: str, seed: int, examples: int) -> float:
    """After how many examples of a hunt an oracle fails on the unchanged compiler."""
    result = hunt(PACKAGE.parent, oracle, seed, Limits(examples, 600, 0))
    return result.examples if result.found else inf


class Find(NamedTuple):
    """What became of a bug, for one seed: which oracle found it, if any did."""

    oracle: str
    result: Result


def search(garden: Garden, oracles: Sequence[str], limits: Limits, bug: Bug, seed: int) -> Find:
    """The find of the first oracle that finds a bug."""
    with garden.planted(bug) as package:
        for oracle in [name for name in (*ORDER[bug.level], *REST[bug.level]) if name in oracles]:
            result = hunt(package, oracle, seed, limits)
            if result.found and result.examples < false_alarm(oracle, seed, limits.examples):
                return Find(oracle, result)
    return Find("", Result(False, 0, 0, ""))


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
        said = found[0].result.message.splitlines()
        line += f" {ops:4g} {causes:24}  {said[0][:80] if said else ''}"
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
    sizes = [first.result.ops for first, *_ in all_finds if first.result.ops]
    named = [r for _, r in found if r.cause]
    lines = [
        f"{len(found)} of {looked} found, {len(quick)} of them within {limits.examples} examples "
        f"and {limits.seconds:g} seconds of an oracle",
        f"{len(named)} name a pass or a part of the compiler",
    ]
    if sizes:
        large = sum(size > 10 for size in sizes)
        lines.append(
            f"{len(sizes)} are shown as programs of {median(sizes):g} ops (median) and at most "
            f"{max(sizes)}; {large} of over 10"
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
    given = parser.parse_args()
    garden, limits = Garden(), Limits(given.examples, given.seconds, given.reduced)
    chosen = [b for b in bugs(given.list) if str(b).startswith(tuple(given.wanted) or "")]
    one = partial(search, garden, given.oracles.split(","))
    seeds = range(given.seed, given.seed + given.seeds)
    unreduced = limits._replace(reduced=0)
    print(f"{'bug':52} found by{'examples':>22}{'seconds':>14}{'ops':>5} guilty")
    all_finds: list[list[Find]] = []
    with ThreadPoolExecutor(given.jobs) as pool:
        pending = [
            [pool.submit(one, limits if s == given.seed else unreduced, b, s) for s in seeds]
            for b in chosen
        ]
        for bug, futures in zip(chosen, pending, strict=True):
            all_finds.append([future.result() for future in futures])
            print(row(bug, all_finds[-1]), flush=True)
    survivors = sum(not all(find.oracle for find in finds) for finds in all_finds)
    print(f"{len(chosen)} bugs, of which {survivors} survive")
    print(summary(chosen, all_finds, limits))
    sys.exit(survivors > 0)


if __name__ == "__main__":
    main()
