"""Tell kinds of numbers apart, such as -inf and 0, and say what arithmetic makes of them.

A set of kinds is an int with a bit for each.  Kinds decide whether an op changes a number:
`x + 0` is `x` unless that is -0.0, and `maximum(x, -inf)` is `x` whatever that is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from math import copysign, inf, isnan

from iris.ir import math
from iris.ir.core import Facet
from iris.ir.math import Predicate
from iris.ir.types import DType

# NEGATIVE and POSITIVE are finite, and not 1.
LOWEST, NEGATIVE, MINUS_ZERO, ZERO, ONE, POSITIVE, INFINITE, NAN = (1 << n for n in range(8))
# The zeros that come of an exponential of -inf: what they are multiplied with does not count.
MINUS_GONE, GONE = 1 << 8, 1 << 9
FALSE, TRUE = 1 << 10, 1 << 11
PLUS_ZEROS, MINUS_ZEROS, ALL_GONE = ZERO | GONE, MINUS_ZERO | MINUS_GONE, GONE | MINUS_GONE
ZEROS = PLUS_ZEROS | MINUS_ZEROS
FINITE = NEGATIVE | ZEROS | ONE | POSITIVE
FLOATS = LOWEST | FINITE | INFINITE | NAN
INTEGERS = NEGATIVE | ZERO | ONE | POSITIVE
BOOLS = FALSE | TRUE

#: `rule(*kinds)` gives the kinds of an op's result for one kind of each operand.
result_kinds = Facet("kinds of numbers")


def members(kinds: int) -> Iterator[int]:
    """The kinds in a set."""
    while kinds:
        yield kinds & -kinds
        kinds &= kinds - 1


def kinds_of_type(dtype: DType) -> int:
    """All kinds that numbers of a dtype have."""
    if dtype.is_float:
        return FLOATS
    return INTEGERS if dtype.is_integer else BOOLS


def kind_of(number: float, dtype: DType) -> int:
    """The kind of a number."""
    if not dtype.is_float and not dtype.is_integer:
        return TRUE if number else FALSE
    if isnan(number):
        return NAN
    if number == 0:
        return MINUS_ZERO if copysign(1, number) < 0 else ZERO
    special = {inf: INFINITE, -inf: LOWEST, 1: ONE}
    return special.get(number, POSITIVE if number > 0 else NEGATIVE)


@cache
def combine(rule: Callable[..., int], *operands: int) -> int:
    """The kinds that a rule gives for any choice of a kind of each operand."""
    found = 0
    for kinds in product(*map(members, operands)):
        found |= rule(*kinds)
    return found


@cache
def sum_of_some(kinds: int) -> int:
    """The kinds of sums of one or more numbers."""
    found = kinds
    while (more := found | combine(_add, found, kinds)) != found:
        found = more
    return found


# What ops make of one kind of each operand.


_NEGATED = {LOWEST: INFINITE, INFINITE: LOWEST, NAN: NAN, ONE: NEGATIVE, POSITIVE: NEGATIVE}
_NEGATED |= {MINUS_ZERO: ZERO, ZERO: MINUS_ZERO, MINUS_GONE: GONE, GONE: MINUS_GONE}


@result_kinds(math.Neg)
def _neg(x: int) -> int:
    return _NEGATED.get(x, ONE | POSITIVE)


@result_kinds(math.Add)
def _add(x: int, y: int) -> int:
    if NAN in (x, y):
        return NAN
    if x in (LOWEST, INFINITE) or y in (LOWEST, INFINITE):
        infinities = (x | y) & (LOWEST | INFINITE)
        return NAN if infinities == LOWEST | INFINITE else infinities
    if x & ZEROS and y & ZEROS:
        return ZERO if (x | y) & PLUS_ZEROS else MINUS_ZERO
    if x & ZEROS or y & ZEROS:
        return x if y & ZEROS else y
    if NEGATIVE in (x, y):
        return NEGATIVE | LOWEST if x == y else NEGATIVE | ZERO | ONE | POSITIVE
    return ONE | POSITIVE | INFINITE


@result_kinds(math.Sub)
def _sub(x: int, y: int) -> int:
    return combine(_add, x, _neg(y))


_BELOW = LOWEST | NEGATIVE | MINUS_ZEROS


@result_kinds(math.Mul)
def _mul(x: int, y: int) -> int:
    if NAN in (x, y):
        return NAN
    below = (x & _BELOW > 0) != (y & _BELOW > 0)
    zero = MINUS_ZERO if below else ZERO
    if x & ZEROS or y & ZEROS:
        if (x | y) & (LOWEST | INFINITE):
            return NAN
        return (MINUS_GONE if below else GONE) if (x | y) & ALL_GONE else zero
    infinity = LOWEST if below else INFINITE
    if (x | y) & (LOWEST | INFINITE):
        return infinity
    if ONE in (x, y):
        return y if x == ONE else x
    return zero | infinity | (NEGATIVE if below else ONE | POSITIVE)


@result_kinds(math.Exp, math.Exp2)
def _exp(x: int) -> int:
    if x & ZEROS:
        return ONE
    known = {LOWEST: GONE, NEGATIVE: ZERO | ONE | POSITIVE, INFINITE: INFINITE, NAN: NAN}
    return known.get(x, ONE | POSITIVE | INFINITE)


@result_kinds(math.Maximum)
def _maximum(x: int, y: int) -> int:
    return NAN if NAN in (x, y) else _maxnum(x, y)


@result_kinds(math.MaxNum)
def _maxnum(x: int, y: int) -> int:
    if NAN in (x, y):
        return y if x == NAN else x
    if _rank(x) == _rank(y):
        return x | y
    return x if _rank(x) > _rank(y) else y


@result_kinds(math.And)
def _and(x: int, y: int) -> int:
    return TRUE if x == y == TRUE else FALSE


@result_kinds(math.Or)
def _or(x: int, y: int) -> int:
    return TRUE if TRUE in (x, y) else FALSE


@result_kinds(math.Not)
def _not(x: int) -> int:
    return BOOLS ^ x


def narrowed(x: int) -> int:
    """A float, rounded to a dtype of fewer bits."""
    if x == NEGATIVE:
        return LOWEST | NEGATIVE | MINUS_ZERO
    return ZERO | ONE | POSITIVE | INFINITE if x == POSITIVE else x


def _rank(kind: int) -> int:
    """A place in the order of numbers, which some kinds share."""
    return [LOWEST, NEGATIVE, ZERO, POSITIVE, INFINITE].index(
        ZERO if kind & ZEROS else POSITIVE if kind == ONE else kind
    )


def _compared(x: int, y: int) -> set[int]:
    """The signs that `x - y` may have; none if a number is nan."""
    if NAN in (x, y):
        return set()
    if _rank(x) != _rank(y):
        return {1 if _rank(x) > _rank(y) else -1}
    is_one_number = x == y or x & ZEROS
    return {0} if is_one_number and not x & (NEGATIVE | POSITIVE) else {-1, 0, 1}


def _comparison(predicate: Predicate) -> Callable[[int, int], int]:
    holding = {
        Predicate.EQ: {0},
        Predicate.NE: {-1, 1},
        Predicate.LT: {-1},
        Predicate.LE: {-1, 0},
        Predicate.GT: {1},
        Predicate.GE: {0, 1},
    }[predicate]

    def holds(x: int, y: int) -> int:
        signs = _compared(x, y)
        if not signs:
            return TRUE if predicate is Predicate.NE else FALSE
        return TRUE * bool(signs & holding) | FALSE * bool(signs - holding)

    return holds


#: For each predicate, what a comparison gives for two kinds.
COMPARISONS = {predicate: _comparison(predicate) for predicate in Predicate}
