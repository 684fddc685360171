"""Run the body of a loop on kinds of numbers instead of numbers, for rows of one case.

What is known may hold only for some rows of a tile, as of those whose running maximum is -inf.
The rows are those along some axes, which each op moves with the elements.  A value that combines
several rows is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from iris.analysis.backward_slice import operands_within
from iris.analysis.number_kinds import (
    ALL_GONE,
    COMPARISONS,
    FALSE,
    FINITE,
    FLOATS,
    INFINITE,
    INTEGERS,
    LOWEST,
    MINUS_ZEROS,
    NAN,
    ONE,
    PLUS_ZEROS,
    TRUE,
    ZERO,
    ZEROS,
    combine,
    kind_of,
    kinds_of_type,
    narrowed,
    result_kinds,
    sum_of_some,
)
from iris.ir import math, tile
from iris.ir.control import For
from iris.ir.core import Facet, Op, Region, Value
from iris.ir.kinds import ReduceKind
from iris.ir.math import Constant, element_type
from iris.ir.types import ElementType

Rows: TypeAlias = tuple[int, ...]


Name: TypeAlias = Value | int


class Fact(NamedTuple):
    """A fact about the elements of a value in the rows of one case."""

    kinds: int  # that they are of
    name: Name  # values of one name are equal
    rows: Rows | None = None  # the axes that rows go along; None: it holds for any row
    some: int = 0  # kinds that some element of each row is of; 0: nothing is known


Facts: TypeAlias = tuple[Fact, ...]  # of a value, in each world
World: TypeAlias = Mapping[Value, Fact]  # what is known before
Combination: TypeAlias = Callable[["BodyKinds", Any, Sequence[Fact]], Fact]

#: `rule(run, op, facts)` gives the fact of an op that is not elementwise.
combined_kinds = Facet("kinds of combined numbers")


class Impossible(Exception):
    """A value is of no kind in any world, so that all this cannot be."""


class _Step(NamedTuple):
    """An op to run on facts."""

    is_elementwise: bool
    operands: Sequence[Value]  # on which its result depends
    result: Value
    rule: Callable[[Sequence[Fact]], Fact]
    known: dict[Sequence[Fact], Fact]  # what the rule gave so far


class BodyKinds:
    """Runs the body of a loop on facts about the values that it carries.

    Worlds may give facts about `pinned` values, too.  Nothing is known of a value that depends on
    neither these nor carried values.  A product with what is gone leaves out infinities and nan of
    values that do not depend on carried ones.
    """

    def __init__(self, loop: For, pinned: Collection[Value]):
        self.carried = loop.carried_arguments
        self._body = loop.body
        self._moving = _dependents(loop.body, self.carried)
        self._varying = _dependents(loop.body, [*self.carried, *pinned])
        self._names: dict[Any, int] = {}
        self._steps: list[list[_Step]] = []  # for each yielded value, those for none before it
        self._outer: list[dict[Value, Fact]] = []  # what else these need
        self._prepared: set[Value] = set()

    def run(self, carried: Sequence[Fact], worlds: Sequence[World]) -> Iterator[Fact]:
        """What the body yields, one value after the other.

        Worlds tell elements of one position apart, as those where a condition holds.
        """
        count = len(worlds)
        facts = {v: (f,) * count for v, f in zip(self.carried, carried, strict=True)}
        given = {v for world in worlds for v in world}
        for number, value in enumerate(self._body.end.operands):
            if number == len(self._steps):
                self._prepare(value)
            for outer, fact in self._outer[number].items():
                facts[outer] = tuple([_given(world.get(outer), fact) for world in worlds])
            for step in self._steps[number]:
                result = step.result
                operands = [facts[v] for v in step.operands]
                if step.is_elementwise:
                    found = tuple([_applied(step, own) for own in zip(*operands, strict=True)])
                else:
                    own = tuple(map(union, step.operands, operands))
                    found = (_applied(step, own),) * count
                if result in given:
                    pairs = zip(worlds, found, strict=True)
                    found = tuple([_given(world.get(result), fact) for world, fact in pairs])
                if not found[0].kinds and not any(fact.kinds for fact in found):
                    raise Impossible
                facts[result] = found
            yield union(value, facts[value])

    def _prepare(self, yielded: Value) -> None:
        """Find the steps to the next yielded value."""
        needed: dict[Value, _Step] = {}
        outer: dict[Value, Fact] = {}
        waiting = [yielded]
        while waiting:
            value = waiting.pop()
            varies = value in self._varying and value.home is self._body
            if not varies or not isinstance(value.type, ElementType):
                outer[value] = outer_fact(value)
            elif value.op is not None and value not in self._prepared:
                self._prepared.add(value)
                step = needed[value] = self._step(value, value.op)
                waiting += step.operands
        values = [v for op in self._body for v in op.results]
        self._steps.append([needed[v] for v in values if v in needed])
        self._outer.append(outer)

    def named(self, op: Op, operands: Sequence[Fact]) -> Name:
        """The name of the result of an op with operands of these facts."""
        key = type(op), op.attributes, tuple([f.name for f in operands]), op.results[0].type
        return self._names.setdefault(key, len(self._names))

    def product(self, values: Sequence[Value], x: int, y: int) -> int:
        """The kinds of a product of two values."""
        mul = partial(combine, result_kinds[math.Mul])
        if x & ALL_GONE and values[1] not in self._moving:
            return mul(x & ~ALL_GONE, y) | mul(x & ALL_GONE, _finite(y))
        if y & ALL_GONE and values[0] not in self._moving:
            return mul(x, y & ~ALL_GONE) | mul(_finite(x), y & ALL_GONE)
        return mul(x, y)

    def _quotient(self, values: Sequence[Value], x: int, y: int) -> int:
        found = 0
        if x & ALL_GONE and values[1] not in self._moving:
            found = combine(result_kinds[math.Mul], x & ALL_GONE, _finite(y))
            x &= ~ALL_GONE
        return found | (x if x in (0, NAN) else FLOATS)

    def _step(self, result: Value, op: Op) -> _Step:
        if isinstance(op, math.Elementwise):
            rule = partial(self._elementwise, op, self._kinds_rule(op))
            return _Step(True, op.operands, result, rule, {})
        combination: Combination | None = combined_kinds.get(type(op))
        if combination is not None:
            return _Step(False, op.operands, result, partial(combination, self, op), {})
        return _Step(False, (), result, lambda _: unknown(result), {})

    def _elementwise(self, op: Op, rule: Callable[..., int], operands: Sequence[Fact]) -> Fact:
        rows, apart = _common_rows(operands)
        if apart:
            return unknown(op.results[0])
        same = _unchanged(op, operands)
        if same is not None:
            return same._replace(rows=rows)
        kinds = [f.kinds for f in operands]
        if isinstance(op, math.Sub) and operands[0].name == operands[1].name:
            rule = _difference_of_equals
        somes = [
            rule(*kinds[:n], fact.some, *kinds[n + 1 :])
            for n, fact in enumerate(operands)
            if fact.some
        ]
        some = min(somes, key=int.bit_count, default=0)
        return Fact(rule(*kinds), self.named(op, operands), rows, some)

    def _kinds_rule(self, op: Op) -> Callable[..., int]:
        """What gives the kinds of the result of an elementwise op."""
        element = op.results[0].type.element
        of = op.operands[-1].type.element
        if isinstance(op, math.Select):
            return _selected
        if isinstance(op, math.Compare) and of.is_float:
            return partial(combine, COMPARISONS[op.predicate])
        if isinstance(op, math.Cast) and of.is_float and element.is_float:
            return partial(combine, narrowed) if element.bits < of.bits else _kept
        if isinstance(op, (math.Mul, math.Div)) and of.is_float:
            make = self.product if isinstance(op, math.Mul) else self._quotient
            return partial(make, op.operands)
        rule: Callable[..., int] | None = result_kinds.get(type(op))
        if rule is None or of.is_integer:
            return lambda *kinds: kinds_of_type(element)
        return partial(combine, rule)


def _applied(step: _Step, operands: tuple[Fact, ...]) -> Fact:
    found = step.known.get(operands)
    if found is None:
        found = step.known[operands] = step.rule(operands)
    return found


def _finite(kinds: int) -> int:
    """Kinds without infinities and nan, unless it is sure that a number is one of these."""
    return kinds & FINITE or kinds


def outer_fact(value: Value) -> Fact:
    """The fact about a value that is not run on facts, as one from outside of the loop."""
    op = value.op
    if isinstance(op, Constant):
        return Fact(kind_of(op.value, op.dtype.element), value)
    return unknown(value)


def unknown(value: Value) -> Fact:
    element = element_type(value.type).element if isinstance(value.type, ElementType) else None
    return Fact(0 if element is None else kinds_of_type(element), value)


def union(value: Value, facts: Sequence[Fact]) -> Fact:
    """What holds of the elements of a value that are of any of some facts; no element is of no
    kind.  If only some of its elements equal another value, it keeps its own name."""
    if facts.count(facts[0]) == len(facts):
        return facts[0]
    facts = [fact for fact in facts if fact.kinds] or facts
    rows, apart = _common_rows(facts)
    if apart:
        return unknown(value)
    kinds = some = 0
    names = {fact.name for fact in facts}
    for fact in facts:
        kinds, some = kinds | fact.kinds, some or fact.some
    return Fact(kinds, names.pop() if len(names) == 1 else value, rows, some)


def _dependents(body: Region, values: Iterable[Value]) -> set[Value]:
    """Values, and all in a body that depend on them."""
    found = {*values}
    for op in body:
        if not found.isdisjoint(operands_within(op)):
            found.update(op.results)
    return found


def _given(given: Fact | None, fact: Fact) -> Fact:
    """A fact with what was known before."""
    if given is None:
        return fact
    rows, apart = _common_rows([fact, given])
    if apart:
        return fact
    return Fact(fact.kinds & given.kinds, fact.name, rows, given.some or fact.some)


def _common_rows(facts: Sequence[Fact]) -> tuple[Rows | None, bool]:
    """The axes that the rows of facts go along; and whether these differ."""
    rows: Rows | None = None
    for fact in facts:
        if fact.rows is not None and fact.rows != rows:
            if rows is not None:
                return rows, True
            rows = fact.rows
    return rows, False


# Elementwise ops.


def _unchanged(op: Op, operands: Sequence[Fact]) -> Fact | None:
    """The operand that an op gives as it is."""
    if isinstance(op, math.Select):
        condition, x, y = operands
        if condition.kinds in (TRUE, FALSE):
            return x if condition.kinds == TRUE else y
        return x if x.name == y.name else None
    if len(operands) != 2:
        return None
    for x, y in (operands, operands[::-1]) if op.commutative else (operands,):
        if _changes_nothing(op, x.kinds, y.kinds):
            return x
    return None


def _changes_nothing(op: Op, x: int, y: int) -> bool:
    """Whether `y` as the second operand of an op leaves `x` as it is."""
    if isinstance(op, math.Add):
        return not y & ~(MINUS_ZEROS if x & MINUS_ZEROS else ZEROS)
    if isinstance(op, math.Sub):
        return not y & ~PLUS_ZEROS
    if isinstance(op, (math.Mul, math.Div)):
        return y == ONE
    drops_nan = isinstance(op, math.MaxNum) and bool(x & NAN)
    return isinstance(op, (math.Maximum, math.MaxNum)) and y == LOWEST and not drops_nan


def _selected(condition: int, x: int, y: int) -> int:
    """A 0 in place of what is gone is gone, too."""
    either = x | y
    is_gone = either & ALL_GONE and not either & ~(ALL_GONE | ZERO)
    return either & ~ZERO if is_gone else either


def _difference_of_equals(x: int, y: int) -> int:
    either = x & y
    return ZERO * bool(either & (FINITE | INTEGERS)) | NAN * bool(
        either & (LOWEST | INFINITE | NAN)
    )


def _kept(x: int) -> int:
    return x


# Ops that move elements.


@combined_kinds(tile.Broadcast)
def broadcast(run: BodyKinds, op: tile.Broadcast, facts: Sequence[Fact]) -> Fact:
    (x,) = facts
    return x._replace(name=run.named(op, facts))


@combined_kinds(tile.ExpandDims)
def expand_dims(run: BodyKinds, op: tile.ExpandDims, facts: Sequence[Fact]) -> Fact:
    return _moved(run, op, facts[0], lambda axis: axis + (axis >= op.axis))


@combined_kinds(tile.Transpose)
def transpose(run: BodyKinds, op: tile.Transpose, facts: Sequence[Fact]) -> Fact:
    return _moved(run, op, facts[0], op.permutation.index)


def _moved(run: BodyKinds, op: Op, x: Fact, to: Callable[[int], int]) -> Fact:
    rows = None if x.rows is None else tuple(map(to, x.rows))
    return Fact(x.kinds, run.named(op, [x]), rows, x.some)


@combined_kinds(tile.Reshape)
def reshape(run: BodyKinds, op: tile.Reshape, facts: Sequence[Fact]) -> Fact:
    (x,) = facts
    return x._replace(name=run.named(op, facts)) if not x.rows else unknown(op.result)


# Ops that combine elements.


@combined_kinds(tile.Reduce)
def reduce(run: BodyKinds, op: tile.Reduce, facts: Sequence[Fact]) -> Fact:
    x = facts[0]
    if op.axis in (x.rows or ()) or op.kind not in _REDUCED:
        return unknown(op.result)
    rows = None if x.rows is None else tuple([a - (a > op.axis) for a in x.rows])
    kinds = _REDUCED[op.kind](x.kinds) if op.x.type.element.is_float else _sum_of_whole(op, x.kinds)
    some = NAN if x.some == NAN and op.kind in _KEEPING_NAN else 0
    is_row = len(element_type(op.result.type).shape) == len(rows or ())
    return Fact(some or kinds if is_row else kinds, run.named(op, facts), rows, some)


_REDUCED: dict[ReduceKind, Callable[[int], int]] = {
    ReduceKind.SUM: sum_of_some,
    **dict.fromkeys((ReduceKind.MAXIMUM, ReduceKind.MINIMUM), _kept),
    **dict.fromkeys((ReduceKind.MAXNUM, ReduceKind.MINNUM), _kept),
}
_KEEPING_NAN = (ReduceKind.SUM, ReduceKind.MAXIMUM, ReduceKind.MINIMUM)


def _sum_of_whole(op: tile.Reduce, kinds: int) -> int:
    return kinds if kinds == ZERO else unknown(op.result).kinds


@combined_kinds(tile.Dot)
def dot(run: BodyKinds, op: tile.Dot, facts: Sequence[Fact]) -> Fact:
    """Of terms that are all -0.0 the sum may be 0.0."""
    a, b = facts[:2]
    element, is_one = op.result.type.element, len(element_type(op.result.type).shape) == 2
    across = [f.rows for f, axis in ((a, 0), (b, 1)) if f.rows not in (None, (), (axis,))]
    rows, apart = _common_rows(facts)
    if across or apart or not element.is_float or not is_one:
        return unknown(op.result)
    values = op.operands[:2]
    products = run.product(values, a.kinds, b.kinds)
    acc = facts[2] if op.acc is not None else Fact(ZERO, op.result)
    if not products & ~ZEROS and not acc.kinds & MINUS_ZEROS:
        return acc._replace(rows=rows)
    total = combine(result_kinds[math.Add], acc.kinds, sum_of_some(products))
    if element.bits < 32:
        total = combine(narrowed, total)
    if total & MINUS_ZEROS:
        total = total & ~MINUS_ZEROS | ZERO
    is_nan = a.rows == (0,) and a.some and run.product(values, a.some, b.kinds) == NAN
    return Fact(NAN if is_nan else total, run.named(op, facts), rows)
