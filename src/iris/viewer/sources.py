"""The lines of Python that ops come from, with the functions around them."""

from __future__ import annotations

import ast
import linecache
from pathlib import Path
from typing import Any

from iris.ir.core import Location

MARGIN = 2  # lines shown around one that is in no function


class Sources:
    """Numbers the lines that a page links to, and gives the text around them."""

    def __init__(self) -> None:
        self._numbers: dict[Location, int] = {}

    def number(self, location: Location | None) -> int:
        """The number of a line, for `at` of a text; -1 where there is none."""
        if location is None:
            return -1
        return self._numbers.setdefault(location, len(self._numbers))

    def data(self) -> dict[str, Any]:
        """The lines by number, and the text of each file that is there to be read."""
        files = list(dict.fromkeys([place.file for place in self._numbers]))
        order = {file: n for n, file in enumerate(files)}
        places = [[order[place.file], place.line] for place in self._numbers]
        return {"places": places, "files": [self._file(file) for file in files]}

    def _file(self, file: str) -> dict[str, Any]:
        text = linecache.getlines(file)
        used = sorted({place.line for place in self._numbers if place.file == file})
        spans = []
        for first, last in _spans(text, used):
            lines = [line.rstrip("\n") for line in text[first - 1 : last]]
            spans.append({"first": first, "lines": lines})
        return {"name": Path(file).name, "path": file, "spans": spans}


def _spans(text: list[str], used: list[int]) -> list[tuple[int, int]]:
    """What to show of a file, as first and last lines: the functions that lines are in."""
    try:
        tree: ast.AST = ast.parse("".join(text))
    except SyntaxError:  # IR text, say
        tree = ast.Module(body=[], type_ignores=[])
    functions = [
        (min([node.lineno, *[d.lineno for d in node.decorator_list]]), node.end_lineno or 0)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    ]
    wanted = []
    for line in used:
        if line <= len(text):
            around = [span for span in functions if span[0] <= line <= span[1]]
            near = (max(1, line - MARGIN), min(len(text), line + MARGIN))
            wanted.append(min(around, default=near))
    return _joined(sorted(wanted))


def _joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans that overlap or touch, as one."""
    joined: list[tuple[int, int]] = []
    for first, last in spans:
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = joined[-1][0], max(joined[-1][1], last)
        else:
            joined.append((first, last))
    return joined
