"""How elements are combined: by which op, from which start, in which dtype."""

from __future__ import annotations

from collections.abc import Sequence
from math import copysign, inf, nan

from iris.ir import math, tile
from iris.ir.control import For, While
from iris.ir.core import Op, Value
from iris.ir.math import element_type
from iris.ir.tile import ReduceKind, ScanKind
from iris.ir.types import DType, f32

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
        return nan  # of which any number is left, and of nothing but it, itself
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


def stays_if_zero_is_added(x: Value) -> bool:
    """Whether adding 0 never changes a value: whether it has no -0.0, which would become 0.0.

    A sum of values without -0.0 has none.
    """
    return _has_no_minus_zero(x, set())


def _has_no_minus_zero(x: Value, assumed: set[Value]) -> bool:
    """Given that what is assumed has none: what a loop carries, in the rounds before."""
    if not element_type(x.type).element.is_float or x in assumed:
        return True
    assumed.add(x)
    op = x.op
    if isinstance(op, math.Constant):
        return op.value != 0 or copysign(1, op.value) > 0
    if isinstance(op, math.Add):
        return any(_has_no_minus_zero(v, {*assumed}) for v in op.operands)
    if isinstance(op, math.Select | tile.Update):
        return all(_has_no_minus_zero(v, assumed) for v in op.operands[-2:])
    if isinstance(op, tile.Broadcast | tile.ExpandDims | tile.Reshape | tile.Transpose):
        return _has_no_minus_zero(op.x, assumed)
    if isinstance(op, tile.Dot):
        return op.acc is not None and _has_no_minus_zero(op.acc, assumed)
    sources = _carried(x)
    return bool(sources) and all(_has_no_minus_zero(v, assumed) for v in sources)


def _carried(x: Value) -> Sequence[Value]:
    """What a value is at first and after each round, of a result or a variable of a loop."""
    loop = x.op if x.op is not None else x.home.owner if x.home is not None else None
    if not isinstance(loop, For | While):
        return ()
    ends = loop.body.end.operands
    index = x.index - (len(loop.body.arguments) - len(ends) if x.op is None else 0)
    return () if index < 0 else (loop.initial[index], ends[index])
