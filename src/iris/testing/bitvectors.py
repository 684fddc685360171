"""What ops on integers and bools mean, as bit-vectors of z3; a bool is a bit.

The table shares nothing with `iris.ir.scalar`, which says the same in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import z3

from iris.errors import ArgumentError
from iris.ir import Module, math, to_text
from iris.ir.control import Func, Return
from iris.ir.core import Facet, Op, Value
from iris.ir.math import Constant, Nowrap, Predicate, element_type
from iris.ir.types import DType, bool_

Term: TypeAlias = Any  # z3 has no types
Rule = Callable[..., Term]

formula = Facet("bit-vector")
#: Where an op is a program error.
mistake = Facet("program error of bit-vectors")


class UndecidedError(AssertionError):
    """z3 has found no proof in its time, and no operands that make a difference."""


class Formulas(NamedTuple):
    """What a function returns, and when it is a program error, in terms of its parameters."""

    results: list[Term]
    wrong: Term


def formulas(function: Func, parameters: Sequence[Term]) -> Formulas:
    """A function of integers and bools, given bit-vectors."""
    terms: dict[Value, Term] = dict(zip(function.body.arguments, parameters, strict=True))
    wrong = z3.BoolVal(False)
    for op in function.body:
        operands = [terms[v] for v in op.operands]
        if isinstance(op, Return):
            return Formulas(operands, wrong)
        if any(dtype_of(v).is_float for v in (*op.operands, *op.results)):
            raise ArgumentError(f"{op.name} of floats is proven for operands of 18 bits in all")
        where: Rule | None = mistake.get(type(op))
        if where is not None:
            wrong = z3.Or(wrong, where(op, *operands))
        rule: Rule | None = formula.get(type(op))
        if rule is None:
            raise ArgumentError(f"{op.name} does not work on each element alone: it has no proof")
        terms[op.results[0]] = rule(op, *operands)
    raise AssertionError("a function without a return")


def find_difference(before: Func, after: Func, limit: float) -> list[int] | None:
    """Operands, as bits, for which the first function is right and the second fails or returns
    something else; None if z3 proves in some seconds that there are none."""
    parameters = [z3.BitVec(f"%{v.index}", dtype_of(v).bits) for v in before.body.arguments]
    one, other = (formulas(function, parameters) for function in (before, after))
    pairs = zip(one.results, other.results, strict=True)
    # Whether there is an error is quick to decide, if it is not plain.
    for difference in (other.wrong, z3.Or([a != b for a, b in pairs])):
        condition = z3.simplify(z3.And(z3.Not(one.wrong), difference))
        if z3.is_false(condition):
            continue
        solver = z3.SolverFor("QF_BV")
        solver.set("timeout", int(1000 * limit))
        solver.add(condition)
        answer = solver.check()
        if answer == z3.unknown:
            text = to_text(Module([before.clone({})]))
            raise UndecidedError(f"z3 does not know after {limit:g} s whether passes keep\n{text}")
        if answer == z3.sat:
            model = solver.model()
            return [model.eval(x, model_completion=True).as_long() for x in parameters]
    return None


def dtype_of(value: Value) -> DType:
    return element_type(value.type).element


def _is_signed(op: Op) -> bool:
    return dtype_of(op.operands[-1]).is_signed


def _bit(condition: Term) -> Term:
    return z3.If(condition, z3.BitVecVal(1, 1), z3.BitVecVal(0, 1))


@formula(Constant)
def _constant(op: Constant) -> Term:
    return z3.BitVecVal(op.bits, op.dtype.bits)


_PLAIN: dict[type[Op], Rule] = {
    math.Neg: lambda x: -x,
    math.Not: lambda x: ~x,
    math.Add: lambda x, y: x + y,
    math.Sub: lambda x, y: x - y,
    math.Mul: lambda x, y: x * y,
    math.And: lambda x, y: x & y,
    math.Or: lambda x, y: x | y,
    math.Xor: lambda x, y: x ^ y,
    math.Shl: lambda x, y: x << y,
}


@formula(*_PLAIN)
def _plain(op: Op, *operands: Term) -> Term:
    return _PLAIN[type(op)](*operands)


@formula(math.Abs)
def _absolute(op: Op, x: Term) -> Term:
    return z3.If(x < 0, -x, x) if _is_signed(op) else x


@formula(math.Shr)
def _shift_right(op: Op, x: Term, y: Term) -> Term:
    return x >> y if _is_signed(op) else z3.LShR(x, y)


@formula(math.FloorDiv)
def _floor_divide(op: Op, x: Term, y: Term) -> Term:
    if not _is_signed(op):
        return z3.UDiv(x, y)
    rest = z3.SRem(x, y)  # with the sign of x, for the quotient is cut off
    return z3.If(z3.And(rest != 0, (rest < 0) != (y < 0)), x / y - 1, x / y)


@formula(math.Mod)
def _modulo(op: Op, x: Term, y: Term) -> Term:
    return x % y if _is_signed(op) else z3.URem(x, y)


@formula(math.Maximum, math.MaxNum)
def _greater(op: Op, x: Term, y: Term) -> Term:
    return z3.If(_less(op, y, x), x, y)


@formula(math.Minimum, math.MinNum)
def _lesser(op: Op, x: Term, y: Term) -> Term:
    return z3.If(_less(op, x, y), x, y)


def _less(op: Op, x: Term, y: Term) -> Term:
    return x < y if _is_signed(op) else z3.ULT(x, y)


@formula(math.Compare)
def _compare(op: math.Compare, x: Term, y: Term) -> Term:
    below, above = _less(op, x, y), _less(op, y, x)
    holds = {
        Predicate.EQ: x == y,
        Predicate.NE: x != y,
        Predicate.LT: below,
        Predicate.LE: z3.Not(above),
        Predicate.GT: above,
        Predicate.GE: z3.Not(below),
    }
    return _bit(holds[op.predicate])


@formula(math.Select)
def _select(op: Op, condition: Term, on_true: Term, on_false: Term) -> Term:
    return z3.If(condition == 1, on_true, on_false)


@formula(math.Cast)
def _cast(op: Op, x: Term) -> Term:
    source, target = dtype_of(op.operands[0]), dtype_of(op.results[0])
    if target is bool_:
        return _bit(x != 0)
    more = target.bits - source.bits
    if more <= 0:
        return z3.Extract(target.bits - 1, 0, x)
    return z3.SignExt(more, x) if source.is_signed else z3.ZeroExt(more, x)


@formula(math.Bitcast, math.AssumeDivisible)
def _same(op: Op, x: Term) -> Term:
    return x


@mistake(math.Wrapping)
def _wraps(op: math.Wrapping, *operands: Term) -> Term:
    if op.nowrap not in (Nowrap.FITS, Nowrap.NATURAL):
        return z3.BoolVal(False)
    rule: Rule = formula[type(op)]
    exact = rule(op, *[_extended(op, x) for x in operands])
    does_not_fit = exact != _extended(op, rule(op, *operands))
    is_natural = op.nowrap is Nowrap.NATURAL
    return z3.Or(does_not_fit, _is_negative(op, *operands)) if is_natural else does_not_fit


def _extended(op: Op, x: Term) -> Term:
    """The same number, of bits enough for a product and its sign."""
    return z3.SignExt(x.size() + 1, x) if _is_signed(op) else z3.ZeroExt(x.size() + 1, x)


def _is_negative(op: Op, *operands: Term) -> Term:
    return z3.Or([x < 0 for x in operands]) if _is_signed(op) else z3.BoolVal(False)


@mistake(math.Division)
def _by_zero(op: math.Division, x: Term, y: Term) -> Term:
    return z3.Or(y == 0, _is_negative(op, x, y)) if op.natural else y == 0


@mistake(math.Shl)
def _loses_bits(op: math.Shl, x: Term, y: Term) -> Term:
    return z3.Or(_too_far(op, x, y), _wraps(op, x, y))


@mistake(math.Shr)
def _too_far(op: Op, x: Term, y: Term) -> Term:
    return z3.UGE(y, z3.BitVecVal(dtype_of(op.operands[0]).bits, y.size()))


@mistake(math.AssumeDivisible)
def _not_divisible(op: math.AssumeDivisible, x: Term) -> Term:
    by = z3.BitVecVal(op.divisor, x.size())
    return (z3.SRem(x, by) if _is_signed(op) else z3.URem(x, by)) != 0
