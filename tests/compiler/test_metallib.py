"""Libraries that Xcode compiles, with a program that answers in its place."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import iris
from iris.errors import ArgumentError, DeviceError, FileError
from iris.tools.cli import main
from support import ROOT

# Texts become themselves, with the options before them, and libraries all that is linked.
XCRUN = """#!/bin/sh
[ "$1 $2 $3" = "-sdk macosx metal" ] || exit 9
shift 3
for last; do :; done
if [ "$3" = -c ]; then
  if grep -q clipped "$4"; then echo "clipped is not known" >&2; exit 1; fi
  { echo "$1 $2"; cat "$4"; } > "$last"
else
  : > "$last"
  for part; do case "$part" in *.air) cat "$part" >> "$last" ;; esac; done
fi
"""


@iris.kernel
def twice(X, B: iris.constexpr):
    iris.store(X + iris.arange(0, B), 2 * iris.load(X + iris.arange(0, B)))


@iris.kernel
def thrice(X, B: iris.constexpr):
    iris.store(X + iris.arange(0, B), 3 * iris.load(X + iris.arange(0, B)))


@iris.kernel
def clipped(X, B: iris.constexpr):
    i = iris.arange(0, B)
    iris.store(X + i, iris.maximum(iris.load(X + i), 0))


def lowered(kernel: iris.Kernel, name: str = "float32") -> iris.Compilation:
    return kernel.lower(np.ones(32, name), B=32, grid=1)


@pytest.fixture
def xcrun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "bin" / "xcrun"
    path.parent.mkdir()
    path.write_text(XCRUN)
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.usefixtures("xcrun")
def test_several_kernels_are_in_one_library(tmp_path: Path) -> None:
    kernels = [lowered(twice), lowered(thrice)]
    file = tmp_path / "app.metallib"
    iris.build(kernels, file)
    head = "-std=metal3.1 -fno-fast-math\n"
    assert file.read_text() == "".join([f"{head}{kernel.msl}" for kernel in kernels])


@pytest.mark.usefixtures("xcrun")
def test_a_file_of_ir(tmp_path: Path) -> None:
    golden = ROOT / "tests/codegen/golden/add.iris"
    file = tmp_path / "app.metallib"
    assert main(["emit", "--metallib", str(file), str(golden)]) == 0
    assert file.read_text().endswith(golden.with_suffix(".metal").read_text())


@pytest.mark.usefixtures("xcrun")
def test_errors(tmp_path: Path) -> None:
    file = tmp_path / "app.metallib"
    with pytest.raises(ArgumentError, match="one function of each name, and twice is there twice"):
        iris.build([lowered(twice), lowered(twice, "float16")], file)
    with pytest.raises(
        DeviceError, match="the kernel clipped does not compile: clipped is not known"
    ):
        iris.build([lowered(twice), lowered(clipped)], file)
    assert not file.exists()
    for wrong in ([], lowered(twice), [twice]):
        with pytest.raises(ArgumentError, match="takes a list of compiled kernels"):
            iris.build(wrong, file)  # type: ignore[arg-type]
    with pytest.raises(FileError, match="cannot write"):
        iris.build([lowered(twice)], tmp_path / "nowhere" / "app.metallib")


def test_without_xcode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DeviceError, match="needs a Mac with Xcode, and xcrun is not here"):
        iris.build([lowered(twice)], tmp_path / "app.metallib")
