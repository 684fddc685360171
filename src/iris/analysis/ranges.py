"""Between which bounds the integers of a thread are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from iris.ir import math, metal
from iris.ir.control import For
from iris.ir.core import Facet, Op, Value
from iris.ir.literal import decode

Bounds = tuple[int, int]
Rule = Callable[["Ranges", "Op"], Bounds | None]

bounds = Facet("bounds")


class Ranges:
    """The bounds of the integers of a function, from all its ops, as `walk` gives them."""

    def __init__(self, ops: Iterable[Op], simdgroups: int):
        self.simdgroups = simdgroups
        self._known: dict[Value, Bounds] = {}
        for op in ops:
            rule = bounds.get(type(op))
            if rule is not None:
                # A loop has a variable.
                made = op.regions[0].arguments[0] if op.regions else op.results[0]
                if made.type.element.is_integer:
                    self._learn(made, rule(self, op))

    def of(self, value: Value) -> Bounds:
        known = self._known.get(value)
        if known is not None:
            return known
        dtype = value.type.element
        return dtype.low, dtype.high

    def fits(self, op: Op) -> bool:
        """Whether bounds show that the result of an op fits its dtype."""
        return op.results[0] in self._known

    def is_natural(self, *values: Value) -> bool:
        return min([self.of(v)[0] for v in values]) >= 0

    def _learn(self, value: Value, found: Bounds | None) -> None:
        if found is not None:
            low, high = found
            dtype = value.type.element
            if dtype.low <= low and high <= dtype.high:
                self._known[value] = found


def _around(values: Sequence[int]) -> Bounds:
    return min(values), max(values)


@bounds(math.Constant)
def _constant(ranges: Ranges, op: math.Constant) -> Bounds | None:
    value = int(decode(op.bits, op.dtype))
    return value, value


@bounds(metal.Literal)
def _literal(ranges: Ranges, op: metal.Literal) -> Bounds:
    return min(op.values), max(op.values)


@bounds(metal.Pattern)
def _pattern(ranges: Ranges, op: metal.Pattern) -> Bounds:
    return 0, (1 << max([i.bit_length() for i in op.images], default=0)) - 1


@bounds(metal.Lane)
def _lane(ranges: Ranges, op: metal.Lane) -> Bounds:
    return 0, metal.SIMDGROUP_WIDTH - 1


@bounds(metal.Simdgroup)
def _simdgroup(ranges: Ranges, op: metal.Simdgroup) -> Bounds:
    return 0, ranges.simdgroups - 1


@bounds(metal.ThreadgroupId, metal.NumThreadgroups, metal.Extent)
def _natural(ranges: Ranges, op: Op) -> Bounds:
    return 0, 2**31 - 1


@bounds(math.Add)
def _add(ranges: Ranges, op: math.Add) -> Bounds | None:
    (a, b), (c, d) = map(ranges.of, op.operands)
    return a + c, b + d


@bounds(math.Sub)
def _sub(ranges: Ranges, op: math.Sub) -> Bounds | None:
    (a, b), (c, d) = map(ranges.of, op.operands)
    return a - d, b - c


@bounds(math.Mul)
def _mul(ranges: Ranges, op: math.Mul) -> Bounds | None:
    one, other = map(ranges.of, op.operands)
    return _around([x * y for x in one for y in other])


@bounds(math.Neg)
def _neg(ranges: Ranges, op: math.Neg) -> Bounds | None:
    low, high = ranges.of(op.operands[0])
    return -high, -low


@bounds(math.Shl)
def _shl(ranges: Ranges, op: math.Shl) -> Bounds | None:
    one, (low, high) = map(ranges.of, op.operands)
    if low < 0 or high >= op.results[0].type.element.bits:
        return None
    return _around([x << y for x in one for y in (low, high)])


@bounds(math.Shr)
def _shr(ranges: Ranges, op: math.Shr) -> Bounds | None:
    one, (low, high) = map(ranges.of, op.operands)
    if low < 0 or high >= op.results[0].type.element.bits:
        return None
    return _around([x >> y for x in one for y in (low, high)])


@bounds(math.FloorDiv)
def _floordiv(ranges: Ranges, op: math.FloorDiv) -> Bounds | None:
    one, (low, high) = map(ranges.of, op.operands)
    return _around([x // y for x in one for y in (low, high)]) if low > 0 else None


@bounds(math.Mod)
def _mod(ranges: Ranges, op: math.Mod) -> Bounds | None:
    (start, end), (low, high) = map(ranges.of, op.operands)
    if low <= 0:
        return None
    return 0, min(end, high - 1) if start >= 0 else high - 1


@bounds(math.And)
def _and(ranges: Ranges, op: math.And) -> Bounds | None:
    highs = [high for low, high in map(ranges.of, op.operands) if low >= 0]
    return (0, min(highs)) if highs else None


@bounds(math.MinNum, math.Minimum)
def _min(ranges: Ranges, op: Op) -> Bounds | None:
    (a, b), (c, d) = map(ranges.of, op.operands)
    return min(a, c), min(b, d)


@bounds(math.MaxNum, math.Maximum)
def _max(ranges: Ranges, op: Op) -> Bounds | None:
    (a, b), (c, d) = map(ranges.of, op.operands)
    return max(a, c), max(b, d)


@bounds(math.Select)
def _select(ranges: Ranges, op: math.Select) -> Bounds | None:
    return _union(ranges, op, op.operands[1:])


@bounds(math.AssumeDivisible)
def _assume_divisible(ranges: Ranges, op: math.AssumeDivisible) -> Bounds:
    low, high = ranges.of(op.x)
    return -(-low // op.divisor) * op.divisor, high // op.divisor * op.divisor


@bounds(metal.Splat, metal.Take, metal.Join, metal.Slice)
def _moved(ranges: Ranges, op: Op) -> Bounds | None:
    moved = op.operands[:1] if isinstance(op, metal.Slice) else op.operands
    return _union(ranges, op, moved)


@bounds(metal.Insert)
def _insert(ranges: Ranges, op: metal.Insert) -> Bounds | None:
    return _union(ranges, op, [op.x, op.element])


@bounds(math.Cast)
def _cast(ranges: Ranges, op: math.Cast) -> Bounds | None:
    source = op.operands[0].type.element
    if source.is_float:
        return None
    return ranges.of(op.operands[0]) if source.is_integer else (0, 1)


def _union(ranges: Ranges, op: Op, values: Iterable[Value]) -> Bounds | None:
    return _around([end for v in values for end in ranges.of(v)])


@bounds(metal.Foreach)
def _foreach(ranges: Ranges, op: metal.Foreach) -> Bounds:
    return 0, op.count - 1


# A loop runs only where lower < upper, and ends at the first number not below upper.


@bounds(For)
def _for(ranges: Ranges, op: For) -> Bounds | None:
    (low, top), (bottom, high), (least, most) = map(ranges.of, op.operands[:3])
    if least > 0:
        return low, max(low, high - 1)
    return (min(top, bottom + 1), top) if most < 0 else None


def ends_inside(ranges: Ranges, op: For) -> bool:
    """Whether one step past the end of a loop cannot overflow."""
    _, (bottom, high), (least, most) = map(ranges.of, op.operands[:3])
    dtype = op.lower.type.element
    if least > 0:
        return high - 1 + most <= dtype.high
    return most < 0 and bottom + 1 + least >= dtype.low
