"""How each op of the shared math is made in a random program, at any level: one rule per op.

Each gives an op that cannot go wrong: what could (a division by zero, a shift too far, a float
out of an integer's range) is guarded, and sums of floats are of small integers, so that they may
be made in any order.
"""

from __future__ import annotations

from itertools import zip_longest
from math import frexp, inf, isnan, nan

from iris.ir import math
from iris.ir.core import Op, Value
from iris.ir.declare import Constraint
from iris.ir.literal import decode, encode
from iris.ir.math import Predicate, element_type
from iris.ir.types import DTYPES, DType, bool_
from iris.testing.choices import Choices
from iris.testing.draft import Draft, make, odd_numbers, special_number

# What floats are cut to before they are summed, multiplied up, or made integers.
SUMMED, MULTIPLIED, CONVERTED = 8, 2, 100
SUMS_AT_MOST = 2**24

ALL = tuple(DTYPES.values())


def accepted(constraint: Constraint) -> tuple[DType, ...]:
    return tuple([d for d in ALL if d in constraint])


NUMBERS = tuple([d for d in ALL if d is not bool_])
INTEGERS = tuple([d for d in ALL if d.is_integer])

# Where fast math promises something of the results, for each operand: elsewhere, nothing of them
# can be compared.
_WITHIN: dict[type[Op], tuple[tuple[int, int] | None, ...]] = {
    math.Sin: ((-3, 3),),
    math.Cos: ((-3, 3),),
    math.Sigmoid: ((-80, 80),),
    math.Rsqrt: ((1, CONVERTED),),
    math.Sqrt: ((0, CONVERTED),),
    math.Pow: ((1, SUMMED), (-SUMMED, SUMMED)),
    math.Div: (None, (1, CONVERTED)),
    math.FloorDiv: ((-CONVERTED, CONVERTED), (1, CONVERTED)),
    math.Mod: ((-CONVERTED, CONVERTED), (1, CONVERTED)),
    math.Bitcast: ((1, CONVERTED),),
    math.Cast: ((-CONVERTED, CONVERTED),),
}
# Of what is off by little, these give something else altogether, if it is not rounded before.
_STEPS = (math.Bitcast, math.Cast)


def promised(cls: type[Op], draft: Draft, choices: Choices, *operands: Value) -> list[Value]:
    """The operands of an op; those of fast math mostly such that something is promised of it."""
    floats = element_type(operands[0].type).element.is_float
    if not floats or not draft.func.fast_math or choices.flag(8):
        return [*operands]
    found = []
    for x, within in zip_longest(operands, _WITHIN.get(cls, ())):
        if within is not None:
            x = draft.clamped(draft.put(math.Round(x)) if cls in _STEPS else x, *within)
        found.append(x)
    return found


@make(math.Constant)
def constant(cls: type[math.Constant], draft: Draft, choices: Choices) -> None:
    """An odd number; a nan has any of the bits that one may have."""
    type_ = choices.of(draft.types(choices.of(draft.dtypes)))
    bits = encode(choices.of(odd_numbers(type_.element)), type_.element)
    if isnan(decode(bits, type_.element)):
        bits |= choices.of((0, 1, 1 << type_.element.bits - 1))
    draft.add(math.Constant.of_bits(bits, type_))


@make(math.Unary, math.Binary)
def elementwise(cls: type[Op], draft: Draft, choices: Choices) -> None:
    """Operands of one type, whatever they are."""
    first = draft.some(accepted(cls.spec.fixed[0].constraint), choices)
    others = [draft.other(first, choices) for _ in cls.spec.fixed[1:]]
    operands = [*others, within(draft, first, choices)]
    if not choices.flag(3):
        operands = operands[::-1]
    draft.add(cls(*promised(cls, draft, choices, *operands)))


@make(math.Fma)
def product_and_sum(cls: type[math.Fma], draft: Draft, choices: Choices) -> None:
    """Of any numbers; or what a product loses where it is rounded, which is all that tells a fused
    one from another."""
    if draft.func.fast_math or choices.flag():
        elementwise(cls, draft, choices)
        return
    x = draft.some(accepted(cls.spec.fixed[0].constraint), choices)
    factor = draft.constant(choices.of((0.1, 0.7, 3.1)), element_type(x.type))
    product = draft.put(math.Mul(x, factor))
    draft.add(cls(x, factor, draft.put(math.Neg(product))))


@make(math.Div)
def quotient(cls: type[math.Div], draft: Draft, choices: Choices) -> None:
    """By anything, or by a power of two, whose reciprocal may be no such number."""
    if draft.func.fast_math or choices.flag():
        elementwise(cls, draft, choices)
        return
    x = draft.some([d for d in ALL if d.is_float], choices)
    type_ = element_type(x.type)
    least = frexp(float(decode(1, type_.element)))[1] - 1
    power = 2.0 ** choices.of((1, -1, least, least + 5, 14, -14, least + 9, 15))
    draft.add(cls(x, draft.constant(choices.of((power, -power)), type_)))


# Some give a zero for a zero, some tell infinities apart, some neither.
_OF_ZEROS = (math.Neg, math.Exp, math.Sqrt, math.Tanh, math.Abs, math.Sigmoid, math.Floor, math.Erf)


@make(math.Extremum)
def extremum(cls: type[math.Extremum], draft: Draft, choices: Choices) -> None:
    """Of any two, or of one and a number such as nan or an infinity; as often as not of zeros of
    two signs.  At times only another op, applied to the result, shows its sign."""
    first = draft.some(NUMBERS, choices)
    type_ = element_type(first.type)
    if not type_.element.is_float or draft.func.fast_math or choices.flag():
        if type_.element.is_float and choices.flag(3):
            other = draft.constant(choices.of((0.0, nan, -0.0, inf, nan, -inf)), type_)
        else:
            other = draft.other(first, choices)
        draft.add(cls(first, other))
        return
    zeros = [draft.put(math.Mul(first, draft.constant(0.0, type_)))]
    if choices.flag():
        zeros.append(draft.constant(choices.of((0.0, -0.0, nan)), type_))
    else:
        zeros.append(draft.other(first, choices))
    op = cls(*zeros[:: choices.of((1, -1))])
    if choices.flag():
        draft.add(op)
        return
    x = draft.put(op)
    if choices.flag():
        x = draft.put(math.Div(draft.constant(1.0, type_), x))
    draft.add(choices.of([op for op in _OF_ZEROS if not issubclass(op, draft.avoided)])(x))


@make(math.AssumeDivisible)
def assume_divisible(cls: type[math.AssumeDivisible], draft: Draft, choices: Choices) -> None:
    """A multiple of a power of two, which it stays when it overflows."""
    x = draft.some(INTEGERS, choices)
    divisor = choices.of((2, 16, 4))
    multiple = draft.put(math.Mul(x, draft.constant(divisor, element_type(x.type))))
    draft.add(math.AssumeDivisible(divisor, multiple))


@make(math.FloorDiv, math.Mod)
def divide(cls: type[math.Binary], draft: Draft, choices: Choices) -> None:
    """Integers by what is odd; or by what has been asked not to be zero."""
    if choices.flag():
        draft.divide(cls, choices)
        return
    x = within(draft, draft.some(NUMBERS, choices), choices)
    type_ = element_type(x.type)
    divisor = draft.other(x, choices)
    style = choices.below(6)
    if style == 5:
        x = draft.constant(special_number(type_.element, choices), type_)
    if style in (2, 4):
        divisor = draft.constant(choices.of((2, 3, 16, 8, 7, 64, 1, 5)), type_)
    elif type_.element.is_integer:
        divisor = draft.put(math.Or(divisor, draft.constant(1, type_)))
    draft.add(cls(*promised(cls, draft, choices, x, divisor)))


# What gives integers that do not fit, so that they wrap.
_WRAPPING = (math.Add, math.Mul, math.Sub, math.Add, math.Neg, math.Abs, math.Shl, math.Not)
_OF_FLOATS = (math.Sub, math.Div, math.Add, math.Neg, math.Select, math.Mul)
_OF_BOOLS = (math.And, math.Select, math.Or, math.Not, math.Xor)


def within(draft: Draft, x: Value, choices: Choices) -> Value:
    """An operand, or seldom something made of it for this one use: text has that in one line."""
    type_ = element_type(x.type)
    is_rounded_otherwise = type_.element.is_float and draft.func.fast_math
    if not draft.nests or is_rounded_otherwise or not choices.flag(3):
        return x
    some = _OF_BOOLS if type_.element is bool_ else _OF_FLOATS
    cls: type[Op] = choices.of(_WRAPPING if type_.element.is_integer else some)
    if issubclass(cls, math.Unary):
        return draft.put(cls(x))
    other = draft.other(x, choices)
    if cls is math.Select:
        return draft.put(cls(draft.condition(type_, choices), x, other))
    if cls is math.Shl:
        return draft.put(cls(x, draft.wrapped(other, type_.element.bits)))
    return draft.put(cls(*(x, other)[:: choices.of((1, -1))]))


@make(math.Shl, math.Shr)
def shift(cls: type[math.Binary], draft: Draft, choices: Choices) -> None:
    x = within(draft, draft.some(INTEGERS, choices), choices)
    amount = draft.other(x, choices)
    if choices.flag(6):  # of a number
        type_ = element_type(x.type)
        x, amount = draft.constant(special_number(type_.element, choices), type_), x
    draft.add(cls(x, draft.wrapped(amount, element_type(x.type).element.bits)))


@make(math.Compare)
def compare(cls: type[math.Compare], draft: Draft, choices: Choices) -> None:
    x = within(draft, draft.some(ALL, choices), choices)
    draft.add(math.Compare(choices.of(list(Predicate)), x, draft.other(x, choices)))


@make(math.Select)
def select(cls: type[math.Select], draft: Draft, choices: Choices) -> None:
    x = draft.some(ALL, choices)
    type_ = element_type(x.type)
    condition = within(draft, draft.condition(type_, choices), choices)
    draft.add(math.Select(condition, within(draft, x, choices), draft.other(x, choices)))


@make(math.Cast)
def cast(cls: type[math.Cast], draft: Draft, choices: Choices) -> None:
    x = within(draft, draft.some(ALL, choices), choices)
    type_ = element_type(x.type)
    others = [d for d in draft.dtypes if d is not type_.element]
    target = choices.of(others or draft.all_dtypes)
    if not target.is_float:
        (x,) = promised(cls, draft, choices, x)
    if type_.element.is_float and target.is_integer:
        x = draft.clamped(x, max(target.low, -CONVERTED), CONVERTED)
    draft.add(math.Cast(x, type_.with_element(target)))
    if choices.flag(4) and target.is_float is type_.element.is_float:  # and back
        draft.add(math.Cast(draft.visible[-1], type_))


@make(math.Bitcast)
def bitcast(cls: type[math.Bitcast], draft: Draft, choices: Choices) -> None:
    x = draft.some(ALL, choices)
    type_ = element_type(x.type)
    targets = [d for d in draft.all_dtypes if d.bits == type_.element.bits]
    target = choices.of(targets or [type_.element])
    if type_.element.is_float and target is not type_.element:
        # Which bits a nan has is not defined, and so nothing may depend on it.
        x = draft.put(math.MaxNum(x, draft.constant(-1.0, type_)))
    if target is not type_.element:
        (x,) = promised(cls, draft, choices, x)
    draft.add(math.Bitcast(x, type_.with_element(target)))


def summable(draft: Draft, x: Value, kind: str, count: int) -> Value:
    """The operand of a reduction or scan, such that it does not matter in which order."""
    if kind == "sum":
        return draft.exact(x, SUMMED, SUMS_AT_MOST // count)
    if kind == "prod":  # of powers of two there is nothing to round
        return draft.exact(x, MULTIPLIED, MULTIPLIED)
    return x
