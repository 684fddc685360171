"""The globals and the variables of closures that a function reads.

A trace holds their values, so another value needs another trace.  What changes within a list, an
array or another object is not seen.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

from iris.frontend.decorated import Decorated
from iris.frontend.objects import codes_in, is_in
from iris.frontend.specs import exact_key

_MISSING = object()
_CONSTANTS = (bool, int, float, complex, str)  # two may be equal and not the same object


class Captured:
    """The values of globals and closures that a function and the user's functions it calls read.

    captured = Captured(function)
    ...
    if captured.changed():  # trace the function again

    What a function assigns is not watched: each trace would change that.
    """

    def __init__(self, function: Callable[..., Any]):
        self._package = (function.__module__ or "").split(".")[0]
        self._names: dict[tuple[int, str], tuple[Mapping[str, Any], str, Any]] = {}
        self._cells: dict[int, tuple[CellType, Any]] = {}
        self._seen: set[FunctionType] = set()
        self._add_function(function)

    def changed(self) -> bool:
        """Whether a name has another value by now."""
        for scope, name, value in self._names.values():
            if _differ(scope.get(name, _MISSING), value):
                return True
        if not self._cells:  # as of most kernels, whose launches all ask
            return False
        return any(_differ(_content(cell), value) for cell, value in self._cells.values())

    def _add_function(self, function: object) -> None:
        """Add what a function reads; a value that is no function reads nothing."""
        if isinstance(function, Decorated):
            function = getattr(function, "__wrapped__", None)
        if not isinstance(function, FunctionType) or function in self._seen:
            return
        self._seen.add(function)
        code, scope = function.__code__, function.__globals__
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            if name not in _uses(code).assigned:
                content = _content(cell)
                self._cells[id(cell)] = cell, content
                if self._may_change(content):
                    self._add_function(content)
        if any(name in scope and self._may_change(scope[name]) for name in code.co_names):
            for path in _uses(code).read:
                self._add(scope, path)

    def _add(self, scope: Mapping[str, Any], path: tuple[str, ...]) -> None:
        """Add the value of a name, or of an attribute where the name is of a module."""
        name, *attributes = path
        value = scope.get(name, _MISSING)
        if value is _MISSING or not self._may_change(value):
            return
        if isinstance(value, ModuleType):
            if attributes:
                self._add(vars(value), tuple(attributes))
        elif (id(scope), name) not in self._names:
            self._names[id(scope), name] = scope, name, value
            self._add_function(value)

    def _may_change(self, value: object) -> bool:
        """Whether a name for it is watched: functions, classes and modules of libraries stay."""
        if isinstance(value, ModuleType):
            return is_in(value.__name__, self._package)
        if isinstance(value, (FunctionType, type, Decorated)):
            return is_in(value.__module__ or "", self._package)
        return True


class _Uses(NamedTuple):
    read: frozenset[tuple[str, ...]]  # globals, with the attributes that are read of each
    assigned: frozenset[str]


@lru_cache(maxsize=1024)
def _uses(code: CodeType) -> _Uses:
    """The names outside of a function that its code uses."""
    read: set[tuple[str, ...]] = set()
    assigned: set[str] = set()
    for part in codes_in(code):
        path: tuple[str, ...] = ()
        for i in dis.get_instructions(part):
            if i.opname == "LOAD_GLOBAL":
                path = (i.argval,)
                read.add(path)
            elif path and i.opname in ("LOAD_ATTR", "LOAD_METHOD"):
                path += (i.argval,)
                read.add(path)
            else:
                path = ()
            if i.opname in ("STORE_GLOBAL", "STORE_DEREF"):
                assigned.add(i.argval)
    return _Uses(frozenset(p for p in read if p[0] not in assigned), frozenset(assigned))


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing was assigned yet
        return _MISSING


def _differ(now: Any, then: Any) -> bool:
    """Whether two values are not the same."""
    if now is then:
        return False
    if type(now) is not type(then):
        return True
    if isinstance(then, tuple):
        return len(now) != len(then) or any(map(_differ, now, then))
    return not isinstance(then, _CONSTANTS) or exact_key(now) != exact_key(then)
