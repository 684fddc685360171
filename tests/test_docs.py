"""What the guide shows works: its programs run, its IR parses, its list of ops is current."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from types import ModuleType

import pytest

from iris.ir import parse
from support import ROOT

PAGES = sorted((ROOT / "docs").glob("*.md"))
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_the_pages_programs_run(page: object) -> None:
    source = "\n".join(blocks(page.read_text(), "python"))  # type: ignore[attr-defined]
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_pages_ir_parses() -> None:
    shown = [text for page in PAGES for text in blocks(page.read_text(), "iris")]
    assert shown
    for text in shown:
        assert str(parse(text)) == text


def load(file: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location("script", ROOT / file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_list_of_ops_is_current() -> None:
    script = load("docs/make_ops.py")
    assert script.FILE.read_text() == script.reference(), "run python docs/make_ops.py"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda p: p.name)
def test_the_examples_run(example: object) -> None:
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout
