"""The words of the tile language that touch memory."""

from __future__ import annotations

from os import PathLike
from typing import Any

from iris.errors import ArgumentError, DTypeError, MaskError, PointerError, ShapeError
from iris.frontend.chosen_pointers import ChosenPointer, through
from iris.frontend.language import reshape
from iris.frontend.tracing import current, error_here, rules_as, word
from iris.frontend.values import (
    Address,
    Operand,
    Pointer,
    Traced,
    as_element,
    as_offset,
    as_pointer,
    as_shape,
    as_traced,
    binary,
    broadcast_shapes,
    emit,
    of_one_width,
    spread,
)
from iris.ir import math, tile
from iris.ir.kinds import AtomicKind
from iris.ir.types import Tile, bool_


def _address(pointer: Pointer, mask: object) -> tuple[Traced, Traced | None]:
    """An offset and a mask of one shape."""
    offset = pointer.offset if pointer.offset is not None else as_offset(0)
    if mask is None or mask is True:
        return offset, None
    condition = as_traced(mask)
    if condition.dtype is not bool_:
        raise error_here(DTypeError, f"a mask is made of bools, not {condition.dtype}")
    shape = broadcast_shapes(offset.shape, condition.shape)
    return spread(offset, shape), spread(condition, shape)


@word
def load(
    pointer: Address,
    mask: Operand | None = None,
    other: Operand | None = None,
    *,
    volatile: bool = False,
) -> Traced:
    """The elements at a pointer plus offsets.

    Masked elements touch no memory. Without `other` they do not count in what is made of them;
    with it, they are that. A volatile load reads memory each time, so that a loop can wait for
    what another program writes.
    """
    if isinstance(pointer, (str, PathLike)):
        raise error_here(
            ArgumentError,
            "load reads elements of an array inside a kernel; iris.load_kernel opens a kernel that "
            "was saved to a file",
        )
    if not isinstance(volatile, bool):
        raise error_here(ArgumentError, f"volatile= is True or False, not {volatile!r}")
    if isinstance(pointer, ChosenPointer):
        return _load_chosen(pointer, mask, other, volatile)
    source = as_pointer(pointer, "load")
    offset, condition = _address(source, mask)
    if condition is None:
        return emit(tile.Load(source.base, offset.value, volatile=volatile))
    if other is None and volatile:
        raise error_here(MaskError, "a volatile load with a mask needs other=, too")
    if other is None:
        return emit(tile.MaskedLoad(source.base, offset.value, condition.value))
    value = spread(as_element(other, source.element), offset.shape)
    operands = (source.base, offset.value, condition.value, value.value)
    return emit(tile.Load(*operands, volatile=volatile))


def _load_chosen(
    pointer: ChosenPointer, mask: object, other: Operand | None, volatile: bool
) -> Traced:
    """The elements of several arrays."""
    whole = mask is None or mask is True
    # Each element is of an array, but for those that are masked: these do not count in any.
    padding = 0 if whole and other is None else other
    loaded: Traced = through(
        pointer, mask, lambda one, where: load(one, where, padding, volatile=volatile)
    )
    return loaded


@word
def store(pointer: Address, value: Operand, mask: Operand | None = None) -> None:
    """Write elements at a pointer plus offsets, except where masked."""
    if isinstance(pointer, ChosenPointer):
        through(pointer, mask, lambda one, where: store(one, value, where))
        return
    target = as_pointer(pointer, "store")
    offset, condition = _address(target, mask)
    stored = as_element(value, target.element)
    shape = broadcast_shapes(offset.shape, stored.shape)
    operands = [target.base, spread(offset, shape).value, spread(stored, shape).value]
    if condition is not None:
        operands.append(spread(condition, shape).value)
    current().insert(tile.Store(*operands))


@word
def tile_load(
    pointer: Pointer,
    row: Operand,
    col: Operand,
    stride: Operand,
    shape: object,
    rows: Operand | None = None,
    cols: Operand | None = None,
) -> Traced:
    """Load a block of a matrix whose rows are `stride` apart; elements outside it read as 0."""
    source = as_pointer(pointer, "tile_load")
    sizes = as_shape(shape)
    block, leading = _block(source, "tile_load", row, col, stride, sizes, rows, cols)
    type_ = Tile((*leading, *sizes), source.element)
    with rules_as(ShapeError):
        loaded = emit(tile.LoadTile(source.base, *block, type_))
    return reshape(loaded, sizes) if leading else loaded


@word
def tile_store(
    pointer: Pointer,
    row: Operand,
    col: Operand,
    stride: Operand,
    value: Traced,
    shape: object = None,
    rows: Operand | None = None,
    cols: Operand | None = None,
) -> None:
    """Write a block of a matrix whose rows are `stride` apart, except elements outside it."""
    target = as_pointer(pointer, "tile_store")
    stored = as_element(value, target.element)
    sizes = stored.shape if shape is None else as_shape(shape)
    stored = spread(stored, sizes)
    block, leading = _block(target, "tile_store", row, col, stride, sizes, rows, cols)
    if leading:
        stored = reshape(stored, (*leading, *sizes))
    with rules_as(ShapeError):
        limit, *groups = block
        op = tile.StoreTile(target.base, stored.value, limit, *groups)
    current().insert(op)


_UNBOUNDED = 2**31 - 1


def _block(
    pointer: Pointer,
    use: str,
    row: object,
    col: object,
    stride: object,
    shape: tuple[int, ...],
    rows: object,
    cols: object,
) -> tuple[list[Any], tuple[int, ...]]:
    """The limit, offsets, strides and bounds of a block, and sizes of 1 to put before its shape:
    a pointer's own offset is an index along such a leading dimension."""
    if len(shape) != 2:
        raise error_here(ShapeError, f"{use} takes a shape of two sizes, not {shape}")
    if not pointer.spec.rows_are_dense:
        raise error_here(
            PointerError,
            f"{use} takes matrices whose columns are one element apart, but {pointer.name} has "
            f"another column stride; use iris.{use.removeprefix('tile_')} with offsets",
        )
    limit: list[Traced] = []
    given = rows is not None, cols is not None
    if pointer.offset is not None and not all(given):
        raise error_here(
            PointerError,
            f"{use} on {pointer.name} plus an offset needs rows= and cols=: how much of the matrix "
            "is left from there cannot be known, and guessing could touch its neighbour",
        )
    rank = pointer.spec.rank
    if rank == 2:
        rows = _extent(pointer, 0) if rows is None else rows
        cols = _extent(pointer, 1) if cols is None else cols
    elif rank == 1:
        if not all(given):
            limit = [_extent(pointer, 0)]
        rows = _UNBOUNDED if rows is None else rows
        cols = stride if cols is None else cols
    elif not all(given):
        raise error_here(
            PointerError, f"{use} needs rows= and cols= for an array of {rank} dimensions"
        )
    offsets, strides, bounds = [row, col], [stride, 1], [rows, cols]
    leading: tuple[int, ...] = ()
    if pointer.offset is not None:
        if pointer.offset.shape:
            raise error_here(PointerError, f"{use} takes a scalar offset, not {pointer.offset}")
        offsets.insert(0, pointer.offset)
        strides.insert(0, 1)
        bounds.insert(0, binary(math.Add, pointer.offset, 1))
        leading = (1,)
    groups = offsets, strides, bounds, limit
    *made, end = of_one_width([[_scalar(x, use) for x in group] for group in groups])
    return [end[0] if end else None, *made], leading


def _scalar(x: object, use: str) -> Traced:
    index = as_offset(x)
    if index.shape:
        raise error_here(ShapeError, f"{use} takes scalars for its position and size, not {index}")
    return index


def _extent(pointer: Pointer, axis: int) -> Traced:
    size = emit(tile.Extent(axis, pointer.base))
    divisor = pointer.spec.divisors[axis]
    if divisor > 1:
        size = emit(math.AssumeDivisible(divisor, size.value))
    return size


# Atomics.


def _atomic(kind: AtomicKind, pointer: Address, value: object, mask: object) -> Traced:
    if isinstance(pointer, ChosenPointer):
        old: Traced = through(pointer, mask, lambda one, where: _atomic(kind, one, value, where))
        return old
    target = as_pointer(pointer, f"atomic_{kind.value}")
    offset, condition = _address(target, mask)
    operand = as_element(value, target.element)
    shape = broadcast_shapes(offset.shape, operand.shape)
    operands = [target.base, spread(offset, shape).value, spread(operand, shape).value]
    if condition is not None:
        operands.append(spread(condition, shape).value)
    with rules_as(DTypeError):
        return emit(tile.Atomic(kind, *operands))


@word
def atomic_add(pointer: Address, value: Operand, mask: Operand | None = None) -> Traced:
    """Add to elements, each in one step; gives the old ones."""
    return _atomic(AtomicKind.ADD, pointer, value, mask)


@word
def atomic_max(pointer: Address, value: Operand, mask: Operand | None = None) -> Traced:
    """Keep the greater of elements and values; gives the old elements."""
    return _atomic(AtomicKind.MAX, pointer, value, mask)


@word
def atomic_min(pointer: Address, value: Operand, mask: Operand | None = None) -> Traced:
    """Keep the lesser of elements and values; gives the old elements."""
    return _atomic(AtomicKind.MIN, pointer, value, mask)


@word
def atomic_and(pointer: Address, value: Operand, mask: Operand | None = None) -> Traced:
    """Bitwise and into elements; gives the old ones."""
    return _atomic(AtomicKind.AND, pointer, value, mask)


@word
def atomic_or(pointer: Address, value: Operand, mask: Operand | None = None) -> Traced:
    """Bitwise or into elements; gives the old ones."""
    return _atomic(AtomicKind.OR, pointer, value, mask)


@word
def atomic_xor(pointer: Address, value: Operand, mask: Operand | None = None) -> Traced:
    """Bitwise exclusive or into elements; gives the old ones."""
    return _atomic(AtomicKind.XOR, pointer, value, mask)


@word
def atomic_exchange(pointer: Address, value: Operand, mask: Operand | None = None) -> Traced:
    """Put values in the place of elements; gives the old ones."""
    return _atomic(AtomicKind.EXCHANGE, pointer, value, mask)


@word
def atomic_cas(
    pointer: Address, expected: Operand, value: Operand, mask: Operand | None = None
) -> Traced:
    """Put a value in the place of each element that is the expected one; gives the old ones."""
    if isinstance(pointer, ChosenPointer):
        old: Traced = through(
            pointer, mask, lambda one, where: atomic_cas(one, expected, value, where)
        )
        return old
    target = as_pointer(pointer, "atomic_cas")
    offset, condition = _address(target, mask)
    was, becomes = as_element(expected, target.element), as_element(value, target.element)
    shape = broadcast_shapes(offset.shape, was.shape, becomes.shape)
    operands = [target.base, *[spread(x, shape).value for x in (offset, was, becomes)]]
    if condition is not None:
        operands.append(spread(condition, shape).value)
    return emit(tile.AtomicCas(*operands))
