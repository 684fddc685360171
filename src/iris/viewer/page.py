"""One HTML file with all in it: data as JSON, and the style and the program that show it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from iris.errors import FileError
from iris.version import __version__
from iris.viewer.sources import Sources

#: The files of the program, in order; they share one scope.
PROGRAM = ("model", "lines", "changes", "overview", "machine", "layouts", "panels", "run", "main")


def page(title: str, parts: Sequence[dict[str, Any]], sources: Sources) -> str:
    """The page; each part is the data of a graph or a kernel."""
    named = [part | {"name": name} for part, name in zip(parts, _unique(parts), strict=True)]
    data = {"title": title, "version": __version__, "parts": named, **sources.data()}
    # Within a script element, "</" and "<!--" would mean something to the parser of HTML.
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    text = text.replace("</", "<\\/").replace("<!--", "<\\u0021--")
    program = "\n".join([_file(f"{name}.js") for name in PROGRAM])
    inserted = {
        "TITLE": escape(title),
        "STYLE": _file("page.css"),
        "PROGRAM": program,
        "DATA": text,
    }
    return re.sub(r"{{(\w+)}}", lambda mark: inserted[mark[1]], _file("page.html"))


def _unique(parts: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Their names, numbered where several have one."""
    seen: Counter[str] = Counter()
    for part in parts:
        name = part["name"]
        seen[name] += 1
        yield name if seen[name] == 1 else f"{name} {seen[name]}"


def write_page(path: str | Path, html: str) -> None:
    try:
        Path(path).write_text(html, encoding="utf-8")
    except OSError as error:
        raise FileError(f"cannot write the page {path}: {error.strerror}") from None


def _file(name: str) -> str:
    return (files("iris.viewer") / "page" / name).read_text(encoding="utf-8")
