"""What must hold of Metal programs: that it does not matter in which order simdgroups go, and that
passes place the barriers which see to that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from iris.ir import Level, Module, metal
from iris.passes import Pass, Pipeline
from iris.testing.faults import Judge, doing, is_unordered, stage_options
from iris.testing.oracles import pipeline_of
from iris.testing.outcomes import Outcome
from iris.testing.reduce import SECONDS
from iris.testing.report import check
from iris.tools.replay import Program

SEEDS = (0, 1)


def interleaves(
    program: Program, *, seeds: Sequence[int] = SEEDS, seconds: float = SECONDS
) -> None:
    """Asserts that a Metal program does by turns what it does in lockstep.

        @given(programs.metal())
        def test_interpreter(program):
            interleaves(program)

    Each of the seeds stands for an order in which the simdgroups of a threadgroup go on.
    """
    __tracebackhide__ = True
    check(program, [], partial(_same_by_turns, seeds), seconds=seconds)


def orders(
    passes: Pass | Pipeline | str,
    program: Program,
    *,
    seeds: Sequence[int] = SEEDS,
    seconds: float = SECONDS,
) -> None:
    """Asserts that passes order what a Metal program does, once its barriers are taken out.

        @given(programs.metal())
        def test_barriers(program):
            orders("allocate-threadgroup,insert-barriers", program)

    What they make of it must be free of races, and do what the program with its own barriers does,
    in lockstep and by turns.
    """
    __tracebackhide__ = True
    pipeline = Pipeline((DropBarriers(), *pipeline_of(passes)))
    check(program, [pipeline], partial(_same_by_turns, seeds), seconds=seconds)


@dataclass(frozen=True)
class DropBarriers(Pass):
    """Remove every barrier, for other passes to place them anew."""

    name = "drop-barriers"
    level = Level.METAL

    def run(self, module: Module) -> None:
        for op in [op for op in module.walk() if isinstance(op, metal.Barrier)]:
            op.erase()


def _same_by_turns(seeds: Sequence[int], program: Program) -> Judge:
    """The oracle of both: what a program does in lockstep, passes must keep, also by turns."""
    expected = Outcome.of(program)

    def judge(made: Program, rest: Pipeline) -> None:
        ways = {"in lockstep": stage_options(made, rest)}
        if not is_unordered(made, rest):
            ways |= {f"with interleave={seed}": {"interleave": seed} for seed in seeds}
        for how, options in ways.items():
            with doing("made a program that fails", how):
                found = Outcome.of(made, **options)
            with doing("changed what the program does", how):
                expected.compare(found)

    judge(program, Pipeline())
    return judge
