"""Passes come to rest: which do, and how one is shown that does not."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings

from iris.ir import Module, math
from iris.ir.core import Value
from iris.passes import Pass
from iris.testing import idempotent, programs, terminates
from iris.tools.replay import Program

PASSES = ("canonicalize", "cse", "dce", "fold", "licm")


@settings(max_examples=30)
@given(programs.tile())
def test_generic_passes_come_to_rest(program: Program) -> None:
    terminates(",".join(PASSES), program)


@settings(max_examples=30)
@given(programs.tile())
def test_generic_passes_are_idempotent(program: Program) -> None:
    for name in PASSES:
        idempotent(name, program)


@settings(max_examples=50)
@given(programs.graph())
def test_simplification_is_idempotent(program: Program) -> None:
    idempotent("simplify", program)
    terminates("simplify,cse,dce", program)


# Passes that are wrong.


@dataclass(frozen=True)
class Restless(Pass):
    """Does something to every addition, each time."""

    name = "restless"
    change: Callable[[math.Add], object]

    def run(self, module: Module) -> None:
        for op in module.walk():
            if isinstance(op, math.Add):
                self.change(op)

    def __str__(self) -> str:
        return self.name


def swap(op: math.Add) -> None:
    op.set_operands(op.operands[::-1])


def grow(op: math.Add) -> None:
    op.insert_before(math.Add(*op.operands))


def grow_once(op: math.Add) -> None:
    if op.parent is not None and sum(isinstance(other, math.Add) for other in op.parent) == 1:
        grow(op)


def never_end(op: math.Add) -> None:
    last: Value = op.lhs
    while True:
        new = math.Neg(last)
        op.insert_before(new)
        last = new.result


ADD = """\
# entry: @f
# argument %x: i32[] data=[1]
# argument %y: i32[] data=[2]

func graph @f returns=[tensor<i32>](%x: tensor<i32>, %y: tensor<i32>) {
  %a: tensor<i32> = add %x, %y
  return %a
}
"""


@pytest.fixture(autouse=True)
def failures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where programs that fail are written."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def failure(
    oracle: Callable[..., None], change: Callable[[math.Add], object], **options: float
) -> str:
    with pytest.raises(AssertionError) as caught:
        oracle(Restless(change), Program.parse(ADD), seconds=0, **options)
    return str(caught.value)


def test_passes_that_undo_each_other() -> None:
    message = failure(terminates, swap)
    assert message.startswith("restless does not come to rest: every 2 runs the IR is what it was")
    assert ADD in message


def test_a_pass_that_adds_ops_without_end() -> None:
    message = failure(terminates, grow, runs=6)
    first = "restless does not come to rest: run 6 still changes the IR; "
    assert message.startswith(f"{first}add: 8, 16, 32, then 64\n")


def test_a_run_that_does_not_end() -> None:
    message = failure(terminates, never_end, limit=0.1)
    first = "restless failed: TimeLimitError: it takes too long, if it ever ends; neg: 0, then "
    assert message.startswith(first)
    assert len(message) < 2000


def test_a_pass_that_does_more_the_second_time() -> None:
    terminates(Restless(grow_once), Program.parse(ADD))
    message = failure(idempotent, grow)
    assert message.startswith("restless is not idempotent: a second run changes the IR\n--- after")
    added = re.findall(r"^\+  %.* = add %x, %y$", message, re.MULTILINE)
    assert len(added) == 2 + 1  # by the second run, and by the first


def test_the_pass_of_a_pipeline_is_named() -> None:
    @dataclass(frozen=True)
    class Swap(Pass):
        """Swap the operands of additions."""

        name = "swap-all-adds"

        def run(self, module: Module) -> None:
            Restless(swap).run(module)

    with pytest.raises(AssertionError, match=r"^swap-all-adds does not come to rest") as caught:
        terminates("fold,swap-all-adds,cse", Program.parse(ADD))
    assert "swap-all-adds is pass 2 of fold,swap-all-adds,cse" in str(caught.value)
