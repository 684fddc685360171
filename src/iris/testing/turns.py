"""The oracle of Metal IR: the same to the bit in lockstep and by turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iris.ir import Level, Module, metal
from iris.passes import Pass, Pipeline
from iris.testing.faults import Judge, doing, is_unordered, stage_options
from iris.testing.outcomes import Outcome
from iris.tools.replay import Program

SEEDS = (0, 1)


@dataclass(frozen=True)
class DropBarriers(Pass):
    """Remove every barrier, for other passes to place them anew."""

    name = "drop-barriers"
    level = Level.METAL

    def run(self, module: Module) -> None:
        for op in [op for op in module.walk() if isinstance(op, metal.Barrier)]:
            op.erase()


def same_by_turns(program: Program, seeds: Sequence[int] = SEEDS) -> Judge:
    """The oracle: what a program does in lockstep, passes must keep, also by turns, one for each of
    some seeds.  So must the program itself."""
    expected = Outcome.of(program)

    def run(made: Program, how: str, options: Mapping[str, Any]) -> None:
        with doing("made a program that fails", how):
            found = Outcome.of(made, **options)
        with doing("changed what the program does", how):
            expected.compare(found)

    def run_by_turns(made: Program) -> None:
        for seed in seeds:
            run(made, f"with interleave={seed}", {"interleave": seed})

    def judge(made: Program, rest: Pipeline) -> None:
        run(made, "in lockstep", stage_options(made, rest))
        if not is_unordered(made, rest):
            run_by_turns(made)

    run_by_turns(program)
    return judge
