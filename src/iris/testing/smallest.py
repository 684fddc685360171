"""The smallest program that shows a fault.

    small = smallest(fault, oracle, seconds=5)

If the guilty pass is one over Metal IR, that may be the IR which the pass is given, instead of the
program that it was lowered from.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from iris.ir import Level
from iris.passes import Pipeline
from iris.passes.metal.insert_barriers import InsertBarriers
from iris.testing.edits import ops_of
from iris.testing.faults import LIMIT, Fault, Oracle, bisect, find_fault
from iris.testing.limit import TimeLimitError
from iris.testing.reduce import SECONDS, reduce
from iris.testing.turns import SEEDS, DropBarriers, same_by_turns
from iris.tools.replay import Program


def smallest(
    fault: Fault,
    oracle: Oracle,
    *,
    seconds: float = SECONDS,
    limit: float = LIMIT,
    quick: Oracle | None = None,
    kept: Callable[[Fault], object] = lambda fault: None,
) -> Fault:
    """The fault of the guilty pass, and of the smallest program found in some seconds.

    `kept` is called with the fault of each smaller program.  A `quick` oracle looks for less than
    the other one: it is asked in its place if it shows the fault, too, and of the smallest program
    the other one has the last word.
    """
    end = time.monotonic() + seconds
    fault = bisect(fault.program, fault.pipeline, oracle, limit=limit) or fault
    if not _is_of_lowered(fault):
        if quick is not None and _shows(quick, fault, limit):
            small = _reduced(fault, quick, end, limit, kept)
            if _shows(oracle, small, limit):
                return small
        return _reduced(fault, oracle, end, limit, kept)
    half = time.monotonic() + seconds / 2
    fault = _reduced(fault, oracle, half, limit, kept)
    # In lockstep alone, if that shows it: it takes a part of the time.
    for seeds in ((), SEEDS):
        by_turns = partial(same_by_turns, seeds=seeds)
        inner = _of_pass_alone(fault, by_turns, limit)
        if inner is not None:
            inner = _reduced(inner, by_turns, end, limit, kept)
            return min(inner, fault, key=lambda found: len(ops_of(found.program)))
    return _reduced(fault, oracle, end, limit, kept)


def _reduced(
    fault: Fault, oracle: Oracle, end: float, limit: float, kept: Callable[[Fault], object]
) -> Fault:
    """The same fault of a smaller program, of which the passes before the guilty one make what is
    right."""
    last = -1 if fault.step is None else fault.step.position
    endless = isinstance(fault.wrong.error, TimeLimitError)
    each = limit / 10 if endless else limit

    def fails(program: Program) -> bool:
        # Many programs are tried, some of which never end: each has little more time than the best
        # one takes.  That of a compiler, which is another process, does not count.
        nonlocal each
        before = time.process_time()
        found = find_fault(program, [fault.pipeline], oracle, [last], limit=each)
        if found is None or found.kind != fault.kind:
            return False
        if not endless:
            each = min(each, limit / 400 + 5 * (time.process_time() - before))
        if last < 1:
            return True
        # What the pass is given must stay right.
        return find_fault(program, [fault.pipeline], oracle, [last - 1], limit=each) is None

    def keep(program: Program) -> None:
        kept(replace(fault, program=program))

    fails(fault.program)
    small = reduce(fault.program, fails, seconds=end - time.monotonic(), kept=keep)
    return bisect(small, fault.pipeline, oracle, limit=limit) or fault


def _shows(oracle: Oracle, fault: Fault, limit: float) -> bool:
    """Whether an oracle finds a fault of the same kind."""
    found = bisect(fault.program, fault.pipeline, oracle, limit=limit)
    return found is not None and found.kind == fault.kind


def _is_of_lowered(fault: Fault) -> bool:
    """Whether a pass over Metal IR is guilty, and the program is of a higher level."""
    if fault.guilty is None or fault.step is None:
        return False
    given = fault.program.with_module(fault.step.before)
    return fault.program.function.function_level is not given.function.function_level is Level.METAL


def _of_pass_alone(fault: Fault, oracle: Oracle, limit: float) -> Fault | None:
    """The fault of the IR that the guilty pass is given, if that shows it, too.

    Barriers are put in, with which the IR runs by itself, and taken out again.
    """
    assert fault.step is not None
    program = fault.program.with_module(fault.step.before.clone())
    pipeline, position = fault.pipeline.after(fault.step.position), 0
    if any(isinstance(pass_, InsertBarriers) for pass_ in pipeline):
        InsertBarriers().run(program.module)
        pipeline, position = Pipeline((DropBarriers(), *pipeline)), 1
    found = find_fault(program, [pipeline], oracle, [position], limit=limit)
    return found if found is not None and found.guilty == fault.guilty else None
