"""Files of IR: what the runner says, and that each pass has one in which it does something."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from iris.errors import FileError
from iris.passes import PASSES
from iris.passes.pipeline import Pass
from iris.tools.cli import main
from iris.tools.ir_cases import Case, cases, text_of

HERE = Path(__file__).parent
CSE = """\
# run: iris opt --passes cse

# Two equal ops become one.
func tile @twice(%Y: ptr<i32>) {
  %a: i32 = tile.program_id 0
  %b: i32 = tile.program_id 0
  tile.store %Y, %a, %b
  return
}
"""
DONE = """
# becomes
func tile @twice(%Y: ptr<i32>) {
  %a: i32 = tile.program_id 0
  tile.store %Y, %a, %a
  return
}
"""


OURS = [cls for cls in PASSES.values() if cls.__module__.startswith("iris.passes.")]


@pytest.mark.parametrize("cls", OURS, ids=lambda cls: cls.name)
def test_each_pass_has_a_file_that_shows_what_it_does(cls: type[Pass]) -> None:
    room = "generic" if cls.level is None else cls.level.value
    path = HERE / room / f"{cls.name}.iris"
    assert path.exists(), "no file shows what it does"
    found = cases(path.read_text(encoding="utf-8"))
    assert any(c.after != Case("opt", c.before, "").made(main) for c in found), "it changes nothing"
    assert all(c.title for c in found)


def test_a_file_is_read_and_written_alike() -> None:
    for path in HERE.rglob("*.iris"):
        text = path.read_text(encoding="utf-8")
        assert text_of(cases(text)) == text, path


def test_a_message_is_what_comes_out() -> None:
    (case,) = cases(CSE.replace("tile.program_id 0", "tile.program_id 7"))
    assert "error: the number is out of range" in case.made(main)


def test_no_command_is_an_error() -> None:
    with pytest.raises(FileError, match="no line says what runs"):
        cases("func tile @nothing() {\n  return\n}\n")


def test_bless_writes_what_comes_out(tmp_path: Path) -> None:
    option = """
def pytest_addoption(parser):
    parser.addoption("--bless", action="store_true")
"""
    collector = (HERE / "conftest.py").read_text(encoding="utf-8")
    (tmp_path / "conftest.py").write_text(collector + option, encoding="utf-8")
    file = tmp_path / "cse.iris"
    file.write_text(CSE, encoding="utf-8")

    def tested(*options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "."]
        paths = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])
        environ = {**os.environ, "PYTHONPATH": paths}
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environ)

    failed = tested()
    assert failed.returncode == 1
    assert "+  tile.store %Y, %a, %a" in failed.stdout and "--bless" in failed.stdout
    assert tested("--bless").returncode == 0
    assert file.read_text(encoding="utf-8") == CSE + DONE
    assert tested().returncode == 0


def test_the_command_does_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "deep" / "cse.iris"
    file.parent.mkdir()
    file.write_text(CSE, encoding="utf-8")
    assert main(["test", str(tmp_path)]) == 1
    out, err = capsys.readouterr()
    assert out.startswith(f"{file}: Two equal ops become one\n--- expected")
    assert "+  tile.store %Y, %a, %a" in out
    assert err == "1 of 1 cases are different\n"
    assert file.read_text(encoding="utf-8") == CSE, "only --bless writes"
    assert main(["test", "--bless", str(tmp_path)]) == 0
    assert file.read_text(encoding="utf-8") == CSE + DONE
    assert main(["test", str(file), str(HERE / "generic")]) == 0
    assert capsys.readouterr().out == ""


def test_the_command_says_what_it_cannot_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["test", str(tmp_path)]) == 1
    assert "has no files that end in .iris" in capsys.readouterr().err
    assert main(["test", str(tmp_path / "none.iris")]) == 1
    assert "cannot read" in capsys.readouterr().err
    assert main(["test", "--bless", "-"]) == 1
    assert "standard input is none" in capsys.readouterr().err
    file = tmp_path / "f.iris"
    file.write_text("func tile @nothing() {\n  return\n}\n", encoding="utf-8")
    assert main(["test", str(file)]) == 1
    assert f"{file}: no line says what runs" in capsys.readouterr().err
    file.write_text(CSE.replace("opt --passes", "opt --pass"), encoding="utf-8")
    assert main(["test", str(file)]) == 1
    assert "unrecognized arguments" in capsys.readouterr().out, "what is wrong is what comes out"
