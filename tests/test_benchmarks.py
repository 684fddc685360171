"""Every benchmark runs: in short, which says nothing of speed."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from support import ROOT

FOLDER = ROOT / "benchmarks"
# What the others import.
NO_SCRIPTS = {"report.py", "triton_kernels.py", "triton_rows.py"}
SCRIPTS = sorted(path for path in FOLDER.glob("*.py") if path.name not in NO_SCRIPTS)
PEERS = {"compile.py": ("triton", "tinygrad"), "fusion.py": ("tinygrad",), "interp.py": ("triton",)}
ON_SOFTMETAL = {"dispatch.py", "softmetal.py"}


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(
            path, id=path.stem, marks=[pytest.mark.softmetal] * (path.name in ON_SOFTMETAL)
        )
        for path in SCRIPTS
    ],
)
def test_it_runs(script: Path) -> None:
    kept = {path: path.read_bytes() for path in FOLDER.glob("results/*.json")}
    run = subprocess.run([sys.executable, script, "--short"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    head, *rows = [line for line in run.stdout.splitlines() if line]
    assert rows
    # What it is compared with and is not here, it says.
    absent = [peer for peer in PEERS.get(script.name, ()) if find_spec(peer) is None]
    assert not absent or "not installed" in head
    assert all(peer in head for peer in absent)
    assert kept == {path: path.read_bytes() for path in FOLDER.glob("results/*.json")}


def test_there_are_benchmarks() -> None:
    assert len(SCRIPTS) >= 7
