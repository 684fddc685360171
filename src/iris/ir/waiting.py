"""Which loops wait for other programs, and how programs learn of each other.

A loop waits if whether it goes on depends on what an op in it finds that asks what other programs
have written: a volatile load, or an atomic op.  Such a loop ends only if others go on meanwhile.

    while () {
      %old: i32 = tile.atomic_cas %Lock, %zero, %free, %taken
      %more: bool = compare ne %old, %free
      yield %more
    } do () {
      yield
    }
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from iris.ir import math, metal
from iris.ir.control import For, Func, If, While, carried
from iris.ir.core import Op, Region, Resource, Value
from iris.ir.effects import asks_others, effects_within, may_alias, reads, writes
from iris.ir.math import Predicate
from iris.ir.types import Ptr, Threadgroup


def asked_by(loop: While) -> list[Op]:
    """The ops of a loop that ask other programs whether it goes on; none if it does not wait."""
    deciding = deciding_values(loop)
    found = [v.op for v in deciding if v.op is not None and _asks(v.op)]
    return [] if _tries_again(loop, deciding) else list(dict.fromkeys(found))


def waiting_loops(function: Func) -> list[While]:
    """The loops of a function that wait."""
    return [op for op in function.walk() if type(op) is While and asked_by(op)]


def gives_up(loop: While) -> bool:
    """Whether a loop is sure to end, whatever others do: it counts its iterations up to a limit."""
    return any(
        _is_limit(condition, loop) for condition in _conjuncts(loop.condition.end.operands[0])
    )


def _conjuncts(condition: Value) -> Iterator[Value]:
    """What must all hold for a condition to hold."""
    op = condition.op
    if isinstance(op, math.And):
        for part in op.operands:
            yield from _conjuncts(part)
    elif isinstance(op, If):
        then, otherwise = (region.end.operands[condition.index] for region in op.regions)
        if isinstance(otherwise.op, math.Constant) and not otherwise.op.value:
            yield from _conjuncts(op.condition)
            yield from _conjuncts(then)
    yield condition


def _is_limit(condition: Value, loop: While) -> bool:
    """Whether a condition is `%i < %limit`, of a number that is one more in each iteration."""
    op = condition.op
    if not isinstance(op, math.Compare) or op.predicate is not Predicate.LT:
        return False
    count, limit = op.operands
    if count not in loop.condition.arguments:
        return False
    if limit.is_inside(loop) and not _is_constant(limit):
        return False
    following = loop.body.end.operands[count.index].op
    counted = loop.body.arguments[count.index]
    if not isinstance(following, math.Add) or counted not in following.operands:
        return False
    return any(_is_constant(v, 1) for v in following.operands)


def _is_constant(value: Value, number: int | None = None) -> bool:
    op = value.op
    return isinstance(op, math.Constant) and number in (None, op.value)


def shares_memory(function: Func) -> bool:
    """Whether atomic ops or volatile loads may order what programs do to memory: an access, an
    atomic op that writes after it, and in another program an op that asks, then an access that
    clashes with the first."""
    touching = [op for op in function.walk() if not op.touches_nothing]
    asking = list(filter(asks_others, touching))
    written = [(op, v) for op in touching for v in _arrays(writes(op.effects()))]
    if not asking or not written:
        return False
    if waiting_loops(function):
        return True
    order = _Order(function)
    telling = [op for op, _ in written if _shows_memory(op)]
    told = {op for op in touching if any(order.may_follow(x, op) for x in telling)}
    learned = {op for op in touching if any(order.may_follow(op, x) for x in asking)}
    touched = [(op, v) for op in touching for v in _touched_plainly(op)]
    return any(
        may_alias(v, w)
        for a, v in touched
        for b, w in written
        if (a in told and b in learned) or (b in told and a in learned)
    )


def _shows_memory(op: Op) -> bool:
    """Whether an op orders device memory for other programs: an atomic op, or a volatile load."""
    return any(effect.resource is Resource.DEVICE for effect in op.effects())


def _touched_plainly(op: Op) -> Iterator[Value]:
    if _shows_memory(op):
        return iter(())
    return _arrays(effect.resource for effect in op.effects())


class _Order:
    """Which ops of a function a program may come to after which."""

    def __init__(self, function: Func):
        self._numbers = {op: number for number, op in enumerate(function.walk())}

    def may_follow(self, later: Op, earlier: Op) -> bool:
        """Whether a program may come to an op after another, or to the same op again."""
        around = [op for op in _around(later) if earlier.is_inside(op)]
        if any(op.loops for op in around):
            return True
        return self._numbers[earlier] < self._numbers[later] and (
            _branch(earlier, around[0]) is _branch(later, around[0])
        )


def _around(op: Op) -> Iterator[Op]:
    """The ops around an op, the innermost first."""
    while op.parent_op is not None:
        op = op.parent_op
        yield op


def _branch(op: Op, around: Op) -> Region | None:
    """The region, of an op around another op, that this is in."""
    while op.parent_op is not None and op.parent_op is not around:
        op = op.parent_op
    return op.parent


def stands_still(loop: While) -> bool:
    """Whether nothing that the condition is made of can change in the loop, or by what others do
    to their own memory: it ends at once, or never."""
    deciding = deciding_values(loop)
    written = writes(effects_within(loop))
    for op in (v.op for v in deciding if v.op is not None):
        if _asks(op) or any(may_alias(r, w) for r in reads(op.effects()) for w in written):
            return False
    return not any(
        _goes_on(loop, i) for i in range(len(loop.results)) if _is_carried(i, loop, deciding)
    )


def _is_carried(index: int, loop: While, values: set[Value]) -> bool:
    return any(region.arguments[index] in values for region in loop.regions)


def _goes_on(loop: While, index: int) -> bool:
    """Whether what a loop carries is made of what it was an iteration before."""
    following = loop.body.end.operands[index]
    if following is loop.body.arguments[index]:
        return False
    return _is_carried(index, loop, _made_of([following], loop))


def deciding_values(loop: While) -> set[Value]:
    """The values that a loop computes or carries, and that its condition depends on."""
    return _made_of(loop.condition.end.operands, loop)


def _made_of(values: Iterable[Value], loop: While) -> set[Value]:
    """What is made in a loop, or carried by it, of which values are made."""
    seen: set[Value] = set()
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if value in seen or not value.is_inside(loop):
            continue
        seen.add(value)
        waiting += _sources(value)
        if isinstance(value.op, metal.Load):
            waiting += _stored_for(value.op, loop)
    return seen


def _stored_for(load: metal.Load, loop: While) -> list[Value]:
    """What threads of one threadgroup give each other in a loop, of which a load may be."""
    if not isinstance(load.base.type, Threadgroup):
        return []
    stores = (op for op in loop.walk() if isinstance(op, metal.Store))
    return [op.value for op in stores if may_alias(op.base, load.base)]


def _asks(op: Op) -> bool:
    """At the level of threads atomic ops have no effect on memory but their own."""
    exchanges = metal.Atomic | metal.AtomicLoad | metal.CompareExchange
    return asks_others(op) or isinstance(op, exchanges) or is_volatile(op)


def is_volatile(op: Op) -> bool:
    return isinstance(op, metal.Load) and op.volatile


def _tries_again(loop: While, deciding: set[Value]) -> bool:
    """Whether a loop only repeats an exchange that failed though it might have succeeded: where
    another was in between, or for no reason."""
    asking = [v.op for v in deciding if v.op is not None and _asks(v.op)]
    return bool(asking) and all(
        isinstance(op, metal.CompareExchange)
        and op.parent_op is loop
        and op.done in deciding
        and (op.old in deciding or op.expected.is_inside(loop))
        for op in asking
    )


def _arrays(touched: Iterable[Value | Resource]) -> Iterator[Value]:
    return (v for v in touched if isinstance(v, Value) and isinstance(v.type, Ptr))


def _sources(value: Value) -> list[Value]:
    """Of what a value is made: what decides on it, too."""
    op = value.op
    if op is None:
        slot = carried(value)
        if slot is not None:
            return [slot.initial, slot.yielded]
        return list(value.owner.operands[:3]) if isinstance(value.owner, For) else []
    sources = list(op.operands)
    for region in op.regions:
        sources += region.end.operands
    return sources
