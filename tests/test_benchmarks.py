"""Every benchmark runs: in short, which says nothing of speed."""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import iris
from support import ROOT

FOLDER = ROOT / "benchmarks"
# What the others import.
NO_SCRIPTS = {"report.py", "triton_kernels.py", "triton_rows.py"}
SCRIPTS = sorted(path for path in FOLDER.glob("*.py") if path.name not in NO_SCRIPTS)
PEERS = {"compile.py": ("triton", "tinygrad"), "fusion.py": ("tinygrad",), "interp.py": ("triton",)}
ON_SOFTMETAL = {"dispatch.py", "softmetal.py", "threads.py"}
ON_NVIDIA = {"gpu.py", "model.py"}


@pytest.mark.parametrize(("metal", "elsewhere"), [("softmetal", set()), ("metal", ON_SOFTMETAL)])
def test_make_runs_those_that_run_there(metal: str, elsewhere: set[str]) -> None:
    command = ["make", "--dry-run", "bench", f"METAL={metal}"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    scripts = {path.name for path in SCRIPTS}
    assert set(re.findall(r"benchmarks/(\w+\.py)", said)) == scripts - ON_NVIDIA - elsewhere


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


def test_figures_of_the_cost_model_are_of_times_in_files(tmp_path: Path) -> None:
    # The compiler's own schedule is first; the model takes the second to be the best, and it is
    # the third.  The second file has times of another kernel alone.
    times = [(2, 6), (1, 3), (3, 2)]
    row = {"kernel": "softmax", "size": [5, 67], "schedule": "some"}
    rows = [{**row, "predicted": p, "measured": m} for p, m in times]
    other = [{**row, "size": [7, 7], "predicted": 1, "measured": 1}]
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    for path, content in zip(files, (rows, other), strict=True):
        path.write_text(json.dumps(content))
    command = [sys.executable, FOLDER / "model.py", "--short", "--print", "softmax", *files]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    for line, kind in zip(
        run.stdout.splitlines()[1:], ("softmax ", "softmax, held out "), strict=True
    ):
        assert line.startswith(kind)
        # Ranks 2, 1, 3 and 3, 2, 1: 1 - 6 * (1 + 1 + 4) / (3 * 8).
        assert line.split()[-5:] == ["3.00", "-0.50", "-0.50", "3.00", "1.50"]


def test_measurements_of_a_gpu_say_where_they_are_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    import gpu
    import report

    monkeypatch.setattr(report, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(gpu, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    version = SimpleNamespace(cuda="13.0")
    cuda = SimpleNamespace(get_device_name=lambda: "NVIDIA H200")
    torch = SimpleNamespace(__version__="2.11.0", version=version, cuda=cuda)
    known = {"gpu": "NVIDIA H200", "cuda": "13.0", "torch": "2.11.0"}
    assert gpu.versions(torch) == known
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 580.65.06\necho 580.65.06\n")  # of two GPUs
    tool.chmod(0o755)
    device = gpu.versions(torch)
    assert device == {**known, "driver": "580.65.06"}
    report.write("gpu", {"add": {"iris": 4.25}}, device)
    kept = json.loads((tmp_path / "results/gpu.json").read_text())
    assert kept["rows"] == {"add": {"iris": 4.25}}
    here = {"iris": iris.__version__, "numpy": np.__version__, "python": platform.python_version()}
    assert kept["machine"] == {**here, **device, "machine": platform.machine()}


class Slow:
    """The events of a GPU that takes a cycle for each that it is to sleep, and 7 for a kernel, on a
    host that takes some cycles for the first launches."""

    def __init__(self, host: list[int]):
        self.host, self.now, self.free = host, 0, 0
        self.flushed = SimpleNamespace(zero_=lambda: None)
        self.int8 = None
        self.cuda = self

    def empty(self, size: int, dtype: None, device: str) -> Any:
        return self.flushed

    def _sleep(self, cycles: int) -> None:
        self.free = max(self.free, self.now) + cycles

    def launch(self) -> None:
        self.now += self.host.pop(0) if self.host else 0
        self.free = max(self.free, self.now) + 7

    def Event(self, enable_timing: bool) -> Any:
        event = SimpleNamespace(at=0)
        event.record = lambda: setattr(event, "at", max(self.free, self.now))
        event.query = lambda: event.at <= self.now
        event.synchronize = lambda: setattr(self, "now", max(self.now, event.at))
        event.elapsed_time = lambda after: after.at - event.at
        return event


def test_what_the_host_takes_to_launch_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    import gpu

    for host in ([], [10], [3 * gpu.WAITING_CYCLES], [2 * gpu.WAITING_CYCLES] * 2):
        torch = Slow(host)
        assert gpu.Clock(torch).once(torch.launch) == 7 / 1000
        assert not torch.host
    with pytest.raises(RuntimeError, match="waits for the GPU"):
        torch = Slow([2 * gpu.MOST_WAITING_CYCLES] * 20)
        gpu.Clock(torch).once(torch.launch)
