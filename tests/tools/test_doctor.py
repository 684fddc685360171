"""`iris doctor` and `iris softmetal`, with devices that work and one that does not."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from iris.codegen.languages.msl import MSL
from iris.codegen.source import Source
from iris.ir.control import Func
from iris.runtime import devices
from iris.runtime.device import Program
from iris.runtime.interpreters import Interpreter
from iris.runtime.softmetal import Softmetal
from iris.softmetal import build
from iris.testing import conformance
from iris.tools.cli import main
from on_metal import METAL
from support import ROOT


@pytest.mark.parametrize("device", ["interp", pytest.param(METAL, marks=pytest.mark.metal)])
def test_a_device_that_works(device: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--device", device]) == 0
    said = capsys.readouterr().out
    assert "everything is as it must be" in said
    count = len(conformance.CHECKS)
    assert f"{count} of {count} checks" in said
    assert "interp: here" in said and "interp:metal: here" in said
    assert said.count("right, off by") == 8
    assert ("3.1, and 3.2 for kernels with fences" in said) == (device != "interp")
    assert ("a matrix lies in a simdgroup as it must" in said) == (device != "interp")


def test_versions_of_the_language() -> None:
    assert MSL.versions((3, 2)) == "the Metal Shading Language 3.1, and 3.2 for kernels with fences"
    assert MSL.versions((3, 1)).endswith("3.2 for kernels with fences, which it does not take")


class Twisted(Softmetal):
    """Swaps the two elements that each lane has of a matrix."""

    name = "twisted"

    def compile(self, entry: Func, source: Source | None = None) -> Program:
        assert source is not None
        text = source.text.replace("thread_elements()[0]", "thread_elements()[2 - 1]")
        return super().compile(entry, replace(source, text=text))


@pytest.mark.softmetal
def test_a_device_that_does_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(devices.DEVICES, "twisted", Twisted)
    opened: dict[str, Any] = {}
    monkeypatch.setattr(devices, "_opened", opened)
    assert main(["doctor", "--device", "twisted"]) == 1
    output = capsys.readouterr()
    assert "lane 0 has the elements [1 1], not [0 1]" in output.out
    assert "checks failed" in output.err and "lanes" in output.err


@pytest.mark.softmetal
def test_building(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["softmetal", "build"]) == 0
    assert Path(capsys.readouterr().out.strip()).exists()


def test_what_cannot_be_built(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Softmetal, "missing", classmethod(lambda cls: "install it"))
    assert main(["softmetal", "build"]) == 1
    assert "softmetal cannot be built here: install it" in capsys.readouterr().err


class Broken(Interpreter):
    name = "broken"

    def launch(self, *_: Any) -> None:
        raise RuntimeError("it is on fire")


class Wrong(Interpreter):
    name = "wrong"

    def launch(self, *_: Any) -> None:
        pass


class Unopened(Interpreter):
    name = "unopened"

    def __init__(self) -> None:
        raise OSError("cannot open the library")


@pytest.mark.parametrize(
    ("device", "what"),
    [
        (Broken, "RuntimeError: it is on fire"),
        (Wrong, "a sum of two arrays is wrong"),
        (Unopened, "OSError: cannot open the library"),
    ],
)
def test_every_device_is_tried(
    device: type[Interpreter],
    what: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(devices, "DEVICES", {"interp": Interpreter, device.name: device})
    monkeypatch.setattr(devices, "_opened", {})
    assert main(["doctor"]) == 1
    output = capsys.readouterr()
    assert "device      interp: here" in output.out
    assert f"device      {device.name}: does not work: {what}" in output.out
    assert "conformance" in output.out  # of the default one
    assert device.name in output.err
    assert main(["doctor", "--device", device.name]) == 1
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.softmetal
def test_no_home(tmp_path: Path) -> None:
    """As in a container, for a user that nobody knows."""
    script = (
        "import pwd, sys\n"
        "def unknown(number): raise KeyError(number)\n"
        "pwd.getpwuid = unknown\n"
        "from iris.tools import doctor\n"
        "doctor._cases = lambda: []\n"
        "doctor.conformance.CHECKS.clear()\n"
        "from iris.tools.cli import main\n"
        "sys.exit(main(['doctor', '--device', 'softmetal']))"
    )
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT / "src"),
        "TMPDIR": str(tmp_path),
    }
    # The library of softmetal itself is there already.
    cache = tmp_path / f"iris-{os.getuid()}"
    cache.mkdir(mode=0o700)
    (cache / "softmetal").symlink_to(build.library().parents[1])
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "softmetal: here" in done.stdout and "Traceback" not in done.stderr
    assert f"compiled kernels are kept in {cache}, for there is no home folder" in done.stderr
