"""Bugs as a competent engineer could commit them, each to be planted in a copy of Iris.

    [cse]

    loads-survive-a-branch: what a branch writes is not forgotten after it
    in _Available._nested
    - for inner in op.regions:
    -     self.region(inner)
    - self._forget(written)
    + for inner in op.regions:
    +     self.region(inner)

A bug of the room `cse`: its name, what the engineer got wrong, the function or table, by its name
anywhere in the package, and the code there before and after.  The code is an expression or some
statements, compared without regard to layout and comments; in all that has the name it must occur
once.  So a list of bugs outlives moved modules and reformatted code, and fails loudly where the
code itself has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent


class Misplanted(Exception):
    """A bug that the list does not say rightly, or that the package has no place for."""


@dataclass(frozen=True)
class Bug:
    room: str
    name: str
    slip: str  # what the engineer got wrong
    place: str  # the function, `Class.method` or table
    before: str
    after: str
    level: str  # of the list it is in: what programs are likely to show it

    def __str__(self) -> str:
        return f"{self.room}/{self.name}"


def bugs(folder: str = "bugs") -> list[Bug]:
    """All bugs of the lists in a folder: `bugs`, or `unseen`, to which the kit is not tuned."""
    lists = sorted((HERE / folder).glob("*.txt"))
    return [bug for path in lists for bug in parse(path.read_text(encoding="utf-8"), path.stem)]


def parse(text: str, level: str) -> Iterator[Bug]:
    """The bugs of a list."""
    room = ""
    for paragraph in text.split("\n\n"):
        lines = [line for line in paragraph.splitlines() if not line.startswith("#")]
        if len(lines) == 1 and lines[0].startswith("["):
            room = lines[0].strip("[]")
        elif lines:
            yield _bug(lines, room, level)


def _bug(lines: list[str], room: str, level: str) -> Bug:
    head, place, *code = lines
    name, colon, slip = head.partition(": ")
    before, after = _code(code, "-"), _code(code, "+")
    ordered = [line[0] for line in code] == ["-"] * len(before) + ["+"] * len(after)
    if not (room and colon and place.startswith("in ") and before and after and ordered):
        raise Misplanted(f"not a bug of a room, with `in`, `-` and `+`:\n{chr(10).join(lines)}")
    before_text, after_text = "\n".join(before), "\n".join(after)
    return Bug(room, name, slip, place.removeprefix("in "), before_text, after_text, level)


def _code(lines: Iterable[str], sign: str) -> list[str]:
    return [line[2:] for line in lines if line.startswith(sign)]
