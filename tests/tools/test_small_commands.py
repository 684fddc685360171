"""The commands that show one thing each: check, diff, passes, layout, devices, completion."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import iris
from iris.errors import ParseError
from iris.ir import parse, to_text
from iris.passes import PASSES, run
from iris.tools.cli import main, parsers
from iris.tools.colours import coloured
from support import ROOT

CORPUS = sorted((ROOT / "tests/programs").glob("*.iris"))
TEXT = """\
func graph @f returns=[f32](%x: f32) {
  %a: f32 = mul %x, %x
  %b: f32 = add %a, %x
  return %b
}
"""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.iris"
    path.write_text(TEXT)
    return path


def out_of(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    assert main(arguments) == status
    said = capsys.readouterr()
    return said.out if status == 0 else said.out + said.err


def test_opt_of_the_corpus_is_what_the_api_prints(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(CORPUS) > 40
    for program in CORPUS:
        text = program.read_text()
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        assert out_of(capsys, "opt") == to_text(parse(text))
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        passes = "canonicalize,cse,dce"
        assert out_of(capsys, "opt", "--passes", passes) == to_text(run(parse(text), passes))


# Check.


def test_check_says_nothing_of_what_is_right(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert out_of(capsys, "check", str(file), *map(str, CORPUS[:3])) == ""
    assert json.loads(out_of(capsys, "check", "--json", str(file))) == []


def test_check_points_at_each_mistake(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(TEXT.replace("%b: f32", "%b: f16"))
    said = out_of(capsys, "check", str(file), str(file), status=1)
    assert said.count(f"--> {file}:3:7\n") == 2
    (mistake,) = json.loads(out_of(capsys, "check", "--json", str(file), status=1))
    with pytest.raises(ParseError) as error:
        parse(file.read_text())
    assert mistake == {
        "file": str(file),
        "line": 3,
        "column": 7,
        "end_column": 10,
        "message": error.value.message,
    }
    assert "cannot read" in out_of(capsys, "check", str(file.parent / "missing"), status=1)


@pytest.mark.parametrize(
    ("wrong", "marked"),
    [
        ("  tile.store %X, %i, ^%i^", "value is i32 where f32 goes"),
        ("  %y: f32 = tile.^lod^ %X, %i", "expected an op"),
        ("  %y: ptr^f32^ = tile.load %X, %i", "expected"),
        ('  %y: f32 = tile.load %X, ^%z^ at "kernel.py":7', "%z"),
    ],
)
def test_check_marks_the_range_at_fault(
    wrong: str, marked: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, what, _ = wrong.split("^")
    start = "func tile @f(%X: ptr<f32>) {\n  %i: i32 = constant 0\n"
    file.write_text(start + wrong.replace("^", "") + "\n  return\n}\n")
    (mistake,) = json.loads(out_of(capsys, "check", "--json", str(file), status=1))
    assert marked in mistake["message"]
    columns = mistake["column"], mistake["end_column"]
    assert (mistake["line"], *columns) == (3, len(before) + 1, len(before) + len(what) + 1)


def test_check_marks_the_line_that_the_verifier_refuses(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = 'metal.barrier threadgroup at "kernel.py":7  # not where the mistake is'
    file.write_text(
        "func metal @f(%X: ptr<f32>) {\n  %lane: i32 = metal.lane\n  %zero: i32 = constant 0\n"
        "  %first: bool = compare eq %lane, %zero\n  if %first {\n"
        f"    {line}\n    yield\n  }} else {{\n    yield\n  }}\n  return\n}}\n"
    )
    (mistake,) = json.loads(out_of(capsys, "check", "--json", str(file), status=1))
    assert mistake["message"].startswith("metal.barrier: all threads of a threadgroup")
    columns = mistake["column"], mistake["end_column"]
    assert (mistake["line"], *columns) == (6, 5, 5 + len(line))


# Diff.


def test_names_and_comments_are_no_difference(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "b.iris"
    other.write_text("# another\n" + TEXT.replace("%a", "%first"))
    assert out_of(capsys, "diff", str(file), str(other)) == ""
    other.write_text(TEXT.replace("%a", "%first").replace("add", "sub"))
    lines = out_of(capsys, "diff", str(file), str(other), status=1).splitlines()
    assert lines[:2] == [f"--- {file}", f"+++ {other}"]
    changed = [line for line in lines[2:] if line[0] in "-+"]
    assert changed == ["-  %b: f32 = add %a, %x", "+  %b: f32 = sub %first, %x"]
    assert "only one of the two" in out_of(capsys, "diff", "-", "-", status=1)


# Passes.


def test_passes_are_listed_and_described(capsys: pytest.CaptureFixture[str]) -> None:
    listed = [line.split()[:2] for line in out_of(capsys, "passes").splitlines()]
    own = {name: cls for name, cls in PASSES.items() if cls.__module__.startswith("iris.")}
    for name, cls in own.items():
        assert [name, "any" if cls.level is None else cls.level.value] in listed
        described = out_of(capsys, "passes", name)
        assert described.startswith(f"{name}: ")
    described = out_of(capsys, "passes", "pipeline-loads")
    assert "  depth=none  (int | None)\n" in described
    assert "Options, as in pipeline-loads{target=" in described
    assert out_of(capsys, "passes", "--pipelines").startswith("graph   canonicalize,")
    assert "there is no pass nope" in out_of(capsys, "passes", "nope", status=1)


# Layout.


def test_layouts_are_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "linear<2x4, register=[(0,1)], lane=[(1,0), (0,2)], simdgroup=[]>"
    drawn = out_of(capsys, "layout", text)
    assert drawn.splitlines()[-1] == "1 T1:0 T1:1 T3:0 T3:1"
    laid_out = tmp_path / "laid_out.iris"
    program = ROOT / "tests/programs/write-after-read.iris"
    passes = ["--passes", "choose-simdgroups,assign-layouts"]
    assert main(["opt", *passes, str(program), "-o", str(laid_out)]) == 0
    drawn = out_of(capsys, "layout", "--value", "%x", str(laid_out))
    assert drawn.startswith("linear<128, register=")
    said = out_of(capsys, "layout", "--value", "%nope", str(laid_out), status=1)
    assert "no value %nope has a layout; those that have are %starts" in said
    said = out_of(capsys, "layout", "--value", "x", str(program), status=1)
    assert "none has: run assign-layouts first" in said
    assert "expected a layout" in out_of(capsys, "layout", "foo", status=1)
    assert "the end of the layout" in out_of(capsys, "layout", f"{text} more", status=1)


# Devices.


def test_devices_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    lines = out_of(capsys, "devices").splitlines()
    assert lines == [str(presence) for presence in iris.devices()]
    assert "interp: here" in lines


# Completion.


def test_bash_completes_commands_and_options(capsys: pytest.CaptureFixture[str]) -> None:
    script = out_of(capsys, "completion", "bash")

    def completed(*words: str) -> list[str]:
        line = " ".join(f"'{word}'" for word in words)
        asked = f"{script}\nCOMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _iris\n"
        asked += 'echo "${COMPREPLY[@]}"'
        done = subprocess.run(
            ["bash", "-c", asked], capture_output=True, text=True, check=True, cwd="/dev"
        )
        return done.stdout.split()

    assert completed("iris", "di") == ["diff"]
    assert completed("iris", "step", "--p") == ["--program", "--passes"]
    assert {"bash", "zsh", "fish"} <= {*completed("iris", "completion", "")}


def test_every_shell_knows_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    _, commands = parsers()
    for shell in ("bash", "zsh", "fish"):
        script = out_of(capsys, "completion", shell)
        assert all(re.search(rf"\b{name}\b", script) for name in commands)
        if shutil.which(shell):
            subprocess.run([shell, "-n"], input=script, text=True, check=True)


def test_every_command_shows_examples() -> None:
    _, commands = parsers()
    for name, command in commands.items():
        assert (command.filled().description or "").count(f"iris {name}") > 1, name


def test_only_the_command_that_is_used_is_imported() -> None:
    code = """
import sys
from iris.tools.cli import COMMANDS, main
assert main(["devices"]) == 0
others = [*(f"iris.tools.{name}" for name in {*COMMANDS} - {"devices"}), "iris.testing"]
sys.exit(str(there) if (there := {*others} & {*sys.modules}) else 0)
"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


# Colours.


def test_colours_are_for_terminals_that_want_them(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for stream, name, value, is_coloured in (
        (Terminal(), "TERM", "xterm", True),
        (Terminal(), "TERM", "dumb", False),
        (Terminal(), "NO_COLOR", "1", False),
        (io.StringIO(), "TERM", "xterm", False),
    ):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            patch.setattr("sys.stdout", stream)
            assert main(["opt", str(file)]) == 0
        assert ("\x1b[" in stream.getvalue()) is is_coloured
        assert re.sub(r"\x1b\[\d*m", "", stream.getvalue()) == TEXT


def test_what_is_coloured() -> None:
    line = '  %y: tile<4xf32> = tile.load %X, %i at "a.py":3  # why\n'
    words = re.findall(r"\x1b\[(\d+)m(.*?)\x1b\[0m", coloured(line, "iris"))
    assert ("36", "%y") in words
    assert ("34", "tile.load") in words
    assert ("35", "tile") in words
    assert ("32", '"a.py"') in words
    assert ("90", "# why") in words
    metal = "kernel void f(device const float2* x [[buffer(0)]]) {  // a\n"
    words = re.findall(r"\x1b\[(\d+)m(.*?)\x1b\[0m", coloured(metal, "metal"))
    assert [w for w in words if w[0] == "35"] == [("35", "void"), ("35", "float2")]
    assert ("33", "[[buffer(0)]]") in words
    assert ("90", "// a") in words


def test_a_terminal_shows_which_words_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the numbers of values, which differ, too."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    one, other = tmp_path / "a.iris", tmp_path / "b.iris"
    head, end = "func tile @f(%x: f32, %y: f32) {\n", "  return\n}\n"
    one.write_text(f"{head}  %0: f32 = neg %x\n  %1: f32 = add %0, %x\n{end}")
    other.write_text(
        f"{head}  %0: f32 = mul %y, %y\n  %1: f32 = neg %x\n  %2: f32 = sub %1, %y\n{end}"
    )
    assert main(["diff", str(one), str(other)]) == 1
    lines = terminal.getvalue().splitlines()
    changed = [re.findall(r"\x1b\[7m(.*?)\x1b\[27m", line) for line in lines]
    assert [words for words in changed if words] == [["add", "%x"], ["sub", "%y"]]
