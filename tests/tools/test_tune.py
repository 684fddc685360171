"""`iris tune`: how the configurations of a script's kernels compare."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from iris.tools.cli import main

SCRIPT = """\
import sys

import numpy as np

import iris


@iris.autotune(configs=[iris.Config(BLOCK=1), iris.Config(BLOCK=256)], key=["N"])
@iris.kernel
def double(X, N, BLOCK: iris.constexpr):
    i = iris.program_id(0) * BLOCK + iris.arange(0, BLOCK)
    iris.store(X + i, 2 * iris.load(X + i, mask=i < N), mask=i < N)


if __name__ == "__main__":
    for n in map(int, sys.argv[1:]):
        double[lambda known: iris.cdiv(n, known["BLOCK"])](np.ones(n, np.float32), n)
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("IRIS_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return str(path)


def test_a_table_for_each_size(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.argv, sys.path[:]
    for _ in range(2):  # what was kept is measured again
        assert main(["tune", script, "3000", "7000"]) == 0
        first, one, chosen, reason, second, *_ = capsys.readouterr().out.splitlines()
        assert first.startswith("double for N=3000: milliseconds by the cost model")
        assert one.split()[0] == "BLOCK=1"
        assert chosen.split()[0] == "BLOCK=256" and chosen.endswith("chosen")
        assert reason.startswith("    limited by memory, with ")
        assert second.startswith("double for N=7000")
    assert (sys.argv, sys.path) == before


def test_nothing_to_tune(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", script]) == 1
    assert "launches no kernel with iris.autotune" in capsys.readouterr().out
    assert main(["tune", "no-such.py"]) == 1
    assert "there is no script no-such.py" in capsys.readouterr().err
