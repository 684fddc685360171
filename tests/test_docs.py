"""What the guide shows works: its programs run, its IR parses, its list of ops is current."""

from __future__ import annotations

import ast
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import iris
from iris import nn
from iris.compiler.pipelines import GRAPH_PIPELINE, METAL_PIPELINE
from iris.frontend.arrays.protocol import FUNCTIONS, UFUNCS
from iris.ir import parse
from iris.runtime.softmetal import Softmetal
from support import EXAMPLES, ROOT, load

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def run_page(page: Path, folder: Path) -> str:
    """What the programs of a page print, run as one script; kernels need it to be a file."""
    script = folder / f"{page.stem}.py"
    script.write_text("\n".join(blocks(page.read_text(), "python")))
    # For hypothesis, this is what makes every run try the same examples.
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=folder,
        env={**os.environ, "CI": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.replace(f"{folder}{os.sep}", "")


def unnumbered(text: str) -> str:
    """Without the numbers of lines, which change with every edit of a page, and of values, which
    change with every op."""
    return re.sub(r"(?m)(?<=\.py:)\d+|^\d+(?= \|)|(?<=%)\d+|(?<=\w)_\d+\b", "N", text)


# Which take what softmetal needs, on Macs, too.
ON_LINUX = {"library.md", "cuda-files.md"}
why = Softmetal.missing()
SKIPPED = pytest.mark.skipif(why is not None, reason=str(why))


@pytest.mark.parametrize(
    "page",
    [pytest.param(p, marks=SKIPPED) if p.name in ON_LINUX else p for p in PAGES],
    ids=lambda p: p.name,
)
def test_the_pages_programs_run_and_print_what_is_shown(page: Path, tmp_path: Path) -> None:
    printed = unnumbered(run_page(page, tmp_path))
    for language in ("text", "metal"):
        for shown in blocks(page.read_text(), language):
            assert unnumbered(shown.rstrip("\n")) in printed


def test_the_pass_of_the_guide_runs_from_the_shell(tmp_path: Path) -> None:
    page = (ROOT / "docs/write-a-pass.md").read_text()
    before, after = blocks(page, "iris")
    (tmp_path / "shift_divisions.py").write_text(blocks(page, "python")[0])
    (tmp_path / "rows.iris").write_text(before)
    (command,) = blocks(page, "sh")
    assert command.startswith("iris ")
    shell = [sys.executable, "-m", "iris.tools.cli", *shlex.split(command)[1:]]
    assert subprocess.check_output(shell, cwd=tmp_path, text=True) == after


def test_the_guides_show_every_word() -> None:
    names = ("tutorial", "language", "threads", "arrays", "running", "tuning")
    pages = [(ROOT / f"docs/{name}.md").read_text() for name in names]
    tree = ast.parse("\n".join([block for page in pages for block in blocks(page, "python")]))
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "iris"
    }
    assert set(iris.__all__) - used == set()


def test_the_guide_tells_of_every_pass() -> None:
    page = (ROOT / "docs/metal.md").read_text()
    assert [p.name for p in METAL_PIPELINE if f"`{p.name}`" not in page] == []
    page = (ROOT / "docs/graphs.md").read_text()
    assert [p.name for p in GRAPH_PIPELINE if f"`{p.name}`" not in page] == []
    assert f"`{GRAPH_PIPELINE}`" in page


def test_the_guide_names_every_function_of_numpy() -> None:
    page = (ROOT / "docs/arrays.md").read_text()
    there = {function.__name__ for function in (*FUNCTIONS, *UFUNCS["__call__"])}
    assert there.difference(re.findall(r"\w+", page)) == set()
    (listed,) = re.findall(r"`reduce` of `([^`]*)` \|\n.*`accumulate` of the same", page)
    for method in ("reduce", "accumulate"):
        assert listed.split() == sorted(function.__name__ for function in UFUNCS[method])
    assert [name for name in nn.__all__ if f"nn.{name}" not in page] == []


def test_the_pages_ir_parses() -> None:
    shown = [text for page in PAGES for text in blocks(page.read_text(), "iris")]
    assert shown
    for text in shown:
        assert str(parse(text)) == text


REFERENCE = re.compile(r"\[`([\w/]+\.py)`\]\(\.\./src/iris/\1\)((?:, `\w+`)*)")


@pytest.mark.parametrize("page", ["architecture", "glossary"])
def test_the_code_that_a_page_names_exists(page: str) -> None:
    references = REFERENCE.findall((ROOT / f"docs/{page}.md").read_text())
    assert references
    for file, names in references:
        tree = ast.parse((ROOT / "src/iris" / file).read_text())
        missing = set(re.findall(r"\w+", names)) - set(defined(tree))
        assert not missing, f"{file} has no {missing}"


def defined(tree: ast.Module) -> Iterator[str]:
    """The names that a module defines."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for name in ast.walk(node):
                if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store):
                    yield name.id


def test_the_architecture_tells_of_every_room() -> None:
    rooms = load(ROOT / "tests/test_imports.py").MAY_IMPORT
    page = (ROOT / "docs/architecture.md").read_text()
    assert [room for room in rooms if f"\n| `{room}` |" not in page] == []
    readme = (ROOT / "README.md").read_text()
    assert [room for room in rooms if f"src/iris/{room}" not in readme] == ["iris"]


def test_the_index_lists_every_page() -> None:
    index = (ROOT / "docs/index.md").read_text()
    assert [
        page.name for page in PAGES if f"{page.name})" not in index and page.stem != "index"
    ] == []


def test_the_list_of_ops_is_current() -> None:
    script = load(ROOT / "docs/make_ops.py")
    assert script.FILE.read_text() == script.reference(), "run python docs/make_ops.py"


def test_each_op_has_an_example() -> None:
    _, *entries = (ROOT / "docs/ops.md").read_text().split("\n### ")
    assert len(entries) > 100
    assert [entry.splitlines()[0] for entry in entries if "\n```\n" not in entry] == []


def test_the_list_of_passes_is_current() -> None:
    script = load(ROOT / "docs/make_passes.py")
    assert script.FILE.read_text() == script.reference(), "run python docs/make_passes.py"


def test_the_tables_of_triton_are_current() -> None:
    script = load(ROOT / "docs/make_triton.py")
    assert script.FILE.read_text() == script.page(), "run python docs/make_triton.py"


def test_the_measurements_of_gpus_are_current() -> None:
    script = load(ROOT / "docs/make_devices.py")
    assert script.FILE.read_text() == script.page(), "run python docs/make_devices.py"


@pytest.mark.parametrize("name", ["gpu", "model"])
def test_measurements_that_are_kept_are_of_a_whole_run_on_a_gpu(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    script = load(ROOT / "docs/make_devices.py")
    machine, rows = script.kept(name)
    assert {"python", "gpu", "torch", "triton"} <= set(machine)
    benchmark = import_module(name)
    if name == "gpu":
        sizes = {f: [[*map(int, r.size.split("x"))] for r in s] for f, s in script.rates().items()}
        assert sizes == {f: [*map(list, row.sizes)] for f, row in benchmark.ROWS.items()}
    else:
        assert list(rows) == [*benchmark.FAMILIES, *[f"{f}, held out" for f in benchmark.HELD_OUT]]


def build_site(folder: Path, to: Path) -> subprocess.CompletedProcess[str]:
    command = ["-m", "mkdocs", "build", "--strict", "--site-dir", str(to)]
    return subprocess.run([sys.executable, *command], cwd=folder, capture_output=True, text=True)


def test_the_site_builds_and_its_links_lead_somewhere(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    done = build_site(ROOT, tmp_path / "site")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "site/architecture.html").read_text()
    source = "source/src/iris/knobs.py.txt"
    assert f'href="{source}"' in page
    assert (tmp_path / "site" / source).read_text() == (ROOT / "src/iris/knobs.py").read_text()
    assert "<h1" in (tmp_path / "site/about.html").read_text()


@pytest.mark.parametrize("link", ["missing.md", "../src/iris/missing.py", "ir.md#no-heading"])
def test_a_link_that_leads_nowhere_stops_the_site(link: str, tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    (tmp_path / "docs").mkdir()
    for name in ("README.md", "CONTRIBUTING.md"):
        (tmp_path / name).write_text("# Page\n")
    (tmp_path / "docs/ir.md").write_text("# IR\n")
    (tmp_path / "docs/index.md").write_text(f"# Index\n\n[link]({link})\n")
    shutil.copy(ROOT / "docs/site_hooks.py", tmp_path / "docs")
    settings = (ROOT / "mkdocs.yml").read_text()
    (tmp_path / "mkdocs.yml").write_text(settings[: settings.index("nav:")])
    done = build_site(tmp_path, tmp_path / "site")
    assert done.returncode != 0
    assert link.rpartition("/")[2].rpartition("#")[2] in done.stderr


def test_the_manual_of_the_command_is_current() -> None:
    script = load(ROOT / "docs/make_commands.py")
    assert script.FILE.read_text() == script.manual(), "run python docs/make_commands.py"


def test_the_pictures_are_current() -> None:
    script = load(ROOT / "docs/make_pictures.py")
    drawn = script.pictures()
    kept = {name: (script.FOLDER / name).read_text() for name in drawn}
    assert kept == drawn, "run python docs/make_pictures.py"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda p: p.name)
def test_the_examples_run(example: Path) -> None:
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout
