"""Reading types and layouts.  Each prints itself (`str`), in the form that is read here."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

from iris.ir.layout.cute import Layout
from iris.ir.layout.linear import LinearLayout
from iris.ir.layout.swizzle import Swizzle, Swizzled
from iris.ir.text.cursor import Cursor
from iris.ir.types import (
    DTYPES,
    MAX_SIZE,
    DType,
    Ptr,
    Registers,
    Staged,
    Tensor,
    Threadgroup,
    Tile,
    Type,
    bool_,
)

DEEPEST_LAYOUT = 16
LONGEST_SIZE = 10  # digits
POINTER_FACTS = "noalias", "aligned"
# Most types are of so many tokens, as `tile<64x32xf16>`: those that were read, kept like all types.
_SHORT = 4
_KNOWN: dict[tuple[str, ...], Type] = {}


def at_type(token: str) -> bool:
    """Whether a type may start with a token."""
    return token in DTYPES or token in READERS


def read_type(cursor: Cursor) -> Type:
    """The type under the cursor: `f32`, `tile<64x32xf16>`."""
    scalar = DTYPES.get(cursor.text)
    if scalar is not None:
        cursor.advance()
        return scalar
    words = cursor.ahead(_SHORT)
    known = _KNOWN.get(words)
    if known is not None:
        cursor.skip(_SHORT)
        return known
    start = cursor.mark
    if cursor.text not in READERS:
        what = f"a type: a dtype, or {', '.join(f'{k}<...>' for k in READERS)}"
        cursor.fail(what, (*DTYPES, *READERS))
    read = READERS[cursor.advance()]
    cursor.expect("<")
    type_ = read(cursor)
    cursor.expect(">")
    if cursor.mark == start + _SHORT:
        _KNOWN[words] = type_
    return type_


def _dtype(cursor: Cursor) -> DType:
    return cursor.one_of(DTYPES, f"a dtype: {', '.join(DTYPES)}")


def _shaped(
    cursor: Cursor, make: Callable[[tuple[int, ...], DType], Type] = Tile
) -> tuple[tuple[int, ...], DType]:
    """`64x32xf16`, of which `make` makes a type."""
    start = cursor.mark
    if cursor.kind in ("number", "sizes"):
        end = cursor.offset + len(cursor.text)
        end += cursor.source.startswith("x", end)
        raise cursor.error_at(end, "expected x and a dtype after the sizes, such as 64x32xf16")
    if cursor.kind != "shaped":
        cursor.fail("sizes and a dtype, such as 64x32xf16")
    sizes, name = re.split("x(?=[A-Za-z])", cursor.text, maxsplit=1)
    element = DTYPES.get(name)
    if element is None:
        known = max((len(d) for d in DTYPES if name.startswith(d)), default=0)
        raise cursor.error_at(
            cursor.offset + len(sizes) + 1 + known,
            f"no dtype is called {name!r}; there are {', '.join(DTYPES)}",
        )
    shape = _sizes(cursor, sizes, lambda size: make((size,), element))
    cursor.build(lambda: make(shape, element), start)
    cursor.advance()
    return shape, element


def _sizes(cursor: Cursor, text: str, check: Callable[[int], object]) -> tuple[int, ...]:
    """The sizes that the token under the cursor starts with.  Each is checked alone, for a
    mistake to be found where it stands."""
    within = 0
    shape: list[int] = []
    for digits in text.split("x"):
        if len(digits) > LONGEST_SIZE:
            raise cursor.error_at(cursor.offset + within, f"sizes go up to {MAX_SIZE}")
        size = int(digits)
        cursor.build(partial(check, size), cursor.mark, within)
        shape.append(size)
        within += len(digits) + 1
    return tuple(shape)


def _read_ptr(cursor: Cursor) -> Type:
    element = _dtype(cursor)
    facts = dict.fromkeys(POINTER_FACTS, False)
    while cursor.accept(","):
        left = [fact for fact, stated in facts.items() if not stated]
        facts[cursor.one_of({fact: fact for fact in left}, " or ".join(left) or "nothing")] = True
    return Ptr(element, **facts)


def _read_tile(cursor: Cursor) -> Type:
    shape, element = _shaped(cursor)
    if not cursor.accept(","):
        return Tile(shape, element)
    mark = cursor.mark
    layout = read_linear(cursor)
    return cursor.build(lambda: Tile(shape, element, layout), mark)


def _read_tensor(cursor: Cursor) -> Type:
    if cursor.kind in ("number", "sizes", "shaped"):
        return Tensor(*_shaped(cursor, Tensor))
    return Tensor((), _dtype(cursor))


def _read_array(
    make: Callable[[tuple[int, ...], DType], Type], most: int, what: str
) -> Callable[[Cursor], Type]:
    """What reads a type of few sizes."""

    def read(cursor: Cursor) -> Type:
        mark = cursor.mark
        shape, element = _shaped(cursor, make)
        if len(shape) > most:
            within = sum([len(str(size)) + 1 for size in shape[:most]])
            raise cursor.error_at(cursor.offset_at(mark) + within, what)
        return make(shape, element)

    return read


def _registers(shape: tuple[int, ...], element: DType) -> Registers:
    return Registers(prod(shape[:2]), element, *shape[1:2])


def _threadgroup(shape: tuple[int, ...], element: DType) -> Threadgroup:
    return Threadgroup(shape[0], element)


def _read_staged(cursor: Cursor) -> Type:
    shape, element = _shaped(cursor)
    cursor.expect(",")
    mark = cursor.mark
    layout = read_memory_layout(cursor)
    return cursor.build(lambda: Staged(shape, element, layout), mark)


READERS: dict[str, Callable[[Cursor], Type]] = {
    "ptr": _read_ptr,
    "tile": _read_tile,
    "tensor": _read_tensor,
    "regs": _read_array(
        _registers, 2, "a register array has one size or two, such as regs<16xf32> or regs<8x2xf32>"
    ),
    "staged": _read_staged,
    "threadgroup": _read_array(
        _threadgroup, 1, "a threadgroup array has one size, such as threadgroup<64xf32>"
    ),
}


def read_linear(cursor: Cursor) -> LinearLayout:
    """`linear<8x8, register=[(0,1)], lane=[(0,2), (1,0), (2,0), (0,4), (4,0)]>`."""
    start = cursor.mark
    if not cursor.at("linear"):
        example = "linear<128, register=[1, 2], lane=[4, 8, 16, 32, 64], simdgroup=[]>"
        cursor.fail(f"a layout, such as {example}", ("linear",))
    cursor.advance()
    cursor.expect("<")
    shape = _plain_shape(cursor)
    bases: list[tuple[str, tuple[tuple[int, ...], ...]]] = []

    highest = [size - 1 for size in shape]

    def basis() -> tuple[int, ...]:
        if cursor.at("("):
            return _listed(cursor, "(", ")", 0, highest)
        if len(shape) > 1:
            cursor.fail(f"a basis of {len(shape)} coordinates, in parentheses")
        return (cursor.integer(0, highest[0]),)

    while cursor.accept(","):
        mark = cursor.mark
        dim = cursor.take("word", "a hardware dimension, such as lane")
        if any(dim == name for name, _ in bases):
            raise cursor.error_at(cursor.offset_at(mark), f"the dimension {dim!r} stands twice")
        cursor.expect("=")
        bases.append((dim, tuple(cursor.listed("[", "]", basis))))
    cursor.expect(">")
    return cursor.build(lambda: LinearLayout(tuple(bases), shape), start)


def _listed(
    cursor: Cursor, opening: str, closing: str, least: int, highest: Sequence[int]
) -> tuple[int, ...]:
    """Integers between brackets, for each of which the highest that it may be is given."""
    cursor.expect(opening)
    numbers = []
    for position, most in enumerate(highest):
        if position:
            cursor.expect(",")
        numbers.append(cursor.integer(least, most))
    cursor.expect(closing)
    return tuple(numbers)


def _plain_shape(cursor: Cursor) -> tuple[int, ...]:
    """`128` or `8x8`."""
    if cursor.kind not in ("number", "sizes") or not cursor.text.replace("x", "").isdigit():
        cursor.fail("the layout's sizes, such as 8x8")
    shape = _sizes(cursor, cursor.text, lambda size: Tile((size,), bool_))
    cursor.advance()
    return shape


def read_memory_layout(cursor: Cursor) -> Layout | Swizzled:
    """`(64,32):(1,64)`, maybe after a swizzle: `swizzle<2,3,3> (64,32):(32,1)`."""
    swizzle = _read_swizzle(cursor) if cursor.at("swizzle") else None
    start = cursor.mark
    shape = _int_tuple(cursor, 1, DEEPEST_LAYOUT)
    cursor.expect(":")
    stride_start = cursor.mark
    stride = _int_tuple(cursor, 0, DEEPEST_LAYOUT)
    layout = cursor.build(lambda: Layout(shape, stride), stride_start)
    if swizzle is None:
        return layout
    return cursor.build(lambda: Swizzled(swizzle, layout), start)


def _read_swizzle(cursor: Cursor) -> Swizzle:
    cursor.advance()
    start = cursor.mark
    bits, base, shift = _listed(cursor, "<", ">", -30, (30, 30, 30))
    return cursor.build(lambda: Swizzle(bits, base, shift), start)


def _int_tuple(cursor: Cursor, least: int, depth: int) -> Any:
    if not cursor.at("("):
        return cursor.integer(least, MAX_SIZE)
    if depth == 0:
        raise cursor.error(f"layouts nest at most {DEEPEST_LAYOUT} deep")
    return tuple(cursor.listed("(", ")", lambda: _int_tuple(cursor, least, depth - 1)))
