"""The list of bugs to plant: every one of them has its place in the package as it is."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections import Counter

import pytest

from planted import Bug, Misplanted, bugs, known, parse
from planted.__main__ import Limits, hunt
from planted.garden import Garden
from planted.oracles import ORDER
from support import ROOT

ROOMS = (
    "masks",
    "folds",
    "cse",
    "licm",
    "split-interior",
    "skip-neutral",
    "recover-blocks",
    "layouts",
    "reductions",
    "scans",
    "conversions",
    "staging",
    "pipelining",
    "barriers",
    "shared-elements",
    "allocation",
    "register-loops",
    "program-order",
    "fragments",
    "expansions",
    "codegen",
    "tiling",
    "fusion",
    "online",
    "schedules",
    "simplify",
    "packing",
    "cache-keys",
    "waits",
    "copies",
    "threads",
)
GARDEN = Garden()


def test_every_room_has_bugs() -> None:
    found = bugs()
    counts = Counter(bug.room for bug in found)
    assert len(found) >= 110
    assert {*ROOMS} <= {*counts}
    assert min(counts.values()) >= 3, counts
    assert len({bug.name for bug in found}) == len(found)


@pytest.mark.parametrize("bug", [*bugs(), *bugs("unseen")], ids=str)
def test_a_bug_has_its_place(bug: Bug) -> None:
    path, text = GARDEN.plant(bug)
    assert ast.dump(ast.parse(bug.before)) != ast.dump(ast.parse(bug.after))
    compile(text, str(path), "exec")


def bug(place: str, before: str, after: str = "pass") -> Bug:
    return Bug("cse", "some", "nothing", place, before, after, "tile")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (bug("_Available.nowhere", "x"), "nothing is called _Available.nowhere"),
        (
            bug("_Available._nested", "self.remember(written)"),
            r"generic/cse.py\) .* occurs 0",
        ),
        (bug("_Available._nested", "self._forget(written)"), "occurs 2 times"),
        (bug("_Available._nested", "self._forget("), "was never closed"),
    ],
)
def test_a_bug_without_a_place(wrong: Bug, message: str) -> None:
    with pytest.raises(Misplanted, match=message):
        GARDEN.plant(wrong)


def test_a_bug_that_is_not_told() -> None:
    with pytest.raises(Misplanted, match="not a bug of a room"):
        list(parse("[cse]\n\nname: slip\nin _key\n- op.attributes\n", "tile"))


@pytest.mark.parametrize(
    ("name", "oracle"),
    [
        ("casts-to-two-types", "passes"),
        ("write-after-read", "agree"),
        ("swizzle-added", "agree"),
        ("function-of-the-padding", "graph-passes"),
        ("fields-without-alignment", "launches"),
    ],
)
def test_a_planted_bug_is_found(name: str, oracle: str) -> None:
    """Five of those that `make planted` plants, each by the oracle of its level."""
    (planted,) = [bug for bug in bugs() if bug.name == name]
    assert oracle in ORDER[planted.level]
    with GARDEN.planted(planted) as package:
        assert hunt(package, oracle, 1, Limits(200, 60, 0)).found


@pytest.mark.parametrize("name", known.names())
def test_the_smallest_program_known_shows_its_bug(name: str) -> None:
    (planted,) = [bug for bug in bugs() if str(bug) == name]
    with GARDEN.planted(planted) as package:
        path = os.pathsep.join([str(package), str(ROOT / "tests")])
        done = subprocess.run(
            [sys.executable, "-m", "planted.known", name],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=True,
        )
    assert done.stdout == "True\n"
    assert not known.shows(name)
