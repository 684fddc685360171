"""The Python objects that a kernel's names reach, and what they hold: a traced loop or branch may
change them only as the program can follow.

Each object is watched as a mapping of its places (items of a list, attributes) to values. A list,
dict or set is one, so is an instance of a class of the user's, the class itself, the variable that
functions share, and what is used of a module. Tuples are no objects in this sense, as they never
change: what they hold belongs to who holds them.
"""

from __future__ import annotations

import copy
import ctypes
import functools
import gc
import operator
import pickle
import re
import sys
import threading
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cached_property, singledispatch
from io import BytesIO, StringIO
from itertools import chain
from queue import SimpleQueue
from types import (
    CellType,
    CodeType,
    FrameType,
    FunctionType,
    MappingProxyType,
    MethodType,
    ModuleType,
)
from typing import Any, NamedTuple

import numpy as np

from iris.frontend.decorated import Decorated
from iris.frontend.tracing import current, location
from iris.ir.core import Location


class Place(NamedTuple):
    """Where an object holds a value: an item, or an attribute."""

    is_item: bool
    key: Any

    def within(self, path: str) -> str:
        """The Python that says it."""
        if not path:
            return str(self.key)
        return f"{path}[{self.key!r}]" if self.is_item else f"{path}.{self.key}"


Contents = dict[Place, Any]


class _Names:
    """What is used of the variables of a module."""

    def __init__(self, scope: dict[str, Any]):
        self.scope = scope
        self.names: set[str] = set()


# What each kind of object holds, and how it is given something else to hold.


@singledispatch
def items(x: object) -> dict[Any, Any] | None:
    """The items of a container, by their keys; None of what is none."""
    return None


@items.register
def _(x: list) -> dict[Any, Any]:  # type: ignore[type-arg]
    return dict(enumerate(x))


@items.register
def _(x: deque) -> dict[Any, Any]:  # type: ignore[type-arg]
    return dict(enumerate(x))


@items.register
def _(x: dict) -> dict[Any, Any]:  # type: ignore[type-arg]
    return dict(x)


@items.register
def _(x: set) -> dict[Any, Any]:  # type: ignore[type-arg]
    return dict.fromkeys(x)


@items.register
def _(x: bytearray) -> dict[Any, Any]:
    return {...: bytes(x)}


@items.register
def _(x: array) -> dict[Any, Any]:  # type: ignore[type-arg]
    return {...: x.tobytes()}


@items.register
def _(x: memoryview) -> dict[Any, Any] | None:
    return None if x.readonly else {...: x.tobytes()}


@items.register
def _(x: np.ndarray) -> dict[Any, Any] | None:
    if x.dtype == object:
        return dict(enumerate(x.flat))
    return {...: x.tobytes()} if x.flags.writeable and not x.dtype.hasobject else None


@items.register
def _(x: CellType) -> dict[Any, Any]:
    try:
        return {...: x.cell_contents}
    except ValueError:  # no value yet
        return {}


@items.register
def _(x: MappingProxyType) -> dict[Any, Any]:  # type: ignore[type-arg]
    return dict(x)  # whose values may change, though it has no items of its own to put


def _left(x: Any) -> dict[Any, Any]:
    """How far an iterator is, told by its keys: it cannot be set back."""
    return dict.fromkeys([x.__reduce__()[2:]])


for _iterator in (iter([]), iter(()), iter(range(0)), reversed([])):
    items.register(type(_iterator), _left)


@items.register(type(iter(range(2**64))))
def _(x: Any) -> dict[Any, Any]:
    return {str(x.__reduce__()): None}


@items.register
def _(x: np.flatiter) -> dict[Any, Any]:
    return {x.index: None}


@items.register
def _(x: Iterator) -> dict[Any, Any] | None:  # type: ignore[type-arg]
    """Of an iterator of Python's, how much is left, and what it holds: other iterators too.

    Some do not tell how far they are: then it is how often the kernel has asked for more.
    """
    if type(x).__module__.lstrip("_") not in ("array", "builtins", "collections", "itertools"):
        return None
    frame = getattr(x, "gi_frame", None)
    left = operator.length_hint(x, -1), re.findall(r"^count\(.*", repr(x))
    line = None if frame is None else frame.f_lasti
    held = [y for y in _referred(x) if y is not frame]
    inner = [y for y in held if isinstance(y, Iterator)]
    _, asked = current().asked.get(id(x), (x, 0))
    state = str(left), line, asked, *map(id, held), *[(*(items(y) or ()),) for y in inner]
    return {state: None} | dict(enumerate(inner))


class _State(tuple[Any, ...]):
    """The state of a library's object, to compare with an earlier one."""


def _told_by(state: Callable[[Any], Any]) -> Callable[[Any], dict[Any, Any]]:
    """Make a reader of an object's items: one key, its state, which cannot be set back."""
    return lambda x: {_State([state(x)]): None}


def _pickled(x: object) -> bytes:
    """The state of a random generator or a stream; empty where there is none, as when closed."""
    try:
        return pickle.dumps(x)
    except (NotImplementedError, TypeError, ValueError):
        return b""


for _memory in (ctypes.Array, ctypes.Structure, ctypes.Union, ctypes._SimpleCData):
    items.register(_memory, _told_by(bytes))
for _stream in (BytesIO, StringIO):
    items.register(_stream, _told_by(_pickled))
items.register(SimpleQueue, _told_by(SimpleQueue.qsize))
items.register(threading.local, _told_by(lambda x: tuple((n, id(v)) for n, v in vars(x).items())))


def ask(x: object) -> None:
    """Note that an iterator is asked for more, and so are those in it."""
    if isinstance(x, Iterator):
        asked = current().asked
        asked[id(x)] = x, asked.get(id(x), (x, 0))[1] + 1
        for y in _referred(x):
            if y is not x and items(y) is not None:
                ask(y)


def _referred(x: object) -> Iterator[object]:
    """What an object refers to, and what tuples of these hold."""
    for y in gc.get_referents(x):
        yield from y if isinstance(y, tuple) else [y]


@items.register
def _(x: _Names) -> dict[Any, Any]:
    return {n: x.scope[n] for n in sorted(x.names) if n in x.scope}


@singledispatch
def put(x: Any, held: dict[Any, Any]) -> None:
    """Give a container other items."""


@put.register
def _(x: list, held: dict[Any, Any]) -> None:  # type: ignore[type-arg]
    list.__setitem__(x, slice(None), list(held.values()))


@put.register
def _(x: deque, held: dict[Any, Any]) -> None:  # type: ignore[type-arg]
    x.clear()
    x.extend(held.values())


@put.register
def _(x: dict, held: dict[Any, Any]) -> None:  # type: ignore[type-arg]
    dict.clear(x)
    dict.update(x, held)


@put.register
def _(x: set, held: dict[Any, Any]) -> None:  # type: ignore[type-arg]
    set.clear(x)
    set.update(x, held)


@put.register
def _(x: bytearray, held: dict[Any, Any]) -> None:
    x[:] = held[...]


@put.register
def _(x: array, held: dict[Any, Any]) -> None:  # type: ignore[type-arg]
    del x[:]
    x.frombytes(held[...])


@put.register
def _(x: memoryview, held: dict[Any, Any]) -> None:
    x.cast("B")[:] = held[...]


@put.register
def _(x: np.ndarray, held: dict[Any, Any]) -> None:
    if x.dtype == object:
        for place, value in held.items():
            x.flat[place] = value
    else:
        x[...] = np.frombuffer(held[...], x.dtype).reshape(x.shape)


@put.register
def _(x: CellType, held: dict[Any, Any]) -> None:
    if held:
        x.cell_contents = held[...]
    else:
        del x.cell_contents


@put.register
def _(x: _Names, held: dict[Any, Any]) -> None:
    for name in x.names - held.keys():
        x.scope.pop(name, None)
    x.scope.update(held)


_OTHERS = {"iris", "numpy", *sys.stdlib_module_names}
_OF_CONTAINERS = {
    "argparse",
    "collections",
    "queue",
    "types",
}  # whose objects hold what users put there


@functools.lru_cache(maxsize=1024)
def _slots_of(kind: type) -> tuple[bool, tuple[str, ...]]:
    """Whether instances of a class are the user's objects, and the slots that they have."""
    bases = [
        c
        for c in kind.__mro__
        if c.__module__ in _OF_CONTAINERS or c.__module__.split(".")[0] not in _OTHERS
    ]
    slots = [c.__dict__.get("__slots__", ()) for c in bases]
    names = [n for s in slots for n in ([s] if isinstance(s, str) else s)]
    return bool(bases), tuple(names)


def attributes_of(x: object) -> dict[str, Any] | None:
    """The attributes of an object of the user's, or of a class or function that has some."""
    kind = type(x)
    if isinstance(x, FunctionType):
        return dict(vars(x)) or None
    if isinstance(x, type):
        if x.__module__.split(".")[0] in _OTHERS:
            return None
        return {n: v for n, v in vars(x).items() if not n.startswith("__") and not callable(v)}
    users, slots = _slots_of(kind)  # type: ignore[arg-type]
    if not users or isinstance(x, (ModuleType, BaseException)):
        return None
    missing = object()
    held = {n: getattr(x, n, missing) for n in slots if n not in ("__dict__", "__weakref__")}
    held |= getattr(x, "__dict__", {})
    return {
        n: v
        for n, v in held.items()
        if v is not missing and not isinstance(getattr(kind, n, None), cached_property)
    }


def contents(x: object) -> Contents | None:
    """What an object holds that may change; None of what is no object in this sense."""
    items_of, may_have_attributes = _readers(type(x))  # type: ignore[arg-type]
    held = None if items_of is None else items_of(x)
    attributes = attributes_of(x) if may_have_attributes else None
    if held is None and attributes is None:
        return None
    found = {Place(True, k): v for k, v in held.items()} if held else {}
    if attributes:
        found |= {Place(False, n): v for n, v in attributes.items()}
    return found


@functools.lru_cache(maxsize=1024)
def _readers(kind: type) -> tuple[Callable[[Any], dict[Any, Any] | None] | None, bool]:
    """What reads the items of objects of a class, if they have any, and whether they may have
    attributes."""
    found: Any = items.dispatch(kind)
    has_attributes = issubclass(kind, type | FunctionType) or _slots_of(kind)[0]  # type: ignore[arg-type]
    if found is items.dispatch(object):
        is_pickled = not has_attributes and _has_own_state(kind)
        found = _told_by(_pickled) if is_pickled else None
    return found, has_attributes


def _has_own_state(kind: type) -> bool:
    """Whether a library's class defines its pickled state, as random generators and streams do."""
    own, usual = (getattr(k, "__getstate__", None) for k in (kind, object))
    return own is not usual and kind.__module__.split(".")[0] != "iris"


def refill(x: Any, held: Contents) -> None:
    """Give an object something else to hold."""
    if items(x) is not None:
        put(x, {place.key: v for place, v in held.items() if place.is_item})
    now = attributes_of(x)
    if now is None:
        return
    wanted = {place.key: v for place, v in held.items() if not place.is_item}
    kind: Any = type if isinstance(x, type) else object
    if now.keys() != wanted.keys():  # all anew, in their order
        for name in now:
            kind.__delattr__(x, name)
        now = {}
    for name, value in wanted.items():
        if name not in now or now[name] is not value:
            kind.__setattr__(x, name, value)


def parts(x: object) -> Contents | None:
    """What a value that never changes is made of, by place: of a tuple, a frozen dataclass."""
    if isinstance(x, tuple):
        return {Place(True, k): v for k, v in enumerate(x)}
    if not _is_frozen(type(x)):  # type: ignore[arg-type]
        return None
    held = attributes_of(x)
    if held is None:  # a value of this compiler's
        held = {field.name: getattr(x, field.name) for field in fields(x)}  # type: ignore[arg-type]
    return {Place(False, n): v for n, v in held.items()}


@functools.lru_cache(maxsize=1024)
def _is_frozen(kind: type) -> bool:
    """Whether a class is a frozen dataclass, whose objects never change."""
    said = getattr(kind, "__dataclass_params__", None)
    return getattr(said, "frozen", False) and not issubclass(kind, type)


def rebuilt(like: Any, held: Contents) -> Any:
    """Another object, like one, that holds something else."""
    if isinstance(like, tuple):
        values = [v for place, v in held.items() if place.is_item]
        make = getattr(type(like), "_make", None)
        return tuple.__new__(type(like), values) if make is None else make(values)
    made = object.__new__(type(like)) if items(like) is None else copy.copy(like)
    for place, value in held.items():
        if not place.is_item:
            object.__setattr__(made, place.key, value)
    if items(like) is not None:
        refill(made, held)
    return made


# What names reach.


def alike(a: Contents, b: Contents) -> bool:
    """Whether an object holds the very same."""
    return list(a) == list(b) and all(
        v is b[p] or (isinstance(v, bytes) and v == b[p]) for p, v in a.items()
    )


class Watched:
    """An object that names reach, and what it held when a region began."""

    def __init__(self, held_by: object, path: str, held: Contents):
        self.object = held_by
        self.path = path
        self.before = held
        self.last = self.given = held
        self.changed: Location | None = None  # the line that changed it last

    def now(self) -> Contents:
        return contents(self.object) or {}

    def note(self) -> None:
        """Note the line, if it changed the object."""
        now = self.now()
        if not alike(now, self.last):
            self.last, self.changed = now, location()

    def hold(self, held: Contents) -> None:
        """Give the object something to hold, if it holds something else."""
        if not alike(self.now(), held):
            refill(self.object, held)
        self.last = self.given = held


class Reach:
    """What the names of the functions being traced reach, and how often each object is held."""

    def __init__(
        self, more: Iterable[object] = (), variables: Sequence[str] = (), *, returned: bool = False
    ):
        self.watched: dict[int, Watched] = {}
        self.frozen: dict[int, Watched] = {}  # values, which `object.__setattr__` may change yet
        self.held = Counter[int]()
        self._kept: list[object] = []  # alive as long as their ids are used
        self._seen: set[Any] = set()
        self._modules: dict[int, _Names] = {}
        self._variables = variables  # of the first frame: watched by the one who asks
        self._work = deque[tuple[Any, str]]()
        frames = list(current().frames())
        self._own = frames[0].f_code if frames else None
        for frame in frames:
            # Of a function that returns, only what it shares with others stays.
            left = returned and frame is frames[0]
            self._frame(frame, frame.f_code.co_freevars if left else None)
        self._work += [(x, "") for x in more]
        while self._work:
            self._visit(*self._work.popleft())
        for module in self._modules.values():
            self.watched[id(module)] = Watched(module, "", contents(module) or {})

    def __iter__(self) -> Iterator[Watched]:
        return chain(self.watched.values(), self.frozen.values())

    def note(self) -> None:
        """Note which objects the statement changed that has run."""
        for watched in self:
            watched.note()

    def reaches(self, watched: Watched) -> bool:
        """Whether names reach an object that another one watches."""
        at = id(watched.object)
        return isinstance(watched.object, _Names) or at in self.watched or at in self.frozen

    def _frame(self, frame: FrameType, names: Sequence[str] | None) -> None:
        code = frame.f_code
        shared = {*code.co_cellvars, *code.co_freevars}
        for name, value in frame.f_locals.items():
            if name.startswith("iris_") or (names is not None and name not in names):
                continue
            if leads_nowhere(type(value)):  # type: ignore[arg-type]
                continue
            if name in shared:
                self._refer(("cell", name), value, name)
            else:
                self._work.append((value, name))
        self._globals(frame.f_globals, code)

    def _refer(self, holder: Any, value: object, path: str) -> None:
        """Go on to what one holder holds, once for all the ways to that holder."""
        key = holder, id(value)
        if key not in self._seen:
            self._seen.add(key)
            self._work.append((value, path))

    def _globals(self, scope: dict[str, Any], code: CodeType) -> None:
        names = _names_in(code)
        for name in names:
            if name in scope:
                self._use(scope, name)
                if isinstance(scope[name], ModuleType) and is_of_users(scope[name].__name__):
                    module = vars(scope[name])
                    for attribute in names:
                        if attribute in module:
                            self._use(module, attribute)

    def _use(self, scope: dict[str, Any], name: str) -> None:
        module = self._modules.get(id(scope))
        if module is None:
            module = self._modules[id(scope)] = _Names(scope)
        if name not in module.names:
            module.names.add(name)
            self._work.append((scope[name], name))

    def _visit(self, x: Any, path: str) -> None:
        whole = parts(x)
        if whole is not None:
            if _is_frozen(type(x)) and contents(x):  # type: ignore[arg-type]
                self.frozen[id(x)] = Watched(x, path, whole)
            self._go_on(whole, path)
            return
        held = contents(x)
        if held is not None:
            self.held[id(x)] += 1
        if id(x) in self._seen:
            return
        self._seen.add(id(x))
        self._kept.append(x)
        if held is not None:
            self.watched[id(x)] = Watched(x, path, held)
            self._go_on(held, path)
            if attributes_of(x) is not None:
                self._methods(x if isinstance(x, type) else type(x))
        if isinstance(x, FunctionType):
            self._function(x)
        elif held is None:
            self._work += [(v, path) for v in called_by(x)]

    def _go_on(self, held: Contents, path: str) -> None:
        """Go on to what an object holds that may hold others."""
        for place, value in held.items():
            if not leads_nowhere(type(value)):  # type: ignore[arg-type]
                self._work.append((value, place.within(path)))

    def _methods(self, kind: type) -> None:
        self._work += methods_of(kind, current().package)

    def _function(self, function: FunctionType) -> None:
        if not is_of_users(function.__module__ or ""):
            return
        defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
        self._work += [(v, function.__name__) for v in defaults]
        names = function.__code__.co_freevars
        inside = self._own is not None and function.__code__ in codes_in(self._own)
        for name, cell in zip(names, function.__closure__ or (), strict=True):
            if id(cell) in self._seen:
                continue
            self._seen.add(id(cell))
            self._kept.append(cell)
            held = contents(cell) or {}
            if not (inside and name in self._variables):
                self.watched[id(cell)] = Watched(cell, name, held)
            for value in held.values():
                self._refer(("cell", name), value, name)
        self._globals(function.__globals__, function.__code__)


@singledispatch
def called_by(x: object) -> Iterable[Any]:
    """What a call of something, or a use of an attribute, calls, and gives to that."""
    return ()


called_by.register(Decorated, lambda x: [getattr(x, "__wrapped__", None)])
called_by.register(MethodType, lambda x: [x.__self__, x.__func__])
called_by.register(functools.partial, lambda x: [x.func, *x.args, *x.keywords.values()])
called_by.register(staticmethod, lambda x: [x.__func__])
called_by.register(classmethod, lambda x: [x.__func__])
called_by.register(property, lambda x: [x.fget, x.fset, x.fdel])
called_by.register(cached_property, lambda x: [x.func])


def methods_of(kind: type, package: str) -> list[tuple[Any, str]]:
    """What is called for objects of a class, and its names; not that of libraries."""
    return [
        (value, name)
        for base in kind.__mro__
        if is_in(base.__module__, package)
        for name, value in vars(base).items()
        if callable(value) or called_by(value)
    ]


@functools.lru_cache(maxsize=1024)
def leads_nowhere(kind: type) -> bool:
    """Whether the objects of a class hold nothing that may change, and call nothing."""
    if issubclass(kind, (tuple, FunctionType)) or _is_frozen(kind):  # type: ignore[arg-type]
        return False
    calls = called_by.dispatch(kind) is not called_by.dispatch(object)
    return not calls and _readers(kind) == (None, False)  # type: ignore[arg-type]


@functools.lru_cache(maxsize=1024)
def codes_in(code: CodeType) -> frozenset[CodeType]:
    """Some code, and that of the functions defined in it."""
    inner = [codes_in(c) for c in code.co_consts if isinstance(c, CodeType)]
    return frozenset([code]).union(*inner)


@functools.lru_cache(maxsize=1024)
def _names_in(code: CodeType) -> tuple[str, ...]:
    return tuple(sorted({n for c in codes_in(code) for n in c.co_names}))


def is_of_users(module: str) -> bool:
    """Whether a module is the user's: of no library, or of the package of the kernel itself."""
    return is_in(module, current().package)


def is_in(module: str, own: str) -> bool:
    """Whether a module is of a package, or of no library."""
    package = module.split(".")[0]
    return package not in _OTHERS and (package == own or not _is_installed(module))


@functools.lru_cache(maxsize=1024)
def _is_installed(module: str) -> bool:
    return "-packages" in (getattr(sys.modules.get(module), "__file__", None) or "")


def identifier(path: str) -> str:
    """A name in the IR for what is at a path."""
    return re.sub(r"\W+", "_", path, flags=re.ASCII).strip("_")


def changed_to(before: Mapping[Place, Any], now: Mapping[Place, Any], watched: Watched) -> str:
    """How what an object holds came to have other places."""
    path = watched.path
    if any(isinstance(place.key, _State) for place in now):
        return f"{path} changes"
    if isinstance(watched.object, Iterator):
        return f"the iterator {path} goes on"
    more = [p.within(path) for p in now if p not in before]
    less = [p.within(path) for p in before if p not in now]
    gained = [f"gets {', '.join(more)}"] if more else []
    lost = [f"loses {', '.join(less)}"] if less else []
    return f"{path or 'a variable'} {' and '.join([*gained, *lost]) or 'gets another order'}"
