"""Writes docs/ops.md, the list of all ops, from their declarations.

python docs/make_ops.py
"""

from __future__ import annotations

from pathlib import Path

from iris.ir.core import Level
from iris.tools.ops import entry, of_level

FILE = Path(__file__).parent / "ops.md"
HEAD = """\
# All ops

Made from the declarations by `python docs/make_ops.py`. What stands in `[...]` may be left out;
`...` may stand any number of times. [The IR](ir.md) explains the form.
"""


def reference() -> str:
    """The whole page."""
    parts = [HEAD]
    for level in (None, *Level):
        ops = [op for op in of_level(level) if op.__module__.startswith("iris.")]
        if ops:
            title = "Shared by all levels" if level is None else f"The {level.value} level"
            parts += [f"## {title}\n", *map(entry, ops)]
    return "\n".join(parts)


if __name__ == "__main__":
    FILE.write_text(reference(), encoding="utf-8")
