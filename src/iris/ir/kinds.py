"""Kinds of reductions, scans and atomics, and for each the op that combines two elements, the
identity that starts it, and the dtype of its accumulator."""

from __future__ import annotations

from enum import Enum
from math import inf, nan

from iris.ir import math
from iris.ir.core import Op
from iris.ir.types import DType, f32


class ReduceKind(Enum):
    """What a reduction makes of the elements along an axis."""

    SUM = "sum"
    PROD = "prod"
    MAXNUM = "maxnum"
    MINNUM = "minnum"
    MAXIMUM = "maximum"
    MINIMUM = "minimum"
    ANY = "any"
    ALL = "all"
    ARGMAX = "argmax"
    ARGMIN = "argmin"


class ScanKind(Enum):
    """What a scan makes of the elements up to each one along an axis."""

    SUM = "sum"
    PROD = "prod"
    MAXNUM = "maxnum"
    MINNUM = "minnum"
    MAXIMUM = "maximum"
    MINIMUM = "minimum"


class AtomicKind(Enum):
    """How an atomic op combines the old value with the new."""

    ADD = "add"
    MAX = "max"
    MIN = "min"
    AND = "and"
    OR = "or"
    XOR = "xor"
    EXCHANGE = "exchange"


COLLECTED_BITS = 32  # of elements that threads can add to in threadgroup memory

Kind = ReduceKind | ScanKind

_COMBINED: dict[str, type[Op]] = {
    "sum": math.Add,
    "prod": math.Mul,
    "maxnum": math.MaxNum,
    "minnum": math.MinNum,
    "maximum": math.Maximum,
    "minimum": math.Minimum,
    "any": math.Or,
    "all": math.And,
}
_GREATEST = ("maxnum", "maximum", "argmax")


def combined(kind: Kind) -> type[Op]:
    """The op that combines two elements."""
    return _COMBINED[kind.value]


def identity(kind: Kind, dtype: DType) -> float:
    """What, combined with an element, leaves it as it is.

    It stands for an element that must not count, and starts an accumulator.
    """
    name = kind.value
    if name in ("sum", "any"):
        # Not 0.0, with which a sum of nothing but -0.0 would be 0.0.
        return -0.0 if dtype.is_float else 0
    if name in ("prod", "all"):
        return 1
    is_low = name in _GREATEST
    if dtype.is_float and name in ("maxnum", "minnum"):
        return nan  # a number replaces it; the result for nan alone is nan
    if dtype.is_float:
        return -inf if is_low else inf
    return dtype.low if is_low else dtype.high


def of_nothing(kind: Kind, dtype: DType) -> float:
    """The result for no elements: as in NumPy, 0.0 for a sum, else the identity."""
    return 0 if kind is ReduceKind.SUM else identity(kind, dtype)


def is_rounded(kind: Kind, dtype: DType) -> bool:
    """Whether each element that is combined with others is rounded."""
    return dtype.is_float and kind.value in ("sum", "prod")


def accumulator(kind: Kind, dtype: DType) -> DType:
    """The dtype in which elements are combined one after another."""
    return f32 if is_rounded(kind, dtype) else dtype
