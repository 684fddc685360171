"""Skip the iterations of loops that change nothing, by the bounds of the loops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from iris.analysis.affine import Affine, Sum, Sums, materialise, number_of, plus, times
from iris.analysis.neutral import NeutralIterations, hides, shows_only_results
from iris.analysis.sum_ranges import SumRanges, cast_from
from iris.ir import math, tile
from iris.ir.builder import Builder
from iris.ir.control import For, Func
from iris.ir.core import Module, Value
from iris.ir.math import Constant, Predicate, element_type
from iris.ir.types import DType, i32, i64
from iris.passes.pipeline import Pass

# Four sums this small do not overflow when they are added.
SMALL = 2**28


@dataclass(frozen=True)
class SkipNeutral(Pass):
    """Run a loop only over the iterations that change what it carries.

        for %c0, %n, %c32 (%k: i32, %m: tile<64xf32> = %lowest, ...) {
          %keys: tile<64x32xi32> = ...                    // %k + arange
          %queries: tile<64x32xi32> = ...                 // %first + arange
          %seen: tile<64x32xbool> = compare le %keys, %queries
          %x: tile<64x32xf32> = select %seen, %scores, %lowest_1
          ...
        }

    becomes

        %end: i32 = add %first, %c64
        %upper: i32 = minimum %n, %end
        for %c0, %upper, %c32 (%k: i32, %m: tile<64xf32> = %lowest, ...) {
          ...
        }

    if the analysis `neutral` finds that an iteration changes nothing where `%seen` fails for all
    elements.  The bounds follow from comparisons of integers that are sums of loop indices,
    program ids and other scalars.  Where it is not known that these sums do not overflow, they
    are computed in 64 bits, and the bounds stay as they are if one does.
    """

    name = "skip-neutral"
    level = tile.TileOp.level

    def run(self, module: Module) -> dict[str, int]:
        loops = 0
        for function in module:
            assert isinstance(function, Func), "the verifier checks it"
            for op in function.walk():
                if isinstance(op, For) and _has_sums(op) and shows_only_results(op):
                    loops += _Loop(op, function).tighten()
        return {"loops": loops}


def _has_sums(loop: For) -> bool:
    """Whether the bounds of a loop are sums; of other dtypes none is."""
    return bool(loop.results) and loop.lower.type.element in (i32, i64)


class _Condition(NamedTuple):
    """`rest + slope * index` is not negative in any iteration that matters."""

    rest: Sum
    slope: int

    @property
    def dividend(self) -> Sum:
        """The bound of the index that the condition gives, times `abs(slope)` and rounded up."""
        if self.slope < 0:
            return plus(self.rest, {(): -self.slope})
        return plus(times(self.rest, -1), {(): self.slope - 1})


class _Loop:
    """A loop whose bounds may be tightened."""

    def __init__(self, loop: For, function: Func):
        self.loop = loop
        self.lower, self.upper = loop.lower, loop.upper  # before they are tightened
        self.index = loop.body.arguments[0]
        self.sums = Sums()
        self.ranges = SumRanges(function, self.sums)
        self.inner = {*loop.body.arguments}.union(*(op.results for op in loop.body.walk()))
        self.step = number_of(self.ranges.exact(loop.step)) or 0

    @cached_property
    def _neutral(self) -> NeutralIterations:
        return NeutralIterations(self.loop)

    def tighten(self) -> bool:
        """Whether there was an iteration to skip."""
        if self.step <= 0:
            return False
        tightened = False
        for compare in list(self.loop.body):
            if isinstance(compare, math.Compare) and compare.lhs.type.element.is_integer:
                for holds in (False, True):
                    if hides(compare.result, holds):
                        for condition in self._conditions(compare, holds):
                            tightened |= self._skip(condition, compare, holds)
        return tightened

    def _conditions(self, compare: math.Compare, holds: bool) -> Iterator[_Condition]:
        """What is true in all iterations but those in which a comparison is `holds` everywhere."""
        lhs, rhs = self.sums.of(compare.lhs), self.sums.of(compare.rhs)
        if lhs is None or rhs is None:
            return
        difference = {k: plus(lhs.get(k, {}), rhs.get(k, {}), -1) for k in lhs.keys() | rhs.keys()}
        found = _extremes(difference, element_type(compare.lhs.type).shape)
        if found is None:
            return
        below, above = times(found[0], -1), found[1]
        predicate = compare.predicate.negated if holds else compare.predicate
        strict: Sum = {(): int(predicate in (Predicate.LT, Predicate.GT))}
        sides = {
            Predicate.LT: [below],
            Predicate.LE: [below],
            Predicate.GT: [above],
            Predicate.GE: [above],
            Predicate.EQ: [below, above],
            Predicate.NE: [],
        }
        for side in sides[predicate]:
            rest = plus(side, strict, -1)
            slope = rest.pop((self.index,), 0)
            if slope and self._is_outer(rest):
                yield _Condition(rest, slope)

    def _is_outer(self, total: Sum) -> bool:
        """Whether a sum is of multiples of values from outside of the loop."""
        return all(len(product) < 2 and self.inner.isdisjoint(product) for product in total)

    def _skip(self, condition: _Condition, compare: math.Compare, holds: bool) -> bool:
        """Skip the iterations that a condition rules out, if they are neutral."""
        lower, upper, *others = self.loop.operands
        first = self.ranges.exact(self.lower)
        doubts = None if self._rules_out_nothing(condition) else self._doubts(compare)
        bound = lower if condition.slope > 0 else upper
        if doubts is None or self._comes_of(bound, condition.dividend):
            return False
        small: list[Sum] = [condition.rest, first, {(): condition.slope}, {(): self.step}]
        is_wide = bool(doubts) or not all(map(self._is_small, small))
        if is_wide and not all(map(_is_exact_in_64_bits, [*small, *doubts])):
            return False
        neutral = self._neutral.where(compare.result, holds)
        if not (neutral.first if condition.slope > 0 else neutral.later):
            return False
        bounds = _Bounds(self.loop, i64 if is_wide else lower.type.element)
        if condition.slope > 0:
            start = bounds.start(condition, first, self.step)
            if lower is not self.lower:
                start = bounds.b(math.Maximum(lower, start))
            lower = bounds.if_exact(doubts, start, lower)
        else:
            end = bounds.end(condition, first, once=not neutral.first)
            upper = bounds.if_exact(doubts, end, upper)
        self.loop.set_operands((lower, upper, *others))
        return True

    def _is_small(self, total: Sum) -> bool:
        low, high = self.ranges.of(total)
        return low >= -SMALL and high <= SMALL

    def _rules_out_nothing(self, condition: _Condition) -> bool:
        """Whether a condition is sure to be true in all iterations."""
        end = self.ranges.exact(self.lower)
        if condition.slope < 0:
            end = plus(self.ranges.exact(self.upper), {(): 1}, -1)
        return self.ranges.of(plus(condition.rest, end, condition.slope))[0] >= 0

    def _comes_of(self, bound: Value, dividend: Sum) -> bool:
        """Whether a bound is computed from a sum by `_Bounds`, in an earlier run or this one."""
        todo, seen = [bound], set[Value]()
        while todo:
            value = todo.pop()
            if self.sums.scalar(value) == dividend:
                return True
            if isinstance(value.op, _OPS_OF_BOUNDS) and value not in seen:
                todo += value.op.operands
            seen.add(value)
        return False

    def _doubts(self, compare: math.Compare) -> list[Sum] | None:
        """Sums that are not negative if no number overflows that is compared; None if that cannot
        be told before the loop."""
        doubts: list[Sum] = []
        for part in [*compare.operands, *cast_from(*compare.operands)]:
            affine, type_ = self.sums.of(part), element_type(part.type)
            found = None if affine is None else _extremes(affine, type_.shape)
            if found is None:
                return None
            for total, sign in zip(found, (1, -1), strict=True):
                rest = dict(total)
                slope = rest.pop((self.index,), 0)
                end = self.lower if slope * sign > 0 else self.upper
                rest = plus(rest, self.ranges.exact(end), slope)
                limit = type_.element.low if sign > 0 else type_.element.high
                doubt = times(plus(rest, {(): limit}, -1), sign)
                if self.ranges.of(doubt)[0] < 0:
                    if not self._is_outer(doubt) or type_.element is not i32:
                        return None
                    doubts += [doubt] if doubt not in doubts else []
        return doubts


def _extremes(affine: Affine, shape: tuple[int, ...]) -> tuple[Sum, Sum] | None:
    """The least and the greatest element, if the axes are multiplied by numbers."""
    low = high = affine.get(None, {})
    for axis, by_index in affine.items():
        if axis is not None:
            count = number_of(by_index)
            if count is None:
                return None
            reach = count * (shape[axis] - 1)
            low, high = plus(low, {(): min(0, reach)}), plus(high, {(): max(0, reach)})
    return low, high


def _is_exact_in_64_bits(total: Sum) -> bool:
    """Whether a sum cannot overflow if it is computed in 64 bits."""
    narrow = all(v.type.element is i32 for product in total for v in product)
    return narrow and all(abs(n) < (2**20 if product else 2**60) for product, n in total.items())


_OPS_OF_BOUNDS = (
    math.Add,
    math.Cast,
    math.FloorDiv,
    math.Maximum,
    math.Minimum,
    math.Mul,
    math.Select,
)


class _Bounds:
    """Computes new bounds of a loop, in some dtype."""

    def __init__(self, loop: For, dtype: DType):
        self.loop = loop
        self.dtype = dtype
        self.is_wide = dtype is not loop.lower.type.element
        self.b = Builder.before_op(loop)

    def end(self, condition: _Condition, lower: Sum, *, once: bool) -> Value:
        """The end of the iterations that matter; with `once`, after the first at least."""
        count = -condition.slope
        end = self._divided(self._made(condition.dividend), count)
        if once or self.is_wide:
            end = self.b(math.Maximum(end, self._made(plus(lower, {(): int(once)}))))
        return self._narrow(self.b(math.Minimum(self._cast(self.loop.upper), end)))

    def start(self, condition: _Condition, lower: Sum, step: int) -> Value:
        """The first iteration that matters."""
        first = self._divided(self._made(condition.dividend), condition.slope)
        room = plus(times({(): 1}, step - 1), lower, -1)  # to get from the lower bound past it
        distance = self.b(math.Add(first, self._made(room))) if room else first
        skipped = self.b(math.Maximum(self._divided(distance, step), self._number(0)))
        start = self.b(math.Mul(skipped, self._number(step)))
        if lower:
            start = self.b(math.Add(self._made(lower), start))
        if self.is_wide:
            start = self.b(math.Minimum(start, self._cast(self.loop.upper)))
        return self._narrow(start)

    def if_exact(self, doubts: Sequence[Sum], new: Value, old: Value) -> Value:
        """A bound, unless one of some sums is negative."""
        for doubt in doubts:
            value = self._made(doubt)
            is_exact = self.b(math.Compare(Predicate.GE, value, self._number(0)))
            new = self.b(math.Select(is_exact, new, old))
        return new

    def _number(self, number: int) -> Value:
        return self.b(Constant(number, self.dtype))

    def _made(self, total: Sum) -> Value:
        return materialise(total, self.dtype, self.b)

    def _divided(self, value: Value, count: int) -> Value:
        return value if count == 1 else self.b(math.FloorDiv(value, self._number(count)))

    def _cast(self, value: Value) -> Value:
        return self.b(math.Cast(value, self.dtype)) if self.is_wide else value

    def _narrow(self, value: Value) -> Value:
        return self.b(math.Cast(value, self.loop.lower.type.element)) if self.is_wide else value
