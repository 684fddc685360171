"""Kernels that are saved to a file, and launched from it without the compiler."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import iris
from iris.errors import ArgumentError, FileError, PipelineError
from on_metal import METAL
from support import ROOT

Array = np.ndarray[Any, Any]


@iris.kernel
def scaled(X, Out, factor, n, B: iris.constexpr):
    at = iris.program_id(0) * B + iris.arange(0, B)
    iris.store(Out + at, factor * iris.load(X + at, mask=at < n), mask=at < n)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("saved") / "scaled.iris"
    x = np.ones(96, np.float32)
    scaled.lower(x, x.copy(), 2.5, 96, B=32, grid=3).save(made)
    return made


@pytest.mark.parametrize("device", ["interp:metal", pytest.param(METAL, marks=pytest.mark.metal)])
def test_a_saved_kernel_computes_the_same(device: str, file: Path) -> None:
    kernel = iris.load_kernel(file)
    for n in (96, 32, 160):
        x, out = np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
        kernel[iris.cdiv(n, 32)](x, out, 1.5, n=n, device=device)
        np.testing.assert_array_equal(out, 1.5 * x)
    buffer = iris.asarray(x, device=device)
    kernel[5](buffer, iris.asarray(out, device=device), 2.0, 160)


def test_words_lead_to_it(file: Path) -> None:
    with pytest.raises(ArgumentError, match=r"iris\.load_kernel opens a kernel"):
        iris.load(str(file))
    assert repr(iris.load_kernel(file)) == "the saved kernel scaled"


def test_it_needs_no_tracing_and_no_passes(file: Path) -> None:
    """In a process that has no passes left."""
    script = f"""
import numpy as np
import iris
from iris.frontend.function import TileFunction
from iris.passes.pipeline import PASSES
TileFunction.trace = None
for each in PASSES.values():
    each.run = None
x, out = np.ones(96, np.float32), np.zeros(96, np.float32)
iris.load_kernel({str(file)!r})[3](x, out, 3.0, 96, device="interp:metal")
assert (out == 3).all()
"""
    subprocess.run(
        [sys.executable, "-c", script], check=True, env={"PYTHONPATH": str(ROOT / "src")}
    )


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((np.ones(96, np.float16), 2.0, 96), "X must have the dtype f32 and 1 axes"),
        ((np.ones((1, 96), np.float32), 2.0, 96), "X must have the dtype f32 and 1 axes"),
        ((np.ones(97, np.float32), 2.0, 96), "X must be axis 0 of size divisible by 16"),
        ((3.0, 2.0, 96), "X must be an array of f32"),
        ((np.ones(96, np.float32), 2, 96), "factor must be a number of f32"),
        ((np.ones(96, np.float32), 2.0, 95), "n must be divisible by 32"),
        ((np.ones(96, np.float32), 2.0, 2**40), "n must be a number of i32"),
    ],
)
def test_what_it_was_not_compiled_for_is_refused(
    file: Path, arguments: tuple[Any, ...], why: str
) -> None:
    x, factor, n = arguments
    out = np.zeros(96, np.float32)
    with pytest.raises(ArgumentError, match=f"scaled is compiled for other arguments: {why}"):
        iris.load_kernel(file)[3](x, out, factor, n, device="interp:metal")


def test_arrays_that_overlap_are_refused(file: Path) -> None:
    x = np.ones(192, np.float32)
    with pytest.raises(ArgumentError, match="X must share no memory with other arguments"):
        iris.load_kernel(file)[3](x[:96], x[48:144], 2.0, 96, device="interp:metal")


def test_a_device_that_runs_another_level(file: Path) -> None:
    x = np.ones(96, np.float32)
    with pytest.raises(ArgumentError, match=r"is Metal IR, and the device 'interp' runs Tile IR"):
        iris.load_kernel(file)[3](x, x.copy(), 2.0, 96, device="interp")


def test_a_number_that_was_one(tmp_path: Path) -> None:
    x = np.ones(32, np.float32)
    scaled.lower(x, x.copy(), 2.5, 1, B=32, grid=1).save(tmp_path / "one.iris")
    kernel = iris.load_kernel(tmp_path / "one.iris")
    kernel[1](x, x.copy(), 2.5, 1, device="interp:metal")
    with pytest.raises(ArgumentError, match="n must be 1"):
        kernel[1](x, x.copy(), 2.5, 3, device="interp:metal")


@pytest.mark.parametrize(
    "text", ["", "func tile @f() {\n  return\n}\n", "# saved kernel: {\n", "# saved kernel: [1]\n"]
)
def test_no_saved_kernel(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.iris"
    path.write_text(text)
    with pytest.raises(FileError, match=r"other.iris is no kernel that compilation.save\(\) wrote"):
        iris.load_kernel(path)


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="cannot read"):
        iris.load_kernel(tmp_path / "nothing.iris")
    x = np.ones(32, np.float32)
    lowered = scaled.lower(x, x.copy(), 2.5, 1, B=32, grid=1)
    with pytest.raises(FileError, match="cannot write"):
        lowered.save(tmp_path / "nowhere" / "one.iris")


def test_kernels_of_arrays_are_not_saved(tmp_path: Path) -> None:
    compiled = iris.jit(lambda x: x + 1).lower(np.ones(8, np.float32))
    with pytest.raises(PipelineError, match="a kernel of a function of arrays is neither saved"):
        compiled.kernels[0].save(tmp_path / "kernel.iris")
