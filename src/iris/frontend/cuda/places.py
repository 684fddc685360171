"""What pointers of CUDA C lead to besides arrays: a thread's own variables, structs, and memory
that is seen as of another type."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from iris.errors import DTypeError, PointerError
from iris.frontend import objects
from iris.frontend.language import bitcast
from iris.frontend.threads.memory import Elements, PrivateArray
from iris.frontend.threads.types import MetalType, as_type
from iris.frontend.tracing import current, error_here
from iris.frontend.values import Traced, as_index, cast, component, constant, emit, taken
from iris.ir import math, metal
from iris.ir.core import Value
from iris.ir.math import constant_bits
from iris.ir.metal import VECTOR_BYTES
from iris.ir.types import DType, Threadgroup, bool_, i32, u8, u16, u32, u64

# Of pointers to what has no number: no condition can choose one of two.
_INSTEAD = "use elements of one array instead, and choose an index"
_UNSIGNED = {8: u8, 16: u16, 32: u32, 64: u64}


class Cell:
    """A variable that something points to: `cell[0]` is its value."""

    __slots__ = ("value",)
    described = "a pointer to a variable"
    instead = _INSTEAD

    def __init__(self, value: Traced):
        self.value = value

    def __getitem__(self, index: Traced) -> Traced:
        _check_first(index)
        return self.value

    def __setitem__(self, index: Traced, value: Any) -> None:
        _check_first(index)
        self.value = cast(value, self.value.dtype)


@objects.items.register
def _(x: Cell) -> dict[Any, Any]:
    return {"value": x.value}


@objects.put.register
def _(x: Cell, held: dict[Any, Any]) -> None:
    x.value = held["value"]


class Struct:
    """A struct: its fields change in place."""

    __slots__ = ("fields",)
    described = "a struct"

    def __init__(self, fields: dict[str, Any]):
        self.fields = fields


@objects.items.register
def _(x: Struct) -> dict[Any, Any]:
    return dict(x.fields)


@objects.put.register
def _(x: Struct, held: dict[Any, Any]) -> None:
    x.fields.update(held)


def _check_first(index: Traced) -> None:
    if constant_bits(index.value) != 0:
        raise error_here(PointerError, "the pointer leads to one variable, not to an array")


def structure(names: str, *values: Any) -> Struct:
    return Struct(dict(zip(names.split(), values, strict=True)))


def field(struct: Struct | InMemory, name: str) -> Any:
    return struct.get(name) if isinstance(struct, InMemory) else struct.fields[name]


def set_field(struct: Struct | InMemory, name: str, value: Any) -> None:
    if isinstance(struct, InMemory):
        struct.set(name, value)
    else:
        struct.fields[name] = value


def field_place(struct: Struct | InMemory, name: str) -> Any:
    """A pointer to a field."""
    elements = struct.place(name) if isinstance(struct, InMemory) else None
    return FieldPlace(struct, name) if elements is None else elements


def copied(x: Any) -> Any:
    """A struct of its own, with what another holds."""
    if isinstance(x, Struct):
        return Struct({name: copied(value) for name, value in x.fields.items()})
    if isinstance(x, InMemory):
        return x.loaded()
    return PrivateArray(x.value) if isinstance(x, PrivateArray) else x


def fill(target: Struct | InMemory, source: Struct | InMemory) -> None:
    """Assign a struct."""
    for name, value in copied(source).fields.items():
        set_field(target, name, value)


def cell(value: Traced) -> Cell:
    return Cell(value)


class FieldPlace:
    """A pointer to a field of a struct."""

    __slots__ = ("name", "of")
    described = "a pointer to a field"

    def __init__(self, of: Struct | InMemory, name: str):
        self.of, self.name = of, name

    def __getitem__(self, index: Traced) -> Traced:
        _check_first(index)
        value: Traced = field(self.of, self.name)
        return value

    def __setitem__(self, index: Traced, value: Any) -> None:
        _check_first(index)
        set_field(self.of, self.name, value)


class PartPlace:
    """A pointer to a part of the vector that another leads to."""

    __slots__ = ("number", "of")
    described = "a pointer to a part of a vector"

    def __init__(self, of: Any, number: int):
        self.of, self.number = of, number

    def __getitem__(self, index: Traced) -> Traced:
        _check_first(index)
        return part(self.of[index], self.number)

    def __setitem__(self, index: Traced, value: Any) -> None:
        _check_first(index)
        self.of[index] = with_part(self.of[index], self.number, value)


def part(x: Traced, index: int) -> Traced:
    return taken(x, [index])


def with_part(x: Traced, index: int, value: Traced) -> Traced:
    """A vector with another part."""
    parts = [value if i == index else taken(x, [i]) for i in range(x.shape[0])]
    return emit(metal.join([one.value for one in parts]))


def part_place(of: Any, number: int) -> PartPlace:
    return PartPlace(of, number)


class Moved:
    """A pointer into a thread's own array, from an element on."""

    __slots__ = ("of", "offset")
    described = "a pointer into an array of the thread's own"
    instead = _INSTEAD

    def __init__(self, of: Any, offset: Traced):
        self.of, self.offset = of, offset

    def __getitem__(self, index: Traced) -> Traced:
        value: Traced = self.of[self.offset + as_index(index)]
        return value

    def __setitem__(self, index: Traced, value: Any) -> None:
        self.of[self.offset + as_index(index)] = value


def moved(pointer: Any, offset: Traced) -> Moved:
    if not isinstance(pointer, PrivateArray | SeenVariable | Moved):
        raise error_here(PointerError, "the pointer leads to one variable, not to an array")
    return Moved(pointer, offset)


# A branch that chooses between parts is refused, for each part is held by a key of its own.


@objects.items.register
def _(x: FieldPlace) -> dict[Any, Any]:
    return {x.name: x.of}


@objects.items.register
def _(x: PartPlace) -> dict[Any, Any]:
    return {x.number: x.of}


@objects.items.register
def _(x: Moved) -> dict[Any, Any]:
    return {"of": x.of, "offset": x.offset}


@objects.put.register
def _(x: FieldPlace, held: dict[Any, Any]) -> None:
    x.of = held[x.name]


@objects.put.register
def _(x: PartPlace, held: dict[Any, Any]) -> None:
    x.of = held[x.number]


@objects.put.register
def _(x: Moved, held: dict[Any, Any]) -> None:
    x.of, x.offset = held["of"], held["offset"]


# Seen as of another type.


def same_bits(x: Traced, element: DType) -> Traced:
    """The bits of some elements as elements of another type: the lowest ones come first."""
    if element is bool_:  # a byte, not a bit
        return same_bits(x, u8) != 0
    if x.dtype is bool_:
        x = cast(x, u8)
    old, new = x.dtype, element
    if old.bits == new.bits:
        return x if old is new else bitcast(x, new)
    count = prod(x.shape)
    parts = [taken(x, [i]) for i in range(count)] if x.shape else [x]
    bits = [bitcast(part, _UNSIGNED[old.bits]) for part in parts]
    wide, narrow = _UNSIGNED[max(old.bits, new.bits)], _UNSIGNED[min(old.bits, new.bits)]
    ratio = wide.bits // narrow.bits

    def by(number: int) -> Value:
        return constant(number * narrow.bits, wide).value

    if new.bits < old.bits:
        made = [
            cast(emit(math.Shr(part.value, by(i))), narrow) for part in bits for i in range(ratio)
        ]
    else:
        if count % ratio:
            raise error_here(PointerError, f"{count} x {old} are no whole number of {new}")
        made = []
        for first in range(0, count, ratio):
            whole = cast(bits[first], wide)
            for i in range(1, ratio):
                upper = emit(math.Shl(cast(bits[first + i], wide).value, by(i)))
                whole = emit(math.Or(whole.value, upper.value))
            made.append(whole)
    return bitcast(joined(made), new)


def joined(parts: Sequence[Traced]) -> Traced:
    return parts[0] if len(parts) == 1 else emit(metal.join([part.value for part in parts]))


class SeenElements(Elements):
    """An array whose elements are seen as of another type, of the same bits."""

    __slots__ = ()

    def at(self, offset: Traced) -> SeenElements:
        return SeenElements(self.base, self.name, self.type, is_const=self.is_const, offset=offset)

    @property
    def _held(self) -> DType:
        held: DType = self.base.type.element
        return held

    @property
    def _ratio(self) -> tuple[int, int]:
        """How many elements make one that is seen, and how many of these make an element."""
        seen, held = self.type.width * self.type.element.bytes, self._held.bytes
        if seen % held and held % seen:
            raise error_here(
                PointerError, f"elements of {self._held} are not seen as {self.type.name}"
            )
        return max(seen // held, 1), max(held // seen, 1)

    def __getitem__(self, key: object) -> Traced:  # type: ignore[override]
        number, (count, several) = self.number_of(key), self._ratio
        if several > 1:
            whole = same_bits(self._load(number // several, self._held), self.type.element)
            return component(_columns(whole, self.type.width), number % several)
        first = number * count
        if count in (1, 2, 4, 8) and count * self._held.bytes <= VECTOR_BYTES:
            return same_bits(
                self._load(first, metal.registers(count, self._held)), self.type.element
            )
        parts = [self._load(first + i, self._held) for i in range(count)]
        return same_bits(joined(parts), self.type.element)

    def __setitem__(self, key: object, value: Any) -> None:
        number, (count, several) = self.number_of(key), self._ratio
        if several > 1 or self.is_const:
            what = "const" if self.is_const else f"an array of {self._held}"
            raise error_here(
                PointerError, f"{self.name} is {what}: no {self.type.name} is written to it"
            )
        whole = same_bits(cast(value, self.type.element), self._held)
        Elements.__setitem__(
            Elements(self.base, self.name, _scalars(self._held, count)), number, whole
        )


def _scalars(element: DType, count: int) -> MetalType:
    return MetalType(str(element), element, count, count)


def _columns(x: Traced, width: int) -> Traced:
    if width > 1:
        raise error_here(PointerError, "a vector is seen only in memory of smaller elements")
    return x


class SeenVariable:
    """A thread's own variable or array, seen as an array of another type."""

    __slots__ = ("of", "type")
    described = "a pointer to a variable of another type"

    def __init__(self, of: Cell | PrivateArray, type_: MetalType):
        self.of, self.type = of, type_

    def _whole(self) -> Traced:
        return same_bits(self.of.value, self.type.element)

    def __getitem__(self, index: Traced) -> Traced:
        whole, width = self._whole(), self.type.width
        if prod(whole.shape) == width:
            _check_first(index)
            return whole
        if width == 1:
            return component(whole, index)
        at, part = as_index(index).value, metal.registers(width, whole.dtype)
        return emit(metal.Slice(whole.value, at, part))

    def __setitem__(self, index: Traced, value: Any) -> None:
        whole, width = self._whole(), self.type.width
        new = cast(value, self.type.element)
        if prod(whole.shape) == width:
            _check_first(index)
            whole = new
        else:
            first = as_index(index) * width
            for i in range(width):
                part = taken(new, [i]) if width > 1 else new
                at = first + i
                whole = emit(metal.Insert(whole.value, at.value, part.value, whole.value.type))
        self.of.value = same_bits(whole, self.of.value.dtype)


@objects.items.register
def _(x: SeenVariable) -> dict[Any, Any]:
    return {"of": x.of}


@objects.put.register
def _(x: SeenVariable, held: dict[Any, Any]) -> None:
    x.of = held["of"]


def seen_as(pointer: Any, type_: MetalType) -> Any:
    """A pointer to the same memory, of another type."""
    if isinstance(pointer, SeenVariable):
        pointer = pointer.of
    if isinstance(pointer, Cell | PrivateArray):
        size = type_.width * type_.element.bytes
        whole = prod(pointer.value.shape) * pointer.value.dtype.bytes
        if size > whole or whole % size or type_.stride != type_.width:
            raise error_here(PointerError, f"{whole} bytes are not seen as {type_.name}")
        return SeenVariable(pointer, type_)
    if isinstance(pointer, Elements):
        return SeenElements(
            pointer.base, pointer.name, type_, is_const=pointer.is_const, offset=pointer.offset
        )
    raise error_here(PointerError, "only arrays and whole variables are seen as of another type")


def copy_bytes(to: Any, source: Any, count: Traced) -> None:
    """`memcpy` of whole variables, or of as many elements of an array."""
    size = constant_bits(count.value)
    wide = size // 4 if size is not None else 0
    if size is None or size % 4 or not wide:
        raise error_here(DTypeError, "memcpy copies a number of bytes that is known, by fours")
    words = [seen_as(x, _scalars(u32, 1)) for x in (to, source)]
    for x in (to, source):
        if isinstance(x, Cell | PrivateArray):
            held = prod(x.value.shape) * x.value.dtype.bytes
            if held != size:
                raise error_here(DTypeError, f"memcpy copies whole variables: {held} bytes")
    numbers = [constant(i, i32) for i in range(wide)]
    values = [words[1][number] for number in numbers]
    if isinstance(to, Cell | PrivateArray):
        to.value = same_bits(joined(values), to.value.dtype)
        return
    for number, value in zip(numbers, values, strict=True):
        words[0][number] = value


# Structs in memory.


class Records:
    """A pointer to structs in memory, each with a layout: for each field its name, how many bytes
    it begins after the struct's start, the word for its elements, and the size of an array, 0 for
    others.  In place of a word a struct within has its own layout."""

    __slots__ = ("layout", "memory", "number", "size")

    def __init__(self, memory: Elements, layout: Any, size: int, number: Traced):
        self.memory, self.layout, self.size, self.number = memory, layout, size, number

    def moved(self, by: Traced) -> Records:
        return Records(self.memory, self.layout, self.size, self.number + by)


class InMemory:
    """A struct in memory: some bytes after its start is a part of one of them."""

    __slots__ = ("layout", "of", "start")

    def __init__(self, of: Records, start: int, layout: Any):
        self.of, self.start, self.layout = of, start, layout

    def _field(self, name: str) -> Any:
        return next(one for one in self.layout if one[0] == name)

    def _pointer(self, start: int, type_: MetalType) -> Elements:
        """Its elements from one on, as scalars."""
        scalars = as_type(type_.element)
        bytes_, found = self.start + start, self.of
        first = found.number * (found.size // scalars.element.bytes)
        whole: Elements = scalars_of(found.memory, scalars)
        return whole + (first + bytes_ // scalars.element.bytes)  # type: ignore[return-value]

    def get(self, name: str) -> Any:
        _, start, word, count = self._field(name)
        if not isinstance(word, str):
            return InMemory(self.of, self.start + start, word)
        type_ = as_type(word)
        pointer = self._pointer(start, type_)
        if count:
            return pointer
        return joined([pointer[constant(i, i32)] for i in range(type_.width)])

    def place(self, name: str) -> Elements | None:
        """A field as an element; None for a vector, which is several."""
        _, start, word, _ = self._field(name)
        type_ = as_type(word)
        return self._pointer(start, type_) if type_.width == 1 else None

    def set(self, name: str, value: Any) -> None:
        _, start, word, count = self._field(name)
        if not isinstance(word, str):
            fill(InMemory(self.of, self.start + start, word), value)
            return
        type_ = as_type(word)
        pointer, parts = self._pointer(start, type_), count or type_.width
        new = value.value if isinstance(value, PrivateArray) else cast(value, type_.element)
        for i in range(parts):
            pointer[constant(i, i32)] = taken(new, [i]) if parts > 1 else new

    def loaded(self) -> Struct:
        """A struct of its own, with the same fields."""
        fields = {}
        for name, start, word, count in self.layout:
            value = self.get(name)
            if isinstance(value, InMemory):
                value = value.loaded()
            elif count:
                pointer = self._pointer(start, as_type(word))
                value = PrivateArray(joined([pointer[constant(i, i32)] for i in range(count)]))
            fields[name] = value
        return Struct(fields)


def scalars_of(memory: Elements, scalars: MetalType) -> Elements:
    if memory.type.element is scalars.element:
        return memory
    if isinstance(memory.base.type, Threadgroup):
        part = Threadgroup(memory.base.type.bytes // scalars.element.bytes, scalars.element)
        view = current().emit(metal.View(0, memory.base, part))
        return Elements(view, memory.name, scalars, is_const=memory.is_const)
    seen: Elements = seen_as(memory, scalars)
    return seen


def as_records(pointer: Any, layout: Any, size: int) -> Any:
    """A pointer to structs."""
    if not isinstance(pointer, Elements):
        return pointer
    number = constant(0, i32)
    if pointer.offset is not None:
        at = pointer.offset * (pointer.type.stride * pointer.type.element.bytes)
        current().insert(metal.Assert("the pointer leads into a struct", (at % size == 0).value))
        number = at // size
    memory = Elements(pointer.base, pointer.name, pointer.type, is_const=pointer.is_const)
    return Records(memory, layout, size, number)


def record(pointer: Any, index: Traced) -> Any:
    """The struct that a pointer leads to."""
    if isinstance(pointer, Records):
        return InMemory(pointer.moved(as_index(index)), 0, pointer.layout)
    _check_first(index)
    return pointer
