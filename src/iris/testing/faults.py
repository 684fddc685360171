"""Where a pipeline goes wrong: the first pass after which a program does something else.

    fault = find_fault(program, [Pipeline.parse("fold,cse,dce")], same_bits)
    fault.guilty        # the pass, or None if the program fails by itself

An *oracle* runs a program and gives a *judge* of what passes make of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from iris.errors import ProgramError, RaceError
from iris.ir import Level, Module, verify
from iris.ir.core import Region, Value
from iris.passes import Pass, Pipeline
from iris.passes.manager import check_level
from iris.passes.metal.insert_barriers import InsertBarriers
from iris.passes.metal.wait_for_copies import WaitForCopies
from iris.testing.limit import limited
from iris.tools.replay import Program

LIMIT = 20.0  # seconds that a pass or a run may take: of those in tests, all but a few take 0.1

#: Raises `Wrong` if a program, given with the passes that are yet to come, is not as it must be.
Judge = Callable[[Program, Pipeline], None]
#: What a program does, as a judge of others.
Oracle = Callable[[Program], Judge]


class Wrong(Exception):
    """What went wrong, and at what; `how` says in which of several runs, `part` which part of the
    compiler is guilty where no pass of the pipeline can be."""

    def __init__(self, doing: str, how: str, part: str, error: Exception):
        super().__init__(doing, how, part, error)
        self.doing = doing
        self.how = how
        self.part = part
        self.error = error


class doing:
    """Turns any exception within it into `Wrong`.

    with doing("made a program that fails"):
        run(program)

    A context manager, as the exception is not caught to go on but to be told better.
    """

    def __init__(self, what: str, how: str = "", part: str = ""):
        self.what = what
        self.how = how
        self.part = part

    def __enter__(self) -> None:
        return

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, Exception) and not isinstance(error, Wrong):
            raise Wrong(self.what, self.how, self.part, error) from error


@dataclass(frozen=True)
class Step:
    """A pass of a pipeline, and the IR before it and after it."""

    position: int
    before: Module
    after: Module
    kept: dict[Value, Value]  # by each value of `after` that the pass left, that of `before`


@dataclass(frozen=True)
class Fault:
    """What is wrong with a program or with what a pipeline makes of it.

    The step is the first that was found wrong of those that were judged; None: the program fails
    by itself.
    """

    program: Program
    pipeline: Pipeline
    wrong: Wrong
    step: Step | None = None

    @property
    def guilty(self) -> Pass | None:
        """The guilty pass, if it is a pass."""
        if self.step is None or self.wrong.part:
            return None
        return self.pipeline.passes[self.step.position]

    @property
    def kind(self) -> tuple[object, ...]:
        """What stays the same as the program shrinks."""
        error = self.wrong.error
        return self.guilty, self.wrong.doing, type(error), _said(error)


def _said(error: Exception) -> object:
    """Of what a program does wrong, what it is, without where: the kind of a race, else words."""
    if isinstance(error, RaceError):
        return error.kind
    if type(error) is not ProgramError:
        return None
    what, _, _ = error.message.replace(error.array or "", "").partition(", in program")
    return tuple(re.findall(r"[a-z]+", what))


def find_fault(
    program: Program,
    pipelines: Sequence[Pipeline],
    oracle: Oracle,
    positions: Sequence[int] | None = None,
    *,
    limit: float = LIMIT,
) -> Fault | None:
    """The first fault of several pipelines, each alone, or None.

    What a pipeline makes is judged after the passes at some positions, or at the end; without a
    pass, that is the program itself.  The program, each pass and what it makes have each a `limit`
    of seconds.
    """
    try:
        with doing("the program fails"), limited(limit):
            judge = oracle(program)
    except Wrong as wrong:
        return Fault(program, Pipeline(), wrong)
    faults = (_fault_of(program, pipeline, judge, positions, limit) for pipeline in pipelines)
    return next((fault for fault in faults if fault is not None), None)


def _fault_of(
    program: Program,
    pipeline: Pipeline,
    judge: Judge,
    positions: Sequence[int] | None,
    limit: float,
) -> Fault | None:
    if not pipeline.passes:
        return _own_fault(program, judge, limit)
    judged = [len(pipeline) - 1] if positions is None else positions
    work = program.module.clone()
    position = 0
    try:
        with limited(limit) as clock:
            for position, pass_ in enumerate(pipeline.passes[: max(judged, default=-1) + 1]):
                clock.restart()
                with doing("failed"):
                    check_level(pass_, work)
                    pass_.run(work)
                    verify(work)
                if position in judged:
                    clock.restart()
                    with doing("made a program that cannot be judged"):
                        judge(program.with_module(work), pipeline.after(position + 1))
    except Wrong as wrong:
        return Fault(program, pipeline, wrong, _step(program, pipeline, position, limit))
    return None


def _own_fault(program: Program, judge: Judge, limit: float) -> Fault | None:
    """What is wrong with a program that no pass changes."""
    try:
        with doing("cannot be judged"), limited(limit):
            judge(program, Pipeline())
    except Wrong as wrong:
        return Fault(program, Pipeline(), wrong)
    return None


def _step(program: Program, pipeline: Pipeline, position: int, limit: float) -> Step:
    """A step of a pipeline, which is run once more: most pipelines have no fault to copy IR for."""
    work = program.module.clone()
    for pass_ in pipeline.passes[:position]:
        pass_.run(work)
    before, kept = copied(work)
    with suppress(Wrong), doing("failed"), limited(limit):
        pipeline.passes[position].run(work)
    return Step(position, before, work, kept)


def copied(module: Module) -> tuple[Module, dict[Value, Value]]:
    """A copy, and by each value that of the copy."""
    copy, values = Module(), dict[Value, Value]()
    copy.body = Region.like(module.body, values)
    return copy, values


def bisect(
    program: Program, pipeline: Pipeline, oracle: Oracle, *, limit: float = LIMIT
) -> Fault | None:
    """The fault of the first pass after which the program is not as it must be."""
    return find_fault(program, [pipeline], oracle, range(len(pipeline)), limit=limit)


def stage_options(program: Program, rest: Pipeline) -> dict[str, Any]:
    """How the interpreter runs what a pipeline has made so far; the `rest` of it is yet to come.

    Metal IR that has yet to get its barriers, or waits for its copies, runs as if they were there.
    """
    options = {
        "implied_barriers": is_unordered(program, rest),
        "implied_waits": _has_yet(program, rest, WaitForCopies),
    }
    return {name: True for name, is_so in options.items() if is_so}


def is_unordered(program: Program, rest: Pipeline) -> bool:
    """Whether a program is Metal IR into which a pipeline has yet to put barriers."""
    return _has_yet(program, rest, InsertBarriers)


def _has_yet(program: Program, rest: Pipeline, pass_: type[Pass]) -> bool:
    """Whether a program is Metal IR that has yet to go through a pass."""
    is_metal = program.function.function_level is Level.METAL
    return is_metal and any(isinstance(one, pass_) for one in rest)
