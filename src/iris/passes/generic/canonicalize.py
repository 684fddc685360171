"""Canonicalization: one spelling for what can be spelled in several ways."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import lcm

from iris.ir import math
from iris.ir.control import For, If, Loop
from iris.ir.core import Module, Value
from iris.ir.math import Constant, constant_bits, element_type
from iris.ir.rewriter import Rewriter, Rules
from iris.ir.types import Kind, bool_, i32
from iris.passes.generic.fold import evaluate
from iris.passes.pipeline import Pass


@dataclass(frozen=True)
class Canonicalize(Pass):
    """Bring ops to one form, so that later passes need to know only that one: constants on the
    right, additions for subtractions of integers, and no loop-carried value that never changes.

        %c1: i32 = constant 1
        %a: i32 = sub %x, %c1
        %b: bool = compare gt %c1, %a

    becomes

        %c1: i32 = constant 1
        %cm1: i32 = constant -1
        %a: i32 = add %x, %cm1
        %b: bool = compare lt %a, %c1
    """

    name = "canonicalize"

    def run(self, module: Module) -> Counter[str]:
        return rules.apply(module)


rules = Rules()


def _is_integer(value: Value) -> bool:
    return value.type.element.is_integer


@rules(math.Binary)
def constant_to_the_right(op: math.Binary, rewriter: Rewriter) -> None:
    """`2 + x` becomes `x + 2`."""
    x, y = op.operands
    if op.commutative and type(x.op) is Constant and type(y.op) is not Constant:
        rewriter.set_operands(op, (y, x))


@rules(math.Compare)
def compare_with_constant(op: math.Compare, rewriter: Rewriter) -> None:
    """`2 < x` becomes `x > 2`."""
    if constant_bits(op.lhs) is not None and constant_bits(op.rhs) is None:
        rewriter.replace(op, math.Compare(op.predicate.swapped, op.rhs, op.lhs))


@rules(math.Sub)
def add_the_negative(op: math.Sub, rewriter: Rewriter) -> None:
    """`x - 2` of integers becomes `x + -2`."""
    bits = constant_bits(op.rhs)
    if bits is None or not _is_integer(op.lhs):
        return
    type_ = element_type(op.rhs.type)
    negative = Constant.of_bits(-bits & ((1 << type_.element.bits) - 1), type_)
    rewriter.insert(negative, op)
    rewriter.replace(op, math.Add(op.lhs, negative.result))


@rules(math.Add, math.Mul, math.And, math.Or, math.Xor)
def gather_constants(op: math.Binary, rewriter: Rewriter) -> None:
    """`(x + 1) + 2` of integers becomes `x + 3`."""
    x, last = op.operands
    inner = x.op
    if inner is None or type(inner) is not type(op) or type(last.op) is not Constant:
        return
    y, first = inner.operands
    if type(first.op) is Constant and not x.type.element.is_float:
        both = rewriter.insert(type(op)(first, last), op)
        rewriter.replace(op, type(op)(y, both.results[0]))
        evaluate(both, rewriter)


@rules(math.MaxNum, math.MinNum)
def no_nan_in_integers(op: math.Binary, rewriter: Rewriter) -> None:
    """Of integers, `maxnum` is `maximum`."""
    if _is_integer(op.lhs):
        plain = math.Maximum if isinstance(op, math.MaxNum) else math.Minimum
        rewriter.replace(op, plain(op.lhs, op.rhs))


@rules(math.Not)
def negate_comparison(op: math.Not, rewriter: Rewriter) -> None:
    """`not (x < y)` becomes `x >= y`, where there is no nan or the predicate minds none."""
    inner = op.x.op
    if not isinstance(inner, math.Compare):
        return
    equality = inner.predicate in (math.Predicate.EQ, math.Predicate.NE)
    if equality or not inner.lhs.type.element.is_float:
        negated = math.Compare(inner.predicate.negated, inner.lhs, inner.rhs)
        rewriter.replace(op, negated)


@rules(math.Select)
def select_by_the_positive(op: math.Select, rewriter: Rewriter) -> None:
    """`select (not c), a, b` becomes `select c, b, a`."""
    inner = op.condition.op
    if isinstance(inner, math.Not):
        rewriter.replace(op, math.Select(inner.x, op.on_false, op.on_true))


@rules(math.Select)
def select_of_truths(op: math.Select, rewriter: Rewriter) -> None:
    """`select c, true, false` is `c`."""
    if op.condition.type is not op.result.type:
        return
    truths = constant_bits(op.on_true), constant_bits(op.on_false)
    if truths == (1, 0):
        rewriter.replace(op, op.condition)
    elif truths == (0, 1):
        rewriter.replace(op, math.Not(op.condition))


@rules(math.AssumeDivisible)
def assume_once(op: math.AssumeDivisible, rewriter: Rewriter) -> None:
    """What two numbers divide is divided by their least common multiple."""
    inner = op.x.op
    if isinstance(inner, math.AssumeDivisible):
        both = lcm(op.divisor, inner.divisor)
        if both <= min(i32.high, op.x.type.element.high):
            rewriter.replace(op, math.AssumeDivisible(both, inner.x))


@rules(math.Cast)
def cast_there_and_back(op: math.Cast, rewriter: Rewriter) -> None:
    """A cast back from a dtype that holds every value of the first."""
    inner = op.x.op
    if not isinstance(inner, math.Cast) or inner.x.type is not op.result.type:
        return
    source, middle = inner.x.type.element, inner.result.type.element
    same_kind = source.kind is middle.kind and source.kind is not Kind.FLOAT
    if source is bool_ or (same_kind and source.bits <= middle.bits):
        rewriter.replace(op, inner.x)


@rules(If)
def branch_on_the_positive(op: If, rewriter: Rewriter) -> None:
    """`if (not c)` becomes `if c`, the branches swapped."""
    inner = op.condition.op
    if isinstance(inner, math.Not):
        op.set_regions((op.otherwise, op.then))
        rewriter.set_operands(op, (inner.x,))


@rules(If)
def same_from_both_branches(op: If, rewriter: Rewriter) -> None:
    """A result for which both branches yield the same value from outside is that value."""
    ends = zip(op.results, op.then.end.operands, op.otherwise.end.operands, strict=True)
    for result, one, other in ends:
        if one is other and result.users:
            rewriter.replace_value(result, one)


@rules(Loop)
def not_carried(op: Loop, rewriter: Rewriter) -> None:
    """A carried value that no round changes is what it started as."""
    for start, arguments, carried, result in op.carried():
        if carried is start or carried in arguments:
            for value in (result, *arguments):
                if value.users:
                    rewriter.replace_value(value, start)


@rules(For)
def single_round(op: For, rewriter: Rewriter) -> None:
    """A loop of one round is its body."""
    if op.trip_count() == 1:
        rewriter.replace(op, rewriter.inline(op.body, (op.lower, *op.initial), op))
