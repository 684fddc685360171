"""Failures of passes of the user's own can be seen again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from iris.passes import Pass, Pipeline
from iris.passes.generic.fold import Fold
from iris.testing.report import modules_of

PASS = """\
from dataclasses import dataclass

from colours import Colour
from iris.ir.math import Sub
from iris.passes import Pass


@dataclass(frozen=True)
class SwapSubs(Pass):
    '''Swap the operands of subtractions, which is wrong.'''

    name = "swap-subs"
    colour: Colour = Colour.RED

    def run(self, module):
        for op in module.walk():
            if isinstance(op, Sub):
                op.set_operands((op.rhs, op.lhs))
"""
COLOURS = "from enum import Enum\n\nColour = Enum('Colour', {'RED': 'red', 'BLUE': 'blue'})\n"
TEST = """\
from iris.testing import preserves
from iris.tools.replay import Program
from my_passes import SwapSubs

preserves(SwapSubs(), Program.parse(open("f.iris").read()))
"""
TEXT = """\
# argument %x: f32[] data=[1.0]

func graph @f returns=[tensor<f32>](%x: tensor<f32>) {
  %c0: tensor<f32> = constant 0.0
  %y: tensor<f32> = sub %x, %c0
  return %y
}
"""


def test_a_failure_of_a_users_pass_can_be_replayed(tmp_path: Path) -> None:
    for name, text in (
        ("my_passes.py", PASS),
        ("colours.py", COLOURS),
        ("my_test.py", TEST),
        ("f.iris", TEXT),
    ):
        (tmp_path / name).write_text(text)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments], cwd=tmp_path, capture_output=True, text=True
        )

    failed = run("my_test.py")
    (bisect,) = [line for line in failed.stderr.splitlines() if " bisect " in line]
    _, *arguments = bisect.split('"')[0].split()
    assert arguments == ["--import", "my_passes", "bisect", "--passes"]
    again = run("-m", "iris.tools.cli", *arguments, "swap-subs{colour=blue},cse", "f.iris")
    assert again.stdout.startswith("swap-subs{colour=blue} changed what the program does")
    assert again.returncode == 1


def test_the_modules_of_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["__main__"], "__file__", "own/script.py", raising=False)
    assert modules_of(Pipeline.parse("fold,cse")) == []
    script = type("Own", (Pass,), {"__module__": "__main__"})
    assert modules_of([Fold(), script(), script()]) == ["script"]
