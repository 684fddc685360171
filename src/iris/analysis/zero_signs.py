"""Find the floats whose sign a program shows when they are zero.

    %m: f32 = maxnum %x, %y
    %d: f32 = sub %z, %m
    %e: f32 = exp %d           exp is 1 of both zeros: nothing shows the sign of %m or %d
    metal.store %Y, %i, %e     shows the sign of %e

Backwards from what leaves the program: an op shows an operand's sign always, only where the sign of
its result shows, or never.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum

from iris.ir import math, metal
from iris.ir.control import For, Func, If, While, Yield, carried
from iris.ir.core import Facet, Op, Value
from iris.ir.math import Constant
from iris.ir.types import ElementType


class Sight(Enum):
    """When an op shows the sign of an operand that is zero."""

    ALWAYS = "always"
    IN_RESULT = "in result"  # only as the sign of a result that is zero
    NEVER = "never"


# By op and number of the operand; an op without a rule always shows it.
Rule = Callable[[Op, int], Sight]
sight = Facet("sight of a zero's sign")


def shown_zero_signs(function: Func) -> set[Value]:
    """The floats of Metal IR whose sign the program may show when they are zero."""
    shown: set[Value] = set()
    left: list[Value] = []

    def show(value: Value) -> None:
        is_float = isinstance(value.type, ElementType) and value.type.element.is_float
        if is_float and value not in shown:
            shown.add(value)
            left.append(value)

    for op in function.walk():
        for index, value in enumerate(op.operands):
            if _sight(op, index) is Sight.ALWAYS:
                show(value)
    while left:
        for value in _sources(left.pop()):
            show(value)
    return shown


def _sight(op: Op, index: int) -> Sight:
    rule: Rule | None = sight.get(type(op))
    return Sight.ALWAYS if rule is None else rule(op, index)


def _sources(value: Value) -> Iterator[Value]:
    """The values whose sign of a zero is in this one's."""
    slot = carried(value)
    if slot is not None:
        yield from (slot.initial, slot.yielded)
    op = value.op
    if op is None:
        return
    for index, operand in enumerate(op.operands):
        if _sight(op, index) is Sight.IN_RESULT:
            yield operand
    if isinstance(op, If | metal.Foreach):
        for region in op.regions:
            yield region.end.operands[value.index]
    elif isinstance(op, metal.Load) and _is_private(op.base):
        for user in op.base.users:
            if isinstance(user, metal.Store):
                yield user.value


def _is_private(base: Value) -> bool:
    """Whether memory is an allocation that this program loads and stores, and nothing else."""
    return isinstance(base.op, metal.Alloc) and all(
        isinstance(user, metal.Load | metal.Store) for user in base.users
    )


@sight(math.Exp, math.Exp2, math.Cos, math.Sigmoid, math.Abs, math.Log, math.Log2, math.Compare)
def _never(op: Op, index: int) -> Sight:
    return Sight.NEVER


@sight(
    *(math.Neg, math.Sqrt, math.Sin, math.Tanh, math.Erf, math.Floor, math.Ceil, math.Round),
    *(math.Mul, math.Fma, math.Select, math.Extremum),
    *(metal.Splat, metal.Take, metal.Join, metal.Slice, metal.Load, metal.Mma),
    *(metal.ShuffleXor, metal.Shuffle, metal.Broadcast),
)
def _in_result(op: Op, index: int) -> Sight:
    return Sight.IN_RESULT


@sight(math.Add, math.Sub)
def _sum(op: math.Binary, index: int) -> Sight:
    """A zero leaves any other number as it is."""
    other = op.operands[1 - index].op
    is_number = isinstance(other, Constant) and other.value != 0
    return Sight.NEVER if is_number else Sight.IN_RESULT


@sight(math.Div)
def _quotient(op: math.Div, index: int) -> Sight:
    """What is divided by a zero is infinite, and has its sign."""
    return Sight.ALWAYS if index else Sight.IN_RESULT


@sight(math.Cast)
def _cast(op: math.Cast, index: int) -> Sight:
    return Sight.IN_RESULT if op.result.type.element.is_float else Sight.NEVER


@sight(metal.Store)
def _store(op: metal.Store, index: int) -> Sight:
    """What only this program loads shows where it is loaded."""
    return Sight.NEVER if _is_private(op.base) else Sight.ALWAYS


@sight(For, While, If, Yield)
def _carries(op: Op, index: int) -> Sight:
    """What control flow carries shows where it goes: see `_sources`."""
    return Sight.NEVER
