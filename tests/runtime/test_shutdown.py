"""A program that ends with arrays, streams and recordings alive ends without noise."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support import ROOT

PROGRAM = """
import builtins, ctypes, sys
import numpy as np
{prepare}
import iris

@iris.kernel
def double(X, Out, n, B: iris.constexpr = 64):
    at = iris.program_id(0) * B + iris.arange(0, B)
    iris.store(Out + at, 2 * iris.load(X + at, mask=at < n), mask=at < n)

@iris.kernel
def checked(X, n, B: iris.constexpr = 64):
    at = iris.arange(0, B)
    iris.device_assert(n > 0, "none")
    iris.store(X + at, iris.load(X + at, mask=at < n) + 1, mask=at < n)

steps = iris.jit(lambda x: (x @ x) @ x + x.sum())

class Alive:
    def __init__(self):
        self.x = iris.asarray(np.ones(1000, np.float32), device={device!r})
        self.out = iris.empty(1000, device={device!r})
        self.big = iris.empty(5_000_000, device={device!r})
        self.kept = iris.asarray(np.ones(16, np.float32), persistent=True, device={device!r})
        self.stream = iris.stream({device!r})
        double[16](self.x, self.out, 1000)
        double[16](self.out, self.x, 1000, stream=self.stream)
        checked[1](self.x, 64, stream=self.stream)
        with iris.record() as self.recording:
            double[16](self.x, self.out, 1000)
            double[16](self.out, self.x, 1000)
        self.recording.replay()
        self.step = double.prepare(self.x, self.out, 1000, grid=16)
        self.step()
        square = iris.asarray(np.ones((8, 8), np.float32), device={device!r})
        self.result = steps(square)

alive = Alive()
in_a_cycle = Alive()
in_a_cycle.itself = in_a_cycle
del in_a_cycle
# Modules that something keeps, as extensions do, lose their names: those of Iris before ctypes.
ctypes.alive, sys._alive, iris.alive = Alive(), Alive(), Alive()
builtins.alive = _first = Alive()
for module in list(sys.modules.values()):
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(module))
print("end")
"""
FAKE = "import fake_driver; driver = fake_driver.Driver()"


@pytest.mark.parametrize(
    ("device", "prepare"),
    [
        pytest.param("softmetal", "", id="softmetal", marks=pytest.mark.softmetal),
        pytest.param("cuda", FAKE, id="cuda"),
    ],
)
def test_a_program_that_ends_with_live_arrays_prints_nothing(
    device: str, prepare: str, tmp_path: Path
) -> None:
    if device == "cuda":
        pytest.importorskip("cuda.bindings.driver")
    script = tmp_path / "alive.py"
    script.write_text(PROGRAM.format(device=device, prepare=prepare))
    paths = [str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    done = subprocess.run([sys.executable, script], env=env, capture_output=True, text=True)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "end\n")
