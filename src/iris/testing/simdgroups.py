"""What must hold of Metal programs: that it does not matter in which order simdgroups go, and that
passes place the barriers which see to that."""

from __future__ import annotations

from collections.abc import Sequence

from iris.ir import metal, verify
from iris.passes import Pass, Pipeline
from iris.passes import run as run_passes
from iris.passes.instruments import Check
from iris.testing.oracles import pipeline_of
from iris.testing.outcomes import Outcome
from iris.testing.report import Report
from iris.tools.replay import Program

SEEDS = (0, 1)


def interleaves(program: Program, *, seeds: Sequence[int] = SEEDS) -> None:
    """Asserts that a Metal program does by turns what it does in lockstep.

        @given(programs.metal())
        def test_interpreter(program):
            interleaves(program)

    Each of the seeds stands for an order in which the simdgroups of a threadgroup go on.
    """
    with Report(program, Pipeline(())) as report:
        report.doing = "the program fails in lockstep"
        expected = Outcome.of(program)
        _by_turns(program, expected, seeds, report)


def orders(
    passes: Pass | Pipeline | str, program: Program, *, seeds: Sequence[int] = SEEDS
) -> None:
    """Asserts that passes order what a Metal program does, once its barriers are taken out.

        @given(programs.metal())
        def test_barriers(program):
            orders("allocate-threadgroup,insert-barriers", program)

    What they make of it must be free of races, and do what the program with its own barriers does,
    in lockstep and by turns.
    """
    pipeline = pipeline_of(passes)
    expected = Outcome.of(program)
    bare = without_barriers(program)
    with Report(bare, pipeline) as report:
        report.after = run_passes(bare.module, pipeline, [Check(verify)])
        ordered = bare.with_module(report.after)
        report.doing = "made a program that fails in lockstep"
        found = Outcome.of(ordered)
        report.doing = "changed what the program does"
        expected.compare(found)
        _by_turns(ordered, expected, seeds, report)


def without_barriers(program: Program) -> Program:
    """A Metal program that races where it had a barrier for something."""
    module = program.module.clone()
    for op in [op for op in module.walk() if isinstance(op, metal.Barrier)]:
        op.erase()
    return program.with_module(module)


def _by_turns(program: Program, expected: Outcome, seeds: Sequence[int], report: Report) -> None:
    for seed in seeds:
        report.doing = f"made a program that fails with interleave={seed}"
        found = Outcome.of(program, interleave=seed)
        report.doing = f"changed what the program does with interleave={seed}"
        expected.compare(found)
