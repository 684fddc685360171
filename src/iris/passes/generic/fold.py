"""Folding: values that are known while compiling."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from math import nan, prod

import numpy as np

from iris.ir import graph, math, scalar, tile
from iris.ir.control import For, If, While
from iris.ir.core import Module, Op, Value
from iris.ir.effects import has_side_effects
from iris.ir.kinds import ReduceKind
from iris.ir.literal import encode
from iris.ir.math import Constant, Predicate, constant_bits, element_type
from iris.ir.rewriter import Rewriter, Rules
from iris.ir.types import DType
from iris.passes.pipeline import Pass


@dataclass(frozen=True)
class Fold(Pass):
    """Replace ops whose value is known by a constant, or by an existing value.

        %a: i32 = constant 2
        %b: i32 = constant 3
        %c: i32 = add %a, %b
        %d: i32 = sub %x, %x
        %e: i32 = add %c, %d

    becomes, with dead ops left to `dce`,

        %e: i32 = constant 5

    Only exact rewrites are done (`x + 0.0` stays: it turns -0.0 into 0.0), and an op
    that makes a program error stays, to be reported.
    """

    name = "fold"

    def run(self, module: Module) -> Counter[str]:
        return rules.apply(module)


rules = Rules()


@rules(math.Elementwise)
def evaluate(op: Op, rewriter: Rewriter) -> None:
    """All operands are constants."""
    for value in op.operands:
        if type(value.op) is not Constant:
            return
    operands = []
    for value in op.operands:
        dtype = value.type.element
        operands.append(scalar.from_bits(dtype, np.array([constant_bits(value)], np.uint64)))
    if any(where.any() for where, _ in scalar.program_errors(op, *operands)):
        return
    type_ = element_type(op.results[0].type)
    known = scalar.evaluate(op, *operands)
    bits = int(scalar.to_bits(type_.element, known)[0])
    if known[0] != known[0] and not isinstance(op, (math.Select, math.Bitcast)):
        bits = encode(nan, type_.element)  # which nan arithmetic makes is up to the machine
    rewriter.replace(op, Constant.of_bits(bits, type_))


@rules(tile.Broadcast, tile.ExpandDims, tile.Flip, tile.Pick, tile.Reshape, tile.Transpose)
@rules(graph.Broadcast, graph.Reshape, graph.Transpose, graph.Slice, graph.Pad, graph.Concat)
def reshape(op: Op, rewriter: Rewriter) -> None:
    """All elements are the same constant."""
    bits = {constant_bits(value) for value in op.operands}
    if len(bits) == 1 and None not in bits:
        rewriter.replace(op, Constant.of_bits(bits.pop() or 0, element_type(op.results[0].type)))


@rules(graph.Reduce)
def reduce(op: graph.Reduce, rewriter: Rewriter) -> None:
    """One of elements that are all the same constant is that, and the first of them comes first;
    of integers, the sum is known, too."""
    type_ = element_type(op.x.type)
    bits, count = constant_bits(op.x), prod([type_.shape[axis] for axis in op.axes])
    if bits is None or not count:
        return
    if op.kind in (ReduceKind.ARGMAX, ReduceKind.ARGMIN):
        bits = 0
    elif op.kind is ReduceKind.SUM or op.kind is ReduceKind.PROD:
        if type_.element.is_float:
            return
        mask = (1 << type_.element.bits) - 1
        bits = bits * count & mask if op.kind is ReduceKind.SUM else pow(bits, count, mask + 1)
    rewriter.replace(op, Constant.of_bits(bits, element_type(op.result.type)))


def is_number(value: Value, number: float) -> bool:
    """Whether a value is a constant, exactly this number."""
    bits = constant_bits(value)
    return bits is not None and bits == encode(number, value.type.element)


def _is_integer(value: Value) -> bool:
    return not value.type.element.is_float


def _constant(op: Op, number: int, rewriter: Rewriter) -> None:
    rewriter.replace(op, Constant(number, element_type(op.results[0].type)))


# The number beside which an op gives its other operand, and the one that it then gives itself, of
# integers.  Of -1 all bits are set.  The number is on the right, unless the op is commutative.
_NEUTRAL: dict[type[Op], float] = {
    math.Add: -0.0,
    **dict.fromkeys((math.Sub, math.Or, math.Xor, math.Shl, math.Shr), 0),
    **dict.fromkeys((math.Mul, math.Div, math.FloorDiv, math.Pow), 1),
    math.And: -1,
}
_ABSORBING: dict[type[Op], int] = {math.Mul: 0, math.And: 0, math.Or: -1}


@rules(*_NEUTRAL)
def beside_a_number(op: math.Binary, rewriter: Rewriter) -> None:
    """`x + 0` of integers, `x + -0.0`, `x * 1`, `x & -1` and the like are `x`; `x * 0` of integers,
    `x & 0` and `x | -1` are the number."""
    x, number = op.operands
    if op.commutative and type(number.op) is not Constant:
        x, number = number, x
    bits = constant_bits(number)
    if bits is None:
        return
    neutral, absorbing = _numbers_of(type(op), number.type.element)
    if bits == neutral:
        rewriter.replace(op, x)
    elif bits == absorbing:
        rewriter.replace(op, number)


@cache
def _numbers_of(kind: type[Op], dtype: DType) -> tuple[int | None, int | None]:
    """The bits of the neutral and of the absorbing number of an op, where it has them."""
    base = next(base for base in kind.__mro__ if base in _NEUTRAL)
    neutral, absorbing = _NEUTRAL[base], _ABSORBING.get(base)
    if dtype.is_float:
        return None if base is math.FloorDiv else encode(neutral, dtype), None
    every = (1 << dtype.bits) - 1
    return int(neutral) & every, None if absorbing is None else absorbing & every


@rules(math.Sub, math.Xor)
def cancel(op: math.Binary, rewriter: Rewriter) -> None:
    """`x - x` of integers and `x ^ x` are 0."""
    x, y = op.operands
    if x is y and _is_integer(x):
        _constant(op, 0, rewriter)


@rules(math.Mod)
def modulo_one(op: math.Mod, rewriter: Rewriter) -> None:
    """`x % 1` of integers is 0."""
    if _is_integer(op.lhs) and is_number(op.rhs, 1):
        _constant(op, 0, rewriter)


@rules(math.And, math.Or, math.Maximum, math.Minimum, math.MaxNum, math.MinNum)
def same_operands(op: math.Binary, rewriter: Rewriter) -> None:
    """`x & x`, `max(x, x)` and the like are `x`."""
    x, y = op.operands
    if x is y:
        rewriter.replace(op, x)


@rules(math.Neg, math.Not)
def undo(op: math.Unary, rewriter: Rewriter) -> None:
    """`--x` and `not not x` are `x`."""
    inner = op.x.op
    if type(inner) is type(op):
        rewriter.replace(op, inner.operands[0])


@rules(math.Compare)
def compare_with_itself(op: math.Compare, rewriter: Rewriter) -> None:
    """Of what is no float, `x == x` holds and `x < x` does not."""
    x, y = op.operands
    if x is y and _is_integer(x):
        holds = op.predicate in (Predicate.EQ, Predicate.LE, Predicate.GE)
        _constant(op, holds, rewriter)


@rules(math.Select)
def choose(op: math.Select, rewriter: Rewriter) -> None:
    """The condition is a constant, or there is no choice."""
    if op.on_true is op.on_false:
        rewriter.replace(op, op.on_true)
        return
    known = constant_bits(op.condition)
    if known is not None:
        rewriter.replace(op, op.on_true if known else op.on_false)


@rules(math.Cast, math.Bitcast)
def convert_to_itself(op: math.Cast | math.Bitcast, rewriter: Rewriter) -> None:
    """A cast to the same type."""
    if op.x.type is op.result.type:
        rewriter.replace(op, op.x)


@rules(math.Bitcast)
def bitcast_twice(op: math.Bitcast, rewriter: Rewriter) -> None:
    """Only the bits matter."""
    inner = op.x.op
    if isinstance(inner, math.Bitcast):
        rewriter.replace(op, math.Bitcast(inner.x, op.result.type))


@rules(If)
def take_branch(op: If, rewriter: Rewriter) -> None:
    """The condition is a constant."""
    known = constant_bits(op.condition)
    if known is not None:
        branch = op.then if known else op.otherwise
        rewriter.replace(op, rewriter.inline(branch, (), op))


@rules(For)
def skip_loop(op: For, rewriter: Rewriter) -> None:
    """The loop does not run."""
    if op.trip_count() == 0:
        rewriter.replace(op, op.initial)


@rules(While)
def skip_while(op: While, rewriter: Rewriter) -> None:
    """The condition is false at once, and asking for it does nothing."""
    asks = any(has_side_effects(inner) for inner in op.condition)
    if not asks and constant_bits(op.condition.end.operands[0]) == 0:
        rewriter.replace(op, op.initial)
