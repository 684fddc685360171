"""What each op does when it runs, and the ops of a region made ready to run again and again."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from inspect import isgeneratorfunction
from typing import Any, NamedTuple

from iris.interp.observer import Observer
from iris.ir.core import Facet, Op, Region, Resource, Value

#: How to run an op: `rule(frame, op, *operands)` gives its results.  A rule that runs regions, or
#: waits, is a generator function, whose generator gives them when it ends.
interpretation = Facet("Metal interpretation")

#: What running an op adds to the counters: `rule(counters, frame, op, *operands)`.
counting = Facet("counting")


class Step(NamedTuple):
    """An op, made ready."""

    op: Op
    rule: Callable[..., Any]
    flows: bool  # the rule is a generator function
    touches: bool  # it reads or writes memory
    counts: Callable[..., None] | None
    dying: tuple[Value, ...]  # what is used for the last time


def steps_of(region: Region, counted: bool) -> list[Step]:
    steps: list[Step] = []
    alive: set[Value] = set()
    for op in reversed(region):
        mentioned = _mentioned(op)
        mentioned.update(op.results)
        dying = tuple([v for v in mentioned if v not in alive and v.home is region])
        alive.update(dying)
        if not op.terminator:
            rule = interpretation[type(op)]
            count = counting.get(type(op)) if counted else None
            touches = any(e.resource is not Resource.REPORT for e in op.effects())
            steps.append(Step(op, rule, isgeneratorfunction(rule), touches, count, dying))
    return steps[::-1]


def observed(step: Step, observer: Observer) -> Step:
    """The step, telling an observer before and after it runs."""
    if step.flows:

        def flow(frame: Any, op: Op, *operands: Any) -> Generator[Any, None, Sequence[Any]]:
            observer.before(frame, op)
            found: Sequence[Any] = yield from step.rule(frame, op, *operands)
            observer.after(frame, op, found)
            return found

        return step._replace(rule=flow)

    def rule(frame: Any, op: Op, *operands: Any) -> Sequence[Any]:
        observer.before(frame, op)
        found: Sequence[Any] = step.rule(frame, op, *operands)
        observer.after(frame, op, found)
        return found

    return step._replace(rule=rule)


def _mentioned(op: Op) -> set[Value]:
    """The values that an op, or one within it, uses."""
    return {value for inner in op.walk() for value in inner.operands}
