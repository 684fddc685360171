"""Tile IR: what one program instance does with whole tiles, no threads in sight."""

from __future__ import annotations

from iris.ir.attributes import Integer
from iris.ir.core import Level, Op, Value
from iris.ir.declare import (
    BOOLEANS,
    ELEMENTS,
    INTEGERS,
    POINTER,
    STAGED,
    attribute,
    operand,
    optional,
    result,
)
from iris.ir.effects import Access
from iris.ir.math import element_type
from iris.ir.types import Ptr, Staged, Tile, Type, bool_, i32


class TileOp(Op):
    level = Level.TILE


class ProgramId(TileOp):
    """Which program this is, along an axis of the grid.

    %row: i32 = tile.program_id 0
    """

    name = "tile.program_id"
    axis: int = attribute(Integer(0, 2))
    result: Value = result()

    def infer(self) -> tuple[Type, ...]:
        return (i32,)


class Arange(TileOp):
    """The integers from `start` on, as many as the tile has elements.

    %cols: tile<64xi32> = tile.arange 0
    """

    name = "tile.arange"
    start: int = attribute(Integer(-(2**31), 2**31 - 1))
    result: Value = result(INTEGERS)

    def check(self) -> None:
        type_ = self.results[0].type
        if not isinstance(type_, Tile) or len(type_.shape) != 1:
            raise self.invalid(f"the result is a tile of one dimension, not {type_}", at="result")
        last = self.start + type_.shape[0] - 1
        if self.start < type_.element.low or last > type_.element.high:
            raise self.invalid(f"{self.start} to {last} do not fit {type_.element}", at="start")


class Broadcast(TileOp):
    """A scalar, or a tile with sizes of 1, spread over a larger tile.

    %rows: tile<64x32xf32> = tile.broadcast %column
    """

    name = "tile.broadcast"
    x: Value = operand(ELEMENTS)
    result: Value = result(ELEMENTS)

    def check(self) -> None:
        source, target = element_type(self.x.type), element_type(self.result.type)
        if source.element is not target.element:
            raise self.invalid(f"{source} and {target} differ in dtype", at="result")
        fits = not source.shape or (
            len(source.shape) == len(target.shape)
            and all(s in (1, t) for s, t in zip(source.shape, target.shape, strict=True))
        )
        if not isinstance(target, Tile) or not fits:
            raise self.invalid(f"{source} does not spread over {target}", at="result")


class Load(TileOp):
    """Elements of an array; a masked lane touches no memory and yields `other`.

    %x: tile<64xf32> = tile.load %X, %offsets, mask=%inside, other=%zero
    """

    name = "tile.load"
    base: Value = operand(POINTER, access=Access.READ)
    offset: Value = operand(INTEGERS)
    mask: Value | None = optional(BOOLEANS)
    other: Value | None = optional(ELEMENTS)
    result: Value = result()

    def infer(self) -> tuple[Type, ...]:
        type_ = _accessed(self)
        if self.other is not None and self.other.type is not type_:
            raise self.invalid(f"other is {self.other.type}, but {type_} is loaded", at="other")
        return (type_,)


class Store(TileOp):
    """Writes elements of an array; a masked lane writes nothing.

    tile.store %X, %offsets, %x, mask=%inside
    """

    name = "tile.store"
    base: Value = operand(POINTER, access=Access.WRITE)
    offset: Value = operand(INTEGERS)
    value: Value = operand(ELEMENTS)
    mask: Value | None = optional(BOOLEANS)

    def infer(self) -> tuple[Type, ...]:
        type_ = _accessed(self)
        if self.value.type is not type_:
            raise self.invalid(f"{self.value.type} is stored where {type_} goes", at="value")
        return ()


class ConvertLayout(TileOp):
    """The same tile, held by other registers, lanes and simdgroups."""

    name = "tile.convert_layout"
    x: Value = operand(ELEMENTS)
    result: Value = result(ELEMENTS)

    def check(self) -> None:
        source, target = self.x.type, self.result.type
        if (
            not isinstance(source, Tile)
            or not isinstance(target, Tile)
            or (source.shape, source.element) != (target.shape, target.element)
        ):
            raise self.invalid(f"{source} and {target} differ in more than layout", at="result")


class Stage(TileOp):
    """Puts a tile into threadgroup memory."""

    name = "tile.stage"
    x: Value = operand(ELEMENTS)
    result: Value = result(STAGED, access=Access.ALLOCATE)

    def check(self) -> None:
        _check_staged(self, self.x.type, self.result.type, "result")


class Unstage(TileOp):
    """Reads a tile from threadgroup memory."""

    name = "tile.unstage"
    x: Value = operand(STAGED, access=Access.READ)
    result: Value = result(ELEMENTS)

    def check(self) -> None:
        _check_staged(self, self.result.type, self.x.type, "result")


def _accessed(op: Load | Store) -> Type:
    """The type of what a load or store moves, its mask checked."""
    base, offset, mask = op.base.type, op.offset.type, op.mask
    shape = element_type(offset)
    if shape.element is not i32 and shape.element.name != "i64":
        raise op.invalid(f"offsets are i32 or i64, not {shape.element}", at="offset")
    if mask is not None and mask.type is not shape.with_element(bool_):
        raise op.invalid(f"the mask is {mask.type}, but the offset is {offset}", at="mask")
    if not isinstance(base, Ptr):
        raise op.invalid(f"{base} is no pointer", at="base")
    return shape.with_element(base.element)


def _check_staged(op: Op, tile: Type, staged: Type, at: str) -> None:
    if (
        not isinstance(tile, Tile)
        or not isinstance(staged, Staged)
        or (tile.shape, tile.element) != (staged.shape, staged.element)
    ):
        raise op.invalid(f"{tile} and {staged} differ in shape or dtype", at=at)
