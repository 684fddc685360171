"""What combines elements: with what it starts, and in which dtype it goes on."""

from __future__ import annotations

from math import inf, nan

from iris.ir import math
from iris.ir.core import Op
from iris.ir.types import DType, f32

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


def combined(kind: str) -> type[Op]:
    """The op that combines two elements."""
    return _COMBINED[kind]


def identity(kind: str, element: DType) -> float:
    """What, combined with an element, leaves it as it is."""
    if kind in ("sum", "any"):
        # Not 0.0, with which a sum of nothing but -0.0 would be 0.0.
        return -0.0 if element.is_float else 0
    if kind in ("prod", "all"):
        return 1
    is_low = kind in _GREATEST
    if element.is_float and kind in ("maxnum", "minnum"):
        return nan  # of which any number is left, and of nothing but it, itself
    if element.is_float:
        return -inf if is_low else inf
    return element.low if is_low else element.high


def is_rounded(kind: str, element: DType) -> bool:
    """Whether each element that is combined with others is rounded."""
    return element.is_float and kind in ("sum", "prod")


def accumulator(kind: str, element: DType) -> DType:
    """The dtype in which elements are combined one after another."""
    return f32 if is_rounded(kind, element) else element
