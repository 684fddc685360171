"""Find the floats whose sign a program shows when they are zero.

    %m: f32 = maxnum %x, %y
    %d: f32 = sub %z, %m
    %e: f32 = exp %d           exp is 1 of both zeros: nothing shows the sign of %m or %d
    metal.store %Y, %i, %e     shows the sign of %e

An op shows an operand's sign always, only where the sign of its result shows, or never.  So a float
is followed to where it leaves the program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from enum import Enum

from iris.ir import math, metal
from iris.ir.control import For, If, Loop, While, Yield, names_of
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


def shown_zero_signs(values: Sequence[Value]) -> set[Value]:
    """Of floats of Metal IR, in program order, those whose sign may show when they are zero."""
    shown: set[Value] = set()
    hidden: set[Value] = set()
    for value in reversed(values):
        if _shows(value, shown, hidden):
            shown.add(value)
    return shown


def _shows(value: Value, shown: Set[Value], hidden: set[Value]) -> bool:
    """Whether the sign of a float shows when it is zero.  Of some it is known already; all that one
    is followed to in vain are hidden, too."""
    met, left = {value}, [value]
    while left:
        here = left.pop()
        if here in shown:
            return True
        for user, index in _uses(here):
            sight = _sight(user, index)
            if sight is Sight.ALWAYS:
                return True
            following = user.results if sight is Sight.IN_RESULT else _names_after(user, index)
            new = {v for v in following if _is_float(v)} - met - hidden
            met |= new
            left += new
    hidden |= met
    return False


def _uses(value: Value) -> Iterator[tuple[Op, int]]:
    for user in value.users:
        for index, operand in enumerate(user.operands):
            if operand is value:
                yield user, index


def _is_float(value: Value) -> bool:
    return isinstance(value.type, ElementType) and value.type.element.is_float


def _sight(op: Op, index: int) -> Sight:
    rule: Rule | None = sight.get(type(op))
    return Sight.ALWAYS if rule is None else rule(op, index)


def _names_after(user: Op, index: int) -> Sequence[Value]:
    """What an operand is called where control flow carries it, or memory of this program."""
    if isinstance(user, Loop):
        return names_of(user, index - len(user.spec.fixed))
    if isinstance(user, metal.Store):
        return [load.result for load in user.base.users if isinstance(load, metal.Load)]
    if not user.terminator:
        return ()
    owner = user.enclosing_op
    return names_of(owner, index) if isinstance(owner, Loop) else [owner.results[index]]


def _is_private(base: Value) -> bool:
    """Whether memory is an allocation that this program loads and stores, and nothing else."""
    return isinstance(base.op, metal.Alloc) and all(
        isinstance(user, (metal.Load, metal.Store)) for user in base.users
    )


@sight(math.Exp, math.Exp2, math.Cos, math.Sigmoid, math.Abs, math.Log, math.Log2, math.Compare)
def _never(op: Op, index: int) -> Sight:
    return Sight.NEVER


@sight(
    *(math.Neg, math.Sqrt, math.Sin, math.Tanh, math.Erf, math.Floor, math.Ceil, math.Round),
    *(math.Mul, math.Fma, math.Select, math.Extremum),
    *(metal.Splat, metal.Take, metal.Join, metal.Slice, metal.Load, metal.LoadRows),
    *(metal.Mma, metal.MmaShared),
    *(metal.Insert, metal.ShuffleXor, metal.Shuffle, metal.Broadcast),
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
    """What control flow carries shows where it goes: see `_names_after`."""
    return Sight.NEVER
