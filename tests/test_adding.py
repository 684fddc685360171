"""docs/adding.md is complete: with the changes of a section, made to a copy of Iris, it works."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from iris.runtime.devices import devices
from support import ROOT, copy_package

PAGE = (ROOT / "docs" / "adding.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
STEP = re.compile(
    r"^(?:A run now ends with `(?P<says>[^`\n]+)`\."
    r"|(?:In `(?P<path>[^`\n]+)`, before `(?P<line>[^`\n]+)`"
    r"|Write `(?P<new>[^`\n]+)`"
    r"|(?P<run>Run:))\n\n"
    r"```py\n(?P<code>.*?)^```)$",
    re.MULTILINE | re.DOTALL,
)


def inserted(text: str, line: str, code: str) -> str:
    lines = text.splitlines(keepends=True)
    places = [n for n, one in enumerate(lines) if one.rstrip("\n") == line]
    assert len(places) >= 1, f"no line is {line!r}"
    lines.insert(places[0], code)
    return "".join(lines)


@pytest.mark.parametrize("title", SECTIONS)
def test_a_section_is_complete(title: str, tmp_path: Path) -> None:
    copy_package(ROOT / "src" / "iris", tmp_path / "src")
    steps = list(STEP.finditer(SECTIONS[title]))
    assert [step for step in steps if step["run"]] == steps[-1:], "it ends with what runs"
    for step in steps[:-1]:
        if step["says"]:
            done = run(steps[-1]["code"], tmp_path)
            assert done.returncode and step["says"] in done.stderr, done.stderr
            continue
        path = tmp_path / (step["path"] or step["new"])
        if step["new"]:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(step["code"], encoding="utf-8")
        else:
            text = path.read_text(encoding="utf-8")
            path.write_text(inserted(text, step["line"], step["code"]), encoding="utf-8")
    done = run(steps[-1]["code"], tmp_path)
    assert done.returncode == 0, done.stderr


def run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program on the copy of Iris in a folder."""
    missing = {device.name: device.missing for device in devices()}
    metal = "metal" if sys.platform == "darwin" else "softmetal"
    device = "interp:metal" if missing[metal] else metal
    script = folder / "run.py"
    script.write_text(f"DEVICE = {device!r}\n{code}", encoding="utf-8")
    return subprocess.run(
        [sys.executable, script],
        cwd=folder,
        env={**os.environ, "CI": "1", "PYTHONPATH": f"{folder / 'src'}{os.pathsep}{folder}"},
        capture_output=True,
        text=True,
    )


def test_every_fence_is_a_step() -> None:
    steps = [step for text in SECTIONS.values() for step in STEP.finditer(text)]
    assert PAGE.count("```py\n") == sum(step["code"] is not None for step in steps)
    assert PAGE.count("A run now ends with") == sum(step["says"] is not None for step in steps)
