"""Which values an op may overwrite: those that nothing reads after it."""

from __future__ import annotations

from iris.ir.control import While
from iris.ir.core import Op, Region, Value
from iris.ir.metal import Foreach, Slice, count_of


def is_last_use(op: Op, value: Value) -> bool:
    """Whether nothing but one operand of an op reads a value."""
    is_only_user = len(value.users) == 1 and op.operands.count(value) == 1
    return is_only_user and _ends_with(op.parent, value)


def reads_part_by_part(op: Foreach, x: Value) -> bool:
    """Whether nothing reads an array but the body of a loop, and that only its own part."""
    is_read_here = all(user.parent is op.body for user in x.users)
    return _ends_with(op.parent, x) and is_read_here and slices_in_step(op, x)


def slices_in_step(op: Foreach, x: Value) -> bool:
    """Whether the body of a loop reads of an array that it slices only its own part."""
    (number,) = op.body.arguments
    return all(
        isinstance(user, Slice)
        and user.index is number
        and count_of(user.result.type) * op.count == count_of(x.type)
        for user in x.users
        if user.parent is op.body
    )


def _ends_with(region: Region | None, value: Value) -> bool:
    """Whether nothing reads a value again once a region has run."""
    if value.home is not region:
        return False
    # The body of a loop is given again what its condition was given.
    owner = value.owner
    return not (isinstance(owner, While) and value.region is owner.condition)
