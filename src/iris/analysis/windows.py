"""The part of memory that an op touches: a window that moves along with what is the same for all.

The offset of an access is a sum: of values that all threads of the threadgroup have in common,
such as the number of the round, times a constant each; and of the rest, which is a thread's own
and known to be within bounds.

    %at: i32 = add %k, %lane            # the window: from %k on, 32 elements
    %x: f32 = metal.load %X, %at

Two windows are apart if one ends where the other starts, or before; two rounds of one window in a
loop, if it moves on by at least its size in a round; and what two loops touch, if one goes on
where the other ends.  Windows of rows are also apart if they are in different columns: the left
and the right half of each row, say.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

from iris.analysis.affine import Sum, as_sum, number_of, plus, times
from iris.ir import math, metal
from iris.ir.control import For, Func
from iris.ir.core import Op, Value
from iris.ir.math import Constant
from iris.ir.uniformity import Uniformity, uniformity

WIDEST = 64  # bits of an integer, which a shift is less than
#: Bits of an integer that must not overflow on its way to an offset.  One of fewer bits may wrap.
EXACT = 32


class Window(NamedTuple):
    """What is from `low` to below `high`."""

    low: Sum
    high: Sum
    period: int = 0  # that it was moved on by since, once or several times, if it was
    #: Strides, and how often each is added to `low` at most, where no more is in the window.
    strides: tuple[tuple[int, int], ...] | None = None

    def is_apart(self, other: Window) -> bool:
        period = self.period or other.period
        if not period:
            return (
                _is_below(self, other) or _is_below(other, self) or _are_other_columns(self, other)
            )
        gaps = [number_of(plus(end, self.low, -1)) for end in (self.high, other.low, other.high)]
        numbers = [0, *[gap for gap in gaps if gap is not None]]
        return None not in gaps and max(numbers) - min(numbers) <= period

    def plus(self, other: Window) -> Window:
        low, high = plus(self.low, other.low), plus(plus(self.high, other.high), ONE, -1)
        known = self.strides is not None and other.strides is not None
        strides = (*(self.strides or ()), *(other.strides or ())) if known else None
        return Window(low, high, strides=strides)

    def times(self, factor: int) -> Window:
        first = times(self.low, factor)
        last = plus(times(self.high, factor), ONE, -factor)
        low, high = (first, last) if factor >= 0 else (last, first)
        strides = self.strides and tuple([(abs(factor) * n, most) for n, most in self.strides])
        return Window(low, plus(high, ONE), strides=strides)

    def changing(self, loop: Op) -> set[Value]:
        """The values that the window depends on and that are defined in a loop."""
        products = self.low.keys() | self.high.keys()
        return {v for product in products for v in product if v.is_inside(loop)}


ONE: Sum = {(): 1}


def _is_below(a: Window, b: Window) -> bool:
    gap = number_of(plus(b.low, a.high, -1))
    return gap is not None and gap >= 0


def _are_other_columns(a: Window, b: Window) -> bool:
    """Whether all that two windows hold is in different columns of rows of some length."""
    distance = number_of(plus(b.low, a.low, -1))
    if distance is None or a.strides is None or b.strides is None:
        return False
    for length in {n for n, _ in (*a.strides, *b.strides) if n}:
        start = distance % length
        widths = [1 + sum(n * most for n, most in w if n % length) for w in (a.strides, b.strides)]
        if widths[0] <= start and start + widths[1] <= length:
            return True
    return False


def _bounded(low: int, high: int) -> Window:
    return Window(as_sum(low), as_sum(high), strides=((1, high - 1 - low),))


class Windows:
    """The windows that the accesses in a function touch."""

    def __init__(self, function: Func):
        self.function = function
        self._known: dict[Value, Window | None] = {}

    @cached_property
    def levels(self) -> Mapping[Value, Uniformity]:
        """How uniform each value is."""
        return uniformity(self.function)

    def is_in_common(self, value: Value) -> bool:
        """Whether all threads surely have the same number, in all turns of `foreach` ops."""
        return self.levels[value] is Uniformity.THREADGROUP and not _is_in_foreach(value)

    def of(self, offset: Value, start: int, size: int, count: int) -> Window | None:
        """The bytes that threads touch with so many elements of a size, at an offset that each
        has; the elements start at a byte of their memory."""
        found = self._of(offset)
        if found is None:
            return None
        return found.times(size).plus(_bounded(start, start + size * count))

    def of_earlier_turn(self, window: Window, loop: Op) -> Window | None:
        """A window as a later turn of a loop sees it, in terms of the later one."""
        changing = window.changing(loop)
        if not changing:
            return window
        index = _index(loop)
        if index is None or changing != {index[0]}:
            return None
        times = window.low.get((index[0],), 0)
        return window._replace(period=abs(times * index[1]))

    def outside(self, window: Window, loop: Op) -> Window | None:
        """What a window moves over in all turns of a loop."""
        changing = window.changing(loop)
        if not changing:
            return window
        index = _index(loop)
        if index is None or changing != {index[0]}:
            return None
        value, step = index
        first, end = (self._sum(bound) for bound in loop.operands[:2])
        times = window.low.get((value,), 0)
        if first is None or end is None or step < 0 or times < 0:
            return None
        is_whole = not any(n % step for n in plus(end, first, -1).values())
        last = plus(end, ONE, -step if is_whole else -1)
        here: Sum = {(value,): 1}
        return Window(
            plus(window.low, plus(first, here, -1), times),
            plus(window.high, plus(last, here, -1), times),
        )

    def _sum(self, value: Value) -> Sum | None:
        window = self._of(value)
        return window.low if window is not None and plus(window.low, ONE) == window.high else None

    def _number(self, value: Value) -> int | None:
        total = self._sum(value)
        return None if total is None else number_of(total)

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
        if isinstance(op, (math.Add, math.Sub, math.Mul, math.Shl)):
            found = self._arithmetic(op)
            if found is not None:
                return found
        elif isinstance(op, math.Cast) and keeps_numbers(op):
            return self._of(op.x)
        if self.is_in_common(value):
            here: Sum = {(value,): 1}
            return Window(here, plus(here, ONE), strides=())
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
        factor = self._number(op.rhs)
        if isinstance(op, math.Mul) and factor is None:
            a, factor = b, self._number(op.lhs)
        if factor is None:
            return None
        if isinstance(op, math.Mul):
            return a.times(factor)
        return a.times(1 << factor) if 0 <= factor < WIDEST else None

    def _bound(self, value: Value) -> int | None:
        """What a value that is not negative is below."""
        op = value.op
        if op is None:
            loop = value.owner
            return loop.count if isinstance(loop, metal.Foreach) else None
        if isinstance(op, metal.Lane):
            return metal.SIMDGROUP_WIDTH
        if not isinstance(op, (math.And, math.Or, math.Xor, math.Shr)):
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
        low = None if window is None else number_of(window.low)
        if window is None or low is None or low < 0:
            return None
        return number_of(window.high)


def _index(loop: Op) -> tuple[Value, int] | None:
    """What counts the rounds of a loop, and by how much it grows in each."""
    step = loop.operands[2].op if isinstance(loop, For) else None
    if not isinstance(step, Constant) or not step.value:
        return None
    return loop.regions[0].arguments[0], int(step.value)


def keeps_numbers(op: math.Cast) -> bool:
    """Whether a cast of a sum on the way to an offset is the sum of the casts of its summands."""
    source, target = (v.type.element for v in (op.x, op.result))
    return source.is_signed and target.is_signed and EXACT <= source.bits <= target.bits


def _is_in_foreach(value: Value) -> bool:
    """Whether a value may differ between the rounds of a `foreach`."""
    owner = value.parent_op
    while owner is not None and not isinstance(owner, metal.Foreach):
        owner = owner.parent_op
    return owner is not None
