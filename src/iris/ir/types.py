"""Types: frozen, interned values, so that `is` compares them.

    f32   ptr<f32>   ptr<f32, noalias>   tile<64x32xf16>   tile<8x8xf32, linear<...>>
    tensor<3x5xf32>   regs<16xf32>   regs<8x2xf32>   staged<64x32xf16, (64,32):(1,64)>
    threadgroup<64xf32>

Every type that the shared math works on (scalars, tiles, tensors, register arrays) has an
`element`, a `shape` and `with_element`, so that an elementwise rule never asks which it is.
"""

from __future__ import annotations

from enum import Enum
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from iris.errors import TypeMistake

if TYPE_CHECKING:
    from iris.ir.layout.cute import IntTuple, Layout
    from iris.ir.layout.linear import LinearLayout
    from iris.ir.layout.swizzle import Swizzled

T = TypeVar("T", bound="Type")

MAX_RANK = 5  # dimensions of a tile
MAX_TILE = 2**20  # elements of a tile: a thread of 32 simdgroups has 1024 of them
MAX_TENSOR = 2**48  # elements: more than any memory has, and few enough to count in 64 bits
MAX_SIZE = 2**31 - 1  # offsets are at most this far apart in the 32-bit index space
MOST_LANES = 16  # elements that one variable holds: 16 bytes of the smallest


class Type:
    """The base of all types, each of elements of a dtype.  Equal types are the same object."""

    __slots__ = ("_arguments",)
    element: DType
    _arguments: tuple[Any, ...]
    _known: ClassVar[dict[tuple[Any, ...], Type]] = {}

    def __repr__(self) -> str:
        return type_text(self)

    def _write(self) -> str:
        """The text of the type."""
        raise NotImplementedError

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._arguments

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen")


@cache
def type_text(type_: Type) -> str:
    """The text of a type, written when it is first asked for: few are."""
    return type_._write()


def _intern(cls: type[T], arguments: tuple[Any, ...], **slots: object) -> T:
    new = object.__new__(cls)
    object.__setattr__(new, "_arguments", arguments)
    for name, value in slots.items():
        object.__setattr__(new, name, value)
    key = (cls, *arguments)
    Type._known[key] = new
    return new


class Kind(Enum):
    BOOL = "bool"
    SIGNED = "signed"
    UNSIGNED = "unsigned"
    FLOAT = "float"


class ElementType(Type):
    """A type the shared math applies to, element by element."""

    __slots__ = ("element", "shape")
    shape: tuple[int, ...]

    def with_element(self, element: DType) -> ElementType:
        """The same shape of another dtype."""
        raise NotImplementedError


class DType(ElementType):
    """A scalar: bool, i8 to i64, u8 to u64, f16, bf16, f32."""

    __slots__ = (
        "bits",
        "bytes",
        "high",
        "is_float",
        "is_integer",
        "is_signed",
        "kind",
        "low",
        "name",
    )
    name: str
    kind: Kind
    bits: int
    bytes: int  # the size of an element in memory; a bool takes one byte
    is_float: bool
    is_integer: bool
    is_signed: bool
    low: int  # the least integer it holds
    high: int  # and the greatest

    def __new__(cls, name: str) -> DType:
        try:
            return DTYPES[name]
        except KeyError:
            known = ", ".join(DTYPES)
            raise TypeMistake(f"no dtype is called {name!r}; there are {known}") from None

    @property
    def unsigned(self) -> DType:
        """The unsigned integer of its width in memory."""
        return DTYPES[f"u{8 * self.bytes}"]

    def with_element(self, element: DType) -> DType:
        return element

    def _write(self) -> str:
        return self.name


DTYPES: dict[str, DType] = {}


def _dtype(name: str, kind: Kind, bits: int) -> DType:
    is_signed = kind is Kind.SIGNED
    new = _intern(
        DType,
        (name,),
        name=name,
        kind=kind,
        bits=bits,
        bytes=max(1, bits // 8),
        is_float=kind is Kind.FLOAT,
        is_integer=is_signed or kind is Kind.UNSIGNED,
        is_signed=is_signed,
        low=-(1 << (bits - 1)) if is_signed else 0,
        high=(1 << (bits - is_signed)) - 1,
        shape=(),
    )
    object.__setattr__(new, "element", new)
    DTYPES[name] = new
    return new


bool_ = _dtype("bool", Kind.BOOL, 1)
i8, i16, i32, i64 = (_dtype(f"i{n}", Kind.SIGNED, n) for n in (8, 16, 32, 64))
u8, u16, u32, u64 = (_dtype(f"u{n}", Kind.UNSIGNED, n) for n in (8, 16, 32, 64))
f16 = _dtype("f16", Kind.FLOAT, 16)
bf16 = _dtype("bf16", Kind.FLOAT, 16)
f32 = _dtype("f32", Kind.FLOAT, 32)


class Ptr(Type):
    """The address of elements.

    `noalias`: no other pointer reaches what this one reaches.  `aligned`: it is a multiple of 16
    bytes.
    """

    __slots__ = ("aligned", "element", "noalias")
    noalias: bool
    aligned: bool

    def __new__(cls, element: DType, noalias: bool = False, aligned: bool = False) -> Ptr:
        known = Type._known.get((cls, element, noalias, aligned))
        if known is not None:
            return known  # type: ignore[return-value]
        arguments = (element, noalias, aligned)
        return _intern(cls, arguments, element=element, noalias=noalias, aligned=aligned)

    def _write(self) -> str:
        facts = ", noalias" * self.noalias + ", aligned" * self.aligned
        return f"ptr<{self.element}{facts}>"


def _shaped(shape: tuple[int, ...], element: DType) -> str:
    return "x".join([*map(str, shape), element.name])


def _check_sizes(what: str, shape: tuple[int, ...], least: int) -> None:
    for size in shape:
        if not least <= size <= MAX_SIZE:
            raise TypeMistake(f"a {what} has no size {size}; sizes go from {least} to {MAX_SIZE}")


def _check_tile(what: str, shape: tuple[int, ...]) -> None:
    if not 1 <= len(shape) <= MAX_RANK:
        raise TypeMistake(f"a {what} has 1 to {MAX_RANK} dimensions, not {len(shape)}")
    _check_sizes(what, shape, 1)
    for size in shape:
        if size & (size - 1):
            raise TypeMistake(f"a {what}'s sizes are powers of two; {size} is not")
    _check_count(what, shape, MAX_TILE)


def _check_count(what: str, shape: tuple[int, ...], most: int) -> None:
    if prod(shape) > most:
        raise TypeMistake(f"a {what} has at most {most} elements, not {prod(shape)}")


def _count(tree: IntTuple) -> int:
    return tree if isinstance(tree, int) else prod(map(_count, tree))


class Tile(ElementType):
    """A program's tile; once layouts are assigned, who holds which element of it."""

    __slots__ = ("layout",)
    layout: LinearLayout | None

    def __new__(
        cls, shape: tuple[int, ...], element: DType, layout: LinearLayout | None = None
    ) -> Tile:
        known = Type._known.get((cls, shape, element, layout))
        if known is not None:
            return known  # type: ignore[return-value]
        _check_tile("tile", shape)
        if layout is not None and layout.shape != shape:
            have = "x".join(map(str, layout.shape))
            raise TypeMistake(
                f"a layout of {have} elements cannot lay out {_shaped(shape, element)}"
            )
        if layout is not None and not layout.is_surjective:
            raise TypeMistake(f"{layout} does not hold every element")
        return _intern(cls, (shape, element, layout), element=element, shape=shape, layout=layout)

    def with_element(self, element: DType) -> Tile:
        return Tile(self.shape, element, self.layout)

    def _write(self) -> str:
        suffix = f", {self.layout}" if self.layout is not None else ""
        return f"tile<{_shaped(self.shape, self.element)}{suffix}>"


class Tensor(ElementType):
    """A whole array of static shape; rank 0 and sizes of 0 are allowed."""

    __slots__ = ()

    def __new__(cls, shape: tuple[int, ...], element: DType) -> Tensor:
        known = Type._known.get((cls, shape, element))
        if known is not None:
            return known  # type: ignore[return-value]
        _check_sizes("tensor", shape, 0)
        _check_count("tensor", shape, MAX_TENSOR)
        return _intern(cls, (shape, element), element=element, shape=shape)

    def with_element(self, element: DType) -> Tensor:
        return Tensor(self.shape, element)

    def _write(self) -> str:
        return f"tensor<{_shaped(self.shape, self.element)}>"


class Registers(ElementType):
    """One thread's array of registers.

    `lanes`, once it is chosen: how many elements one variable holds.  `regs<8x2xf32>` is 16
    elements in 8 variables of 2 lanes.
    """

    __slots__ = ("lanes",)
    lanes: int | None

    def __new__(cls, count: int, element: DType, lanes: int | None = None) -> Registers:
        known = Type._known.get((cls, count, element, lanes))
        if known is not None:
            return known  # type: ignore[return-value]
        _check_sizes("register array", (count,), 1)
        if lanes is not None:
            if lanes not in (1, 2, 4, 8, MOST_LANES):
                raise TypeMistake(f"a variable has 1, 2, 4, 8 or {MOST_LANES} lanes, not {lanes}")
            if count % lanes:
                raise TypeMistake(f"variables of {lanes} lanes do not hold {count} elements")
        return _intern(cls, (count, element, lanes), element=element, shape=(count,), lanes=lanes)

    def with_element(self, element: DType) -> Registers:
        return Registers(self.shape[0], element, self.lanes)

    def _write(self) -> str:
        (count,), lanes = self.shape, self.lanes
        shape = (count,) if lanes is None else (count // lanes, lanes)
        return f"regs<{_shaped(shape, self.element)}>"


class Staged(Type):
    """A tile in threadgroup memory, and where in it each element lies."""

    __slots__ = ("element", "layout", "shape")
    shape: tuple[int, ...]
    layout: Layout | Swizzled

    def __new__(cls, shape: tuple[int, ...], element: DType, layout: Layout | Swizzled) -> Staged:
        known = Type._known.get((cls, shape, element, layout))
        if known is not None:
            return known  # type: ignore[return-value]
        _check_tile("staged tile", shape)
        modes = layout.shape if isinstance(layout.shape, tuple) else (layout.shape,)
        if tuple(map(_count, modes)) != shape:
            raise TypeMistake(
                f"the memory layout {layout} is not one of {_shaped(shape, element)}: "
                "it needs one mode per dimension, of the same size"
            )
        return _intern(cls, (shape, element, layout), element=element, shape=shape, layout=layout)

    def _write(self) -> str:
        return f"staged<{_shaped(self.shape, self.element)}, {self.layout}>"


class Threadgroup(Type):
    """Memory of a threadgroup, for a number of elements."""

    __slots__ = ("count", "element")
    count: int

    def __new__(cls, count: int, element: DType) -> Threadgroup:
        known = Type._known.get((cls, count, element))
        if known is not None:
            return known  # type: ignore[return-value]
        _check_sizes("threadgroup array", (count,), 1)
        return _intern(cls, (count, element), count=count, element=element)

    @property
    def bytes(self) -> int:
        return self.count * self.element.bytes

    def _write(self) -> str:
        return f"threadgroup<{self.count}x{self.element}>"
