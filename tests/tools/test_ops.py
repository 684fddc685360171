"""`iris ops`, from the shell's side."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import iris
from iris.ir.core import OPS
from iris.tools.cli import main

LINE = re.compile(
    r"(?P<what>.+?)  +(?P<name>\S+)  +(?P<path>\S+):(?P<line>\d+)(  of (?P<base>\S+))?"
)


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert main(["ops", *arguments]) == 0
    return capsys.readouterr().out.splitlines()


def test_every_op_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    listed = {line.split()[0] for line in said(capsys) if line.startswith("  ")}
    assert listed == set(OPS)


def test_an_op_is_shown_by_its_form_its_words_and_its_fields(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = said(capsys, "tile.load")
    assert lines[0].startswith("%result = tile.load %base, %offset, [mask=%mask]")
    assert "`base` is a pointer" in lines[-1] and "reads base" in lines[-1]


@pytest.mark.parametrize("name", ["tile.reduce", "exp", "for", "graph.matmul", "metal.shuffle_xor"])
def test_each_rule_stands_where_it_is_said_to(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = [m for m in map(LINE.fullmatch, said(capsys, "--facets", name)) if m is not None]
    assert len(rules) > 4
    root = Path(iris.__file__).parents[1]
    for rule in rules:
        lines = (root / rule["path"]).read_text(encoding="utf-8").splitlines()
        code = "\n".join(lines[int(rule["line"]) - 1 :][:20])
        shown = "lambda" if rule["name"] == "<lambda>" else f"def {rule['name']}("
        assert shown in code, rule[0]


def test_what_an_op_inherits_names_the_base(capsys: pytest.CaptureFixture[str]) -> None:
    rules = [m for m in map(LINE.fullmatch, said(capsys, "--facets", "exp")) if m is not None]
    by_what = {rule["what"]: rule for rule in rules}
    assert by_what["lowering"]["base"] == "iris.ir.math.Elementwise"
    assert by_what["NumPy function"]["base"] is None


@pytest.mark.parametrize(
    "arguments, message",
    [(["no.op"], "there is no op no.op; `iris ops` lists all"), (["--facets"], "wants the name")],
)
def test_mistakes(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", *arguments]) == 1
    assert message in capsys.readouterr().err
