"""`iris step`: what it stops at, what it shows, and that it shows what the interpreter computes."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from iris.interp.observer import Observer
from iris.ir import Level, tile
from iris.ir.core import Op
from iris.ir.effects import asks_others
from iris.tools import step_recorder
from iris.tools.cli import main
from iris.tools.replay import Program
from iris.tools.run import for_level
from races import RACE, TILE_RACE
from shown_stores import Stores, ThreadStores, remaking_arrays
from support import ARRAY_EXAMPLES, EXAMPLES, ROOT, load

OF_KERNELS = [example for example in EXAMPLES if example not in ARRAY_EXAMPLES]

LOOP = """\
# grid: 2, 2, 1
# argument %X: f32[8] data=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
func tile @loop(%X: ptr<f32>) {
  %p: i32 = tile.program_id 1
  %c0: i32 = constant 0
  %c1: i32 = constant 1
  %c3: i32 = constant 3
  %zero: f32 = constant 0.0
  %sum: f32 = for %c0, %c3, %c1 (%i: i32, %acc: f32 = %zero) {
    %x: f32 = tile.load %X, %i at "sum.py":7
    %next: f32 = add %acc, %x at "sum.py":7
    yield %next
  }
  %q: i32 = tile.program_id 0
  %at: i32 = add %p, %q
  return
}
"""


class Steps:
    """Runs `iris step` on a text, with commands, and keeps what it says."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ):
        self.file = folder / "kernel.iris"
        self.monkeypatch, self.capsys = monkeypatch, capsys

    def __call__(self, text: str, commands: Sequence[str], *arguments: str) -> str:
        self.file.write_text(text)
        self.monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(commands)))
        self.status = main(["step", str(self.file), *arguments])
        said = self.capsys.readouterr()
        self.error = said.err
        return said.out


@pytest.fixture
def steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Steps:
    return Steps(tmp_path, monkeypatch, capsys)


def test_steps_show_what_each_op_gives(steps: Steps) -> None:
    out = steps(LOOP, ["step 2", "s", "quit"], "--program", "1,1")
    assert [line for line in out.splitlines() if line.startswith("  %")] == [
        "  %p = 1",
        "  %c0 = 0",
        "  %c1 = 1",
    ]
    assert steps.status == 0


def test_breakpoints_on_lines_of_the_listing_and_of_python(steps: Steps) -> None:
    out = steps(
        LOOP, ["break 8", "c", "print %i", "p acc", "c", "p %acc", "d 8", "b sum.py:7", "c"]
    )
    assert out.count("breakpoint 8\n") == 2
    assert "%i = 0\n%acc = 0.0\n" in out
    assert "%acc = 1.0\n" in out
    assert "breakpoint sum.py:7\n" in out
    assert steps.status == 0


def test_a_line_of_python_stops_once_for_all_its_ops(steps: Steps) -> None:
    out = steps(LOOP, ["b sum.py:7", "c", "p %i", "c", "p %i", "c", "p %i", "c"])
    assert out.count("breakpoint sum.py:7\n") == 3
    assert out.count("    8   %x: f32 = tile.load %X, %i\n") == 3
    assert "%i = 0\n" in out
    assert "%i = 2\n" in out


def test_a_watched_value_stops_where_it_changes(steps: Steps) -> None:
    out = steps(LOOP, ["watch %acc", "c", "c", "p %i", "watch %X[2]", "values", "c"])
    assert [line for line in out.splitlines() if line.startswith("changed")] == [
        "changed: %acc = 1.0",
        "changed: %acc = 3.0",
    ]
    assert "%i = 2" in out
    assert "%X = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]" in out


def test_a_store_is_seen_in_a_watched_element(steps: Steps) -> None:
    program = (ROOT / "tests/programs/write-after-read.iris").read_text()
    out = steps(program, ["watch %X[130]", "p %X[130]", "c", "where"], "--program", "1")
    x = Program.parse(program).make_arguments()[0]
    old, new = [line for line in out.splitlines() if "%X[130] = " in line]
    assert old == f"%X[130] = {x[130]}"
    assert new == f"changed by this op: %X[130] = {x[253]}"


def test_other_programs_and_threads(steps: Steps) -> None:
    out = steps(LOOP, ["b 12", "c", "s", "program 1,1", "p %q", "list", "list all", "where", "c"])
    assert "  %q = 0\n" in out
    assert "%q = 1\n" in out
    assert "program (1, 1, 0)\n" in out
    assert "   13->   %at: i32 = add %p, %q" in out
    out = steps(RACE, ["b 11", "c", "p %t", "thread 5", "p %t"], "--thread", "37")
    assert "%t = 37\n%t = 5\n" in out


def test_it_stops_at_a_race_with_the_lines_of_both(steps: Steps) -> None:
    out = steps(RACE, ["c", "p %other", "p %s[63]", "where"])
    assert "thread 0 (simdgroup 0, lane 0) reads element 63 of s, which thread 63" in out
    assert "  at race.py:4\n  at race.py:3\n" in out
    assert "%other = 63\n%s[63] = 1.0\n" in out
    assert steps.status == 1
    steps(RACE, [])
    assert steps.status == 1, "also without a command"


def test_it_stops_at_a_race_among_programs(steps: Steps) -> None:
    out = steps(TILE_RACE, ["c", "p %other"])
    assert "program (0, 0, 0) reads element 1 of X, which program (1, 0, 0) writes" in out
    assert "  at race.py:4\n  at race.py:3\n" in out
    assert "%other = 1\n" in out
    assert steps.status == 1


def test_a_masked_element_does_not_count(steps: Steps) -> None:
    text = """\
# grid: 1
# argument %X: f32[4] data=[1.0, 2.0, 3.0, 4.0]
func tile @masked(%X: ptr<f32>) {
  %i: tile<4xi32> = tile.arange 0
  %c3: tile<4xi32> = constant 3
  %m: tile<4xbool> = compare lt %i, %c3
  %x: tile<4xf32> = tile.masked_load %X, %i, %m
  return
}
"""
    out = steps(text, ["s 4"])
    assert "%m = [true, true, true, false]" in out
    assert "%x = [1.0, 2.0, 3.0, --]" in out


def test_a_program_that_ends_shows_what_it_wrote(steps: Steps) -> None:
    program = (ROOT / "tests/programs/write-after-read.iris").read_text()
    assert "%X: f32[384]" in steps(program, ["c"])
    assert "%X: f32[384]" in steps(program, ["c"], "--metal", "--passes", "fold,cse")


@pytest.mark.parametrize(
    ("commands", "arguments", "message"),
    [
        (["nope"], [], "there is no command nope; `help` lists them"),
        (["print %nope"], [], "no value is called %nope; `list` shows the program"),
        (["print %X[8]"], [], "there is no element 8: there are 8"),
        (["break 99"], [], "no op is at 99"),
        (["break"], [], "a number is wanted, not ''"),
        (["step x"], [], "a number is wanted, not 'x'"),
        (["delete 3"], [], "nothing stops at 3"),
        (["thread 1"], [], "there is no thread 1: a program is one thread"),
        (["program 2"], [], "there is no program (2, 0, 0): the grid is (2, 2, 1)"),
        ([], ["--program", "1,2,3,4"], "a program is one to three numbers, such as 1,0"),
        ([], ["--metal", "--thread", "32"], "there is no thread 32: a program has threads 0 to 31"),
    ],
)
def test_what_means_nothing(
    steps: Steps, commands: list[str], arguments: list[str], message: str
) -> None:
    steps(LOOP, commands, *arguments)
    assert message in steps.error
    assert steps.status == 1


def test_what_cannot_be_stepped_through(steps: Steps, capsys: pytest.CaptureFixture[str]) -> None:
    steps("# argument %x: f32[2]\nfunc graph @f(%x: tensor<2xf32>) {\n  return\n}\n", [])
    assert "a graph has no programs to step through" in steps.error
    assert main(["step", "-"]) == 1
    assert "standard input is for commands" in capsys.readouterr().err


def test_help_lists_every_command(steps: Steps) -> None:
    out = steps(LOOP, ["help", "help watch", "q"])
    assert {"break", "continue", "print", "step", "watch"} <= {*out.split()}
    assert "EOF" not in out
    assert "watch %x | %X[3]: stop when a value changes" in out


# A recorded run.


def page_data(file: Path) -> Any:
    (part,) = json.loads(file.read_text().split('id="data">')[1].split("</script>")[0])["parts"]
    return part


@pytest.mark.parametrize("name", ["loop", "carried-rotation"])
def test_a_recorded_run_is_what_steps_show(steps: Steps, tmp_path: Path, name: str) -> None:
    text, arguments = LOOP, ["--program", "1,1"]
    if name != "loop":
        text, arguments = (ROOT / f"tests/programs/{name}.iris").read_text(), ["--thread", "5"]
    shown = steps(text, ["step 9999"], *arguments)
    page = tmp_path / "run.html"
    assert steps(text, [], "--html", str(page), *arguments) == ""
    part = page_data(page)
    run, lines = part["run"], part["texts"][0]["lines"]
    assert run["error"] is None and run["leftOut"] == 0
    given = re.findall(r"^  (%\w+) = ([^\[\n]+)$", shown, re.MULTILINE)  # numbers
    assert len(given) > 5
    for value in {value for value, _ in given}:
        (defined,) = [
            n for n, line in enumerate(lines) if re.match(rf"\s*(%\w+: \S+, )*{value}: ", line)
        ]
        recorded = run["values"][value]
        assert [text for _, text in recorded] == [text for v, text in given if v == value]
        if not lines[defined].endswith("{"):
            # Each is there from the step after the one at which its line is next.
            assert [step - 1 for step, _ in recorded] == [
                n for n, line in enumerate(run["lines"]) if line == defined
            ]


def test_a_recorded_run_that_is_long_is_cut(
    steps: Steps, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_recorder, "ROOM", 100)
    page = tmp_path / "run.html"
    steps(LOOP, [], "--html", str(page))
    run = page_data(page)["run"]
    assert 0 < len(run["lines"]) < 14 and len(run["lines"]) + run["leftOut"] == 14


def test_a_recorded_run_that_fails(steps: Steps, tmp_path: Path) -> None:
    page = tmp_path / "run.html"
    steps(RACE, [], "--html", str(page), "--thread", "37")
    assert steps.status == 1
    run = page_data(page)["run"]
    assert run["where"] == "program (0, 0, 0), thread 37"
    assert "at race.py:4" in run["error"] and "at race.py:3" in run["error"]
    assert page_data(page)["texts"][0]["lines"][run["lines"][-1]].strip().startswith("%y: f32")


# What an observer is told is what the interpreter computes.


def launches() -> list[Path]:
    """Programs whose arrays all change by plain stores, and are apart."""
    found = []
    for file in sorted((ROOT / "tests/programs").glob("*.iris")):
        program = Program.parse(file.read_text(), file.name)
        ops = program.function.walk()
        if (
            program.function.function_level is Level.TILE
            and not any(map(asks_others, ops))
            and not any(isinstance(op, tile.Atomic) for op in ops)
            and not any("alias" in line for line in file.read_text().splitlines())
            and "bf16" not in file.read_text()
        ):
            found.append(file)
    return found


@pytest.mark.parametrize("level", [Level.TILE, Level.METAL])
def test_stores_are_those_of_the_interpreter(level: Level) -> None:
    files, count = launches(), 0
    assert len(files) > 10
    for file in files:
        program = Program.parse(file.read_text(), file.name)
        if level is Level.METAL:
            program = for_level(program, level)
        plain, seen, remade = (program.make_arguments() for _ in range(3))
        program.run(plain, output=lambda line: None)
        arrays = dict(zip(program.function.body.arguments, remade, strict=True))
        stores = Stores if level is Level.TILE else ThreadStores
        observer = stores(arrays, int(np.prod(program.grid)))
        program.run(seen, output=lambda line: None, observer=observer)
        count += observer.count
        for one, same, other in zip(plain, seen, remade, strict=True):
            np.testing.assert_array_equal(one, same, file.name)
            np.testing.assert_array_equal(one, other, file.name)
    assert count > 1000


@pytest.mark.parametrize("example", OF_KERNELS, ids=lambda path: path.stem)
def test_every_store_of_an_example_is_shown(example: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In Tile IR; tests that run the examples at other levels look on, too."""
    monkeypatch.setenv("IRIS_DEVICE", "interp")
    with remaking_arrays() as remade:
        load(example).main()
    # One runs no kernel, but passes.
    assert remade.count > 10 or example.stem == "first_ir"


class Counts(Observer):
    def __init__(self) -> None:
        self.begun = self.ended = 0

    def before(self, frame: Any, op: Op) -> None:
        self.begun += 1

    def after(self, frame: Any, op: Op, results: Sequence[Any]) -> None:
        self.ended += 1
        assert len(results) == len(op.results)


@pytest.mark.parametrize("name", ["atomics-in-order", "exchange-by-memory", "f16-sum"])
def test_an_observer_changes_nothing_at_either_level(name: str) -> None:
    file = ROOT / f"tests/programs/{name}.iris"
    program = Program.parse(file.read_text(), file.name)
    if program.function.function_level is Level.TILE:
        at_levels = [program, for_level(program, Level.METAL)]
    else:
        at_levels = [program]
    for at_level in at_levels:
        plain, seen, observer = at_level.make_arguments(), at_level.make_arguments(), Counts()
        at_level.run(plain, output=lambda line: None)
        at_level.run(seen, output=lambda line: None, observer=observer)
        for one, same in zip(plain, seen, strict=True):
            np.testing.assert_array_equal(one, same)
        assert observer.begun == observer.ended > 0
