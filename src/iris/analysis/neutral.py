"""Find out which iterations of a loop leave all that it carries as it was.

    for ... (%i: i32, %m = %lowest, %l = %zero) {
      %x = select %seen, %scores, %lowest
      %block = tile.reduce maximum 1 %x
      %new = maximum %m, %block                  %m, where all of %x are -inf
      %finite = select %new == -inf, 0, %new
      %factor = exp(%m - %finite)                1, where %m is finite
      %e = exp(%x - %finite)                     0, where all of %x are -inf
      yield %new, %l * %factor + sum(%e)
    }

The body is run on kinds of numbers, in each case of a running maximum: its initial value, -inf,
finite, and infinite or nan.  What else is carried is of its own kinds in each case: `%l` is 0 where
`%m` is -inf, and nan where that is nan.  If a comparison fails for all elements, or holds, and each
carried value stays the same in all cases, the iteration is neutral.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple, TypeAlias

from iris.analysis.number_kinds import (
    FALSE,
    FINITE,
    INFINITE,
    LOWEST,
    MINUS_ZERO,
    MINUS_ZEROS,
    NAN,
    NEGATIVE,
    PLUS_ZEROS,
    POSITIVE,
    TRUE,
    ZERO,
    ZEROS,
    members,
)
from iris.analysis.row_kinds import BodyKinds, Fact, Impossible, Rows, World, outer_fact, union
from iris.ir import math, tile
from iris.ir.control import For
from iris.ir.core import Value
from iris.ir.effects import must_run
from iris.ir.kinds import ReduceKind
from iris.ir.math import element_type


class Case(Enum):
    """What a running maximum is."""

    START = auto()  # its initial value: no iteration ran
    LOW = auto()
    FINITE = auto()
    STRANGE = auto()
    LATER = auto()  # an iteration ran; there is no maximum


_MAXIMUM_KINDS = {Case.LOW: LOWEST, Case.FINITE: FINITE, Case.STRANGE: INFINITE | NAN}

Kept: TypeAlias = set[int]  # the numbers of carried values


class Neutral(NamedTuple):
    """Whether an iteration changes nothing if it is the first, and if it is a later one."""

    first: bool
    later: bool


class NeutralIterations:
    """The iterations of a loop that change nothing."""

    def __init__(self, loop: For):
        self.loop = loop
        moving = _dependents(loop)
        self._histories = [_History(loop, moving, maximum) for maximum in _maxima(loop)]

    def where(self, comparison: Value, holds: bool) -> Neutral:
        """Whether an iteration is neutral in which a comparison holds, or fails, everywhere."""
        assumed = Fact(TRUE if holds else FALSE, comparison)
        kept = [history.kept({comparison: assumed}) for history in self._histories]
        every = {*range(len(self.loop.results))}
        first, later = (every == set[int]().union(*some) for some in zip(*kept, strict=True))
        return Neutral(first, later)


def shows_only_results(loop: For) -> bool:
    """Whether nothing but the results of a loop tells that an iteration ran."""
    return not any(must_run(op) for op in loop.body.walk())


def _dependents(loop: For) -> set[Value]:
    """The values of a body that depend on what the loop carries."""
    found = {*loop.carried_arguments}
    for op in loop.body:
        if any(not found.isdisjoint(inner.operands) for inner in [op, *op.walk()]):
            found.update(op.results)
    return found


@dataclass(frozen=True)
class _Maximum:
    """A carried value that is the maximum so far."""

    index: int
    op: math.Maximum | math.MaxNum
    block: Value  # the maximum of this iteration

    @property
    def rows(self) -> Rows:
        return tuple(range(len(element_type(self.op.result.type).shape)))

    @property
    def reductions(self) -> tuple[ReduceKind, ...]:
        """The kinds of reduction of a block that say what all of its elements are.

        The maximum of a block with nan is nan.  If that is left out, all of the block is.
        """
        if isinstance(self.op, math.MaxNum):
            return (ReduceKind.MAXNUM,)
        return ReduceKind.MAXIMUM, ReduceKind.MAXNUM

    @property
    def dropped(self) -> int:
        """The kinds that it leaves out."""
        reduce = self.block.op
        drops = isinstance(reduce, tile.Reduce) and reduce.kind is ReduceKind.MAXNUM
        return NAN if drops or isinstance(self.op, math.MaxNum) else 0


def _maxima(loop: For) -> Iterator[_Maximum | None]:
    """The running maxima; and none, for values that need no cases."""
    yield None
    for index, slot in enumerate(loop.carried()):
        op = slot.yielded.op
        if isinstance(op, math.Maximum | math.MaxNum) and slot.argument in op.operands:
            yield _Maximum(index, op, op.rhs if op.lhs is slot.argument else op.lhs)


class _History:
    """What a loop carries in each case that it comes to."""

    def __init__(self, loop: For, moving: set[Value], maximum: _Maximum | None):
        self.loop = loop
        self.moving = moving
        self.maximum = maximum
        self.arguments = loop.carried_arguments
        self.facts: dict[Case, list[Fact]] = {}
        self._learn(Case.START, [outer_fact(slot.initial) for slot in loop.carried()])
        while self._runs_on():
            pass

    def _runs_on(self) -> bool:
        """Run the body from each case to each; whether that shows anything new."""
        changed = False
        for facts in list(self.facts.values()):
            for case in _MAXIMUM_KINDS if self.maximum is not None else (Case.LATER,):
                try:
                    found = self._run(facts, self._worlds(facts, case))
                except Impossible:
                    continue
                changed |= self._learn(case, found)
        return changed

    def _run(self, facts: Sequence[Fact], worlds: Sequence[World]) -> list[Fact]:
        return BodyKinds(self.loop.body, self.moving, facts, worlds).yielded

    def _learn(self, case: Case, found: Sequence[Fact]) -> bool:
        """Add to what carried values may be in a case."""
        new = [f._replace(name=v, some=0) for f, v in zip(found, self.arguments, strict=True)]
        if self.maximum is not None:
            index = self.maximum.index
            new[index] = new[index]._replace(rows=self.maximum.rows)
        known = self.facts.get(case)
        if known is not None:
            both = zip(known, new, strict=True)
            new = [union(v, some) for v, some in zip(self.arguments, both, strict=True)]
        self.facts[case] = new
        return new != known

    def _worlds(self, facts: Sequence[Fact], after: Case) -> list[World]:
        """What is known of an iteration that leads from some facts to a case.

        A block may be -inf where a condition fails, as at the end of an axis.  The elements
        where it holds, and the others, then are worlds apart.
        """
        maximum = self.maximum
        if maximum is None:
            return [{}]
        kinds = _MAXIMUM_KINDS[after]
        result, block, rows = maximum.op.result, maximum.block, maximum.rows
        given = {result: Fact(kinds, result, rows)}
        if isinstance(block.op, tile.Reduce):
            reduce = block.op
            if reduce.kind not in maximum.reductions:
                return [given]
            block, rows = reduce.x, tuple([a + (a >= reduce.axis) for a in rows])
        below = {Case.LOW: LOWEST, Case.FINITE: LOWEST | FINITE}
        may_be = below.get(after, LOWEST | FINITE | INFINITE | NAN) | maximum.dropped
        is_new = not facts[maximum.index].kinds & (INFINITE | NAN)
        some = kinds & ~maximum.dropped if after is Case.STRANGE and is_new else 0
        select = block.op
        is_row = block is not maximum.block
        if (
            is_row
            and isinstance(select, math.Select)
            and outer_fact(select.on_false).kinds == LOWEST
        ):
            condition, x = select.condition, select.on_true
            if element_type(condition.type).shape == element_type(x.type).shape:
                inside = {condition: Fact(TRUE, condition), x: Fact(may_be, x, rows, some)}
                return [given | inside, given | {condition: Fact(FALSE, condition)}]
        return [given | {block: Fact(may_be, block, rows, some)}]

    # What stays.

    def kept(self, assumed: World) -> tuple[Kept, Kept]:
        """The carried values that stay as they are: in a first iteration, and in a later one."""
        first, later = set[int](), {*range(len(self.arguments))}
        for case, facts in self.facts.items():
            kept = {n for n in later if self._keeps(n, facts, assumed)}
            if case is Case.START:
                first = kept
            else:
                later = kept
        return first, later

    def _keeps(self, index: int, facts: Sequence[Fact], assumed: World) -> bool:
        """Whether a carried value stays, of whatever kind it is."""
        if self._run(facts, [assumed])[index].name is self.arguments[index]:
            return True
        for kind in members(facts[index].kinds):
            one = [f._replace(kinds=kind) if n == index else f for n, f in enumerate(facts)]
            found = self._run(one, [assumed])[index]
            is_number = not kind & (NEGATIVE | POSITIVE)
            is_same = is_number and _plain(found.kinds) == _plain(kind)
            if found.name is not self.arguments[index] and not is_same:
                return False
        return True


def _plain(kinds: int) -> int:
    """Kinds without where zeros come from."""
    plus, minus = bool(kinds & PLUS_ZEROS), bool(kinds & MINUS_ZEROS)
    return kinds & ~ZEROS | ZERO * plus | MINUS_ZERO * minus
