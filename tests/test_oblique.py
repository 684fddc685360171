"""The check of prose finds phrases where a reader meets them, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

import oblique


def planted(root: Path, page: str = "", module: str = "") -> Path:
    """A small project with one page and one module."""
    for name in ("README.md", "CONTRIBUTING.md"):
        (root / name).write_text("")
    for path, text in ((root / "docs/page.md", page), (root / "src/iris/f.py", module)):
        path.parent.mkdir(parents=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("page", "module", "expected"),
    [
        ("One.\n\nThe least, than\nwhich\n", "", "docs/page.md:3: 'than which': name the thing"),
        ("", '"""Those of others."""', "src/iris/f.py:1: 'Those of': name the thing"),
        (
            "",
            'def f():\n    """So many."""\n',
            "src/iris/f.py:2: 'So many': name the thing",
        ),
        (
            "",
            'def _f(n):\n    raise ValueError(f"{n} is of what?")\n',
            "src/iris/f.py:2: 'of what': name the thing",
        ),
    ],
)
def test_a_planted_phrase_is_found(tmp_path: Path, page: str, module: str, expected: str) -> None:
    assert oblique.complaints(planted(tmp_path, page, module), set()) == [expected]


@pytest.mark.parametrize(
    ("page", "module"),
    [
        ("```\nthose of\n```\nand `what is`\n\n    of which\n", ""),
        ("", 'def _private():\n    """Those of others."""\n'),
        ("", '"""Reads.\n\nThose of others."""\n# so many\nx = "what is"\n'),
    ],
)
def test_code_and_private_words_pass(tmp_path: Path, page: str, module: str) -> None:
    assert oblique.complaints(planted(tmp_path, page, module), set()) == []


def test_a_clean_file_must_leave_the_list(tmp_path: Path) -> None:
    root = planted(tmp_path, module='"""Those of others."""')
    assert oblique.complaints(root, {"src/iris/f.py"}) == []
    (root / "src/iris/f.py").write_text('"""Clean."""')
    assert oblique.complaints(root, {"src/iris/f.py"}) == [
        "src/iris/f.py: is clean; take it off oblique.txt"
    ]
