"""What a thread reaches by indices: arrays, memory of its threadgroup, arrays of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NoReturn

from iris.errors import ArgumentError, DTypeError, PointerError, ShapeError
from iris.frontend import objects
from iris.frontend.specs import ArraySpec
from iris.frontend.threads.positions import threads_here
from iris.frontend.threads.types import MetalType, as_type
from iris.frontend.threads.words import word
from iris.frontend.tracing import current, error_here, rules_as
from iris.frontend.values import (
    Operand,
    Pointer,
    Traced,
    as_element,
    as_index,
    component,
    constant,
    constant_advice,
    describe,
    emit,
    spread,
    taken,
)
from iris.ir import control, math, metal
from iris.ir.core import Region, Value
from iris.ir.kinds import AtomicKind
from iris.ir.metal import VECTOR_BYTES
from iris.ir.types import ElementType, Threadgroup, bool_, i32


class Elements(Pointer):
    """An array argument, or memory of the threadgroup, maybe from an element on."""

    __slots__ = ("is_const", "shape", "type")
    type: MetalType
    shape: tuple[int, ...] | None  # of memory of the threadgroup
    is_const: bool

    def __init__(
        self,
        base: Value,
        name: str,
        type_: MetalType,
        *,
        shape: tuple[int, ...] | None = None,
        is_const: bool = False,
        offset: Traced | None = None,
    ):
        super().__init__(base, name, ArraySpec(type_.element, 1), offset)
        for slot, value in (("type", type_), ("shape", shape), ("is_const", is_const)):
            object.__setattr__(self, slot, value)

    def at(self, offset: Traced) -> Elements:
        kept = {"shape": self.shape, "is_const": self.is_const}
        return Elements(self.base, self.name, self.type, offset=offset, **kept)  # type: ignore[arg-type]

    def number_of(self, key: object) -> Traced:
        """The number of an element, which is given by an index for each axis."""
        shape = (0,) if self.shape is None or self.offset is not None else self.shape
        keys = key if isinstance(key, tuple) else (key,)
        if len(keys) not in (1, len(shape)):
            message = f"{self.name} is indexed by {' or '.join({'1', str(len(shape))})} integers"
            raise error_here(ShapeError, f"{message}, not {len(keys)}")
        number = as_index(keys[0])
        for size, index in zip(shape[1:], keys[1:], strict=False):
            number = number * size + as_index(index)
        return number if self.offset is None else self.offset + number

    def __getitem__(self, key: object) -> Traced:  # type: ignore[override]
        number, type_ = self.number_of(key), self.type
        dtype, count = type_.element, type_.width
        if count == 1:
            return self._load(number, dtype)
        if self._moves_whole():
            return self._load(number * type_.stride, metal.registers(count, dtype))
        first = number * type_.stride
        parts = [self._load(first + i, dtype) for i in range(count)]
        return emit(metal.join([part.value for part in parts]))

    def __setitem__(self, key: object, value: Any) -> None:
        if self.is_const:
            raise error_here(PointerError, f"{self.name} is declared const: it is not written to")
        number, type_ = self.number_of(key), self.type
        count = type_.width
        stored = spread(as_element(value, type_.element), () if count == 1 else (count,))
        if count == 1:
            current().insert(metal.Store(self.base, number.value, stored.value))
        elif self._moves_whole():
            at = number * type_.stride
            current().insert(metal.Store(self.base, at.value, stored.value))
        else:
            first = number * type_.stride
            for i in range(count):
                part = taken(stored, [i])
                current().insert(metal.Store(self.base, (first + i).value, part.value))

    def _load(self, at: Traced, type_: ElementType) -> Traced:
        return emit(metal.Load(self.base, at.value, result=type_))

    def _moves_whole(self) -> bool:
        """Whether one access moves an element."""
        type_ = self.type
        return type_.width in (2, 4) and type_.width * type_.element.bytes <= VECTOR_BYTES

    def reject_use(self) -> NoReturn:
        raise error_here(PointerError, f"{self.name} is no number; its elements are {self.name}[i]")


class PrivateArray:
    """An array of the thread's own, `metal.array(8, metal.float)`: its elements change in place."""

    __slots__ = ("value",)
    described = "an array of the thread's own"

    def __init__(self, value: Traced):
        self.value = value

    def __len__(self) -> int:
        return self.value.shape[0]

    def __getitem__(self, key: object) -> Traced:
        return component(self.value, key)

    def __setitem__(self, key: object, value: Any) -> None:
        whole = self.value
        new = spread(as_element(value, whole.dtype), ())
        if isinstance(key, Traced):
            index = as_index(key).value
            self.value = emit(metal.Insert(whole.value, index, new.value, whole.value.type))
            return
        component(whole, key)  # which refuses what is no index
        before, after = range(key), range(key + 1, len(self))  # type: ignore[call-overload,operator]
        parts = [taken(whole, [*before])] if before else []
        parts.append(new)
        parts += [taken(whole, [*after])] if after else []
        self.value = emit(metal.join([p.value for p in parts])) if len(self) > 1 else new


@objects.items.register
def _(x: PrivateArray) -> dict[Any, Any]:
    return {"elements": x.value}


@objects.put.register
def _(x: PrivateArray, held: dict[Any, Any]) -> None:
    x.value = held["elements"]


# Making memory.


@word
def shared(shape: int | Sequence[int], dtype: object) -> Elements:
    """Memory that the threads of a threadgroup share: `metal.shared((16, 17), metal.float)`.

    Its contents are undefined until they are written.
    """
    threads_here()
    sizes, type_ = _sizes(shape, "shared"), as_type(dtype)
    with rules_as(ShapeError):
        memory = Threadgroup(prod(sizes) * type_.stride, type_.element)
    value = current().emit(metal.Alloc(memory))
    return Elements(value, "", type_, shape=sizes)


@word
def array(size: int, dtype: object, value: Operand = 0) -> PrivateArray:
    """An array of the thread's own, with a value in each element."""
    threads_here()
    (count,), type_ = _sizes(size, "array"), as_type(dtype)
    if count < 2 or type_.width > 1:
        raise error_here(ShapeError, "an array has 2 elements or more, which are scalars")
    with rules_as(ShapeError):
        return PrivateArray(spread(as_element(value, type_.element), (count,)))


def _sizes(shape: object, use: str) -> tuple[int, ...]:
    sizes = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    for size in sizes:
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise error_here(
                ShapeError,
                f"metal.{use} takes sizes that are known while tracing, not {describe(size)}; "
                + constant_advice(size),
            )
    return tuple(map(int, sizes))


# Atomics.


def _place(pointer: object, use: str) -> tuple[Elements, Traced]:
    """The memory and the number of an element: `A + i`."""
    if not isinstance(pointer, Elements):
        raise error_here(
            ArgumentError, f"metal.{use} takes an array plus an index, not {describe(pointer)}"
        )
    if pointer.type.width > 1:
        raise error_here(DTypeError, f"metal.{use} is for scalars, not for {pointer.type.name}")
    if pointer.is_const:
        message = f"{pointer.name} is declared const: it is not written to"
        raise error_here(PointerError, message)
    offset = constant(0, i32) if pointer.offset is None else pointer.offset
    return pointer, as_index(offset)


def _atomic(kind: AtomicKind, pointer: object, value: Operand) -> Traced:
    memory, offset = _place(pointer, f"atomic_{kind.value}")
    operand = spread(as_element(value, memory.dtype), ())
    if memory.dtype.is_float and kind is not AtomicKind.EXCHANGE:
        combine = _OF_FLOATS.get(kind)
        if combine is None:
            raise error_here(DTypeError, f"{kind.value} is of integers, not of {memory.dtype}")
        return retried(memory, offset, lambda old: emit(combine(old.value, operand.value)))
    with rules_as(DTypeError):
        return emit(metal.Atomic(kind, memory.base, offset.value, operand.value))


_OF_FLOATS: dict[AtomicKind, type[math.Binary]] = {
    AtomicKind.ADD: math.Add,
    AtomicKind.MAX: math.MaxNum,
    AtomicKind.MIN: math.MinNum,
}


def retried(memory: Elements, offset: Traced, combine: Callable[[Traced], Traced]) -> Traced:
    """Replace an element by a combination of it and more; try again while others interfere."""
    types = (bool_, memory.dtype)
    condition, body = Region(None, types), Region(None, types)
    with rules_as(DTypeError):
        first = emit(metal.AtomicLoad(memory.base, offset.value))
    builder = current().builder
    with builder.inside(condition):
        current().insert(control.Yield([condition.arguments[0]]))
    with builder.inside(body):
        old = Traced(body.arguments[1])
        new = combine(old)
        exchange = metal.CompareExchange(memory.base, offset.value, old.value, new.value)
        current().insert(exchange)
        failed = emit(math.Not(exchange.done))
        current().insert(control.Yield([failed.value, exchange.old]))
    start = (constant(True, bool_).value, first.value)
    loop = control.While.create(start, ((),), types, (condition, body))
    return Traced(current().insert(loop).results[1])


def _atomic_word(kind: AtomicKind, does: str) -> Callable[[Elements, Operand], Traced]:
    def atomic(pointer: Elements, value: Operand) -> Traced:
        return _atomic(kind, pointer, value)

    atomic.__name__ = atomic.__qualname__ = f"atomic_{kind.value}"
    atomic.__doc__ = (
        f"{does}, in one step: `metal.atomic_{kind.value}(A + i, x)`; gives the old one."
    )
    return word(atomic)


atomic_add = _atomic_word(AtomicKind.ADD, "Add to an element")
atomic_max = _atomic_word(AtomicKind.MAX, "Keep the greater of an element and a value")
atomic_min = _atomic_word(AtomicKind.MIN, "Keep the lesser of an element and a value")
atomic_and = _atomic_word(AtomicKind.AND, "Bitwise and into an element")
atomic_or = _atomic_word(AtomicKind.OR, "Bitwise or into an element")
atomic_xor = _atomic_word(AtomicKind.XOR, "Bitwise exclusive or into an element")
atomic_exchange = _atomic_word(AtomicKind.EXCHANGE, "Put a value in the place of an element")


@word
def atomic_load(pointer: Elements) -> Traced:
    """An element that other threads may be writing by atomics."""
    memory, offset = _place(pointer, "atomic_load")
    with rules_as(DTypeError):
        return emit(metal.AtomicLoad(memory.base, offset.value))
