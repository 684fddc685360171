"""The globals, the variables of closures and the defaults that a function reads.

A trace holds their values, so another value needs another trace.  What changes within a list, an
array or another object is not seen.
"""

from __future__ import annotations

import dis
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, singledispatch
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

from iris.frontend.decorated import Decorated
from iris.frontend.objects import (
    attributes_of,
    called_by,
    codes_in,
    is_in,
    leads_nowhere,
    methods_of,
)
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
        self._defaults: list[tuple[FunctionType, Any]] = []
        self._seen: dict[int, object] = {}  # by id; alive as long as these are used
        while isinstance(function, Decorated):
            function = function.__wrapped__
        if isinstance(function, FunctionType):
            self._seen[id(function)] = function
            self._read_by(function)  # whose own defaults are of its signature
        else:
            self.follow([function])

    def changed(self) -> bool:
        """Whether a name has another value by now."""
        for scope, name, value in self._names.values():
            if _differ(scope.get(name, _MISSING), value):
                return True
        if not self._cells and not self._defaults:  # as of most kernels, whose launches all ask
            return False
        return any(_differ(_content(cell), value) for cell, value in self._cells.values()) or any(
            _differ(_defaults_of(function), value) for function, value in self._defaults
        )

    def follow(self, values: Iterable[object]) -> None:
        """Add what functions among some values read, and those that the values hold or call."""
        work = deque(values)
        while work:
            x = work.popleft()
            if leads_nowhere(type(x)) or id(x) in self._seen or not self._may_change(x):  # type: ignore[arg-type]
                continue
            if isinstance(x, FunctionType):
                self._seen[id(x)] = x
                if x.__defaults__ or x.__kwdefaults__:
                    self._defaults.append((x, _defaults_of(x)))
                    work += _defaults_of(x)
                self._read_by(x)
                continue
            further = [*called_by(x), *_held(x)]
            attributes = attributes_of(x)
            if attributes is not None:
                kind = x if isinstance(x, type) else type(x)
                further += [*attributes.values(), *[v for v, _ in methods_of(kind, self._package)]]
            if further:  # what leads nowhere, such as an array, is not kept alive
                self._seen[id(x)] = x
                work += further

    def _read_by(self, function: FunctionType) -> None:
        """Add what a function reads."""
        code, scope = function.__code__, function.__globals__
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            if name not in _uses(code).assigned:
                content = _content(cell)
                self._cells[id(cell)] = cell, content
                self.follow([content])
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
            self.follow([value])

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


@singledispatch
def _held(x: object) -> Iterable[object]:
    """What a container holds."""
    return ()


for _list in (list, tuple, set, frozenset, deque):
    _held.register(_list, lambda x: x)
_held.register(dict, lambda x: x.values())


def _defaults_of(function: FunctionType) -> tuple[Any, ...]:
    return *(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()


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
