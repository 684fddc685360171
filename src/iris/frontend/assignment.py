"""What a variable holds after an assignment.

A value made of the variable's old one, element by element, updates it: where the new element is
masked, the variable keeps the old one.  So `s += x` and `s = f(s, x)` mean the same in a loop that
is traced, in one that runs while tracing, and without a loop.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

from iris.errors import UserError
from iris.frontend.loop_variables import named
from iris.frontend.numbers import VariableNumber, as_variable
from iris.frontend.objects import (
    Contents,
    Reach,
    Watched,
    alike,
    contents,
    is_of_users,
    parts,
    rebuilt,
    refill,
)
from iris.frontend.tracing import Tracer, current
from iris.frontend.values import Traced, cast, emit, spread
from iris.ir import tile
from iris.ir.control import Func
from iris.ir.core import Level, Value
from iris.ir.types import bool_
from iris.ir.updates import made_of


def assign(
    names: Sequence[str], before: Mapping[str, object], values: Sequence[object]
) -> tuple[object, ...]:
    """What variables hold that are assigned values, given what they held before."""
    held = tuple([updated(before.get(n), v) for n, v in zip(names, values, strict=True)])
    for name, value, given in zip(names, held, values, strict=True):
        named(name, given)
        named(name, value)
    return held


def updated(old: object, new: Any) -> Any:
    """What a variable holds that held one value and is assigned another."""
    return _Updating().updated(old, new)


def updated_at(place: Callable[[], object], value: object) -> object:
    """What an item or attribute holds that is assigned a value."""
    if current().level is not Level.TILE:  # an item may be one of memory: to look at it is to load
        return updated(None, value)
    try:
        old = place()
    except (LookupError, AttributeError, TypeError, UserError):  # it holds nothing yet
        old = None
    return updated(old, value)


def assigning(function: Any) -> Any:
    """A function that assigns what it changes in objects, however it does that."""
    if not _may_change_objects(function):
        return function

    def call(*arguments: Any, **named: Any) -> Any:
        reach = Reach((function, arguments, *named.values()))
        result = function(*arguments, **named)
        changed(reach)
        return result

    return call


def reached(held: object) -> Reach | None:
    """What an operator may change that is given an object; of what never changes, None."""
    return None if contents(held) is None else Reach((held,))


def changed(reach: Reach | None) -> None:
    """Assign what has been changed in objects."""
    for watched in reach or ():
        now = watched.now()
        if not alike(now, watched.before):
            _hold_updated(watched, now)


def _may_change_objects(function: Any) -> bool:
    """Whether a call may change objects: of the user's functions and methods, and of the methods
    of containers."""
    if isinstance(function, FunctionType):
        return is_of_users(function.__module__ or "")
    holder = getattr(function, "__self__", None)
    if contents(holder) is not None or contents(function) is not None:
        return True
    return function is setattr or isinstance(function, functools.partial)


def _hold_updated(watched: Watched, now: Contents) -> None:
    """Let an object that holds something else hold what variables would."""
    updating = _Updating()
    inherited = contents(type(watched.object)) or {}
    before = {**inherited, **watched.before}
    held = {
        p: v if before.get(p) is v else updating.updated(before.get(p), v) for p, v in now.items()
    }
    _hold(watched.object, now, held)


class _Updating:
    """One assignment, of a value that may be made of parts."""

    def __init__(self) -> None:
        self.seen: set[int] = set()  # objects that are done

    def updated(self, old: object, new: Any) -> Any:
        if not isinstance(new, Traced):
            return self._parts(old, new)
        if current().level is not Level.TILE:  # no element is masked
            return new
        if _is_updated(old, new) or not _fits(old, new) or not made_of(new.value, _is(old)):
            return new
        start = spread(cast(old, new.dtype), new.shape)
        return emit(tile.Update(start.value, new.value))

    def _parts(self, old: object, new: Any) -> Any:
        """The same of what a tuple, list or other object is made of, place by place; numbers are
        known again."""
        fixed = parts(new)
        whole = contents(new) if fixed is None else fixed
        if whole is None or id(new) in self.seen:
            return as_variable(new)
        if fixed is None:
            self.seen.add(id(new))
            self._parts(None, type(new))
        before: Contents = {}
        if type(old) is type(new) and old is not new:
            before = parts(old) or contents(old) or {}
        held = {place: self.updated(before.get(place), v) for place, v in whole.items()}
        if fixed is None:
            _hold(new, whole, held)
            return new
        same = all(held[place] is v for place, v in whole.items())
        return new if same else rebuilt(new, held)


def _hold(holder: object, now: Contents, held: Contents) -> None:
    """Let an object hold something else than it does now."""
    if any(held[place] is not v for place, v in now.items()):
        current().marked.append((holder, now, held))
        refill(holder, held)


def unmark(tracer: Tracer) -> None:
    """Let objects that outlive a trace hold plain numbers again."""
    for holder, before, marked in reversed(tracer.marked):
        now = contents(holder) or {}
        plain = {p: before[p] if p in marked and v is marked[p] else v for p, v in now.items()}
        if any(plain[p] is not v for p, v in now.items()):
            refill(holder, plain)


def drop_updates(func: Func) -> None:
    """Leave out what can make no difference in a function, as no load of it masks anything."""
    if not any(isinstance(op, tile.MaskedLoad) for op in func.walk()):
        for op in func.walk():
            if isinstance(op, tile.Update):
                op.result.replace_by(op.new)
                op.erase()


def _fits(old: object, new: Traced) -> bool:
    """Whether a variable may keep elements of its old value beside new ones."""
    if isinstance(old, Traced):
        of_floats = old.dtype.is_float is new.dtype.is_float
        of_bools = (old.dtype is bool_) is (new.dtype is bool_)
        return of_floats and of_bools and old.shape in ((), new.shape)
    if isinstance(old, bool):
        return True
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
        if isinstance(old, VariableNumber) and isinstance(number, VariableNumber):
            return number.is_from(old)
        return isinstance(number, bool) and number is old

    return is_old


def _is_updated(old: object, new: Traced) -> bool:
    """Whether `old` has been updated to `new`, or is `new`."""
    if not isinstance(old, Traced):
        return False
    value = new.value
    while value is not old.value:
        if not isinstance(value.op, tile.Update):
            return False
        value = value.op.old
    return True


def _updating(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def update(self: Traced, other: object) -> Any:
        return updated(self, function(self, other))

    return update


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    setattr(Traced, f"__i{_name}__", _updating(getattr(operator, _name)))
for _name in ("and", "or", "xor", "lshift", "rshift"):
    _word = f"{_name}_" if _name in ("and", "or") else _name
    setattr(Traced, f"__i{_name}__", _updating(getattr(operator, _word)))
