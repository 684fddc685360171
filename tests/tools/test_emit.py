"""`iris emit`: from IR text to the text of a Metal kernel."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

import iris
from iris.compiler.compilation import entry_of
from iris.compiler.graph_kernels import kernels_of
from iris.compiler.pipelines import GRAPH_PIPELINE, METAL_PIPELINE
from iris.ir import parse
from iris.passes import run
from iris.tools.cli import main

TILE = """\
# grid: 2
func tile @double(%X: ptr<f32>, %n: i32) {
  %i: tile<64xi32> = tile.arange 0
  %limit: tile<64xi32> = tile.broadcast %n
  %inside: tile<64xbool> = compare lt %i, %limit
  %x: tile<64xf32> = tile.masked_load %X, %i, %inside
  %y: tile<64xf32> = add %x, %x
  tile.store %X, %i, %y
  return
}
"""
GRAPH = """\
func graph @scores returns=[tensor<8x8xf32>](%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) {
  %y: tensor<8x8xf32> = graph.matmul %x, %w
  %z: tensor<8x8xf32> = graph.matmul %y, %w
  return %z
}
"""
OTHER = "func tile @other() {\n  return\n}\n"


@iris.kernel
def softmax(X, Out, N, BLOCK: iris.constexpr):  # type: ignore[no-untyped-def]
    cols = iris.arange(0, BLOCK)
    x = iris.load(X + iris.program_id(0) * N + cols, mask=cols < N)
    e = iris.exp(x - iris.max(x))
    iris.store(Out + iris.program_id(0) * N + cols, e / iris.sum(e), mask=cols < N)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "double.iris"
    path.write_text(TILE)
    return path


def out_of(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["emit", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def test_tile_ir_is_lowered(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    msl = out_of(capsys, file)
    assert msl.startswith("#include <metal_stdlib>\n")
    assert "kernel void double_" in msl  # `double` is a word of the language
    assert "x + x" in msl


def test_what_it_costs(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = out_of(capsys, "--estimate", file).splitlines()
    assert lines[0].startswith("@double: 1 programs of ")
    assert lines[1].startswith("a program: 64 flops, ")
    assert [line.split()[0] for line in lines[2:]] == [
        "chip",
        *[f"apple-m{n}" for n in range(1, 6)],
    ]


def test_metal_ir_is_emitted_as_it_stands(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    msl = out_of(capsys, file)
    file.write_text(str(run(parse(TILE), METAL_PIPELINE)))
    assert out_of(capsys, file) == msl


def test_all_kernels_of_a_graph(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(GRAPH)
    msl = out_of(capsys, file)
    names = re.findall(r"^kernel void (\w+)\(", msl, re.MULTILINE)
    assert len(names) == len(kernels_of(entry_of(run(parse(GRAPH), GRAPH_PIPELINE)))) == 2
    assert out_of(capsys, "--estimate", file).count(" programs of ") == 2
    file.write_text(str(run(parse(GRAPH), GRAPH_PIPELINE)))
    assert out_of(capsys, file) == msl


def test_passes_take_the_place_of_the_usual_ones(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    usual = str(METAL_PIPELINE)
    assert out_of(capsys, file, "--passes", usual) == out_of(capsys, file)
    wide = usual.replace("choose-simdgroups", "choose-simdgroups{count=4}")
    assert "threads_per_threadgroup(128)" in out_of(capsys, file, "--passes", wide)


def test_one_function_of_several(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    msl = out_of(capsys, file)
    file.write_text(TILE + OTHER)
    assert out_of(capsys, file, "--entry", "@double") == msl
    assert "kernel void other(" in out_of(capsys, file, "--entry", "other")


def test_standard_input_and_output_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(TILE.encode())))
    output = tmp_path / "double.metal"
    assert out_of(capsys, "-o", output) == ""
    assert "kernel void double_" in output.read_text()


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        (TILE + OTHER, [], "name one function with --entry; there are @double, @other"),
        (TILE, ["--entry", "@twice"], "no function is called @twice; there are @double"),
        ("", [], "the text has no function"),
        (TILE, ["--passes", "dce"], "@double is at the tile level, after the passes 'dce'"),
        (TILE, ["--passes", "nope"], "no pass is called 'nope'"),
        ("func metal @f() {\n  return\n}\n", [], "how many simdgroups run the kernel"),
        (
            GRAPH,
            ["--passes", "cse"],
            "lead to Metal IR from there are schedule,graph-to-tile,follow-masks",
        ),
        (
            "func metal @f simdgroups=1(%x: regs<2xf32>) {\n  return\n}\n",
            [],
            "a kernel takes no regs<1x2xf32>",
        ),
        (
            f"func metal @f simdgroups=1({', '.join(f'%{n}: ptr<f32>' for n in range(40))}) {{\n"
            "  return\n}\n",
            [],
            "@f takes 40 arrays, 10 more than fit beside the scalars",
        ),
        ("func tile @f() {\n", [], "--> "),
    ],
)
def test_errors(
    file: Path,
    capsys: pytest.CaptureFixture[str],
    text: str,
    arguments: list[str],
    message: str,
) -> None:
    file.write_text(text)
    assert main(["emit", str(file), *arguments]) == 1
    error = capsys.readouterr().err
    assert error.startswith("iris: error: ")
    assert message in error
    assert "Traceback" not in error


def test_another_target(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tile = "tile<128x128xf32>"
    large = f"""
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
    file.write_text(large)
    assert main(["emit", str(file)]) == 1
    assert "bytes of threadgroup memory" in capsys.readouterr().err
    # One with more threadgroup memory.
    assert "threadgroup float" in out_of(capsys, file, "--target", "nvidia-h200")
    monkeypatch.setenv("IRIS_TARGET", "nvidia-h200")
    assert "threadgroup float" in out_of(capsys, file)
    assert main(["emit", str(file), "--target", "h200"]) == 1
    assert "no target is called 'h200'; there are apple-m1, " in capsys.readouterr().err
