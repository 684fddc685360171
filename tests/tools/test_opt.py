"""`iris opt`, from the shell's side."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import iris
from iris.ir import parse, to_text
from iris.passes import run
from iris.tools.cli import main

TEXT = """\
func tile @f(%x: f32, %X: ptr<f32>, %n: i32) {
  %a: f32 = mul %x, %x
  %b: f32 = mul %x, %x
  %c: f32 = add %a, %b
  tile.store %X, %n, %c
  return
}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "f.iris"
    path.write_text(TEXT)
    return path


def test_no_passes_print_the_canonical_form(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text("# a comment\n" + TEXT.replace("  ", "     "))
    assert main(["opt", str(file)]) == 0
    assert capsys.readouterr().out == TEXT


def test_passes_run(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", "--passes", "cse,dce", "--verify-each", str(file)]) == 0
    assert parse(capsys.readouterr().out) == run(parse(TEXT), "cse,dce")


def test_standard_input_and_output_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(TEXT.encode()))
    monkeypatch.setattr("sys.stdin", stdin)
    output = tmp_path / "out.iris"
    assert main(["opt", "-o", str(output)]) == 0
    assert output.read_text() == TEXT
    assert capsys.readouterr().out == ""


def test_locations_are_the_lines_of_the_file(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["opt", "--locations", str(file)])
    assert f'%a: f32 = mul %x, %x at "{file}":2' in capsys.readouterr().out


def test_timing(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", "--passes", "cse", "--timing", str(file)]) == 0
    assert "merged 1" in capsys.readouterr().err


def test_dumps_by_environment(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IRIS_DUMP", "changed")
    monkeypatch.setenv("IRIS_DUMP_DIR", str(tmp_path / "dumps"))
    assert main(["opt", "--passes", "licm,cse,dce", str(file), "-o", str(tmp_path / "o")]) == 0
    names = sorted(p.name for p in (tmp_path / "dumps").glob("f-*/*"))
    assert names == ["00-input.iris", "02-cse.iris", "manifest.json"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--passes", "nope"], "no pass is called 'nope'"),
        (["-o", "{tmp}/missing/out"], "cannot write"),
    ],
)
def test_errors_are_one_message_and_exit_code_1(
    file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    arguments = [a.replace("{tmp}", str(tmp_path)) for a in arguments]
    assert main(["opt", str(file), *arguments]) == 1
    error = capsys.readouterr().err
    assert error.startswith("iris: error: ")
    assert message in error
    assert "Traceback" not in error


def test_files_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", str(tmp_path / "missing.iris")]) == 1
    assert "cannot read" in capsys.readouterr().err
    (tmp_path / "bytes").write_bytes(b"func \xff")
    assert main(["opt", str(tmp_path / "bytes")]) == 1
    assert "is no UTF-8 text: byte 5 is 0xff" in capsys.readouterr().err


def test_a_parse_error_points_into_the_file(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(TEXT.replace("%c: f32", "%c: f16"))
    assert main(["opt", str(file)]) == 1
    error = capsys.readouterr().err
    assert f"{file}:4:7" in error


def test_a_bad_setting(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IRIS_DUMP", "everything")
    assert main(["opt", str(file)]) == 1
    assert (
        "IRIS_DUMP is changed, all, or some of graph, tile, metal, msl" in capsys.readouterr().err
    )


def test_wrong_usage_is_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["opt", "--pases", "cse"])
    assert caught.value.code == 2


def test_schedules_are_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By what each candidate costs, the reason why others are none, and the line of Python."""

    def shares(x: Any, w: Any) -> Any:
        y = x @ w
        e = np.exp(y - y.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    def explained(columns: int) -> tuple[str, str]:
        x, w = np.ones((512, 64), np.float32), np.ones((64, columns), np.float32)
        path = tmp_path / "shares.iris"
        path.write_text(to_text(iris.jit(shares).lower(x, w).traced, locations=True))
        passes = "simplify,fuse,schedule{explain=true}"
        assert main(["opt", "--passes", passes, "--target", "apple-m4", str(path)]) == 0
        return capsys.readouterr()

    line = shares.__code__.co_firstlineno + 3
    out, err = explained(64)
    head, *lines = err.splitlines()
    assert head == f"@shares_div at {__file__}:{line} on apple-m4:"
    (own,) = [n for n, text in enumerate(lines) if text.startswith("-> ")]
    assert f"schedule=[{lines[own].partition('[')[2]}" in out
    assert lines[own + 1].startswith("     limited by ")
    candidates = [text.partition("[")[0] for text in lines if text[3:].partition(" us, ")[1]]
    costs = [float(text[3:].split()[0]) for text in candidates]
    assert costs == sorted(costs) and len(costs) > 1
    assert any(text.startswith("   no room, ") for text in lines)
    reasons = [text.strip() for text in lines if text.startswith("     ")]
    assert "simdgroups would compute a part of a product twice" in reasons
    assert re.search(r"^     a thread would need \d+ registers$", explained(128)[1], re.MULTILINE)
    refused = [text for text in lines if text.startswith("   not with other axes: ")]
    assert len(refused) == len({*refused}) == 1
