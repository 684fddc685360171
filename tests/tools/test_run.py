# ruff: noqa: E501  (IR text)
"""`iris run`, and the header that says how to launch a file."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from iris.errors import ParseError
from iris.tools.cli import main
from iris.tools.replay import Program

TEXT = """\
# A kernel, and a launch of it.
# entry: @scale
# grid: 4, 1, 1
# argument %X: f32[2, 8] seed=3 range=[-4, 4]
# argument %Y: f32[8] alias=%X at=8
# argument %B: bf16[4] data=[1.5, nan]
# argument %U: f16[4] seed=1 range=[0.0, 1.0]
# argument %Z: i8[4]
# argument %n: 8

func tile @scale(%X: ptr<f32>, %Y: ptr<f32>, %B: ptr<bf16>, %U: ptr<f16>, %Z: ptr<i8>, %n: i32) {
  %p: i32 = tile.program_id 0
  %x: f32 = tile.load %X, %p
  %y: f32 = add %x, %x
  tile.store %Y, %p, %y
  %b: bf16 = tile.load %B, %p
  %c: bf16 = neg %b
  tile.store %B, %p, %c
  tile.print "row" %n
  return
}

func tile @other() {
  return
}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "scale.iris"
    path.write_text(TEXT)
    return path


def test_arguments_are_made() -> None:
    program = Program.parse(TEXT)
    assert program.grid == (4, 1, 1)
    x, y, b, u, z, n = program.make_arguments()
    assert x.shape == (2, 8)
    assert x.dtype == np.float32
    assert (x == np.round(x)).all()
    assert {x.min(), x.max()} <= set(range(-4, 5))
    assert np.shares_memory(x, y)
    assert (y == x[1]).all()
    assert b.tolist() == [0x3FC0, 0x7FC0, 0x3FC0, 0x7FC0]
    assert ((u >= 0) & (u <= 1)).all()
    assert (u != np.round(u)).any()
    assert z.tolist() == [0, 0, 0, 0]
    assert n == 8
    assert (program.make_arguments(seed=1)[0] != x).any()
    assert (program.make_arguments()[0] == x).all()


def test_the_header_is_read_as_it_is_written() -> None:
    again = str(Program.parse(TEXT))
    assert again == TEXT.split("\n", 1)[1]
    assert str(Program.parse(again)) == again


@pytest.mark.parametrize(
    ("recipe", "dtype"),
    [
        ("i64[9] seed=1 range=[-9223372036854775808, 9223372036854775807]", "i64"),
        ("u64[9] seed=1 range=[0, 18446744073709551615]", "u64"),
        ("bool[9] seed=1", "bool"),
        ("bool[3] data=[true, false]", "bool"),
        ("bf16[9] seed=1 range=[-0.5, 2.0]", "bf16"),
        ("f32[2, 0, 3] data=[-0.0, inf]", "f32"),
        ("f32[] data=[1.0]", "f32"),
    ],
)
def test_recipes(recipe: str, dtype: str) -> None:
    func = f"func tile @f(%A: ptr<{dtype}>) {{\n  return\n}}\n"
    text = f"# entry: @f\n# grid: 1, 1, 1\n# argument %A: {recipe}\n\n{func}"
    program = Program.parse(text)
    assert str(program) == text
    program.launch(program.make_arguments())


def test_written_arrays_are_shown(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == [f"row[program ({p},0,0)] 8" for p in range(4)]
    # %X is not written, though its memory is.
    x = np.array(Program.parse(TEXT).make_arguments()[0])
    shown = [f"{2 * v:.1f}" for v in x[0, :4]] + [f"{v:.1f}" for v in x[1, 4:]]
    pattern = r"%Y: f32\[8\]  crc [0-9a-f]{8}  \[" + re.escape(", ".join(shown)) + r"\]"
    assert re.fullmatch(pattern, lines[4])
    assert re.fullmatch(r"%B: bf16\[4\]  crc [0-9a-f]{8}  \[-1.5, nan, -1.5, nan\]", lines[5])
    assert len(lines) == 6


def test_a_whole_array_is_shown(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(file), "--print", "%X", "--print", "B"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^%X = \[\[.*\],\n \[.*\]\]$", out, re.MULTILINE)
    assert "%B = [-1.5, nan, -1.5, nan]\n" in out
    assert "%B: " not in out


def test_seeds_change_the_data(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = []
    for arguments in ([], ["--seed", "0"], ["--seed", "5"]):
        assert main(["run", str(file), *arguments]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1] != shown[2]


def test_passes_run_first(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["run", str(file)])
    plain = capsys.readouterr().out
    assert main(["run", str(file), "--passes", "fold,cse,licm,dce"]) == 0
    assert capsys.readouterr().out == plain


METAL = """\
# grid: 2
# argument %X: i32[128] seed=1
# argument %Y: i32[128]
func metal @mirror simdgroups=2(%X: ptr<i32, noalias>, %Y: ptr<i32, noalias>) {
  %lane: i32 = metal.lane
  %simdgroup: i32 = metal.simdgroup
  %row: i32 = metal.threadgroup_id 0
  %c32: i32 = constant 32
  %c64: i32 = constant 64
  %c63: i32 = constant 63
  %0: i32 = mul %simdgroup, %c32
  %thread: i32 = add %0, %lane
  %1: i32 = mul %row, %c64
  %at: i32 = add %1, %thread
  %shared: threadgroup<64xi32> = metal.alloc
  %x: i32 = metal.load %X, %at
  metal.store %shared, %thread, %x
  metal.barrier threadgroup
  %other: i32 = sub %c63, %thread
  %y: i32 = metal.load %shared, %other
  metal.store %Y, %at, %y
  return
}
"""


def test_metal_ir_runs(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(METAL)
    x = Program.parse(METAL).make_arguments()[0].reshape(2, 64)
    shown = []
    for options in ([], ["--interleave", "1"], ["--device", "interp:metal"]):
        assert main(["run", str(file), *options]) == 0
        shown.append(capsys.readouterr().out)
    assert shown == shown[:1] * 3
    assert shown[0].startswith("%Y: i32[128]  crc ")
    assert str(x[:, ::-1].reshape(-1)[:8].tolist())[1:-1] in shown[0]


def test_counters_are_shown(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(METAL)
    assert main(["run", str(file), "--counters"]) == 0
    out = capsys.readouterr().out
    assert "device loads        512 bytes by 4 instructions, 4 lines (4 compulsory)\n" in out
    assert "barriers            threadgroup 2\n" in out
    assert "shuffles            none\n" in out


def test_races_of_threads_are_reported(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(METAL.replace("  metal.barrier threadgroup\n", ""))
    assert main(["run", str(file)]) == 1
    error = capsys.readouterr().err
    assert "thread 0 (simdgroup 0, lane 0) reads element 63 of shared" in error
    assert f"at {file}:19" in error


def test_tile_ir_runs_as_metal_ir(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(TEXT[: TEXT.index("func tile @other")])
    shown = []
    for device in ("interp", "interp:metal"):
        assert main(["run", str(file), "--device", device]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]


def test_a_program_error(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(TEXT.replace("grid: 4", "grid: 5"))
    assert main(["run", str(file)]) == 1
    error = capsys.readouterr().err
    assert "iris: error: index 4 is outside B, which has 4 elements, in program (4, 0, 0)" in error
    assert f"at {file}:16" in error


def test_a_file_without_a_header(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bare = TEXT[TEXT.index("func") :]
    file.write_text(bare)
    assert main(["run", str(file)]) == 1
    error = capsys.readouterr().err
    assert "the file does not say how to launch it; one for it is" not in error
    assert "does not say how to launch it; this would:" in error
    # What the error suggests does.
    header = "\n".join(re.findall(r"^# .*$", error, re.MULTILINE))
    file.write_text(f"{header}\n{bare}")
    assert main(["run", str(file)]) == 0


@pytest.mark.parametrize(
    ("old", "new", "message", "spot"),
    [
        ("@scale\n", "@scales\n", "expected @scale or @other, found '@scales'", "2:10"),
        ("# entry: @scale\n", "", "must name the entry: there are 2", "1:1"),
        ("# entry: @scale\n", "# entry: @scale\n# entry: @scale\n", "two lines for", "3:8"),
        ("# grid: 4, 1, 1\n", "", "no line for the grid", "1:1"),
        ("4, 1, 1", "4, 0, 1", "the number is out of range: 1 to", "3:12"),
        ("4, 1, 1", "4, 1, 1, 1", "expected the end of the line, found ','", "3:16"),
        ("4, 1, 1", "four", "expected a number of programs, found 'four'", "3:9"),
        ("grid:", "grid", "expected ':', found '4'", "3:8"),
        ("# argument %n: 8\n", "", "no line for the argument %n", "1:1"),
        ("argument %n", "argument %m", "expected a parameter of the entry (%X, ", "9:12"),
        ("argument %n: 8", "argument %n: 8.5", "expected an integer of i32", "9:16"),
        ("argument %Z", "argument %X", "%X has two lines", "8:12"),
        ("f32[2, 8]", "f16[2, 8]", "expected an array, such as f32[64], found 'f16'", "4:19"),
        ("f32[2, 8]", "f32[2, -8]", "the number is out of range", "4:23"),
        ("seed=3", "sed=3", "expected one of seed, range, data, alias, at, found 'sed'", "4:26"),
        ("seed=3 ", "", "range goes after seed", "4:26"),
        ("seed=3", "seed=3 seed=4", "seed does not go with seed", "4:33"),
        ("range=[-4, 4]", "range=[4, -4]", "its least and its greatest number", "4:39"),
        ("range=[-4, 4]", "range=[nan, 4]", "its least and its greatest number", "4:39"),
        ("range=[-4, 4]", "range=[0, inf]", "its least and its greatest number", "4:39"),
        ("range=[-4, 4]", "data=[1.0]", "data does not go with seed", "4:33"),
        ("alias=%X", "alias=%B", "expected an array that has a line above", "5:29"),
        ("at=8", "at=9", "17 elements do not lie in 16", "5:36"),
        ("alias=%X at=8", "at=8", "at goes after alias", "5:23"),
        ("data=[1.5, nan]", "data=[]", "data is at least one number", "6:29"),
        ("data=[1.5, nan]", "data=[1.5, nan", "expected ','", "6:38"),
    ],
)
def test_errors_point_at_the_line(old: str, new: str, message: str, spot: str) -> None:
    assert old in TEXT
    with pytest.raises(ParseError) as caught:
        Program.parse(TEXT.replace(old, new, 1), "scale.iris")
    assert message in str(caught.value)
    assert f"--> scale.iris:{spot}\n" in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--print", "q"], "--print: no array is called %q; there are %X, %Y, %B, %U, %Z"),
        (["--seed", "-1"], "--seed is 0 or greater, not -1"),
        (["--passes", "nope"], "no pass is called 'nope'"),
        (["--interleave", "-1"], "--interleave is 0 or greater, not -1"),
        (["--interleave", "1"], "--interleave is for Metal IR"),
        (["--counters"], "--counters is for Metal IR; add --device interp:metal to lower to it"),
    ],
)
def test_bad_options(
    file: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["run", str(file), *arguments]) == 1
    assert message in capsys.readouterr().err


GRAPH = """\
# entry: @total
# argument %x: f32[2, 3] data=[1.0, 2.0]
# argument %none: i8[0]
# argument %b: bf16[] data=[0.5]

func graph @total returns=[tensor<2xf32>, tensor<0xi8>, tensor<bf16>](%x: tensor<2x3xf32>, %none: tensor<0xi8>, %b: tensor<bf16>) {
  %y: tensor<2xf32> = graph.reduce sum [1] %x
  return %y, %none, %b
}
"""


def test_what_a_graph_returns_is_shown(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(GRAPH)
    devices = [["--device", "interp"], ["--device", "interp:metal"]]
    for options in ([], ["--passes", "canonicalize,fold,cse,dce"], *devices):
        assert main(["run", str(file), *options]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert [re.sub("crc [0-9a-f]{8}", "crc", line) for line in lines] == [
            "returned[0]: f32[2]  crc  [4.0, 5.0]",
            "returned[1]: i8[0]  crc  []",
            "returned[2]: bf16[]  crc  [0.5]",
        ]
    assert main(["run", str(file), "--print", "%x", "--print", "returned[0]"]) == 0
    out = capsys.readouterr().out
    assert "%x = [[1.0, 2.0, 1.0],\n [2.0, 1.0, 2.0]]\n" in out
    assert "returned[0] = [4.0, 5.0]\n" in out
    assert str(Program.parse(GRAPH)) == GRAPH


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("# entry: @total", "# grid: 1", "@total is a graph, which has no grid"),
        ("f32[2, 3] data", "f32[6] data", "the array must be f32[2, 3]"),
        ("f32[2, 3] data", "f16[2, 3] data", "expected an array, such as f32[2, 3]"),
        ("# argument %b: bf16[] data=[0.5]", "", "# argument %b: bf16[] seed=0 range=[-4, 4]"),
    ],
)
def test_mistakes_about_graphs(old: str, new: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        Program.parse(GRAPH.replace(old, new, 1))
    assert message in str(caught.value)
    assert "grid:" not in str(caught.value).partition("would:")[2]


@pytest.mark.parametrize(("level", "more"), [("tile", ""), ("metal", " simdgroups=1,")])
def test_a_grid_that_the_function_fixes_is_the_only_one(level: str, more: str) -> None:
    text = f"# grid: 2, 3\n\nfunc {level} @f{more} grid=[2, 3, 1]() {{\n  return\n}}\n"
    assert Program.parse(text).grid == (2, 3, 1)
    for other in ("2, 2", "3, 3, 1", "2, 3, 2"):
        with pytest.raises(ParseError, match="the grid of @f is 2, 3, 1") as caught:
            Program.parse(text.replace("# grid: 2, 3", f"# grid: {other}"))
        assert (caught.value.spot.line, caught.value.spot.column) == (1, 9)


def test_a_graph_stays_one(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start = GRAPH.index("func")
    whole = "func graph @total returns=[tensor<2xf32>](%x: tensor<2x3xf32>) {\n"
    body = "  %y: tensor<2xf32> = graph.reduce sum [1] %x\n  return %y\n}\n"
    header = [
        line for line in GRAPH[:start].splitlines() if "none" not in line and "%b" not in line
    ]
    file.write_text("\n".join(header) + "\n" + whole + body)
    for options in ([], ["--device", "interp"]):
        assert main(["run", str(file), "--passes", "schedule,graph-to-tile", *options]) == 1
        assert "--device interp runs the kernels" in capsys.readouterr().err


def test_a_device_of_another_level(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(METAL)
    assert main(["run", str(file), "--device", "interp"]) == 1
    error = capsys.readouterr().err
    assert "@mirror is at the metal level; --device is one that takes the tile level" in error


def test_help_shows_a_header(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    assert "# argument %X: f32[8, 16] seed=3" in capsys.readouterr().out


def test_hypothesis_is_not_needed() -> None:
    filled = "[command.filled() for command in parsers()[1].values()]"
    found = "sys.exit('hypothesis' in sys.modules)"
    code = f"import sys; from iris.tools.cli import parsers; {filled}; {found}"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize("text", ["", "\n\n", "# grid: 1\n"])
def test_a_text_without_functions(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "none.iris"
    file.write_text(text)
    assert main(["run", str(file)]) == 1
    assert "the text has no function" in capsys.readouterr().err
