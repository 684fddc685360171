"""What a value is called that the source has no name for: after what it is for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from iris.codegen.names import unnumbered
from iris.ir import math, metal
from iris.ir.core import Op, Value
from iris.ir.math import Predicate
from iris.ir.types import Registers, bool_

_ACCESSES: set[type[Op]] = {
    metal.Load,
    metal.Store,
    metal.AtomicLoad,
    metal.Atomic,
    metal.CompareExchange,
}
_COORDINATES = ("row", "col")
_DEPTH = 6


def usual_name(value: Value) -> str:
    dtype = value.type.element
    if dtype is bool_:
        return "inside" if _is_mask(value, _DEPTH) else "flag"
    if dtype.is_float:
        return _factor(value) or "v"
    if isinstance(value.type, Registers):
        return "at"
    related = [user for user in value.users if type(user) in (math.Add, math.Compare)]
    found = [name for user in related for name in _coordinates(user, value)]
    return _only(found or _places(value, _DEPTH)) or "at"


def _only(names: Iterable[str]) -> str:
    """The one name that all are, or nothing."""
    only = ""
    for name in names:
        if name == "" or name != (only or name):
            return ""
        only = name
    return only


def _is_mask(value: Value, depth: int) -> bool:
    """Whether it says where memory is accessed, or is a part of what does."""
    for user in value.users:
        if isinstance(user, (metal.Load, metal.Store)):
            if user.mask is value:
                return True
        elif depth > 0 and isinstance(user, math.And) and _is_mask(user.result, depth - 1):
            return True
    return False


def _factor(value: Value) -> str | None:
    """Which factor of a product of matrices it is, if it is one."""
    for user in value.users:
        if isinstance(user, metal.Mma) and user.acc is not value:
            return "left" if user.a is value else "right"
    return None


def _coordinates(user: Op, value: Value) -> Iterator[str]:
    """The axes of arrays that it is compared with the end of, as it is or in an inner loop."""
    if type(user) is math.Add:
        is_inside = type(user.parent_op) is metal.Foreach and value.home is not user.parent
        for next_user in user.result.users if is_inside else ():
            yield from _compared(next_user, user.result)
    else:
        yield from _compared(user, value)


def _compared(user: Op, value: Value) -> Iterator[str]:
    if not isinstance(user, math.Compare):
        return
    if user.predicate is Predicate.LT and user.lhs is value:
        end = user.rhs.op
        while isinstance(end, math.AssumeDivisible):
            end = end.x.op
        if isinstance(end, metal.Extent) and end.axis < len(_COORDINATES):
            yield f"{_name_of(end.base)}_{_COORDINATES[end.axis]}"


def _places(value: Value, depth: int) -> Iterator[str]:
    """The memories in which it says where, alone or added to something."""
    for user in value.users:
        if type(user) in _ACCESSES:
            base, offset, *_ = user.operands
            if offset is value:
                yield f"{_name_of(base)}_at"
        elif type(user) is math.Add and depth > 0:
            yield from _places(user.result, depth - 1)
        else:
            yield ""


def _name_of(memory: Value) -> str:
    return unnumbered(memory.name or "shared")
