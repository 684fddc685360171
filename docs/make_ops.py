"""Writes docs/ops.md, the list of all ops, from their declarations.

python docs/make_ops.py
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from textwrap import dedent

from iris.ir.core import Level, Op
from iris.tools.ops import entry, of_level

ROOT = Path(__file__).parent.parent
FILE = ROOT / "docs/ops.md"
HEAD = """\
# All ops

Made by `python docs/make_ops.py` from the declarations. What stands in `[...]` may be left out;
`...` may stand any number of times. [The IR](ir.md) explains the form. Examples that no op gives of
itself are from the tests.
"""
LONGEST = 12  # lines of an example


def reference() -> str:
    """The whole page."""
    parts = [HEAD]
    for level in (None, *Level):
        ops = [op for op in of_level(level) if op.__module__.startswith("iris.")]
        if ops:
            title = "Shared by all levels" if level is None else f"The {level.value} level"
            parts += [f"## {title}\n", *map(_entry, ops)]
    return "\n".join(parts)


def _entry(op: type[Op]) -> str:
    """An op with an example: its own, else the shortest of the tests."""
    text = entry(op)
    found = [] if "\n```\n" in text else _uses(op.name)
    if not found:
        return text
    example = min(found, key=lambda use: (use.count("\n"), len(use), use))
    head, first, *rest = text.split("\n\n")
    return "\n\n".join([head, first, f"```\n{example}\n```", *rest])


def _uses(name: str) -> list[str]:
    """The places in files of tests where an op stands, with all that is in it."""
    one = rf"^( *)(?:%[^\n{{]* = )?{re.escape(name)}(?![\w.])[^\n]*"
    whole = r"(?<=\{)\n(?:\1 [^\n]*\n|\1\}[^\n]*\{\n)*\1\}[^\n{]*"
    found = []
    for match in re.finditer(rf"{one}(?:{whole}|(?<![{{(])$)", _files(), re.MULTILINE):
        if match[0].count("\n") < LONGEST and "#" not in match[0]:
            found.append(dedent(match[0]))
    return found


@cache
def _files() -> str:
    files = [*sorted((ROOT / "tests/passes").rglob("*.iris"))]
    files += [*sorted((ROOT / "tests/programs").glob("*.iris")), ROOT / "tests/texts.py"]
    return "\n".join([file.read_text(encoding="utf-8") for file in files])


if __name__ == "__main__":
    FILE.write_text(reference(), encoding="utf-8")
