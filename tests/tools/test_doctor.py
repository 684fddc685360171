"""`iris doctor` and `iris softmetal`, with devices that work and one that does not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from iris.codegen.languages.msl import MSL
from iris.codegen.source import Source
from iris.ir.control import Func
from iris.ir.kinds import ReduceKind
from iris.runtime import devices
from iris.runtime.device import Program
from iris.runtime.interpreters import Interpreter
from iris.runtime.softmetal import Softmetal
from iris.softmetal import build
from iris.testing.conformance import CHECKS
from iris.testing.gpu import tile_ops
from iris.testing.gpu.each_op import programs
from iris.testing.gpu.from_ir import differences
from iris.testing.one_op import every_op
from iris.tools import doctor
from iris.tools.cli import main
from on_metal import METAL
from support import ROOT

LINES = (
    "miscompiles",
    "lanes",
    "integers",
    "numbers",
    "ops",
    "launches",
    "replay",
    "barriers",
    "timing",
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the report goes."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("device", ["interp", pytest.param(METAL, marks=pytest.mark.metal)])
def test_a_device_that_works(device: str, capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    start = os.times()
    assert main(["doctor", "--device", device]) == 0
    taken = [after - before for after, before in zip(os.times(), start, strict=True)]
    assert sum(taken[:4]) < 60  # processor seconds: its own, and those of compilers
    *said, last = capsys.readouterr().out.splitlines()
    assert last == "everything is as it must be"
    names = [line.split()[0] for line in said]
    ran = LINES if device != "interp" else ("launches", "timing")
    assert names == ["machine", *["device"] * len(devices.DEVICES), "trying", *ran, "report"]
    assert any(line.startswith("launches") and f"{len(CHECKS)} checks" in line for line in said)
    report = (folder / "iris-doctor.txt").read_text(encoding="utf-8").splitlines()
    assert report[: len(said) - 1] == said[:-1]
    assert any(line.startswith("target apple") for line in report)


@pytest.mark.softmetal
def test_tensors_have_a_line_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    device = devices.select("softmetal")
    assert "tensors" not in [name for name, _ in doctor._checks(device)]
    monkeypatch.setenv("IRIS_TARGET", "apple-m5-tensors")
    check = dict(doctor._checks(device))["tensors"]
    assert (
        check(device)
        == "cooperative tensors of float, half, bfloat lie in a simdgroup as they must"
    )


def test_versions_of_the_language() -> None:
    assert MSL.versions((3, 2)) == "the Metal Shading Language 3.1, and 3.2 for kernels with fences"
    assert MSL.versions((3, 1)).endswith("3.2 for kernels with fences, which it does not take")


# Faults of softmetal: words of a header, and what stands there instead.
IN_HEADERS = {
    "metal_simdgroup_matrix": ("(lane >> 3 & 1) * 4", "(lane >> 3 & 1 ^ 1) * 4"),
    "metal_tensor": ("(lane >> 2 & 4) + (lane >> 1 & 3)", "(lane >> 2 & 4 ^ 4) + (lane >> 1 & 3)"),
    "metal_math": (
        "    const double exact = double(float(x))",
        "    if (__builtin_fabsf(float(x * y + z)) < 0x1p-14f) return half(0.0f);\n"
        "    const double exact = double(float(x))",
    ),
}
PLANTED = """
import sys
from dataclasses import replace
from pathlib import Path
from iris.runtime.softmetal import Softmetal
from iris.softmetal import build
from iris.testing import gpu
from iris.tools import doctor
from iris.tools.cli import main

build.library = lambda: Path(sys.argv[1])
compiled = Softmetal._compiled

def miscompiled(self, source, mode):
    # A compiler that takes the copy of an array for the array, which has changed since.
    text = source.text.replace("b[i] = was[i];", "b[i] = a[i];")
    return compiled(self, replace(source, text=text), mode)

Softmetal._compiled = miscompiled
few = ("miscompiles", "lanes", "tensors", "integers", "numbers")
doctor._checks = lambda device: [(name, gpu.CHECKS[name]) for name in few]
sys.exit(main(["doctor", "--device", "softmetal"]))
"""


@pytest.mark.softmetal
def test_planted_faults_are_named(folder: Path) -> None:
    built = folder / "built"
    shutil.copytree(build.library().parent, built)
    for name, (right, wrong) in IN_HEADERS.items():
        header = built / "include" / name
        text = header.read_text(encoding="utf-8")
        assert text.count(right) == 1
        header.write_text(text.replace(right, wrong), encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "IRIS_CACHE_DIR": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", PLANTED, str(built / build.library().name)],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stderr
    said = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert "WRONG: swapped arrays in mode safe: " in said["miscompiles"]
    assert "WRONG: float: of a loaded matrix lane 0 has the elements" in said["lanes"]
    assert "WRONG: float: of a loaded left operand lane 0 has the elements" in said["tensors"]
    assert "WRONG: half in mode safe: the fma of 5.96e-08 and 5.96e-08 is 0" in said["numbers"]
    assert "WRONG" not in said["integers"]
    assert "4 checks failed: miscompiles, lanes, tensors, numbers" in done.stderr
    report = (folder / "iris-doctor.txt").read_text(encoding="utf-8")
    assert "swapped arrays in mode relaxed" in report
    assert "bfloat: of a product lane 0" in report
    assert "half: of what is stored as a sum lane 0" in report


@pytest.mark.parametrize(
    ("code", "said", "wrong"),
    [
        (0, "2026-01-01 Python[1:2] Metal API Validation Enabled\n", None),
        (
            0,
            "Invalid device load at offset 8\n",
            "it ended with 0, and this was said:\nInvalid dev",
        ),
        (1, "", "it ended with 1"),
        (-6, "failed assertion `set a pipeline'\n", "it ended by signal 6"),
    ],
)
def test_it_runs_again_under_validation(
    code: int, said: str, wrong: str | None, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    ran: list[Any] = []

    def run(command: list[str], env: dict[str, str], **named: Any) -> Any:
        ran.append((command[-4:], env["MTL_DEBUG_LAYER"], env["MTL_SHADER_VALIDATION"]))
        return subprocess.CompletedProcess(command, code, None, said)

    monkeypatch.setattr(doctor.subprocess, "run", run)
    assert main(["doctor", "--validate", "--device", "interp", "-o", "out"]) == (wrong is not None)
    assert ran == [(["-o", "out", "--device", "interp"], "1", "1")]
    output = capfd.readouterr()
    assert wrong in output.err if wrong else "validation found nothing" in output.out


class Otherwise(Softmetal):
    """Compiles something else in place of some words."""

    def __init__(self, words: dict[str, str]) -> None:
        super().__init__()
        self.words = words

    def compile(self, entry: Func, source: Source | None = None) -> Program:
        assert source is not None
        text = source.text
        for word, instead in self.words.items():
            text = text.replace(word, instead)
        return super().compile(entry, replace(source, text=text))


@pytest.mark.softmetal
def test_every_op_that_is_wrong_is_named() -> None:
    device = Otherwise({" rint(": " ceil(", "precise::sqrt(": "precise::rsqrt("})
    ops = [one for one in every_op() if one.op in ("round", "sqrt", "exp", "abs", "shl")]
    some = [one for one in ops if one.operands[0] in ("f32", "i16")]
    wrong = differences(device, [*programs(some)], simdgroups=1)
    assert sorted(line.split("[")[0].split(": ")[1] for line in wrong) == [
        "round_f32_f32",
        "sqrt_f32_f32",
    ]
    assert all("where it must be" in line for line in wrong)


@pytest.mark.softmetal
def test_missing_barriers_are_noticed() -> None:
    device = Otherwise({"threadgroup_barrier(mem_flags::mem_threadgroup);": ""})
    reduction = tile_ops.reduction(ReduceKind.SUM, 0, "f32", 32, 64)
    some = [tile_ops.transposed("f32", 32, 64), reduction]
    assert len(differences(device, some, simdgroups=4)) == 2


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
    assert f"device      {device.name}: WRONG: {what}" in output.out
    assert "launches" in output.out  # of the default one
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
        "doctor._checks = lambda device: []\n"
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
        [sys.executable, "-c", script],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "softmetal: here" in done.stdout and "Traceback" not in done.stderr
    assert f"compiled kernels are kept in {cache}, for there is no home folder" in done.stderr
