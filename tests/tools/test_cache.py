"""`iris cache`: lists and removes entries of caches, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from iris.runtime.cache import CHOICES, LIBRARIES, PIPELINES, ROOMS, Cache
from iris.tools.cli import main


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("IRIS_CACHE_DIR", str(tmp_path))
    for room, texts in (
        ("libraries", ("one", "two")),
        (PIPELINES, ("four",)),
        (CHOICES, ("three",)),
    ):
        cache = Cache("tools", room)
        for text in texts:
            cache.put(cache.key(text), text.encode())
    (tmp_path / "libraries/of-mine").write_text("kept")
    return tmp_path


def test_size_and_list(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [*(folder / "libraries").glob("?" * 64)]
    size = sum(path.stat().st_size for path in files)
    assert main(["cache"]) == 0
    said = capsys.readouterr().out
    assert f"libraries  kept: 2 with {size / 1e6:.3f} MB in {folder}/libraries\n" in said
    assert "choices    kept: 1 with " in said and "pipelines  kept: 1 with " in said
    assert main(["cache", "list"]) == 0
    listed = capsys.readouterr().out
    rooms = re.findall(r"^\d{4}-\d\d-\d\d .* (\w+)/[0-9a-f]{64}$", listed, re.M)
    assert sorted(rooms) == ["choices", "libraries", "libraries", "pipelines"]
    assert all(path.name in listed for path in files) and listed.endswith(
        said.splitlines()[-1] + "\n"
    )


def test_clear(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "clear"]) == 0
    assert "libraries  removed: 2 with " in capsys.readouterr().out
    left = {room: [p for p in (folder / room).rglob("*") if p.is_file()] for room in ROOMS}
    assert left == {LIBRARIES: [folder / "libraries/of-mine"], CHOICES: [], PIPELINES: []}
    assert main(["cache"]) == 0
    assert capsys.readouterr().out.count("kept: 0 with 0.000 MB") == 3
