"""What a value is called that the source has no name for: after what it is for."""

from __future__ import annotations

import re
from collections.abc import Iterator

from iris.ir import math, metal
from iris.ir.core import Op, Value
from iris.ir.math import Predicate, element_type
from iris.ir.types import bool_

_ACCESSES = (metal.Load, metal.Store, metal.AtomicLoad, metal.Atomic, metal.CompareExchange)
_COORDINATES = ("row", "col")
_DEPTH = 6


def usual_name(value: Value) -> str:
    dtype = element_type(value.type).element
    if dtype is bool_:
        return "inside" if _is_mask(value, _DEPTH) else "flag"
    if dtype.is_float:
        return _factor(value) or "v"
    if element_type(value.type).shape:
        return "at"
    found = {name for user in value.users for name in _coordinates(user, value)}
    if not found:
        found = set(_places(value, _DEPTH))
    return (found.pop() if len(found) == 1 else "") or "at"


def _is_mask(value: Value, depth: int) -> bool:
    """Whether it says where memory is accessed, or is a part of what does."""
    return any(
        (isinstance(user, metal.Load | metal.Store) and user.mask is value)
        or (depth > 0 and isinstance(user, math.And) and _is_mask(user.result, depth - 1))
        for user in value.users
    )


def _factor(value: Value) -> str | None:
    """Which factor of a product of matrices it is, if it is one."""
    for user in value.users:
        if isinstance(user, metal.Mma) and user.acc is not value:
            return "left" if user.a is value else "right"
    return None


def _coordinates(user: Op, value: Value) -> Iterator[str]:
    """The axes of arrays that it is compared with the end of, as it is or in an inner loop."""
    is_inside = isinstance(user.parent_op, metal.Foreach) and value.home is not user.parent
    if isinstance(user, math.Add) and is_inside:
        for next_user in user.result.users:
            yield from _compared(next_user, user.result)
    yield from _compared(user, value)


def _compared(user: Op, value: Value) -> Iterator[str]:
    if isinstance(user, math.Compare) and user.predicate is Predicate.LT and user.lhs is value:
        end = user.rhs.op
        while isinstance(end, math.AssumeDivisible):
            end = end.x.op
        if isinstance(end, metal.Extent) and end.axis < len(_COORDINATES):
            yield f"{_name_of(end.base)}_{_COORDINATES[end.axis]}"


def _places(value: Value, depth: int) -> Iterator[str]:
    """The memories in which it says where, alone or added to something."""
    for user in value.users:
        if isinstance(user, _ACCESSES):
            if user.offset is value:
                yield f"{_name_of(user.base)}_at"
        elif isinstance(user, math.Add) and depth > 0:
            yield from _places(user.result, depth - 1)
        else:
            yield ""


def _name_of(memory: Value) -> str:
    return re.sub(r"_\d+$", "", memory.name or "shared")
