"""`iris view`: pages of IR text and of scripts."""

from __future__ import annotations

import io
import json
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from iris.tools import view_server
from iris.tools.cli import main

TILE = """\
func tile @double(%X: ptr<f32>) {
  %i: tile<64xi32> = tile.arange 0
  %x: tile<64xf32> = tile.load %X, %i
  %y: tile<64xf32> = add %x, %x
  tile.store %X, %i, %y
  return
}
"""
GRAPH = """\
func graph @scores returns=[tensor<8x8xf32>](%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) {
  %y: tensor<8x8xf32> = graph.matmul %x, %w
  %z: tensor<8x8xf32> = graph.matmul %y, %w
  return %z
}
"""
SCRIPT = """\
import sys
import numpy as np
import iris

@iris.kernel
def double(X, BLOCK: iris.constexpr):
    i = iris.arange(0, BLOCK)
    iris.store(X + i, iris.load(X + i) * 2)

@iris.jit
def norm(x):
    return x / np.sqrt((x * x).sum())

x = np.ones(64, np.float32)
for size in (32, 64, 32):
    double[1](x, BLOCK=size)
norm(x)
norm(x)
print("ran with", sys.argv[1:])
"""


def parts(page: Path) -> list[dict[str, Any]]:
    """The data of a page."""
    text = page.read_text(encoding="utf-8")
    data = text.partition('id="data">')[2].partition("</script>")[0]
    found: list[dict[str, Any]] = json.loads(data)["parts"]
    return found


def view(
    tmp_path: Path, text: str, *arguments: str, name: str = "file.iris", options: Sequence[str] = ()
) -> list[Any]:
    file, output = tmp_path / name, tmp_path / "out.html"
    file.write_text(text)
    assert main(["view", *options, "-o", str(output), str(file), *arguments]) == 0
    return parts(output)


def test_a_function_of_tile_ir(tmp_path: Path) -> None:
    (part,) = view(tmp_path, TILE + "\n" + TILE.replace("double", "again"))[:1]
    assert part["name"] == "double" and part["target"] == "apple-m1"
    assert part["stages"][-1]["name"] == "mark-nowrap" and part["msl"]["lines"]


def test_a_graph_and_its_kernels(tmp_path: Path) -> None:
    graph, *kernels = view(tmp_path, GRAPH)
    assert graph["kind"] == "graph" and [k["kind"] for k in kernels] == ["kernel", "kernel"]


def test_what_a_script_launches_once_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = view(tmp_path, SCRIPT, "--fast", name="script.py")
    assert [part["name"] for part in found] == ["double", "double 2", "norm", "norm_div"]
    assert [part["kind"] for part in found] == ["kernel", "kernel", "graph", "kernel"]
    assert capsys.readouterr().out == "ran with ['--fast']\n"


def test_a_script_is_compiled_for_the_target_that_is_asked_for(tmp_path: Path) -> None:
    found = view(tmp_path, SCRIPT, name="script.py", options=["--target=apple-m4"])
    assert {part["target"] for part in found if part["kind"] == "kernel"} == {"apple-m4"}
    assert "IRIS_TARGET" not in os.environ


@pytest.mark.parametrize("name", ["file.iris", "graph.iris", "script.py"])
def test_explain(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """The sentences of the page, and for a script what its compilations say."""
    text = {"file.iris": TILE, "graph.iris": GRAPH, "script.py": SCRIPT}[name]
    found = view(tmp_path, text, name=name)
    capsys.readouterr()
    assert main(["explain", str(tmp_path / name)]) == 0
    said = capsys.readouterr().out.removeprefix("ran with []\n")
    sections = said.rstrip("\n").split("\n\n")
    assert [s.splitlines()[1:] for s in sections] == [
        [*part["sentences"], *part.get("why", []), *part.get("apart", [])] for part in found
    ]
    assert sections[0].startswith(f"@{found[0]['name']}:\n")


def test_explain_reads_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(TILE.encode())))
    assert main(["explain"]) == 0
    assert capsys.readouterr().out.startswith("@double:\nThe kernel runs as 1 program")
    assert main(["explain", "nothing.iris"]) == 1
    assert "cannot read nothing.iris" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("", "script.py", "launches no kernel"),
        ("func tile", "file.iris", "file.iris:"),
        ("", "file.iris", "has no function"),
    ],
)
def test_what_cannot_be_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, name: str, message: str
) -> None:
    file = tmp_path / name
    file.write_text(text)
    assert main(["view", "-o", str(tmp_path / "out.html"), str(file)]) == 1
    assert message in capsys.readouterr().err


def test_a_saved_file_is_served_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_server, "POLL", 0.02)
    file = tmp_path / "file.iris"
    file.write_text("one")
    page, stop = view_server.Page(file, file.read_text), threading.Event()
    page.update()
    with view_server.server_of(page) as server:
        url = f"http://127.0.0.1:{server.server_port}"
        threads = [
            threading.Thread(target=server.serve_forever, args=(0.02,)),
            threading.Thread(target=page.watch, args=(stop,)),
        ]
        for thread in threads:
            thread.start()
        try:
            assert urlopen(url).read().startswith(b"one<script>")
            file.write_text("another")
            # The browser asks for what comes after the version that it shows.
            assert urlopen(f"{url}/next?1", timeout=60).status == 200
            assert urlopen(url).read().startswith(b"another<script>")
            with pytest.raises(HTTPError, match="404"):
                urlopen(f"{url}/etc/passwd")
        finally:
            stop.set()
            server.shutdown()
            for thread in threads:
                thread.join()


def test_what_is_wrong_is_served(tmp_path: Path) -> None:
    file = tmp_path / "file.iris"
    file.write_text("func tile <b>")
    html = view_server.compiled(file.name, [str(file)])
    assert "<title>file.iris</title>" in html and "error" in html and "<b>" not in html
