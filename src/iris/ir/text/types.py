"""Reading types and layouts.  Each prints itself (`str`), in the form that is read here."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from iris.ir.layout.cute import Layout
from iris.ir.layout.linear import LinearLayout
from iris.ir.layout.swizzle import Swizzle, Swizzled
from iris.ir.types import (
    DTYPES,
    MAX_SIZE,
    DType,
    Ptr,
    Registers,
    Staged,
    Tensor,
    Tile,
    Type,
)

if TYPE_CHECKING:
    from iris.ir.text.cursor import Cursor

DEEPEST_LAYOUT = 16


def read_type(cursor: Cursor) -> Type:
    """The type under the cursor: `f32`, `tile<64x32xf16>`."""
    scalar = DTYPES.get(cursor.text)
    if scalar is not None:
        cursor.advance()
        return scalar
    if cursor.text not in _READERS:
        what = f"a type: a dtype, or {', '.join(f'{k}<...>' for k in _READERS)}"
        cursor.fail(what, (*DTYPES, *_READERS))
    offset = cursor.offset
    reader = _READERS[cursor.advance()]
    cursor.expect("<")
    parts = reader(cursor)
    cursor.expect(">")
    cls, *arguments = parts
    made: Type = cursor.build(lambda: cls(*arguments), offset)
    return made


def _dtype(cursor: Cursor) -> DType:
    return cursor.one_of(DTYPES, f"a dtype: {', '.join(DTYPES)}")


def _shaped(cursor: Cursor) -> tuple[tuple[int, ...], DType]:
    """`64x32xf16`."""
    if cursor.kind != "shaped":
        cursor.fail("sizes and a dtype, such as 64x32xf16")
    sizes, name = _SHAPED.fullmatch(cursor.text).groups()
    if name not in DTYPES:
        known = max((len(d) for d in DTYPES if name.startswith(d)), default=0)
        raise cursor.error_at(
            cursor.offset + len(sizes) + known,
            f"no dtype is called {name!r}; there are {', '.join(DTYPES)}",
        )
    shape = _sizes(cursor, sizes[:-1], 0)
    cursor.advance()
    return shape, DTYPES[name]


def _sizes(cursor: Cursor, text: str, least: int) -> tuple[int, ...]:
    """The sizes that the token under the cursor starts with."""
    offset = cursor.offset
    shape = []
    for size in text.split("x"):
        if len(size) > 10 or not least <= int(size) <= MAX_SIZE:
            raise cursor.error_at(offset, f"a size goes from {least} to {MAX_SIZE}, not {size[:20]}")
        offset += len(size) + 1
        shape.append(int(size))
    return tuple(shape)


def _read_ptr(cursor: Cursor) -> list[Any]:
    element = _dtype(cursor)
    noalias = cursor.accept(",")
    if noalias:
        cursor.expect("noalias")
    return [Ptr, element, noalias]


def _read_tile(cursor: Cursor) -> list[Any]:
    offset = cursor.offset
    shape, element = _shaped(cursor)
    cursor.build(lambda: Tile(shape, element), offset)
    if not cursor.accept(","):
        return [Tile, shape, element]
    offset = cursor.offset
    layout = read_linear(cursor)
    cursor.build(lambda: Tile(shape, element, layout), offset)
    return [Tile, shape, element, layout]


def _read_tensor(cursor: Cursor) -> list[Any]:
    if cursor.kind == "shaped":
        return [Tensor, *_shaped(cursor)]
    return [Tensor, (), _dtype(cursor)]


def _read_registers(cursor: Cursor) -> list[Any]:
    offset = cursor.offset
    shape, element = _shaped(cursor)
    if len(shape) != 1:
        raise cursor.error_at(offset, "a register array has one size, such as regs<16xf32>")
    return [Registers, shape[0], element]


def _read_staged(cursor: Cursor) -> list[Any]:
    shape, element = _shaped(cursor)
    cursor.expect(",")
    offset = cursor.offset
    layout = read_memory_layout(cursor)
    cursor.build(lambda: Staged(shape, element, layout), offset)
    return [Staged, shape, element, layout]


_READERS: dict[str, Callable[[Cursor], list[Any]]] = {
    "ptr": _read_ptr,
    "tile": _read_tile,
    "tensor": _read_tensor,
    "regs": _read_registers,
    "staged": _read_staged,
}


def read_linear(cursor: Cursor) -> LinearLayout:
    """`linear<8x8, register=[(0,1)], lane=[(0,2), (1,0), (2,0), (0,4), (4,0)]>`."""
    start = cursor.offset
    if not cursor.at("linear"):
        cursor.fail("a layout, such as linear<128, register=[1, 2], lane=[4, 8, 16, 32, 64]>")
    cursor.advance()
    cursor.expect("<")
    shape = _plain_shape(cursor)
    bases: list[tuple[str, tuple[tuple[int, ...], ...]]] = []

    def basis() -> tuple[int, ...]:
        offset = cursor.offset
        if cursor.at("("):
            index = tuple(cursor.listed("(", ")", lambda: cursor.integer(0, MAX_SIZE)))
        else:
            index = (cursor.integer(0, MAX_SIZE),)
        if len(index) != len(shape):
            raise cursor.error_at(offset, f"a basis has {len(shape)} coordinates here")
        # Said of this one basis, a mistake in it is found where it stands.
        cursor.build(lambda: LinearLayout((("register", (index,)),), shape), offset)
        return index

    while cursor.accept(","):
        offset = cursor.offset
        dim = cursor.take("word", "a hardware dimension, such as lane")
        if any(dim == name for name, _ in bases):
            raise cursor.error_at(offset, f"the dimension {dim!r} stands twice")
        cursor.expect("=")
        bases.append((dim, tuple(cursor.listed("[", "]", basis))))
    cursor.expect(">")
    return cursor.build(lambda: LinearLayout(tuple(bases), shape), start)


def _plain_shape(cursor: Cursor) -> tuple[int, ...]:
    """`128` or `8x8`."""
    if cursor.kind not in ("number", "sizes"):
        cursor.fail("the layout's sizes, such as 8x8")
    for size in cursor.text.split("x"):
        if not size.isdigit() or len(size) > 10 or not 1 <= int(size) <= MAX_SIZE:
            raise cursor.error(f"a size goes from 1 to {MAX_SIZE}, not {size}")
    return tuple(map(int, cursor.advance().split("x")))


def read_memory_layout(cursor: Cursor) -> Layout | Swizzled:
    """`(64,32):(1,64)`, maybe after a swizzle: `swizzle<2,3,3> (64,32):(32,1)`."""
    swizzle = _read_swizzle(cursor) if cursor.at("swizzle") else None
    start = cursor.offset
    shape = _int_tuple(cursor, 1, DEEPEST_LAYOUT)
    cursor.expect(":")
    stride_start = cursor.offset
    stride = _int_tuple(cursor, 0, DEEPEST_LAYOUT)
    layout = cursor.build(lambda: Layout(shape, stride), stride_start)
    if swizzle is None:
        return layout
    return cursor.build(lambda: Swizzled(swizzle, layout), start)


def _read_swizzle(cursor: Cursor) -> Swizzle:
    cursor.advance()
    start = cursor.offset
    numbers = cursor.listed("<", ">", lambda: cursor.integer(-30, 30))
    if len(numbers) != 3:
        raise cursor.error_at(start, "a swizzle has three numbers: bits, base and shift")
    bits, base, shift = numbers
    return cursor.build(lambda: Swizzle(bits, base, shift), start)


def _int_tuple(cursor: Cursor, least: int, depth: int) -> Any:
    if not cursor.at("("):
        return cursor.integer(least, MAX_SIZE)
    if depth == 0:
        raise cursor.error(f"layouts nest at most {DEEPEST_LAYOUT} deep")
    return tuple(cursor.listed("(", ")", lambda: _int_tuple(cursor, least, depth - 1)))
