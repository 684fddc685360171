"""Small checks that keep the folder and what it says about itself in step."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from support import OF_LINUX, ROOT

TARGETS = (
    "help",
    "demo",
    "test",
    "lint",
    "docs",
    "bench",
    "campaign",
    "gpu",
    "sanitize",
    "planted",
    "texts",
    "strict",
    "doctor",
    "metal",
    "wheel",
    "foreign",
    "zoo",
    "softmetal",
    "chromium",
    "clean",
)


def test_a_mac_leaves_out_what_imports_nvidias_packages() -> None:
    """A file that is skipped there would fail `make metal` with IRIS_TEST_ALL=1."""
    imports = re.compile(r'^pytest\.importorskip\("cuda', re.M)
    files = (ROOT / "tests").rglob("test_*.py")
    importing = [path for path in files if imports.search(path.read_text(encoding="utf-8"))]
    assert sorted(importing) == sorted(ROOT / "tests" / name for name in OF_LINUX)


def test_make_help_lists_every_target() -> None:
    # Without the flags of the `make` that runs the tests.
    env = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    run = subprocess.run(["make"], cwd=ROOT, env=env, check=True, capture_output=True, text=True)
    assert tuple(re.findall(r"^  make (\w+) +\S", run.stdout, re.MULTILINE)) == TARGETS


def test_workflows_do_what_can_be_done_by_hand() -> None:
    workflows = sorted((ROOT / ".github/workflows").glob("*.yml"))
    assert [path.stem for path in workflows] == ["linux", "macos", "release"]
    steps = [re.findall(r"\brun: (.*)", path.read_text()) for path in workflows]
    assert all(steps)
    assert {step for run in steps for step in run} <= {f"make {target}" for target in TARGETS}


PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    prose = re.sub(r"^```.*?^```|`[^`\n]*`", "", text, flags=re.MULTILINE | re.DOTALL)
    links = re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)", prose)
    assert [link for link, _ in links if not (page.parent / link).exists()] == []
    leading = [(page.parent / link if link else page, anchor) for link, anchor in links if anchor]
    assert [anchor for target, anchor in leading if anchor not in anchors(target)] == []


def anchors(page: Path) -> set[str]:
    """The names by which links reach the headings of a page."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_source_has_no_leftover_markers() -> None:
    marker = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sorted((ROOT / "src").rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if marker.search(line)
    ]
    assert found == []
