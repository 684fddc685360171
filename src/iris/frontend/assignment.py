"""What a variable holds after an assignment.

A value made of the variable's old one, element by element, updates it: where the new element is
masked, the variable keeps the old one.  So `s += x` and `s = f(s, x)` mean the same in a loop that
is traced, in one that runs while tracing, and without a loop.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from iris.errors import UserError
from iris.frontend.carried import named
from iris.frontend.numbers import VariableNumber, as_variable
from iris.frontend.objects import contents, parts, rebuilt, refill
from iris.frontend.tracing import current
from iris.frontend.values import Traced, cast, emit, spread
from iris.ir import tile
from iris.ir.control import Func
from iris.ir.core import Value
from iris.ir.types import bool_
from iris.ir.updates import made_of


def assign(
    names: Sequence[str], before: Mapping[str, object], values: Sequence[object]
) -> tuple[object, ...]:
    """What variables hold that are assigned values, given what they held before."""
    held = tuple([updated(before.get(n), v) for n, v in zip(names, values, strict=True)])
    for name, value in zip(names, held, strict=True):
        named(name, value)
    return held


def updated(old: object, new: Any) -> Any:
    """What a variable holds that held one value and is assigned another."""
    if not isinstance(new, Traced):
        return _updated_parts(old, new) if old is not new else as_variable(new)
    if not _fits(old, new) or not made_of(new.value, _is(old)) or _is_updated(old, new):
        return new
    start = spread(cast(old, new.dtype), new.shape)
    return emit(tile.Update(start.value, new.value))


def _updated_parts(old: object, new: Any) -> Any:
    """The same of what a tuple, list or other object is made of, place by place."""
    whole, before = parts(new), parts(old)
    if whole is None:
        whole, before = contents(new), contents(old)
    if whole is None or before is None or type(old) is not type(new):
        return as_variable(new)
    held = {p: v if before.get(p) is v else _element(before.get(p), v) for p, v in whole.items()}
    if all(held[p] is v for p, v in whole.items()):
        return new
    if parts(new) is not None:
        return rebuilt(new, held)
    refill(new, held)
    return new


def _element(old: object, new: Any) -> Any:
    return updated(old, new) if isinstance(new, Traced) else _updated_parts(old, new)


def updated_at(place: Callable[[], object], value: object) -> object:
    """What an item or attribute holds that is assigned a value."""
    if not isinstance(value, Traced):
        return value
    try:
        return updated(place(), value)
    except (LookupError, AttributeError, UserError):  # it holds nothing yet
        return value


def drop_updates(func: Func) -> None:
    """Leave out what can make no difference in a function, as no load of it masks anything."""
    if not any(isinstance(op, tile.MaskedLoad) for op in func.walk()):
        for op in list(func.walk()):
            if isinstance(op, tile.Update):
                op.result.replace_by(op.new)
                op.erase()


def _fits(old: object, new: Traced) -> bool:
    """Whether a variable may keep elements of its old value beside new ones."""
    if isinstance(old, Traced):
        of_floats = old.dtype.is_float is new.dtype.is_float
        of_bools = (old.dtype is bool_) is (new.dtype is bool_)
        return of_floats and of_bools and old.shape in ((), new.shape)
    if not isinstance(old, VariableNumber):
        return False
    return new.dtype.is_float or (isinstance(old, int) and new.dtype is not bool_)


def _is(old: object) -> Callable[[Value], bool]:
    """Whether a value is the old one; of a number, a constant made of it."""
    if isinstance(old, Traced):
        return lambda value: value is old.value
    numbers = current().numbers

    def is_old(value: Value) -> bool:
        number = numbers.get(value)
        return number is not None and isinstance(old, VariableNumber) and number.is_from(old)

    return is_old


def _is_updated(old: object, new: Traced) -> bool:
    """Whether `old` has been updated to `new`, or is `new`."""
    if not isinstance(old, Traced):
        return False
    op = new.value.op
    return new.value is old.value or (isinstance(op, tile.Update) and op.old is old.value)


def _updating(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def update(self: Traced, other: object) -> Any:
        return updated(self, function(self, other))

    return update


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    setattr(Traced, f"__i{_name}__", _updating(getattr(operator, _name)))
for _name in ("and", "or", "xor", "lshift", "rshift"):
    _word = f"{_name}_" if _name in ("and", "or") else _name
    setattr(Traced, f"__i{_name}__", _updating(getattr(operator, _word)))
