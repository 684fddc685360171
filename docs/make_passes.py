"""Writes docs/passes.md, the list of all passes, from their docstrings and the files of tests.

python docs/make_passes.py
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path
from textwrap import dedent

from iris.passes import PASSES, Pass
from iris.passes.pipeline import kebab
from iris.tools.ir_cases import Case, cases
from iris.tools.passes import PIPELINES, default_text, level_word

ROOT = Path(__file__).parent.parent
FILE = ROOT / "docs/passes.md"
LONGEST = 36  # lines of an example
INDENTED = re.compile(r"^    .*(?:\n+    .*)*", re.MULTILINE)
HEAD = """\
# All passes

Made by `python docs/make_passes.py` from what passes say of themselves, and from the files that
test them, in [`tests/passes`](../tests/passes). `iris opt --passes cse,dce kernel.iris` runs some.
[The IR](ir.md) explains the text, [writing a pass](write-a-pass.md) how to add one.
"""


def reference() -> str:
    """The whole page: the passes in the order in which a kernel meets them."""
    order = [done.name for pipeline in PIPELINES.values() for done in pipeline]
    own = [name for name, cls in PASSES.items() if cls.__module__.startswith("iris.passes.")]
    names = [*dict.fromkeys(name for name in order if name in own)]
    parts = [HEAD]
    for title, group in (
        ("In the pipelines", names),
        ("On demand", sorted({*own} - {*names})),
    ):
        parts += [f"## {title}\n", *[entry(PASSES[name]) for name in group]]
    return "\n".join(parts)


def entry(cls: type[Pass]) -> str:
    """What a pass says of itself, its options, and the shortest example of its tests."""
    parts = [f"### {cls.name}", f"Level: {level_word(cls)}."]
    parts.append(re.sub(INDENTED, _fenced, inspect.getdoc(cls) or ""))
    options = [f"`{kebab(f.name)}={default_text(f)}`" for f in dataclasses.fields(cls)]
    if options:
        parts.append(f"Options: {', '.join(options)}.")
    example = _example(cls.name)
    if example is not None:
        parts += [f"{_title(example)}:", _shown(example.before), "becomes", _shown(example.after)]
    return "\n\n".join(parts) + "\n"


def _example(name: str) -> Case | None:
    """The shortest case that a test has for a pass alone."""
    command = re.compile(rf"opt --passes \"?{name}(?:{{[^}}]*}})?\"?")
    found = [
        case
        for file in sorted((ROOT / "tests/passes").rglob(f"{name}.iris"))
        for case in cases(file.read_text(encoding="utf-8"))
        if command.fullmatch(case.command)
        and _title(case)
        and not case.after.startswith("iris: ")
        and _ir(case.before) != _ir(case.after)
    ]
    lengths = [len(f"{_ir(c.before)}\n{_ir(c.after)}".splitlines()) for c in found]
    if not found or min(lengths) > LONGEST:
        return None
    return found[lengths.index(min(lengths))]


def _title(case: Case) -> str:
    """The first sentence of the comments above the IR."""
    lines = [line[2:] for line in case.before.splitlines() if line.startswith("# ")]
    text = " ".join([line for line in lines if not line.startswith("run: ")])
    return text.partition(". ")[0].rstrip(".:")


def _fenced(block: re.Match[str]) -> str:
    return f"```\n{dedent(block[0])}\n```"


def _shown(text: str) -> str:
    return f"```\n{_ir(text)}\n```"


def _ir(text: str) -> str:
    """IR without the comments above it."""
    return re.sub(r"\A(?:#[^\n]*\n|\n)*", "", text)


if __name__ == "__main__":
    FILE.write_text(reference(), encoding="utf-8")
