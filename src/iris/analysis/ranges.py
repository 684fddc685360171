"""Which integer arithmetic may be written as it stands.

Integers wrap in the IR, but overflow of signed ones is undefined in C++, MSL included.  So signed
arithmetic goes through unsigned, unless

- the bounds of its operands show that it cannot overflow; or
- all that is made of it is addresses.  There a result that does not fit is the program's error,
  and an intermediate one does no harm: a compiler may compute it wider, which leaves the final
  address what it is.  A sum that is cast must wrap before: that may be what makes it fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from iris.ir import math, metal
from iris.ir.control import For
from iris.ir.core import Facet, Op, Region, Value
from iris.ir.literal import decode
from iris.ir.types import DType, ElementType

Bounds = tuple[int, int]
Rule = Callable[["Ranges", "Op"], Bounds | None]

bounds = Facet("bounds")

# What addresses are made with.
_ARITHMETIC: set[type[Op]] = {math.Add, math.Sub, math.Mul, math.Neg}
_ACCESSES: set[type[Op]] = {
    metal.Load,
    metal.Store,
    metal.AtomicLoad,
    metal.Atomic,
    metal.CompareExchange,
}
_OFFSET = 1  # the operand of an access that is an address


class Ranges:
    """The bounds of integer values, and which of them only make addresses."""

    def __init__(self, body: Region, simdgroups: int):
        self.simdgroups = simdgroups
        self._known: dict[Value, Bounds] = {}
        self._addresses: set[Op] = set()
        self._find_addresses(body)

    def of(self, value: Value) -> Bounds:
        known = self._known.get(value)
        if known is not None:
            return known
        dtype = _dtype(value)
        return (dtype.low, dtype.high)

    def of_operands(self, op: Op) -> list[Bounds]:
        return [self.of(v) for v in op.operands]

    def learn(self, op: Op) -> None:
        """Take in an op, whose operands are known already."""
        rule = bounds.get(type(op))
        if rule is None:
            return
        dtype = _dtype(op.results[0])
        if not dtype.is_integer:
            return
        found = rule(self, op)
        if found is not None:
            low, high = found
            if dtype.low <= low and high <= dtype.high:
                self._known[op.results[0]] = found

    def set(self, value: Value, low: int, high: int) -> None:
        self._known[value] = (low, high)

    def fits(self, op: Op) -> bool:
        """Whether the arithmetic of an op may be written as it stands."""
        return self.known(op) or op in self._addresses

    def known(self, op: Op) -> bool:
        """Whether bounds show that the result of an op fits."""
        return op.results[0] in self._known

    def is_natural(self, *values: Value) -> bool:
        return all(self.of(v)[0] >= 0 for v in values)

    def _find_addresses(self, region: Region) -> None:
        # Backwards: what uses a value comes after it.
        for op in reversed(region):
            for inner in op.regions:
                self._find_addresses(inner)
            if type(op) in _ARITHMETIC:
                value = op.results[0]
                if all(self._makes_address(user, value) for user in value.users):
                    self._addresses.add(op)

    def _makes_address(self, user: Op, value: Value) -> bool:
        if type(user) in _ACCESSES:
            return user.operands[_OFFSET] is value and user.operands.count(value) == 1
        return user in self._addresses


def _dtype(value: Value) -> DType:
    type_ = value.type
    assert isinstance(type_, ElementType)
    return type_.element


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
    (a, b), (c, d) = ranges.of_operands(op)
    return a + c, b + d


@bounds(math.Sub)
def _sub(ranges: Ranges, op: math.Sub) -> Bounds | None:
    (a, b), (c, d) = ranges.of_operands(op)
    return a - d, b - c


@bounds(math.Mul)
def _mul(ranges: Ranges, op: math.Mul) -> Bounds | None:
    one, other = ranges.of_operands(op)
    return _around([x * y for x in one for y in other])


@bounds(math.Neg)
def _neg(ranges: Ranges, op: math.Neg) -> Bounds | None:
    low, high = ranges.of(op.operands[0])
    return -high, -low


@bounds(math.Shl)
def _shl(ranges: Ranges, op: math.Shl) -> Bounds | None:
    one, (low, high) = ranges.of_operands(op)
    if low < 0 or high >= _dtype(op.results[0]).bits:
        return None
    return _around([x << y for x in one for y in (low, high)])


@bounds(math.Shr)
def _shr(ranges: Ranges, op: math.Shr) -> Bounds | None:
    one, (low, high) = ranges.of_operands(op)
    if low < 0 or high >= _dtype(op.results[0]).bits:
        return None
    return _around([x >> y for x in one for y in (low, high)])


@bounds(math.FloorDiv)
def _floordiv(ranges: Ranges, op: math.FloorDiv) -> Bounds | None:
    one, (low, high) = ranges.of_operands(op)
    return _around([x // y for x in one for y in (low, high)]) if low > 0 else None


@bounds(math.Mod)
def _mod(ranges: Ranges, op: math.Mod) -> Bounds | None:
    (start, end), (low, high) = ranges.of_operands(op)
    if low <= 0:
        return None
    return 0, min(end, high - 1) if start >= 0 else high - 1


@bounds(math.And)
def _and(ranges: Ranges, op: math.And) -> Bounds | None:
    highs = [high for low, high in ranges.of_operands(op) if low >= 0]
    return (0, min(highs)) if highs else None


@bounds(math.MinNum, math.Minimum)
def _min(ranges: Ranges, op: Op) -> Bounds | None:
    (a, b), (c, d) = ranges.of_operands(op)
    return min(a, c), min(b, d)


@bounds(math.MaxNum, math.Maximum)
def _max(ranges: Ranges, op: Op) -> Bounds | None:
    (a, b), (c, d) = ranges.of_operands(op)
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


@bounds(math.Cast)
def _cast(ranges: Ranges, op: math.Cast) -> Bounds | None:
    source = _dtype(op.operands[0])
    if source.is_float:
        return None
    return ranges.of(op.operands[0]) if source.is_integer else (0, 1)


def _union(ranges: Ranges, op: Op, values: Iterable[Value]) -> Bounds | None:
    return _around([end for v in values for end in ranges.of(v)])


def loop_bounds(ranges: Ranges, op: For) -> tuple[Bounds, bool]:
    """The bounds of a loop's variable, and whether one step past its end cannot overflow."""
    (low, top), (bottom, high), (least, most) = [ranges.of(v) for v in op.operands[:3]]
    dtype = _dtype(op.lower)
    if least > 0:
        # A loop runs only where lower < upper, and ends at the first number not below upper.
        return (low, max(low, high - 1)), high - 1 + most <= dtype.high
    if most < 0:
        return (min(top, bottom + 1), top), bottom + 1 + least >= dtype.low
    return (dtype.low, dtype.high), False
