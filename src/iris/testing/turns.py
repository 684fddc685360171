"""The oracle of Metal IR: the same to the bit in lockstep and by turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

from iris.ir import Level, Module, metal
from iris.ir.builder import Builder
from iris.ir.control import While
from iris.ir.core import Value
from iris.ir.math import Add, And, Cast, Compare, Constant, Predicate, element_type
from iris.ir.types import bool_, i32
from iris.ir.uniformity import guards
from iris.passes import Pass, Pipeline
from iris.testing.faults import Judge, doing, is_unordered, stage_options
from iris.testing.outcomes import Outcome
from iris.tools.replay import Program

SEEDS = (0, 1)


@dataclass(frozen=True)
class DropBarriers(Pass):
    """Remove every barrier, for other passes to place them anew.

    With `weakened`, every other one stays, and orders less: the accesses of a simdgroup or, of the
    next one, those to memory of the threadgroup.
    """

    name = "drop-barriers"
    level = Level.METAL
    weakened: bool = False

    def run(self, module: Module) -> None:
        scopes = (None, metal.Scope.SIMDGROUP, None, metal.Scope.THREADGROUP)
        found = [op for op in module.walk() if isinstance(op, metal.Barrier)]
        for op, scope in zip(found, cycle(scopes), strict=False):
            if self.weakened and scope is not None:
                op.attributes = (scope,)
            else:
                op.erase()


@dataclass(frozen=True)
class HideGuards(Pass):
    """Let what decides control flow depend on the lane, as far as one can tell without arithmetic:
    for other passes to make it the same for all threads."""

    name = "hide-guards"
    level = Level.METAL

    def run(self, module: Module) -> None:
        if any(op.convergent for op in module.walk()):  # which have to be where they are by proof
            return
        for op in [op for op in module.walk() if guards.get(type(op)) is not None]:
            user = op.condition.end if isinstance(op, While) else op
            assert user.parent is not None
            b = Builder(user.parent, user)
            hidden = {v: _hidden(v, b) for v in guards[type(op)](op)[:2]}
            user.set_operands(tuple([hidden.get(v, v) for v in user.operands]))


def _hidden(value: Value, b: Builder) -> Value:
    """The same number, plus a lane times 0."""
    type_ = element_type(value.type)
    if type_ is bool_:
        is_lane = b(Compare(Predicate.GE, b(metal.Lane()), b(Constant(0, i32))))
        return b(And(value, is_lane))
    nothing = b(And(b(metal.Lane()), b(Constant(0, i32))))
    return b(Add(value, nothing if type_ is i32 else b(Cast(nothing, type_))))


def same_by_turns(program: Program, seeds: Sequence[int] = SEEDS) -> Judge:
    """The oracle: what a program does in lockstep, passes must keep, also by turns, one for each of
    some seeds.  So must the program itself."""
    expected = Outcome.of(program)

    def run(made: Program, how: str, options: Mapping[str, Any]) -> None:
        with doing("made a program that fails", how):
            found = Outcome.of(made, **options)
        with doing("changed what the program does", how):
            expected.compare(found)

    def run_by_turns(made: Program, rest: Pipeline) -> None:
        for seed in seeds:
            options = {"interleave": seed, **stage_options(made, rest)}
            run(made, f"with interleave={seed}", options)

    def judge(made: Program, rest: Pipeline) -> None:
        run(made, "in lockstep", stage_options(made, rest))
        if not is_unordered(made, rest):
            run_by_turns(made, rest)

    run_by_turns(program, Pipeline())
    return judge
