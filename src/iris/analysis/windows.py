"""The part of memory that an op touches: a window that moves along with what is the same for all.

The offset of an access is a sum: of values that all threads of the threadgroup have in common,
such as the number of the round, times a constant each; and of the rest, which is a thread's own
and known to be within bounds.

    %at: i32 = add %k, %lane            # the window: from %k on, 32 elements
    %x: f32 = metal.load %X, %at

Two windows are apart if one ends where the other starts, or before; two rounds of one window in a
loop, if it moves on by at least its size in a round; and what two loops touch, if one goes on
where the other ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

from iris.ir import math, metal
from iris.ir.control import For, Func
from iris.ir.core import Op, Value
from iris.ir.math import Constant
from iris.ir.uniformity import Uniformity, uniformity

WIDEST = 64  # bits of an integer, which a shift is less than


class Sum(NamedTuple):
    """Values that all threads have in common, each times a number, and a number."""

    terms: Mapping[Value, int]
    number: int

    def plus(self, other: Sum, times: int = 1) -> Sum:
        if not other.terms:
            return Sum(self.terms, self.number + times * other.number)
        terms = dict(self.terms)
        for value, count in other.terms.items():
            terms[value] = terms.get(value, 0) + times * count
        return Sum({v: n for v, n in terms.items() if n}, self.number + times * other.number)

    def times(self, factor: int) -> Sum:
        return NOTHING.plus(self, factor)

    def is_multiple(self, of: int) -> bool:
        return not any(n % of for n in (*self.terms.values(), self.number))

    def changing(self, loop: Op) -> list[Value]:
        """The values that are defined in a loop."""
        return [v for v in self.terms if v.is_inside(loop)]


class Window(NamedTuple):
    """What is from `low` to below `high`."""

    low: Sum
    high: Sum
    period: int = 0  # that it was moved on by since, once or several times, if it was

    def is_apart(self, other: Window) -> bool:
        period = self.period or other.period
        if not period:
            return _is_below(self, other) or _is_below(other, self)
        ends = (self.low, self.high, other.low, other.high)
        if any(end.terms != self.low.terms for end in ends):
            return False
        numbers = [end.number for end in ends]
        return max(numbers) - min(numbers) <= period

    def plus(self, other: Window) -> Window:
        return Window(self.low.plus(other.low), self.high.plus(other.high).plus(ONE, -1))

    def times(self, factor: int) -> Window:
        first, last = self.low.times(factor), self.high.plus(ONE, -1).times(factor)
        low, high = (first, last) if factor >= 0 else (last, first)
        return Window(low, high.plus(ONE))


NOTHING = Sum({}, 0)
ONE = Sum({}, 1)


def _is_below(a: Window, b: Window) -> bool:
    return a.high.terms == b.low.terms and a.high.number <= b.low.number


def _bounded(low: int, high: int) -> Window:
    return Window(Sum({}, low), Sum({}, high))


class Windows:
    """The windows that the accesses in a function touch."""

    def __init__(self, function: Func):
        self.function = function
        self._known: dict[Value, Window | None] = {}

    @cached_property
    def _levels(self) -> Mapping[Value, Uniformity]:
        return uniformity(self.function)

    def of(self, offset: Value, start: int, size: int, count: int) -> Window | None:
        """The bytes that threads touch with so many elements of a size, at an offset that each
        has; the elements start at a byte of their memory."""
        found = self._of(offset)
        if found is None:
            return None
        byte = Sum({}, start)
        last = found.high.plus(ONE, count - 1)
        return Window(found.low.times(size).plus(byte), last.times(size).plus(byte))

    def of_earlier_turn(self, window: Window, loop: Op) -> Window | None:
        """A window as a later turn of a loop sees it, in terms of the later one."""
        changing = {*window.low.changing(loop), *window.high.changing(loop)}
        if not changing:
            return window
        index = _index(loop)
        if index is None or changing != {index[0]}:
            return None
        times = window.low.terms.get(index[0], 0)
        return window._replace(period=abs(times * index[1]))

    def outside(self, window: Window, loop: Op) -> Window | None:
        """What a window moves over in all turns of a loop."""
        changing = {*window.low.changing(loop), *window.high.changing(loop)}
        if not changing:
            return window
        index = _index(loop)
        if index is None or changing != {index[0]}:
            return None
        value, step = index
        first, end = (self._sum(bound) for bound in loop.operands[:2])
        times = window.low.terms.get(value, 0)
        if first is None or end is None or step < 0 or times < 0:
            return None
        last = end.plus(ONE, -step if end.plus(first, -1).is_multiple(step) else -1)
        here = Sum({value: 1}, 0)
        return Window(
            window.low.plus(first.plus(here, -1), times),
            window.high.plus(last.plus(here, -1), times),
        )

    def _sum(self, value: Value) -> Sum | None:
        window = self._of(value)
        return window.low if window is not None and window.low.plus(ONE) == window.high else None

    def _of(self, value: Value) -> Window | None:
        if value not in self._known:
            self._known[value] = self._find(value)
        return self._known[value]

    def _find(self, value: Value) -> Window | None:
        op = value.op
        if isinstance(op, Constant):
            return _bounded(int(op.value), int(op.value) + 1)
        if isinstance(op, metal.Simdgroup) and self.function.simdgroups:
            return _bounded(0, self.function.simdgroups)  # even where there is only one
        if isinstance(op, math.Add | math.Sub | math.Mul | math.Shl):
            found = self._arithmetic(op)
            if found is not None:
                return found
        elif isinstance(op, math.Cast) and _widens(op):
            return self._of(op.x)
        if self._levels[value] is Uniformity.THREADGROUP and not _is_in_foreach(value):
            here = Sum({value: 1}, 0)
            return Window(here, here.plus(ONE))
        bound = self._bound(value)
        return _bounded(0, bound) if bound is not None else None

    def _arithmetic(self, op: math.Add | math.Sub | math.Mul | math.Shl) -> Window | None:
        a, b = self._of(op.lhs), self._of(op.rhs)
        if a is None or b is None:
            return None
        if isinstance(op, math.Add):
            return a.plus(b)
        if isinstance(op, math.Sub):
            return a.plus(b.times(-1))
        factor = self._sum(op.rhs)
        if isinstance(op, math.Mul) and (factor is None or factor.terms):
            a, factor = b, self._sum(op.lhs)
        if factor is None or factor.terms:
            return None
        if isinstance(op, math.Mul):
            return a.times(factor.number)
        return a.times(1 << factor.number) if 0 <= factor.number < WIDEST else None

    def _bound(self, value: Value) -> int | None:
        """What a value that is not negative is below."""
        op = value.op
        if op is None:
            loop = value.owner
            return loop.count if isinstance(loop, metal.Foreach) else None
        if isinstance(op, metal.Lane):
            return metal.SIMDGROUP_WIDTH
        if not isinstance(op, math.And | math.Or | math.Xor | math.Shr):
            return None
        a, b = self._limit(op.lhs), self._limit(op.rhs)
        if isinstance(op, math.And):
            return min((x for x in (a, b) if x is not None), default=None)
        if a is None or b is None:
            return None
        if isinstance(op, math.Shr):
            shift = int(op.rhs.op.value) if isinstance(op.rhs.op, Constant) else 0
            return ((a - 1) >> shift) + 1 if 0 <= shift < WIDEST else None
        return 1 << max(a - 1, b - 1).bit_length()

    def _limit(self, value: Value) -> int | None:
        window = self._of(value)
        if window is None or window.low.terms or window.high.terms or window.low.number < 0:
            return None
        return window.high.number


def _index(loop: Op) -> tuple[Value, int] | None:
    """What counts the rounds of a loop, and by how much it grows in each."""
    step = loop.operands[2].op if isinstance(loop, For) else None
    if not isinstance(step, Constant) or not step.value:
        return None
    return loop.regions[0].arguments[0], int(step.value)


def _widens(op: math.Cast) -> bool:
    """Whether a cast keeps all numbers.  (An offset that overflows is an error anyway.)"""
    source, target = (v.type.element for v in (op.x, op.result))
    return source.is_signed and target.is_signed and source.bits <= target.bits


def _is_in_foreach(value: Value) -> bool:
    """Whether a value may differ between the rounds of a `foreach`."""
    owner = value.parent_op
    while owner is not None and not isinstance(owner, metal.Foreach):
        owner = owner.parent_op
    return owner is not None
