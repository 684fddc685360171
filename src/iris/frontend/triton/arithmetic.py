"""Division as Triton has it: of integers it truncates, of floats it is in f32 at least."""

from __future__ import annotations

from typing import Any

from iris.errors import DTypeError
from iris.frontend.elementary import copysign
from iris.frontend.tracing import error_here
from iris.frontend.values import Traced, binary, cast, compare, divide, emit, unary, unify
from iris.ir import math
from iris.ir.math import Predicate
from iris.ir.types import DType, Kind, f32


def ratio(a: Any, b: Any) -> Traced:
    """`a / b`."""
    lhs, rhs = unify(a, b)
    return divide(cast(lhs, f32), cast(rhs, f32))


def quotient(a: Any, b: Any) -> Traced:
    """`a // b`."""
    lhs, rhs = _integers("//", a, b)
    if lhs.dtype.kind is not Kind.SIGNED:
        return binary(math.FloorDiv, lhs, rhs)
    size = binary(math.FloorDiv, _magnitude(lhs), _magnitude(rhs))
    return _signed(size, compare(Predicate.LT, binary(math.Xor, lhs, rhs), 0), lhs.dtype)


def remainder(a: Any, b: Any) -> Traced:
    """`a % b`, which has the sign of a, of -0.0, too."""
    lhs, rhs = unify(a, b)
    if lhs.dtype.is_float:
        wide = cast(lhs, f32)
        size = binary(math.Mod, unary(math.Abs, wide), unary(math.Abs, cast(rhs, f32)))
        return copysign(size, wide)
    lhs, rhs = _integers("%", a, b)
    if lhs.dtype.kind is not Kind.SIGNED:
        return binary(math.Mod, lhs, rhs)
    size = binary(math.Mod, _magnitude(lhs), _magnitude(rhs))
    return _signed(size, compare(Predicate.LT, lhs, 0), lhs.dtype)


def _integers(operator: str, a: Any, b: Any) -> list[Traced]:
    """Two integers of one dtype; Triton divides none by one of another signedness."""
    lhs, rhs = unify(a, b)
    if lhs.dtype.is_float:
        raise error_here(DTypeError, f"{operator} is for integers, not {lhs.dtype}")
    if len({x.dtype.is_signed for x in (a, b) if isinstance(x, Traced)}) > 1:
        raise error_here(
            DTypeError, f"{operator} of {a} and {b}, one signed and one not; cast one of them"
        )
    return [lhs, rhs]


def _magnitude(x: Traced) -> Traced:
    """The size of an integer, which an unsigned one holds even of the least."""
    return cast(unary(math.Abs, x), x.dtype.unsigned)


def _signed(size: Traced, negative: Traced, dtype: DType) -> Traced:
    """A number of a size and a sign."""
    x = cast(size, dtype)
    return emit(math.Select(negative.value, unary(math.Neg, x).value, x.value))
