"""The part of memory that an op touches: a window that moves along with what is the same for all.

The offset of an access is a sum: of values that all threads of the threadgroup have in common,
such as the number of the round, times a constant each; and of the rest, which is a thread's own
and known to be within bounds.

    %at: i32 = add %k, %lane            # the window: from %k on, 32 elements
    %x: f32 = metal.load %X, %at

Two windows are apart if they move alike and their bounds do not meet; two rounds of one window in
a loop, if it moves on by at least its size in a round.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from iris.ir import math, metal
from iris.ir.control import For, Func
from iris.ir.core import Op, Value
from iris.ir.math import Constant, element_type
from iris.ir.uniformity import Uniformity, uniformity

Terms = Mapping[Value, int]  # what all threads have in common, and what it is multiplied by


@dataclass(frozen=True)
class Window:
    """Bytes of memory, from `low` to below `high`, counted from the sum of some terms."""

    terms: Terms
    low: int
    high: int
    period: int = 0  # that it was moved on by since, once or several times, if it was

    def is_apart(self, other: Window) -> bool:
        if self.terms != other.terms:
            return False
        period = self.period or other.period
        if period:
            return max(self.high, other.high) - min(self.low, other.low) <= period
        return self.high <= other.low or other.high <= self.low

    def of_earlier_turn(self, loop: Op) -> Window | None:
        """The window as a later turn of a loop sees it, its terms being those of the later one."""
        changing = [v for v in self.terms if v.home is not None and _is_in(v, loop)]
        if not changing:
            return self
        if changing != _index(loop) or self.period:
            return None
        step = loop.operands[2].op
        if not isinstance(step, Constant):
            return None
        return replace(self, period=abs(int(step.value) * self.terms[changing[0]]))


def _is_in(value: Value, loop: Op) -> bool:
    owner = value.home.owner if value.home is not None else None
    return owner is not None and owner.is_inside(loop)


def _index(loop: Op) -> list[Value]:
    return loop.body.arguments[:1] if isinstance(loop, For) else []


class Windows:
    """The windows that the accesses in a function touch."""

    def __init__(self, function: Func):
        self.function = function
        self._known: dict[Value, Window | None] = {}

    @cached_property
    def _levels(self) -> Mapping[Value, Uniformity]:
        return uniformity(self.function)

    def of(self, offset: Value, start: int, size: int, count: int) -> Window | None:
        """The window of an access to so many elements of a size, at an offset of each thread; the
        elements start at a byte of their memory."""
        found = self._of(offset)
        if found is None:
            return None
        terms = {v: n * size for v, n in found.terms.items()}
        return Window(terms, start + found.low * size, start + (found.high - 1 + count) * size)

    def _of(self, value: Value) -> Window | None:
        if value not in self._known:
            self._known[value] = self._find(value)
        return self._known[value]

    def _find(self, value: Value) -> Window | None:
        op = value.op
        if isinstance(op, Constant):
            return Window({}, int(op.value), int(op.value) + 1)
        if isinstance(op, math.Add | math.Sub):
            a, b = self._of(op.lhs), self._of(op.rhs)
            if a is not None and b is not None:
                return _plus(a, b if isinstance(op, math.Add) else _times(b, -1))
        elif isinstance(op, math.Mul | math.Shl):
            a, b = self._of(op.lhs), self._of(op.rhs)
            for x, y in ((a, b), (b, a)) if isinstance(op, math.Mul) else ((a, b),):
                if x is not None and y is not None and not y.terms and y.high - y.low == 1:
                    return _times(x, y.low if isinstance(op, math.Mul) else 1 << y.low)
        elif isinstance(op, math.Cast) and _widens(op):
            return self._of(op.x)
        if self._levels[value] is Uniformity.THREADGROUP and not _is_in_foreach(value):
            return Window({value: 1}, 0, 1)
        bound = self._bound(value)
        return Window({}, 0, bound) if bound is not None else None

    def _bound(self, value: Value) -> int | None:
        """What a value that is not negative is below."""
        op = value.op
        if op is None:
            loop = value.region.owner if value.region is not None else None
            return loop.count if isinstance(loop, metal.Foreach) else None
        if isinstance(op, metal.Lane):
            return metal.SIMDGROUP_WIDTH
        if isinstance(op, metal.Simdgroup):
            return self.function.simdgroups or None
        if not isinstance(op, math.And | math.Or | math.Xor | math.Shr):
            return None
        a, b = self._limit(op.lhs), self._limit(op.rhs)
        if isinstance(op, math.And):
            return min((x for x in (a, b) if x is not None), default=None)
        if a is None or b is None:
            return None
        if isinstance(op, math.Shr):
            shift = op.rhs.op.value if isinstance(op.rhs.op, Constant) else 0
            return ((a - 1) >> int(shift)) + 1
        return 1 << max(a - 1, b - 1).bit_length()

    def _limit(self, value: Value) -> int | None:
        window = self._of(value)
        return None if window is None or window.terms or window.low < 0 else window.high


def _widens(op: math.Cast) -> bool:
    """Whether a cast keeps all numbers.  (An offset that overflows is an error anyway.)"""
    source, target = (element_type(v.type).element for v in (op.x, op.result))
    return source.is_signed and target.is_signed and source.bits <= target.bits


def _plus(a: Window, b: Window) -> Window:
    terms = dict(a.terms)
    for value, count in b.terms.items():
        terms[value] = terms.get(value, 0) + count
    return Window({v: n for v, n in terms.items() if n}, a.low + b.low, a.high + b.high - 1)


def _times(a: Window, factor: int) -> Window:
    ends = sorted((a.low * factor, (a.high - 1) * factor))
    terms = {v: n * factor for v, n in a.terms.items() if factor}
    return Window(terms, ends[0], ends[1] + 1)


def _is_in_foreach(value: Value) -> bool:
    """Whether a value may differ between the rounds of a `foreach`."""
    owner = value.home.owner if value.home is not None else None
    while owner is not None and not isinstance(owner, metal.Foreach):
        owner = owner.parent_op
    return owner is not None
