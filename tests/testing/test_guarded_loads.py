"""Programs load under a branch what is not there otherwise, so that wrong speculation is found."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import Phase, given, settings

from iris.ir import Module, tile
from iris.ir.control import If
from iris.ir.effects import may_speculate
from iris.passes import Pass
from iris.testing import preserves, programs
from iris.tools.replay import Program


@dataclass(frozen=True)
class LeaveBranches(Pass):
    """Do before a branch what it does; where that is wrong, loads among it."""

    name = "test-leave-branches"
    loads: bool = False

    def run(self, module: Module) -> None:
        for branch in [op for op in module.walk() if isinstance(op, If)]:
            for region in branch.regions:
                for op in list(region):
                    is_load = self.loads and isinstance(op, tile.Load) and not op.volatile
                    if op.terminator or op.regions or not (is_load or may_speculate(op)):
                        break
                    op.detach()
                    branch.insert_before(op)


@pytest.mark.parametrize("loads", [False, True])
def test_only_wrong_speculation_is_found(loads: bool) -> None:
    right, candidate = LeaveBranches(), LeaveBranches(loads)

    @settings(
        max_examples=500 if loads else 40, phases=[Phase.generate], database=None, deadline=None
    )
    @given(programs.tile(ops=(If, tile.Load, tile.Store)))
    def test(program: Program) -> None:
        made = [program.module.clone() for _ in range(2)]
        right.run(made[0])
        candidate.run(made[1])
        if not loads or made[0] != made[1]:  # else it is right here
            preserves(candidate, program, seconds=0)

    if loads:
        with pytest.raises(AssertionError, match=r"made a program that fails: .* is outside"):
            test()
    else:
        test()
