"""Tile IR: what one program instance does with whole tiles, no threads in sight."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import ClassVar

from iris.ir.attributes import Boolean, Integer, Integers, OneOf, String
from iris.ir.core import Effect, Level, Op, Resource, Value
from iris.ir.declare import (
    BOOLEANS,
    ELEMENTS,
    INTEGER,
    INTEGERS,
    MATRIX,
    NUMBERS,
    POINTER,
    STAGED,
    TILES,
    Access,
    attribute,
    operand,
    optional,
    result,
    variadic,
)
from iris.ir.effects import ACQUIRES, RELEASES, VOLATILE
from iris.ir.kinds import COLLECTED_BITS, AtomicKind, ReduceKind, ScanKind
from iris.ir.layout.reduce import reduce_axis
from iris.ir.layout.spread import spread
from iris.ir.math import element_type
from iris.ir.types import MAX_RANK, DType, Ptr, Staged, Tile, Type, bool_, f32, i32, i64


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
    """A scalar, or a tile with sizes of 1, broadcast to a larger tile.

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
            raise self.invalid(f"{source} cannot be broadcast to {target}", at="result")
        if not isinstance(source, Tile):
            return
        wanted = target.layout and spread(target.layout, source.shape).layout
        if source.layout != wanted:
            raise self.invalid(f"the operand needs the layout {wanted}", at="x")


class Load(TileOp):
    """Elements of an array; a masked lane touches no memory and yields `other`.

    %x: tile<64xf32> = tile.load %X, %offsets, mask=%inside, other=%zero

    A `volatile` one reads memory each time that the program comes to it, once for each element,
    as an atomic op does: it may see what another program has written since.
    """

    name = "tile.load"
    volatile: bool = attribute(Boolean(), False)
    base: Value = operand(POINTER, access=Access.READ)
    offset: Value = operand(INTEGERS)
    mask: Value | None = optional(BOOLEANS)
    other: Value | None = optional(ELEMENTS)
    result: Value = result()

    def infer(self) -> tuple[Type, ...]:
        type_ = _accessed(self)
        if self.mask is not None and self.other is None:
            raise self.invalid("a mask needs other=, the value of masked elements", at="mask")
        if self.other is not None:
            _check_stored(self, self.other, type_, "other")
        return (type_,)

    def effects(self) -> Sequence[Effect]:
        return [*super().effects(), *((VOLATILE, ACQUIRES) if self.volatile else ())]


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
        _check_stored(self, self.value, type_, "value")
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


class NumPrograms(TileOp):
    """How many programs there are, along an axis of the grid.

    %rows: i32 = tile.num_programs 0
    """

    name = "tile.num_programs"
    axis: int = attribute(Integer(0, 2))
    result: Value = result()

    def infer(self) -> tuple[Type, ...]:
        return (i32,)


class Extent(TileOp):
    """The size of the array behind an argument, along an axis.

    %m: i32 = tile.extent 0 %A
    """

    name = "tile.extent"
    axis: int = attribute(Integer(0, 7))
    base: Value = operand(POINTER)
    result: Value = result()

    def infer(self) -> tuple[Type, ...]:
        return (i32,)


class ExpandDims(TileOp):
    """The same tile with a dimension of size 1 put in at an axis.

    %column: tile<64x1xf32> = tile.expand_dims 1 %x
    """

    name = "tile.expand_dims"
    axis: int = attribute(Integer(0, MAX_RANK - 1))
    x: Value = operand(TILES)
    result: Value = result()

    def infer(self) -> tuple[Type, ...]:
        x = _tile(self.x)
        if self.axis > len(x.shape):
            raise self.invalid(f"{x} has no place for an axis {self.axis}", at="axis")
        if len(x.shape) == MAX_RANK:
            raise self.invalid(f"{x} has {MAX_RANK} dimensions already", at="x")
        layout = x.layout and x.layout.expand(self.axis)
        return (Tile((*x.shape[: self.axis], 1, *x.shape[self.axis :]), x.element, layout),)


class Reshape(TileOp):
    """The same elements, in row-major order, as a tile of another shape.

    %flat: tile<2048xf32> = tile.reshape %x
    """

    name = "tile.reshape"
    x: Value = operand(TILES)
    result: Value = result(TILES)

    def check(self) -> None:
        x, to = _tile(self.x), _tile(self.result)
        if x.element is not to.element or prod(x.shape) != prod(to.shape):
            raise self.invalid(f"{x} and {to} differ in dtype or number of elements", at="result")
        if to.layout != (x.layout and x.layout.reshape(to.shape)):
            raise self.invalid(f"{x} and {to} do not hold the same elements", at="result")


class Transpose(TileOp):
    """The axes in another order: axis i of the result is axis `permutation[i]` of the operand.

    %xt: tile<32x64xf32> = tile.transpose [1, 0] %x
    """

    name = "tile.transpose"
    permutation: tuple[int, ...] = attribute(Integers())
    x: Value = operand(TILES)
    result: Value = result()

    def infer(self) -> tuple[Type, ...]:
        x = _tile(self.x)
        if sorted(self.permutation) != list(range(len(x.shape))):
            axes = ", ".join(map(str, range(len(x.shape))))
            raise self.invalid(f"the axes of {x} are {axes}, in any order", at="permutation")
        layout = x.layout and x.layout.transpose(self.permutation)
        return (Tile(tuple(x.shape[i] for i in self.permutation), x.element, layout),)


class Flip(TileOp):
    """The elements in reverse order along an axis.

    %last_first: tile<64xf32> = tile.flip 0 %x
    """

    name = "tile.flip"
    axis: int = attribute(Integer(0, MAX_RANK - 1))
    x: Value = operand(TILES)
    result: Value = result()

    def infer(self) -> tuple[Type, ...]:
        x = _tile(self.x)
        _check_axis(self, x)
        return (x,)


class Pick(TileOp):
    """The elements at one index along an axis, which goes away.

    %odd: tile<32xf32> = tile.pick 1 1 %pairs
    """

    name = "tile.pick"
    axis: int = attribute(Integer(0, MAX_RANK - 1))
    index: int = attribute(Integer(0, 2**31 - 1))
    x: Value = operand(TILES)
    result: Value = result()

    def infer(self) -> tuple[Type, ...]:
        x = _tile(self.x)
        _check_axis(self, x)
        if self.index >= x.shape[self.axis]:
            raise self.invalid(f"{x} has no index {self.index} along axis {self.axis}", at="index")
        return (_without_axis(x, self.axis, x.element),)


class Gather(TileOp):
    """Elements by their indices along an axis: element [i, j] of a gather along axis 0 is
    x[index[i, j], j].  An index outside the axis is a program error.

    %found: tile<16x8xf32> = tile.gather 0 %x, %index
    """

    name = "tile.gather"
    axis: int = attribute(Integer(0, MAX_RANK - 1))
    x: Value = operand(TILES)
    index: Value = operand(INTEGERS)
    result: Value = result()

    def infer(self) -> tuple[Type, ...]:
        x, index = _tile(self.x), _tile(self.index)
        _check_axis(self, x)
        a, b = ((len(s), s[: self.axis], s[self.axis + 1 :]) for s in (x.shape, index.shape))
        if a != b:
            message = f"{index} and {x} differ in more than their sizes along axis {self.axis}"
            raise self.invalid(message, at="index")
        return (Tile(index.shape, x.element, index.layout),)

    def may_speculate(self) -> bool:
        return False  # there may be no such index


class MaskedLoad(TileOp):
    """Elements of an array; the masked ones do not count in any op that uses them.

    %x: tile<64xf32> = tile.masked_load %X, %offsets, %inside

    The table in docs/language.md says what each op does with them.  `follow-masks` replaces it by a
    load, and adds selects where masked elements must not count.
    """

    name = "tile.masked_load"
    base: Value = operand(POINTER, access=Access.READ)
    offset: Value = operand(INTEGERS)
    mask: Value = operand(BOOLEANS)
    result: Value = result()

    def infer(self) -> tuple[Type, ...]:
        return (_accessed(self),)


class Update(TileOp):
    """A variable after an assignment: the new elements, but the old ones where the new are masked.

    %s: tile<64xf32> = tile.update %old, %new

    `follow-masks` makes a select of it where masks differ, else `new`.
    """

    name = "tile.update"
    old: Value = operand(ELEMENTS)
    new: Value = operand(ELEMENTS)
    result: Value = result()

    def infer(self) -> tuple[Type, ...]:
        return (self.new.type,)

    def check(self) -> None:
        if self.old.type is not self.new.type:
            raise self.invalid(
                f"old and new must have one type, not {self.old.type} and {self.new.type}", at="old"
            )


class TileAccess(TileOp):
    """The base of ops that load or store a block: a tile of an array, from an offset on."""

    base: Value = operand(POINTER)
    limit: Value | None = optional(INTEGER)
    offsets: tuple[Value, ...] = variadic(INTEGER)
    strides: tuple[Value, ...] = variadic(INTEGER)
    bounds: tuple[Value, ...] = variadic(INTEGER)

    tile_field: ClassVar[str]  # which field is the tile

    @property
    def block(self) -> Tile:
        """The type of the tile."""
        return _tile(getattr(self, self.tile_field))

    def check(self) -> None:
        """The tile fits the pointer, with an offset, a stride and a bound for each dimension."""
        block, base = self.block, self.base.type
        if not isinstance(base, Ptr) or base.element is not block.element:
            raise self.invalid(f"{block} does not go with {base}", at=self.tile_field)
        rank = len(block.shape)
        if len(self.offsets) != rank:
            raise self.invalid(
                f"{block} needs {rank} offsets, strides and bounds, not {len(self.offsets)}",
                at=self.tile_field,
            )
        self._check_numbers()

    @property
    def index_type(self) -> DType:
        """The type of the indices along all axes."""
        return element_type(self.offsets[0].type).element

    def _check_numbers(self) -> None:
        limit = () if self.limit is None else (self.limit,)
        numbers = [
            (field, index, value.type)
            for field, values in (
                ("offsets", self.offsets),
                ("strides", self.strides),
                ("bounds", self.bounds),
                ("limit", limit),
            )
            for index, value in enumerate(values)
        ]
        types = [type_ for _, _, type_ in numbers]
        usual = max(types, key=types.count)
        for field, index, type_ in numbers:
            if type_ is not usual or type_ not in (i32, i64):
                found = type_ if type_ is usual else f"{usual} and {type_}"
                message = f"the numbers of a block are all i32 or all i64, not {found}"
                raise self.invalid(message, at=field, index=index)


class LoadTile(TileAccess):
    """A tile of a matrix, or of an array of more dimensions, read from an offset on.

    %x: tile<64x32xf16> = tile.load_tile %A, offsets=[%i, %k], strides=[%s, %c1], bounds=[%m, %n]

    An element whose index is outside 0 to `bounds`, or that lies at `limit` or beyond, reads 0.
    These numbers are all i32 or all i64.
    """

    name = "tile.load_tile"
    base: Value = operand(POINTER, access=Access.READ)
    result: Value = result(TILES)
    tile_field = "result"


class StoreTile(TileAccess):
    """Writes a tile to an array; the elements that `load_tile` would not read are not written.

    tile.store_tile %C, %acc, offsets=[%i, %j], strides=[%n, %c1], bounds=[%m, %n]
    """

    name = "tile.store_tile"
    base: Value = operand(POINTER, access=Access.WRITE)
    value: Value = operand(TILES)
    tile_field = "value"

    def infer(self) -> tuple[Type, ...]:
        return ()


class Atomic(TileOp):
    """Combines elements of an array with a value, each in one step, and gives the old elements.

    %old: tile<64xi32> = tile.atomic add %Bins, %bin, %ones, mask=%inside

    A masked lane touches no memory and gives 0.  With `bins`, offsets are less than these, nobody
    uses the old elements, and a program adds up its values in threadgroup memory first.
    """

    name = "tile.atomic"
    kind: AtomicKind = attribute(OneOf(AtomicKind))
    bins: int = attribute(Integer(0), 0)
    base: Value = operand(POINTER, access=Access.UPDATE)
    offset: Value = operand(INTEGERS)
    value: Value = operand(ELEMENTS)
    mask: Value | None = optional(BOOLEANS)
    result: Value = result()

    def infer(self) -> tuple[Type, ...]:
        type_ = _accessed(self)
        _check_stored(self, self.value, type_, "value")
        bitwise = self.kind in (AtomicKind.AND, AtomicKind.OR, AtomicKind.XOR)
        if bitwise and element_type(type_).element.is_float:
            raise self.invalid(f"{self.kind.value} is not for floats", at="kind")
        return (type_,)

    def check(self) -> None:
        if self.bins and (self.kind is not AtomicKind.ADD or self.result.users):
            raise self.invalid("bins are for sums whose old elements nobody uses", at="bins")
        if self.bins and self.result.type.element.bits != COLLECTED_BITS:
            raise self.invalid(f"bins are of {COLLECTED_BITS} bits", at="bins")

    def effects(self) -> Sequence[Effect]:
        return [*super().effects(), _shown(self)]


class AtomicCas(TileOp):
    """Writes a value where an element is the expected one, in one step; gives the old elements.

    %old: i32 = tile.atomic_cas %Lock, %i, %free, %taken
    """

    name = "tile.atomic_cas"
    base: Value = operand(POINTER, access=Access.UPDATE)
    offset: Value = operand(INTEGERS)
    expected: Value = operand(ELEMENTS)
    value: Value = operand(ELEMENTS)
    mask: Value | None = optional(BOOLEANS)
    result: Value = result()

    def infer(self) -> tuple[Type, ...]:
        type_ = _accessed(self)
        _check_stored(self, self.expected, type_, "expected")
        _check_stored(self, self.value, type_, "value")
        return (type_,)

    def effects(self) -> Sequence[Effect]:
        return [*super().effects(), _shown(self)]


class Dot(TileOp):
    """The matrix product, of each pair of matrices along any axes before the last two, added to
    `acc` if that is given.

    %acc2: tile<64x64xf32> = tile.dot %a, %b, acc=%acc

    The result has the dtype of `acc`, else f32 for floats and i32 for integers; floats are summed
    in f32, in any order.  An operand may be a staged tile, which is read where it is.  With `tf32`
    operands of f32 are numbers of tf32, or nan, so that hardware may multiply them as such.
    """

    name = "tile.dot"
    tf32: bool = attribute(Boolean(), False)
    a: Value = operand(MATRIX)
    b: Value = operand(MATRIX)
    acc: Value | None = optional(TILES)
    result: Value = result()

    def infer(self) -> tuple[Type, ...]:
        a, b = matrix_type(self.a), matrix_type(self.b)
        if len(a.shape) < 2:
            raise self.invalid(f"{a} is no matrix", at="a")
        if b.shape[:-1] != (*a.shape[:-2], a.shape[-1]):
            raise self.invalid(f"{a} and {b} do not multiply", at="b")
        if a.element is not b.element or a.element is bool_:
            raise self.invalid(f"{a.element} and {b.element} do not multiply", at="b")
        if self.tf32 and a.element is not f32:
            raise self.invalid(f"operands of tf32 are of f32, not of {a.element}", at="tf32")
        shape = (*a.shape[:-1], b.shape[-1])
        if self.acc is None:
            return (Tile(shape, f32 if a.element.is_float else i32),)
        acc = _tile(self.acc)
        if acc.shape != shape or acc.element.is_float is not a.element.is_float:
            raise self.invalid(f"the product of {a} and {b} cannot be added to {acc}", at="acc")
        return (acc,)

    def effects(self) -> Sequence[Effect]:
        staged = (v for v in (self.a, self.b) if isinstance(v.type, Staged))
        return [Effect(Access.READ, v) for v in staged]


class Reduce(TileOp):
    """One value for all elements along an axis, which goes away.

    %row_max: tile<64xf32> = tile.reduce maxnum 1 %x

    `maxnum` and `minnum` drop nan, `maximum` and `minimum` give it. `argmax` and `argmin` give the
    first place of the extremum, where nan is the most extreme. With `places`, the least of the
    places given for it: they replace the indices along the axis. Sums and products of f16 and bf16
    are made in f32, in any order, and rounded once.
    """

    name = "tile.reduce"
    kind: ReduceKind = attribute(OneOf(ReduceKind))
    axis: int = attribute(Integer(0, MAX_RANK - 1))
    x: Value = operand(TILES)
    places: Value | None = optional(TILES)
    result: Value = result()

    def infer(self) -> tuple[Type, ...]:
        x = _tile(self.x)
        _check_axis(self, x)
        truth = self.kind in (ReduceKind.ANY, ReduceKind.ALL)
        if truth is not (x.element is bool_):
            raise self.invalid(f"{self.kind.value} does not apply to {x.element}", at="x")
        gives_places = self.kind in (ReduceKind.ARGMAX, ReduceKind.ARGMIN)
        element = i32 if gives_places else x.element
        if self.places is not None:
            if not gives_places:
                raise self.invalid(f"{self.kind.value} does not give places", at="places")
            _check_stored(self, self.places, x.with_element(i32), "places")
        return (_without_axis(x, self.axis, element),)


class Scan(TileOp):
    """The reduction of the elements up to and with each one along an axis.

    %running: tile<64xi32> = tile.scan sum 0 %x
    """

    name = "tile.scan"
    kind: ScanKind = attribute(OneOf(ScanKind))
    axis: int = attribute(Integer(0, MAX_RANK - 1))
    x: Value = operand(NUMBERS)
    result: Value = result()

    def infer(self) -> tuple[Type, ...]:
        x = _tile(self.x)
        _check_axis(self, x)
        return (x,)


class Assert(TileOp):
    """Reports a program error where a condition does not hold.

    tile.assert "index out of range" %inside
    """

    name = "tile.assert"
    message: str = attribute(String())
    condition: Value = operand(BOOLEANS)

    def infer(self) -> tuple[Type, ...]:
        return ()

    def effects(self) -> Sequence[Effect]:
        return (Effect(Access.WRITE, Resource.REPORT),)


class Print(TileOp):
    """Reports values, after a prefix.

    tile.print "row" %row, %max
    """

    name = "tile.print"
    prefix: str = attribute(String())
    values: tuple[Value, ...] = variadic(ELEMENTS)

    def infer(self) -> tuple[Type, ...]:
        return ()

    def effects(self) -> Sequence[Effect]:
        return (Effect(Access.WRITE, Resource.REPORT),)


def _shown(op: Atomic | AtomicCas) -> Effect:
    """What an atomic op has to do with the memory of other programs."""
    return ACQUIRES if op.result.users else RELEASES


def _tile(value: Value) -> Tile:
    return value.type_as(Tile)


def matrix_type(value: Value) -> Tile | Staged:
    """The type of an operand of a product."""
    return value.type if isinstance(value.type, Staged) else value.type_as(Tile)


def _without_axis(x: Tile, axis: int, element: DType) -> Type:
    """The type of one element for all along an axis."""
    shape = x.shape[:axis] + x.shape[axis + 1 :]
    return (
        Tile(shape, element, x.layout and reduce_axis(x.layout, axis).result) if shape else element
    )


def _check_axis(op: Flip | Gather | Pick | Reduce | Scan, x: Tile) -> None:
    if op.axis >= len(x.shape):
        raise op.invalid(f"{x} has no axis {op.axis}", at="axis")


def _check_stored(op: Op, value: Value, type_: Type, at: str) -> None:
    if value.type is not type_:
        raise op.invalid(f"{at} is {value.type} where {type_} goes", at=at)


def _accessed(op: Load | MaskedLoad | Store | Atomic | AtomicCas) -> Type:
    """The type of what an access moves, its mask checked."""
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
