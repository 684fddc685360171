"""Integer tiles as sums: of scalars, and of scalars times the index along an axis."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from iris.ir import math, tile
from iris.ir.builder import Builder
from iris.ir.control import For
from iris.ir.core import Facet, Op, Value
from iris.ir.math import Constant, element_type
from iris.ir.types import DType, bool_, i32, i64

Monomial = tuple[Value, ...]  # a product of scalars
Sum = dict[Monomial, int]  # products with their coefficients; a zero has none
Affine = dict[int | None, Sum]  # what each axis' index is multiplied by; None: what is added


def plus(a: Sum, b: Sum, times: int = 1) -> Sum:
    total = dict(a)
    for product, count in b.items():
        new = total.get(product, 0) + times * count
        if new:
            total[product] = new
        else:
            total.pop(product, None)
    return total


def as_sum(number: int) -> Sum:
    return {(): number} if number else {}


def times(a: Sum, factor: int) -> Sum:
    return {product: count * factor for product, count in a.items()} if factor else {}


def number_of(total: Sum) -> int | None:
    """The number that a sum is, if it has no scalars."""
    return total.get((), 0) if total.keys() <= {()} else None


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
        return sums.get(None, {}) if sums is not None and sums.keys() <= {None} else None

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
        rule: Rule | None = None if op is None else summed.get(type(op))
        found = rule(op, self) if rule is not None and op is not None else None
        if found is not None or type_.shape:
            return found
        self._order.setdefault(value, len(self._order))
        return {None: {(value,): 1}}


# What each op makes of sums; None if that is none.  A scalar then is a term by itself.

Rule = Callable[[Any, Sums], Affine | None]
summed = Facet("sum")


@summed(Constant)
def constant(op: Constant, sums: Sums) -> Affine:
    return {None: as_sum(int(op.value))}


@summed(tile.Arange)
def arange(op: tile.Arange, sums: Sums) -> Affine:
    return {0: {(): 1}, None: as_sum(op.start)}


@summed(math.Add)
def add(op: math.Add, sums: Sums, sign: int = 1) -> Affine | None:
    a, b = sums.of(op.lhs), sums.of(op.rhs)
    if a is None or b is None:
        return None
    return {k: plus(a.get(k, {}), b.get(k, {}), sign) for k in a.keys() | b.keys()}


summed(math.Sub)(partial(add, sign=-1))


@summed(math.Mul)
def mul(op: math.Mul, sums: Sums) -> Affine | None:
    is_tile = bool(element_type(op.result.type).shape)
    for x, y in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        a, factor = sums.of(x), sums.scalar(y)
        # Two sums of several terms stay a product, rather than be multiplied out.
        if a is not None and factor is not None and (is_tile or len(factor) < 2):
            return {k: sums.times(s, factor) for k, s in a.items()}
    return None


@summed(math.Cast)
def cast(op: math.Cast, sums: Sums) -> Affine | None:
    """Wider: what overflows an address is an error anyway."""
    return sums.of(op.x) if op.x.type.element is i32 else None


@summed(tile.Broadcast)
def broadcast(op: tile.Broadcast, sums: Sums) -> Affine | None:
    return sums.of(op.x)


@summed(tile.ExpandDims)
def expand_dims(op: tile.ExpandDims, sums: Sums) -> Affine | None:
    return _moved(sums.of(op.x), lambda axis: axis + (axis >= op.axis))


@summed(tile.Transpose)
def transpose(op: tile.Transpose, sums: Sums) -> Affine | None:
    return _moved(sums.of(op.x), op.permutation.index)


def _moved(a: Affine | None, to: Callable[[int], int]) -> Affine | None:
    return None if a is None else {k if k is None else to(k): s for k, s in a.items()}


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
    if x.op is None:
        loop = x.owner
        return isinstance(loop, For) and x.index == 0 and _counts_up_from_zero(loop)
    rule = natural.get(type(x.op))
    return rule is not None and rule(x.op)


def _counts_up_from_zero(loop: For) -> bool:
    """Or from a number above it."""
    step = loop.step.op
    return _never_negative(loop.lower) and isinstance(step, Constant) and step.value > 0


# Whether the result of an op is known not to be negative.  One of any other op is not.

natural = Facet("sign")


def _of_operands(some: Callable[[Iterable[bool]], bool], op: Op) -> bool:
    return some(map(_never_negative, op.operands))


natural(Constant)(lambda op: op.value >= 0)
natural(tile.ProgramId, tile.NumPrograms, tile.Extent)(lambda op: True)
natural(math.Maximum)(partial(_of_operands, any))
natural(math.Add, math.Mul, math.Minimum, math.FloorDiv, math.AssumeDivisible)(
    partial(_of_operands, all)
)
natural(math.Mod)(lambda op: _never_negative(op.rhs))
natural(math.Cast)(lambda op: op.x.type is bool_ or (op.x.type is i32 and _never_negative(op.x)))
