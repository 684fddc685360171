"""Folding: values that are known while compiling."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
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


def _beside_constant(op: math.Binary) -> tuple[Value, Value, int | None]:
    """An operand, another that is a constant if one is, and its bits.  Two would be folded."""
    x, y = op.operands
    return (x, y, constant_bits(y)) if type(y.op) is Constant else (y, x, constant_bits(x))


def _constant(op: Op, number: int, rewriter: Rewriter) -> None:
    rewriter.replace(op, Constant(number, element_type(op.results[0].type)))


@rules(math.Add)
def add_nothing(op: math.Add, rewriter: Rewriter) -> None:
    """`x + 0` of integers, and `x + -0.0`, are `x`."""
    x, constant, bits = _beside_constant(op)
    if bits is not None and bits == encode(-0.0, constant.type.element):
        rewriter.replace(op, x)


@rules(math.Sub)
def subtract_nothing(op: math.Sub, rewriter: Rewriter) -> None:
    """`x - 0` is `x`."""
    if constant_bits(op.rhs) == 0:
        rewriter.replace(op, op.lhs)


@rules(math.Sub, math.Xor)
def cancel(op: math.Binary, rewriter: Rewriter) -> None:
    """`x - x` of integers and `x ^ x` are 0."""
    x, y = op.operands
    if x is y and _is_integer(x):
        _constant(op, 0, rewriter)


@rules(math.Mul)
def multiply_by_one(op: math.Mul, rewriter: Rewriter) -> None:
    """`x * 1` is `x`."""
    x, constant, bits = _beside_constant(op)
    if bits is not None and bits == encode(1, constant.type.element):
        rewriter.replace(op, x)


@rules(math.Mul, math.And)
def absorb_zero(op: math.Binary, rewriter: Rewriter) -> None:
    """`x * 0` of integers and `x & 0` are 0."""
    _, constant, bits = _beside_constant(op)
    if bits == 0 and _is_integer(constant):
        _constant(op, 0, rewriter)


@rules(math.Div, math.FloorDiv, math.Pow)
def divide_by_one(op: math.Binary, rewriter: Rewriter) -> None:
    """`x / 1`, `x // 1` of integers and `x ** 1` are `x`."""
    if is_number(op.rhs, 1) and (_is_integer(op.lhs) or not isinstance(op, math.FloorDiv)):
        rewriter.replace(op, op.lhs)


@rules(math.Mod)
def modulo_one(op: math.Mod, rewriter: Rewriter) -> None:
    """`x % 1` of integers is 0."""
    if _is_integer(op.lhs) and is_number(op.rhs, 1):
        _constant(op, 0, rewriter)


@rules(math.Or, math.Xor)
def or_nothing(op: math.Binary, rewriter: Rewriter) -> None:
    """`x | 0` and `x ^ 0` are `x`."""
    x, _, bits = _beside_constant(op)
    if bits == 0:
        rewriter.replace(op, x)


@rules(math.And, math.Or)
def all_ones(op: math.Binary, rewriter: Rewriter) -> None:
    """With every bit set, `x & m` is `x` and `x | m` is `m`."""
    x, constant, bits = _beside_constant(op)
    if bits == (1 << constant.type.element.bits) - 1:
        rewriter.replace(op, x if isinstance(op, math.And) else constant)


@rules(math.And, math.Or, math.Maximum, math.Minimum, math.MaxNum, math.MinNum)
def same_operands(op: math.Binary, rewriter: Rewriter) -> None:
    """`x & x`, `max(x, x)` and the like are `x`."""
    x, y = op.operands
    if x is y:
        rewriter.replace(op, x)


@rules(math.Shl, math.Shr)
def shift_by_nothing(op: math.Binary, rewriter: Rewriter) -> None:
    """`x << 0` is `x`."""
    if constant_bits(op.rhs) == 0:
        rewriter.replace(op, op.lhs)


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
