"""The smallest programs known that show some bugs, written by hand: a file of `smallest` for each.

    python -m planted.known allocation/below-the-first-that-fits

prints whether the bug's oracle fails of its program, in the package that is on the path.  A line on
top of a file names the oracle, and what it is asked with besides the program.
"""

from __future__ import annotations

import re
import sys

from iris.passes import Pipeline
from iris.tools.replay import Program
from planted import HERE
from planted.oracles import ORACLES, size

SMALLEST = HERE / "smallest"


def names() -> list[str]:
    """The bugs that there are such programs of."""
    return sorted(str(p.relative_to(SMALLEST).with_suffix("")) for p in SMALLEST.rglob("*.iris"))


def smallest(bug: str) -> int:
    """How many ops of the smallest program known compute something."""
    return size(_text(bug))


def shows(bug: str) -> bool:
    """Whether a bug's oracle fails of the smallest program known."""
    text = _text(bug)
    line = re.match(r"# oracle: (\S+) ?(.*)\n", text)
    assert line is not None, f"the first line of {bug}.iris does not name an oracle"
    oracle, other = line.groups()
    program = Program.parse(text)
    read = int if other.isdigit() else Pipeline.parse
    drawn = (program, read(other)) if other else program
    try:
        ORACLES[oracle].holds([drawn], 0.0)
    except AssertionError:
        return True
    return False


def _text(bug: str) -> str:
    return (SMALLEST / f"{bug}.iris").read_text(encoding="utf-8")


if __name__ == "__main__":
    print(shows(sys.argv[1]))
