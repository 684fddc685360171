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
from functools import cached_property, partial
from itertools import islice

from iris.analysis.number_kinds import (
    FALSE,
    FINITE,
    FLOATS,
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
from iris.ir.types import ElementType, bool_

# What a running maximum may be.
_CASES = (LOWEST, FINITE, INFINITE | NAN)


class NeutralIterations:
    """The iterations of a loop that change nothing."""

    def __init__(self, loop: For):
        self.loop = loop
        self.start = [outer_fact(c.initial)._replace(name=c.argument) for c in loop.carried()]
        maxima = [*_maxima(loop)]
        pinned = [op.results[0] for op in loop.body if isinstance(op, math.Compare)]
        pinned += [v for maximum in maxima for world in maximum.worlds(0, 0) for v in world]
        self._body = BodyKinds(loop, pinned)
        self._maxima: Sequence[_Maximum | None] = maxima or [None]

    @cached_property
    def histories(self) -> list[list[Sequence[Fact]]]:
        """What the loop carries after any iteration, in each case of each running maximum."""
        histories = [_History(self._body, self.start, m) for m in self._maxima]
        return [[*history.facts.values()] for history in histories]

    def where(self, comparison: Value, holds: bool) -> Neutral:
        """Whether an iteration is neutral in which a comparison holds, or fails, everywhere."""
        return Neutral(self, {comparison: Fact(TRUE if holds else FALSE, comparison)})

    def keeps(self, facts: Sequence[Fact], assumed: World) -> Iterator[bool]:
        """For each carried value, whether it stays as it is, of whatever kind that is."""
        for index, found in enumerate(self._body.run(facts, [assumed])):
            yield self._keeps(index, facts, found, assumed)

    def _keeps(self, index: int, facts: Sequence[Fact], found: Fact, assumed: World) -> bool:
        fact = facts[index]
        if found.name == fact.name:
            return True
        for kind in members(fact.kinds):
            if kind != fact.kinds:
                one = [f._replace(kinds=kind) if f is fact else f for f in facts]
                found = next(islice(self._body.run(one, [assumed]), index, None))
            is_number = not kind & (NEGATIVE | POSITIVE)
            is_same = is_number and _plain(found.kinds) == _plain(kind)
            if found.name != fact.name and not is_same:
                return False
        return bool(fact.kinds)  # of a pointer nothing is known


class Neutral:
    """Whether an iteration changes nothing."""

    def __init__(self, iterations: NeutralIterations, assumed: World):
        self._iterations = iterations
        self._assumed = assumed

    @cached_property
    def first(self) -> bool:
        """If it is the first."""
        return all(self._iterations.keeps(self._iterations.start, self._assumed))

    @cached_property
    def later(self) -> bool:
        """If it is a later one."""
        keeps = partial(self._iterations.keeps, assumed=self._assumed)
        kept = [map(all, zip(*map(keeps, h), strict=True)) for h in self._iterations.histories]
        return all(map(any, zip(*kept, strict=True)))


def shows_only_results(loop: For) -> bool:
    """Whether nothing but the results of a loop tells that an iteration ran."""
    return not any(must_run(op) for op in loop.body.walk())


def hides(comparison: Value, holds: bool) -> bool:
    """Whether some select takes a value from before the iteration if a comparison holds, or fails,
    everywhere.

    If none does, the comparison hides nothing: such an iteration is neutral only if all are.
    """
    decided = [(comparison, holds)]
    for value, is_true in decided:
        for user in value.users:
            if isinstance(user, math.Select) and user.condition is value:
                chosen = user.on_true if is_true else user.on_false
                if chosen.op is None or chosen.home is not user.parent:
                    return True
                continue
            for result in user.results:
                more = result, is_true is not isinstance(user, math.Not)
                is_bool = isinstance(result.type, ElementType) and result.type.element is bool_
                if is_bool and more not in decided:
                    decided.append(more)
    return False


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

    def worlds(self, before: int, after: int) -> list[World]:
        """The facts of an iteration before and after which the maximum is of these kinds.

        A block may be -inf where a condition fails, as at the end of an axis.  If more depends on
        the condition, the elements where it holds, and the others, are worlds apart.
        """
        block, rows = self.block, self.rows
        given = {self.op.result: Fact(after, self.op.result, rows)}
        if isinstance(block.op, tile.Reduce):
            reduce = block.op
            if reduce.kind not in self.reductions:
                return [given]
            block, rows = reduce.x, tuple([a + (a >= reduce.axis) for a in rows])
        may_be = self.dropped | (FLOATS if after & NAN else LOWEST | after)
        is_new = after & NAN and not before & (INFINITE | NAN)
        some = after & ~self.dropped if is_new else 0
        select = block.op
        is_row = block is not self.block
        if (
            is_row
            and isinstance(select, math.Select)
            and outer_fact(select.on_false).kinds == LOWEST
            and len(select.condition.users) > 1
        ):
            condition, x = select.condition, select.on_true
            if element_type(condition.type).shape == element_type(x.type).shape:
                inside = {condition: Fact(TRUE, condition), x: Fact(may_be, x, rows, some)}
                return [given | inside, given | {condition: Fact(FALSE, condition)}]
        return [given | {block: Fact(may_be, block, rows, some)}]


def _maxima(loop: For) -> Iterator[_Maximum]:
    """The running maxima of floats."""
    for index, slot in enumerate(loop.carried()):
        op = slot.yielded.op
        if not isinstance(op, (math.Maximum, math.MaxNum)) or slot.argument not in op.operands:
            continue
        if op.result.type.element.is_float:
            yield _Maximum(index, op, op.rhs if op.lhs is slot.argument else op.lhs)


class _History:
    """What a loop carries after any iteration, in each case of a running maximum."""

    def __init__(self, body: BodyKinds, start: Sequence[Fact], maximum: _Maximum | None):
        self.maximum = maximum
        self.facts: dict[int, Sequence[Fact]] = {}
        waiting = {0: start}  # what the body must be run on
        while waiting:
            facts = waiting.pop(next(iter(waiting)))
            for case in _CASES if maximum is not None else (FLOATS,):
                worlds: list[World] = [{}]
                if maximum is not None:
                    worlds = maximum.worlds(facts[maximum.index].kinds, case)
                try:
                    found = [*body.run(facts, worlds)]
                except Impossible:
                    continue
                if self._learn(case, found, body.carried):
                    waiting[case] = self.facts[case]

    def _learn(self, case: int, found: Sequence[Fact], arguments: Sequence[Value]) -> bool:
        """Add to what carried values may be in a case; whether that is anything new."""
        new = [f._replace(name=v, some=0) for f, v in zip(found, arguments, strict=True)]
        if self.maximum is not None:
            index = self.maximum.index
            new[index] = new[index]._replace(rows=self.maximum.rows)
        known = self.facts.get(case)
        if known is not None:
            new = list(map(union, arguments, zip(known, new, strict=True)))
        self.facts[case] = new
        return new != known


def _plain(kinds: int) -> int:
    """Kinds without where zeros come from."""
    plus, minus = bool(kinds & PLUS_ZEROS), bool(kinds & MINUS_ZEROS)
    return kinds & ~ZEROS | ZERO * plus | MINUS_ZERO * minus
