"""Passes come to rest: they end, reach a fixed point, and change nothing a second time.

terminates("canonicalize,fold,cse,dce", program)
idempotent("cse", program)
"""

from __future__ import annotations

from functools import partial

from iris.ir import Module, to_text, verify
from iris.ir.text.diff import diff
from iris.passes import Pass, Pipeline
from iris.testing.faults import LIMIT, Judge, doing
from iris.testing.growth import growth
from iris.testing.oracles import pipeline_of
from iris.testing.reduce import SECONDS
from iris.testing.report import check
from iris.tools.replay import Program

RUNS = 16


def terminates(
    passes: Pass | Pipeline | str,
    program: Program,
    *,
    runs: int = RUNS,
    limit: float = LIMIT,
    seconds: float = SECONDS,
) -> None:
    """Asserts that passes end, and that running them again and again reaches a fixed point.

        @given(programs.tile())
        def test_my_pass(program):
            terminates("fold,my-pass", program)

    A pass takes at most `limit` seconds, and after some `runs` the IR must stay as it is.  The
    error says of which op there are more and more, or that the passes undo each other.
    """
    __tracebackhide__ = True
    pipeline = pipeline_of(passes)
    oracle = partial(_comes_to_rest, pipeline, runs)
    check(program, [pipeline], oracle, seconds=seconds, limit=limit)


def idempotent(
    passes: Pass | Pipeline | str, program: Program, *, seconds: float = SECONDS
) -> None:
    """Asserts that passes change nothing when they run a second time.

    @given(programs.tile())
    def test_my_pass(program):
        idempotent(MyPass(), program)
    """
    __tracebackhide__ = True
    pipeline = pipeline_of(passes)
    check(program, [pipeline], partial(_changes_nothing, pipeline), seconds=seconds)


def _comes_to_rest(pipeline: Pipeline, runs: int, program: Program) -> Judge:
    verify(program.module)

    def judge(made: Program, rest: Pipeline) -> None:
        with doing("does not come to rest"):
            stages = [program.module, made.module]
            while stages[-1] not in stages[:-1]:
                if len(stages) > runs:
                    raise AssertionError(f"run {runs} still changes the IR{growth(stages)}")
                stages.append(_again(pipeline, rest, stages[-1]))
            period = len(stages) - 1 - stages.index(stages[-1])
            assert period == 1, f"every {period} runs the IR is what it was before"

    return judge


def _changes_nothing(pipeline: Pipeline, program: Program) -> Judge:
    verify(program.module)

    def judge(made: Program, rest: Pipeline) -> None:
        with doing("is not idempotent"):
            again = _again(pipeline, rest, made.module)
            if again != made.module:
                texts = to_text(made.module), to_text(again)
                shown = diff(*texts, "after one run", "after two")
                raise AssertionError(f"a second run changes the IR\n{shown}")

    return judge


def _again(pipeline: Pipeline, rest: Pipeline, module: Module) -> Module:
    """What the passes before the rest of a pipeline make of a module."""
    work = module.clone()
    for pass_ in pipeline.passes[: len(pipeline) - len(rest)]:
        pass_.run(work)
    verify(work)
    return work
