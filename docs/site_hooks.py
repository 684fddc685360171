"""For MkDocs: pages from outside `docs`, and the files that pages link to, as parts of the site."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
# Where they come from, by what they are called there: a README would be one more index.
PAGES = {"about.md": "README.md", "contributing.md": "CONTRIBUTING.md"}
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\((?!https?:|#)([^()#\s]+)(#[^()\s]*)?\)")


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    for page, source in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """The text of a page with links to where things are in the site."""
    from mkdocs.structure.files import File

    names = {source: page for page, source in PAGES.items()}
    folder = ROOT if page.file.src_uri in PAGES else ROOT / "docs"

    def link(match: re.Match[str]) -> str:
        text, target, heading = match.groups()
        path = Path(os.path.normpath(folder / target))
        inside = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else target
        if path.is_dir():  # the site has no pages of these
            return text
        if not path.is_file():  # no file, or no link: MkDocs tells which
            return match[0]
        if path.is_relative_to(ROOT / "docs"):
            inside = path.relative_to(ROOT / "docs").as_posix()
        elif inside in names:
            inside = names[inside]
        else:
            inside = f"source/{inside}.txt"
            if files.get_file_from_path(inside) is None:
                files.append(File.generated(config, inside, abs_src_path=str(path)))
        return f"[{text}]({inside}{heading or ''})"

    return LINK.sub(link, markdown)
