"""Variables that a loop or a branch changes: their types, and stand-ins for missing values."""

from __future__ import annotations

import operator
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, singledispatch
from types import CodeType
from typing import Any, NoReturn, TypeGuard

import numpy as np

from iris.errors import CarriedError, PointerError, ScopeError, UserError
from iris.frontend.chosen_pointers import check_one_dtype, chosen_among
from iris.frontend.numbers import plain
from iris.frontend.objects import (
    Contents,
    Place,
    Reach,
    Watched,
    alike,
    changed_to,
    contents,
    identifier,
    parts,
    rebuilt,
)
from iris.frontend.tracing import at_line, current, error_at, error_here, location, user_frame
from iris.frontend.values import (
    BINARY,
    Address,
    Number,
    Pointer,
    Traced,
    as_offset,
    as_traced,
    cast,
    constant,
    is_number,
    kind_of,
    promote,
    python_number,
    spread,
    strong_dtype,
)
from iris.ir.core import Level, Location, Region, Value
from iris.ir.types import DType, bool_, f32


class Missing:
    """Stands for a variable without a value; any use is an error that says why."""

    def __init__(self, name: str, why: str):
        self.__dict__.update(_name=name, _why=why)

    def reject_use(self) -> NoReturn:
        raise error_here(ScopeError, f"{self._name} {self._why}")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.reject_use()


class Clashing(Missing):
    """Stands for a variable whose values are of no one type; any use is the error that says so."""

    def __init__(self, error: UserError):
        self.__dict__.update(_error=error)

    def reject_use(self) -> NoReturn:
        raise type(self._error)(self._error.message, self._error.spot)


UNNEEDED = object()  # stands for the value of a variable where nothing will use it


def _rejecting(self: Missing, *operands: object) -> NoReturn:
    self.reject_use()


_BINARY = ("add", "sub", *BINARY)
_UNARY = ("neg", "pos", "abs", "invert", "bool", "int", "float", "index", "iter", "len")
_OTHERS: tuple[str, ...] = ("lt", "le", "eq", "ne", "gt", "ge", "call", "contains")
_OTHERS += ("getitem", "setitem", "delitem", "setattr", "delattr")
for _word in (*_BINARY, *(f"r{word}" for word in _BINARY), *_UNARY, *_OTHERS):
    setattr(Missing, f"__{_word}__", _rejecting)


def values_of(names: Sequence[str], scope: Mapping[str, object]) -> dict[str, object]:
    """The values of some variables, where they have one."""
    return {n: scope[n] for n in names if n in scope and not isinstance(scope[n], Missing)}


def named(name: str, value: object) -> None:
    """Called after an assignment: the IR keeps the user's names."""
    tracer = current()
    if tracer.watching:
        tracer.assigned[_variable(name)] = location()
    if isinstance(value, Pointer):
        value = Traced(value.base) if value.offset is None else value.offset
    if isinstance(value, Traced) and value.value.name is None:
        value.value.name = name


def noted() -> None:
    """Called after a statement that may change objects."""
    for watching in current().watching:
        watching.note()


def _variable(name: str) -> tuple[CodeType | None, str]:
    frame = user_frame()
    return None if frame is None else frame.f_code, name


def assigned(name: str) -> Location | None:
    """The line that assigned a variable last, in a region."""
    return current().assigned.get(_variable(name))


def forget(names: Sequence[str]) -> None:
    """Forget the lines that assigned variables, at the start of a region."""
    for name in names:
        current().assigned.pop(_variable(name), None)


def check_structure(
    watched: Watched, before: Mapping[Place, object], now: Mapping[Place, object], where: str
) -> None:
    """Refuse a change of an object's structure; only values in it may depend on traced values."""
    if list(before) == list(now):
        return
    changed = changed_to(before, now, watched)
    raise error_here(
        CarriedError,
        f"{changed} in {where}, and Python objects cannot change their structure there; give "
        "them their final size before, and change their contents",
    )


def check_unchanged(reach: Reach, where: str) -> None:
    for watched in reach:
        now = watched.now()
        if not alike(now, watched.given):
            with at_line(watched.changed):
                check_structure(watched, watched.given, now, where)
                raise error_here(
                    CarriedError, f"{where} changes {watched.path}; do that in the body"
                )


class Slot:
    """A variable that is carried by its value."""

    def __init__(self, name: str, start: object, dtype: DType, shape: tuple[int, ...], weak: bool):
        self.name = name
        self.start = start
        self.dtype = dtype
        self.shape = shape
        self.weak = weak  # it started as a Python number, whose dtype may still change

    def initial(self) -> Value:
        """Its value before the loop."""
        return spread(cast(self.start, self.dtype), self.shape).value

    def wrap(self, value: Value) -> object:
        """What the variable is in the body, or after the loop."""
        value.name = value.name or identifier(self.name)
        return Traced(value)

    def accept(self, new: object) -> Traced | None:
        """What a round ends with, in the type that is carried; None if that has to widen first."""
        new = python_number(new)
        if not isinstance(new, Traced) and not is_number(new):
            raise error_here(CarriedError, f"{self.name} starts as a number, but becomes {new!r}")
        dtype, shape = self.dtype, self.shape
        traced = constant(new, dtype) if _fits(new, dtype) else as_traced(new)
        if traced.shape != shape and traced.shape:
            if shape:
                raise _type_change_error(self.name, traced, f"its shape is {shape} at first")
            self.shape = traced.shape
        if traced.dtype is not dtype:
            wider = promote(dtype, traced.dtype)
            if self.weak and traced.dtype.is_float:
                wider = promote(wider, f32)
            if not self.weak:
                raise _type_change_error(self.name, traced, f"its dtype is {dtype} at first")
            self.dtype = wider
        if (self.dtype, self.shape) != (dtype, shape):
            return None
        return spread(cast(traced, dtype), shape)


class _OffsetSlot(Slot):
    """A pointer that is carried as its offset."""

    def __init__(self, name: str, pointer: Pointer):
        offset = _offset(pointer)
        super().__init__(name, pointer, offset.dtype, offset.shape, weak=False)
        self.pointer = pointer

    def initial(self) -> Value:
        return spread(cast(_offset(self.pointer), self.dtype), self.shape).value

    def wrap(self, value: Value) -> object:
        value.name = value.name or identifier(self.name)
        return self.pointer.at(Traced(value))

    def accept(self, new: object) -> Traced | None:
        return super().accept(_offset_of(new, self.pointer, self.name))


def _fits(new: object, dtype: DType) -> TypeGuard[Number]:
    """Whether a Python number is one of the dtype."""
    return is_number(new) and (dtype.is_float or strong_dtype(new).kind is dtype.kind)


@singledispatch
def slot_for(start: object, name: str, new: object) -> Slot:
    """The slot for a variable that a round changes from `start` to `new`."""
    start, new = python_number(start), python_number(new)
    if is_number(start) and isinstance(new, Traced):
        dtype = strong_dtype(start)
        # At least f32, so that sums of f16 are not made in f16.
        meets = promote(new.dtype, f32) if new.dtype.is_float else new.dtype
        dtype = meets if not dtype.is_float else promote(f32, meets)
        return Slot(name, start, dtype, new.shape, weak=True)
    if is_number(start) and is_number(new):
        return Slot(name, start, strong_dtype(start), (), weak=True)
    raise error_here(
        CarriedError,
        f"{name} changes in a traced loop from {_described(start)} to {_described(new)}; a loop "
        "carries numbers, tiles and pointers, and tuples, lists, dicts and objects of these",
    )


@slot_for.register
def _(start: Pointer, name: str, new: object) -> Slot:
    return _OffsetSlot(name, start)


@slot_for.register
def _(start: Traced, name: str, new: object) -> Slot:
    return Slot(name, start, start.dtype, start.shape, weak=False)


def _offset(pointer: Pointer) -> Traced:
    return as_offset(0) if pointer.offset is None else pointer.offset


def _offset_of(new: object, start: Pointer, name: str) -> Traced:
    if not isinstance(new, Pointer) or new.base is not start.base:
        raise error_here(
            PointerError, f"{name} starts as {start!r}, and must stay a pointer to the same array"
        )
    return _offset(new)


def _type_change_error(name: str, new: Traced, was: str) -> UserError:
    """The error for a carried variable that changes its type, at the line that changes it: the one
    that makes the value in the loop or branch, if that is where it is made."""
    message = f"{name} becomes {new}, but {was}; a loop or branch cannot change that"
    made = new.value.op.location if new.value.op is not None else None
    if made is None or new.value.home is not current().builder.region:
        return error_here(CarriedError, message)
    return error_at(CarriedError, message, made.file, made.line)


def _described(x: object) -> str:
    if is_number(x) or isinstance(x, (Traced, Address)):
        return repr(x)
    held = _parts_of(x)
    keys = [repr(p.key) if p.is_item and isinstance(x, dict) else str(p.key) for p in held]
    if not keys or len(keys) > 8:
        return kind_of(x)
    if isinstance(x, (tuple, list)) and all(p.is_item for p in held):
        return f"{kind_of(x)} of {len(keys)}"
    return kind_of(x) if hasattr(type(x), "described") else f"{kind_of(x)} of {', '.join(keys)}"


def is_unchanged(a: object, b: object) -> bool:
    """Whether a variable did not change."""
    if a is b:
        return True
    a, b = plain(a), plain(b)
    return type(a) is type(b) and _is_unchanged(a, b)


@singledispatch
def _is_unchanged(a: object, b: Any) -> bool:
    """Whether two values of one type are the same."""
    first, second = parts(a), parts(b)
    if first is not None and second is not None:
        return list(first) == list(second) and all(
            is_unchanged(v, second[p]) for p, v in first.items()
        )
    return contents(a) is None and not callable(a) and (a == b) is True


for _plain in (int, str, bytes, type(None), range, slice):
    _is_unchanged.register(_plain, operator.eq)
_is_unchanged.register(float, lambda a, b: a.hex() == b.hex())
_is_unchanged.register(Traced, lambda a, b: a.value is b.value)
_is_unchanged.register(Pointer, lambda a, b: a.base is b.base and is_unchanged(a.offset, b.offset))


def is_simple(value: object) -> bool:
    """Whether a value is one that no other name shares."""
    return is_number(value) or isinstance(value, (Traced, Address, Missing))


def is_local(value: object) -> bool:
    if isinstance(value, (Traced, Address)):
        return True
    return any(is_local(v) for v in (parts(value) or {}).values())


# What a loop or a branch makes of variables and of what objects hold: numbers, tiles and pointers
# are carried, and so are tuples and other objects of them whose structure stays.


class Tree:
    """What becomes of one value; a subclass says what of it is carried."""

    def slots(self) -> list[Slot]:
        return []

    def pairs(self) -> list[list[Traced]]:
        """The values that the two branches yield for a merged value."""
        return []

    def build(self, values: Iterator[Value]) -> object:
        """The value after the loop or branch."""
        raise NotImplementedError

    def ends(self, new: object) -> list[Traced | None]:
        """The carried values after an iteration."""
        return []

    def next_tree(self, path: str, start: object, new: object, ends: RegionEnd) -> Tree:
        """How a loop carries the value, given its start and its value after an iteration."""
        return self


class Unchanged(Tree):
    """A value that does not change."""

    def __init__(self, value: object):
        self.value = value

    def build(self, values: Iterator[Value]) -> object:
        return self.value

    def next_tree(self, path: str, start: object, new: object, ends: RegionEnd) -> Tree:
        if is_unchanged(start, new):
            return self
        old_parts = ends.started(start)
        if old_parts is not None and _same_structure(start, old_parts, new, _parts_of(new)):
            ends.check_replaced(path, start)
            children: dict[Place, Tree] = {p: Unchanged(v) for p, v in old_parts.items()}
            return CarriedObject(start, children).next_tree(path, start, new, ends)
        return CarriedValue(slot_for(start, path, new))


class CarriedValue(Tree):
    """A number, tile or pointer that a loop carries."""

    def __init__(self, slot: Slot):
        self.slot = slot

    def slots(self) -> list[Slot]:
        return [self.slot]

    def build(self, values: Iterator[Value]) -> object:
        return self.slot.wrap(next(values))

    def ends(self, new: object) -> list[Traced | None]:
        return [self.slot.accept(new)]


class MergedValue(Tree):
    """A number, tile or pointer that one of two branches yields."""

    def __init__(self, name: str, pair: list[Traced], pointer: Pointer | None):
        self.name, self.pair, self.pointer = name, pair, pointer

    def pairs(self) -> list[list[Traced]]:
        return [self.pair]

    def build(self, values: Iterator[Value]) -> object:
        value = next(values)
        value.name = self.name
        traced = Traced(value)
        return traced if self.pointer is None else self.pointer.at(traced)


class MergedPointers(Tree):
    """Pointers to different arrays: after two branches, the one that was taken says which."""

    def __init__(self, regions: Sequence[Region], values: Sequence[Address]):
        check_one_dtype(values)
        self.pointers: list[Pointer] = []
        self.merged: list[list[Traced]] = []  # for each pointer, its condition and its offset
        for side, (region, value) in enumerate(zip(regions, values, strict=True)):
            for condition, pointer in value.each():
                self.pointers.append(pointer)
                with current().builder.inside(region):
                    offset = _offset(pointer)
                    holds = constant(True, bool_) if condition is None else condition
                for own, otherwise in ((holds, False), (offset, 0)):
                    with current().builder.inside(regions[not side]):
                        pair = [own, constant(otherwise, own.dtype, own.shape)]
                    self.merged.append(pair[::-1] if side else pair)

    def pairs(self) -> list[list[Traced]]:
        return self.merged

    def build(self, values: Iterator[Value]) -> object:
        return chosen_among(
            [(Traced(next(values)), p.at(Traced(next(values)))) for p in self.pointers]
        )


class CarriedObject(Tree):
    """A tuple, list, dict or other object, rebuilt from carried values."""

    def __init__(self, like: object, held: dict[Place, Tree]):
        self.like = like
        self.held = held

    def slots(self) -> list[Slot]:
        return [slot for tree in self.held.values() for slot in tree.slots()]

    def pairs(self) -> list[list[Traced]]:
        return [pair for tree in self.held.values() for pair in tree.pairs()]

    def build(self, values: Iterator[Value]) -> object:
        return rebuilt(self.like, {p: tree.build(values) for p, tree in self.held.items()})

    def ends(self, new: object) -> list[Traced | None]:
        held = _parts_of(new)
        return [end for p, tree in self.held.items() for end in tree.ends(held[p])]

    def next_tree(self, path: str, start: object, new: object, ends: RegionEnd) -> Tree:
        held, old = _parts_of(new), ends.started(start) or {}
        if not _same_structure(self.like, self.held, new, held):
            raise error_here(
                CarriedError,
                f"{path} is {_described(self.like)} at first, and becomes {_described(new)}; the "
                "structure of a value cannot change in a traced loop",
            )
        ends.check_new(path, new)
        met = {
            p: carried_tree(p.within(path), t, old[p], held[p], ends) for p, t in self.held.items()
        }
        return (
            self
            if all(met[p] is t for p, t in self.held.items())
            else CarriedObject(self.like, met)
        )


def _parts_of(x: object) -> Contents:
    return parts(x) or contents(x) or {}


def _same_structure(
    a: object, held: Mapping[Place, Any] | None, b: object, other: Mapping[Place, Any] | None
) -> bool:
    """Whether two values are containers of one structure."""
    kinds = type, set, bytearray, array, memoryview, np.ndarray
    if type(a) is not type(b) or isinstance(a, kinds):
        return False
    return held is not None and other is not None and list(held) == list(other)


class RegionEnd:
    """The objects at the end of a region, and how often each is referenced.

    An object that is replaced must be referenced once, or another name would miss the change.
    """

    def __init__(self, before: Reach, held: Mapping[int, Contents] | None = None):
        self.before = before
        self.held = held or {}  # what objects hold there, if they hold something else by now

    @cached_property
    def after(self) -> Reach:
        return Reach()

    def look(self, unnamed: Iterable[object] = (), *, returned: bool = False) -> None:
        """See how often each object is held, before others take its place: by values without a
        name, too, and no longer by the variables of a function that has `returned`."""
        self.after = Reach(unnamed, returned=returned)

    def started(self, x: object) -> Contents | None:
        """What a value was made of when the region began."""
        if id(x) in self.before.watched:
            return self.before.watched[id(x)].before
        whole = parts(x)
        return contents(x) if whole is None else whole

    def now(self, x: object) -> Contents | None:
        """What a value is made of where the region ends."""
        if id(x) in self.held:
            return self.held[id(x)]
        whole = parts(x)
        return contents(x) if whole is None else whole

    def check_replaced(self, path: str, old: object) -> None:
        if contents(old) is not None and parts(old) is None:
            self._check_held_once(path, old, self.before)

    def check_new(self, path: str, new: object) -> None:
        if contents(new) is not None and parts(new) is None:
            self._check_held_once(path, new, self.after)

    def _check_held_once(self, path: str, x: object, reach: Reach) -> None:
        if reach.held[id(x)] > 1:
            _, _, kind = kind_of(x).partition(" ")
            instead = getattr(type(x), "instead", "change its contents instead, or use a tuple")
            raise error_here(
                CarriedError,
                f"{path} becomes another {kind} in a traced loop or branch, but the same "
                f"{kind} is held elsewhere, too; {instead}",
            )


def carried_tree(path: str, tree: Tree, start: object, new: object, ends: RegionEnd) -> Tree:
    """How a loop carries a value that starts as one value and ends an iteration as another."""
    if isinstance(new, Missing):
        new.reject_use()
    return tree.next_tree(path, start, new, ends)


def merge_trees(
    path: str, regions: Sequence[Region], values: list[object], ends: Sequence[RegionEnd]
) -> Tree:
    """Merge the values of a variable after two branches."""
    first, second = values
    if is_unchanged(first, second):
        return Unchanged(first)
    if isinstance(first, Address) and isinstance(second, Address) and _differ(first, second):
        return MergedPointers(regions, [first, second])
    for needed, not_needed in (values, values[::-1]):
        if not_needed is UNNEEDED and id(needed) in ends[0].before.watched:
            return Unchanged(needed)  # what the object holds is merged by itself
    one, other = (end.now(value) for value, end in zip(values, ends, strict=True))
    if first is UNNEEDED:
        first, one = second, _unneeded_parts(other)
    elif second is UNNEEDED:
        second, other = first, _unneeded_parts(one)
    if one is not None and other is not None and _same_structure(first, one, second, other):
        for value, end in zip(values, ends, strict=True):
            end.check_new(path, value)
        held = {
            p: merge_trees(p.within(path), regions, [v, other[p]], ends) for p, v in one.items()
        }
        return CarriedObject(first, held)
    if first is second and not _is_of_region(first, regions):
        return Unchanged(first)
    pointer = next((v for v in values if isinstance(v, Pointer)), None)
    return MergedValue(identifier(path), merge(path, regions, values), pointer)


def _differ(a: Address, b: Address) -> bool:
    """Whether two pointers of a program, of one shape, are to different arrays."""
    pointers = [pointer for x in (a, b) for _, pointer in x.each()]
    shapes = {() if p.offset is None else p.offset.shape for p in pointers}
    arrays = {id(pointer.base) for pointer in pointers}
    return len(arrays) > 1 and len(shapes) == 1 and current().level is Level.TILE


def _unneeded_parts(whole: Contents | None) -> Contents | None:
    return None if whole is None else dict.fromkeys(whole, UNNEEDED)


def _is_of_region(x: object, regions: Sequence[Region]) -> bool:
    """Whether a value is a traced one of a region itself."""
    traced = x.offset if isinstance(x, Pointer) else x
    return isinstance(traced, Traced) and any(traced.value.home is r for r in regions)


def _some_like(values: Sequence[object]) -> Traced:
    """Any value of the type of the one that is needed."""
    (needed,) = [value for value in values if value is not UNNEEDED]
    like = _offset(needed) if isinstance(needed, Pointer) else as_traced(needed)
    return constant(0, like.dtype, like.shape)


def merge(name: str, regions: Sequence[Region], values: list[object]) -> list[Traced]:
    """Cast and broadcast the values of two regions to one type."""
    values = [python_number(value) for value in values]
    builder = current().builder
    outer = builder.region
    pointer = next((v for v in values if isinstance(v, Pointer)), None)
    made: list[Traced] = []
    try:
        for region, value in zip(regions, values, strict=True):
            builder.region = region
            if value is UNNEEDED:
                value = _some_like(values)
            elif pointer is not None:
                value = _offset_of(value, pointer, name)
            if not isinstance(value, Traced) and not is_number(value):
                raise error_here(
                    CarriedError,
                    f"{name} is {_described(values[0])} or {_described(values[1])}, depending on a "
                    "traced condition; that works for numbers, tiles and pointers, and for tuples, "
                    "lists, dicts and objects of one structure",
                )
            other = next((v for v in values if isinstance(v, Traced)), None)
            made.append(as_traced(value, other.dtype if other is not None else None))
        first, second = made
        dtype = promote(first.dtype, second.dtype)
        both = all(isinstance(v, Traced) for v in values)
        shapes = {first.shape, second.shape} - {()}
        if len(shapes) > 1 or (both and first.dtype is not second.dtype):
            # Blame what a branch made, rather than what was there before it.
            made_here = second.value.home is regions[1]
            one, other = (second, first) if made_here else (first, second)
            builder.region = regions[made_here]
            raise _type_change_error(name, one, f"it is {other} in the other branch")
        shape = first.shape or second.shape
        for index, region in enumerate(regions):
            builder.region = region
            made[index] = spread(cast(made[index], dtype), shape)
    finally:
        builder.region = outer
    return made
