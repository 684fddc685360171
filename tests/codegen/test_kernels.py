"""Clang takes the text of every kernel of the end-to-end tests and of the examples."""

from __future__ import annotations

from pathlib import Path

import pytest

from emitting import Emitting, load, run
from iris.runtime import devices
from metal_check import complaints_of_all
from support import ROOT

COLUMNS = 100
PROGRAMS = [
    ROOT / "tests/e2e/test_contract.py",
    ROOT / "tests/e2e/test_programs.py",
    *sorted(p for p in (ROOT / "examples").glob("*.py") if p.stem != "first_ir"),
]


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.stem)
def test_kernels_of(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(devices.DEVICES, Emitting.name, Emitting)
    monkeypatch.setitem(devices._opened, "interp", Emitting())
    monkeypatch.setenv("IRIS_DEVICE", Emitting.name)
    monkeypatch.setattr(Emitting, "texts", [])
    run(load(path))
    texts = list(dict.fromkeys(Emitting.texts))
    assert texts
    assert complaints_of_all(texts) == []
    assert [line for text in texts for line in text.splitlines() if len(line) > COLUMNS] == []
