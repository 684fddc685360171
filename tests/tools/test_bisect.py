"""`iris bisect`: the guilty pass of a file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from iris.codegen import emitter
from iris.codegen.language import Language
from iris.codegen.source import Source
from iris.ir import Module
from iris.ir.control import Func
from iris.ir.math import Sub
from iris.passes import Pass
from iris.tools.cli import main

TILE = """\
# grid: 2
# argument %X: f32[128] seed=1

func tile @f(%X: ptr<f32>) {
  %i: tile<64xi32> = tile.arange 0
  %p: i32 = tile.program_id 0
  %c64: i32 = constant 64
  %start: i32 = mul %p, %c64
  %starts: tile<64xi32> = tile.broadcast %start
  %at: tile<64xi32> = add %starts, %i
  %x: tile<64xf32> = tile.load %X, %at
  %e: tile<64xf32> = exp %x
  %y: tile<64xf32> = sub %x, %e
  tile.store %X, %at, %y
  return
}
"""

GRAPH = """\
# argument %x: f32[3, 5] seed=1

func graph @f returns=[tensor<3x5xf32>](%x: tensor<3x5xf32>) {
  %e: tensor<3x5xf32> = exp %x
  %y: tensor<3x5xf32> = sub %x, %e
  return %y
}
"""


@dataclass(frozen=True)
class SwapAll(Pass):
    """Swap the operands of subtractions, which is wrong."""

    name = "swap-all-subs"

    def run(self, module: Module) -> None:
        for op in module.walk():
            if isinstance(op, Sub):
                op.set_operands((op.rhs, op.lhs))


def bisected(text: str, folder: Path, *options: str) -> int:
    file = folder / "program.iris"
    file.write_text(text)
    return main(["bisect", str(file), *options])


@pytest.mark.parametrize("text", [TILE, GRAPH], ids=["tile", "graph"])
def test_no_pass_is_wrong(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bisected(text, tmp_path) == 0
    assert capsys.readouterr().out.startswith("no pass is wrong of ")


@pytest.mark.parametrize("text", [TILE, GRAPH], ids=["tile", "graph"])
def test_the_guilty_pass(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bisected(text, tmp_path, "--passes", "fold,cse,swap-all-subs,dce") == 1
    out = capsys.readouterr().out
    assert out.startswith("swap-all-subs changed what the program does")
    assert "\nswap-all-subs is pass 3 of fold,cse,swap-all-subs,dce\n" in out
    assert "# grid: 2" not in out and "exp" not in out
    assert "--- before swap-all-subs" in out


def test_the_program_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bisected(TILE, tmp_path, "--passes", "swap-all-subs", "--seconds", "0") == 1
    assert TILE[TILE.index("func") :] in capsys.readouterr().out


def test_a_program_that_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bisected(TILE.replace("grid: 2", "grid: 3"), tmp_path) == 1
    assert capsys.readouterr().out.startswith("the program fails: ProgramError: index ")


def test_a_pass_that_stages_too_much(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tile = "tile<128x128xf32>"
    text = f"""\
# grid: 1
# argument %X: f32[16384] seed=1

func tile @f(%X: ptr<f32>) {{
  %o: i32 = constant 0
  %u: i32 = constant 1
  %w: i32 = constant 128
  %x: {tile} = tile.load_tile %X, offsets=[%o, %o], strides=[%w, %u], bounds=[%w, %w]
  %y: {tile} = tile.dot %x, %x
  tile.store_tile %X, %y, offsets=[%o, %o], strides=[%w, %u], bounds=[%w, %w]
  return
}}
"""
    options = ("--passes", "choose-simdgroups{count=4},stage-dots", "--seconds", "0")
    assert bisected(text, tmp_path, *options) == 0
    monkeypatch.setattr("iris.passes.tile.stage_dots._Staging._bytes", lambda *_: 0)
    assert bisected(text, tmp_path, *options) == 1
    assert "stage-dots took more threadgroup memory" in capsys.readouterr().out


def test_the_number_of_simdgroups(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bisected(TILE, tmp_path, "--simdgroups", "2") == 0
    assert "choose-simdgroups{count=2}" in capsys.readouterr().out


def test_a_device_is_for_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bisected(TILE, tmp_path, "--device", "interp") == 1
    assert "interp takes no text, but IR of the tile level" in capsys.readouterr().err


def test_a_graph_has_no_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bisected(GRAPH, tmp_path, "--device", "softmetal") == 1
    assert "a graph has no text of its own" in capsys.readouterr().err


@pytest.mark.softmetal
def test_the_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert bisected(TILE, tmp_path, "--device", "softmetal") == 0
    real = emitter.emit

    def emit(function: Func, language: Language) -> Source:
        source = real(function, language)
        return replace(source, text=source.text.replace(" - ", " + "))

    monkeypatch.setattr("iris.testing.texts.emit", emit)
    assert bisected(TILE, tmp_path, "--device", "softmetal", "--seconds", "0") == 1
    out = capsys.readouterr().out
    assert "the program does otherwise on softmetal, whose text is" in out
    assert "codegen is guilty, and no pass" in out
