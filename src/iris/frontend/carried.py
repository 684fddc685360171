"""The variables that a loop or a branch changes: what stands for one that has no value, and the
one type in which the values it may have meet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from iris.errors import CarriedError, PointerError, ScopeError, UserError
from iris.frontend.tracing import current, error_at, error_here
from iris.frontend.values import (
    Pointer,
    Traced,
    as_offset,
    as_traced,
    cast,
    constant,
    is_number,
    promote,
    spread,
    strong_dtype,
)
from iris.ir.core import Region, Value
from iris.ir.types import DType, f32


class Missing:
    """Stands for a variable that has no value here; any use of it is an error that says why."""

    def __init__(self, name: str, why: str):
        self.__dict__.update(_name=name, _why=why)

    def reject_use(self) -> NoReturn:
        raise error_here(ScopeError, f"{self._name} {self._why}")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.reject_use()


def _rejecting(self: Missing, *operands: object) -> NoReturn:
    self.reject_use()


_BINARY: tuple[str, ...] = (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "matmul",
    "and",
    "or",
    "xor",
)
_BINARY += ("lshift", "rshift")
_UNARY = ("neg", "pos", "abs", "invert", "bool", "int", "float", "index", "iter", "len")
_OTHERS = ("lt", "le", "gt", "ge", "getitem", "call")
for _word in (*_BINARY, *(f"r{word}" for word in _BINARY), *_UNARY, *_OTHERS):
    setattr(Missing, f"__{_word}__", _rejecting)


def values_of(names: Sequence[str], scope: Mapping[str, object]) -> dict[str, object]:
    """The variables of some names that have a value."""
    return {n: scope[n] for n in names if n in scope and not isinstance(scope[n], Missing)}


def named(name: str, value: object) -> None:
    """Called after an assignment: the IR keeps the user's names."""
    if isinstance(value, Pointer):
        value = value.offset
    if isinstance(value, Traced) and value.value.name is None:
        value.value.name = name


class Slot:
    """A variable that is carried: by its value, or as the offset of a pointer."""

    def __init__(self, name: str, start: object, dtype: DType, shape: tuple[int, ...], weak: bool):
        self.name = name
        self.start = start
        self.dtype = dtype
        self.shape = shape
        self.weak = weak  # it started as a Python number, whose dtype may still change

    def initial(self) -> Value:
        """Its value before the loop."""
        start = _offset(self.start) if isinstance(self.start, Pointer) else self.start
        return spread(cast(start, self.dtype), self.shape).value

    def wrap(self, value: Value) -> object:
        """What the variable is in the body, or after the loop."""
        if value.name is None:
            value.name = self.name
        traced = Traced(value)
        if isinstance(self.start, Pointer):
            return self.start.at(traced)
        return traced

    def accept(self, new: object) -> Traced | None:
        """What a round ends with, in the type that is carried; None if that has to widen first."""
        if isinstance(self.start, Pointer):
            new = _offset_of(new, self.start, self.name)
        if not isinstance(new, Traced) and not is_number(new):
            raise error_here(CarriedError, f"{self.name} starts as a number, but becomes {new!r}")
        dtype, shape = self.dtype, self.shape
        traced = constant(new, dtype) if _fits(new, dtype) else as_traced(new)  # type: ignore[arg-type]
        if traced.shape != shape and traced.shape:
            if shape:
                raise _changed(self.name, traced, f"its shape is {shape} at first")
            self.shape = traced.shape
        if traced.dtype is not dtype:
            wider = promote(dtype, traced.dtype)
            if self.weak and traced.dtype.is_float:
                wider = promote(wider, f32)
            if not self.weak:
                raise _changed(self.name, traced, f"its dtype is {dtype} at first")
            self.dtype = wider
        if (self.dtype, self.shape) != (dtype, shape):
            return None
        return spread(cast(traced, dtype), shape)


def _fits(new: object, dtype: DType) -> bool:
    """Whether a Python number is one of the dtype."""
    return is_number(new) and (dtype.is_float or strong_dtype(new).kind is dtype.kind)  # type: ignore[arg-type]


def slot_for(name: str, start: object, new: object) -> Slot:
    """The slot for a variable that a round changes from `start` to `new`."""
    if isinstance(start, Pointer):
        offset = _offset(start)
        return Slot(name, start, offset.dtype, offset.shape, weak=False)
    if isinstance(start, Traced):
        return Slot(name, start, start.dtype, start.shape, weak=False)
    if is_number(start) and (is_number(new) or isinstance(new, Traced)):
        number: Any = start
        dtype = strong_dtype(number)
        shape: tuple[int, ...] = ()
        if isinstance(new, Traced):
            # At least f32, so that sums of f16 are not made in f16.
            meets = promote(new.dtype, f32) if new.dtype.is_float else new.dtype
            dtype = meets if not dtype.is_float else promote(f32, meets)
            shape = new.shape
        return Slot(name, start, dtype, shape, weak=True)
    raise error_here(
        CarriedError,
        f"{name} changes in a traced loop from {_shown(start)} to {_shown(new)}; a loop carries "
        "numbers, tiles and pointers only",
    )


def _offset(pointer: Pointer) -> Traced:
    return as_offset(0) if pointer.offset is None else pointer.offset


def _offset_of(new: object, start: Pointer, name: str) -> Traced:
    if not isinstance(new, Pointer) or new.base is not start.base:
        raise error_here(
            PointerError, f"{name} starts as {start!r}, and must stay a pointer to the same array"
        )
    return _offset(new)


def _changed(name: str, new: Traced, was: str) -> UserError:
    """The error for a carried variable that changes its type, at the line that changes it."""
    message = f"{name} becomes {new}, but {was}; a loop or branch cannot change that"
    made = new.value.op.location if new.value.op is not None else None
    if made is None:
        return error_here(CarriedError, message)
    return error_at(CarriedError, message, made.file, made.line)


def _shown(x: object) -> str:
    return repr(x) if is_number(x) or isinstance(x, (Traced, Pointer)) else f"a {type(x).__name__}"


def same(a: object, b: object) -> bool:
    """Whether a variable did not change."""
    if a is b:
        return True
    if isinstance(a, Traced) and isinstance(b, Traced):
        return a.value is b.value
    if isinstance(a, Pointer) and isinstance(b, Pointer):
        return a.base is b.base and same(a.offset, b.offset)
    if isinstance(a, (Traced, Pointer)) or isinstance(b, (Traced, Pointer)):
        return False
    return type(a) is type(b) and bool(a == b)


def is_local(value: object) -> bool:
    return isinstance(value, (Traced, Pointer))


def merge(name: str, regions: Sequence[Region], values: list[object]) -> list[Traced]:
    """Values from the ends of two regions, in one type."""
    builder = current().builder
    outer = builder.region
    pointer = next((v for v in values if isinstance(v, Pointer)), None)
    made: list[Traced] = []
    try:
        for region, value in zip(regions, values, strict=True):
            builder.region = region
            if pointer is not None:
                value = _offset_of(value, pointer, name)
            if not isinstance(value, Traced) and not is_number(value):
                raise error_here(
                    CarriedError,
                    f"{name} is {_shown(values[0])} or {_shown(values[1])}, depending on a traced "
                    "condition; that works for numbers, tiles and pointers only",
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
            raise _changed(name, one, f"it is {other} in the other branch")
        shape = first.shape or second.shape
        for index, region in enumerate(regions):
            builder.region = region
            made[index] = spread(cast(made[index], dtype), shape)
    finally:
        builder.region = outer
    return made
