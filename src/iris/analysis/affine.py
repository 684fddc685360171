"""Integer tiles as sums: of scalars, and of scalars times the index along an axis."""

from __future__ import annotations

from iris.ir import math, tile
from iris.ir.builder import Builder
from iris.ir.control import For
from iris.ir.core import Value
from iris.ir.math import Constant, element_type
from iris.ir.types import DType, i32, i64

Monomial = tuple[Value, ...]  # a product of scalars
Sum = dict[Monomial, int]  # products with their coefficients; a zero has none
Affine = dict[int | None, Sum]  # what each axis' index is multiplied by; None: what is added


def plus(a: Sum, b: Sum, times: int = 1) -> Sum:
    total = dict(a)
    for product, count in b.items():
        total[product] = total.get(product, 0) + times * count
    return {product: count for product, count in total.items() if count}


class Sums:
    """What values are as sums.  None where one is not of that form."""

    def __init__(self) -> None:
        self._known: dict[Value, Affine | None] = {}
        self._order: dict[Value, int] = {}  # so that a product is written in one way

    def of(self, value: Value) -> Affine | None:
        if value not in self._known:
            found = self._find(value)
            if found is not None:
                shape = element_type(value.type).shape
                found = {a: s for a, s in found.items() if s and (a is None or shape[a] > 1)}
            self._known[value] = found
        return self._known[value]

    def scalar(self, value: Value) -> Sum | None:
        """The sum that a value is everywhere."""
        sums = self.of(value)
        return sums.get(None, {}) if sums is not None and not sums.keys() - {None} else None

    def times(self, a: Sum, b: Sum) -> Sum:
        total: Sum = {}
        for x, m in a.items():
            for y, n in b.items():
                total = plus(total, {tuple(sorted((*x, *y), key=self._order.__getitem__)): m * n})
        return total

    def _find(self, value: Value) -> Affine | None:
        op, type_ = value.op, element_type(value.type)
        if type_.element is not i32 and type_.element is not i64:
            return None
        if isinstance(op, Constant):
            return {None: plus({}, {(): int(op.value)})}
        if isinstance(op, tile.Arange):
            return {0: {(): 1}, None: plus({}, {(): op.start})}
        if isinstance(op, math.Add | math.Sub):
            a, b = self.of(op.lhs), self.of(op.rhs)
            if a is not None and b is not None:
                sign = 1 if isinstance(op, math.Add) else -1
                return {k: plus(a.get(k, {}), b.get(k, {}), sign) for k in a.keys() | b.keys()}
        if isinstance(op, math.Mul):
            for x, y in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
                a, factor = self.of(x), self.scalar(y)
                # Two sums of several terms stay a product, rather than be multiplied out.
                if a is not None and factor is not None and (type_.shape or len(factor) < 2):
                    return {k: self.times(s, factor) for k, s in a.items()}
        if isinstance(op, tile.Broadcast):
            return self.of(op.x)
        if isinstance(op, math.Cast) and element_type(op.x.type).element is i32:
            return self.of(op.x)  # wider: what overflows an address is an error anyway
        if isinstance(op, tile.ExpandDims) and (a := self.of(op.x)) is not None:
            return {k if k is None else k + (k >= op.axis): s for k, s in a.items()}
        if isinstance(op, tile.Transpose) and (a := self.of(op.x)) is not None:
            return {k if k is None else op.permutation.index(k): s for k, s in a.items()}
        if type_.shape:
            return None
        self._order.setdefault(value, len(self._order))
        return {None: {(value,): 1}}


def materialise(total: Sum, type_: DType, b: Builder) -> Value:
    """The ops that make a sum, which wraps where theirs did."""

    def number(n: int) -> Value:
        return b(Constant.of_bits(n & ((1 << type_.bits) - 1), type_))

    result: Value | None = None
    for product, count in total.items():
        term: Value | None = None
        for x in product:
            if x.type is not type_:
                x = b(math.Cast(x, type_))
            term = x if term is None else b(math.Mul(term, x))
        if term is None:
            term = number(count)
        elif count != 1:
            term = b(math.Mul(term, number(count)))
        result = term if result is None else b(math.Add(result, term))
    return number(0) if result is None else result


def is_nonnegative(total: Sum) -> bool:
    """Whether a sum is known not to be negative."""
    return all(n >= 0 and all(map(_never_negative, product)) for product, n in total.items())


def _never_negative(x: Value) -> bool:
    op = x.op
    if op is None:
        loop = x.region.owner if x.region is not None else None
        return (
            isinstance(loop, For)
            and x.index == 0
            and _never_negative(loop.lower)
            and isinstance(loop.step.op, Constant)
            and loop.step.op.value > 0
        )
    if isinstance(op, Constant):
        return op.value >= 0
    if isinstance(op, tile.ProgramId | tile.NumPrograms | tile.Extent):
        return True
    if isinstance(op, math.Maximum):
        return _never_negative(op.lhs) or _never_negative(op.rhs)
    if isinstance(op, math.Add | math.Mul | math.Minimum | math.FloorDiv):
        return _never_negative(op.lhs) and _never_negative(op.rhs)
    if isinstance(op, math.Mod):
        return _never_negative(op.rhs)
    if isinstance(op, math.AssumeDivisible):
        return _never_negative(op.x)
    return isinstance(op, math.Cast) and op.x.type is i32 and _never_negative(op.x)
