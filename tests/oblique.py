"""Refuses phrases that stand where a noun is missing, such as "of which": name the thing instead.

python tests/oblique.py

It reads the prose of the docs, the messages of raised errors, and the first paragraph of the
docstrings of modules, classes and public functions.  Docstrings of the files in `oblique.txt` are
not clean yet.  A file that is clean must leave that list.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NOT_YET = Path(__file__).with_suffix(".txt")
PHRASES = re.compile(
    r"\b(of\s+which|than\s+which|those\s+of|so\s+many|what\s+is|of\s+what)\b", re.I
)
CODE = re.compile(r"^```.*?^```|`[^`\n]*`|^    .*?$", re.MULTILINE | re.DOTALL)


def phrases_in(text: str, line: int) -> Iterator[tuple[int, str]]:
    """Each phrase in a text that starts at a line."""
    for found in PHRASES.finditer(text):
        yield line + text.count("\n", 0, found.start()), " ".join(found[0].split())


def in_page(text: str) -> list[tuple[int, str]]:
    """The phrases in the prose of a page, with their lines."""
    prose = CODE.sub(lambda code: "\n" * code[0].count("\n"), text)
    return list(phrases_in(prose, 1))


def in_messages(tree: ast.Module) -> list[tuple[int, str]]:
    """The phrases in the strings of `raise` statements."""
    return [
        found
        for node in ast.walk(tree)
        if isinstance(node, ast.Raise)
        for part in ast.walk(node)
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
        for found in phrases_in(part.value, part.lineno)
    ]


def in_docstrings(tree: ast.Module) -> list[tuple[int, str]]:
    """The phrases in the first paragraphs of docstrings that a user of the module reads."""
    found: list[tuple[int, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            private = isinstance(node, ast.FunctionDef) and node.name.startswith("_")
            text = ast.get_docstring(node, clean=False)
            if text is not None and not private:
                found += phrases_in(text.partition("\n\n")[0], node.body[0].lineno)
    return found


def complaints(root: Path, not_yet: set[str]) -> list[str]:
    """A line for each phrase, and for each file that must leave the list."""
    said = []
    for page in [root / "README.md", root / "CONTRIBUTING.md", *root.glob("docs/*.md")]:
        said += _lines(root, page, in_page(page.read_text(encoding="utf-8")))
    waiting = set(not_yet)
    for path in root.glob("src/**/*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        said += _lines(root, path, in_messages(tree))
        oblique = in_docstrings(tree)
        name = path.relative_to(root).as_posix()
        if name not in not_yet:
            said += _lines(root, path, oblique)
        elif oblique:
            waiting.discard(name)
    said += [f"{name}: is clean; take it off {NOT_YET.name}" for name in waiting]
    return sorted(said)


def _lines(root: Path, path: Path, found: list[tuple[int, str]]) -> list[str]:
    name = path.relative_to(root).as_posix()
    return [f"{name}:{line}: {phrase!r}: name the thing" for line, phrase in found]


if __name__ == "__main__":
    wrong = complaints(ROOT, set(NOT_YET.read_text(encoding="utf-8").split()))
    print(*wrong, sep="\n", end="\n" if wrong else "")
    sys.exit(bool(wrong))
