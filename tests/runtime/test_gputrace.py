"""`iris.gputrace()`: what a trace shows, and why there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import iris
from iris.errors import ArgumentError, DeviceError
from support import ROOT

pytestmark = pytest.mark.softmetal

SCRIPT = """
import ctypes
import numpy as np
import iris
from iris.errors import IrisError
from iris.runtime.devices import select
from iris.testing import kernels
from on_metal import library

device = select("softmetal")
x, y = (iris.asarray(np.ones(64, np.float32), device=device) for _ in "12")
kernels.scale[2](x, 2.0)
with iris.gputrace("one.gputrace", device):
    kernels.scale[2](y, 3.0)
    kernels.scale[2](x, 3.0)
kernels.scale[2](x, 5.0)
assert x.peek(0) == 30
label = device.messages.name.__closure__ and device.runtime.message("label", ctypes.c_void_p)
print(device.runtime.text(label(x.argument.memory.block.buffer)))
sent = []
compiled = device._compiled
device._compiled = lambda source, mode: sent.append(source.entry) or compiled(source, mode)
device._libraries.clear()
kernels.scale._current = None
kernels.scale[2](x, 5.0)
print(sent)  # not from what was kept
fail = library().softmetal_fail
fail.argtypes = [ctypes.c_char_p, ctypes.c_uint]
start = "startCaptureWithDescriptor:error:"
for selector in ("sharedCaptureManager", "supportsDestination:", start):
    fail(selector.encode(), 1)
    try:
        with iris.gputrace("two.gputrace", device):
            raise AssertionError("it goes on")
    except IrisError as error:
        print(error)
try:
    with iris.gputrace("two.gputrace", device):
        with iris.gputrace("three.gputrace", device):
            pass
except IrisError as error:
    print(error)
with iris.gputrace("three.gputrace", device):
    pass
assert not library().softmetal_reports()
"""


def test_a_trace_has_the_launches_of_its_with(tmp_path: Path) -> None:
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
    environment = os.environ | {"PYTHONPATH": paths, "METAL_CAPTURE_ENABLED": "1"}
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    label, compiled, *errors = run.stdout.splitlines()
    assert label == "X of scale"
    assert compiled == "['scale']"
    why = "Metal writes traces only for a process that is started with METAL_CAPTURE_ENABLED=1"
    assert errors[0].startswith(why) and errors[1].startswith(why)
    assert errors[2].startswith("the trace two.gputrace cannot be written: startCapture")
    assert (
        errors[3]
        == "the trace three.gputrace cannot be written: a capture cannot start: another one goes on"
    )
    trace = (tmp_path / "one.gputrace").read_text().splitlines()
    assert trace == [
        "command buffer 'stream 0' ",
        "  encoder 'stream 0' ",
        "    scale 'scale' ",
        "    scale 'scale' ",
    ]
    assert (tmp_path / "three.gputrace").read_text() == ""


def test_why_there_is_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("METAL_CAPTURE_ENABLED", raising=False)
    there = tmp_path / "there.gputrace"
    there.mkdir()
    for path, device, message in (
        (tmp_path / "new.gputrace", "softmetal", "started with METAL_CAPTURE_ENABLED=1"),
        (tmp_path / "new.gputrace", "interp", "interp writes no traces for Xcode"),
        (tmp_path / "new.trace", "softmetal", "ends in .gputrace"),
        (there, "softmetal", "is there already"),
    ):
        with (
            pytest.raises((ArgumentError, DeviceError), match=message),
            iris.gputrace(path, device),
        ):
            raise AssertionError("it goes on")
    assert [*tmp_path.iterdir()] == [there]
