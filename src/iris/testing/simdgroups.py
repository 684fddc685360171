"""What must hold of Metal programs: that it does not matter in which order simdgroups go, and that
passes place the barriers which see to that."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from iris.passes import Pass, Pipeline
from iris.testing.oracles import pipeline_of
from iris.testing.reduce import SECONDS
from iris.testing.report import check
from iris.testing.turns import SEEDS, DropBarriers, HideGuards, same_by_turns
from iris.tools.replay import Program


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
    check(program, [], partial(same_by_turns, seeds=seeds), seconds=seconds)


def orders(
    passes: Pass | Pipeline | str,
    program: Program,
    *,
    seeds: Sequence[int] = SEEDS,
    hidden: bool = False,
    weakened: bool = False,
    seconds: float = SECONDS,
) -> None:
    """Asserts that passes order what a Metal program does, once its barriers are taken out.

        @given(programs.metal())
        def test_barriers(program):
            orders("allocate-threadgroup,insert-barriers", program)

    What they make of it must be free of races, and do what the program with its own barriers does,
    in lockstep and by turns.  With `hidden`, what decides control flow comes to depend on the lane
    first, by a sum with 0, for `uniform-conditions` to make it the same for all threads.  With
    `weakened`, some barriers stay, but order less than is needed.
    """
    __tracebackhide__ = True
    hiding = (HideGuards(),) if hidden else ()
    pipeline = Pipeline((DropBarriers(weakened), *hiding, *pipeline_of(passes)))
    by_turns, in_lockstep = (partial(same_by_turns, seeds=each) for each in (seeds, ()))
    check(program, [pipeline], by_turns, quick=in_lockstep, seconds=seconds)
